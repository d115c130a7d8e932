//! What several runs say together: medians of what a service achieved, sums of what steering did to it, and a verdict.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::run::Measured;
use crate::html::{document, escaped};
use crate::statistics::median;

/// A steered service answers at least this share of what it answers when left alone.
const ANSWERED_SHARE: f64 = 0.97;
/// And half of the answers come within this many times the time.
const P50_TIMES: f64 = 1.05;
/// With a bug, at most this share of the violated states is left.
const VIOLATIONS_SHARE: f64 = 0.05;
/// And at least this share of what the repaired service answers is answered.
const BUGGY_ANSWERED_SHARE: f64 = 0.90;

/// What came of the gauntlet.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Scores {
    /// How long each run went on.
    seconds: u64,
    /// How many runs of each kind there were.
    rounds: u32,
    /// Whether the services had their bugs.
    buggy: bool,
    /// The services.
    services: Vec<Service>,
}

/// What came of one service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Service {
    /// Its name.
    pub(crate) name: &'static str,
    /// The repaired service left alone, beside a buggy one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fixed: Option<Figures>,
    /// Left alone.
    pub(crate) off: Figures,
    /// Steered.
    pub(crate) steer: Steered,
    /// Violated states while it was steered, of all rounds.
    pub(crate) violations: u64,
    /// How that is to be judged.
    pub(crate) verdict: Verdict,
}

/// What a service achieved: medians over the rounds, and the sum of its violated states.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    events: f64,
    asked: f64,
    answered: f64,
    p50_ms: f64,
    p99_ms: f64,
    violations: u64,
    broken: BTreeMap<String, u64>,
    unseen: u64,
}

/// The same of a service that was steered, with what was done to it, added up over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Steered {
    #[serde(flatten)]
    figures: Figures,
    filters_acted: u64,
    vetoes: u64,
    held: u64,
    resets: u64,
    refused: u64,
}

/// Whether a service is none the worse, or a bug is kept from doing harm, and if not, why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pass: bool,
    why: Vec<String>,
}

impl Figures {
    fn of(runs: &[Measured]) -> Self {
        let middle = |value: &dyn Fn(&Measured) -> f64| {
            median(&runs.iter().map(value).collect::<Vec<f64>>())
        };
        let mut broken = BTreeMap::new();
        for (property, times) in runs.iter().flat_map(|run| &run.broken) {
            *broken.entry(property.clone()).or_default() += times;
        }
        Self {
            events: middle(&|run| run.events as f64),
            asked: middle(&|run| run.asked as f64),
            answered: middle(&|run| run.answered as f64),
            p50_ms: middle(&|run| run.percentile(50.0)),
            p99_ms: middle(&|run| run.percentile(99.0)),
            violations: runs.iter().map(|run| run.violations).sum(),
            broken,
            unseen: runs.iter().map(|run| run.unseen).sum(),
        }
    }
}

impl Steered {
    fn of(runs: &[Measured]) -> Self {
        let sum = |value: fn(&Measured) -> u64| runs.iter().map(value).sum();
        Self {
            figures: Figures::of(runs),
            filters_acted: sum(|run| run.filters_acted),
            vetoes: sum(|run| run.vetoes),
            held: sum(|run| run.held),
            resets: sum(|run| run.resets),
            refused: sum(|run| run.refused),
        }
    }
}

impl Service {
    /// Puts the runs of a service together; `fixed` are those of the repaired one beside a buggy one.
    pub(crate) fn new(
        name: &'static str,
        fixed: &[Measured],
        off: &[Measured],
        steer: &[Measured],
    ) -> Self {
        let fixed = (!fixed.is_empty()).then(|| Figures::of(fixed));
        let (off, steer) = (Figures::of(off), Steered::of(steer));
        let why = match &fixed {
            Some(fixed) => buggy(fixed, &off, &steer),
            None => harmed(&off, &steer),
        };
        Self {
            name,
            violations: steer.figures.violations,
            fixed,
            off,
            steer,
            verdict: Verdict {
                pass: why.is_empty(),
                why,
            },
        }
    }
}

