//! A few bits for every slot of the visited set.

/// Some bits for every slot.
#[derive(Debug)]
pub(super) struct Marks {
    fields: Vec<u64>,
    /// The bits of a slot, as a power of two.
    bits: u32,
}

impl Marks {
    /// So many bits for every slot at least.
    pub(super) fn new(slots: usize, bits: usize) -> Self {
        let bits = bits.max(2).next_power_of_two().ilog2();
        Self {
            fields: vec![0; ((slots << bits) >> 6) + 1],
            bits,
        }
    }

    /// Where the second half of a slot's bits begins.
    pub(super) fn half(&self) -> u32 {
        1 << (self.bits - 1)
    }

    #[inline]
    pub(super) fn of(&self, slot: usize) -> u64 {
        let at = slot << self.bits;
        let field = self.fields[at >> 6] >> (at & 63);
        match self.bits {
            6 => field,
            bits => field & ((1 << (1 << bits)) - 1),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, slot: usize, marks: u64) {
        let at = slot << self.bits;
        self.fields[at >> 6] |= marks << (at & 63);
    }

    pub(super) fn bytes(&self) -> usize {
        self.fields.len() * size_of::<u64>()
    }
}

/// A bit for every slot.
#[derive(Debug)]
pub(super) struct Bits(pub(super) Vec<u64>);

impl Bits {
    pub(super) fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    #[inline]
    pub(super) fn set(&mut self, at: usize) {
        self.0[at >> 6] |= 1 << (at & 63);
    }

    #[inline]
    pub(super) fn is_set(&self, at: usize) -> bool {
        self.0[at >> 6] >> (at & 63) & 1 != 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_one_slot_do_not_touch_another() {
        for targets in [0, 1, 2, 3, 5, 16, 32] {
            let mut marks = Marks::new(100, 2 * targets);
            let all = u64::MAX >> (64 - (1 << marks.bits));
            marks.add(7, all);
            marks.add(63, 1);
            marks.add(64, 2);
            let read = [6, 7, 8, 62, 63, 64, 65, 99].map(|slot| marks.of(slot));
            assert_eq!(read, [0, all, 0, 0, 1, 2, 0, 0], "{targets} targets");
        }
    }
}
