//! What a node knows of the ring, and how it keeps that knowledge in one piece.
//!
//! Nothing here sends: the handlers in [`service`](crate::service) decide when to learn and whom to tell. With all
//! bugs fixed, every public method leaves these invariants behind:
//!
//! - the node is its own predecessor exactly if it is its own successor, and then it knows no other successor;
//! - the successors are in ring order and none lies strictly between the predecessor and the node;
//! - a node in the ring has a successor.

use scry::NodeId;

use crate::ring::{self, Key};
use crate::service::{Chord, Mode};
use crate::setup::Setup;

impl Chord {
    /// Returns the node's id, which is its place on the ring.
    pub fn me(&self) -> NodeId {
        NodeId::new(self.position)
    }

    /// Tells whether the node takes itself for the only one in its ring.
    pub fn is_alone(&self) -> bool {
        let me = Some(self.me());
        self.successor == me && self.predecessor == me
    }

    /// Makes the node a ring of its own.
    pub(crate) fn stand_alone(&mut self) {
        self.mode = Mode::Joined;
        self.predecessor = Some(self.me());
        self.fingers.clear();
        self.put_successors(vec![self.me()]);
    }

    /// Takes the place between `predecessor` and the nodes that followed it.
    pub(crate) fn take_place(
        &mut self,
        setup: &Setup,
        predecessor: NodeId,
        mut followers: Vec<NodeId>,
    ) {
        let me = self.me();
        self.mode = Mode::Joined;
        self.predecessor = Some(predecessor);
        followers.retain(|node| *node != me);
        if followers.is_empty() {
            followers.push(predecessor);
        }
        ring::order(self.position, &mut followers);
        followers.truncate(setup.successors_max.get());
        self.put_successors(followers);
        self.refresh_predecessor();
        self.refresh_fingers(setup, &[]);
    }

    /// Learns from a node itself that it is in the ring, and that it may be this node's predecessor. Returns the
    /// predecessor if it is another one: if both are right about themselves, one of them is gone.
    pub(crate) fn admit_claim(&mut self, setup: &Setup, claimant: NodeId) -> Option<NodeId> {
        let me = self.me();
        if claimant == me {
            return None;
        }
        if self.predecessor.is_none_or(|known| {
            known == me || ring::between(known.get(), claimant.get(), self.position)
        }) {
            self.predecessor = Some(claimant);
        }
        // MaceMC §6: whoever learns of a node updates all it keeps, not the predecessor alone.
        if setup.bugs.stale_successor {
            self.refresh_predecessor();
        } else {
            self.learn(setup, claimant);
        }
        self.predecessor.filter(|known| *known != claimant)
    }

    /// Learns from a node itself that it is in the ring, and remembers it wherever it fits.
    pub(crate) fn learn(&mut self, setup: &Setup, node: NodeId) {
        let me = self.me();
        if node == me {
            return;
        }
        let mut known = std::mem::take(&mut self.successors);
        known.retain(|successor| *successor != me);
        known.push(node);
        ring::order(self.position, &mut known);
        known.truncate(setup.successors_max.get());
        self.put_successors(known);
        if self.predecessor == Some(me) {
            self.predecessor = Some(node);
        }
        self.refresh_predecessor();
        self.refresh_fingers(setup, &[node]);
    }

    /// Takes over what the first successor answered, and tells whether another node is now the first.
    ///
    /// Older entries are not kept: each entry of a list has then been first in the list of some node, which asks it
    /// and notices when it is gone. Were lists united instead, nodes would remind each other of the dead for ever.
    pub(crate) fn follow(
        &mut self,
        setup: &Setup,
        first: NodeId,
        its_predecessor: Option<NodeId>,
        its_successors: &[NodeId],
    ) -> bool {
        let closer =
            its_predecessor.filter(|node| ring::between(self.position, node.get(), first.get()));
        let mut list: Vec<NodeId> = closer.into_iter().chain([first]).collect();
        let mut last = first;
        // Past this node the list would describe the way to the first successor once more.
        for &node in its_successors {
            if !ring::between(last.get(), node.get(), self.position) {
                break;
            }
            list.push(node);
            last = node;
        }
        list.truncate(setup.successors_max.get());
        self.put_successors(list);
        if !setup.bugs.ordering {
            self.refresh_predecessor();
        }
        self.refresh_fingers(setup, its_successors);
        closer.is_some()
    }

    /// Takes over the answer to a finger's lookup: `owner` is the first node at or after `key`.
    pub(crate) fn point_finger(&mut self, setup: &Setup, key: Key, owner: NodeId) {
        // A remembered node before the owner is not in the ring any more, or the lookup had found it.
        self.fingers.retain(|finger| {
            *finger == owner || ring::distance(key, finger.get()) > ring::distance(key, owner.get())
        });
        self.refresh_fingers(setup, &[owner]);
    }

