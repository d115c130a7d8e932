//! The past paths on disk. Whatever is wrong with the file, the agent starts.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::paths::{Limits, Paths};

/// Reads the stored paths. Without a file there are none; with one that cannot be used there are none either, and the
/// second value says why, for one line of log.
pub fn load(file: &Path, limits: Limits) -> (Paths, Option<String>) {
    let complain = |error: &dyn std::fmt::Display| {
        let said = format!("{}: {error}; starting without past paths", file.display());
        (Paths::new(limits), Some(said))
    };
    match fs::read(file) {
        Ok(bytes) => match Paths::read(&bytes, limits) {
            Ok(paths) => (paths, None),
            Err(error) => complain(&error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => (Paths::new(limits), None),
        Err(error) => complain(&error),
    }
}

/// Writes a file so that it is either the former or the new one, whenever the machine stops.
///
/// # Errors
///
/// When the disk does not take it; the former file is still there then.
pub fn save(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = file.with_extension("new");
    let written = write_whole(&temporary, bytes).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        // It may not even exist; what matters is the first error.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut open = File::create(file)?;
    open.write_all(bytes)?;
    open.sync_data()
}
