//! How to search, by name.

use std::fmt;
use std::str::FromStr;

/// A way to go through a system's states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Strategy {
    /// Every state, nearest first (CrystalBall Fig. 5).
    Exhaustive,
    /// Every state within the depth bound, along one path at a time.
    DepthFirst,
    /// Chains of consequences: internal actions once per local state (CrystalBall Fig. 8).
    Consequence,
}

/// Why a text names no strategy.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no strategy `{0}`; there are exhaustive, depth-first and consequence")]
pub struct UnknownStrategy(String);

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 3] = [Self::Exhaustive, Self::DepthFirst, Self::Consequence];
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exhaustive => "exhaustive",
            Self::DepthFirst => "depth-first",
            Self::Consequence => "consequence",
        })
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL
            .into_iter()
            .find(|strategy| strategy.to_string() == text);
        found.ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}
