//! The exhaustive part of the search: all states up to a depth, found level by level.

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::interned::world::Space;

/// The exhaustive part: all states up to a depth, and the words of those at that depth.
#[derive(Debug)]
pub(super) struct Edge {
    seen: HashSet<u64, FxBuildHasher>,
    /// By state, whence it came and by which step.
    pub(super) origins: Vec<(u32, u32)>,
    /// The number of the first state at the edge.
    first: u32,
    pub(super) words: Vec<u32>,
    /// The states one step farther, while it grows.
    next: Vec<u32>,
    pub(super) depth: u32,
    pub(super) width: usize,
}

impl Edge {
    pub(super) fn at(world: &Space, words: &[u32]) -> Self {
        let mut seen = HashSet::default();
        seen.insert(world.tables().fingerprint(words));
        Self {
            seen,
            origins: vec![(0, 0)],
            first: 0,
            words: words.to_vec(),
            next: Vec::new(),
            depth: 0,
            width: words.len(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len() / self.width
    }

    pub(super) fn bytes(&self) -> usize {
        self.seen.capacity() * (size_of::<u64>() + 1)
            + self.origins.capacity() * size_of::<(u32, u32)>()
            + (self.words.capacity() + self.next.capacity()) * size_of::<u32>()
    }

    /// Adds a state one step farther, if it is new.
    pub(super) fn add(&mut self, world: &Space, place: usize, step: u32, words: &[u32]) -> bool {
        let new = self.seen.insert(world.tables().fingerprint(words));
        if new {
            self.next.extend_from_slice(words);
            self.origins.push((self.first + place as u32, step));
        }
        new
    }

    /// Makes the states that were added the edge.
    pub(super) fn step_out(&mut self) {
        self.first += self.len() as u32;
        self.words = std::mem::take(&mut self.next);
        self.depth += 1;
    }

    /// Returns the steps to a state at the edge.
    pub(super) fn trail(&self, place: usize) -> Vec<u32> {
        let mut at = self.first as usize + place;
        let mut path = Vec::with_capacity(self.depth as usize);
        while at != 0 {
            let (parent, step) = self.origins[at];
            path.push(step);
            at = parent as usize;
        }
        path.reverse();
        path
    }
}
