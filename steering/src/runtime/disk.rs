//! What survives a reset, kept in a file that is always whole.
//!
//! The file is written before anything is sent that may depend on it, in the loop itself: there is nothing a node could do
//! in the meantime.

use std::fs::{self, File};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::PathBuf;

use scry_protocol::messagepack;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How far ahead of the last tick the bound in the file is, so that not every tick is a write.
const TICKS_AHEAD: u64 = 1000;

/// Where a node keeps what survives its process.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// The directory. It is made if it does not exist, and belongs to one node.
    pub directory: PathBuf,
    /// Whether a write is on the medium before anything is sent. Without, it survives the process but not the machine.
    pub sync: bool,
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
struct Written<D> {
    /// No tick was ever above this.
    ticks_bound: u64,
    disk: D,
    /// What the clock said when this was written: no stamp in it is later.
    #[serde(default)]
    clock_ms: u64,
}

/// What an earlier process left.
#[derive(Debug)]
pub(super) struct Left<D> {
    /// No tick was ever above this.
    pub(super) ticks_bound: u64,
    /// What the service keeps.
    pub(super) disk: D,
    /// What the clock said when it was written.
    pub(super) clock_ms: u64,
}

/// The file of one node.
#[derive(Debug)]
pub(super) struct Store<D> {
    options: DiskOptions,
    ticks_bound: u64,
    /// What was written last, to tell whether anything changed.
    last: Vec<u8>,
    kept: PhantomData<fn() -> D>,
}

impl<D: Serialize + DeserializeOwned> Store<D> {
    /// Opens the directory, and reads what an earlier process left.
    pub(super) fn open(options: DiskOptions) -> io::Result<(Self, Option<Left<D>>)> {
        fs::create_dir_all(&options.directory)?;
        let mut store = Self {
            options,
            ticks_bound: 0,
            last: Vec::new(),
            kept: PhantomData,
        };
        let bytes = match fs::read(store.path()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((store, None)),
            Err(error) => return Err(error),
        };
        let Written {
            ticks_bound,
            disk,
            clock_ms,
        } = messagepack::from_slice(&bytes).map_err(|error| {
            let text = format!("{}: {error}", store.path().display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        store.ticks_bound = ticks_bound;
        let left = Left {
            ticks_bound,
            disk,
            clock_ms,
        };
        Ok((store, Some(left)))
    }

    /// Writes what the service keeps, if it differs from what was written last.
    pub(super) fn keep(&mut self, ticks: u64, clock_ms: u64, disk: &D) -> io::Result<()> {
        let bytes = messagepack::to_vec(disk).map_err(io::Error::other)?;
        if bytes == self.last && ticks <= self.ticks_bound {
            return Ok(());
        }
        if ticks > self.ticks_bound {
            self.ticks_bound = ticks.saturating_add(TICKS_AHEAD);
        }
        let written = Written {
            ticks_bound: self.ticks_bound,
            disk,
            clock_ms,
        };
        self.replace(&messagepack::to_vec(&written).map_err(io::Error::other)?)?;
        self.last = bytes;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.options.directory.join("disk")
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let path = self.path();
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(bytes)?;
        if self.options.sync {
            file.sync_all()?;
        }
        fs::rename(&fresh, &path)?;
        if self.options.sync {
            // The name, too, must be on the medium.
            File::open(&self.options.directory)?.sync_all()?;
        }
        Ok(())
    }
}
