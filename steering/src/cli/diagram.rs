//! A path as a sequence diagram in text: a column a node, a row a step.

use std::fmt::Write;

use scry_protocol::NodeId;

use crate::model::event::{Event, Step};
use crate::service::Service;

const COLUMN: usize = 7;

/// Draws the steps of a path among the nodes that take part in it.
pub fn sequence<S: Service>(nodes: &[NodeId], path: &[Step<S>]) -> String {
    let part = |node: NodeId| {
        path.iter()
            .any(|step| step.node == node || sender(step) == Some(node))
    };
    let columns: Vec<NodeId> = nodes.iter().copied().filter(|&node| part(node)).collect();
    let mut out = String::new();
    if path.is_empty() {
        return out;
    }
    out.push_str("      ");
    for node in &columns {
        write!(out, "{:<COLUMN$}", node.to_string()).expect("writing to a string succeeds");
    }
    while out.ends_with(' ') {
        out.pop();
    }
    out.push('\n');
    for (number, step) in path.iter().enumerate() {
        let row = row(&columns, step);
        writeln!(out, "{:>4}  {row}  {}", number + 1, label(step))
            .expect("writing to a string succeeds");
    }
    out
}

fn sender<S: Service>(step: &Step<S>) -> Option<NodeId> {
    match &step.event {
        Event::Deliver { from, .. }
        | Event::Receive { from, .. }
        | Event::Refuse { from, .. }
        | Event::Hangup { from, .. }
        | Event::Disconnect { from, .. }
        | Event::Lose { from, .. }
        | Event::Duplicate { from, .. } => Some(*from),
        Event::Timer(_) | Event::Call(_) | Event::Reset { .. } | Event::Break { .. } => None,
    }
}

fn row<S: Service>(columns: &[NodeId], step: &Step<S>) -> String {
    let mut cells: Vec<char> = Vec::new();
    for _ in columns {
        cells.push('│');
        cells.extend(std::iter::repeat_n(' ', COLUMN - 1));
    }
    let column = |node: NodeId| {
        columns
            .iter()
            .position(|&other| other == node)
            .map(|at| at * COLUMN)
    };
    let Some(to) = column(step.node) else {
        return cells.into_iter().collect();
    };
    match sender(step)
        .filter(|&from| from != step.node)
        .and_then(column)
    {
        Some(from) => {
            let (low, high) = (from.min(to), from.max(to));
            cells[low + 1..high].fill('─');
            cells[from] = if from < to { '├' } else { '┤' };
            let lost = matches!(step.event, Event::Lose { .. });
            cells[if from < to { to - 1 } else { to + 1 }] = match (lost, from < to) {
                (true, _) => '✗',
                (false, true) => '►',
                (false, false) => '◄',
            };
        }
        None => {
            cells[to] = if matches!(step.event, Event::Reset { .. }) {
                '✖'
            } else {
                '●'
            }
        }
    }
    cells.into_iter().collect()
}

fn label<S: Service>(step: &Step<S>) -> String {
    let picks: Vec<String> = step
        .tosses
        .picks
        .iter()
        .map(|(of, picked)| format!("{picked} of {of}"))
        .collect();
    let picks = if picks.is_empty() {
        String::new()
    } else {
        format!("  (picks {})", picks.join(", "))
    };
    format!("{}: {}{picks}", step.node, step.event)
}
