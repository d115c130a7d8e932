//! What lies in a node's past, as far as properties can see it: the test for which states may stand side by side.
//!
//! A checkpoint of a node `m` with number `s` shows `m` before every event it handles with number `s` or above. So it may
//! stand beside a state of another node exactly if no such event lies in that state's past. A [`Past`] keeps, for each
//! node, the last event in the past that *changed what the properties read of that node*: events that changed nothing of
//! the sort leave its projection as the checkpoint shows it, and the past is closed downwards, so the cut with the
//! projections of the checkpoint exists all the same.
//!
//! It travels on messages and is kept in checkpoints. A node that cannot say more than how far it has come raises the
//! *floor*: of every node, anything up to that number may lie in the past.

use crate::id::{CheckpointNumber, Incarnation, NodeId};
use crate::limit::PAST_ENTRIES_MAX;
use crate::varint;

/// A place in the incarnations of one node. Its numbers rise over all its incarnations, so that they say what came later; which incarnation it
/// was tells a node that has forgotten its number from one that has not.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Moment {
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// The node's checkpoint number then.
    pub number: CheckpointNumber,
}

impl Moment {
    /// Tells whether this moment came after another one of the same node, or may have.
    fn is_after(self, other: Self) -> bool {
        (self.number, self.incarnation) > (other.number, other.incarnation)
    }
}

/// For each node, the last moment in the past at which what properties read of it changed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Past {
    floor: CheckpointNumber,
    /// By rising id; only those above the floor.
    entries: Vec<(NodeId, Moment)>,
}

impl Past {
    /// A past without anything in it.
    pub const fn nothing() -> Self {
        Self {
            floor: CheckpointNumber::ZERO,
            entries: Vec::new(),
        }
    }

    /// A past of which only this is known: nothing with a greater number lies in it.
    pub fn up_to(floor: CheckpointNumber) -> Self {
        Self {
            floor,
            entries: Vec::new(),
        }
    }

    /// Returns the number up to which anything may lie in the past, of whatever node.
    pub fn floor(&self) -> CheckpointNumber {
        self.floor
    }

    /// Returns the moments above the floor, by rising node id.
    pub fn entries(&self) -> &[(NodeId, Moment)] {
        &self.entries
    }

    /// Returns what is known of a node above the floor.
    pub fn of(&self, node: NodeId) -> Option<Moment> {
        let at = self.entries.binary_search_by_key(&node, |(id, _)| *id);
        at.ok().map(|at| self.entries[at].1)
    }

    /// Tells whether a checkpoint of a node may stand beside a state with this past. `born` is the number its incarnation began
    /// with.
    ///
    /// If another incarnation of the node is known, with a number that this one had already, one of the two has forgotten its
    /// number, or is made up: nothing can be said then.
    pub fn permits(&self, node: NodeId, checkpoint: Moment, born: CheckpointNumber) -> bool {
        checkpoint.number > self.floor
            && self.of(node).is_none_or(|last| {
                last.number < checkpoint.number
                    && (last.incarnation == checkpoint.incarnation || last.number < born)
            })
    }

    /// Tells whether all of it came no later than a number. Whoever has that number cannot know of anything later.
    pub fn is_within(&self, number: CheckpointNumber) -> bool {
        self.floor <= number && self.entries.iter().all(|(_, at)| at.number <= number)
    }

    /// Adds a moment of a node, and tells whether that says anything new.
    pub fn note(&mut self, node: NodeId, moment: Moment) -> bool {
        if moment.number <= self.floor {
            return false;
        }
        match self.entries.binary_search_by_key(&node, |(id, _)| *id) {
            Ok(at) if !moment.is_after(self.entries[at].1) => false,
            Ok(at) => {
                self.entries[at].1 = moment;
                true
            }
            Err(at) => {
                self.entries.insert(at, (node, moment));
                true
            }
        }
    }

    /// Raises the floor, and tells whether it was lower.
    pub fn raise_floor(&mut self, floor: CheckpointNumber) -> bool {
        if floor <= self.floor {
            return false;
        }
        self.floor = floor;
        self.entries.retain(|(_, moment)| moment.number > floor);
        true
    }

    /// Adds another past.
    pub fn merge(&mut self, other: &Self) {
        self.raise_floor(other.floor);
        for &(node, moment) in &other.entries {
            self.note(node, moment);
        }
    }

    /// Keeps at most so many entries: the lowest go, and the floor rises to them.
    pub fn limit(&mut self, max: usize) {
        if self.entries.len() <= max {
            return;
        }
        let mut numbers: Vec<_> = self.entries.iter().map(|(_, at)| at.number).collect();
        numbers.sort_unstable();
        self.raise_floor(numbers[self.entries.len() - max - 1]);
    }

