//! What came of a run, in the numbers of CrystalBall §5.4.1 and §5.5 (A-102, G-25…G-35), for people and for machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use scry::NodeId;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Costs, Steering};
use crate::observer::{Mark, Observer};
use crate::referee::Count;
use crate::statistics::{Likeness, Summary, compare};

/// What came of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunResult {
    /// What it is called.
    pub(crate) name: String,
    /// How much was done about violations.
    pub(crate) steering: Steering,
    /// What chance began with.
    pub(crate) seed: u64,
    /// How long it went on.
    pub(crate) seconds: f64,
    /// How many nodes there were.
    pub(crate) nodes: usize,
    /// What the referee counted.
    #[serde(flatten)]
    pub(crate) count: Count,
    /// How often agents predicted a violation: once for each search or replay that led to it.
    pub(crate) predictions: u64,
    /// How many different violations they predicted.
    pub(crate) distinct_predictions: usize,
    /// Predictions for which nothing safe could be done.
    pub(crate) unhelpful: u64,
    /// Filters installed.
    pub(crate) filters_installed: u64,
    /// The share of actions that filters changed.
    pub(crate) changed_share: f64,
    /// How long joins took, in milliseconds.
    pub(crate) joins: Summary,
    /// Each of them.
    pub(crate) join_ms: Vec<f64>,
    /// Searches made.
    pub(crate) searches: u64,
    /// How long one took on average, in milliseconds.
    pub(crate) search_ms: f64,
    /// How many bits a second each agent sent to others, on average.
    pub(crate) checkpoint_bits_per_second: f64,
    /// What the processes used.
    pub(crate) costs: Costs,
    /// All that agents counted, added up.
    pub(crate) agents: BTreeMap<String, u64>,
    /// What happened when.
    pub(crate) marks: Vec<Mark>,
    /// Where the logs are.
    pub(crate) directory: PathBuf,
    /// The first violation's trace.
    pub(crate) first_trace: Option<PathBuf>,
}

/// Several runs with the same seed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    /// What was compared.
    pub(crate) title: String,
    /// The runs.
    pub(crate) runs: Vec<RunResult>,
    /// What to compare it with: the paper's own numbers, say.
    pub(crate) note: String,
    /// Whether joins took as long in the last run as in the first.
    pub(crate) join_times: Option<Likeness>,
}

impl RunResult {
    /// Puts together what is known of a run.
    #[expect(
        clippy::too_many_arguments,
        reason = "called once, by the stage that has it all in hand"
    )]
    pub(crate) fn new(
        name: &str,
        (steering, seed, time): (Steering, u64, Duration),
        nodes: usize,
        count: &Count,
        observer: Observer,
        statuses: &BTreeMap<NodeId, Value>,
        costs: Costs,
        directory: PathBuf,
    ) -> Self {
        let agents = added_up(statuses);
        let seconds = time.as_secs_f64();
        let sent_bytes = agents.get("sent_bytes").copied().unwrap_or_default();
        let per_node = sent_bytes as f64 * 8.0 / seconds.max(1e-9) / nodes.max(1) as f64;
        Self {
            name: name.to_owned(),
            steering,
            seed,
            seconds,
            nodes,
            count: count.clone(),
            predictions: observer.predictions,
            distinct_predictions: observer.violations.len(),
            unhelpful: agents.get("unhelpful").copied().unwrap_or_default(),
            filters_installed: observer.filters,
            changed_share: count.filtered as f64 / count.actions.max(1) as f64,
            joins: Summary::of(&observer.join_ms),
            join_ms: observer.join_ms,
            searches: observer.searches,
            search_ms: observer.searched_ms as f64 / observer.searches.max(1) as f64,
            checkpoint_bits_per_second: per_node,
            costs,
            agents,
            marks: observer.marks,
            directory,
            first_trace: observer.first_trace,
        }
    }
}

impl Comparison {
    /// Compares runs: the first is without steering, the last with all of it.
    pub(crate) fn new(title: &str, runs: Vec<RunResult>) -> Self {
        let ends = runs.first().zip(runs.last());
        let join_times = ends.and_then(|(first, last)| compare(&first.join_ms, &last.join_ms));
        Self {
            title: title.to_owned(),
            runs,
            note: String::new(),
            join_times,
        }
    }

    /// Says in a sentence what there is to see.
    pub(crate) fn headline(&self) -> String {
        let Some((first, last)) = self.runs.first().zip(self.runs.last()) else {
            return String::new();
        };
        format!(
            "{} inconsistent states without agents, {} with {}. To that end {} of {} actions ({:.2} %) were changed, and {} vetoed.",
            first.count.inconsistent_states,
            last.count.inconsistent_states,
            last.name,
            last.count.filtered,
            last.count.actions,
            last.changed_share * 100.0,
            last.count.vetoed,
        )
    }

