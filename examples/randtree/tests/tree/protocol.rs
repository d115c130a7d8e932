//! The protocol's ordinary days: passing on, taking in, merging, mending.

use std::collections::BTreeSet;

use randtree::scenarios::Options;
use randtree::{Announce, Message, Mode, Setup};
use scry::{Event, NodeId, Service};

use crate::support::{Story, faults, id, system, unfinished};

fn is_join(message: &Message) -> bool {
    matches!(message, Message::Join { .. })
}

/// A fresh cluster in which the nodes join one after the other.
fn grown(nodes: u32, degree: u32) -> Story {
    let options = Options {
        degree: Some(degree),
        ..Options::default()
    };
    let mut story = Story::from(&system("fresh", &[], Some(nodes), &options));
    for node in 1..=nodes {
        story.join(node, &[]).settle();
    }
    assert_eq!(unfinished(&story.simulation), None);
    story
}

#[test]
fn a_full_root_passes_a_request_to_any_of_its_children() {
    let options = Options::default();
    for (pick, parent) in [(0, 2), (1, 3)] {
        let mut story = Story::from(&system("fresh", &[], Some(4), &options));
        for node in 1..=3 {
            story.join(node, &[]).settle();
        }
        story.join(4, &[]).receives(1, 4, is_join, &[pick]).settle();
        assert_eq!(story.state(4).parent, Some(id(parent)));
        assert_eq!(story.state(4).root, Some(id(1)));
        assert_eq!(unfinished(&story.simulation), None);
    }
}

#[test]
fn only_older_children_of_the_root_learn_of_a_sibling() {
    let story = grown(5, 3);
    let siblings = |node| story.state(node).siblings.iter().map(|s| s.get()).collect();
    let seen: Vec<Vec<u32>> = (1..=5).map(siblings).collect();
    assert_eq!(seen, [vec![], vec![3, 4], vec![4], vec![], vec![]]);
    assert_eq!(story.state(5).parent, Some(id(2)));
    let neighbors = story
        .state(2)
        .neighbors(id(2), &Setup::default())
        .expect("the tree knows");
    assert_eq!(neighbors, [1, 3, 4, 5].map(id));
}

#[test]
fn two_founders_find_each_other_and_the_less_eligible_gives_way() {
    for announce in [Announce::AfterReply, Announce::AtOnce] {
        let options = Options {
            announce: Some(announce),
            ..Options::default()
        };
        let mut system = system("fresh", &[], Some(4), &options);
        for setup in system.setups.values_mut() {
            setup.bootstrap = vec![id(1), id(2)];
        }
        let mut story = Story::from(&system);
        // Both pick themselves, 3 picks 1 and 4 picks 2.
        for (node, pick) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
            story.join(node, &[pick]).settle();
        }
        assert!(story.state(1).is_root(id(1)) && story.state(2).is_root(id(2)));
        story.timer(2).settle();
        assert_eq!(unfinished(&story.simulation), None);
        assert_eq!(story.state(2).parent, Some(id(1)));
        assert_eq!(story.state(4).parent, Some(id(2)));
        assert_eq!(story.state(4).root, Some(id(1)));
        let peers: BTreeSet<NodeId> = (1..=4).flat_map(|n| story.state(n).peers.clone()).collect();
        assert!(
            peers.len() <= 1,
            "who is in the same tree is not probed for long: {peers:?}"
        );
    }
}

#[test]
fn a_node_that_loses_its_parent_goes_back_to_the_root_with_its_children() {
    let mut story = grown(4, 1);
    story.simulation.set_faults(faults(0, 0, 1));
    story.take(3, Event::Break { peer: id(2) }, &[]);
    assert_eq!(story.state(3).mode, Mode::Joining);
    assert_eq!(story.state(3).children, BTreeSet::from([id(4)]));
    story.learns_of_loss(2, 3).settle();
    assert_eq!(unfinished(&story.simulation), None);
    assert_eq!(story.state(3).parent, Some(id(2)));
}

#[test]
fn a_root_that_was_reset_and_comes_back_is_root_again() {
    let mut story = grown(4, 3);
    story.simulation.set_faults(faults(1, 0, 0));
    story.reset(1).settle();
    let promoted = (2..=4).filter(|&node| story.state(node).is_root(id(node)));
    assert_eq!(promoted.count(), 3, "each child takes its place");
    story.join(1, &[]).settle();
    for node in 2..=4 {
        story.timer(node).settle();
    }
    assert_eq!(unfinished(&story.simulation), None);
    assert!(story.state(1).is_root(id(1)));
}
