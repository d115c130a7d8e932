//! How far others may move a node's number.
//!
//! A number from outside is believed if it is not further ahead than honest numbers can be. They rise by a few with each
//! period and each question, far slower than [`PER_MS`]; a host without a disk begins with the milliseconds since the epoch,
//! so that a newcomer with a disk, which begins at one, may have that far to go, and clocks may be years apart: that is
//! [`START`]. What is used up grows again with time, so that whoever was cut off for long catches up. Nobody can say how
//! far ahead a number may be *at one moment*, only how far all rises together go: with this, lies alone would have to go on
//! for a hundred thousand years to reach the end of the range.

use scry_protocol::CheckpointNumber;

use crate::checkpoint::Time;

/// How far a number may rise at once: twice the milliseconds since the epoch.
pub const START: u64 = 1 << 42;
/// How much further with every millisecond.
pub const PER_MS: u64 = 1 << 10;
/// Above this no number is followed, however many say it: there must be room left for what time brings.
pub const FOLLOWED_MAX: u64 = 1 << 61;

/// Whoever goes back to where most neighbors are begins so far above them: what it has heard of all others lies below, and
/// they follow at once.
pub const YIELD_AHEAD: u64 = 1 << 20;

/// What is left of a node's allowance.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: u64,
    at: Time,
}

impl Allowance {
    /// Begins with all of it.
    pub const fn new(now: Time) -> Self {
        Self {
            left: START,
            at: now,
        }
    }

    fn left(&self, now: Time) -> u64 {
        let grown = now.millis_since(self.at).saturating_mul(PER_MS);
        self.left.saturating_add(grown)
    }

    /// Tells whether a rise is within it.
    pub fn admits(&self, now: Time, from: CheckpointNumber, to: CheckpointNumber) -> bool {
        to.get().saturating_sub(from.get()) <= self.left(now)
    }

    /// Uses up what a rise needs, and tells whether it is within it; if not, nothing is used up.
    #[must_use]
    pub fn take(&mut self, now: Time, from: CheckpointNumber, to: CheckpointNumber) -> bool {
        if !self.admits(now, from, to) {
            return false;
        }
        self.left = self.left(now) - to.get().saturating_sub(from.get());
        self.at = self.at.max(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> CheckpointNumber {
        CheckpointNumber::new(number).expect("in range")
    }

    #[test]
    fn a_newcomer_and_whoever_was_cut_off_catch_up() {
        let now = Time::from_millis(7);
        let mut allowance = Allowance::new(now);
        // From the first number to one that began with the time of day.
        assert!(allowance.take(now, number(1), number(1_790_000_000_000)));
        // Ten days alone, while the others took a thousand a second.
        let later = now.after_millis(864_000_000);
        let ahead = number(1_790_000_000_000 + 864_000_000);
        assert!(allowance.take(later, number(1_790_000_000_000), ahead));
    }

    #[test]
    fn what_is_used_up_grows_again_with_time_only() {
        let now = Time::from_millis(0);
        let mut allowance = Allowance::new(now);
        assert!(!allowance.take(now, number(5), CheckpointNumber::MAX));
        assert!(allowance.take(now, number(5), number(5 + START)));
        assert!(!allowance.take(now, number(5), number(6)));
        let later = now.after_millis(1);
        assert!(allowance.take(later, number(5), number(5 + PER_MS)));
        assert!(!allowance.admits(later, number(5), number(6)));
        assert!(
            allowance.take(later, number(9), number(3)),
            "who is behind moves nobody"
        );
    }
}
