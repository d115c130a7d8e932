//! What is left of the fault allowance, as one word of the global state.

use crate::model::fault::{Fault, Faults};
use crate::model::handler::mix;

/// How many different remainders an allowance may have.
pub const ALLOWANCES_MAX: usize = 1 << 16;

/// All remainders of one allowance, numbered; the full allowance is number 0.
#[derive(Clone, Debug)]
pub struct Allowances {
    all: Vec<Faults>,
    next: Vec<[u32; Fault::ALL.len()]>,
    /// One spread word per remainder, apart from those of node states.
    mixed: Vec<u64>,
}

/// Why an allowance cannot be explored.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the fault allowance has {0} different remainders, more than {ALLOWANCES_MAX}: allow fewer faults"
)]
pub struct AllowanceTooLarge(usize);

const SPENT: u32 = u32::MAX;

impl Allowances {
    /// Numbers the remainders.
    ///
    /// # Errors
    ///
    /// When there are too many.
    pub fn new(full: Faults) -> Result<Self, AllowanceTooLarge> {
        let count = Fault::ALL
            .iter()
            .map(|&fault| usize::from(full.left(fault)) + 1)
            .product();
        if count > ALLOWANCES_MAX {
            return Err(AllowanceTooLarge(count));
        }
        let mut all = vec![full];
        let mut at = 0;
        while at < all.len() {
            for fault in Fault::ALL {
                if let Some(after) = all[at].after(fault)
                    && !all.contains(&after)
                {
                    all.push(after);
                }
            }
            at += 1;
        }
        let number = |faults: Option<Faults>| {
            faults
                .and_then(|faults| all.iter().position(|other| *other == faults))
                .map_or(SPENT, |at| at as u32)
        };
        let next = all
            .iter()
            .map(|faults| Fault::ALL.map(|fault| number(faults.after(fault))))
            .collect();
        let mixed = (0..all.len())
            .map(|word| mix(word as u64 | 1 << 40))
            .collect();
        Ok(Self { all, next, mixed })
    }

    /// Returns the remainder of a number.
    pub fn value(&self, word: u32) -> Faults {
        self.all[word as usize]
    }

    /// Returns what is left after a fault, or `None` if it is spent.
    #[inline]
    pub(crate) fn after(&self, word: u32, fault: Fault) -> Option<u32> {
        let next = self.next[word as usize][fault as usize];
        (next != SPENT).then_some(next)
    }

    /// Returns a remainder's part of the fingerprint.
    #[inline]
    pub(crate) fn mixed(&self, word: u32) -> u64 {
        self.mixed[word as usize]
    }

    /// Tells whether a fault is possible at all.
    pub(crate) fn allows(&self, fault: Fault) -> bool {
        self.all[0].left(fault) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remainder_has_a_number_and_spending_is_counting_down() {
        let full = Faults {
            resets: 2,
            breaks: 1,
            ..Faults::NONE
        };
        let allowances = Allowances::new(full).expect("six remainders");
        assert_eq!(allowances.all.len(), 6);
        let once = allowances.after(0, Fault::Reset).expect("two resets");
        assert_eq!(
            allowances.value(once),
            Faults {
                resets: 1,
                breaks: 1,
                ..Faults::NONE
            }
        );
        let twice = allowances.after(once, Fault::Reset).expect("one reset");
        assert_eq!(allowances.after(twice, Fault::Reset), None);
        assert_eq!(allowances.after(0, Fault::Loss), None);
    }

    #[test]
    fn an_allowance_with_too_many_remainders_is_refused() {
        let full = Faults {
            resets: 255,
            silent_resets: 255,
            breaks: 255,
            losses: 255,
            duplicates: 255,
            late_starts: 255,
        };
        assert!(Allowances::new(full).is_err());
    }
}
