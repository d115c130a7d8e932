//! Paths that led to violations before: bounded, without repetition, the most useful first.
//!
//! A path is worth more the later it last led to a violation and the more often it did. Both are counted in runs, not in
//! time, so that a night without snapshots forgets nothing.

use std::collections::BTreeMap;

use scry_protocol::link::checker::PastPath;
use scry_protocol::{Digest, ViolationId, messagepack};
use serde::{Deserialize, Serialize};

/// The version of what is written.
const VERSION: u32 = 1;
/// The written digest that stands before the content.
const DIGEST_BYTES: usize = 32;
/// How many runs a path may be behind for each time its hits double.
const RUNS_PER_DOUBLING: u64 = 16;

/// How much is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Paths.
    pub paths_max: usize,
    /// Bytes of all paths together.
    pub bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            paths_max: 512,
            bytes_max: 16 << 20,
        }
    }
}

/// One path.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) property: String,
    pub(super) explanation: String,
    #[serde(with = "scry_protocol::limit::Bytes::<{ scry_protocol::limit::PATH_BYTES_MAX }>")]
    pub(super) path: Vec<u8>,
    /// How often it led to a violation.
    hits: u64,
    /// The turn in which it last did.
    last: u64,
}

impl Stored {
    fn worth(&self) -> u64 {
        let doublings = u64::from(self.hits.max(1).ilog2());
        self.last.saturating_add(doublings * RUNS_PER_DOUBLING)
    }
}

/// The past paths of one version of one service.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Paths {
    limits: Limits,
    kept: Kept,
    bytes: usize,
}

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
struct Kept {
    version: u32,
    /// Whose paths these are: another version's events mean nothing.
    service: (String, String),
    /// Counts runs.
    turn: u64,
    /// The last numbers given out, so that names in the log are not used twice.
    last_run: u64,
    last_filter: u64,
    paths: BTreeMap<ViolationId, Stored>,
}

/// Why stored paths cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadPathsError {
    /// They are damaged.
    #[error("the stored paths cannot be read: {0}")]
    Damaged(rmp_serde::decode::Error),
    /// They are of a later version.
    #[error("the stored paths are of version {0}, which this agent does not know")]
    Version(u32),
    /// The content does not belong to its name.
    #[error("the stored paths were changed or cut off")]
    Torn,
}

impl Paths {
    /// Begins without any.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Reads what [`write`](Self::write) wrote, and keeps as much of it as is allowed now.
    ///
    /// # Errors
    ///
    /// When it is something else; the bytes may come from anywhere.
    pub fn read(bytes: &[u8], limits: Limits) -> Result<Self, ReadPathsError> {
        let (digest, content) = bytes
            .split_at_checked(DIGEST_BYTES)
            .ok_or(ReadPathsError::Torn)?;
        if Digest::of(content).to_string().as_bytes() != digest {
            return Err(ReadPathsError::Torn);
        }
        let kept: Kept = messagepack::from_slice(content).map_err(ReadPathsError::Damaged)?;
        if kept.version > VERSION {
            return Err(ReadPathsError::Version(kept.version));
        }
        let bytes = kept.paths.values().map(|stored| stored.path.len()).sum();
        let mut paths = Self {
            limits,
            kept,
            bytes,
        };
        paths.shrink();
        Ok(paths)
    }

    /// Writes all of it.
    pub fn write(&self) -> Vec<u8> {
        let kept = Kept {
            version: VERSION,
            ..self.kept.clone()
        };
        let content = rmp_serde::to_vec(&kept).expect("what was read or taken in can be written");
        let mut out = Digest::of(&content).to_string().into_bytes();
        out.extend(content);
        out
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.kept.paths.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.paths.is_empty()
    }

    /// Returns how many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Learns whose paths are wanted, and returns how many had to go because they are another's.
    pub(super) fn serve(&mut self, service: &str, version: &str) -> usize {
        let now = (service.to_owned(), version.to_owned());
        if self.kept.service == now {
            return 0;
        }
        self.kept.service = now;
        let gone = self.len();
        self.kept.paths.clear();
        self.bytes = 0;
        gone
    }

    /// Begins the next turn.
    pub(super) fn turn(&mut self) {
        self.kept.turn += 1;
    }

    /// Returns the next number for a run.
    pub(super) fn next_run(&mut self) -> u64 {
        self.kept.last_run += 1;
        self.kept.last_run
    }

    /// Returns the next number for a filter.
    pub(super) fn next_filter(&mut self) -> u64 {
        self.kept.last_filter += 1;
        self.kept.last_filter
    }

    /// Takes in a path that leads to a violation; one that is there already only counts.
    pub(super) fn found(
        &mut self,
        violation: ViolationId,
        property: &str,
        explanation: &str,
        path: &[u8],
    ) {
        let same = |stored: &Stored| stored.property == property && stored.path == path;
        let known = self.kept.paths.contains_key(&violation);
        // Compared only when a name is new: a name stands for one path.
        let twin = (!known)
            .then(|| self.kept.paths.iter().find(|(_, stored)| same(stored)))
            .flatten()
            .map(|(id, _)| *id);
        if known || twin.is_some() {
            self.erred(twin.unwrap_or(violation));
            return;
        }
        if path.len() > self.limits.bytes_max {
            return;
        }
        self.bytes += path.len();
        let stored = Stored {
            property: property.to_owned(),
            explanation: explanation.to_owned(),
            path: path.to_vec(),
            hits: 1,
            last: self.kept.turn,
        };
        self.kept.paths.insert(violation, stored);
        self.shrink();
    }

