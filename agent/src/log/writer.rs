//! Appends records to the log, each with its place in the chain. A full disk costs records, never the agent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use scry_protocol::NodeId;
use scry_protocol::record::{Entry, Timestamp, What};
use scry_protocol::text::escaped_json;

use super::chain::{self, Chained, Head, HeadFile, Link, Tail};

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
    /// The place of the next record in the chain.
    next: Link,
    /// The number of the first record that is still kept.
    first: u64,
    head: Option<Head>,
    head_file: Option<File>,
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
            next: Link::default(),
            first: 0,
            head: None,
            head_file: None,
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

    /// Returns the last record that was written, by this writer or one before it.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
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
        if self.file.is_none() {
            self.reopen()?;
        }
        let record = entry.at(now, self.options.node);
        let chained = Chained {
            record: &record,
            link: &self.next,
        };
        let json = escaped_json(serde_json::to_string(&chained)?);
        let hash = chain::hash(json.as_bytes());
        let ends = usize::from(self.torn) + 1;
        if self.bytes > 0 && self.bytes + (json.len() + ends) as u64 > self.options.file_bytes_max {
            self.turn_over()?;
        }
        let start = if self.torn { "\n" } else { "" };
        let line = format!("{start}{json}\n").into_bytes();
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
        let seq = self.next.seq;
        self.next = Link {
            seq: seq + 1,
            prev: Some(hash.clone()),
            torn: None,
        };
        self.head = Some(Head { seq, hash });
        self.write_head();
        Ok(())
    }

    /// Names the last record beside the log. If that fails, the chain is still there.
    fn write_head(&mut self) {
        let (Some(head), Some(file)) = (&self.head, &self.head_file) else {
            return;
        };
        let text = HeadFile {
            head: head.clone(),
            first: self.first,
        }
        .text();
        if let Err(error) = file.write_all_at(text.as_bytes(), 0) {
            tracing::debug!(%error, "the head of the steering log cannot be written");
        }
    }

    fn tear(&mut self, written: usize, error: io::Error) -> io::Error {
        // What was written of the line is taken back, if the file lets itself be cut.
        let is_undone = self
            .file
            .as_ref()
            .is_some_and(|file| written > 0 && file.set_len(self.bytes).is_ok());
        if written > 0 && !is_undone {
            self.bytes += written as u64;
            // The next record says that it knows of this: the end is looked at when the file is opened again.
            self.file = None;
        }
        error
    }

    /// The growing file becomes the first, the first the second, and the last goes.
    fn turn_over(&mut self) -> io::Result<()> {
        let directory = self.options.directory.clone();
        let name = |age| super::file(&directory, age);
        let kept = self.options.files_kept;
        // What will be the first is named before the others go: a crash in between looks like no loss.
        let oldest = (0..kept).rev().find_map(|age| chain::first_of(&name(age)));
        self.first = oldest.unwrap_or(self.next.seq);
        self.write_head();
        if kept == 0 {
            ignore_missing(fs::remove_file(name(0)))?;
        } else {
            for age in (0..kept).rev() {
                ignore_missing(fs::rename(name(age), name(age + 1)))?;
            }
        }
        self.file = None;
        self.torn = false;
        self.open_growing()
    }

    /// Opens the growing file, and finds out where the chain stands.
    fn reopen(&mut self) -> io::Result<()> {
        let directory = &self.options.directory;
        fs::create_dir_all(directory)?;
        let growing = Tail::of(&super::file(directory, 0))?;
        // After a turn the growing file may be empty yet.
        let before = Tail::of(&super::file(directory, 1))?;
        let named = HeadFile::read(directory);
        let found = growing.head.or(before.head);
        let first = named.as_ref().map(|named| named.first);
        let named = named.map(|named| named.head);
        // What the head file names was written, so if less is found, the log was cut. The chain goes on from what was, so
        // that this shows; a record that it does not name yet was written just before a crash.
        self.head = match (found, named) {
            (Some(found), Some(named)) if found.seq > named.seq => Some(found),
            (_, Some(named)) => Some(named),
            (found, None) => found,
        };
        self.next = Link {
            seq: self.head.as_ref().map_or(0, |head| head.seq + 1),
            prev: self.head.as_ref().map(|head| head.hash.clone()),
            torn: growing.torn,
        };
        self.torn = growing.is_open;
        self.first = first.unwrap_or_else(|| {
            let oldest = (0..=self.options.files_kept).rev();
            let mut firsts = oldest.filter_map(|age| chain::first_of(&super::file(directory, age)));
            firsts.next().unwrap_or(self.next.seq)
        });
        let head = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(HeadFile::path(directory));
        self.head_file = head.ok();
        self.open_growing()
    }

    fn open_growing(&mut self) -> io::Result<()> {
        let path = super::file(&self.options.directory, 0);
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        self.bytes = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
