//! What the nodes of the tree say to each other, what wakes them, and what the application asks of them.

use scry::{NodeId, Transport};
use serde::{Deserialize, Serialize};

/// What one node says to another.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// Asks for a place in the tree.
    Join {
        /// Who wants it; not always the sender.
        node: NodeId,
        /// How often the request was passed on.
        hops: u8,
        /// Whether a root gives its role to the receiver and wants a place under it.
        handover: bool,
    },
    /// The sender has taken the receiver in as a child.
    JoinReply {
        /// The root as the sender knows it.
        root: NodeId,
    },
    /// The sender, a root, has a new child beside the receiver.
    UpdateSibling {
        /// The new child.
        sibling: NodeId,
    },
    /// The sender's subtree has a new root.
    NewRoot {
        /// The new root.
        root: NodeId,
    },
    /// The sender is neither parent nor child of the receiver, whatever the receiver thinks.
    Remove,
    /// Asks a node out of touch which tree it is in.
    Probe {
        /// A root the sender knows of.
        root: NodeId,
    },
    /// Answers a probe.
    ProbeReply {
        /// The sender's root; nothing if it is in no tree.
        root: Option<NodeId>,
    },
    /// Shows that a connection between parent and child still stands.
    Heartbeat {
        /// The sender's root.
        root: NodeId,
    },
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// Asks again for a place, or looks for nodes that are out of touch.
    Recovery,
}

/// What the application asks of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// Become part of the tree.
    Join,
}

impl Message {
    /// Returns how the message travels.
    ///
    /// Whatever changes the tree goes by connection, because the protocol counts on order (a parent's `NewRoot`
    /// before its next word) and on being told of failures. Probes go to nodes without a connection and are asked
    /// again at the next timer anyhow, so they are datagrams.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Probe { .. } | Self::ProbeReply { .. } => Transport::Datagram,
            Self::Join { .. }
            | Self::JoinReply { .. }
            | Self::UpdateSibling { .. }
            | Self::NewRoot { .. }
            | Self::Remove
            | Self::Heartbeat { .. } => Transport::Stream,
        }
    }
}
