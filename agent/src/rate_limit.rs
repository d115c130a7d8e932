//! How much somebody may do in a time, and what is said of it when it is too much. Cores without a clock.

use std::collections::BTreeMap;

/// A rate limit, as a bucket that fills up with time, in thousandths of whatever is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    per_second: u64,
    burst: u64,
    /// Below zero after something large.
    level: i64,
    at_ms: u64,
}

impl Bucket {
    /// Starts full. With nothing a second there is no limit.
    pub(crate) fn new(per_second: u64, burst: u64) -> Self {
        let burst = burst.min(i64::MAX as u64 / 2_000);
        Self {
            per_second,
            burst,
            level: thousandths(burst),
            at_ms: 0,
        }
    }

    /// Takes something off, whether there is enough or not: what was done was done.
    pub(crate) fn charge(&mut self, now_ms: u64, cost: u64) {
        self.fill(now_ms);
        if self.per_second > 0 {
            self.level = self.level.saturating_sub(thousandths(cost));
        }
    }

    /// Takes something off if anything is left, and tells whether it was. Something larger than the whole bucket is
    /// possible too, and is paid for afterwards.
    pub(crate) fn take(&mut self, now_ms: u64, cost: u64) -> bool {
        let is_allowed = self.wait_ms(now_ms) == 0;
        if is_allowed {
            self.charge(now_ms, cost);
        }
        is_allowed
    }

    /// Returns how long it takes until something is left.
    pub(crate) fn wait_ms(&mut self, now_ms: u64) -> u64 {
        self.fill(now_ms);
        match self.per_second {
            0 => 0,
            _ if self.level > 0 => 0,
            // One thousandth more than nothing, at `per_second` thousandths a millisecond.
            per_second => (1 - self.level).unsigned_abs().div_ceil(per_second),
        }
    }

    fn fill(&mut self, now_ms: u64) {
        let elapsed = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        let more = elapsed.saturating_mul(self.per_second);
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(more).min(thousandths(self.burst));
    }
}

