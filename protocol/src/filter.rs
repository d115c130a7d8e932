//! What a host is asked to block, for how long and why.
//!
//! A filter is a lease: it ends by itself, and the hook that holds it needs nobody to tell it so: an agent that is gone or
//! hangs leaves none behind. What a filter does to an event is what a network could do anyway.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{FilterId, NodeId, ViolationId};
use crate::limit::{self, NAME_BYTES_MAX, TEXT_BYTES_MAX};
use crate::snapshot::coded;

/// One filter with its lease.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// Its name.
    pub id: FilterId,
    /// What it matches.
    pub matcher: Matcher,
    /// What it does to what it matches.
    pub action: Action,
    /// How long it lasts from its arrival, in milliseconds.
    pub ttl_ms: u64,
    /// How often it may act before it ends.
    pub hits_max: u64,
    /// How much it may do, if the host's own mode does not allow less.
    pub mode: Mode,
    /// The predicted violation it prevents.
    pub violation: ViolationId,
    /// The property that would be broken.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// Why it is there, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub reason: String,
}

/// What a filter matches.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Matcher {
    /// A message.
    Message {
        /// Its type.
        #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
        kind: String,
        /// Its sender.
        source: NodeId,
        /// Its receiver.
        destination: NodeId,
        /// Its content, if only this one is meant.
        content: Option<Digest>,
    },
    /// A timer.
    Timer {
        /// Its name.
        #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
        kind: String,
        /// Its value, if only this one is meant.
        content: Option<Digest>,
    },
    /// A call of the application.
    Call {
        /// Its name.
        #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
        kind: String,
        /// Its arguments, if only these are meant.
        content: Option<Digest>,
    },
    /// The news that the connections with a peer are lost. They can come late, never not at all.
    Disconnect {
        /// The peer.
        peer: NodeId,
    },
}

impl Matcher {
    /// Tells whether a network or a scheduler could do this to what is matched: a message can be lost or late, a
    /// timer or the news of a lost connection can be late, a call can be refused. Everything can be looked at first.
    pub fn admits(&self, action: Action) -> bool {
        match self {
            _ if action == Action::Check => true,
            Self::Message { .. } => matches!(action, Action::Drop | Action::Reset | Action::Hold),
            Self::Timer { .. } | Self::Disconnect { .. } => action == Action::Postpone,
            Self::Call { .. } => action == Action::Refuse,
        }
    }
}

coded! {
    /// What happens to an event that a filter matches.
    pub enum Action {
        /// A message is dropped.
        Drop = 0 "drop",
        /// A message is dropped and the connection it came on is reset.
        Reset = 1 "drop and reset the connection",
        /// A timer is armed again instead of fired; the news of a lost connection waits until the filter has ended.
        Postpone = 2 "postpone",
        /// A call is refused.
        Refuse = 3 "refuse",
        /// A message is held, and offered again when the filter has ended.
        Hold = 4 "hold",
        /// An event is held for the milliseconds in which neighbors say what their states are now, and refused only if it
        /// breaks the property with these: the immediate check looks, whatever the last known states say. All events of the
        /// kind are looked at, whoever they come from.
        Check = 5 "check",
    }
}

coded! {
    /// How much an agent may do. The lower of the global and the property's own mode counts.
    pub enum Mode {
        /// Nothing.
        Off = 0 "off",
        /// Predict and report, never touch.
        Audit = 1 "audit",
        /// Prevent.
        Steer = 2 "steer",
    }
}
