//! How often the check may hold events because of what is out of date.
//!
//! A suspicion that rests on out-of-date states is mostly refuted. After a few refutations of one kind of event only a small
//! part of such suspicions is still followed up, so that a busy service is not held up, and a real danger that stays is
//! found all the same.

use std::collections::BTreeMap;

/// So many refuted suspicions of a kind, and only a sample is followed up from then on.
const REFUTED_MAX: u32 = 4;
/// Then one in so many is.
const SAMPLE: u32 = 128;
/// Kinds that are told apart; with more, all count as refuted.
const KINDS_MAX: usize = 256;
/// What was refuted so far.
#[derive(Debug, Default)]
pub(super) struct Patience {
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
