//! How many faults of each kind a path may contain.
//!
//! What is left is part of the global state: two states that differ only in their allowance have different futures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of fault. Each has an allowance of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// A node loses its volatile state, and the peers it was connected to are told (unless the notice is late).
    Reset,
    /// A node loses its volatile state and nobody is told.
    SilentReset,
    /// A connection breaks: one end sees it now, the other when the notice arrives.
    Break,
    /// A datagram is lost.
    Loss,
    /// A datagram is delivered twice.
    Duplicate,
    /// A node is down for a while: it is not up yet, or it ended and starts late.
    LateStart,
}

/// How many faults of each kind may still happen.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Resets the peers are told of.
    pub resets: u8,
    /// Resets nobody is told of.
    pub silent_resets: u8,
    /// Connections that break.
    pub breaks: u8,
    /// Datagrams that are lost.
    pub losses: u8,
    /// Datagrams that are delivered twice.
    pub duplicates: u8,
    /// Nodes that are down for a while.
    pub late_starts: u8,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Reset,
        Self::SilentReset,
        Self::Break,
        Self::Loss,
        Self::Duplicate,
        Self::LateStart,
    ];
}

impl Faults {
    /// No fault at all.
    pub const NONE: Self = Self {
        resets: 0,
        silent_resets: 0,
        breaks: 0,
        losses: 0,
        duplicates: 0,
        late_starts: 0,
    };

    /// Returns how many faults of a kind are left.
    pub fn left(&self, fault: Fault) -> u8 {
        match fault {
            Fault::Reset => self.resets,
            Fault::SilentReset => self.silent_resets,
            Fault::Break => self.breaks,
            Fault::Loss => self.losses,
            Fault::Duplicate => self.duplicates,
            Fault::LateStart => self.late_starts,
        }
    }

    /// Returns what is left after one more fault of a kind, or `None` if there is none left.
    #[must_use]
    pub fn after(mut self, fault: Fault) -> Option<Self> {
        let left = match fault {
            Fault::Reset => &mut self.resets,
            Fault::SilentReset => &mut self.silent_resets,
            Fault::Break => &mut self.breaks,
            Fault::Loss => &mut self.losses,
            Fault::Duplicate => &mut self.duplicates,
            Fault::LateStart => &mut self.late_starts,
        };
        *left = left.checked_sub(1)?;
        Some(self)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "reset",
            Self::SilentReset => "silent reset",
            Self::Break => "break",
            Self::Loss => "loss",
            Self::Duplicate => "duplicate",
            Self::LateStart => "late start",
        })
    }
}
