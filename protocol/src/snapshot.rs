//! Checkpoints of several nodes that belong together, and who is missing.

use serde::{Deserialize, Serialize};

use crate::checkpoint::Body;
use crate::id::{CheckpointNumber, NodeId};
use crate::limit::{self, MEMBERS_MAX};

/// A consistent view of a neighborhood: no member has received what another member has not sent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The node that gathered it.
    pub by: NodeId,
    /// The logical time it shows: every member's state is the one in which it reached this number.
    pub number: CheckpointNumber,
    /// How many rounds it took.
    pub rounds: u32,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// The members, by rising id; the gathering node is one of them.
    #[serde(with = "limit::List::<MEMBERS_MAX>")]
    pub members: Vec<Member>,
    /// Neighbors that are not among the members, by rising id.
    #[serde(with = "limit::List::<MEMBERS_MAX>")]
    pub missing: Vec<Missing>,
}

/// One node of a snapshot.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The number of its checkpoint.
    pub number: CheckpointNumber,
    /// How long ago its agent got the checkpoint, in milliseconds, when the snapshot was complete; the way of the reply
    /// is not in it.
    pub age_ms: u64,
    /// Its content.
    pub body: Body,
}

/// A neighbor without a checkpoint: part of the dummy node in the checker.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub reason: Reason,
}

macro_rules! coded {
    ($(#[$outer:meta])* $visibility:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal $text:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(into = "u8", try_from = "u8")]
        $visibility enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl From<$name> for u8 {
            fn from(value: $name) -> Self {
                match value { $($name::$variant => $code,)* }
            }
        }

        impl TryFrom<u8> for $name {
            type Error = &'static str;

            fn try_from(code: u8) -> Result<Self, Self::Error> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    _ => Err(concat!("an unknown code for a ", stringify!($name))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(Self::$variant => $text,)* })
            }
        }
    };
}
pub(crate) use coded;

coded! {
    /// Why an agent does not give a checkpoint. The reasons differ in what the asker does next.
    pub enum Refusal {
        /// The checkpoint that would fit is gone: ask all again with a greater number.
        OutOfRange = 0 "its checkpoints do not reach back that far",
        /// Sending it would exceed the bandwidth limit: do without it this time.
        OverBandwidth = 1 "it is over its bandwidth limit",
        /// The agent is about to end.
        ShuttingDown = 2 "its agent is shutting down",
        /// No host is attached to the agent, or it did not answer in time.
        NoHost = 3 "its host does not answer",
        /// More requests are waiting than the agent wants to remember.
        Busy = 4 "its agent has too many requests waiting",
        /// The number asked for is further ahead than any honest one could be: the asker's numbers went wrong, or it lies.
        Implausible = 5 "it takes this node's number for a mistake",
    }
}

coded! {
    /// Why a neighbor has no checkpoint in a snapshot.
    pub enum Reason {
        /// It cannot be reached, and is still a neighbor.
        Dead = 0 "it cannot be reached",
        /// It did not answer in time.
        Silent = 1 "it did not answer in time",
        /// Its checkpoints were gone in every round.
        OutOfRange = 2 "its checkpoints were gone in every round",
        /// It was over its bandwidth limit.
        OverBandwidth = 3 "it was over its bandwidth limit",
        /// This node was over its own, so that it could not ask.
        OverBandwidthHere = 4 "this node was over its own bandwidth limit",
        /// Its agent was shutting down.
        ShuttingDown = 5 "its agent was shutting down",
        /// Its host did not answer its agent.
        NoHost = 6 "its host did not answer",
        /// Its agent had too many requests waiting.
        Busy = 7 "its agent had too many requests waiting",
        /// What it sent could not be read.
        Unreadable = 8 "what it sent could not be read",
        /// Its checkpoint contradicts another's: one has received what the other has not sent.
        Inconsistent = 9 "its checkpoint contradicts another's",
        /// Its number and this node's are further apart than those of two honest nodes can be.
        Implausible = 10 "its number is implausible beside this node's",
    }
}

impl Reason {
    /// Tells whether the neighbor may be as it was, only that nothing was heard of it; otherwise what it said is wrong.
    pub fn is_unheard(self) -> bool {
        !matches!(
            self,
            Self::Unreadable | Self::Inconsistent | Self::Implausible
        )
    }
}

impl Snapshot {
    /// Returns a member.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        let at = self
            .members
            .binary_search_by_key(&node, |member| member.node)
            .ok()?;
        Some(&self.members[at])
    }

    /// Tells whether no neighbor is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns the age of the oldest checkpoint in milliseconds, when the snapshot was complete.
    pub fn age_ms(&self) -> u64 {
        self.members
            .iter()
            .map(|member| member.age_ms)
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_unknown_ones_are_refused() {
        for code in 0..=u8::MAX {
            if let Ok(reason) = Reason::try_from(code) {
                assert_eq!(u8::from(reason), code);
            }
            if let Ok(refusal) = Refusal::try_from(code) {
                assert_eq!(u8::from(refusal), code);
            }
        }
        assert!(Reason::try_from(11).is_err());
        assert!(Refusal::try_from(6).is_err());
    }
}
