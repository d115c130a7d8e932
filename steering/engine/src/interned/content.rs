//! Fingerprints of contents: the same for equal values in every process.
//!
//! An id counts values in the order in which one process met them, so it means nothing to another. A fingerprint is made of
//! the value itself, through its `Hash`, by a hash that is written down here and so does not change with the standard library.

use std::hash::{Hash, Hasher};

use crate::model::handler::mix;

/// Returns the fingerprint of a value.
pub fn fingerprint_of<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = ContentHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Hashes what values are made of, word by word.
#[derive(Debug, Default)]
struct ContentHasher {
    state: u64,
}

impl ContentHasher {
    fn absorb(&mut self, word: u64) {
        // Turned, so that words in another order give another state.
        self.state = mix(self.state.rotate_left(23) ^ word);
    }
}

impl Hasher for ContentHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.absorb(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = rest.len() as u8;
        self.absorb(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, word: u8) {
        self.absorb(u64::from(word));
    }

    fn write_u16(&mut self, word: u16) {
        self.absorb(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.absorb(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.absorb(word);
    }

    // A length or a variant: as wide as a pointer in memory, and of one width here.
    fn write_usize(&mut self, word: usize) {
        self.absorb(word as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_written_down_here_stays() {
        // Others may keep fingerprints: a change here is a change of a format.
        assert_eq!(
            fingerprint_of(&(1u32, "two", [3u64, 4])),
            8_278_285_181_178_073_516
        );
    }

    #[test]
    fn values_that_differ_little_differ_in_their_fingerprints() {
        let mut all = BTreeSet::new();
        for a in 0..100u32 {
            for b in 0..100u32 {
                all.insert(fingerprint_of(&(a, b)));
                all.insert(fingerprint_of(&vec![a, b]));
                all.insert(fingerprint_of(&(vec![a], vec![b])));
            }
        }
        assert_eq!(all.len(), 30_000);
        assert_ne!(fingerprint_of("ab"), fingerprint_of("ab\0"));
    }
}