    /// Learns that a path led to its violation once more.
    pub(super) fn erred(&mut self, violation: ViolationId) {
        if let Some(stored) = self.kept.paths.get_mut(&violation) {
            stored.hits += 1;
            stored.last = self.kept.turn;
        }
    }

    /// Returns a path.
    pub(super) fn path(&self, violation: ViolationId) -> Option<&Stored> {
        self.kept.paths.get(&violation)
    }

    /// Returns the best paths, at most so many with at most so many bytes.
    pub(super) fn best(&self, count_max: usize, bytes_max: usize) -> Vec<PastPath> {
        let mut ranked: Vec<_> = self.kept.paths.iter().collect();
        ranked.sort_by_key(|(id, stored)| (std::cmp::Reverse(stored.worth()), **id));
        let mut bytes = 0;
        ranked
            .into_iter()
            .take_while(|(_, stored)| {
                bytes += stored.path.len();
                bytes <= bytes_max
            })
            .take(count_max)
            .map(|(id, stored)| PastPath {
                violation: *id,
                path: stored.path.clone(),
            })
            .collect()
    }

    fn shrink(&mut self) {
        while self.len() > self.limits.paths_max || self.bytes > self.limits.bytes_max {
            let worst = self
                .kept
                .paths
                .iter()
                .min_by_key(|(id, stored)| (stored.worth(), std::cmp::Reverse(**id)))
                .map(|(id, _)| *id)
                .expect("what is too much is not nothing");
            let gone = self.kept.paths.remove(&worst).expect("it was just seen");
            self.bytes -= gone.path.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(id: u64) -> ViolationId {
        ViolationId::new(id)
    }

    fn names(paths: &Paths) -> Vec<u64> {
        let best = paths.best(usize::MAX, usize::MAX);
        best.iter().map(|path| path.violation.get()).collect()
    }

    #[test]
    fn a_108_ten_thousand_paths_stay_within_the_bound_and_the_newest_stay() {
        let limits = Limits {
            paths_max: 100,
            bytes_max: 1 << 20,
        };
        let mut paths = Paths::new(limits);
        for id in 0..10_000_u64 {
            paths.turn();
            paths.found(violation(id), "p", "", &id.to_be_bytes());
            assert!(paths.len() <= 100);
        }
        assert_eq!(names(&paths), (9_900..10_000).rev().collect::<Vec<_>>());
        assert_eq!(paths.best(64, usize::MAX).len(), 64);
        assert_eq!(paths.best(64, 8 * 10).len(), 10);
        assert_eq!(paths.bytes(), 800);
    }

    #[test]
    fn a_108_a_path_that_errs_often_outlives_newer_ones() {
        let mut paths = Paths::new(Limits {
            paths_max: 3,
            bytes_max: 1 << 20,
        });
        paths.found(violation(1), "p", "", b"often");
        (0..15).for_each(|_| paths.erred(violation(1)));
        for id in 2..20 {
            paths.turn();
            paths.found(violation(id), "p", "", &id.to_be_bytes());
        }
        assert_eq!(names(&paths), [1, 19, 18]);
    }

    #[test]
    fn the_same_path_is_kept_once_whatever_it_is_called() {
        let mut paths = Paths::new(Limits::default());
        paths.found(violation(1), "p", "", b"path");
        paths.found(violation(1), "p", "", b"path");
        paths.found(violation(2), "p", "", b"path");
        assert_eq!(names(&paths), [1]);
        assert_eq!(paths.path(violation(1)).unwrap().hits, 3);
        paths.found(violation(3), "another", "", b"path");
        assert_eq!(paths.len(), 2);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut paths = Paths::new(Limits {
            paths_max: 100,
            bytes_max: 1_000,
        });
        for id in 0..50 {
            paths.turn();
            paths.found(violation(id), "p", "", &[id as u8; 300]);
        }
        assert_eq!(names(&paths), [49, 48, 47]);
        paths.found(violation(99), "p", "", &[0; 1_001]);
        assert_eq!(
            names(&paths),
            [49, 48, 47],
            "what cannot fit drives nothing out"
        );
    }

    #[test]
    fn paths_read_back_and_any_damage_is_noticed() {
        let mut paths = Paths::new(Limits::default());
        paths.serve("randtree", "1");
        paths.found(violation(u64::MAX), "p", "why", b"path");
        paths.next_run();
        let bytes = paths.write();
        let read = Paths::read(&bytes, Limits::default()).unwrap();
        assert_eq!(
            read.path(violation(u64::MAX)),
            paths.path(violation(u64::MAX))
        );
        assert_eq!(read.bytes(), 4);
        assert_eq!(read.clone().next_run(), 2);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(
                Paths::read(&damaged, Limits::default()).is_err(),
                "byte {at}"
            );
            assert!(
                Paths::read(&bytes[..at], Limits::default()).is_err(),
                "cut at {at}"
            );
        }
    }

    #[test]
    fn paths_of_another_version_are_given_up() {
        let mut paths = Paths::new(Limits::default());
        assert_eq!(paths.serve("randtree", "1"), 0);
        paths.found(violation(1), "p", "", b"path");
        assert_eq!(paths.serve("randtree", "1"), 0);
        assert_eq!(paths.serve("randtree", "2"), 1);
        assert!(paths.is_empty());
        assert_eq!(paths.bytes(), 0);
    }
}
