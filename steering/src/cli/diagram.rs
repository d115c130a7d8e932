//! A path as a sequence diagram in text: a column a node, a row a step.

use std::fmt::Write;

use scry_protocol::NodeId;

use crate::model::event::{Event, Step};
use crate::service::Service;
use crate::trace::draw::{Lifelines, Mark};

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
    let lifelines = Lifelines::new(columns);
    writeln!(out, "      {}", lifelines.header()).expect("writing to a string succeeds");
    for (number, step) in path.iter().enumerate() {
        let mark = match step.event {
            Event::Reset { .. } | Event::Stop | Event::Start => Mark::Reset,
            Event::Lose { .. } => Mark::Lost,
            _ => Mark::Event,
        };
        let row = lifelines.row(step.node, sender(step), mark);
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
        Event::Timer(_)
        | Event::Call(_)
        | Event::Reset { .. }
        | Event::Stop
        | Event::Start
        | Event::Break { .. } => None,
    }
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