    /// Forgets a node in all it knows (CrystalBall §5.2.2: transport errors), and stands alone if nothing is left.
    pub(crate) fn erase(&mut self, setup: &Setup, node: NodeId) {
        if self.predecessor == Some(node) {
            self.predecessor = None;
        }
        self.fingers.retain(|finger| *finger != node);
        let mut known = std::mem::take(&mut self.successors);
        known.retain(|successor| *successor != node);
        if known.is_empty() {
            let mut rest: Vec<NodeId> = self.predecessor.into_iter().collect();
            rest.extend_from_slice(&self.fingers);
            ring::order(self.position, &mut rest);
            known.extend(rest.first());
        }
        if known.is_empty() {
            return self.stand_alone();
        }
        self.put_successors(known);
        self.refresh_predecessor();
        self.refresh_fingers(setup, &[]);
    }

    /// Tells whether this node is the last before `key`.
    pub(crate) fn precedes(&self, key: Key) -> bool {
        self.successor.is_some_and(|successor| {
            successor.get() == key || ring::between(self.position, key, successor.get())
        })
    }

    /// Returns the known node that is closest before `key`.
    pub(crate) fn closest_before(&self, key: Key) -> Option<NodeId> {
        self.successors
            .iter()
            .chain(&self.fingers)
            .copied()
            .filter(|node| ring::between(self.position, node.get(), key))
            .max_by_key(|node| ring::distance(self.position, node.get()))
    }

    /// The only place that changes the successors, so that `successor` is always the first of them.
    fn put_successors(&mut self, successors: Vec<NodeId>) {
        self.successor = successors.first().copied();
        self.successors = successors;
    }

    /// Moves the predecessor on to a successor that is closer before this node (the repair of Figure 11).
    fn refresh_predecessor(&mut self) {
        for successor in &self.successors {
            if self
                .predecessor
                .is_some_and(|known| ring::between(known.get(), successor.get(), self.position))
            {
                self.predecessor = Some(*successor);
            }
        }
    }

    fn refresh_fingers(&mut self, setup: &Setup, learned: &[NodeId]) {
        let mut known = self.fingers.clone();
        known.extend(self.predecessor);
        known.extend_from_slice(&self.successors);
        known.extend_from_slice(learned);
        self.fingers = ring::fingers(self.position, &setup.fingers, &known);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn nodes(numbers: &[u32]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId::new).collect()
    }

    fn setup() -> Setup {
        Setup {
            successors_max: NonZeroUsize::new(3).expect("not zero"),
            fingers: vec![4],
            ..Setup::new([])
        }
    }

    fn joined(position: u32, predecessor: u32, successors: &[u32]) -> Chord {
        let mut chord = Chord {
            mode: Mode::Joined,
            position,
            predecessor: Some(NodeId::new(predecessor)),
            successor: None,
            successors: Vec::new(),
            fingers: Vec::new(),
            asked: None,
        };
        chord.put_successors(nodes(successors));
        chord
    }

    #[test]
    fn losing_the_last_successor_leaves_the_next_best_node() {
        let mut chord = joined(1, 9, &[2]);
        chord.fingers = nodes(&[5]);
        chord.erase(&setup(), NodeId::new(2));
        assert_eq!(chord.successors, nodes(&[5]));
        chord.erase(&setup(), NodeId::new(5));
        assert_eq!(chord.successors, nodes(&[9]));
        chord.erase(&setup(), NodeId::new(9));
        assert!(chord.is_alone());
    }

    #[test]
    fn a_followed_list_ends_where_it_comes_round() {
        let mut chord = joined(5, 4, &[7]);
        let others = nodes(&[9, 4, 6]);
        assert!(!chord.follow(&setup(), NodeId::new(7), Some(NodeId::new(5)), &others));
        assert_eq!(chord.successors, nodes(&[7, 9, 4]));
    }

    #[test]
    fn a_closer_node_is_followed_first() {
        let mut chord = joined(5, 4, &[9]);
        assert!(chord.follow(&setup(), NodeId::new(9), Some(NodeId::new(7)), &nodes(&[4])));
        assert_eq!(chord.successors, nodes(&[7, 9, 4]));
        assert_eq!(chord.successor, Some(NodeId::new(7)));
    }

    #[test]
    fn a_claim_is_doubted_while_a_closer_predecessor_is_known() {
        let mut chord = joined(5, 4, &[9]);
        let rival = chord.admit_claim(&setup(), NodeId::new(2));
        assert_eq!(rival, Some(NodeId::new(4)));
        chord.erase(&setup(), NodeId::new(4));
        assert_eq!(chord.admit_claim(&setup(), NodeId::new(2)), None);
        assert_eq!(chord.predecessor, Some(NodeId::new(2)));
    }

    #[test]
    fn a_looked_up_finger_replaces_those_the_lookup_passed() {
        let mut chord = joined(1, 9, &[2]);
        chord.fingers = nodes(&[6]);
        chord.point_finger(&setup(), 5, NodeId::new(8));
        assert_eq!(chord.fingers, nodes(&[8]));
    }
}
