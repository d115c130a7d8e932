//! What many runs of the story say together, beside what the paper says (figure 14).

use std::fmt::Write;

use serde::Serialize;

use super::Bug;
use super::story::Run;
use crate::html;
use crate::statistics::Summary;

/// What prevented a violation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Prevention {
    /// A filter, before it came near.
    Steering,
    /// The immediate check, at the last step.
    Immediate,
    /// Nothing: two values were chosen.
    Missed,
    /// Nothing, and no two values were chosen.
    Undisturbed,
    /// The first round did not come out as the story has it; such a run says nothing.
    Invalid,
}

/// What many runs say.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    bug: Bug,
    fixed: bool,
    /// Valid runs with agents.
    runs: usize,
    steering: usize,
    immediate: usize,
    missed: usize,
    undisturbed: usize,
    invalid: usize,
    /// Valid runs without.
    unsteered_runs: usize,
    unsteered_violations: usize,
    /// How long after C came back the violation was predicted.
    prediction_ms: Summary,
    /// How long until a filter was in place.
    filter_ms: Summary,
    gap_seconds_max: f64,
    /// What the paper has, in per cent: steering, immediate check, missed; its gap in seconds; its time to prediction.
    paper: Paper,
    each: Vec<Run>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Paper {
    steering: u32,
    immediate: u32,
    missed: u32,
    gap_seconds_max: u32,
    prediction_ms: u32,
}

impl Outcome {
    pub(super) fn new(bug: Bug, fixed: bool, gap: f64, with: Vec<Run>, without: Vec<Run>) -> Self {
        let count = |runs: &[Run], prevention| {
            runs.iter()
                .filter(|run| run.prevention == prevention)
                .count()
        };
        let times = |time: fn(&Run) -> Option<u64>| {
            let all: Vec<f64> = with.iter().filter_map(time).map(|ms| ms as f64).collect();
            Summary::of(&all)
        };
        let (steering, missed) = match bug {
            Bug::LastPromise => (87, 2),
            Bug::VolatilePromise => (85, 5),
        };
        Self {
            bug,
            fixed,
            runs: with.len() - count(&with, Prevention::Invalid),
            steering: count(&with, Prevention::Steering),
            immediate: count(&with, Prevention::Immediate),
            missed: count(&with, Prevention::Missed),
            undisturbed: count(&with, Prevention::Undisturbed),
            invalid: count(&with, Prevention::Invalid) + count(&without, Prevention::Invalid),
            unsteered_runs: without.len() - count(&without, Prevention::Invalid),
            unsteered_violations: count(&without, Prevention::Missed),
            prediction_ms: times(|run| run.prediction_ms),
            filter_ms: times(|run| run.filter_ms),
            gap_seconds_max: gap,
            paper: Paper {
                steering,
                immediate: 11,
                missed,
                gap_seconds_max: 60,
                prediction_ms: 6000,
            },
            each: with,
        }
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 * 100.0 / self.runs.max(1) as f64
    }

    fn rows(&self) -> [(&'static str, usize, Option<u32>); 4] {
        [
            (
                "prevented by steering",
                self.steering,
                Some(self.paper.steering),
            ),
            (
                "prevented by the immediate check",
                self.immediate,
                Some(self.paper.immediate),
            ),
            ("not prevented", self.missed, Some(self.paper.missed)),
            ("nothing to prevent", self.undisturbed, None),
        ]
    }

    fn title(&self) -> String {
        let bug = match self.bug {
            Bug::LastPromise => "last-promise (bug1)",
            Bug::VolatilePromise => "volatile-promise (bug2)",
        };
        let fixed = if self.fixed { ", repaired" } else { "" };
        format!("Paxos, {bug}{fixed}: {} runs", self.runs)
    }

    fn timing(&self) -> String {
        let times = |summary: &Summary| {
            format!(
                "median {:.0} ms, 90 % within {:.0} ms",
                summary.median, summary.p90
            )
        };
        format!(
            "first prediction {} ({} runs; paper: 6 s); filter in place {}",
            times(&self.prediction_ms),
            self.prediction_ms.count,
            times(&self.filter_ms)
        )
    }

    /// Writes it for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!("\n{}\n\n", self.title());
        for (name, count, paper) in self.rows() {
            let paper = paper
                .map(|paper| format!("{paper:>3} %"))
                .unwrap_or_default();
            let _ = writeln!(
                text,
                "  {name:<34} {count:>4}  {:>5.1} %   paper {paper}",
                self.share(count)
            );
        }
        let _ = writeln!(
            text,
            "  {:<34} {:>4}  of {} without agents",
            "two values chosen", self.unsteered_violations, self.unsteered_runs
        );
        if self.invalid > 0 {
            let _ = writeln!(
                text,
                "  {:<34} {:>4}",
                "runs that say nothing", self.invalid
            );
        }
        let _ = write!(
            text,
            "\n{}\nthe gap between the rounds was drawn from 0 to {} s (paper: 60 s)",
            self.timing(),
            self.gap_seconds_max
        );
        text
    }

