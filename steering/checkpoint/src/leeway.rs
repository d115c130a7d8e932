//! How far others may move a node's number.
//!
//! Numbers up to [`BELIEVED_MAX`] are always believed: clocks and disks bring honest nodes there, whatever is wrong with
//! them, and a node that began with one is followed by all others at once. So nothing but a lie leads to a number that one
//! honest node has and another one refuses.
//!
//! Above it a number from outside is believed if it is not further ahead than honest ones can be. They rise by a few with
//! each period and each question, far slower than [`PER_MS`]; what was used up of [`START`] grows again with time, so that
//! whoever was cut off for long catches up. Nobody can say how far ahead a number may be *at one moment*, only how far all
//! rises together go: with this, lies would have to go on for fifty thousand years to reach the end of the range.

use scry_protocol::CheckpointNumber;

use crate::Time;

/// What a clock may say, in milliseconds since the epoch: it is the year 2109. One that says more is not believed.
pub const CLOCK_MS_MAX: u64 = 1 << 42;
/// Up to here every number is believed, as a clock and a lost disk may bring it about.
pub const BELIEVED_MAX: u64 = if_lost(CLOCK_MS_MAX);
/// How far a number may rise at once beyond that.
pub const START: u64 = 1 << 42;
/// How much further with every millisecond.
pub const PER_MS: u64 = 1 << 10;
/// Above this no number is followed, however many say it: there must be room left for what time brings.
pub const FOLLOWED_MAX: u64 = 1 << 61;

/// Whoever goes back to where most neighbors are begins so far above them: what it has heard of all others lies below, and
/// they follow at once.
pub const YIELD_AHEAD: u64 = 1 << 20;

/// Whoever hears from a member whose number is not believed goes so far ahead, at most once in [`LEAP_MS`]: above what the
/// others can be at that have been in touch with it. That is within what time adds to their leeways.
pub const LEAP: u64 = 1 << 20;
/// How often at most.
pub const LEAP_MS: u64 = LEAP / PER_MS;

/// Returns the number that the time of day stands for.
pub fn of_clock(clock_ms: u64) -> CheckpointNumber {
    CheckpointNumber::new(clock_ms.min(CLOCK_MS_MAX)).unwrap_or(CheckpointNumber::ZERO)
}

/// Returns the number to begin with if the one that was stored is lost: above all that honest hosts have reached by now,
/// even after others have begun here before, since it rises much faster than numbers do.
pub fn of_clock_if_lost(clock_ms: u64) -> CheckpointNumber {
    let clock_ms = of_clock(clock_ms).get();
    CheckpointNumber::new(if_lost(clock_ms)).unwrap_or(CheckpointNumber::ZERO)
}

/// Far above what the time of day stands for, and sixteen more with every millisecond.
const fn if_lost(clock_ms: u64) -> u64 {
    (1 << 44) + 16 * clock_ms
}

/// Tells whether a number that was stored is one that a host may have reached: one that all others follow.
pub fn is_stored_plausible(number: CheckpointNumber) -> bool {
    number.get() <= BELIEVED_MAX + START
}

/// Tells whether two numbers are so far apart that those at the lower one do not follow to the greater.
pub fn is_far(low: CheckpointNumber, high: CheckpointNumber) -> bool {
    high.get() > BELIEVED_MAX && high.get().saturating_sub(low.get()) > START
}

/// What is left of a node's leeway.
#[derive(Clone, Copy, Debug)]
pub struct Leeway {
    left: u64,
    at: Time,
}

impl Leeway {
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
        needed(from, to) <= self.left(now)
    }

    /// Uses up what a rise needs, and tells whether it is within it; if not, nothing is used up.
    #[must_use]
    pub fn take(&mut self, now: Time, from: CheckpointNumber, to: CheckpointNumber) -> bool {
        if !self.admits(now, from, to) {
            return false;
        }
        self.left = self.left(now) - needed(from, to);
        self.at = self.at.max(now);
        true
    }
}

/// Returns how much of a rise lies beyond what is always believed.
fn needed(from: CheckpointNumber, to: CheckpointNumber) -> u64 {
    to.get().saturating_sub(from.get().max(BELIEVED_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> CheckpointNumber {
        CheckpointNumber::new(number).expect("in range")
    }

    #[test]
    fn what_clocks_and_disks_bring_about_is_always_followed() {
        let now = Time::from_millis(7);
        let mut leeway = Leeway::new(now);
        for clock_ms in [0, 5, 1_790_000_000_000, 253_402_300_799_000, u64::MAX] {
            for born in [of_clock(clock_ms), of_clock_if_lost(clock_ms)] {
                assert!(leeway.take(now, number(1), born), "{clock_ms}: {born}");
                assert!(!is_far(number(1), born));
                assert!(is_stored_plausible(born));
            }
        }
    }

    #[test]
    fn whoever_was_cut_off_catches_up() {
        let now = Time::from_millis(7);
        let mut leeway = Leeway::new(now);
        let far = number(BELIEVED_MAX + START);
        assert!(is_stored_plausible(far) && leeway.take(now, number(1), far));
        // Ten days alone, while the others took a thousand a second.
        let later = now.after_millis(864_000_000);
        let ahead = far.ahead(864_000_000).expect("in range");
        assert!(leeway.take(later, far, ahead));
    }

    #[test]
    fn what_is_used_up_grows_again_with_time_only() {
        let now = Time::from_millis(0);
        let mut leeway = Leeway::new(now);
        let at = |ahead| number(BELIEVED_MAX + ahead);
        assert!(!leeway.take(now, at(5), CheckpointNumber::MAX));
        assert!(leeway.take(now, at(5), at(5 + START)));
        assert!(!leeway.take(now, at(5), at(6)));
        let later = now.after_millis(1);
        assert!(leeway.take(later, at(5), at(5 + PER_MS)));
        assert!(!leeway.admits(later, at(5), at(6)));
        assert!(
            leeway.take(later, at(9), at(3)),
            "who is behind moves nobody"
        );
    }
}
