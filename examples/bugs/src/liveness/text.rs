//! The rows for people: a table, and each path with what would have come true instead.

use std::fmt::Write;

use scry::cli::text::grouped;

use crate::liveness::{LivenessRow, Verdict};
use crate::text::{aligned, ms};

/// Writes everything: the table, the verdict and the paths.
pub fn report(rows: &[LivenessRow]) -> String {
    let mut out = String::from(
        "Exhaustive search from the start state, `start` steps in, which classifies every state: alive, or dead because the property\n\
         never holds again; the strategy `walk` from there, to its first find; and the service without bugs, classified likewise:\n\n",
    );
    out.push_str(&table(rows));
    out.push('\n');
    out.push_str(&verdict(rows));
    for row in rows {
        out.push('\n');
        out.push_str(&story(row));
    }
    out
}

fn table(rows: &[LivenessRow]) -> String {
    let head = [
        [
            "",
            "",
            "",
            "",
            "critical",
            "exhaustive",
            "",
            "walk",
            "",
            "",
            "fixed",
            "",
        ],
        [
            "bug", "service", "start", "verdict", "step", "states", "ms", "found", "walks", "ms",
            "dead", "states",
        ],
    ];
    let mut lines: Vec<(Vec<String>, String)> = head
        .into_iter()
        .zip(["", "of   critical event"])
        .map(|(cells, tail)| (cells.map(str::to_owned).to_vec(), tail.to_owned()))
        .collect();
    for row in rows {
        let told = row.told.as_ref();
        let cells = vec![
            row.case.bug.to_owned(),
            row.case.service.to_owned(),
            row.start_steps.to_string(),
            told.map_or("none", |told| told.verdict.as_str()).to_owned(),
            told.map_or_else(String::new, |told| told.critical_step.to_string()),
            grouped(row.states),
            ms(row.elapsed),
            if row.walks_found { "yes" } else { "no" }.to_owned(),
            grouped(row.walks),
            ms(row.walks_elapsed),
            row.fixed.dead.to_string(),
            grouped(row.fixed.states),
        ];
        let bound = if row.fixed.complete { "all" } else { "more" };
        let event = told.map_or("", |told| told.critical_event.as_str());
        lines.push((cells, format!("{bound:<4} {event}")));
    }
    aligned(&lines)
}

fn verdict(rows: &[LivenessRow]) -> String {
    let names = |fits: &dyn Fn(&LivenessRow) -> bool| {
        let fitting = rows.iter().filter(|row| fits(row));
        fitting
            .map(|row| row.case.bug)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let proved = |row: &LivenessRow| {
        let verdict = row.told.as_ref().map(|told| told.verdict);
        verdict == Some(Verdict::Dead)
    };
    let mut out = String::new();
    for (what, whom) in [
        ("NOT FOUND", names(&|row| row.told.is_none())),
        (
            "Not proved",
            names(&|row| row.told.is_some() && !proved(row)),
        ),
        (
            "NOTHING LIVE beside it",
            names(&|row| row.told.as_ref().is_some_and(|told| told.live.is_none())),
        ),
        ("DEAD although fixed", names(&|row| row.fixed.dead > 0)),
        (
            "VIOLATED although fixed",
            names(&|row| row.fixed.violations > 0),
        ),
    ] {
        if !whom.is_empty() {
            writeln!(out, "{what}: {whom}.").expect("writing to a string succeeds");
        }
    }
    if rows.iter().all(proved) {
        out.push_str("Every bug is found, and it is proved that the property never holds again.\n");
    }
    if rows.iter().all(|row| row.fixed.dead == 0) {
        out.push_str("With the bugs fixed, no state is dead within the bounds.\n");
    }
    out
}

/// One bug's path from the start state.
fn story(row: &LivenessRow) -> String {
    let case = row.case;
    let mut out = format!(
        "{} {} ({}): {}\n",
        case.service, case.bug, case.source, case.property
    );
    let Some(told) = &row.told else { return out };
    for line in told.explanation.iter().flat_map(|text| text.lines()) {
        writeln!(out, "  {line}").expect("writing to a string succeeds");
    }
    out.push_str(&told.diagram);
    if let Some(live) = &told.live {
        out.push_str("  it comes true if this happens instead of the last steps:\n");
        out.push_str(live);
    }
    out
}