/// Lists what is worse for a correct service that is steered.
fn harmed(off: &Figures, steer: &Steered) -> Vec<String> {
    let mut why = Vec::new();
    for (count, what) in [
        (off.violations, "violated states although left alone"),
        (steer.figures.violations, "violated states"),
        (steer.filters_acted, "events filtered"),
        (steer.vetoes, "events vetoed"),
        (steer.resets, "connections reset"),
        (steer.refused, "calls refused"),
        (off.unseen + steer.figures.unseen, "events unseen"),
    ] {
        if count > 0 {
            why.push(format!("{count} {what}"));
        }
    }
    let figures = &steer.figures;
    if off.answered == 0.0 {
        why.push("nothing was answered although left alone".to_owned());
    }
    if figures.answered < ANSWERED_SHARE * off.answered {
        why.push(format!(
            "answered {}",
            change(off.answered, figures.answered)
        ));
    }
    if figures.p50_ms > P50_TIMES * off.p50_ms {
        why.push(format!("p50 {}", change(off.p50_ms, figures.p50_ms)));
    }
    why
}

/// Lists what is left to be desired where a service with a bug is steered.
fn buggy(fixed: &Figures, off: &Figures, steer: &Steered) -> Vec<String> {
    let mut why = Vec::new();
    if off.violations == 0 {
        why.push("nothing broke although left alone: too short to tell".to_owned());
    }
    let left = steer.figures.violations as f64 / off.violations.max(1) as f64;
    if left > VIOLATIONS_SHARE {
        why.push(format!(
            "{:.0} % of the violated states are left",
            left * 100.0
        ));
    }
    let answered = steer.figures.answered;
    if answered < BUGGY_ANSWERED_SHARE * fixed.answered {
        why.push(format!(
            "answered {} of what the repaired one answers",
            change(fixed.answered, answered)
        ));
    }
    why
}

/// Says by how much something changed.
fn change(from: f64, to: f64) -> String {
    format!("{:+.1} %", (to / from.max(f64::MIN_POSITIVE) - 1.0) * 100.0)
}

/// What the columns are called.
const HEADINGS: [&str; 14] = [
    "service", "", "events", "asked", "answered", "p50 ms", "p99 ms", "filtered", "vetoes", "held",
    "resets", "refused", "violated", "verdict",
];

impl Scores {
    /// Puts the services together.
    pub(crate) fn new(seconds: u64, rounds: u32, buggy: bool, services: Vec<Service>) -> Self {
        Self {
            seconds,
            rounds,
            buggy,
            services,
        }
    }

    fn title(&self) -> String {
        let services = match self.buggy {
            true => "Services with a bug each",
            false => "Correct services",
        };
        format!(
            "{services}, left alone and steered by turns: {} s a run, medians of {}",
            self.seconds, self.rounds
        )
    }

    fn closing(&self) -> String {
        let passed = self.services.iter().filter(|it| it.verdict.pass).count();
        format!("{passed} of {} services pass.", self.services.len())
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for service in &self.services {
            let figures = |name: &str, way: &str, figures: &Figures| {
                let mut row = vec![name.to_owned(), way.to_owned()];
                for value in [figures.events, figures.asked, figures.answered] {
                    row.push(format!("{value:.0}"));
                }
                row.push(format!("{:.1}", figures.p50_ms));
                row.push(format!("{:.0}", figures.p99_ms));
                row
            };
            let alone = |mut row: Vec<String>, figures: &Figures| {
                row.extend(vec![String::new(); 5]);
                row.push(figures.violations.to_string());
                row.push(String::new());
                row
            };
            let mut name = service.name;
            if let Some(fixed) = &service.fixed {
                rows.push(alone(figures(name, "fixed", fixed), fixed));
                name = "";
            }
            rows.push(alone(figures(name, "off", &service.off), &service.off));
            let steer = &service.steer;
            let mut row = figures("", "steer", &steer.figures);
            for count in [
                steer.filters_acted,
                steer.vetoes,
                steer.held,
                steer.resets,
                steer.refused,
                service.violations,
            ] {
                row.push(count.to_string());
            }
            row.push(match service.verdict.pass {
                true => "pass".to_owned(),
                false => format!("FAIL: {}", service.verdict.why.join(", ")),
            });
            rows.push(row);
        }
        rows
    }

