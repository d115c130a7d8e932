//! One shard of the states seen: absorbing candidates, and making states of those that are new.

use crate::explore::breadth::Surroundings;
use crate::explore::breadth::chunk::{Candidate, Chunk};
use crate::explore::breadth::prune::Fresh;
use crate::explore::frontier::{RowMut, Rows, Vectors};
use crate::explore::lineage::{Lineage, Origin};
use crate::explore::processor::{Wide, prefetch, with_wide_compares};
use crate::explore::visited::Fingerprints;
use crate::interned::tables::Word;

/// How many look-ups are started before the first is finished, so that their cache misses overlap.
const AHEAD: usize = 32;

/// The states whose fingerprints start with the same bits. In cache lines of its own, as a [`Chunk`] is and for the same reason.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    pub(super) seen: Fingerprints,
    pub(super) lineage: Lineage,
    /// Those found in this level, to be expanded in the next.
    pub(super) next: Vectors,
    /// New states to be judged: place in `next`, and the node that moved.
    pub(super) noteworthy: Vec<(u32, u16)>,
    /// New states whose moved node may act by itself for the first time, by place in `next`.
    pub(super) fresh: Vec<Fresh>,
}

impl Shard {
    pub(super) fn new(width: usize) -> Self {
        Self {
            seen: Fingerprints::default(),
            lineage: Lineage::default(),
            next: Vectors::new(width),
            noteworthy: Vec::new(),
            fresh: Vec::new(),
        }
    }

    pub(super) fn root(&mut self, fingerprint: u64, start: &[u32]) {
        self.seen.insert(fingerprint);
        self.lineage.push(Origin { parent: 0, step: 0 });
        self.next.push(start, 0);
    }

    pub(super) fn bytes(&self) -> usize {
        self.seen.bytes() + self.lineage.bytes() + self.next.bytes()
    }

    /// Returns the number, among this shard's states, of the first in `next`.
    pub(super) fn next_start(&self) -> usize {
        self.lineage.len() - self.next.len()
    }

    /// Takes in the candidates of this shard, chunk by chunk, and returns how many were new.
    pub(super) fn absorb(
        &mut self,
        at: usize,
        chunks: &[Chunk],
        around: &Surroundings<'_>,
        room: usize,
    ) -> usize {
        with_wide_compares(Absorb {
            shard: self,
            at,
            chunks,
            around,
            room,
        })
    }

    #[inline(always)]
    fn absorb_here(
        &mut self,
        at: usize,
        chunks: &[Chunk],
        around: &Surroundings<'_>,
        room: usize,
    ) -> usize {
        let before = self.seen.len();
        let mut hint = 0;
        let mut new = Vec::with_capacity(AHEAD);
        let all = || chunks.iter().map(|chunk| chunk.buckets[at].as_slice());
        self.seen.reserve(all().map(<[Candidate]>::len).sum());
        for candidate in all().flatten().take(AHEAD) {
            self.seen.prefetch(candidate.fingerprint);
        }
        for (candidates, following) in all().zip(all().skip(1).chain([&[][..]])) {
            // Lists are too short for the processor to notice by itself that they are read one after the other.
            let line = 64 / size_of::<Candidate>();
            following.iter().step_by(line).for_each(prefetch);
            for (number, candidate) in candidates.iter().enumerate() {
                // Near the end of its list it is the next list's turn, so that the misses go on overlapping.
                let later = number + AHEAD;
                let later = match later.checked_sub(candidates.len()) {
                    None => candidates.get(later),
                    Some(later) => following.get(later),
                };
                if let Some(later) = later {
                    self.seen.prefetch(later.fingerprint);
                }
                if self.seen.len() - before == room {
                    break;
                }
                if self.seen.insert(candidate.fingerprint) {
                    let parent = around.level.row(candidate.parent as usize, &mut hint);
                    parent.prefetch();
                    prefetch(&around.tables.details[candidate.successor as usize]);
                    new.push((*candidate, parent));
                    if new.len() == AHEAD {
                        new.drain(..)
                            .for_each(|(candidate, parent)| self.keep(around, &candidate, parent));
                    }
                }
            }
        }
        new.drain(..)
            .for_each(|(candidate, parent)| self.keep(around, &candidate, parent));
        self.seen.len() - before
    }

    /// Makes a new state of a copy of its parent, and keeps it.
    #[inline]
    fn keep(&mut self, around: &Surroundings<'_>, candidate: &Candidate, parent: Rows<'_>) {
        let tables = around.tables;
        let details = &tables.details[candidate.successor as usize];
        self.lineage.push(Origin {
            parent: around.expanded_before + candidate.parent,
            step: details.number * around.width as u32 + u32::from(details.node),
        });
        if around.pruning.is_on() {
            let next = tables.successors[candidate.successor as usize].next;
            let agent = tables.agents[next as usize];
            if around.pruning.is_fresh(agent) {
                self.fresh
                    .push((self.next.len() as u32, details.node, agent));
            }
        }
        let copy = match parent {
            Rows::Narrow(_) if !around.narrow => None,
            _ => self.next.push_copy(parent, details.asleep),
        };
        let stance = match copy {
            Some(RowMut::Narrow(words)) => finish(around, candidate.successor, words),
            Some(RowMut::Wide(words)) => finish(around, candidate.successor, words),
            None => {
                let mut words = vec![0; around.width];
                parent.load(&mut words);
                let stance = finish(around, candidate.successor, &mut words);
                self.next.push(&words, details.asleep);
                stance
            }
        };
        // What was judged before for other states need not be judged again for this one.
        if stance.is_some_and(|stance| !around.fine.contains(&stance)) {
            self.noteworthy
                .push((self.next.len() as u32 - 1, details.node));
        }
    }
}

/// The arguments of [`Shard::absorb`].
struct Absorb<'a, 'b> {
    shard: &'a mut Shard,
    at: usize,
    chunks: &'a [Chunk],
    around: &'a Surroundings<'b>,
    room: usize,
}

impl Wide<usize> for Absorb<'_, '_> {
    #[inline(always)]
    fn run(self) -> usize {
        self.shard
            .absorb_here(self.at, self.chunks, self.around, self.room)
    }
}

/// Turns the words of a parent into those of its child, and sums up what the properties see of it if that may matter.
#[inline]
fn finish<W: Word>(around: &Surroundings<'_>, successor: u32, words: &mut [W]) -> Option<u64> {
    around.tables.patch(words, successor);
    around.tables.details[successor as usize]
        .noteworthy
        .then(|| around.tables.stance(words))
}
