//! The steering log on disk, and the trace files beside it.
//!
//! | module | what it does |
//! |---|---|
//! | [`writer`] | appends records, turns files over by size, goes on when the disk is full |
//! | [`reader`] | reads them back in order, and follows them as they grow and turn over |
//! | [`selection`], [`shown`], `sentence` | which records somebody wants to see, how they look to people, and what they say |
//! | `fold` | what repeats itself is counted instead of written |
//! | [`chain`], [`verify`] | each record names the one before it, and whether that is still so |
//! | [`traces`] | one file for each predicted violation, as many as are kept |

pub mod chain;
pub(crate) mod fold;
pub mod reader;
pub mod selection;
mod sentence;
pub mod shown;
#[cfg(test)]
mod tests;
pub mod traces;
pub mod verify;
pub mod writer;

use std::path::{Path, PathBuf};

pub use chain::Head;
pub use reader::Reader;
pub use traces::Traces;
pub use writer::Writer;

/// The file that grows.
pub const FILE_NAME: &str = "steering.jsonl";

/// Returns the file that was turned over so many times, the growing one for 0.
pub fn file(directory: &Path, age: u32) -> PathBuf {
    match age {
        0 => directory.join(FILE_NAME),
        age => directory.join(format!("steering.{age}.jsonl")),
    }
}

/// A directory of a test, gone when the test is over.
#[cfg(test)]
pub(crate) mod scratch {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    static COUNT: AtomicU32 = AtomicU32::new(0);

    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Self {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("scry-log-{}-{count}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
