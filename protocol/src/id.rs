//! The identities that every part of the system names things by.

mod number;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use number::{CheckpointNumber, CheckpointNumberError};

/// Names one node of the steered service, the same in states, messages, logs and certificates.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(u32);

/// Why a text does not name a node.
#[derive(Debug, Eq, PartialEq)]
pub struct ParseNodeIdError;

impl NodeId {
    /// Wraps a node's number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the node's number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for NodeId {
    /// As it is displayed: messages and states show their nodes in every path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("n{}", self.0))
    }
}

impl FromStr for NodeId {
    type Err = ParseNodeIdError;

    /// Reads `13` or `n13`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix('n').unwrap_or(text);
        digits.parse().map(Self).map_err(|_| ParseNodeIdError)
    }
}

/// Why a text is not such a name.
#[derive(Debug, Eq, PartialEq)]
pub struct ParseIdError {
    prefix: &'static str,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.prefix;
        write!(
            f,
            "it is written as a number, with or without a leading {prefix}: `{prefix}12` or `12`"
        )
    }
}

impl std::error::Error for ParseIdError {}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident shown as $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a number.
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// Returns the number.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!(concat!($prefix, "{}"), self.0))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            /// Reads the number, with or without what it is shown with.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let digits = text.strip_prefix($prefix).unwrap_or(text);
                digits
                    .parse()
                    .map(Self)
                    .map_err(|_| ParseIdError { prefix: $prefix })
            }
        }
    )*};
}

counters! {
    /// Names one incarnation of a node, so that what an earlier incarnation sent or received is never taken for the present one's.
    ///
    /// Only the node itself begins incarnations. Which of two came later is said by [`is_after`](Self::is_after), never by `<`.
    Incarnation shown as "incarnation ";
    /// Names one gathering of a snapshot at the node that gathers.
    GatherId shown as "g";
    /// Names one run of the controller at a node: a snapshot, a search, and what came of it.
    RunId shown as "r";
    /// Names a predicted violation.
    ViolationId shown as "v";
    /// Names an installed filter.
    FilterId shown as "f";
}

impl Incarnation {
    /// Tells whether this incarnation came after another one of the same node.
    ///
    /// Incarnations follow each other in a circle: there is no last one, so that a node can always begin an incarnation after any that
    /// somebody claims it has had. Of two that are further apart than clocks can be, neither came after the other.
    pub const fn is_after(self, other: Self) -> bool {
        let distance = self.0.wrapping_sub(other.0);
        distance > 0 && distance <= Self::APART_MAX
    }

    /// Five hundred years, in units of [`of_clock`](Self::of_clock).
    const APART_MAX: u64 = 1 << 56;
    /// How much of an incarnation's name is chance.
    const CHANCE_BITS: u32 = 12;

    /// Names an incarnation that begins at a time of day, in milliseconds since the epoch, of a node that keeps no disk. Chance tells
    /// it from another that began when the clock said the same.
    pub const fn of_clock(clock_ms: u64, chance: u64) -> Self {
        let chance = chance & ((1 << Self::CHANCE_BITS) - 1);
        Self((clock_ms << Self::CHANCE_BITS) | chance)
    }

    /// Returns an incarnation that comes after this one. Chance tells it from others that did, if this one was read from a disk
    /// that somebody had set back.
    #[must_use]
    pub const fn next_by(self, chance: u64) -> Self {
        let chance = chance & ((1 << Self::CHANCE_BITS) - 1);
        Self(self.0.wrapping_add(1 + chance))
    }

    /// Returns the incarnation that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for ParseNodeIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node is written as a number, with or without a leading n: `n13` or `13`")
    }
}

impl std::error::Error for ParseNodeIdError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_reads_back_from_its_own_text() {
        let node = NodeId::new(13);
        assert_eq!(node.to_string().parse(), Ok(node));
        assert_eq!("13".parse(), Ok(node));
        assert_eq!("n".parse::<NodeId>(), Err(ParseNodeIdError));
        assert_eq!("-1".parse::<NodeId>(), Err(ParseNodeIdError));
    }

    #[test]
    fn after_every_incarnation_there_is_another() {
        for life in [0, 1, 1 << 41, u64::MAX / 2, u64::MAX] {
            let life = Incarnation::new(life);
            assert!(life.next().is_after(life) && !life.is_after(life.next()));
            assert!(!life.is_after(life));
            let far = Incarnation::new(life.get().wrapping_add(1 << 60));
            assert!(!life.is_after(far) && !far.is_after(life));
            for chance in [0, 1, u64::MAX] {
                assert!(life.next_by(chance).is_after(life));
            }
        }
        let (now_ms, year_ms) = (1_790_000_000_000, 31_557_600_000);
        let now = Incarnation::of_clock(now_ms, 0);
        for years in 1..50 {
            let later = Incarnation::of_clock(now_ms + years * year_ms, u64::MAX);
            assert!(later.is_after(now) && !now.is_after(later));
        }
        assert_ne!(now, Incarnation::of_clock(now_ms, 1));
    }

    #[test]
    fn names_read_back_from_their_own_text() {
        let violation = ViolationId::new(u64::MAX);
        assert_eq!(violation.to_string().parse(), Ok(violation));
        assert_eq!("7".parse(), Ok(RunId::new(7)));
        assert!("v7".parse::<FilterId>().is_err());
    }
}
