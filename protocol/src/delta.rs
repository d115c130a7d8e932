//! Differences between checkpoints: copy what the base has, insert what it has not.
//!
//! The matcher indexes the base by fixed blocks and looks at every position of the target, so that a field that grew
//! shifts the rest without costing more than itself. On states of a few KiB a difference is as small as one by zstd, and
//! takes a tenth of the time. It names its base and its result by digest: applied to the wrong base it is refused, never
//! a wrong state.
//!
//! An encoded difference is a run of steps, each an insert and then a copy from the base:
//!
//! ```text
//! ┌────────────┬─────────┬──────────┐
//! │ insert (3) │ moved(1)│ copy (4) │  one byte; the greatest insert or copy says that the rest of it follows as varint
//! └────────────┴─────────┴──────────┘
//! rest of insert?  inserted bytes  rest of copy?  how far it moved?
//! ```
//!
//! A copy begins where the last one would have gone on, unless it moved. So a short field that changed in place costs one
//! byte beside its own: states of a few hundred bytes, in which a dozen counters go on, are what this is for.

use crate::compact::Compact;
use crate::compress::{Packed, UnpackError};
use crate::digest::{Digest, ShortDigest};
use crate::limit::BODY_BYTES_MAX;
use crate::varint;

/// The block size, and so the shortest match that is surely found at twice this length.
const BLOCK_BYTES: usize = 8;
/// Shorter copies from elsewhere cost more than they save.
const MOVED_BYTES_MIN: usize = 6;
/// A copy from where the last one would go on takes one byte, so two are worth it.
const STRAIGHT_BYTES_MIN: usize = 2;
/// A straight copy as long as this is taken without looking for a longer one.
const STRAIGHT_BYTES_SURE: usize = 16;

/// The greatest insert and the greatest copy that a step's first byte holds: from here on the rest follows.
const INSERT_LONG: u64 = 7;
const COPY_LONG: u64 = 15;
const MOVED: u8 = 0x10;

/// How one content differs from another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delta {
    result: ShortDigest,
    operations: Packed,
}

/// Why a difference cannot be applied.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ApplyDeltaError {
    /// The operations cannot be unpacked.
    #[error(transparent)]
    Packed(#[from] UnpackError),
    /// An operation is cut off.
    #[error("the operations end in the middle of one")]
    Truncated,
    /// A copy reaches outside the base.
    #[error("copies {length} bytes at {offset} from a base of {base} bytes")]
    OutsideBase {
        /// Where from.
        offset: i64,
        /// How many.
        length: u64,
        /// How many there are.
        base: usize,
    },
    /// The result would be larger than a checkpoint may be.
    #[error("the result is larger than {max} bytes")]
    TooLarge {
        /// What is allowed.
        max: usize,
    },
    /// The result is not what its sender said it would be.
    #[error("the result is {got}, not {want}: made from another base")]
    WrongResult {
        /// What the sender named.
        want: ShortDigest,
        /// What came out.
        got: ShortDigest,
    },
}

impl Delta {
    /// Finds how `target` differs from `base`.
    pub fn between(base: &[u8], target: &[u8]) -> Self {
        Self {
            result: Digest::of(target).short(),
            operations: Packed::pack(operations(base, target)),
        }
    }

    /// Returns how many bytes the operations take.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Tells whether the result is empty.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Makes the target from its base.
    ///
    /// # Errors
    ///
    /// When the operations are damaged or the base is not the one they were made from.
    pub fn apply(self, base: &[u8]) -> Result<Vec<u8>, ApplyDeltaError> {
        let operations = self.operations.unpack(BODY_BYTES_MAX * 2)?;
        let target = perform(base, &operations)?;
        let got = Digest::of(&target).short();
        if got != self.result {
            return Err(ApplyDeltaError::WrongResult {
                want: self.result,
                got,
            });
        }
        Ok(target)
    }
}

impl Compact for Delta {
    fn put(&self, out: &mut Vec<u8>) {
        self.result.put(out);
        self.operations.put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Some(Self {
            result: ShortDigest::take(input)?,
            operations: Packed::take(input)?,
        })
    }
}

