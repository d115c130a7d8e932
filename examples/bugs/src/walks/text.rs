//! The rows for people: two tables.

use scry::cli::text::grouped;
use scry::explore::{STEPS_SHOWN, Walked};

use crate::text::aligned;
use crate::walks::critical::Errors;
use crate::walks::{ErrorRow, PROBES, StepsRow};

/// Which of [`STEPS_SHOWN`] have a column.
const COLUMNS: [u64; 7] = [10, 50, 100, 500, 1_000, 10_000, 100_000];

/// Writes both tables.
pub fn report(errors: &[ErrorRow], steps: &[StepsRow]) -> String {
    let mut out = format!(
        "How many steps too early MaceMC's search for the critical transition answers (Alg. 3), where a state counts as dead after k walks\n\
         that fail. MaceMC §4.4: at k = 20 up to 2 steps at times, at k = 60 never. k = {}:\n\n",
        PROBES.map(|probes| probes.to_string()).join(", ")
    );
    out.push_str(&error_table(errors));
    out.push_str(
        "\nWithin how many steps walks from the initial state of the repaired services come true, in percent (MaceMC, figure 2: after 50\n\
         steps MaceTransport 60 %, RandTree and Chord below 1 %, Pastry 0; all within 10 000), and how many steps they take on average,\n\
         with calls, messages and timers weighted 8 : 4 : 2 and with each step as likely as another:\n\n",
    );
    out.push_str(&steps_table(steps));
    out
}

fn error_table(rows: &[ErrorRow]) -> String {
    let head = ["bug", "scenario", "states", "dead", "failed"];
    let ks = PROBES.map(|probes| format!("k = {probes}"));
    let head = head.iter().map(|&cell| cell.to_owned()).chain(ks);
    let mut lines = vec![(head.collect::<Vec<_>>(), String::new())];
    for row in rows {
        let mut cells = vec![
            row.case.bug.to_owned(),
            format!("{} {}", row.case.service, row.case.scenario),
            grouped(row.states as u64),
            grouped(row.dead),
            grouped(row.executions as u64),
        ];
        cells.extend(row.errors.iter().map(told));
        lines.push((cells, String::new()));
    }
    aligned(&lines)
}

/// How many answers were off, and how far at most. The whole distribution is in the JSON.
fn told(errors: &Errors) -> String {
    let answers: u64 = errors.early.iter().sum();
    let off: u64 = errors.early.iter().skip(1).sum();
    let farthest = errors.early.iter().rposition(|&count| count > 0);
    let mut parts = Vec::new();
    match (off, farthest) {
        (1.., Some(steps)) => parts.push(format!("{} by 1-{steps}", grouped(off))),
        _ if answers > 0 => parts.push("exact".to_owned()),
        _ => {}
    }
    if errors.late > 0 {
        parts.push(format!("{} TOO LATE", errors.late));
    }
    if errors.undecided > 0 {
        parts.push(format!("{} undecided", errors.undecided));
    }
    parts.join(", ")
}

fn steps_table(rows: &[StepsRow]) -> String {
    let mut head: Vec<String> = ["service", "scenario", "nodes", "walks"]
        .map(str::to_owned)
        .to_vec();
    head.extend(COLUMNS.map(|steps| format!("≤ {}", grouped(steps))));
    head.extend(["steps", "evenly", "ratio"].map(str::to_owned));
    let mut lines = vec![(head, String::new())];
    for row in rows {
        let mut cells = vec![
            row.case.service.to_owned(),
            row.case.scenario.to_owned(),
            row.nodes.to_string(),
            grouped(row.weighted.walks),
        ];
        cells.extend(COLUMNS.map(|steps| format!("{:.1}", percent(&row.weighted, steps))));
        let (weighted, even) = row.means();
        cells.extend([
            format!("{weighted:.1}"),
            format!("{even:.1}"),
            format!("{:.2}", even / weighted),
        ]);
        lines.push((cells, String::new()));
    }
    aligned(&lines)
}

/// How many of a hundred walks came true within so many steps.
fn percent(walked: &Walked, steps: u64) -> f64 {
    let at = STEPS_SHOWN.iter().position(|&shown| shown == steps);
    let within = at.map_or(0, |at| walked.within[at]);
    100.0 * within as f64 / walked.walks.max(1) as f64
}
