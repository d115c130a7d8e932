//! One file for each predicted violation, written whole or not at all, as many as are kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use scry_protocol::ViolationId;

use crate::controller::disk;

/// The folder of the trace files.
#[derive(Debug)]
pub struct Traces {
    directory: PathBuf,
    kept: usize,
}

impl Traces {
    /// Names the folder, `traces` in the log's directory, and how many files it may hold.
    pub fn new(log_directory: &Path, kept: usize) -> Self {
        Self {
            directory: log_directory.join("traces"),
            kept,
        }
    }

    /// Returns where a violation's trace lies.
    pub fn file(&self, violation: ViolationId) -> PathBuf {
        self.directory.join(format!("{violation}.json"))
    }

    /// Writes a trace; the oldest go if there are too many.
    ///
    /// # Errors
    ///
    /// When the disk does not take it; what was there is still there then.
    pub fn write(&self, violation: ViolationId, json: &[u8]) -> io::Result<()> {
        if self.kept == 0 {
            return Ok(());
        }
        disk::save(&self.file(violation), json)?;
        let mut files = self.files()?;
        files.sort();
        let surplus = files.len().saturating_sub(self.kept);
        let others = files
            .into_iter()
            .filter(|(_, file)| *file != self.file(violation));
        for (_, file) in others.take(surplus) {
            fs::remove_file(file)?;
        }
        Ok(())
    }

    fn files(&self) -> io::Result<Vec<(SystemTime, PathBuf)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                files.push((fs::metadata(&path)?.modified()?, path));
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::scratch::Scratch;

    #[test]
    fn only_the_newest_traces_are_kept_and_nothing_half_written_is_seen() {
        let scratch = Scratch::new();
        let traces = Traces::new(scratch.path(), 3);
        for id in 0..10 {
            traces.write(ViolationId::new(id), b"{}").unwrap();
        }
        let files = traces.files().unwrap();
        assert_eq!(files.len(), 3);
        assert!(traces.file(ViolationId::new(9)).exists());
        let all: Vec<_> = fs::read_dir(scratch.path().join("traces"))
            .unwrap()
            .collect();
        assert_eq!(all.len(), 3, "no temporary file is left");
    }

    #[test]
    fn writing_a_trace_again_replaces_it() {
        let scratch = Scratch::new();
        let traces = Traces::new(scratch.path(), 3);
        let violation = ViolationId::new(u64::MAX);
        traces.write(violation, b"old").unwrap();
        traces.write(violation, b"new").unwrap();
        assert_eq!(fs::read(traces.file(violation)).unwrap(), b"new");
    }
}