fn perform(base: &[u8], mut operations: &[u8]) -> Result<Vec<u8>, ApplyDeltaError> {
    let mut target = Vec::new();
    let mut expected = 0i64;
    let room = |target: &Vec<u8>, more: u64| {
        if more > (BODY_BYTES_MAX - target.len()) as u64 {
            return Err(ApplyDeltaError::TooLarge {
                max: BODY_BYTES_MAX,
            });
        }
        Ok(more as usize)
    };
    while let Some((&step, rest)) = operations.split_first() {
        operations = rest;
        let insert = length(u64::from(step >> 5), INSERT_LONG, &mut operations)?;
        let insert = room(&target, insert)?;
        let (inserted, rest) = operations
            .split_at_checked(insert)
            .ok_or(ApplyDeltaError::Truncated)?;
        target.extend_from_slice(inserted);
        operations = rest;
        let length = length(u64::from(step) & COPY_LONG, COPY_LONG, &mut operations)?;
        let shift = match step & MOVED {
            0 => 0,
            _ => varint::take(&mut operations).ok_or(ApplyDeltaError::Truncated)?,
        };
        let copy = room(&target, length)?;
        let offset = (expected + insert as i64).saturating_add(varint::unfold_sign(shift));
        if copy > 0 {
            let source = usize::try_from(offset)
                .ok()
                .and_then(|start| base.get(start..start.checked_add(copy)?))
                .ok_or(ApplyDeltaError::OutsideBase {
                    offset,
                    length,
                    base: base.len(),
                })?;
            target.extend_from_slice(source);
            expected = offset + copy as i64;
        }
    }
    Ok(target)
}

/// Reads the rest of a length, if there is one.
fn length(short: u64, long: u64, operations: &mut &[u8]) -> Result<u64, ApplyDeltaError> {
    if short < long {
        return Ok(short);
    }
    let rest = varint::take(operations).ok_or(ApplyDeltaError::Truncated)?;
    Ok(long.saturating_add(rest))
}

fn operations(base: &[u8], target: &[u8]) -> Vec<u8> {
    let index = Index::new(base);
    let mut out = Vec::new();
    let (mut written, mut expected, mut at) = (0, 0, 0);
    while at < target.len() {
        // Where the last copy would go on is tried first: a field changed in place leaves the rest where it was.
        let straight = Match::extend(base, target, expected + (at - written), at, written)
            .filter(|found| found.length >= STRAIGHT_BYTES_MIN);
        let sure = straight
            .as_ref()
            .is_some_and(|found| found.length >= STRAIGHT_BYTES_SURE);
        let moved = match index.find(base, target, at) {
            Some(start) if !sure => Match::extend(base, target, start, at, written),
            _ => None,
        };
        // One that moved costs more, and where a field grew everything after it has moved.
        let found = match (straight, moved) {
            (Some(straight), Some(moved)) if moved.length > straight.length + MOVED_BYTES_MIN => {
                moved
            }
            (Some(straight), _) => straight,
            (None, Some(moved)) if moved.length >= MOVED_BYTES_MIN => moved,
            _ => {
                at += 1;
                continue;
            }
        };
        let inserted = &target[written..found.target];
        let shift = found.base as i64 - (expected + inserted.len()) as i64;
        step(&mut out, inserted, shift, found.length);
        written = found.target + found.length;
        expected = found.base + found.length;
        at = written;
    }
    if written < target.len() {
        step(&mut out, &target[written..], 0, 0);
    }
    out
}

