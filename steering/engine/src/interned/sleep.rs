//! Steps that need not be taken, because another way to the same state is: sleep sets, made for breadth-first search.
//! Every state is still visited, and at its depth; only of the ways that meet there, fewer are walked.
//!
//! A step is *plain* if it deals in datagrams only: a delivery, a timer or a call that leaves the node's connections
//! alone and sends nothing but datagrams. Datagrams on their way are a multiset, and a step depends on its own node's
//! word alone. So two plain steps of different nodes, both possible in one state, lead to the same state in either order.
//!
//! Say state *t* was found by the plain step *b* of node *j* in state *s*. Let *i* be a node before *j* to which *b* sent
//! nothing, and *a* a plain step of *i* in *t*; it was possible in *s* already. It leads from *t* to where *b* leads from
//! *s·a*, and *s·a* is no deeper than *t*. So *i* is *asleep* in *t*: *a* is not taken there. Maybe *b* is not taken in
//! *s·a* either, for the same reason; but then that excuse is a step of a node after *j*. Positions rise from excuse to
//! excuse, so at least one of the ways is walked. The argument needs all states of a level to be expanded in full but
//! for sleepers, so it is not for searches that prune by rules of their own.

use crate::interned::id::MessageId;
use crate::interned::tables::Send;
use crate::interned::transitions::EventIds;
use crate::model::event::Event;
use crate::model::network::Parcel;
use scry_protocol::NodeId;

/// A set of nodes by position, of the first few only: those beyond are always awake.
pub(crate) type Nodes = u16;

/// Tells whether a step that leaves the node's connections alone is plain.
pub(crate) fn is_plain(event: &EventIds, parcels: &[(NodeId, Parcel<MessageId>)]) -> bool {
    let datagram =
        |(_, parcel): &(NodeId, Parcel<MessageId>)| matches!(parcel, Parcel::Datagram(_));
    // Faults are none of these: they compete for an allowance.
    matches!(
        event,
        Event::Deliver { .. } | Event::Timer(_) | Event::Call(_)
    ) && parcels.iter().all(datagram)
}

/// Returns who is asleep after a plain step of the node at a position.
pub(crate) fn after(node: usize, sends: &[Send]) -> Nodes {
    let awake = |node| sends.iter().any(|send| usize::from(send.to) == node);
    (0..node.min(Nodes::BITS as usize))
        .filter(|&node| !awake(node))
        .fold(0, |nodes, node| nodes | 1 << node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interned::id::BundleId;

    fn to(to: u16) -> Send {
        Send {
            to,
            bundle: BundleId::ZERO,
        }
    }

    #[test]
    fn those_before_the_mover_sleep_unless_it_wrote_to_them() {
        assert_eq!(after(0, &[]), 0);
        assert_eq!(after(3, &[]), 0b111);
        assert_eq!(after(3, &[to(1), to(4)]), 0b101);
    }

    #[test]
    fn beyond_the_first_few_nobody_sleeps() {
        assert_eq!(after(40, &[to(2), to(30)]), !0b100);
    }
}
