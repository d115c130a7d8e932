//! A trace as a log with vector clocks, which ShiViz draws as a space-time diagram.
//!
//! The first line tells ShiViz how to read the others, the second, which is empty, that there is one execution.

use std::collections::BTreeMap;

use scry_protocol::NodeId;
use scry_protocol::text::escaped;

use super::Trace;
use super::text::taking_part;

/// How ShiViz finds host, event and clock in a line.
const PATTERN: &str = r#"(?<host>\S+) "(?<event>.*)" (?<clock>\{.*\})"#;

type Clock = BTreeMap<NodeId, u64>;

/// Writes the log of a trace.
pub fn render(trace: &Trace) -> String {
    let mut out = format!("{PATTERN}\n\n");
    let mut clocks: BTreeMap<NodeId, Clock> = BTreeMap::new();
    for node in taking_part(trace) {
        let clock = clocks.entry(node).or_default();
        tick(clock, node);
        line(&mut out, node, "start", clock);
    }
    let mut after: Vec<Clock> = Vec::with_capacity(trace.steps.len());
    for step in &trace.steps {
        let clock = clocks.entry(step.node).or_default();
        // What was on its way from the start has no sender among the steps.
        if let Some(sent) = step.sent_by.and_then(|cause| after.get(cause)) {
            for (&node, &count) in sent {
                let known = clock.entry(node).or_default();
                *known = count.max(*known);
            }
        }
        tick(clock, step.node);
        line(&mut out, step.node, &step.label, clock);
        after.push(clock.clone());
    }
    out
}

fn tick(clock: &mut Clock, node: NodeId) {
    *clock.entry(node).or_default() += 1;
}

fn line(out: &mut String, node: NodeId, event: &str, clock: &Clock) {
    let clock: Vec<String> = clock
        .iter()
        .map(|(node, count)| format!("\"{node}\":{count}"))
        .collect();
    out.push_str(&format!(
        "{node} \"{}\" {{{}}}\n",
        escaped(event),
        clock.join(",")
    ));
}
