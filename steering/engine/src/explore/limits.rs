//! When a search stops: counts only, so that the same search ends in the same place. Whoever has a clock turns time into
//! steps.

use std::fmt;

/// Bounds of a search. What is not given is not bounded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How many states to find, at the most.
    pub states: Option<u64>,
    /// How many steps a path may have, at the most.
    pub depth: Option<u32>,
    /// How many bytes the search's tables may take, at the most.
    pub bytes: Option<u64>,
    /// Whether to stop when something is wrong. By default the search goes on.
    pub first_violation: bool,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// There is nothing left to explore.
    Exhausted,
    /// The limit of states is reached.
    States,
    /// The limit of depth is reached.
    Depth,
    /// The limit of bytes is reached.
    Bytes,
    /// A violation was found, and the search was asked to stop there.
    Violation,
    /// All is done that was asked for, though there may be more to explore.
    Enough,
    /// The caller did not go on.
    Caller,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exhausted => "everything is explored",
            Self::States => "the limit of states is reached",
            Self::Depth => "the limit of depth is reached",
            Self::Bytes => "the limit of bytes is reached",
            Self::Violation => "a violation was found",
            Self::Enough => "all that was asked for is done",
            Self::Caller => "the time is up",
        })
    }
}
