//! Files of the controller, written by a thread of their own: a slow disk holds up no decision.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::controller::disk;
use crate::log::{Traces, Writer, writer};
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
        let thread = std::thread::Builder::new()
            .name("scry-journal".to_owned())
            .spawn(move || write(&waiting, Writer::open(options), &traces, &paths, &counted))
            .map_err(|error| warn!(%error, "no thread for the steering log; nothing is written"))
            .ok();
        Self {
            pages: Some(pages),
            dropped,
            thread,
        }
    }

    /// Writes a record.
    pub(super) fn record(&self, entry: Entry) {
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

    /// Waits until everything is written.
    pub(super) fn close(mut self) {
        self.pages = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(
    waiting: &Receiver<Page>,
    mut writer: Writer,
    traces: &Traces,
    paths: &Path,
    dropped: &AtomicU64,
) {
    for page in waiting {
        let before = writer.dropped();
        let written = match page {
            Page::Record(now, entry) => {
                writer.write(now, *entry);
                Ok(())
            }
            Page::Trace(violation, json) => traces.write(violation, &json),
            Page::Paths(bytes) => disk::save(paths, &bytes),
        };
        dropped.fetch_add(writer.dropped() - before, Ordering::Relaxed);
        if let Err(error) = written {
            dropped.fetch_add(1, Ordering::Relaxed);
            warn!(%error, "a file of the steering log cannot be written");
        }
    }
}