    /// Returns the rows of the table that compares the runs: a name, and a value for each.
    pub(crate) fn rows(&self) -> Vec<(&'static str, Vec<String>)> {
        let row = |name, value: &dyn Fn(&RunResult) -> String| {
            (name, self.runs.iter().map(value).collect())
        };
        let cost = |used: crate::usage::Usage, run: &RunResult| {
            let share = used.cpu_ms as f64 / 10.0 / run.seconds / run.nodes as f64;
            format!(
                "{share:.2} % of a core, {:.1} MB",
                used.peak_kb as f64 / 1024.0
            )
        };
        vec![
            row("inconsistent states", &|run| {
                run.count.inconsistent_states.to_string()
            }),
            row("times a property came to be broken", &|run| {
                run.count.broken.values().sum::<u64>().to_string()
            }),
            row("time inconsistent", &|run| {
                format!("{:.1} s", run.count.inconsistent_ms as f64 / 1000.0)
            }),
            row("predictions", &|run| {
                format!(
                    "{} ({} different)",
                    run.predictions, run.distinct_predictions
                )
            }),
            row("judged unhelpful", &|run| run.unhelpful.to_string()),
            row("filters installed", &|run| {
                run.filters_installed.to_string()
            }),
            row("actions changed by filters", &|run| {
                format!(
                    "{} ({:.2} %)",
                    run.count.filtered,
                    run.changed_share * 100.0
                )
            }),
            row("vetoes of the immediate check", &|run| {
                run.count.vetoed.to_string()
            }),
            row("actions in all", &|run| run.count.actions.to_string()),
            row("joins, median / 90 % / mean", &|run| {
                let joins = run.joins;
                format!(
                    "{:.0} / {:.0} / {:.0} ms ({})",
                    joins.median, joins.p90, joins.mean, joins.count
                )
            }),
            row("searches, mean time", &|run| {
                format!("{}, {:.0} ms", run.searches, run.search_ms)
            }),
            row("checkpoint traffic per node", &|run| {
                format!("{:.1} kbit/s", run.checkpoint_bits_per_second / 1000.0)
            }),
            row("per node: host", &|run| cost(run.costs.hosts, run)),
            row("per node: agent", &|run| cost(run.costs.agents, run)),
            row("per node: checker", &|run| cost(run.costs.checkers, run)),
        ]
    }

    /// Writes the comparison for people.
    pub(crate) fn text(&self) -> String {
        let mut table = vec![vec![String::new()]];
        table[0].extend(self.runs.iter().map(|run| run.name.clone()));
        for (name, values) in self.rows() {
            let mut line = vec![name.to_owned()];
            line.extend(values);
            table.push(line);
        }
        let mut text = aligned(&table);
        if let Some(likeness) = self.join_times {
            text += &format!(
                "\njoin times, first against last run: distance {:.3}, p = {:.3} (Kolmogorov–Smirnov): {}\n",
                likeness.distance,
                likeness.p_value,
                if likeness.p_value < 0.05 {
                    "they differ"
                } else {
                    "no difference can be told"
                }
            );
        }
        text
    }
}

/// Sets a table in columns.
fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = table.iter().filter_map(|line| line.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in table {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"))
            .collect();
        text += cells.join("   ").trim_end();
        text.push('\n');
    }
    text
}

/// Adds up the counts of all agents, wherever in their status they stand.
fn added_up(statuses: &BTreeMap<NodeId, Value>) -> BTreeMap<String, u64> {
    let mut total = BTreeMap::new();
    for status in statuses.values() {
        add(status, &mut total);
    }
    total
}

fn add(value: &Value, total: &mut BTreeMap<String, u64>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| add(item, total)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_u64() {
                    Some(number) => *total.entry(name.clone()).or_default() += number,
                    None => add(value, total),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_of_agents_are_added_up_by_name() {
        let status = json!({ "node": "n1", "counts": { "unhelpful": 2 }, "peers": [{ "sent_bytes": 2 }, { "sent_bytes": 3 }] });
        let statuses = [1, 2].map(|id| (NodeId::new(id), status.clone()));
        let total = added_up(&statuses.into_iter().collect());
        assert_eq!((total["unhelpful"], total["sent_bytes"]), (4, 10));
    }

    #[test]
    fn columns_stand_below_each_other() {
        let table = [["", "off", "on"], ["time", "1 s", "22 s"]];
        let table: Vec<Vec<String>> = table
            .iter()
            .map(|line| line.map(str::to_owned).to_vec())
            .collect();
        assert_eq!(aligned(&table), "       off   on\ntime   1 s   22 s\n");
    }
}
