//! The rows for people: two tables, and each path as a small sequence diagram.

use std::fmt::Write;
use std::time::Duration;

use scry::cli::text::grouped;

use crate::hunt::REACH_STATES;
use crate::row::{Found, Levels, Reach, Row, milliseconds};

/// How long consequence prediction may take to be of use.
const PROMPT: Duration = Duration::from_millis(200);

/// Writes everything: the tables, the verdict and the paths.
pub fn report(rows: &[Row]) -> String {
    let mut out = String::new();
    out.push_str(
        "Consequence prediction and breadth-first search from the start state, `start` steps in, to the first violation;\n\
         breadth-first search from the initial state for a hundred times as long as consequence prediction took, 1 s at\n\
         the least; and the service without bugs, explored by breadth-first search to a bound:\n\n",
    );
    out.push_str(&searches(rows));
    out.push_str(&format!(
        "\nBoth from the start state to the end of the bug's depth, and how deep each gets with {} states:\n\n",
        grouped(REACH_STATES)
    ));
    out.push_str(&levels(rows));
    out.push('\n');
    out.push_str(&verdict(rows));
    for row in rows {
        out.push('\n');
        out.push_str(&story(row));
    }
    out
}

fn searches(rows: &[Row]) -> String {
    let head = [
        [
            "",
            "",
            "",
            "consequence",
            "",
            "",
            "breadth",
            "",
            "initial",
            "",
            "",
            "",
            "fixed",
            "",
        ],
        [
            "bug", "service", "start", "depth", "states", "ms", "states", "ms", "found", "depth",
            "states", "ms", "wrong", "states",
        ],
    ];
    let mut lines: Vec<(Vec<String>, String)> = head
        .into_iter()
        .zip(["", "to          property"])
        .map(|(cells, tail)| (cells.map(str::to_owned).to_vec(), tail.to_owned()))
        .collect();
    lines.extend(rows.iter().map(searched));
    aligned(&lines)
}

/// What was found for one bug, as the cells of its line and what stands behind them.
fn searched(row: &Row) -> (Vec<String>, String) {
    let Row {
        case,
        consequence,
        start_bfs,
        initial_bfs,
        fixed,
        ..
    } = row;
    let mut cells = vec![
        case.bug.to_owned(),
        case.service.to_owned(),
        row.start_steps.to_string(),
        reached(consequence),
        grouped(consequence.states),
        ms(consequence.elapsed),
        grouped(start_bfs.states),
        ms(start_bfs.elapsed),
    ];
    cells.extend(match initial_bfs {
        Some(found) => [
            if found.told.is_some() { "yes" } else { "no" }.to_owned(),
            found.depth.to_string(),
            grouped(found.states),
            ms(found.elapsed),
        ],
        None => [const { String::new() }; 4],
    });
    cells.push(fixed.violations.len().to_string());
    cells.push(grouped(fixed.states));
    let bound = if fixed.complete {
        "the end"
    } else {
        &fixed.bound
    };
    (cells, format!("{bound:<11} {}", case.property))
}

/// The depth of what was found, or a word for nothing.
fn reached(found: &Found) -> String {
    match found.told {
        Some(_) => found.depth.to_string(),
        None => "none".to_owned(),
    }
}

fn levels(rows: &[Row]) -> String {
    let head = [
        [
            "",
            "",
            "",
            "consequence",
            "",
            "breadth",
            "",
            "saved",
            "",
            "deepest",
            "",
        ],
        [
            "bug",
            "service",
            "depth",
            "states",
            "ms",
            "states",
            "ms",
            "states",
            "time",
            "consequence",
            "breadth",
        ],
    ];
    let mut lines: Vec<(Vec<String>, String)> = head
        .into_iter()
        .map(|cells| (cells.map(str::to_owned).to_vec(), String::new()))
        .collect();
    for row in rows {
        let Some(levels) = &row.levels else { continue };
        let Levels {
            depth,
            consequence,
            exhaustive,
        } = levels;
        let cells = vec![
            row.case.bug.to_owned(),
            row.case.service.to_owned(),
            depth.to_string(),
            grouped(consequence.states),
            ms(consequence.elapsed),
            grouped(exhaustive.states),
            ms(exhaustive.elapsed),
            format!("{:.1} ×", levels.states_ratio()),
            format!("{:.1} ×", levels.time_ratio()),
            reach(&row.consequence_reach),
            reach(&row.exhaustive_reach),
        ];
        lines.push((cells, String::new()));
    }
    aligned(&lines)
}

fn reach(reach: &Reach) -> String {
    match reach.exhausted {
        true => format!("{}, all {}", reach.depth, grouped(reach.states)),
        false => reach.depth.to_string(),
    }
}

fn ms(elapsed: Duration) -> String {
    let ms = milliseconds(elapsed);
    match ms < 100.0 {
        true => format!("{ms:.2}"),
        false => grouped(ms.round() as u64),
    }
}

/// Aligns the cells: the first two to the left, numbers to the right, and after them what needs no alignment.
fn aligned(lines: &[(Vec<String>, String)]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|(cells, _)| cells.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut out = String::new();
    for (cells, tail) in lines {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = width(column);
            let written = match column {
                0 | 1 => write!(line, "{cell:<width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
            written.expect("writing to a string succeeds");
        }
        line.push_str(tail);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn verdict(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let names = |fits: &dyn Fn(&Row) -> bool| {
        let names: Vec<_> = rows
            .iter()
            .filter(|row| fits(row))
            .map(|row| row.case.bug)
            .collect();
        names.join(", ")
    };
    let missed = names(&|row| row.consequence.told.is_none());
    match missed.is_empty() {
        true => line("Consequence prediction finds every bug.".to_owned()),
        false => line(format!("NOT FOUND by consequence prediction: {missed}.")),
    }
    let late = names(&|row| row.consequence.elapsed > PROMPT);
    let slowest = rows
        .iter()
        .map(|row| row.consequence.elapsed)
        .max()
        .unwrap_or_default();
    match late.is_empty() {
        true => line(format!(
            "Each within {} ms; the slowest took {} ms.",
            PROMPT.as_millis(),
            ms(slowest)
        )),
        false => line(format!("LATER than {} ms: {late}.", PROMPT.as_millis())),
    }
    let wrong = names(&|row| !row.fixed.violations.is_empty());
    match wrong.is_empty() {
        true => line("With the bugs fixed, nothing is violated within the bounds.".to_owned()),
        false => line(format!("VIOLATED although fixed: {wrong}.")),
    }
    out
}

/// One bug's path from the start state.
fn story(row: &Row) -> String {
    let case = row.case;
    let mut out = format!(
        "{} {} ({}): {}\n",
        case.service, case.bug, case.source, case.property
    );
    if let Some(told) = &row.consequence.told {
        if let Some(explanation) = &told.explanation {
            writeln!(out, "  {explanation}").expect("writing to a string succeeds");
        }
        out.push_str(&told.diagram);
    }
    for violation in &row.fixed.violations {
        writeln!(out, "VIOLATED although fixed: {violation}")
            .expect("writing to a string succeeds");
    }
    out
}
