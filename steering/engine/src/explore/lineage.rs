//! Who came from whom, and by which step: all it takes to rebuild a path, in about three bytes a state.
//!
//! A breadth-first search finds states in nearly the order in which it expands their parents. So an entry is the
//! distance from its neighbor's parent, and the step as its number among the parent's steps, both of variable length.

/// How many entries share one point from which reading can start.
const STRIDE: usize = 64;

/// The parents of one shard's states, in order of their discovery.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    bytes: Vec<u8>,
    /// For every `STRIDE`th entry: where it starts, and the parent before it.
    starts: Vec<(usize, u32)>,
    last_parent: u32,
    count: usize,
}

/// One state's origin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Origin {
    /// The parent, by its number in the order of expansion.
    pub(crate) parent: u32,
    /// Which of the parent's steps.
    pub(crate) step: u32,
}

impl Lineage {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + self.starts.len() * size_of::<(usize, u32)>()
    }

    pub(crate) fn push(&mut self, origin: Origin) {
        if self.count.is_multiple_of(STRIDE) {
            self.starts.push((self.bytes.len(), self.last_parent));
        }
        let distance = origin.parent.wrapping_sub(self.last_parent) as i32;
        // Small distances of either sign become small numbers.
        let folded = (distance << 1 ^ distance >> 31) as u32;
        if folded < 0x4000 && origin.step < 0x80 {
            // The usual case, written at once: a distance of two bytes and a step of one.
            let [low, high] = [folded as u8 | 0x80, (folded >> 7) as u8];
            self.bytes
                .extend_from_slice(&[low, high, origin.step as u8]);
        } else {
            self.write(folded);
            self.write(origin.step);
        }
        self.last_parent = origin.parent;
        self.count += 1;
    }

    fn write(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Returns the origin of the `index`th state.
    pub(crate) fn origin(&self, index: usize) -> Origin {
        assert!(index < self.count, "the state is in this shard");
        let (mut at, mut parent) = self.starts[index / STRIDE];
        let mut step = 0;
        for _ in 0..=index % STRIDE {
            let folded = self.read(&mut at);
            parent = parent.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg());
            step = self.read(&mut at);
        }
        Origin { parent, step }
    }

    fn read(&self, at: &mut usize) -> u32 {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = self.bytes[*at];
            *at += 1;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_origin_reads_back(origins in prop::collection::vec((any::<u32>(), any::<u32>()), 1..300)) {
            let mut lineage = Lineage::default();
            for &(parent, step) in &origins {
                lineage.push(Origin { parent, step });
            }
            for (index, &(parent, step)) in origins.iter().enumerate() {
                prop_assert_eq!(lineage.origin(index), Origin { parent, step });
            }
        }
    }
}
