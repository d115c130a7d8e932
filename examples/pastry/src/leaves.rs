//! The leaf set: the nodes next to a node on the circle, on both sides.

use scry::NodeId;

/// Returns how far `to` is from `from`, clockwise.
fn clockwise(from: NodeId, to: NodeId) -> u32 {
    to.get().wrapping_sub(from.get())
}

/// Returns how far two places are apart, the shorter way.
fn apart(a: NodeId, b: NodeId) -> u32 {
    clockwise(a, b).min(clockwise(b, a))
}

/// Returns the node closest to a key; of two that are equally close, the one with the lower id.
pub fn closest(key: NodeId, nodes: impl Iterator<Item = NodeId>) -> Option<NodeId> {
    nodes.min_by_key(|&node| (apart(key, node), node))
}

/// Splits the nodes known to `me` into those on its left and on its right, nearest first. Where they are few, so that the sides
/// meet, each node is on one side only.
pub fn split(me: NodeId, known: &[NodeId], side_max: usize) -> (Vec<NodeId>, Vec<NodeId>) {
    let mut round: Vec<NodeId> = known.iter().copied().filter(|&node| node != me).collect();
    round.sort_unstable_by_key(|&node| clockwise(me, node));
    round.dedup();
    let right_count = side_max.min(round.len().div_ceil(2));
    let left_count = side_max.min(round.len() - right_count);
    let right = round[..right_count].to_vec();
    let left = round.iter().rev().take(left_count).copied().collect();
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(numbers: &[u32]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId::new).collect()
    }

    #[track_caller]
    fn check(me: u32, known: &[u32], side_max: usize, left: &[u32], right: &[u32]) {
        let split = split(NodeId::new(me), &nodes(known), side_max);
        assert_eq!(split, (nodes(left), nodes(right)));
    }

    #[test]
    fn the_nearest_are_kept_on_each_side() {
        check(5, &[1, 2, 3, 4, 6, 7, 8, 9], 2, &[4, 3], &[6, 7]);
        check(9, &[1, 2, 7, 8], 2, &[8, 7], &[1, 2]);
    }

    #[test]
    fn of_few_each_is_on_one_side() {
        check(5, &[], 2, &[], &[]);
        check(5, &[4, 5], 2, &[], &[4]);
        check(5, &[4, 6], 2, &[4], &[6]);
        check(5, &[4, 3, 6], 2, &[4], &[6, 3]);
    }

    #[test]
    fn the_closest_may_be_on_the_other_side_of_zero() {
        let far = u32::MAX - 1;
        let all = nodes(&[far, 9]);
        let found = closest(NodeId::new(1), all.into_iter());
        assert_eq!(found, Some(NodeId::new(far)));
        let found = closest(NodeId::new(5), nodes(&[7, 3]).into_iter());
        assert_eq!(found, Some(NodeId::new(3)));
    }
}
