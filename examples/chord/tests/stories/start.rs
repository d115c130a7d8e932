//! The start states are the ones the papers describe.

use scry::NodeId;

use crate::world::{ids, node, start, violated};

#[test]
fn c1_starts_with_a_ring_of_which_n2_was_just_lost() {
    for bugs in [&[][..], &["self-predecessor"]] {
        let start = start("c1", bugs);
        assert_eq!(node(&start, 1).successors, ids(&[3, 4]));
        assert_eq!(node(&start, 1).predecessor, Some(NodeId::new(4)));
        assert_eq!(node(&start, 3).successors, ids(&[4, 1]));
        assert_eq!(node(&start, 3).predecessor, None);
        assert_eq!(node(&start, 4).successors, ids(&[1, 3]));
        let peers: Vec<NodeId> = start.nodes()[&NodeId::new(1)].links.peers().collect();
        assert!(
            !peers.contains(&NodeId::new(3)),
            "n1 has no connection to n3, only {peers:?}"
        );
        assert!(start.nodes().values().all(|node| node.inbox.is_empty()));
        assert_eq!(violated(&start), [""; 0]);
    }
}

#[test]
fn c2_starts_with_two_nodes_that_each_know_only_the_third() {
    for bugs in [&[][..], &["ordering"]] {
        let start = start("c2", bugs);
        for joined in [1, 2] {
            assert_eq!(node(&start, joined).successors, ids(&[3]));
            assert_eq!(node(&start, joined).predecessor, Some(NodeId::new(3)));
        }
        assert_eq!(node(&start, 3).predecessor, Some(NodeId::new(2)));
        assert_eq!(node(&start, 3).successor, Some(NodeId::new(1)));
        assert!(start.nodes().values().all(|node| node.inbox.is_empty()));
        assert_eq!(violated(&start), [""; 0]);
    }
}
