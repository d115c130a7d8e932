//! The exhaustive part of the search: all states up to a depth, found level by level, and from which of them walks begin.
//!
//! Walks begin in the states at the edge, and in its *leaves*: states before the edge from which no step that counts leads to a state
//! that was not found before. Without those, whoever is caught in few states would be lost: every set of states that is never left
//! has a leaf, since of its deepest state all steps lead back.

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::interned::world::Space;

/// The exhaustive part: all states up to a depth, and the words of those from which walks begin.
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
    /// The leaves that were found since walks began last: their numbers, their depths and their words.
    leaves: Vec<(u32, u32)>,
    leaf_words: Vec<u32>,
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
            leaves: Vec::new(),
            leaf_words: Vec::new(),
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
            + self.leaves.capacity() * size_of::<(u32, u32)>()
            + (self.words.capacity() + self.next.capacity() + self.leaf_words.capacity())
                * size_of::<u32>()
    }

    /// Returns in how many states walks begin: those at the edge first, then the leaves.
    pub(super) fn starts(&self) -> usize {
        self.len() + self.leaves.len()
    }

    /// Returns the words of a state in which walks begin.
    pub(super) fn start(&self, place: usize) -> &[u32] {
        let width = self.width;
        match place.checked_sub(self.len()) {
            None => &self.words[place * width..(place + 1) * width],
            Some(leaf) => &self.leaf_words[leaf * width..(leaf + 1) * width],
        }
    }

    /// Returns how many steps lead there.
    pub(super) fn depth_of(&self, place: usize) -> u32 {
        match place.checked_sub(self.len()) {
            None => self.depth,
            Some(leaf) => self.leaves[leaf].1,
        }
    }

    /// Makes a state at the edge a leaf.
    pub(super) fn add_leaf(&mut self, place: usize) {
        let number = self.first + place as u32;
        self.leaves.push((number, self.depth));
        let from = place * self.width;
        self.leaf_words
            .extend_from_slice(&self.words[from..from + self.width]);
    }

    /// Forgets the leaves: walks have begun there.
    pub(super) fn forget_leaves(&mut self) {
        self.leaves.clear();
        self.leaf_words.clear();
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

    /// Returns the steps to a state in which walks begin.
    pub(super) fn trail(&self, place: usize) -> Vec<u32> {
        let mut at = match place.checked_sub(self.len()) {
            None => self.first as usize + place,
            Some(leaf) => self.leaves[leaf].0 as usize,
        };
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