fn thousandths(count: u64) -> i64 {
    i64::try_from(count.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

/// Tells the first few of what repeats itself, counts the others, and tells their number when the interval is over.
#[derive(Debug)]
pub(crate) struct Folding<K> {
    interval_ms: u64,
    keys_max: usize,
    /// `None` stands for all for which there was no room of their own.
    windows: BTreeMap<Option<K>, Window>,
}

#[derive(Debug)]
struct Window {
    since_ms: u64,
    told: u64,
    left_out: u64,
}

/// What was left out, once its interval is over.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct LeftOut<K> {
    /// Of what; `None` if of too many things to count them apart.
    pub(crate) key: Option<K>,
    /// How many.
    pub(crate) count: u64,
    /// In what time.
    pub(crate) elapsed_ms: u64,
}

/// For lines of a log that people read: a minute, and a few hundred things.
impl<K: Ord> Default for Folding<K> {
    fn default() -> Self {
        Self::new(60_000, 512)
    }
}

impl<K: Ord> Folding<K> {
    /// Folds over an interval, and counts so many different things apart.
    pub(crate) fn new(interval_ms: u64, keys_max: usize) -> Self {
        Self {
            interval_ms,
            keys_max,
            windows: BTreeMap::new(),
        }
    }

    /// Notes that something happened, and tells whether it is to be told: the first `told_max` in an interval are.
    pub(crate) fn note(&mut self, now_ms: u64, key: K, told_max: u64) -> bool {
        let mut key = Some(key);
        let interval_ms = self.interval_ms;
        let is_over = |window: &Window| now_ms >= window.since_ms + interval_ms;
        if !self.windows.contains_key(&key) && self.windows.len() >= self.keys_max {
            // Windows in which nothing was left out have nothing more to say.
            self.windows
                .retain(|_, window| window.left_out > 0 || !is_over(window));
            if self.windows.len() >= self.keys_max {
                key = None;
            }
        }
        let fresh = Window {
            since_ms: now_ms,
            told: 0,
            left_out: 0,
        };
        let window = self.windows.entry(key).or_insert(fresh);
        if window.left_out == 0 && is_over(window) {
            window.since_ms = now_ms;
            window.told = 0;
        }
        let is_told = window.told < told_max;
        match is_told {
            true => window.told += 1,
            false => window.left_out += 1,
        }
        is_told
    }

    /// Returns what was left out in intervals that are over.
    pub(crate) fn over(&mut self, now_ms: u64) -> Vec<LeftOut<K>> {
        let interval_ms = self.interval_ms;
        let over = self
            .windows
            .extract_if(.., |_, window| now_ms >= window.since_ms + interval_ms);
        told(now_ms, over)
    }

    /// Returns everything that was left out so far, as at the end.
    pub(crate) fn rest(&mut self, now_ms: u64) -> Vec<LeftOut<K>> {
        told(now_ms, std::mem::take(&mut self.windows).into_iter())
    }
}

fn told<K>(now_ms: u64, windows: impl Iterator<Item = (Option<K>, Window)>) -> Vec<LeftOut<K>> {
    windows
        .filter(|(_, window)| window.left_out > 0)
        .map(|(key, window)| LeftOut {
            key,
            count: window.left_out,
            elapsed_ms: now_ms.saturating_sub(window.since_ms),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_passes_than_the_rate_and_one_burst() {
        for (per_second, burst) in [(1, 1), (500, 1_000), (7, 3)] {
            let mut bucket = Bucket::new(per_second, burst);
            let mut passed = 0;
            for now_ms in 0..10_000 {
                while bucket.take(now_ms, 1) {
                    passed += 1;
                }
            }
            let expect = burst + per_second * 10;
            assert!(passed <= expect + 1, "{passed} of {expect}");
            assert!(passed + 1 >= expect, "{passed} of {expect}");
        }
    }

    #[test]
    fn what_is_larger_than_everything_passes_and_is_paid_for() {
        let mut bucket = Bucket::new(10, 20);
        assert!(bucket.take(0, 100));
        assert!(!bucket.take(0, 1));
        // Eighty are owed, at ten a second.
        assert_eq!(bucket.wait_ms(0), 8_001);
        assert!(!bucket.take(8_000, 1));
        assert!(bucket.take(8_001, 1));
    }

    #[test]
    fn without_a_rate_there_is_no_limit_and_a_clock_that_stands_is_no_gift() {
        let mut free = Bucket::new(0, 0);
        assert!((0..10_000).all(|_| free.take(0, u64::MAX)));
        let mut bucket = Bucket::new(1, 1);
        assert!(bucket.take(5_000, 1));
        assert!(!bucket.take(4_000, 1));
        assert!(!bucket.take(5_000, 1));
    }

    #[test]
    fn the_first_few_are_told_and_the_number_of_the_others() {
        let mut folding = Folding::new(10_000, 8);
        let told = (0..100).filter(|_| folding.note(1_000, "a", 3)).count();
        assert_eq!(told, 3);
        assert!(folding.note(1_000, "b", 3));
        assert!(folding.over(10_999).is_empty());
        let expect = LeftOut {
            key: Some("a"),
            count: 97,
            elapsed_ms: 10_000,
        };
        assert_eq!(folding.over(11_000), [expect]);
        assert!(folding.note(11_000, "a", 3), "a new interval begins");
        assert!(folding.rest(11_000).is_empty());
    }

    #[test]
    fn however_many_things_there_are_little_is_remembered_and_little_told() {
        let mut folding = Folding::new(10_000, 8);
        let told = (0..1_000).filter(|&key| folding.note(0, key, 1)).count();
        assert_eq!(told, 9);
        assert_eq!(folding.windows.len(), 9);
        // Nothing was left out of most, so they make room.
        assert!(folding.note(10_000, 1_000, 1));
        assert!(!folding.note(10_000, 1_000, 1));
        let expect = LeftOut {
            key: None,
            count: 991,
            elapsed_ms: 10_000,
        };
        assert_eq!(folding.over(10_000), [expect]);
    }
}
