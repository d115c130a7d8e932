//! CrystalBall Figure 10: a node takes itself for its predecessor while it has other successors.

use chord::properties::{SELF_POINTERS, SELF_PREDECESSOR};
use scry::{Event, NodeId, Simulation};

use crate::world::{self, assert_safe, ids, node, play, start, story, violated};

/// Steps from the start state to the violation.
const DEPTH: usize = 6;

fn play_figure_10(simulation: &mut Simulation<chord::Chord>) {
    play(simulation, 3, "reset");
    // Of its contacts n2 and n1 it asks the second.
    let tosses = scry::model::Tosses {
        picks: vec![(2, 1)],
        draws: Vec::new(),
    };
    world::take(
        simulation,
        NodeId::new(3),
        Event::Call(chord::Call::Join),
        tosses,
    );
    play(simulation, 1, "FindPred { asker: n3, key: 3 } from n3");
    play(
        simulation,
        3,
        "FindPredReply { key: 3, successors: [n3, n4] } from n1",
    );
    assert_eq!(node(simulation, 3).predecessor, Some(NodeId::new(1)));
    assert_eq!(node(simulation, 3).successors, ids(&[4]));
    play(simulation, 3, "connection to n1 breaks");
    assert_eq!(node(simulation, 3).predecessor, None);
}

#[test]
fn with_the_bug_the_loop_back_notice_makes_n3_its_own_predecessor() {
    let mut simulation = start("c1", &["self-predecessor"]);
    play_figure_10(&mut simulation);
    play(&mut simulation, 3, "UpdatePred from n3");
    assert_eq!(node(&simulation, 3).predecessor, Some(NodeId::new(3)));
    assert_eq!(node(&simulation, 3).successors, ids(&[4]));
    assert_eq!(violated(&simulation), [SELF_POINTERS, SELF_PREDECESSOR]);
}

#[test]
fn without_the_bug_n3_notifies_n4_and_not_itself() {
    let mut simulation = start("c1", &[]);
    play_figure_10(&mut simulation);
    let own = &simulation.nodes()[&NodeId::new(3)].inbox;
    assert!(own.streams().all(|(from, _)| from != NodeId::new(3)));
    play(&mut simulation, 4, "UpdatePred from n3");
    assert_eq!(node(&simulation, 4).predecessor, Some(NodeId::new(3)));
    assert_eq!(violated(&simulation), [""; 0]);
}

#[test]
fn a_search_finds_it_at_its_depth() {
    let search = world::search(start("c1", &["self-predecessor"]), DEPTH);
    let violation = search.violation.expect("the search finds the bug");
    assert_eq!(violation.path.len(), DEPTH, "{}", story(&violation.path));
    assert_eq!(violation.properties, [SELF_POINTERS, SELF_PREDECESSOR]);
}

#[test]
fn a_search_finds_nothing_when_fixed() {
    let states = assert_safe(start("c1", &[]), DEPTH);
    assert!(states > 1_000, "only {states} states were visited");
}
