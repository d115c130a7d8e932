//! A node's past, and which part of it each peer has been sent.
//!
//! [`Past`] says what a past is and what it is good for. Here is what a host does with its own: it grows by what messages
//! carry and by the node's own changes, and every message carries what its receiver may not have yet. On a connection that
//! is what changed since the last message, mostly nothing; a datagram may be the only one that arrives, and carries all.

use std::collections::BTreeMap;

use scry_protocol::channel::Envelope;
use scry_protocol::{CheckpointNumber, Moment, NodeId, Past};

use crate::channel::Lane;

/// How many nodes a host keeps apart in its past, unless told otherwise.
pub const ENTRIES_MAX: usize = 64;

/// How a host keeps its past.
#[derive(Clone, Debug)]
pub struct PastOptions {
    /// The node.
    pub me: NodeId,
    /// How many nodes are kept apart. With none, only numbers count: every node's last known state is out of date as
    /// soon as anything is heard that came after it.
    pub entries_max: usize,
    /// The past of the incarnation before this one, if it is known.
    pub former: Option<Past>,
}

/// The past of a running node.
#[derive(Debug)]
pub(super) struct KnownPast {
    me: NodeId,
    entries_max: usize,
    past: Past,
    /// Counts changes.
    version: u64,
    /// The change that brought each entry to its present value.
    changed: BTreeMap<NodeId, u64>,
    floor_changed: u64,
    /// By peer and serial of a connection: the change up to which the peer has been told.
    told: BTreeMap<(NodeId, u32), u64>,
}

impl KnownPast {
    /// Begins an incarnation. What lies in the past of a node that was restarted is not known any more, unless somebody kept it:
    /// anything that happened before its first number may.
    pub(super) fn begin(options: PastOptions, born: CheckpointNumber) -> Self {
        let past = options
            .former
            .unwrap_or_else(|| Past::up_to(born.previous()));
        let mut known = Self {
            me: options.me,
            entries_max: options.entries_max,
            past: Past::up_to(past.floor()),
            version: 1,
            changed: BTreeMap::new(),
            floor_changed: 1,
            told: BTreeMap::new(),
        };
        known.add(&past);
        known
    }

    pub(super) fn past(&self) -> &Past {
        &self.past
    }

    /// Returns a number that is greater after each change.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Learns of a message.
    pub(super) fn receive(&mut self, number: CheckpointNumber, envelope: &Envelope) {
        match &envelope.past {
            Some(past) if past.is_within(envelope.number) => self.add(past),
            // Nobody has heard of what comes after its own number: this cannot be true.
            Some(_) => self.receive_unstamped(number),
            // A node without a hook cannot say what it had heard.
            None if envelope.number == CheckpointNumber::ZERO => self.receive_unstamped(number),
            None => {}
        }
    }

    /// Learns of a message that does not say what its sender had heard, or is not believed: anything up to now.
    pub(super) fn receive_unstamped(&mut self, number: CheckpointNumber) {
        self.add(&Past::up_to(number));
    }

    /// Learns that a peer began an incarnation and has forgotten its number: no state of its earlier incarnations may stand beside this node
    /// from now on, whatever its number. `moment` has a number that this node has only just reached.
    pub(super) fn outlive(&mut self, peer: NodeId, moment: Moment) {
        self.note(peer, moment);
        self.limit();
    }

    /// Begins anew below its present number: nothing that was heard of numbers from there on was true.
    pub(super) fn fall(&mut self, born: CheckpointNumber) {
        self.past = Past::up_to(born.previous());
        self.changed.clear();
        self.floor_rose();
    }

    /// Tells whether it is noted already that the node changed with this number.
    #[inline]
    pub(super) fn has_changed(&self, moment: Moment) -> bool {
        self.past.floor() >= moment.number || self.past.of(self.me) == Some(moment)
    }

    /// Notes that what properties read of this node changed.
    pub(super) fn change(&mut self, moment: Moment) {
        self.note(self.me, moment);
        self.limit();
    }

    /// Returns what goes out with a message, if anything.
    pub(super) fn tell(&mut self, to: NodeId, lane: Lane) -> Option<Box<Past>> {
        let Lane::Stream(serial) = lane else {
            return Some(Box::new(self.past.clone()));
        };
        let told = self.told.insert((to, serial), self.version).unwrap_or(0);
        if told == self.version {
            return None;
        }
        let mut news = Past::up_to(match told < self.floor_changed {
            true => self.past.floor(),
            false => CheckpointNumber::ZERO,
        });
        for &(node, moment) in self.past.entries() {
            if self.changed.get(&node).is_some_and(|&at| at > told) {
                news.note(node, moment);
            }
        }
        Some(Box::new(news))
    }

