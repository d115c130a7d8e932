//! What a failed property saw, in words: which nodes, which values, which part of it was false.

use crate::properties::compile::{Frame, NodeFrame, compile};
use crate::properties::syntax::Operator;
use crate::properties::term::{Macro, Term, TermKind, Variable};
use crate::properties::value::Value;

/// How many characters of a value are shown.
const VALUE_CHARS_MAX: usize = 120;
/// How many reasons are given; a disjunction can have many false sides.
const REASONS_MAX: usize = 8;

/// Says why an expression is not true of some nodes.
pub(crate) fn explain(term: &Term, names: &[String], nodes: &[NodeFrame<'_>]) -> String {
    let mut telling = Telling {
        names,
        frame: Frame {
            nodes,
            variables: vec![Value::Unknown; names.len()],
        },
        bound: Vec::new(),
        witnesses: Vec::new(),
        reasons: Vec::new(),
    };
    telling.tell(term, true);
    let mut said = telling.reasons;
    let more = said.len().saturating_sub(REASONS_MAX);
    said.truncate(REASONS_MAX);
    if more > 0 {
        said.push(format!("and {more} more"));
    }
    let reasons = said.join("; ");
    match telling.witnesses.is_empty() {
        true => reasons,
        false => format!("with {}: {reasons}", telling.witnesses.join(", ")),
    }
}

struct Telling<'t> {
    names: &'t [String],
    frame: Frame<'t>,
    /// The variables in scope.
    bound: Vec<Variable>,
    /// The values of the quantified variables that break it.
    witnesses: Vec<String>,
    reasons: Vec<String>,
}

