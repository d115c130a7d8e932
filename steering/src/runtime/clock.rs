//! The clock of a node: it starts at the time of day and never goes back.
//!
//! Stamps and timers are read from the one clock, so that what a checkpoint says of both fits together. It is set once,
//! when the process starts; from then on it moves as the machine's steady clock does, whatever becomes of the time of day.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::capture::Readings;
use crate::runtime::timers::Timers;
use scry_engine::context::Stamp;

/// Where a node reads the time of day: once for its clock, and for its reports.
#[derive(Clone)]
pub struct TimeOfDay(Arc<dyn Fn() -> u64 + Send + Sync>);

impl TimeOfDay {
    /// Reads it where it is told to, in milliseconds since the epoch: a test may set it back or forward.
    pub fn new(read_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(read_ms))
    }

    /// Reads the machine's clock. One that is before the epoch is taken to stand at it.
    pub fn of_machine() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_millis() as u64)
        })
    }

    /// Returns the time of day, in milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeOfDay")
    }
}

/// A clock that was set once.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeClock {
    set_ms: u64,
    begun: Instant,
    /// What it said when something last happened to the node.
    event_ms: u64,
}

impl NodeClock {
    /// Sets a clock to the time of day, or to what it said before if that was later.
    pub(super) fn set(begun: Instant, time_of_day_ms: u64, before_ms: u64) -> Self {
        let set_ms = time_of_day_ms.max(before_ms);
        Self {
            set_ms,
            begun,
            event_ms: set_ms,
        }
    }

    fn reading(&self, at: Instant) -> u64 {
        let elapsed = at.saturating_duration_since(self.begun);
        self.set_ms.saturating_add(millis(elapsed))
    }

    /// Reads the clock for an event.
    pub(super) fn stamp(&mut self, now: Instant) -> Stamp {
        self.event_ms = self.reading(now).max(self.event_ms);
        Stamp::from_millis(self.event_ms)
    }

    /// Returns what it said when something last happened to the node.
    pub(super) fn event_ms(&self) -> u64 {
        self.event_ms
    }

    /// Says when timers are due, counted from when something last happened to the node.
    pub(super) fn readings<T: Clone + Ord>(&self, timers: &Timers<T>, armed: &[T]) -> Readings {
        let due = |timer: &T| {
            let due = timers.due_of(timer)?;
            Some(self.reading(due).saturating_sub(self.event_ms))
        };
        Readings {
            event_ms: self.event_ms,
            due_ms: armed.iter().map(|timer| due(timer).unwrap_or(0)).collect(),
        }
    }
}

fn millis(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_from_where_it_was_and_never_back() {
        let begun = Instant::now();
        let mut clock = NodeClock::set(begun, 1_000, 5_000);
        let later = begun + Duration::from_millis(30);
        assert_eq!(clock.stamp(later), Stamp::from_millis(5_030));
        assert_eq!(clock.stamp(begun), Stamp::from_millis(5_030));
        let mut clock = NodeClock::set(begun, 9_000, 5_000);
        assert_eq!(clock.stamp(later), Stamp::from_millis(9_030));
    }

    #[test]
    fn readings_count_from_the_last_event() {
        let begun = Instant::now();
        let mut clock = NodeClock::set(begun, 1_000, 0);
        let mut timers = Timers::new();
        timers.arm('a', Duration::from_millis(500), begun);
        clock.stamp(begun + Duration::from_millis(200));
        timers.arm('b', Duration::from_millis(7), begun);
        let readings = clock.readings(&timers, &['a', 'b', 'c']);
        assert_eq!(readings.event_ms, 1_200);
        assert_eq!(readings.due_ms, [300, 0, 0]);
    }
}
