//! Arithmetic of the ring: keys are the 32-bit numbers in a circle, and a node sits at the key that is its id.

use scry::NodeId;

/// A point of the ring.
pub type Key = u32;

/// Returns how far `to` is from `from`, clockwise.
pub fn distance(from: Key, to: Key) -> u32 {
    to.wrapping_sub(from)
}

/// Tells whether a clockwise walk from `start` to `end` passes `key` strictly in between. The walk from a point to
/// itself is once around.
pub fn between(start: Key, key: Key, end: Key) -> bool {
    let reached = distance(start, key);
    reached != 0 && (start == end || reached < distance(start, end))
}

/// Puts nodes into the order in which a clockwise walk from `start` meets them, each once.
pub fn order(start: Key, nodes: &mut Vec<NodeId>) {
    nodes.sort_unstable_by_key(|node| distance(start, node.get()));
    nodes.dedup();
}

/// Returns the nodes that serve `start` as fingers: for each distance the first known node at or after that point, if
/// one comes before the walk is back at `start`. In ring order, each once.
pub fn fingers(start: Key, distances: &[u32], known: &[NodeId]) -> Vec<NodeId> {
    let mut found: Vec<NodeId> = distances
        .iter()
        .filter_map(|&step| {
            let target = start.wrapping_add(step);
            known
                .iter()
                .copied()
                .filter(|node| distance(target, node.get()) < distance(target, start))
                .min_by_key(|node| distance(target, node.get()))
        })
        .collect();
    order(start, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(numbers: &[u32]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId::new).collect()
    }

    #[test]
    fn a_walk_passes_what_lies_on_its_way_and_neither_end() {
        assert!(between(1, 2, 3));
        assert!(!between(1, 1, 3));
        assert!(!between(1, 3, 3));
        assert!(!between(3, 2, 1));
        assert!(between(3, 4, 1), "past the highest node");
        assert!(between(3, 0, 1), "past zero");
        assert!(between(u32::MAX, 0, 1));
    }

    #[test]
    fn a_walk_back_to_its_start_passes_everything_else() {
        assert!(between(5, 6, 5));
        assert!(between(5, 4, 5));
        assert!(!between(5, 5, 5));
    }

    #[test]
    fn nodes_are_ordered_as_a_walk_meets_them() {
        let mut met = nodes(&[1, 9, 4, 9, 2]);
        order(3, &mut met);
        assert_eq!(met, nodes(&[4, 9, 1, 2]));
    }

    #[test]
    fn a_finger_is_the_first_known_node_at_or_after_its_distance() {
        let known = nodes(&[2, 5, 9]);
        assert_eq!(fingers(1, &[1, 4, 8], &known), nodes(&[2, 5, 9]));
        assert_eq!(fingers(1, &[2, 3, 4], &known), nodes(&[5]));
        assert_eq!(fingers(5, &[8], &known), nodes(&[2]), "over zero");
        assert_eq!(fingers(1, &[16], &known), nodes(&[]), "the node itself");
    }
}
