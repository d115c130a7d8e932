//! CrystalBall Figure 11: a successor between the predecessor and the node.

use chord::properties::ORDER;
use scry::{NodeId, Simulation};

use crate::world::{self, assert_safe, ids, node, play, start, story, violated};

/// Steps from the start state to the violation.
const DEPTH: usize = 3;

fn play_figure_11(simulation: &mut Simulation<chord::Chord>) {
    play(simulation, 2, "timer Stabilize");
    play(simulation, 3, "GetPred from n2");
    play(
        simulation,
        2,
        "GetPredReply { predecessor: Some(n2), successors: [n1, n2] } from n3",
    );
    assert_eq!(node(simulation, 2).successors, ids(&[3, 1]));
}

#[test]
fn with_the_bug_the_new_list_contradicts_the_old_predecessor() {
    let mut simulation = start("c2", &["ordering"]);
    play_figure_11(&mut simulation);
    assert_eq!(node(&simulation, 2).predecessor, Some(NodeId::new(3)));
    assert_eq!(violated(&simulation), [ORDER]);
}

#[test]
fn without_the_bug_the_predecessor_follows_the_list() {
    let mut simulation = start("c2", &[]);
    play_figure_11(&mut simulation);
    assert_eq!(node(&simulation, 2).predecessor, Some(NodeId::new(1)));
    assert_eq!(violated(&simulation), [""; 0]);
}

#[test]
fn a_search_finds_it_at_its_depth() {
    let search = world::search(start("c2", &["ordering"]), DEPTH);
    let violation = search.violation.expect("the search finds the bug");
    assert_eq!(violation.path.len(), DEPTH, "{}", story(&violation.path));
    assert_eq!(violation.properties, [ORDER]);
}

#[test]
fn a_search_finds_nothing_when_fixed() {
    let states = assert_safe(start("c2", &[]), DEPTH + 6);
    assert!(states > 1_000, "only {states} states were visited");
}
