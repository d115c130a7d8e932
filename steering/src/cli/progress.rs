//! The line that moves while a search runs.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::cli::text::grouped;
use scry_engine::explore::Counts;

/// How often the line is drawn anew on a terminal, and elsewhere.
const EVERY: Duration = Duration::from_millis(100);
const EVERY_IN_A_LOG: Duration = Duration::from_secs(10);

/// Draws on standard error; leaves nothing behind on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    terminal: bool,
    drawn: bool,
    last: Duration,
    states_then: u64,
}

impl Progress {
    pub(crate) fn new(shown: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            shown,
            terminal,
            drawn: false,
            last: Duration::ZERO,
            states_then: 0,
        }
    }

    pub(crate) fn show(&mut self, now: Duration, counts: &Counts) {
        let since = now - self.last;
        if !self.shown || since < if self.terminal { EVERY } else { EVERY_IN_A_LOG } {
            return;
        }
        let per_second = (counts.states - self.states_then) as f64 / since.as_secs_f64();
        let line = format!(
            "{:>6.1} s  {} states  {} states/s  depth {}  frontier {}",
            now.as_secs_f64(),
            grouped(counts.states),
            grouped(per_second as u64),
            counts.depth,
            grouped(counts.frontier),
        );
        // Progress that cannot be shown is not worth failing for.
        let mut out = std::io::stderr();
        let _ = match self.terminal {
            true => write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush()),
            false => writeln!(out, "{line}"),
        };
        (self.drawn, self.last, self.states_then) = (true, now, counts.states);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn && self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