    /// Forgets what was told on a connection that is gone.
    pub(super) fn end(&mut self, peer: NodeId, serial: u32) {
        self.told.remove(&(peer, serial));
    }

    fn add(&mut self, other: &Past) {
        if self.past.raise_floor(other.floor()) {
            self.floor_rose();
        }
        for &(node, moment) in other.entries() {
            self.note(node, moment);
        }
        self.limit();
    }

    fn note(&mut self, node: NodeId, moment: Moment) {
        if self.past.note(node, moment) {
            self.version += 1;
            self.changed.insert(node, self.version);
        }
    }

    fn limit(&mut self) {
        if self.past.entries().len() > self.entries_max {
            self.past.limit(self.entries_max);
            self.floor_rose();
        }
    }

    fn floor_rose(&mut self) {
        self.version += 1;
        self.floor_changed = self.version;
        let past = &self.past;
        self.changed.retain(|&node, _| past.of(node).is_some());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scry_protocol::Incarnation;

    use super::*;

    const ME: NodeId = NodeId::new(0);
    const PEER: NodeId = NodeId::new(9);

    fn keeper(entries_max: usize) -> KnownPast {
        let options = PastOptions {
            me: ME,
            entries_max,
            former: None,
        };
        KnownPast::begin(options, CheckpointNumber::from(1))
    }

    fn moment(number: u32) -> Moment {
        Moment {
            incarnation: Incarnation::new(1),
            number: CheckpointNumber::from(number),
        }
    }

    proptest! {
        /// Whoever adds up what came on a connection has all of the sender's past; so has whoever got the last datagram.
        #[test]
        fn what_is_told_adds_up_to_the_past(
            steps in prop::collection::vec((0u32..6, 1u32..40, 0u32..12, any::<bool>()), 1..60),
            entries_max in 0usize..6,
        ) {
            let mut there = keeper(entries_max);
            let mut here = keeper(ENTRIES_MAX);
            for (node, number, floor, stream) in steps {
                let mut heard = Past::up_to(CheckpointNumber::from(floor));
                heard.note(NodeId::new(node), moment(number));
                there.add(&heard);
                let lane = if stream { Lane::Stream(3) } else { Lane::Datagram };
                let told = there.tell(PEER, lane);
                prop_assert!(stream || told.is_some());
                if let Some(told) = told {
                    here.add(&told);
                }
                prop_assert_eq!(here.past(), there.past());
            }
            there.tell(PEER, Lane::Stream(3));
            prop_assert_eq!(there.tell(PEER, Lane::Stream(3)), None, "what was told is not told again");
        }
    }

    #[test]
    fn a_change_is_told_once_on_a_connection_and_anew_on_the_next() {
        let mut past = keeper(4);
        assert!(
            past.tell(PEER, Lane::Stream(1)).is_some(),
            "the first tells the floor"
        );
        assert_eq!(past.tell(PEER, Lane::Stream(1)), None);
        past.change(moment(2));
        assert!(past.has_changed(moment(2)) && !past.has_changed(moment(3)));
        let told = past.tell(PEER, Lane::Stream(1)).expect("news");
        assert_eq!(told.of(ME), Some(moment(2)));
        assert_eq!(past.tell(PEER, Lane::Stream(1)), None);
        assert!(past.tell(PEER, Lane::Stream(2)).is_some());
    }

    #[test]
    fn with_numbers_only_the_floor_is_the_last_change() {
        let mut past = keeper(0);
        past.change(moment(7));
        assert_eq!(past.past(), &Past::up_to(CheckpointNumber::from(7)));
        assert!(past.has_changed(moment(7)));
    }

    #[test]
    fn a_peer_without_stamps_may_have_heard_anything() {
        let mut past = keeper(4);
        let envelope = Envelope {
            number: CheckpointNumber::ZERO,
            place: None,
            acknowledged: None,
            past: None,
        };
        past.receive(CheckpointNumber::from(12), &envelope);
        assert_eq!(past.past().floor(), CheckpointNumber::from(12));
    }
}
