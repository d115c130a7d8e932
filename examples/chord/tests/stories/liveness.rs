//! MaceMC §6: a ring that never closes, because learning of a node changes one pointer and not the other.

use chord::properties::{SELF_POINTERS, SELF_SUCCESSOR};
use chord::scenarios::Options;
use chord::{Call, Chord, Timer};
use scry::{Act, NodeId, Simulation};

use crate::world::{self, is_one_ring, node, start, story};

/// Everyone joins, then everyone stabilizes for a number of rounds.
fn settled(bugs: &[&'static str], rounds: usize) -> Simulation<Chord> {
    let system = world::system("liveness", bugs, None, &Options::default());
    let everyone: Vec<NodeId> = system.setups.keys().copied().collect();
    let mut script = Vec::new();
    for &node in &everyone {
        script.extend([Act::Call(node, Call::Join), Act::Settle]);
    }
    for &node in everyone.iter().cycle().take(rounds * everyone.len()) {
        script.extend([Act::Timer(node, Timer::Stabilize), Act::Settle]);
    }
    system.script(script).start().expect("the script runs").0
}

#[test]
fn with_the_bug_client0_stays_its_own_successor_for_ever() {
    let after_one = settled(&["stale-successor"], 1);
    let successors = |simulation: &Simulation<Chord>| {
        [0, 1, 2].map(|id| node(simulation, id).successor.map(NodeId::get))
    };
    // The others' pointers lead from client1 to client2 to client0, and client0's predecessor looks right to client2.
    assert_eq!(successors(&after_one), [Some(0), Some(2), Some(0)]);
    assert_eq!(node(&after_one, 0).predecessor, Some(NodeId::new(2)));
    assert!(!is_one_ring(&after_one));
    // Another round changes nothing, so no number of rounds does.
    assert!(settled(&["stale-successor"], 3) == settled(&["stale-successor"], 2));
}

#[test]
fn without_the_bug_the_ring_closes_and_stays_closed() {
    for rounds in 2..6 {
        assert!(is_one_ring(&settled(&[], rounds)), "after {rounds} rounds");
    }
}

#[test]
fn the_safety_property_derived_from_it_is_broken_at_the_first_join() {
    let search = world::search(start("liveness", &["stale-successor"]), 5);
    let violation = search.violation.expect("the search finds the bug");
    assert_eq!(violation.path.len(), 5, "{}", story(&violation.path));
    assert_eq!(violation.properties, [SELF_POINTERS, SELF_SUCCESSOR]);
}

#[test]
fn a_search_finds_nothing_when_fixed() {
    world::assert_safe(start("liveness", &[]), 8);
}
