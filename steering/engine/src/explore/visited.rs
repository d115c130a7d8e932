//! The set of fingerprints seen: 8 bytes each, in lines of the size the processor fetches, nothing else.
//!
//! A fingerprint lives in the line its low bits name, or in one after it if that was full. So nearly every look-up
//! touches one cache line; [`Fingerprints::prefetch`] lets many of those misses overlap.

use crate::explore::processor::prefetch;

const SLOTS: usize = 8;
/// How full the lines may be on average, in slots.
const FILL_MAX: usize = 6;
const LINES_MIN: usize = 2;

/// One shard of the visited set.
#[derive(Debug)]
pub(crate) struct Fingerprints {
    lines: Vec<Line>,
    used: usize,
}

/// Slots are filled from the first on. Zero marks a free slot, which is why no fingerprint is zero ([`nonzero`]).
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; SLOTS]);

impl Default for Fingerprints {
    fn default() -> Self {
        Self {
            lines: vec![Line([0; SLOTS]); LINES_MIN],
            used: 0,
        }
    }
}

/// Keeps fingerprints apart from free slots, at the price of one more pair that collides.
#[inline]
pub(crate) fn nonzero(fingerprint: u64) -> u64 {
    fingerprint.max(1)
}

impl Fingerprints {
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// Returns how many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.lines.len() * SLOTS
    }

    /// Returns the slot of a fingerprint, if it is there. It stays until the next [`reserve`](Self::reserve).
    #[inline]
    pub(crate) fn find(&self, fingerprint: u64) -> Option<usize> {
        let mask = self.lines.len() - 1;
        let mut at = fingerprint as usize & mask;
        loop {
            let Line(slots) = &self.lines[at];
            if let Some(slot) = slots.iter().position(|&slot| slot == fingerprint) {
                return Some(at * SLOTS + slot);
            }
            // Slots are filled from the first on, so behind a free one there is nothing.
            if slots[SLOTS - 1] == 0 {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns how many more bytes the table needs to take in some more fingerprints.
    pub(crate) fn growth(&self, more: usize) -> usize {
        lines_for(self.used + more).saturating_sub(self.lines.len()) * size_of::<Line>()
    }

    /// Makes room, so that the next `more` insertions do not move the table.
    pub(crate) fn reserve(&mut self, more: usize) {
        let count = lines_for(self.used + more);
        if count > self.lines.len() {
            let old = std::mem::replace(&mut self.lines, vec![Line([0; SLOTS]); count]);
            for Line(slots) in old {
                slots
                    .into_iter()
                    .take_while(|&slot| slot != 0)
                    .for_each(|fingerprint| self.place(fingerprint));
            }
        }
    }

    /// Puts a fingerprint that is known to be missing into the first free slot.
    fn place(&mut self, fingerprint: u64) {
        let mask = self.lines.len() - 1;
        let mut at = fingerprint as usize & mask;
        loop {
            let Line(slots) = &mut self.lines[at];
            let filled: usize = slots.iter().map(|&slot| usize::from(slot != 0)).sum();
            if filled < SLOTS {
                slots[filled] = fingerprint;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Starts to fetch what [`insert`](Self::insert) will look at.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: u64) {
        prefetch(&self.lines[fingerprint as usize & (self.lines.len() - 1)]);
    }

    /// Adds a fingerprint and tells whether it is new. There must be room.
    // Always, so that it is compiled for the processor that its caller is compiled for.
    #[inline(always)]
    pub(crate) fn insert(&mut self, fingerprint: u64) -> bool {
        let mask = self.lines.len() - 1;
        let mut at = fingerprint as usize & mask;
        loop {
            let Line(slots) = &mut self.lines[at];
            // Without early exits: eight comparisons cost less than one branch that is guessed wrong.
            let mut known = false;
            let mut filled = 0;
            for &slot in slots.iter() {
                known |= slot == fingerprint;
                filled += usize::from(slot != 0);
            }
            if known {
                return false;
            }
            if filled < SLOTS {
                slots[filled] = fingerprint;
                self.used += 1;
                return true;
            }
            at = (at + 1) & mask;
        }
    }
}

fn lines_for(count: usize) -> usize {
    count.div_ceil(FILL_MAX).next_power_of_two().max(LINES_MIN)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::model::handler::mix;

    #[test]
    fn what_was_inserted_is_found_and_nothing_else() {
        let mut seen = Fingerprints::default();
        for n in 0..10_000 {
            seen.reserve(1);
            assert!(seen.insert(nonzero(mix(n))));
        }
        seen.reserve(30_000);
        for n in 0..20_000 {
            assert_eq!(seen.find(nonzero(mix(n))).is_some(), n < 10_000);
            assert_eq!(seen.insert(nonzero(mix(n))), n >= 10_000);
        }
        assert_eq!(seen.len(), 20_000);
        let slots: HashSet<_> = (0..20_000).map(|n| seen.find(nonzero(mix(n)))).collect();
        assert_eq!(slots.len(), 20_000, "each has a slot of its own");
        assert!(slots.iter().flatten().all(|&slot| slot < seen.slots()));
    }

    #[test]
    fn a_line_that_is_full_overflows_into_the_next() {
        let mut seen = Fingerprints::default();
        seen.reserve(64);
        // All of them would like to live in line 1.
        let all: Vec<u64> = (0..20).map(|n| 1 | n << 32).collect();
        assert!(all.iter().all(|&fingerprint| seen.insert(fingerprint)));
        assert!(all.iter().all(|&fingerprint| !seen.insert(fingerprint)));
        assert!(
            all.iter()
                .all(|&fingerprint| seen.find(fingerprint).is_some())
        );
        assert_eq!(seen.find(1 | 77 << 32), None);
    }
}
