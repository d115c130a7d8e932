//! Files of the controller, written by a thread of their own: a slow disk holds up no decision.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::controller::disk;
use crate::log::fold::Fold;
use crate::log::{Head, Traces, Writer, writer};
use scry::checkpoint::Time;
use scry_protocol::ViolationId;
use scry_protocol::record::{Entry, Timestamp};
use tracing::warn;

/// How many things may wait to be written.
const WAITING_MAX: usize = 4096;

/// Where past paths are kept in the log's directory.
const PATHS_FILE: &str = "paths";

/// Something to be written.
#[derive(Debug)]
enum Page {
    Record(Timestamp, Box<Entry>),
    Trace(ViolationId, Vec<u8>),
    Paths(Vec<u8>),
}

/// Takes what is to be written without waiting.
#[derive(Debug)]
pub(super) struct Journal {
    pages: Option<SyncSender<Page>>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    fold: Fold,
    head: Arc<Mutex<Option<Head>>>,
}

/// Returns where past paths are kept.
pub(super) fn paths_file(directory: &Path) -> PathBuf {
    directory.join(PATHS_FILE)
}

impl Journal {
    /// Starts the thread.
    pub(super) fn open(options: writer::Options, traces_kept: usize) -> Self {
        let (pages, waiting) = sync_channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let traces = Traces::new(&options.directory, traces_kept);
        let paths = paths_file(&options.directory);
        let counted = Arc::clone(&dropped);
        let head = Arc::new(Mutex::new(None));
        let told = Arc::clone(&head);
        let thread = std::thread::Builder::new()
            .name("scry-journal".to_owned())
            .spawn(move || {
                let files = Files {
                    writer: Writer::open(options),
                    traces,
                    paths,
                };
                files.write(&waiting, &counted, &told);
            })
            .map_err(|error| warn!(%error, "no thread for the steering log; nothing is written"))
            .ok();
        Self {
            pages: Some(pages),
            dropped,
            thread,
            fold: Fold::default(),
            head,
        }
    }

    /// Writes a record, unless there were many of its kind about the same just before. `now` is of a clock that never
    /// goes back.
    pub(super) fn record(&mut self, now: Time, entry: Entry) {
        if self.fold.handle_record(now.as_millis(), &entry) {
            self.write_record(entry);
        }
    }

    /// Tells of records that were not written, once it is time.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        for entry in self.fold.poll_over(now.as_millis()) {
            self.write_record(entry);
        }
    }

    /// Returns the last record that is on disk.
    pub(super) fn head(&self) -> Option<Head> {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        head.clone()
    }

    fn write_record(&self, entry: Entry) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = Timestamp::from_millis(now.as_millis() as u64);
        self.write(Page::Record(now, Box::new(entry)));
    }

    /// Writes a trace file.
    pub(super) fn trace(&self, violation: ViolationId, json: Vec<u8>) {
        self.write(Page::Trace(violation, json));
    }

    /// Writes the past paths.
    pub(super) fn paths(&self, bytes: Vec<u8>) {
        self.write(Page::Paths(bytes));
    }

    /// Returns how many records were not written.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn write(&self, page: Page) {
        let sent = self
            .pages
            .as_ref()
            .is_some_and(|pages| pages.try_send(page).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells of what was left out, and waits until everything is written.
    pub(super) fn close(mut self, now: Time) {
        for entry in self.fold.rest(now.as_millis()) {
            self.write_record(entry);
        }
        self.pages = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread writes to.
struct Files {
    writer: Writer,
    traces: Traces,
    paths: PathBuf,
}

impl Files {
    fn write(mut self, waiting: &Receiver<Page>, dropped: &AtomicU64, head: &Mutex<Option<Head>>) {
        let tell = |writer: &Writer| {
            *head.lock().unwrap_or_else(PoisonError::into_inner) = writer.head().cloned();
        };
        tell(&self.writer);
        for page in waiting {
            let before = self.writer.dropped();
            let written = match page {
                Page::Record(now, entry) => {
                    self.writer.write(now, *entry);
                    tell(&self.writer);
                    Ok(())
                }
                Page::Trace(violation, json) => self.traces.write(violation, &json),
                Page::Paths(bytes) => disk::save(&self.paths, &bytes),
            };
            dropped.fetch_add(self.writer.dropped() - before, Ordering::Relaxed);
            if let Err(error) = written {
                dropped.fetch_add(1, Ordering::Relaxed);
                warn!(%error, "a file of the steering log cannot be written");
            }
        }
    }
}
