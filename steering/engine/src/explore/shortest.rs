//! What a search found that does not go nearest first: each finding once, with the shortest path seen for it.

use crate::explore::strategy::{Claim, Found};
use crate::interned::judge::Finding;
use crate::interned::world::Space;

/// Findings in order of discovery, with the successors that lead to them.
#[derive(Debug, Default)]
pub(super) struct Shortest {
    all: Vec<(Finding, Vec<u32>)>,
    /// How many of them the search does not stop for.
    passed: usize,
}

impl Shortest {
    /// Keeps a finding at the end of a path, unless a path that is no longer is known for it.
    pub(super) fn record(&mut self, finding: Finding, path: Vec<u32>) {
        let known = self.all.iter_mut().find(|(known, _)| *known == finding);
        match known {
            Some((_, known)) if known.len() <= path.len() => {}
            Some((_, known)) => *known = path,
            None => self.all.push((finding, path)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Tells whether there is something to stop for.
    pub(super) fn has_new(&self) -> bool {
        self.all.len() > self.passed
    }

    pub(super) fn pass_over(&mut self) {
        self.passed = self.all.len();
    }

    pub(super) fn list(&self, world: &Space, start: &[u32]) -> Vec<Found> {
        self.all
            .iter()
            .map(|(finding, path)| Found::at(world, start, path, Claim::Breaks(finding.clone())))
            .collect()
    }
}
