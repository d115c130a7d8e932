//! A path as a sequence diagram in text: a column a node, a row a step.

use std::fmt::Write;

use scry_protocol::NodeId;

use crate::trace::draw::{Lifelines, Mark, choices};
use scry_engine::model::event::{Event, Step};
use scry_engine::service::Service;
use scry_engine::timing::Layout;

/// Draws the steps of a path among the nodes that take part in it.
pub fn sequence<S: Service>(nodes: &[NodeId], path: &[Step<S>], layout: &Layout) -> String {
    let part = |node: NodeId| {
        path.iter()
            .any(|step| step.node == node || sender(step) == Some(node))
    };
    let columns: Vec<NodeId> = nodes.iter().copied().filter(|&node| part(node)).collect();
    let mut out = String::new();
    if path.is_empty() {
        return out;
    }
    let lifelines = Lifelines::new(columns);
    writeln!(out, "      {}", lifelines.header()).expect("writing to a string succeeds");
    for (number, step) in path.iter().enumerate() {
        let mark = match step.event {
            Event::Reset { .. } | Event::Stop | Event::Start => Mark::Reset,
            Event::Lose { .. } => Mark::Lost,
            _ => Mark::Event,
        };
        let row = lifelines.row(step.node, sender(step), mark);
        let time = time(layout, number);
        let label = label(step, number, layout);
        writeln!(out, "{:>4}  {row}  {time}{label}", number + 1)
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
        Event::Timer(_)
        | Event::Call(_)
        | Event::Reset { .. }
        | Event::Stop
        | Event::Start
        | Event::Break { .. } => None,
    }
}

/// The time of a step, in a column as wide as the last one takes; nothing if no time passes.
fn time(layout: &Layout, step: usize) -> String {
    if !layout.takes_time() {
        return String::new();
    }
    let last = layout.times_ms.iter().flatten().max().copied();
    let width = last.unwrap_or(0).to_string().len();
    match layout.times_ms.get(step).copied().flatten() {
        Some(ms) => format!("{ms:>width$} ms  "),
        None => " ".repeat(width + " ms  ".len()),
    }
}

fn label<S: Service>(step: &Step<S>, number: usize, layout: &Layout) -> String {
    let decided = choices(&step.tosses.picks, |pick| layout.decision(number, pick));
    format!("{}: {}{decided}", step.node, step.event)
}
