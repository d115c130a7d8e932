//! How often the check may hold and refuse.
//!
//! A suspicion that rests on out-of-date states is mostly refuted. After a few refutations of one kind of event only a small
//! part of such suspicions is still followed up, so that a busy service is not held up, and a real danger that stays is
//! found all the same. Refusals are limited too: a property in whose name much is refused is more likely wrong than right.

use std::collections::BTreeMap;

use crate::checkpoint::Time;

/// So many refuted suspicions of a kind, and only a sample is followed up from then on.
const REFUTED_MAX: u32 = 4;
/// Then one in so many is.
const SAMPLE: u32 = 128;
/// Kinds that are told apart; with more, all count as refuted.
const KINDS_MAX: usize = 256;
/// More refusals of one property within a minute end its refusals for a while.
const REFUSALS_PER_MINUTE_MAX: u32 = 30;
const MINUTE_MS: u64 = 60_000;
/// How long.
const REST_MS: u64 = 600_000;

/// What was refuted and refused so far.
#[derive(Debug, Default)]
pub(super) struct Patience {
    kinds: BTreeMap<(String, String), Kind>,
    refusals: BTreeMap<String, Refusals>,
}

#[derive(Debug, Default)]
struct Kind {
    refuted: u32,
    passed_over: u32,
}

#[derive(Debug, Default)]
struct Refusals {
    since: Time,
    count: u32,
    rests_until: Option<Time>,
}

impl Patience {
    /// Tells whether a suspicion that rests on out-of-date states is followed up.
    pub(super) fn follows_up(&mut self, property: &str, kind: &str) -> bool {
        let key = (property.to_owned(), kind.to_owned());
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&key) {
            return false;
        }
        let kind = self.kinds.entry(key).or_default();
        if kind.refuted < REFUTED_MAX {
            return true;
        }
        kind.passed_over += 1;
        if kind.passed_over < SAMPLE {
            return false;
        }
        kind.passed_over = 0;
        true
    }

    /// Learns what came of a suspicion.
    pub(super) fn learn(&mut self, property: &str, kind: &str, confirmed: bool) {
        let key = (property.to_owned(), kind.to_owned());
        let Some(kind) = self.kinds.get_mut(&key) else {
            return;
        };
        kind.refuted = if confirmed {
            0
        } else {
            kind.refuted.saturating_add(1)
        };
    }

    /// Counts a refusal that is about to happen, or returns false if that would be too many.
    pub(super) fn may_refuse(&mut self, now: Time, property: &str) -> bool {
        let refusals = self.refusals.entry(property.to_owned()).or_default();
        if let Some(until) = refusals.rests_until {
            if now < until {
                return false;
            }
            *refusals = Refusals::default();
        }
        if now.millis_since(refusals.since) >= MINUTE_MS {
            (refusals.since, refusals.count) = (now, 0);
        }
        refusals.count += 1;
        if refusals.count > REFUSALS_PER_MINUTE_MAX {
            refusals.rests_until = Some(now.after_millis(REST_MS));
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_four_refutations_one_in_128_is_followed_up() {
        let mut patience = Patience::default();
        let mut followed = 0;
        for _ in 0..4 + 128 * 10 {
            if patience.follows_up("p", "Write") {
                followed += 1;
                patience.learn("p", "Write", false);
            }
        }
        assert_eq!(followed, 4 + 10);
        assert!(patience.follows_up("p", "Read"), "kinds are told apart");
        // One that is confirmed makes all of its kind credible again.
        while !patience.follows_up("p", "Write") {}
        patience.learn("p", "Write", true);
        assert!(patience.follows_up("p", "Write"));
    }

    #[test]
    fn thirty_refusals_a_minute_and_then_none_for_ten_minutes() {
        let mut patience = Patience::default();
        let at = Time::from_millis;
        let allowed = (0..100)
            .filter(|&n| patience.may_refuse(at(n), "p"))
            .count();
        assert_eq!(allowed, 30);
        assert!(patience.may_refuse(at(50), "q"));
        assert!(!patience.may_refuse(at(300_000), "p"));
        assert!(patience.may_refuse(at(700_000), "p"));
        // Few enough for ever.
        assert!((0..200).all(|n| patience.may_refuse(at(1_000_000 + n * 2_500), "r")));
    }
}
