//! How long something took, counted by length: what a histogram of Prometheus is made of.

use serde::{Deserialize, Serialize};

/// Up to which length each count goes, in microseconds. One more count is of what took longer than the last.
pub const TIME_BOUNDS_US: [u64; 18] = [
    10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000, 60_000_000,
];

/// No count goes beyond this, so that sums of them are numbers too.
const COUNT_MAX: u64 = u64::MAX >> 5;

/// Lengths of time, since something started.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Apart, so that a frame that has one is not large for it.
    counts: Box<[u64; TIME_BOUNDS_US.len() + 1]>,
    sum_us: u64,
}

impl Times {
    /// Counts one.
    pub fn note_us(&mut self, us: u64) {
        let at = TIME_BOUNDS_US.partition_point(|&bound| bound < us);
        self.counts[at] = self.counts[at].saturating_add(1).min(COUNT_MAX);
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Counts one.
    pub fn note_ms(&mut self, ms: u64) {
        self.note_us(ms.saturating_mul(1_000));
    }

    /// Adds what is new in `now` since it was `before`. Counts that went back, as after a restart, add nothing.
    pub fn add_new(&mut self, before: &Self, now: &Self) {
        let pairs = now.counts.iter().zip(before.counts.iter());
        for (count, (now, before)) in self.counts.iter_mut().zip(pairs) {
            let new = now.saturating_sub(*before);
            *count = count.saturating_add(new).min(COUNT_MAX);
        }
        let new = now.sum_us.saturating_sub(before.sum_us);
        self.sum_us = self.sum_us.saturating_add(new);
    }

    /// Returns how many there were of each length: up to which bound, in microseconds, and how many. The last has none.
    pub fn counts(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let bounds = TIME_BOUNDS_US.iter().copied().map(Some).chain([None]);
        bounds.zip(self.counts.iter().map(|&count| count.min(COUNT_MAX)))
    }

    /// Returns how many there were.
    pub fn count(&self) -> u64 {
        // Those of a frame may be anything.
        self.counts.iter().map(|&count| count.min(COUNT_MAX)).sum()
    }

    /// Returns how long they took together, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_what_it_bounds() {
        let mut times = Times::default();
        for us in [0, 10, 11, 60_000_000, 60_000_001, u64::MAX] {
            times.note_us(us);
        }
        let counts: Vec<(Option<u64>, u64)> =
            times.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            counts,
            [
                (Some(10), 2),
                (Some(50), 1),
                (Some(60_000_000), 1),
                (None, 2)
            ]
        );
        assert_eq!(times.count(), 6);
        assert_eq!(times.sum_us(), u64::MAX);
        assert!(TIME_BOUNDS_US.is_sorted());
    }

    #[test]
    fn only_what_is_new_is_added() {
        let (mut before, mut sum) = (Times::default(), Times::default());
        before.note_us(5);
        let mut now = before.clone();
        now.note_ms(1);
        sum.add_new(&before, &now);
        assert_eq!((sum.count(), sum.sum_us()), (1, 1_000));
        // A host that started anew counts from nothing.
        sum.add_new(&now, &Times::default());
        assert_eq!((sum.count(), sum.sum_us()), (1, 1_000));
    }
}
