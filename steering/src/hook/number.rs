//! Checkpoint numbers and incarnations over restarts: a new incarnation begins above every number its earlier incarnations had, and after
//! all of them.
//!
//! With a file, numbers are reserved in blocks: the file holds the first number that is not reserved, which is where the
//! next incarnation begins, and the present incarnation, after which the next one comes. It is written before a number beyond it
//! is used, so about once in [`RESERVED`] checkpoints, or when a peer is ahead by as much; that is the one moment the event
//! path touches a disk, and only of hosts that keep one. It survives the end of the process, not of the machine's power.
//!
//! What the file says is checked: it carries a check of its own, and a number that not everybody would follow
//! is not believed. Then the number begins above the time of day, and the incarnation after the stored one.
//!
//! Without a file, an incarnation begins with the time of day in both: to be passed by then, an earlier incarnation would have had to take a
//! thousand checkpoints a second all its incarnation, or its clock to be set back. If it was, its agent or the first message of a
//! peer that remembers lifts the number, and the hook begins an incarnation after the one that is remembered
//! (`Recorder::renew`). Part of every incarnation is chance, so that none is had twice.

use std::io;
use std::path::{Path, PathBuf};

use scry_protocol::{CheckpointNumber, Digest, Incarnation};

use scry_checkpoint::leeway;

/// How many numbers are reserved at once.
const RESERVED: u64 = 4096;
/// The longest file that is one.
const FILE_BYTES_MAX: u64 = 256;

/// Where an incarnation's numbers end, for the next to begin there.
#[derive(Debug)]
pub(super) struct Numbers {
    path: Option<PathBuf>,
    /// The first number that is not reserved.
    bound: CheckpointNumber,
    born: CheckpointNumber,
    incarnation: Incarnation,
    /// Why what was stored was not believed.
    unfit: Option<String>,
}

/// What the file holds.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Stored {
    bound: CheckpointNumber,
    /// Files of earlier versions hold none.
    incarnation: Option<Incarnation>,
}

impl Numbers {
    /// Decides the number an incarnation begins with, at least the given one, and which incarnation it is: the given one unless the file
    /// knows of others; then one after those, by chance.
    pub(super) fn begin(
        path: Option<PathBuf>,
        clock_ms: u64,
        incarnation: Incarnation,
        chance: u64,
        least: CheckpointNumber,
    ) -> Self {
        let first = CheckpointNumber::ZERO.next();
        let stored = path.as_deref().map_or(Ok(None), read);
        let mut unfit = None;
        let (reserved, incarnation) = match stored {
            Ok(None) if path.is_some() => (first, incarnation),
            Ok(None) => (leeway::of_clock(clock_ms), incarnation),
            Ok(Some(stored)) => {
                let incarnation = stored
                    .incarnation
                    .map_or(incarnation, |last| last.next_by(chance));
                let bound = stored.bound;
                if leeway::is_stored_plausible(bound) {
                    (bound, incarnation)
                } else {
                    unfit = Some(format!("{bound} is further than an honest one can be"));
                    (leeway::of_clock_if_lost(clock_ms), incarnation)
                }
            }
            Err(error) => {
                // How far the earlier incarnation was is not known; the clock is the best there is.
                unfit = Some(error.to_string());
                (leeway::of_clock_if_lost(clock_ms), incarnation)
            }
        };
        let born = reserved.max(least).max(first);
        let mut numbers = Self {
            path,
            bound: born,
            born,
            incarnation,
            unfit,
        };
        if let (Some(path), Some(why)) = (&numbers.path, &numbers.unfit) {
            tracing::warn!(file = %path.display(), "the stored checkpoint number is not believed: {why}");
        }
        numbers.reserve(born);
        numbers
    }

    /// Returns the number this incarnation begins with.
    pub(super) fn born(&self) -> CheckpointNumber {
        self.born
    }

    /// Returns which incarnation this is.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns why what was stored was not believed, once.
    pub(super) fn take_unfit(&mut self) -> Option<String> {
        self.unfit.take()
    }

    /// Goes on under another incarnation, from a number that may be lower.
    pub(super) fn renew(&mut self, incarnation: Incarnation, born: CheckpointNumber) {
        self.incarnation = incarnation;
        self.born = born;
        self.bound = born;
        self.reserve(born);
    }

    /// Sees to it that no later incarnation begins with this number or a lower one.
    pub(super) fn reserve(&mut self, number: CheckpointNumber) {
        let Some(path) = &self.path else {
            return;
        };
        if number < self.bound {
            return;
        }
        self.bound = CheckpointNumber::new(number.get().saturating_add(RESERVED))
            .unwrap_or(CheckpointNumber::MAX);
        if let Err(error) = write(path, self.bound, self.incarnation) {
            // The service goes on; a restart may cost a snapshot.
            tracing::warn!(file = %path.display(), "checkpoint numbers cannot be kept: {error}");
        }
    }
}

fn read(path: &Path) -> io::Result<Option<Stored>> {
    use io::Read;
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file is damaged");
    parse(&text).map(Some).ok_or_else(damaged)
}

pub(super) fn parse(text: &str) -> Option<Stored> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: &str| CheckpointNumber::new(word.parse().ok()?).ok();
    match words[..] {
        [bound] => Some(Stored {
            bound: number(bound)?,
            incarnation: None,
        }),
        [bound, incarnation, check] => {
            let stored = Stored {
                bound: number(bound)?,
                incarnation: Some(Incarnation::new(incarnation.parse().ok()?)),
            };
            (check == check_of(bound, incarnation)).then_some(stored)
        }
        _ => None,
    }
}

fn check_of(bound: &str, incarnation: &str) -> String {
    let digest = Digest::of(format!("{bound} {incarnation}").as_bytes()).to_string();
    digest.chars().take(16).collect()
}

/// Writes beside the file and renames, so that it is whole at every moment.
pub(super) fn write(
    path: &Path,
    bound: CheckpointNumber,
    incarnation: Incarnation,
) -> io::Result<()> {
    let beside = path.with_extension("new");
    let (bound, incarnation) = (bound.get().to_string(), incarnation.get().to_string());
    let check = check_of(&bound, &incarnation);
    std::fs::write(&beside, format!("{bound} {incarnation} {check}\n"))?;
    std::fs::rename(&beside, path)
}
