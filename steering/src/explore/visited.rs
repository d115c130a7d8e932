//! The set of fingerprints seen: 8 bytes each, open addressing, nothing else.

/// How full a table may be, in eighths.
const LOAD_EIGHTHS: usize = 6;
const CAPACITY_MIN: usize = 16;

/// How many look-ups are started before the first is finished, so that their cache misses overlap.
pub(crate) const BATCH: usize = 16;

/// One shard of the visited set.
#[derive(Debug)]
pub(crate) struct Fingerprints {
    /// Zero marks a free slot, which is why no fingerprint is zero (see [`nonzero`]).
    slots: Vec<u64>,
    used: usize,
    /// How many fit before the table must grow.
    used_max: usize,
}

impl Default for Fingerprints {
    fn default() -> Self {
        Self {
            slots: vec![0; CAPACITY_MIN],
            used: 0,
            used_max: used_max(CAPACITY_MIN),
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
        self.slots.len() * size_of::<u64>()
    }

    /// Returns how many more bytes the table needs to take in some more fingerprints.
    pub(crate) fn growth(&self, more: usize) -> usize {
        capacity_for(self.used + more).saturating_sub(self.slots.len()) * size_of::<u64>()
    }

    /// Makes room, so that the next `more` insertions do not move the table.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) {
        if self.used + more > self.used_max {
            self.grow(capacity_for(self.used + more));
        }
    }

    #[cold]
    fn grow(&mut self, capacity: usize) {
        self.used_max = used_max(capacity);
        let old = std::mem::replace(&mut self.slots, vec![0; capacity]);
        for fingerprint in old {
            if fingerprint != 0 {
                let slot = self.free_slot(fingerprint);
                self.slots[slot] = fingerprint;
            }
        }
    }

    fn free_slot(&self, fingerprint: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = fingerprint as usize & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Reads the slot a fingerprint would like best. Reading several before inserting the first overlaps the misses.
    #[inline]
    pub(crate) fn glance(&self, fingerprint: u64) -> u64 {
        self.slots[fingerprint as usize & (self.slots.len() - 1)]
    }

    /// Adds a fingerprint and tells whether it is new. There must be room.
    #[inline]
    pub(crate) fn insert(&mut self, fingerprint: u64) -> bool {
        let mask = self.slots.len() - 1;
        let mut slot = fingerprint as usize & mask;
        loop {
            let found = self.slots[slot];
            if found == fingerprint {
                return false;
            }
            if found == 0 {
                self.slots[slot] = fingerprint;
                self.used += 1;
                return true;
            }
            slot = (slot + 1) & mask;
        }
    }
}

fn used_max(capacity: usize) -> usize {
    capacity / 8 * LOAD_EIGHTHS
}

fn capacity_for(count: usize) -> usize {
    let capacity = count.next_power_of_two().max(CAPACITY_MIN);
    if count > used_max(capacity) {
        capacity * 2
    } else {
        capacity
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(seen.insert(nonzero(mix(n))), n >= 10_000);
        }
        assert_eq!(seen.len(), 20_000);
    }
}
