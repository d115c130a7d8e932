//! Lines for whoever reads standard output. Nobody waits for a reader: what is not read in time is dropped and counted, and
//! takes a bounded amount of memory until then.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

/// How many bytes of lines may wait for a reader.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Prints lines from a thread of its own.
#[derive(Clone, Debug)]
pub(super) struct Printer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something waits, or nothing will any more.
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<String>,
    /// Bytes of lines that are not printed yet, the one at hand included.
    bytes: usize,
    /// Lines dropped since the last one that was taken.
    missed: u64,
    /// No more lines come.
    closed: bool,
    /// Nobody prints any more.
    ended: bool,
}

impl Printer {
    /// Starts to print on standard output.
    pub(super) fn start() -> Self {
        let printer = Self::new(WAITING_BYTES_MAX);
        let prints = printer.clone();
        let print = move || prints.print(&mut std::io::stdout());
        if thread::Builder::new().spawn(print).is_err() {
            printer.lock().ended = true;
        }
        printer
    }

    fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            bytes_max,
        }))
    }

    /// Leaves a line to be printed, or drops it if too many wait, which a line says that comes in its place. Tells whether
    /// it was taken.
    pub(super) fn say(&self, line: &impl Serialize) -> bool {
        let takes = self.has_room();
        if takes {
            self.push(serde_json::to_string(line));
        }
        takes
    }

    /// Tells whether a line is taken. One that is not is not even written: that would cost the node time for nobody.
    fn has_room(&self) -> bool {
        let mut queue = self.lock();
        let has = !queue.ended && queue.bytes < self.0.bytes_max;
        queue.missed += u64::from(!has);
        has
    }

    /// Leaves an answer to be printed, for which there is room of its own. Tells whether there was; an answer that nobody
    /// will read needs none.
    pub(super) fn say_answer(&self, line: &impl Serialize) -> bool {
        let (ended, bytes) = {
            let queue = self.lock();
            (queue.ended, queue.bytes)
        };
        if !ended && bytes >= 2 * self.0.bytes_max {
            return false;
        }
        self.push(serde_json::to_string(line));
        true
    }

    fn push(&self, line: serde_json::Result<String>) {
        let text = line.unwrap_or_else(|error| json!({ "error": error.to_string() }).to_string());
        let mut queue = self.lock();
        if queue.ended {
            return;
        }
        queue.tell_missed();
        queue.push(text);
        drop(queue);
        self.0.changed.notify_all();
    }

    /// Waits until everything is printed, but not longer than so; a reader that is stuck is not waited for.
    pub(super) fn close(&self, wait: Duration) {
        let end = Instant::now() + wait;
        let mut queue = self.lock();
        queue.closed = true;
        self.0.changed.notify_all();
        while !queue.ended {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Prints until no more lines come or nobody reads.
    fn print(&self, out: &mut impl Write) {
        let mut printed = 0;
        loop {
            let mut queue = self.lock();
            queue.bytes -= printed;
            let line = loop {
                if queue.closed && queue.lines.is_empty() {
                    queue.tell_missed();
                }
                match queue.lines.pop_front() {
                    Some(line) => break Some(line),
                    None if queue.closed => break None,
                    None => {
                        let waited = self.0.changed.wait(queue);
                        queue = waited.unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(queue);
            // Without a reader there is nothing left to print, and the node lives on.
            let written = line.map(|line| {
                printed = line.len();
                writeln!(out, "{line}").and_then(|()| out.flush())
            });
            if !matches!(written, Some(Ok(()))) {
                let mut queue = self.lock();
                queue.ended = true;
                queue.lines = VecDeque::new();
                self.0.changed.notify_all();
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn tell_missed(&mut self) {
        let missed = std::mem::take(&mut self.missed);
        if missed > 0 {
            self.push(json!({ "kind": "missed", "count": missed }).to_string());
        }
    }

    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_is_dropped_counted_and_told() {
        let printer = Printer::new(20);
        let taken: Vec<bool> = (0..100).map(|number| printer.say(&number)).collect();
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 15);
        assert!(printer.lock().bytes < 30, "the queue is bounded");
        // A reader comes.
        let mut out = Vec::new();
        printer.lock().closed = true;
        printer.print(&mut out);
        let out = String::from_utf8_lossy(&out);
        assert_eq!(out.lines().count(), 16);
        assert_eq!(
            out.lines().last(),
            Some("{\"count\":85,\"kind\":\"missed\"}")
        );

        let printer = Printer::new(1);
        assert!(printer.say(&1));
        assert!(!printer.say(&2) && !printer.say(&3));
        printer.lock().bytes = 0;
        assert!(printer.say(&4));
        printer.lock().closed = true;
        printer.lock().bytes = 100;
        let mut out = Vec::new();
        printer.print(&mut out);
        let expect = "1\n{\"count\":2,\"kind\":\"missed\"}\n4\n";
        assert_eq!(String::from_utf8_lossy(&out), expect);
    }

    /// A reader that is gone.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_gone_or_stuck_is_not_waited_for() {
        let printer = Printer::new(20);
        assert!(printer.say(&1));
        printer.print(&mut Gone);
        assert!(!printer.say(&2));
        assert_eq!(printer.lock().lines.len(), 0);
        printer.close(Duration::from_secs(600));
        // Nobody prints at all: the wait ends by itself.
        let stuck = Printer::new(20);
        assert!(stuck.say(&1));
        stuck.close(Duration::ZERO);
        // There is room for answers beyond what reports may take, and an end to it.
        let full = Printer::new(2);
        assert!(full.say(&22) && !full.say(&33));
        assert!(full.say_answer(&44) && !full.say_answer(&55));
    }
}
