//! Which timers are armed, until when, and how long they ran last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// A postponed timer waits at least so long, or one armed with no delay would keep the node busy with being postponed.
const POSTPONE_MIN: Duration = Duration::from_millis(1);

/// The timers of one incarnation of a node.
#[derive(Debug)]
pub(super) struct Timers<T> {
    armed: BTreeMap<T, (Instant, Duration)>,
    queue: BTreeSet<(Instant, T)>,
}

impl<T: Clone + Ord> Timers<T> {
    pub(super) fn new() -> Self {
        Self {
            armed: BTreeMap::new(),
            queue: BTreeSet::new(),
        }
    }

    /// Arms a timer, or moves it.
    pub(super) fn arm(&mut self, timer: T, after: Duration, now: Instant) {
        self.cancel(&timer);
        // A delay beyond the clock's range is as good as never: a century.
        let due = now
            .checked_add(after)
            .unwrap_or(now + Duration::from_secs(100 * 365 * 86_400));
        self.queue.insert((due, timer.clone()));
        self.armed.insert(timer, (due, after));
    }

    /// Disarms a timer, if it is armed.
    pub(super) fn cancel(&mut self, timer: &T) {
        if let Some((due, _)) = self.armed.remove(timer) {
            self.queue.remove(&(due, timer.clone()));
        }
    }

    /// Tells whether a timer is armed.
    pub(super) fn is_armed(&self, timer: &T) -> bool {
        self.armed.contains_key(timer)
    }

    /// Returns when the next timer is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// Returns when a timer is due, if it is armed.
    pub(super) fn due_of(&self, timer: &T) -> Option<Instant> {
        self.armed.get(timer).map(|(due, _)| *due)
    }

    /// Takes the first timer that is due, with how long it ran. It is not armed any more.
    pub(super) fn fire(&mut self, now: Instant) -> Option<(T, Duration)> {
        if self.due()? > now {
            return None;
        }
        let (_, timer) = self.queue.pop_first()?;
        let (_, after) = self.armed.remove(&timer).expect("queued timers are armed");
        Some((timer, after))
    }

    /// Arms a timer that fired and was not handled for as long as it ran before.
    pub(super) fn postpone(&mut self, timer: T, after: Duration, now: Instant) {
        self.arm(timer, after.max(POSTPONE_MIN), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn timers_fire_in_order_move_and_are_cancelled() {
        let now = Instant::now();
        let mut timers = Timers::new();
        timers.arm('a', 3 * SECOND, now);
        timers.arm('b', 2 * SECOND, now);
        timers.arm('c', SECOND, now);
        timers.arm('a', SECOND / 2, now);
        timers.cancel(&'c');
        timers.cancel(&'z');
        assert_eq!(timers.due(), Some(now + SECOND / 2));
        assert_eq!(timers.fire(now), None);
        let later = now + 5 * SECOND;
        assert_eq!(timers.fire(later), Some(('a', SECOND / 2)));
        assert_eq!(timers.fire(later), Some(('b', 2 * SECOND)));
        assert_eq!(timers.fire(later), None);
        assert_eq!(timers.due(), None);
    }

    #[test]
    fn a_postponed_timer_runs_as_long_again_and_never_for_no_time() {
        let now = Instant::now();
        let mut timers = Timers::new();
        timers.arm('a', SECOND, now);
        let (timer, after) = timers.fire(now + SECOND).expect("due");
        timers.postpone(timer, after, now + SECOND);
        assert_eq!(timers.due(), Some(now + 2 * SECOND));
        timers.postpone('b', Duration::ZERO, now);
        assert_eq!(timers.fire(now), None);
    }

    #[test]
    fn a_delay_without_end_is_far_away() {
        let now = Instant::now();
        let mut timers = Timers::new();
        timers.arm('a', Duration::MAX, now);
        assert!(timers.due() > Some(now + 1000 * SECOND));
    }
}
