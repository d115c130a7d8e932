//! How often the immediate check may refuse events: a property that stops too much is more likely wrong than right, and is
//! only watched from then on.
//!
//! Without IO: moments come in. What filters may do is limited in the same way ([`Disarm`](crate::hook::Disarm)).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How much may be refused for the sake of one property.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VetoLimits {
    /// More vetoes within a minute disarm the property's vetoes.
    pub vetoes_per_minute_max: u32,
    /// For how long they then only watch.
    pub pause: Duration,
}

impl Default for VetoLimits {
    fn default() -> Self {
        Self {
            vetoes_per_minute_max: 120,
            pause: Duration::from_secs(600),
        }
    }
}

const WINDOW: Duration = Duration::from_secs(60);

/// Whether an event may be refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Allowance {
    /// It may.
    Veto,
    /// It may not, and this is the first time: somebody should know.
    Disarmed,
    /// It may not.
    Watch,
}

/// What was refused lately, by property.
#[derive(Debug, Default)]
pub(super) struct VetoCounts {
    limits: VetoLimits,
    counts: BTreeMap<String, Count>,
}

#[derive(Debug)]
struct Count {
    since: Instant,
    vetoes: u32,
    disarmed_until: Option<Instant>,
}

impl VetoCounts {
    pub(super) fn new(limits: VetoLimits) -> Self {
        Self {
            limits,
            counts: BTreeMap::new(),
        }
    }

    /// Tells whether what was refused and counted before may be refused once more.
    pub(super) fn allow_again(&self, now: Instant, property: &str) -> Allowance {
        let count = self.counts.get(property);
        match count.and_then(|count| count.disarmed_until) {
            Some(until) if now < until => Allowance::Watch,
            _ => Allowance::Veto,
        }
    }

    /// Counts a veto that is about to happen, unless it would be one too many.
    pub(super) fn allow(&mut self, now: Instant, property: &str) -> Allowance {
        if !self.counts.contains_key(property) {
            let count = Count {
                since: now,
                vetoes: 0,
                disarmed_until: None,
            };
            self.counts.insert(property.to_owned(), count);
        }
        let Some(count) = self.counts.get_mut(property) else {
            return Allowance::Watch;
        };
        if count.disarmed_until.is_some_and(|until| now < until) {
            return Allowance::Watch;
        }
        if count.disarmed_until.take().is_some() || now.duration_since(count.since) >= WINDOW {
            count.since = now;
            count.vetoes = 0;
        }
        if count.vetoes >= self.limits.vetoes_per_minute_max {
            count.disarmed_until = Some(now + self.limits.pause);
            return Allowance::Disarmed;
        }
        count.vetoes += 1;
        Allowance::Veto
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_vetoes_a_minute_and_then_none_for_a_while() {
        let limits = VetoLimits {
            vetoes_per_minute_max: 3,
            pause: Duration::from_secs(100),
        };
        let mut counts = VetoCounts::new(limits);
        let begun = Instant::now();
        let mut at = |seconds: u64| counts.allow(begun + Duration::from_secs(seconds), "p");
        assert_eq!([at(0), at(1), at(2)], [Allowance::Veto; 3]);
        assert_eq!(at(59), Allowance::Disarmed);
        assert_eq!([at(60), at(158)], [Allowance::Watch; 2]);
        assert_eq!(at(159), Allowance::Veto);
    }

    #[test]
    fn a_new_minute_counts_anew_and_each_property_by_itself() {
        let limits = VetoLimits {
            vetoes_per_minute_max: 1,
            pause: Duration::from_secs(100),
        };
        let mut counts = VetoCounts::new(limits);
        let begun = Instant::now();
        let later = begun + Duration::from_secs(60);
        assert_eq!(counts.allow(begun, "a"), Allowance::Veto);
        assert_eq!(counts.allow(begun, "b"), Allowance::Veto);
        assert_eq!(counts.allow(later, "a"), Allowance::Veto);
        assert_eq!(counts.allow(later, "a"), Allowance::Disarmed);
        assert_eq!(counts.allow(later, "b"), Allowance::Veto);
    }

    #[test]
    fn what_is_refused_once_more_is_not_counted_again() {
        let limits = VetoLimits {
            vetoes_per_minute_max: 1,
            pause: Duration::from_secs(100),
        };
        let mut counts = VetoCounts::new(limits);
        let now = Instant::now();
        assert_eq!(counts.allow(now, "p"), Allowance::Veto);
        for _ in 0..1000 {
            assert_eq!(counts.allow_again(now, "p"), Allowance::Veto);
        }
        assert_eq!(counts.allow(now, "p"), Allowance::Disarmed);
        assert_eq!(counts.allow_again(now, "p"), Allowance::Watch);
    }
}
