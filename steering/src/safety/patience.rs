//! How often the check may hold events because of what is out of date, and which it always looks at.
//!
//! A suspicion that rests on out-of-date states is mostly refuted. After a few refutations of one kind of event only a small
//! part of such suspicions is still followed up, so that a busy service is not held up, and a real danger that stays is
//! found all the same. Where an event was refused, every one of its kind is looked at for a while, whatever the last known states
//! say: a service in which it happened once has a bug, and it will happen again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So many refuted suspicions of a kind, and only a sample is followed up from then on.
const REFUTED_MAX: u32 = 4;
/// Then one in so many is.
const SAMPLE: u32 = 128;
/// Kinds that are told apart; with more, all count as refuted.
const KINDS_MAX: usize = 256;
/// Where one was refused, all of its kind are looked at for so long.
const GUILTY_FOR: Duration = Duration::from_secs(600);

/// What was refuted and confirmed so far.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Kinds of which one was refused, with the property, and until when all of them are looked at.
    guilty: BTreeMap<String, (String, Instant)>,
    kinds: BTreeMap<(String, String), Kind>,
}

#[derive(Debug, Default)]
struct Kind {
    refuted: u32,
    passed_over: u32,
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

    /// Tells whether no event of any kind would have broken a property lately.
    #[inline]
    pub(super) fn knows_none_guilty(&self) -> bool {
        self.guilty.is_empty()
    }

    /// Returns the property that one of this kind would have broken lately.
    pub(super) fn was_guilty(&self, now: Instant, kind: &str) -> Option<&str> {
        let (property, until) = self.guilty.get(kind)?;
        (now < *until).then_some(property)
    }

    /// Learns that an event of a kind would have broken a property together with others.
    pub(super) fn note_guilty(&mut self, now: Instant, property: &str, kind: &str) {
        if self.guilty.len() < KINDS_MAX || self.guilty.contains_key(kind) {
            let guilty = (property.to_owned(), now + GUILTY_FOR);
            self.guilty.insert(kind.to_owned(), guilty);
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_one_was_guilty_all_are_looked_at_for_a_while() {
        let mut patience = Patience::default();
        let now = Instant::now();
        assert_eq!(patience.was_guilty(now, "Write"), None);
        patience.note_guilty(now, "p", "Write");
        assert_eq!(patience.was_guilty(now, "Write"), Some("p"));
        assert_eq!(patience.was_guilty(now, "Read"), None);
        assert_eq!(patience.was_guilty(now + GUILTY_FOR, "Write"), None);
    }

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
}
