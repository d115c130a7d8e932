//! A trace as a drawing for a terminal: who is told what, and what changed at each step.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use scry_protocol::NodeId;
use scry_protocol::text::escaped;
use serde_json::Value;

use super::difference::{Change, changes};
use super::draw::{Lifelines, Mark, choices};
use super::{Kind, Trace, TraceStep};

/// How much of one value is shown.
const VALUE_LETTERS_MAX: usize = 60;
/// How many changes of one step are shown.
const CHANGES_MAX: usize = 8;
/// How many fields of one start state are shown.
const FIELDS_MAX: usize = 24;

/// Draws a trace: what goes wrong, where it starts, the steps, and what would prevent it.
pub fn render(trace: &Trace) -> String {
    let mut out = String::new();
    put(&mut out, &format!("{}\n", escaped(&trace.property)));
    if !trace.explanation.is_empty() {
        put(&mut out, &format!("  {}\n", escaped(&trace.explanation)));
    }
    let count = match trace.steps.len() {
        0 => "the snapshot shows it already".to_owned(),
        1 => "after 1 step".to_owned(),
        count => format!("after {count} steps"),
    };
    let who = match &trace.found_by {
        Some(found_by) => format!("found by {}", escaped(found_by)),
        None => format!("predicted by {}", trace.by),
    };
    put(&mut out, &format!("  {who}, {count}\n"));
    start(&mut out, trace);
    steps(&mut out, trace);
    if !trace.needs.is_empty() {
        put(&mut out, "\nWhat it takes\n");
    }
    for need in &trace.needs {
        put(&mut out, &format!("  {}\n", escaped(need)));
    }
    if trace.found_by.is_some() {
        return out;
    }
    put(&mut out, "\nWhat would prevent it\n");
    if trace.remedies.is_empty() {
        put(&mut out, "  nothing safe was found\n");
    }
    for remedy in &trace.remedies {
        put(&mut out, &format!("  {}\n", escaped(remedy)));
    }
    out
}

/// The nodes that take part: where something happens, or from where something comes. Without steps, all.
pub(super) fn taking_part(trace: &Trace) -> Vec<NodeId> {
    let steps = trace.steps.iter();
    let part: BTreeSet<NodeId> = steps
        .flat_map(|step| [Some(step.node), step.from])
        .flatten()
        .collect();
    match part.is_empty() {
        true => trace.start.keys().copied().collect(),
        false => part.into_iter().collect(),
    }
}

fn start(out: &mut String, trace: &Trace) {
    let nodes = taking_part(trace);
    put(out, "\nStart\n");
    for node in &nodes {
        match trace.start.get(node) {
            Some(Value::Object(fields)) if !fields.is_empty() => {
                let name_width = fields.keys().map(|name| name.chars().count()).max();
                let name_width = name_width.unwrap_or(0).min(24);
                for (number, (name, value)) in fields.iter().take(FIELDS_MAX).enumerate() {
                    let shown = if number == 0 {
                        node.to_string()
                    } else {
                        String::new()
                    };
                    let (name, value) = (escaped(name), short(value));
                    put(out, &format!("  {shown:<5} {name:<name_width$}  {value}\n"));
                }
                if let Some(more @ 1..) = fields.len().checked_sub(FIELDS_MAX) {
                    put(out, &format!("        … and {more} more\n"));
                }
            }
            Some(value) => {
                let (shown, value) = (node.to_string(), short(value));
                put(out, &format!("  {shown:<5} {value}\n"));
            }
            None => put(out, &format!("  {node:<5} not known\n")),
        }
    }
    let others = trace.start.keys().filter(|node| !nodes.contains(node));
    let others: Vec<String> = others.map(NodeId::to_string).collect();
    if !others.is_empty() {
        let take = if others.len() == 1 { "takes" } else { "take" };
        put(out, &format!("  {} {take} no part\n", others.join(", ")));
    }
}

fn steps(out: &mut String, trace: &Trace) {
    if trace.steps.is_empty() {
        return;
    }
    let lifelines = Lifelines::new(taking_part(trace));
    put(out, &format!("\n      {}\n", lifelines.header()));
    let mut states: BTreeMap<NodeId, &Value> = trace
        .start
        .iter()
        .map(|(&node, state)| (node, state))
        .collect();
    for (number, step) in trace.steps.iter().enumerate() {
        let row = lifelines.row(step.node, step.from, mark(step.kind));
        let label = escaped(&step.label);
        put(
            out,
            &format!(
                "{:>4}  {row}  {}{}: {label}{}\n",
                number + 1,
                time(trace, step),
                step.node,
                picks(step)
            ),
        );
        let blank = lifelines.blank();
        let mut beside = |line: &str| put(out, &format!("      {blank}      {line}\n"));
        let before = states
            .insert(step.node, &step.state)
            .unwrap_or(&Value::Null);
        let found = changes(before, &step.state);
        for change in found.iter().take(CHANGES_MAX) {
            beside(&shown(change));
        }
        if let Some(more @ 1..) = found.len().checked_sub(CHANGES_MAX) {
            beside(&format!("… and {more} more"));
        }
        for send in &step.sends {
            beside(&format!("sends {} to {}", escaped(&send.label), send.to));
        }
    }
}

fn mark(kind: Kind) -> Mark {
    match kind {
        Kind::Reset => Mark::Reset,
        Kind::Fault => Mark::Lost,
        Kind::Message | Kind::Disconnect | Kind::Timer | Kind::Call => Mark::Event,
    }
}

fn picks(step: &TraceStep) -> String {
    let decided = |pick: usize| {
        let mut decided = step.decided.iter();
        decided
            .find(|(number, _)| *number == pick)
            .map(|(_, words)| words.as_str())
    };
    escaped(&choices(&step.picks, decided))
}

/// The time of a step, in a column as wide as the last one takes; nothing if no times are known.
fn time(trace: &Trace, step: &TraceStep) -> String {
    let Some(last) = trace.steps.iter().filter_map(|step| step.time_ms).max() else {
        return String::new();
    };
    let width = last.to_string().len();
    match step.time_ms {
        Some(ms) => format!("{ms:>width$} ms  "),
        None => " ".repeat(width + " ms  ".len()),
    }
}

fn shown(change: &Change) -> String {
    let place = match change.place.as_str() {
        "" => String::new(),
        place => format!("{}: ", escaped(place)),
    };
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => format!("{place}{} → {}", short(before), short(after)),
        (Some(before), None) => format!("{place}{} is gone", short(before)),
        (None, Some(after)) => format!("{place}{} is new", short(after)),
        (None, None) => place,
    }
}

/// A value on one line, cut where it is long.
fn short(value: &Value) -> String {
    let whole = escaped(&value.to_string());
    match whole.char_indices().nth(VALUE_LETTERS_MAX) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

fn put(out: &mut String, line: &str) {
    // Lifelines end in blanks where nothing stands beside them.
    let (line, end) = match line.strip_suffix('\n') {
        Some(line) => (line.trim_end_matches(' '), "\n"),
        None => (line, ""),
    };
    write!(out, "{line}{end}").expect("writing to a string succeeds");
}
