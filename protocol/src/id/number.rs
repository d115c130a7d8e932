//! The checkpoint number: the logical clock by which checkpoints of different nodes belong together.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// A node's logical time, in checkpoints (the papers' `cn`, A-14).
///
/// Kept far below the end of its range, so that adding to it can never overflow: a number from outside that is greater
/// than [`MAX`](Self::MAX) is not a number.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct CheckpointNumber(u64);

/// Why a number cannot be a checkpoint number.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{number} is no checkpoint number: the greatest is {}",
    CheckpointNumber::MAX
)]
pub struct CheckpointNumberError {
    number: u64,
}

impl CheckpointNumber {
    /// Before every checkpoint.
    pub const ZERO: Self = Self(0);
    /// The greatest number there is. A peer that pushes a cluster this far ends its snapshots, not its service.
    pub const MAX: Self = Self(1 << 62);

    /// Wraps a number.
    ///
    /// # Errors
    ///
    /// When it is above [`MAX`](Self::MAX).
    pub const fn new(number: u64) -> Result<Self, CheckpointNumberError> {
        if number > Self::MAX.0 {
            return Err(CheckpointNumberError { number });
        }
        Ok(Self(number))
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number after this one; at the end of the range, this one.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 == Self::MAX.0 {
            self
        } else {
            Self(self.0 + 1)
        }
    }

    /// Returns the number so far above this one, or `None` if there is none.
    pub const fn ahead(self, by: u64) -> Option<Self> {
        match self.0.checked_add(by) {
            Some(number) if number <= Self::MAX.0 => Some(Self(number)),
            _ => None,
        }
    }

    /// Returns the number before this one; before the first, the same.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl From<u32> for CheckpointNumber {
    fn from(number: u32) -> Self {
        Self(number.into())
    }
}

impl<'de> Deserialize<'de> for CheckpointNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for CheckpointNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("#{}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_ends_without_overflow() {
        assert_eq!(CheckpointNumber::MAX.next(), CheckpointNumber::MAX);
        assert_eq!(CheckpointNumber::ZERO.previous(), CheckpointNumber::ZERO);
        assert_eq!(CheckpointNumber::from(6).next().get(), 7);
        assert!(CheckpointNumber::new(u64::MAX).is_err());
        assert_eq!(CheckpointNumber::MAX.ahead(0), Some(CheckpointNumber::MAX));
        assert_eq!(CheckpointNumber::MAX.ahead(1), None);
        assert_eq!(CheckpointNumber::from(6).ahead(u64::MAX), None);
        let bytes = rmp_serde::to_vec(&u64::MAX).unwrap();
        assert!(crate::messagepack::from_slice::<CheckpointNumber>(&bytes).is_err());
    }
}