    /// Writes it as a page.
    pub(super) fn page(&self) -> String {
        let bars: Vec<(String, f64, String)> = self
            .rows()
            .into_iter()
            .flat_map(|(name, count, paper)| {
                let share = self.share(count);
                let own = (name.to_owned(), share, format!("{share:.1} % ({count})"));
                let theirs =
                    paper.map(|paper| ("paper".to_owned(), f64::from(paper), format!("{paper} %")));
                [Some(own), theirs]
            })
            .flatten()
            .collect();
        let points: Vec<(f64, &'static str, String)> = self
            .each
            .iter()
            .map(|run| {
                let colour = match run.prevention {
                    Prevention::Steering => "change",
                    Prevention::Immediate => "veto",
                    Prevention::Missed => "inconsistency",
                    Prevention::Undisturbed | Prevention::Invalid => "fault",
                };
                (
                    run.gap,
                    colour,
                    format!("gap {:.2} s{}", run.gap, run.detail()),
                )
            })
            .collect();
        let body = format!(
            "{}<p>{}. Without agents two values were chosen in {} of {} runs.</p>\n\
             <h2>Every run by the gap between its rounds</h2>\n{}{}",
            html::bars(&bars),
            html::escaped(&self.timing()),
            self.unsteered_violations,
            self.unsteered_runs,
            html::points(&points, self.gap_seconds_max, " s"),
            html::key(&[
                ("change", "prevented by steering"),
                ("veto", "prevented by the immediate check"),
                ("inconsistency", "not prevented"),
                ("fault", "nothing to prevent"),
            ]),
        );
        html::document(&self.title(), &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(prevention: Prevention, prediction_ms: Option<u64>) -> Run {
        Run {
            prevention,
            gap: 1.0,
            prediction_ms,
            filter_ms: None,
            acts: vec!["n1: <Learn> — drop".to_owned()],
            filtered: 0,
            vetoed: 0,
            directory: None,
        }
    }

    #[test]
    fn runs_are_counted_by_what_prevented_them_and_invalid_ones_not_at_all() {
        let with = vec![
            run(Prevention::Steering, Some(100)),
            run(Prevention::Steering, Some(300)),
            run(Prevention::Immediate, None),
            run(Prevention::Missed, None),
            run(Prevention::Invalid, None),
        ];
        let without = vec![
            run(Prevention::Missed, None),
            run(Prevention::Undisturbed, None),
        ];
        let outcome = Outcome::new(Bug::LastPromise, false, 4.0, with, without);
        let json = serde_json::to_value(&outcome).unwrap();
        assert_eq!(json["bug"], "last-promise");
        assert_eq!((&json["runs"], &json["invalid"]), (&4.into(), &1.into()));
        assert_eq!(
            (&json["steering"], &json["immediate"]),
            (&2.into(), &1.into())
        );
        assert_eq!(
            (&json["missed"], &json["unsteered_violations"]),
            (&1.into(), &1.into())
        );
        assert_eq!(json["prediction_ms"]["greatest"], 300.0);
        assert!(
            outcome.text().contains("50.0 %   paper  87 %"),
            "{}",
            outcome.text()
        );
        html::check_well_formed(&outcome.page());
    }
}
