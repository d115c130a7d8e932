//! All states of a breadth-first search at rest that has kept their words, by number in order of discovery.

use crate::explore::breadth::shard::Shard;
use crate::explore::breadth::{Breadth, Place, shard_of};
use crate::explore::frontier::Vectors;
use crate::explore::visited::nonzero;

/// The states of a search, read-only.
#[derive(Debug)]
pub(in crate::explore) struct Archive<'a> {
    search: &'a Breadth,
    stretches: Vec<Stretch<'a>>,
    /// Where the slots of each shard start.
    slots: Vec<usize>,
    len: usize,
}

/// The states of one level in one shard.
#[derive(Clone, Copy, Debug)]
struct Stretch<'a> {
    /// The number of the first.
    first: usize,
    vectors: &'a Vectors,
    /// How many of them are expanded.
    expanded: usize,
    /// Where the first is kept.
    place: Place,
}

impl<'a> Archive<'a> {
    pub(super) fn of(search: &'a Breadth) -> Self {
        let shards: &'a [Shard] = &search.shards;
        let mut slots = vec![0];
        for shard in shards {
            slots.push(slots[slots.len() - 1] + shard.seen.slots());
        }
        let mut archive = Self {
            search,
            stretches: Vec::new(),
            slots,
            len: 0,
        };
        let mut indices = vec![0; shards.len()];
        let levels = search.kept.iter().chain([&search.level]);
        let present = search.kept.len();
        for (depth, level) in levels.enumerate() {
            for (at, vectors) in level.shards().iter().enumerate() {
                let expanded = match depth < present {
                    true => vectors.len(),
                    false => search.cursor.saturating_sub(level.start_of(at)),
                };
                archive.push(depth as u32, at, &mut indices, vectors, expanded);
            }
        }
        for (at, shard) in shards.iter().enumerate() {
            archive.push(present as u32 + 1, at, &mut indices, &shard.next, 0);
        }
        archive
    }

    fn push(
        &mut self,
        depth: u32,
        shard: usize,
        indices: &mut [usize],
        vectors: &'a Vectors,
        expanded: usize,
    ) {
        if vectors.len() == 0 {
            return;
        }
        self.stretches.push(Stretch {
            first: self.len,
            vectors,
            expanded: expanded.min(vectors.len()),
            place: Place {
                shard,
                index: indices[shard],
                depth,
            },
        });
        indices[shard] += vectors.len();
        self.len += vectors.len();
    }

    /// Returns how many states there are.
    pub(in crate::explore) fn len(&self) -> usize {
        self.len
    }

    /// Returns how many words a state has.
    pub(in crate::explore) fn width(&self) -> usize {
        self.search.width
    }

    /// Returns how many slots there are in all.
    pub(in crate::explore) fn slots(&self) -> usize {
        self.slots[self.slots.len() - 1]
    }

    fn stretch(&self, number: u32) -> (&Stretch<'a>, usize) {
        let at = self
            .stretches
            .partition_point(|stretch| stretch.first <= number as usize)
            - 1;
        let stretch = &self.stretches[at];
        (stretch, number as usize - stretch.first)
    }

    /// As [`stretch`](Self::stretch). For numbers near each other, `hint` saves most of the search.
    #[inline]
    fn near(&self, number: u32, hint: &mut usize) -> &Stretch<'a> {
        let near = &self.stretches[*hint];
        let within = (number as usize).wrapping_sub(near.first) < near.vectors.len();
        if !within {
            let first = |stretch: &Stretch<'_>| stretch.first <= number as usize;
            *hint = self.stretches.partition_point(first) - 1;
        }
        &self.stretches[*hint]
    }

    /// Copies the words of a state, and tells whether it is expanded.
    pub(in crate::explore) fn load(&self, number: u32, words: &mut [u32]) -> bool {
        self.load_near(number, words, &mut 0)
    }

    /// As [`load`](Self::load). For numbers near each other, `hint` saves most of the search.
    #[inline]
    pub(in crate::explore) fn load_near(
        &self,
        number: u32,
        words: &mut [u32],
        hint: &mut usize,
    ) -> bool {
        let stretch = self.near(number, hint);
        let at = number as usize - stretch.first;
        stretch.vectors.load(at, words);
        at < stretch.expanded
    }

    /// Starts to fetch what [`slot`](Self::slot) will look at.
    #[inline]
    pub(in crate::explore) fn prefetch(&self, fingerprint: u64) {
        let fingerprint = nonzero(fingerprint);
        self.search.shards[shard_of(fingerprint)]
            .seen
            .prefetch(fingerprint);
    }

    /// Returns how many steps it takes to a state.
    pub(in crate::explore) fn depth(&self, number: u32) -> u32 {
        self.stretch(number).0.place.depth
    }

    /// As [`depth`](Self::depth). For numbers near each other, `hint` saves most of the search.
    #[inline]
    pub(in crate::explore) fn depth_near(&self, number: u32, hint: &mut usize) -> u32 {
        self.near(number, hint).place.depth
    }

    pub(super) fn place(&self, number: u32) -> Place {
        let (stretch, at) = self.stretch(number);
        Place {
            index: stretch.place.index + at,
            ..stretch.place
        }
    }

    /// Returns the state from which a state was found; nothing for the start state.
    pub(in crate::explore) fn parent(&self, number: u32) -> Option<u32> {
        let place = self.place(number);
        (place.depth > 0).then(|| {
            let lineage = &self.search.shards[place.shard].lineage;
            // States are expanded in the order in which they are numbered here.
            lineage.origin(place.index).parent
        })
    }

    /// Returns the slot of the state with a fingerprint, if it was seen.
    #[inline]
    pub(in crate::explore) fn slot(&self, fingerprint: u64) -> Option<usize> {
        let fingerprint = nonzero(fingerprint);
        let shard = shard_of(fingerprint);
        let slot = self.search.shards[shard].seen.find(fingerprint)?;
        Some(self.slots[shard] + slot)
    }
}
