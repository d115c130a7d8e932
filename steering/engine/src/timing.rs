//! Paths laid out in time: whether there are times for the events of a path, and what they must be.
//!
//! A search leaves time out: timers fire in any order, and whether a time has passed is answered both ways. Before a path
//! is reported, times are looked for such that
//!
//! - a node's events happen in order, and a message arrives after it was sent;
//! - a timer fires no sooner than it was set to, and no later than [`Clock::late_ms`] after that, unless it is cancelled,
//!   set anew or lost in a reset before;
//! - [`Context::expired`](crate::Context::expired) was answered as the times say.
//!
//! Times are whole milliseconds. As long as clocks run alike these are difference constraints, and are solved exactly
//! ([`Layout`]); clocks that drift, or stamps that are compared by another node's clock, make it a linear program. A path
//! that does not fit is not the end of a finding: another way to the violation is looked for, with time taken into
//! account at every step (`find`).
//!
//! | module | what it holds |
//! |---|---|
//! | `zone` | what is known of some moments: bounds on their differences |
//! | `moments` | a system's moments that still matter: when timers were armed, when stamps were read |
//! | `path` | the constraints of a whole path |
//! | `solve`, `program` | times that meet constraints, or why there are none |
//! | `find` | a search with time taken into account |
//! | [`layout`] | a path with its times, in words |
//!
//! Nothing here reads a clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub mod find;
pub mod layout;
pub mod moments;
pub(crate) mod path;
pub(crate) mod program;
pub(crate) mod solve;
pub(crate) mod zone;

pub use layout::{Layout, Meanwhile};
pub use solve::Need;

/// What parts in a million are counted by.
const MILLION: i128 = 1_000_000;
/// How far a clock may drift at most: nothing is known of one that may run at half the rate.
pub const DRIFT_PPM_MAX: u32 = 500_000;
/// How late, or how far apart, is still told apart from never: a year.
pub const MS_MAX: u64 = 365 * 24 * 3_600_000;

/// Whether paths must fit in time.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// A path is reported only if there are times for its events.
    #[default]
    Fit,
    /// Every order of timers and every answer about time is possible (MaceMC's way).
    Free,
}

/// How well clocks and timers are kept.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Whether paths must fit in time at all.
    pub time: Time,
    /// How much later than it was set to a timer may fire.
    pub late_ms: u64,
    /// How far the clock of a node may be from the true time, where stamps of one node are compared by another.
    pub skew_ms: u64,
    /// How much faster or slower than true time a clock may run, in parts in a million.
    pub drift_ppm: u32,
    /// How many states are looked at, for each finding whose path does not fit, to find another path that does.
    pub tries: u32,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            time: Time::Fit,
            late_ms: 100,
            skew_ms: 0,
            drift_ppm: 0,
            tries: 20_000,
        }
    }
}

impl Clock {
    /// Every order of timers and every answer about time is possible.
    pub const FREE: Self = Self {
        time: Time::Free,
        late_ms: 0,
        skew_ms: 0,
        drift_ppm: 0,
        tries: 0,
    };

    /// The least true time in which a clock can count this many milliseconds.
    pub(crate) fn least(&self, ms: i64) -> i64 {
        let scaled = i128::from(ms) * MILLION / (MILLION + i128::from(self.drift_ppm));
        scaled as i64
    }

    /// The most true time in which a clock can count this many milliseconds.
    pub(crate) fn most(&self, ms: i64) -> i64 {
        let slow = MILLION - i128::from(self.drift_ppm.min(DRIFT_PPM_MAX));
        let scaled = i128::from(ms) * MILLION / slow;
        match scaled * slow < i128::from(ms) * MILLION {
            true => scaled as i64 + 1,
            false => scaled as i64,
        }
    }

    pub(crate) fn late(&self) -> i64 {
        self.late_ms.min(MS_MAX) as i64
    }

    /// How far two nodes' clocks may be apart.
    pub fn apart(&self) -> i64 {
        2 * self.skew_ms.min(MS_MAX) as i64
    }
}

/// The whole milliseconds of a delay, which are what a clock can tell. Longer than a year is a year.
pub(crate) fn whole(after: Duration) -> i64 {
    after.as_millis().min(u128::from(MS_MAX)) as i64
}

/// The whole milliseconds after which a delay is surely over.
pub(crate) fn over(after: Duration) -> i64 {
    let ms = whole(after);
    let whole = after.subsec_nanos().is_multiple_of(1_000_000);
    ms + i64::from(!whole)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fit => "fit",
            Self::Free => "free",
        })
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fit" => Ok(Self::Fit),
            "free" => Ok(Self::Free),
            _ => Err("give `fit` or `free`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_drifts_counts_the_same_in_more_or_less_time() {
        let clock = Clock {
            drift_ppm: 10_000,
            ..Clock::default()
        };
        assert_eq!((clock.least(1010), clock.most(990)), (1000, 1000));
        assert_eq!((clock.least(1000), clock.most(1000)), (990, 1011));
        let even = Clock::default();
        assert_eq!((even.least(77), even.most(77)), (77, 77));
    }

    #[test]
    fn delays_count_in_whole_milliseconds() {
        let after = Duration::from_micros(1500);
        assert_eq!((whole(after), over(after)), (1, 2));
        assert_eq!(whole(Duration::MAX), MS_MAX as i64);
    }
}
