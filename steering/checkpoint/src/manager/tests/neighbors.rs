//! More neighbors than are looked at.

use scry_protocol::link::host::LookAgain;

use super::*;

#[test]
fn neighbors_that_are_too_many_are_left_out_and_told_when_their_number_changes() {
    let options = Options {
        neighbors_max: 2,
        ..quiet()
    };
    let mut world = World::new(5, &options);
    for _ in 0..3 {
        world.gather(0);
        world.deliver();
        let snapshot = world.snapshot();
        let members: Vec<NodeId> = snapshot.members.iter().map(|it| it.node).collect();
        assert_eq!(members, [0, 1, 2].map(node));
        assert_eq!(snapshot.missing, []);
    }
    assert_eq!(world.left_out, [(node(0), 2, 2)]);
    world.node(0).neighbors = [4, 3].map(node).into();
    world.gather(0);
    world.deliver();
    world.snapshots.clear();
    world.node(0).neighbors = [4, 3, 2].map(node).into();
    // The first of them learns of it.
    for _ in 0..2 {
        world.gather(0);
        world.deliver();
    }
    assert_eq!(world.left_out[1..], [(node(0), 1, 2)]);
}

#[test]
fn a_neighborhood_of_hundreds_is_gathered_where_it_is_allowed() {
    let options = Options {
        neighbors_max: 300,
        // So little is kept of each that most states are sent whole.
        exchange_bytes: 2_000,
        ..quiet()
    };
    let mut world = World::new(301, &options);
    for _ in 0..2 {
        world.gather(0);
        world.deliver();
        let snapshot = world.snapshot();
        assert_eq!((snapshot.members.len(), snapshot.missing.len()), (301, 0));
    }
    assert_eq!((world.left_out.len(), world.unreadable.len()), (0, 0));
}

/// Has node 0 look at its neighbors' states, and returns who is shown.
fn look(world: &mut World, question: u64, about: Option<NodeId>) -> Vec<NodeId> {
    let look = LookAgain {
        question,
        number: number(10 * question as u32),
        wait_ms: 20,
        about,
    };
    let now = world.now;
    world.manager(0).handle_host(now, look.into());
    world.deliver();
    world.pass(20);
    world.deliver();
    let (answered, snapshot) = world.looked.pop().expect("it was answered");
    assert_eq!(answered, question);
    snapshot.members.iter().map(|it| it.node).collect()
}

#[test]
fn who_was_silent_is_asked_again_only_where_it_is_what_the_question_is_about() {
    let mut world = World::new(3, &quiet());
    assert_eq!(look(&mut world, 1, None), [0, 1, 2].map(node));
    world.node(1).answers = false;
    assert_eq!(look(&mut world, 2, None), [0, 2].map(node));
    world.node(1).answers = true;
    assert_eq!(look(&mut world, 3, None), [0, 2].map(node));
    assert_eq!(look(&mut world, 4, Some(node(2))), [0, 2].map(node));
    assert_eq!(look(&mut world, 5, Some(node(1))), [0, 1, 2].map(node));
    // It has answered.
    assert_eq!(look(&mut world, 6, None), [0, 1, 2].map(node));
    // So it is when it has asked, or some time has passed.
    for question in [7, 9] {
        world.node(1).answers = false;
        assert_eq!(look(&mut world, question, None), [0, 2].map(node));
        world.node(1).answers = true;
        match question {
            7 => {
                world.gather(1);
                world.deliver();
            }
            _ => world.pass(500),
        }
        assert_eq!(look(&mut world, question + 1, None), [0, 1, 2].map(node));
    }
}
