//! Checkpoint numbers over restarts: a new life begins above every number its former lives had.
//!
//! With a file, numbers are reserved in blocks: the file holds the first number that is not reserved, which is where the
//! next life begins. It is written before a number beyond it is used, so about once in [`RESERVED`] checkpoints, or when a
//! peer is ahead by as much; that is the one moment the event path touches a disk, and only of hosts that keep one. It
//! survives the end of the process, not of the machine's power.
//!
//! Without a file, a life begins with its incarnation, milliseconds since the epoch: to be passed by then, a former life
//! would have had to take a thousand checkpoints a second all its life, or its clock to be set back. If it was, snapshots
//! gathered across the restart may contradict themselves and are thrown away until the agent lifts the number.

use std::io;
use std::path::{Path, PathBuf};

use scry_protocol::{CheckpointNumber, Incarnation};

/// How many numbers are reserved at once.
const RESERVED: u64 = 4096;

/// Where a life's numbers end, for the next to begin there.
#[derive(Debug)]
pub(super) struct Numbers {
    path: Option<PathBuf>,
    /// The first number that is not reserved.
    bound: CheckpointNumber,
    born: CheckpointNumber,
}

impl Numbers {
    /// Decides the number a life begins with, at least the given one.
    pub(super) fn begin(
        path: Option<PathBuf>,
        incarnation: Incarnation,
        least: CheckpointNumber,
    ) -> Self {
        let first = CheckpointNumber::ZERO.next();
        let from_clock =
            || CheckpointNumber::new(incarnation.get()).unwrap_or(CheckpointNumber::ZERO);
        let reserved = match &path {
            None => from_clock(),
            Some(path) => match read(path) {
                Ok(Some(bound)) => bound,
                Ok(None) => first,
                Err(error) => {
                    // How far the former life was is not known; the clock is the best there is.
                    tracing::warn!(file = %path.display(), "checkpoint numbers cannot be read: {error}");
                    from_clock()
                }
            },
        };
        let born = reserved.max(least).max(first);
        let mut numbers = Self {
            path,
            bound: born,
            born,
        };
        numbers.reserve(born);
        numbers
    }

    /// Returns the number this life begins with.
    pub(super) fn born(&self) -> CheckpointNumber {
        self.born
    }

    /// Sees to it that no later life begins with this number or a lower one.
    pub(super) fn reserve(&mut self, number: CheckpointNumber) {
        let Some(path) = &self.path else {
            return;
        };
        if number < self.bound {
            return;
        }
        self.bound = CheckpointNumber::new(number.get().saturating_add(RESERVED))
            .unwrap_or(CheckpointNumber::MAX);
        if let Err(error) = write(path, self.bound) {
            // The service goes on; a restart may cost a snapshot.
            tracing::warn!(file = %path.display(), "checkpoint numbers cannot be kept: {error}");
        }
    }
}

fn read(path: &Path) -> io::Result<Option<CheckpointNumber>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let number = text.trim().parse().map_err(io::Error::other)?;
    CheckpointNumber::new(number)
        .map(Some)
        .map_err(io::Error::other)
}

/// Writes beside the file and renames, so that it is whole at every moment.
fn write(path: &Path, bound: CheckpointNumber) -> io::Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, format!("{}\n", bound.get()))?;
    std::fs::rename(&beside, path)
}