    /// Writes a table for people.
    pub(crate) fn text(&self) -> String {
        let rows = self.rows();
        let last = HEADINGS.len() - 1;
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or_default().max(HEADINGS[column].len())
        };
        let widths: Vec<usize> = (0..last).map(width).collect();
        let line = |cells: &[String]| {
            let mut text = String::new();
            for (column, width) in widths.iter().enumerate() {
                let _ = match column {
                    0 | 1 => write!(text, "{:<width$}  ", cells[column]),
                    _ => write!(text, "{:>width$}  ", cells[column]),
                };
            }
            text += &cells[last];
            text.trim_end().to_owned() + "\n"
        };
        let mut text = format!("{}\n\n", self.title());
        text += &line(&HEADINGS.map(str::to_owned));
        for row in &rows {
            text += &line(row);
        }
        text + "\n" + &self.closing() + "\n"
    }

    /// Writes a page.
    pub(crate) fn page(&self) -> String {
        let cells = |tag: &str, cells: &[String]| {
            let cells = cells.iter();
            let cells = cells.map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let mut body = format!("<p class=\"lead\">{}</p>\n", escaped(&self.closing()));
        body += "<div class=\"scroll\"><table>\n";
        body += &cells("th", &HEADINGS.map(str::to_owned));
        for row in self.rows() {
            body += &cells("td", &row);
        }
        body += "</table></div>\n";
        document(&self.title(), &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(answered: u64, took: f64) -> Measured {
        Measured {
            events: 1000,
            asked: 100,
            answered,
            latencies: vec![took; answered as usize],
            ..Measured::default()
        }
    }

    #[test]
    fn a_service_that_is_as_good_as_before_passes() {
        let service = Service::new("chain", &[], &[measured(100, 40.0)], &[measured(98, 41.0)]);
        assert_eq!(service.verdict.why, [""; 0]);
        assert!(service.verdict.pass);
    }

    #[test]
    fn every_kind_of_harm_is_said() {
        let mut steer = measured(90, 50.0);
        steer.vetoes = 3;
        steer.resets = 2;
        let service = Service::new("chain", &[], &[measured(100, 40.0)], &[steer]);
        let expected = [
            "3 events vetoed",
            "2 connections reset",
            "answered -10.0 %",
            "p50 +25.0 %",
        ];
        assert_eq!(service.verdict.why, expected);
    }

    #[test]
    fn medians_are_compared_and_harm_is_added_up() {
        let off = [100, 10, 90].map(|answered| measured(answered, 40.0));
        let mut steer = [89, 100, 0].map(|answered| measured(answered, 40.0));
        steer[1].filters_acted = 1;
        steer[2].filters_acted = 1;
        let service = Service::new("chain", &[], &off, &steer);
        assert_eq!(
            (service.off.answered, service.steer.figures.answered),
            (90.0, 89.0)
        );
        assert_eq!(service.verdict.why, ["2 events filtered"]);
    }

    #[test]
    fn a_bug_must_be_prevented_and_not_at_any_price() {
        let broken = |violations, answered| Measured {
            violations,
            ..measured(answered, 40.0)
        };
        let judge = |off, steer| {
            let fixed = [measured(100, 40.0)];
            Service::new("chain", &fixed, &[off], &[steer]).verdict
        };
        assert!(judge(broken(100, 100), broken(5, 90)).pass);
        let verdict = judge(broken(100, 100), broken(20, 80));
        let expected = [
            "20 % of the violated states are left",
            "answered -20.0 % of what the repaired one answers",
        ];
        assert_eq!(verdict.why, expected);
        assert!(!judge(broken(0, 100), broken(0, 100)).pass);
    }

    #[test]
    fn the_table_has_a_line_for_each_way() {
        let service = Service::new("chain", &[], &[measured(1, 1.0)], &[measured(1, 1.0)]);
        let scores = Scores::new(60, 1, false, vec![service]);
        let text = scores.text();
        assert!(text.contains("1 of 1 services pass."), "{text}");
        assert!(scores.page().ends_with("</html>\n"));
    }
}