    /// Appends it, written by its distance to a moment that the reader knows.
    pub(crate) fn write(&self, reference: Moment, out: &mut Vec<u8>) {
        put_distance(out, reference.number.get(), self.floor.get());
        varint::put(out, self.entries.len() as u64);
        for (node, moment) in &self.entries {
            varint::put(out, node.get().into());
            put_distance(out, reference.number.get(), moment.number.get());
            put_distance(out, reference.incarnation.get(), moment.incarnation.get());
        }
    }

    /// Reads one and moves `input` past it; `None` if it is cut off, too long, or a number is out of range.
    pub(crate) fn read(reference: Moment, input: &mut &[u8]) -> Option<Self> {
        let floor = take_number(input, reference)?;
        let count = usize::try_from(varint::take(input)?).ok()?;
        if count > PAST_ENTRIES_MAX {
            return None;
        }
        let mut past = Self::up_to(floor);
        for _ in 0..count {
            let node = NodeId::new(u32::try_from(varint::take(input)?).ok()?);
            let number = take_number(input, reference)?;
            let incarnation = Incarnation::new(take_distance(input, reference.incarnation.get())?);
            let known = past.entries.last().map(|(id, _)| *id);
            if known.is_some_and(|last| last >= node) || number <= floor {
                return None;
            }
            past.entries.push((
                node,
                Moment {
                    incarnation,
                    number,
                },
            ));
        }
        Some(past)
    }
}

fn put_distance(out: &mut Vec<u8>, reference: u64, value: u64) {
    varint::put(out, varint::fold_sign(reference.wrapping_sub(value) as i64));
}

fn take_distance(input: &mut &[u8], reference: u64) -> Option<u64> {
    let distance = varint::unfold_sign(varint::take(input)?);
    Some(reference.wrapping_sub(distance as u64))
}

fn take_number(input: &mut &[u8], reference: Moment) -> Option<CheckpointNumber> {
    CheckpointNumber::new(take_distance(input, reference.number.get())?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(number: u64) -> CheckpointNumber {
        CheckpointNumber::new(number).expect("a small number")
    }

    /// A node's numbers never fall, over its incarnations too.
    fn moment() -> impl Strategy<Value = Moment> {
        (0u64..32).prop_map(|at| Moment {
            incarnation: Incarnation::new(at / 8),
            number: number(at),
        })
    }

    fn past() -> impl Strategy<Value = Past> {
        let entries = prop::collection::vec((0u32..6, moment()), 0..8);
        (0u64..8, entries).prop_map(|(floor, entries)| {
            let mut past = Past::up_to(number(floor));
            for (node, moment) in entries {
                past.note(NodeId::new(node), moment);
            }
            past
        })
    }

    proptest! {
        #[test]
        fn a_past_reads_back(past in past(), reference in moment(), rest: Vec<u8>) {
            let mut bytes = Vec::new();
            past.write(reference, &mut bytes);
            bytes.extend(&rest);
            let mut input = bytes.as_slice();
            prop_assert_eq!(Past::read(reference, &mut input), Some(past));
            prop_assert_eq!(input, rest.as_slice());
        }

        #[test]
        fn bytes_from_outside_never_panic(reference in moment(), bytes: Vec<u8>) {
            let _ = Past::read(reference, &mut bytes.as_slice());
        }

        /// What is merged or limited permits no more than each part did: the past only grows.
        #[test]
        fn more_past_permits_less(a in past(), b in past(), max in 0usize..5, node in 0u32..6, at in moment()) {
            let node = NodeId::new(node);
            let mut both = a.clone();
            both.merge(&b);
            // Numbers never fall, so that an incarnation that is known of began below them.
            let born = number(at.incarnation.get() * 8);
            if both.permits(node, at, born) {
                prop_assert!(a.permits(node, at, born) && b.permits(node, at, born));
            }
            let mut fewer = a.clone();
            fewer.limit(max);
            prop_assert!(fewer.entries().len() <= max);
            if fewer.permits(node, at, born) {
                prop_assert!(a.permits(node, at, born));
            }
        }
    }

    #[test]
    fn a_checkpoint_before_the_last_change_may_not_stand_beside() {
        let mut past = Past::default();
        let node = NodeId::new(1);
        let at = |life, at| Moment {
            incarnation: Incarnation::new(life),
            number: number(at),
        };
        let born = number(1);
        assert!(past.permits(node, at(1, 1), born));
        assert!(past.note(node, at(1, 5)));
        assert!(!past.note(node, at(1, 4)));
        assert!(
            !past.permits(node, at(1, 5), born),
            "the change came with number 5"
        );
        assert!(past.permits(node, at(1, 6), born));
        assert!(
            past.permits(node, at(2, 7), number(6)),
            "another incarnation that began later shows it"
        );
        assert!(
            !past.permits(node, at(2, 7), number(3)),
            "another incarnation had that number already"
        );
        assert!(past.permits(NodeId::new(2), at(1, 1), born));
        past.raise_floor(number(6));
        assert!(!past.permits(NodeId::new(2), at(1, 6), born));
    }
}
