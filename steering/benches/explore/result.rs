//! What came out, as a table for people and as an object for machines.

use std::fmt;

use serde_json::{Value, json};

use crate::contender::{Contender, Measurement};
use crate::options::Size;

/// The runs of one contender.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Who.
    pub(crate) contender: Contender,
    /// Its runs.
    pub(crate) runs: Vec<Measurement>,
}

/// The median run of each contender.
#[derive(Debug)]
pub(crate) struct Outcome {
    size: Size,
    entries: Vec<(Contender, Measurement)>,
}

/// A figure with the bound it should keep.
struct Goal {
    name: &'static str,
    figure: f64,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Entry {
    /// Makes the entry of a contender that has not run yet.
    pub(crate) fn new(contender: Contender) -> Self {
        Self {
            contender,
            runs: Vec::new(),
        }
    }

    /// Returns the run that took neither the least nor the most time; of two in the middle, the slower.
    fn median(mut self) -> Measurement {
        self.runs
            .sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
        let middle = self.runs.len() / 2;
        self.runs.swap_remove(middle)
    }
}

impl Outcome {
    /// Takes the median run of each entry, all of which have at least one and explored the same.
    pub(crate) fn new(size: Size, entries: Vec<Entry>) -> Self {
        let entries = entries
            .into_iter()
            .map(|entry| (entry.contender, entry.median()))
            .collect();
        Self { size, entries }
    }

    /// Returns the object that `--json` prints.
    pub(crate) fn to_json(&self) -> Value {
        let figures = |contender| {
            self.find(contender).map(|run| {
                let mut figures = json!({
                    "seconds": run.seconds,
                    "cpu_seconds": run.cpu_seconds,
                    "peak_rss_bytes": run.peak_rss_bytes,
                });
                if let Some(handler_runs) = run.handler_runs {
                    figures["handler_runs"] = handler_runs.into();
                }
                figures
            })
        };
        json!({
            "proposers": self.size.proposers,
            "acceptors": self.size.acceptors,
            "states": self.scry().states,
            "transitions": self.scry().transitions,
            "scry": figures(Contender::Scry),
            "scry_2threads": figures(Contender::ScryTwoThreads),
            "stateright": figures(Contender::Stateright),
            "spin": figures(Contender::Spin),
            "ratio_stateright": self.times_slower(Contender::Stateright),
            "ratio_spin": self.times_slower(Contender::Spin),
            "bytes_per_state": bytes_per_state(self.scry()),
            "ratio_2threads": self.speedup(),
        })
    }

    fn find(&self, wanted: Contender) -> Option<&Measurement> {
        let mut entries = self.entries.iter();
        entries
            .find(|(contender, _)| *contender == wanted)
            .map(|(_, run)| run)
    }

    fn scry(&self) -> &Measurement {
        self.find(Contender::Scry).expect("scry always competes")
    }

    /// Returns how many times as long as scry a peer took, if it competed.
    fn times_slower(&self, peer: Contender) -> Option<f64> {
        let peer = self.find(peer)?;
        Some(peer.seconds / self.scry().seconds)
    }

    /// Returns how many times as fast two threads are.
    fn speedup(&self) -> Option<f64> {
        let two = self.find(Contender::ScryTwoThreads)?;
        Some(self.scry().seconds / two.seconds)
    }

    /// Lists what scry is meant to reach on the full size.
    fn goals(&self) -> Vec<Goal> {
        let goal = |name, figure: Option<f64>, bound| {
            figure.map(|figure| Goal {
                name,
                figure,
                bound,
            })
        };
        let scry = self.scry();
        let handler_runs = scry.handler_runs.map(|runs| runs as f64);
        [
            goal(
                "× stateright",
                self.times_slower(Contender::Stateright),
                Bound::AtLeast(35.0),
            ),
            goal(
                "× SPIN",
                self.times_slower(Contender::Spin),
                Bound::AtLeast(6.0),
            ),
            goal(
                " bytes a state",
                Some(bytes_per_state(scry)),
                Bound::AtMost(30.0),
            ),
            goal("× on two threads", self.speedup(), Bound::AtLeast(1.6)),
            goal(" handler runs", handler_runs, Bound::AtMost(999.0)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn bytes_per_state(run: &Measurement) -> f64 {
    run.peak_rss_bytes as f64 / run.states as f64
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scry = self.scry();
        writeln!(
            f,
            "Paxos, {}: {} states, {} transitions",
            self.size, scry.states, scry.transitions
        )?;
        writeln!(
            f,
            "{:14} {:>9} {:>7} {:>9} {:>10} {:>11} {:>8} {:>8}",
            "contender", "seconds", "ratio", "cpu s", "cpu ratio", "states/s", "MB", "B/state"
        )?;
        for (contender, run) in &self.entries {
            let rate = run.states as f64 / run.seconds;
            // SPIN counts hundredths of a second: a small system takes it none.
            let rate = Some(rate).filter(|rate| rate.is_finite());
            writeln!(
                f,
                "{contender:14} {:>9.3} {:>6.1}× {:>9.3} {:>9.1}× {:>11} {:>8.1} {:>8.1}",
                run.seconds,
                run.seconds / scry.seconds,
                run.cpu_seconds,
                run.cpu_seconds / scry.cpu_seconds,
                rate.map_or("-".to_owned(), |rate| format!("{rate:.0}")),
                run.peak_rss_bytes as f64 / 1e6,
                bytes_per_state(run),
            )?;
        }
        if self.find(Contender::Spin).is_none() {
            writeln!(f, "spin did not compete: `spin` or `gcc` is not installed")?;
        }
        if self.size != Size::FULL {
            return writeln!(f, "goals are set for {} only", Size::FULL);
        }
        let goals: Vec<String> = self.goals().iter().map(Goal::to_string).collect();
        writeln!(f, "goals: {}", goals.join(", "))
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_met, relation, bound) = match self.bound {
            Bound::AtLeast(bound) => (self.figure >= bound, "≥", bound),
            Bound::AtMost(bound) => (self.figure <= bound, "≤", bound),
        };
        let verdict = if is_met { "met" } else { "missed" };
        // A whole number is a count and has no decimals.
        let decimals = usize::from(self.figure.fract() != 0.0);
        write!(
            f,
            "{:.decimals$}{} ({relation} {bound} {verdict})",
            self.figure, self.name
        )
    }
}