impl Telling<'_> {
    fn value(&mut self, term: &Term) -> Value {
        compile(term)(&mut self.frame)
    }

    fn text(&self, term: &Term) -> String {
        term.written(&|variable| self.names[variable as usize].clone())
    }

    fn show(&self, value: &Value) -> String {
        let text = match value {
            Value::Node(position) => self.node(*position),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(|item| self.show(item)).collect();
                format!("[{}]", items.join(", "))
            }
            value => value.to_string(),
        };
        match text.char_indices().nth(VALUE_CHARS_MAX) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }

    fn node(&self, position: u32) -> String {
        self.frame
            .nodes
            .get(position as usize)
            .map_or_else(|| "a node".into(), |node| format!("n{}", node.id))
    }

    /// Says why `term` is not what it should be.
    fn tell(&mut self, term: &Term, wanted: bool) {
        let is_wrong = |value: &Value| *value == Value::Bool(!wanted);
        match &term.kind {
            TermKind::Not(inner) => self.tell(inner, !wanted),
            // One side is enough to spoil a conjunction; a disjunction is spoilt by all of them together.
            TermKind::And(parts) | TermKind::Or(parts) => {
                let one_is_enough = matches!(term.kind, TermKind::And(_)) == wanted;
                for part in parts {
                    let value = self.value(part);
                    if !is_wrong(&value) {
                        continue;
                    }
                    self.tell(part, wanted);
                    if one_is_enough {
                        return;
                    }
                }
            }
            TermKind::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let condition_value = self.value(condition);
                let text = self.text(condition);
                self.reasons
                    .push(format!("{text} is {}", self.show(&condition_value)));
                match condition_value {
                    Value::Bool(true) => self.tell(yes, wanted),
                    _ => self.tell(no, wanted),
                }
            }
            TermKind::Loop(of) => {
                let range = self.value(&of.range).elements().unwrap_or_default();
                let one_is_enough = match of.name {
                    Macro::All => wanted,
                    Macro::Exists => !wanted,
                    Macro::ExistsOne => return self.count(of, &range),
                    Macro::Map | Macro::Filter => return self.plain(term),
                };
                if !one_is_enough {
                    return self.none(of, &range, wanted);
                }
                for element in range {
                    self.frame.variables[of.variable as usize] = element.clone();
                    let value = self.value(&of.body);
                    if is_wrong(&value) {
                        let name = &self.names[of.variable as usize];
                        self.witnesses
                            .push(format!("{name} = {}", self.show(&element)));
                        self.bound.push(of.variable);
                        return self.tell(&of.body, wanted);
                    }
                }
            }
            _ => self.plain(term),
        }
    }

    fn count(&mut self, of: &crate::properties::term::Loop, range: &[Value]) {
        let mut fitting = Vec::new();
        for element in range {
            self.frame.variables[of.variable as usize] = element.clone();
            if self.value(&of.body) == Value::Bool(true) {
                fitting.push(self.show(element));
            }
        }
        let (text, count) = (self.text(&of.body), fitting.len());
        let who = match count {
            0 => format!("is true for none of {}", range.len()),
            _ => format!("is true for {count}: {}", fitting.join(", ")),
        };
        self.reasons.push(format!("{text} {who}"));
    }

    /// Says that no element (or every one) makes a body true, and what it reads of each node.
    fn none(&mut self, of: &crate::properties::term::Loop, range: &[Value], wanted: bool) {
        let text = self.text(&of.body);
        let (name, over) = (&self.names[of.variable as usize], self.text(&of.range));
        let how = if wanted { "no" } else { "every" };
        let mut said = format!("{how} {name} in {over} has {text}");
        let mut seen = Vec::new();
        self.bound.push(of.variable);
        for element in range {
            self.frame.variables[of.variable as usize] = element.clone();
            let mut reads = Vec::new();
            self.reads(&of.body, Some(of.variable), &mut reads);
            if !reads.is_empty() {
                seen.push(reads.join(", "));
            }
            if seen.len() >= REASONS_MAX {
                seen.push("…".into());
                break;
            }
        }
        self.bound.pop();
        if !seen.is_empty() {
            said += &format!(" ({})", seen.join("; "));
        }
        self.reasons.push(said);
    }

    /// Says what a part without structure is, and what its sides are.
    fn plain(&mut self, term: &Term) {
        let text = self.text(term);
        let value = self.value(term);
        let mut seen = Vec::new();
        match &term.kind {
            TermKind::Binary(operator, both) => {
                for side in both.iter() {
                    if matches!(side.kind, TermKind::Literal(_)) {
                        continue;
                    }
                    let value = self.value(side);
                    seen.push(format!("{} is {}", self.text(side), self.show(&value)));
                    // A sum says little without its summands.
                    if is_compound(side) {
                        self.reads(side, None, &mut seen);
                    }
                }
                if *operator == Operator::Equal && value == Value::Bool(false) {
                    let sides = seen.join(" and ");
                    self.reasons.push(format!("{sides}, so {text} is false"));
                    return;
                }
            }
            _ => self.reads(term, None, &mut seen),
        }
        seen.dedup();
        let because = match seen.len() {
            0 => String::new(),
            _ => format!(" ({})", seen.join(", ")),
        };
        self.reasons
            .push(format!("{text} is {}{because}", self.show(&value)));
    }

    /// Collects what is read of nodes whose variables have values, or of one variable only.
    fn reads(&mut self, term: &Term, only: Option<Variable>, out: &mut Vec<String>) {
        let is_read = matches!(
            term.kind,
            TermKind::Field { .. } | TermKind::Timers(_) | TermKind::Id(_) | TermKind::Reach(_)
        );
        let mut free = Vec::new();
        term.any(&mut |part| {
            if let TermKind::Variable(variable) = part.kind {
                free.push(variable);
            }
            false
        });
        let bound = &self.bound;
        let is_closed = free.iter().all(|variable| bound.contains(variable))
            || matches!(term.kind, TermKind::Reach(_));
        let is_wanted = only.is_none_or(|only| free.contains(&only));
        if is_read && is_closed && is_wanted {
            let value = self.value(term);
            let node = match &term.kind {
                TermKind::Field { operand, .. }
                | TermKind::Timers(operand)
                | TermKind::Id(operand) => match (only, self.value(operand)) {
                    (Some(_), Value::Node(position)) => Some(self.node(position)),
                    _ => None,
                },
                _ => None,
            };
            let what = match (&node, &term.kind) {
                (Some(node), TermKind::Field { name, .. }) => format!("{node}.{name}"),
                (Some(node), TermKind::Timers(_)) => format!("{node}.timers"),
                (Some(_), TermKind::Id(_)) => return,
                _ => self.text(term),
            };
            let said = format!("{what} is {}", self.show(&value));
            if !out.contains(&said) {
                out.push(said);
            }
            return;
        }
        for child in term.children() {
            self.reads(child, only, out);
        }
    }
}

fn is_compound(term: &Term) -> bool {
    matches!(
        term.kind,
        TermKind::Binary(..) | TermKind::Call(..) | TermKind::Loop(_)
    )
}
