//! Appends records to the log. A full disk costs records, never the agent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use scry_protocol::NodeId;
use scry_protocol::record::{Entry, Timestamp, What};

/// Where the log lies and how much is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// The directory; it is made if it is missing.
    pub directory: PathBuf,
    /// The node in every record.
    pub node: NodeId,
    /// When a file is turned over.
    pub file_bytes_max: u64,
    /// How many files are kept beside the growing one.
    pub files_kept: u32,
}

/// Writes the steering log.
#[derive(Debug)]
pub struct Writer {
    options: Options,
    /// `None` until the file could be opened.
    file: Option<File>,
    bytes: u64,
    dropped: u64,
    /// Records dropped since the last one that was written.
    missing: u64,
    /// Whether the file ends inside a line.
    torn: bool,
}

impl Writer {
    /// Begins to write, or to drop and count: nothing here fails the agent.
    pub fn open(options: Options) -> Self {
        let mut writer = Self {
            options,
            file: None,
            bytes: 0,
            dropped: 0,
            missing: 0,
            torn: false,
        };
        if let Err(error) = writer.reopen() {
            let directory = writer.options.directory.display();
            tracing::warn!(%directory, %error, "the steering log cannot be opened; records are dropped until it can");
        }
        writer
    }

    /// Writes one record.
    pub fn write(&mut self, now: Timestamp, entry: Entry) {
        if self.missing > 0 {
            // What was lost is told first, in the place where it is missing.
            let lost = Entry::new(What::FailedOpen {
                failure: "log-full".to_owned(),
                count: self.dropped,
                detail: format!("{} records were dropped here", self.missing),
            });
            if let Err(error) = self.append(now, lost) {
                self.drop_one(&error);
                return;
            }
            tracing::info!(dropped = self.missing, "the steering log is written again");
            self.missing = 0;
        }
        if let Err(error) = self.append(now, entry) {
            self.drop_one(&error);
        }
    }

    /// Returns how many records were dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Opens the growing file anew, as after a turn.
    #[cfg(test)]
    pub(super) fn turn_over_for_tests(&mut self) {
        self.file = None;
    }

    fn drop_one(&mut self, error: &io::Error) {
        if self.missing == 0 {
            let directory = self.options.directory.display();
            tracing::warn!(%directory, %error, "the steering log cannot be written; records are dropped and counted");
        }
        self.missing += 1;
        self.dropped += 1;
    }

    fn append(&mut self, now: Timestamp, entry: Entry) -> io::Result<()> {
        let record = entry.at(now, self.options.node);
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        if self.torn {
            line.insert(0, b'\n');
        }
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.options.file_bytes_max {
            self.turn_over()?;
        }
        if self.file.is_none() {
            self.reopen()?;
        }
        let file = self.file.as_mut().expect("it was just opened");
        let mut written = 0;
        while written < line.len() {
            match file.write(&line[written..]) {
                Ok(0) => return Err(self.tear(written, io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.tear(written, error)),
            }
        }
        self.bytes += line.len() as u64;
        self.torn = false;
        Ok(())
    }

    fn tear(&mut self, written: usize, error: io::Error) -> io::Error {
        self.bytes += written as u64;
        self.torn |= written > 0;
        error
    }

    /// The growing file becomes the first, the first the second, and the last goes.
    fn turn_over(&mut self) -> io::Result<()> {
        let name = |age| super::file(&self.options.directory, age);
        let kept = self.options.files_kept;
        if kept == 0 {
            ignore_missing(fs::remove_file(name(0)))?;
        } else {
            for age in (0..kept).rev() {
                ignore_missing(fs::rename(name(age), name(age + 1)))?;
            }
        }
        self.file = None;
        self.torn = false;
        self.reopen()
    }

    fn reopen(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.options.directory)?;
        let path = super::file(&self.options.directory, 0);
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        self.bytes = file.metadata()?.len();
        // What a crash left half a line of must not swallow the next one.
        self.torn = self.bytes > 0 && !ends_with_newline(&path)?;
        self.file = Some(file);
        Ok(())
    }
}

fn ends_with_newline(path: &std::path::Path) -> io::Result<bool> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