/// Appends one insert with one copy.
fn step(out: &mut Vec<u8>, inserted: &[u8], shift: i64, copied: usize) {
    let (insert, copy) = (inserted.len() as u64, copied as u64);
    let moved = if shift == 0 { 0 } else { MOVED };
    out.push((insert.min(INSERT_LONG) as u8) << 5 | moved | copy.min(COPY_LONG) as u8);
    if insert >= INSERT_LONG {
        varint::put(out, insert - INSERT_LONG);
    }
    out.extend_from_slice(inserted);
    if copy >= COPY_LONG {
        varint::put(out, copy - COPY_LONG);
    }
    if shift != 0 {
        varint::put(out, varint::fold_sign(shift));
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// A stretch that both contents have.
struct Match {
    base: usize,
    target: usize,
    length: usize,
}

impl Match {
    /// Grows a match at (`base_at`, `at`) both ways, backwards not beyond `written`.
    fn extend(
        base: &[u8],
        target: &[u8],
        base_at: usize,
        at: usize,
        written: usize,
    ) -> Option<Self> {
        let forward = common_prefix(base.get(base_at..)?, &target[at..]);
        let backward = base[..base_at]
            .iter()
            .rev()
            .zip(target[written..at].iter().rev())
            .take_while(|(x, y)| x == y)
            .count();
        (forward >= 1).then(|| Self {
            base: base_at - backward,
            target: at - backward,
            length: forward + backward,
        })
    }
}

/// Where the base's blocks are. One place per slot: the later block wins, and a lost one costs size, not correctness.
struct Index {
    slots: Vec<u32>,
    shift: u32,
}

impl Index {
    const EMPTY: u32 = u32::MAX;

    fn new(base: &[u8]) -> Self {
        let bits = (base.len() / BLOCK_BYTES * 2 + 2)
            .next_power_of_two()
            .trailing_zeros();
        let mut index = Self {
            slots: vec![Self::EMPTY; 1 << bits],
            shift: 64 - bits,
        };
        for (number, block) in base.chunks_exact(BLOCK_BYTES).enumerate() {
            let slot = index.slot(block);
            index.slots[slot] = (number * BLOCK_BYTES) as u32;
        }
        index
    }

    fn slot(&self, block: &[u8]) -> usize {
        let mut word = [0; BLOCK_BYTES];
        word.copy_from_slice(block);
        // Fibonacci hashing: the upper bits of the product depend on all of the word.
        (u64::from_le_bytes(word).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn find(&self, base: &[u8], target: &[u8], at: usize) -> Option<usize> {
        let block = target.get(at..at + BLOCK_BYTES)?;
        let start = self.slots[self.slot(block)];
        (start != Self::EMPTY && base[start as usize..].starts_with(block))
            .then_some(start as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(base: &[u8], target: &[u8]) -> usize {
        let delta = Delta::between(base, target);
        let length = delta.len();
        assert_eq!(delta.apply(base).as_deref(), Ok(target));
        length
    }

    fn noise(length: usize, mut seed: u64) -> Vec<u8> {
        std::iter::repeat_with(|| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 56) as u8
        })
        .take(length)
        .collect()
    }

    proptest! {
        #[test]
        fn a_difference_leads_to_its_target(
            base in prop::collection::vec(0u8..6, 0..400),
            target in prop::collection::vec(0u8..6, 0..400),
        ) {
            check(&base, &target);
        }

        #[test]
        fn edits_cost_about_what_they_change(
            seed: u64, at in 0usize..4000, gone in 0usize..40, new in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let base = noise(4096, seed);
            let mut target = base.clone();
            target.splice(at..at + gone, new.clone());
            let length = check(&base, &target);
            prop_assert!(length <= new.len() + 24, "{} bytes for an insert of {}", length, new.len());
        }

        #[test]
        fn damaged_operations_never_panic(base: Vec<u8>, operations: Vec<u8>) {
            let _ = perform(&base, &operations);
        }
    }

    #[test]
    fn equal_contents_differ_by_a_few_bytes() {
        let state = noise(65_536, 1);
        assert!(check(&state, &state) <= 8);
        assert_eq!(check(b"", b""), 0);
        check(b"", b"something");
        check(b"something", b"");
    }

    #[test]
    fn a_47_one_changed_field_of_a_kilobyte_costs_less_than_a_tenth() {
        let base = noise(1024, 2);
        let mut target = base.clone();
        target[500..508].copy_from_slice(&[0xab; 8]);
        assert!(check(&base, &target) < 102 / 4);
    }

    #[test]
    fn one_percent_of_changes_in_a_large_state_stays_small() {
        let base = noise(65_536, 3);
        let mut target = base.clone();
        for at in (0..65_536).step_by(100) {
            target[at] ^= 0x55;
        }
        let length = check(&base, &target);
        assert!(length < 3500, "{length}");
    }

    #[test]
    fn counters_changed_in_place_cost_one_byte_beside_their_own() {
        let base = noise(200, 5);
        let mut target = base.clone();
        for at in (100..180).step_by(10) {
            target[at] ^= 0x55;
        }
        // Before the first and after the last is a copy whose length takes a byte of its own.
        assert_eq!(check(&base, &target), 8 * 2 + 1 + 2);
    }

    #[test]
    fn the_wrong_base_is_refused() {
        let base = noise(1000, 4);
        let mut target = base.clone();
        target[10] ^= 1;
        let mut other = base.clone();
        other[900] ^= 1;
        assert!(matches!(
            Delta::between(&base, &target).apply(&other),
            Err(ApplyDeltaError::WrongResult { .. })
        ));
        assert!(matches!(
            Delta::between(&base, &target).apply(&base[..500]),
            Err(ApplyDeltaError::OutsideBase { .. })
        ));
    }

    #[test]
    fn a_result_beyond_the_limit_is_refused() {
        let base = vec![7; 1 << 20];
        let mut operations = Vec::new();
        for round in 0..10 {
            let back = if round == 0 { 0 } else { -(1 << 20) };
            step(&mut operations, &[], back, 1 << 20);
        }
        assert_eq!(
            perform(&base, &operations),
            Err(ApplyDeltaError::TooLarge {
                max: BODY_BYTES_MAX
            })
        );
    }
}
