//! Sorts out the states that lie on no cycle which avoids a target, for all targets at once.

use std::ops::Range;

use crate::explore::breadth::Archive;
use crate::explore::liveness::cycles::each_step;
use crate::explore::liveness::marks::Marks;
use crate::interned::world::Space;

/// How many states that may lie on cycles are looked at, for one target and for those that are looked at together.
const CYCLE_STATES_MAX: usize = 1_000_000;
const GROUP_STATES_MAX: usize = 4_000_000;
/// States are sorted out once more if for some target the last time it was one of so many at the least.
const WORTH: usize = 16;
/// How many states are loaded at a time.
const BATCH: usize = 32;

/// Which states may lie on a cycle that avoids a target.
#[derive(Debug)]
pub(in crate::explore::liveness) struct Trim {
    /// By slot: the targets for which a state is sorted out, a bit each.
    out: Marks,
    /// A bit for every target.
    all: u32,
    /// In the first sweep: how many states are still to be gone through.
    first: usize,
    /// The states of this sweep, last first, and those of them that stay for some target.
    todo: Vec<u32>,
    left: Vec<u32>,
    /// By target: how many states stayed in the sweep before, and in this one.
    before: Vec<usize>,
    now: Vec<usize>,
    done: bool,
    words: Vec<u32>,
    batch: Vec<(u32, u64, bool)>,
    room: Vec<u64>,
}

impl Trim {
    pub(in crate::explore::liveness) fn new(archive: &Archive<'_>, all: u32) -> Self {
        let targets = all.count_ones() as usize;
        Self {
            out: Marks::new(archive.slots(), targets),
            all,
            first: archive.len(),
            todo: Vec::new(),
            left: Vec::new(),
            before: vec![usize::MAX; targets],
            now: vec![0; targets],
            done: false,
            words: Vec::new(),
            batch: Vec::new(),
            room: Vec::new(),
        }
    }

    pub(in crate::explore::liveness) fn bytes(&self) -> usize {
        self.out.bytes() + (self.todo.capacity() + self.left.capacity()) * size_of::<u32>()
    }

    /// Goes on for about this many steps. Returns how many it took, and whether what is left is known. `may` says for which targets
    /// a state may be part of a cycle.
    pub(in crate::explore::liveness) fn advance(
        &mut self,
        world: &mut Space,
        archive: &Archive<'_>,
        mut may: impl FnMut(&mut Space, &[u32], usize) -> u32,
        steps: u64,
    ) -> (u64, bool) {
        let mut looked = 0;
        while !self.done && looked < steps {
            // Last discovered first, since most steps lead to what is discovered later.
            let first = self.first > 0;
            if self.next_batch(world, archive) {
                let words = std::mem::take(&mut self.words);
                for (at, state) in words.chunks_exact(archive.width()).enumerate() {
                    if at < self.batch.len() {
                        looked += self.visit(world, archive, &mut may, state, at, first);
                    }
                }
                self.words = words;
                continue;
            }
            // Forth and back, as long as it is worth while: what is left over is only more to number.
            let mut counts = self.now.iter().zip(&self.before);
            self.done = !counts.any(|(&now, &before)| now < before - before / WORTH);
            if !self.done {
                std::mem::swap(&mut self.todo, &mut self.left);
                self.before.copy_from_slice(&self.now);
                self.now.fill(0);
            }
        }
        (looked, self.done)
    }

    fn next_batch(&mut self, world: &Space, archive: &Archive<'_>) -> bool {
        let width = archive.width();
        self.batch.clear();
        self.words.resize(BATCH * width, 0);
        let mut hint = 0;
        for words in self.words.chunks_exact_mut(width) {
            let number = if self.first > 0 {
                self.first -= 1;
                self.first as u32
            } else if let Some(number) = self.todo.pop() {
                number
            } else {
                break;
            };
            let expanded = archive.load_near(number, words, &mut hint);
            let fingerprint = world.tables().fingerprint(words);
            archive.prefetch(fingerprint);
            self.batch.push((number, fingerprint, expanded));
        }
        !self.batch.is_empty()
    }

    /// Looks at one state and where its steps lead, and returns how many it looked at.
    fn visit(
        &mut self,
        world: &mut Space,
        archive: &Archive<'_>,
        may: &mut impl FnMut(&mut Space, &[u32], usize) -> u32,
        words: &[u32],
        at: usize,
        first: bool,
    ) -> u64 {
        let (number, fingerprint, expanded) = self.batch[at];
        let slot = archive.slot(fingerprint).expect("a state was seen");
        let asked = match (first, expanded) {
            (false, _) => self.stays(slot),
            (true, true) => may(world, words, slot),
            (true, false) => 0,
        };
        let mut stays = 0;
        self.room.clear();
        if asked != 0 {
            let room = &mut self.room;
            each_step(world, words, fingerprint, |_, after| {
                // All are looked up at once, so that the misses overlap.
                archive.prefetch(after);
                room.push(after);
            });
            for &after in &self.room {
                if let Some(slot) = archive.slot(after) {
                    stays |= self.stays(slot) & asked;
                }
                if stays == asked {
                    break;
                }
            }
        }
        self.out.add(slot, u64::from(!stays & self.all));
        if stays != 0 {
            self.left.push(number);
            for (target, count) in self.now.iter_mut().enumerate() {
                *count += (stays >> target & 1) as usize;
            }
        }
        1 + self.room.len() as u64
    }

    /// Returns the targets for which a state is not sorted out.
    #[inline]
    pub(super) fn stays(&self, slot: usize) -> u32 {
        !(self.out.of(slot) as u32) & self.all
    }

    /// Lists the states that are left for some target, in order of discovery.
    pub(super) fn left(&self) -> Vec<u32> {
        let mut left = self.left.clone();
        left.sort_unstable();
        left
    }

    /// Tells whether more states may lie on cycles than are looked at.
    pub(in crate::explore::liveness) fn is_too_much(&self, target: usize) -> bool {
        self.now[target] > CYCLE_STATES_MAX
    }

    /// Returns the targets from one on that are looked at together.
    pub(in crate::explore::liveness) fn group(&self, from: usize) -> Range<usize> {
        let mut states = 0;
        let counts = self.now[from..].iter().map(|&count| match count {
            ..=CYCLE_STATES_MAX => count,
            _ => 0,
        });
        let fits = counts.take_while(|&count| {
            states += count;
            states <= GROUP_STATES_MAX
        });
        from..from + fits.count()
    }
}
