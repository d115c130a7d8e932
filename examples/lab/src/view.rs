//! What is seen while a run goes on: a picture that moves on a terminal, plain lines elsewhere, nothing with `--json`.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::observer::{Mark, MarkKind, Observer};
use crate::staged::Staged;

/// How many of the last marks a picture shows.
const RECENT: usize = 10;
/// How often a picture is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(150);
/// How wide a line of a picture is.
const WIDTH: usize = 118;

/// Shows a run.
#[derive(Debug)]
pub(crate) struct View {
    kind: Kind,
    recent: VecDeque<String>,
    /// How many lines of the last picture are on the screen.
    drawn: usize,
    drawn_at: Option<Instant>,
    has_colour: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Silent,
    Lines,
    Picture,
}

impl View {
    /// Makes the view that fits the place it is shown in.
    pub(crate) fn new(silent: bool) -> Self {
        let kind = match (silent, stdout().is_terminal()) {
            (true, _) => Kind::Silent,
            (false, true) => Kind::Picture,
            (false, false) => Kind::Lines,
        };
        Self {
            kind,
            recent: VecDeque::new(),
            drawn: 0,
            drawn_at: None,
            has_colour: kind == Kind::Picture && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// Says something that stays.
    pub(crate) fn say(&mut self, text: &str) {
        self.leave();
        if self.kind != Kind::Silent {
            println!("{text}");
        }
    }

    /// Shows a mark.
    pub(crate) fn mark(&mut self, mark: &Mark) {
        let node = mark.node.map(|node| node.to_string()).unwrap_or_default();
        let line = format!(
            "{:>7.2} s  {node:<4} {:<13} {}",
            mark.at_ms as f64 / 1000.0,
            mark.kind.name(),
            mark.text
        );
        let line = self.coloured(mark.kind, clipped(&line));
        match self.kind {
            Kind::Silent => {}
            Kind::Lines => println!("{line}"),
            Kind::Picture => {
                self.recent.push_back(line);
                if self.recent.len() > RECENT {
                    self.recent.pop_front();
                }
            }
        }
    }

    /// Draws the picture, if there is one and it is time.
    pub(crate) fn draw<S: Staged>(
        &mut self,
        title: &str,
        cluster: &Cluster<S>,
        observer: &Observer,
    ) {
        let is_fresh = self.drawn_at.is_some_and(|at| at.elapsed() < DRAW_EVERY);
        if self.kind != Kind::Picture || is_fresh {
            return;
        }
        self.drawn_at = Some(Instant::now());
        let count = &cluster.referee.count;
        let state = match cluster.referee.is_inconsistent() {
            true => self.coloured(MarkKind::Inconsistency, "INCONSISTENT".to_owned()),
            false => "consistent".to_owned(),
        };
        let mut lines = vec![
            format!(
                "── {title} {}",
                "─".repeat(WIDTH.saturating_sub(title.chars().count() + 4))
            ),
            format!(
                "{state} · {} events · {} predictions · {} filters · {} filtered · {} vetoes · {} inconsistent states",
                count.actions,
                observer.predictions,
                observer.filters,
                count.filtered,
                count.vetoed,
                count.inconsistent_states
            ),
        ];
        for (id, state) in cluster.referee.states() {
            lines.push(clipped(&format!("  {id:<4} {}", state.brief(id))));
        }
        lines.push(String::new());
        lines.extend(self.recent.iter().cloned());
        self.erase();
        self.drawn = lines.len();
        println!("{}", lines.join("\n"));
        // A screen that cannot be written to shows nothing.
        let _ = stdout().flush();
    }

    /// Leaves the last picture where it is.
    pub(crate) fn leave(&mut self) {
        self.drawn = 0;
        self.drawn_at = None;
        self.recent.clear();
    }

    fn erase(&self) {
        if self.drawn > 0 {
            // Up to the first line of the last picture, and everything below it away.
            print!("\x1b[{}A\x1b[J", self.drawn);
        }
    }

    fn coloured(&self, kind: MarkKind, text: String) -> String {
        let colour = match kind {
            MarkKind::Inconsistency => 31,
            MarkKind::Veto => 35,
            MarkKind::Change => 32,
            MarkKind::Filter => 36,
            MarkKind::Prediction => 33,
            MarkKind::Fault => 90,
        };
        match self.has_colour {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text,
        }
    }
}

/// Cuts a line so that it does not wrap, which would spoil the count of lines.
fn clipped(line: &str) -> String {
    // What comes from nodes may hold anything; control characters would do things to the terminal.
    let line = line.replace(char::is_control, " ");
    match line.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
