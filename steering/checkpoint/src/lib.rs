//! Checkpoints, neighborhoods and consistent snapshots, as cores without IO.
//!
//! Each core takes facts by `handle_*` and hands out work by `poll_*`; time comes in as a [`Time`], and the same facts in
//! the same order always lead to the same work.
//!
//! | module | what it holds | where it runs |
//! |---|---|---|
//! | [`leeway`] | how far others may move the number | host, agent |
//! | [`recorder`] | the checkpoint number, the stamp on every message, the checkpoint before the handler | host |
//! | [`channel`], `kept` | which messages were sent, acknowledged, received | host |
//! | [`past`] | what lies in the node's past, and what of it peers have been sent | host |
//! | [`cut`] | which checkpoints may stand beside the node's state | host |
//! | [`manager`] | answering peers, gathering snapshots: drives all below | agent |
//! | [`store`] | own checkpoints by number, under a quota | agent |
//! | [`exchange`] | what each peer has already: differences and duplicates | agent |
//! | [`gather`] | one snapshot, round by round | agent |
//! | [`neighborhood`] | whose checkpoints are wanted | agent |
//! | [`quota`] | how many bytes may be sent | agent |
//! | [`flight`] | what a snapshot says about messages in flight, and whether it contradicts itself | agent, checker |
//!
//! # Why a snapshot is consistent
//!
//! A node's number never falls, over restarts too. The state of a node *at* a number is its state just before its first
//! event that happened with that number or a greater one. A message carries its sender's number and is handled with at
//! least that number; so whoever shows the receipt at a number shows the send as well. A checkpoint shows its node at
//! every number above the checkpoint before it and up to its own, and answers for no other.
//!
//! # What others may say
//!
//! A number from outside moves a node's own only within its [`leeway`]. A stamp that is refused counts as none: the
//! message is handled, and whoever sent it stands beside nobody until its numbers are plausible again. What else it had
//! heard is not known then: until it has healed, what it passes on of third nodes is not ordered. A node that most
//! of its neighbors refuse goes on under another incarnation with their number, and so does one of which others know a
//! later incarnation; ARCHITECTURE.md has the reasons.

use std::fmt;

pub mod channel;
pub mod cut;
pub mod exchange;
pub mod flight;
pub mod gather;
mod kept;
pub mod leeway;
pub mod manager;
pub mod neighborhood;
pub mod past;
pub mod quota;
pub mod recorder;
pub mod sorted;
pub mod store;

pub use gather::Gather;
pub use kept::Messages;
pub use manager::CheckpointManager;
pub use neighborhood::Neighborhood;
pub use recorder::Recorder;

/// A moment, in milliseconds of a clock of the caller's that never goes back.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(u64);

impl Time {
    /// Wraps milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the moment this many milliseconds later.
    #[must_use]
    pub const fn after_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Returns the milliseconds since an earlier moment, zero if it is not earlier.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} ms", self.0))
    }
}
