//! A trace as a Mermaid sequence diagram, for documents and issues.

use scry_protocol::text::escaped;

use super::text::taking_part;
use super::{Kind, Trace};

/// Draws a trace.
pub fn render(trace: &Trace) -> String {
    let mut out = String::from("sequenceDiagram\n");
    let nodes = taking_part(trace);
    for node in &nodes {
        out.push_str(&format!("    participant {node}\n"));
    }
    for step in &trace.steps {
        let (node, label) = (step.node, text(&step.label));
        let line = match (step.kind, step.from.filter(|&from| from != node)) {
            (Kind::Message, Some(from)) => format!("{from}->>{node}: {label}"),
            (Kind::Disconnect, Some(from)) => format!("{from}--x{node}: {label}"),
            (Kind::Fault, Some(from)) => format!("{from}-x{node}: {label}"),
            _ => format!("Note over {node}: {label}"),
        };
        out.push_str(&format!("    {line}\n"));
    }
    let said = match trace.explanation.as_str() {
        "" => text(&trace.property),
        explanation => format!("{}<br/>{}", text(&trace.property), text(explanation)),
    };
    if let (Some(first), Some(last)) = (nodes.first(), nodes.last()) {
        let over = match first == last {
            true => first.to_string(),
            false => format!("{first},{last}"),
        };
        out.push_str(&format!("    Note over {over}: {said}\n"));
    }
    out
}

/// Semicolons end a line in Mermaid and number signs begin an entity; markup would be taken for markup.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in escaped(text).chars() {
        match letter {
            '#' | ';' | '<' | '>' => out.push_str(&format!("#{};", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out
}
