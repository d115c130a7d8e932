//! What a failed property saw, in words: which nodes, which values, which part of it was false.

use std::collections::BTreeSet;

use crate::compile::{Frame, NodeFrame, compile};
use crate::syntax::Operator;
use crate::term::{Loop, Macro, Term, TermKind, Variable};
use crate::value::Value;
use scry_engine::property::Scope;

/// How many characters of a value are shown.
const VALUE_CHARS_MAX: usize = 120;
/// How many reasons are given; a disjunction can have many false sides.
const REASONS_MAX: usize = 8;
/// How many things that are wrong are told apart.
const BROKEN_MAX: usize = 1_024;

/// Says why an expression, given with its text, is not true of some nodes.
pub(crate) fn explain(
    term: &Term,
    source: &str,
    names: &[String],
    scope: Scope,
    nodes: &[NodeFrame<'_>],
    steps_max: u64,
) -> String {
    let mut telling = Telling {
        source,
        names,
        frame: Frame {
            scope,
            nodes,
            variables: vec![Value::Unknown; names.len()],
            steps_left: steps_max,
            is_cut_off: false,
        },
        bound: Vec::new(),
        witnesses: Vec::new(),
        reasons: Vec::new(),
    };
    telling.tell(term, true);
    let mut said = telling.reasons;
    said.dedup();
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

/// Names every single thing that makes an expression false of some nodes: the values of its quantified variables, and which part
/// of it is false with them. What the part reads is not in the name, so that a thing keeps it while it stays wrong.
pub(crate) fn all_broken(
    term: &Term,
    names: &[String],
    scope: Scope,
    nodes: &[NodeFrame<'_>],
    steps_max: u64,
) -> BTreeSet<String> {
    let mut naming = Naming {
        frame: Frame {
            scope,
            nodes,
            variables: vec![Value::Unknown; names.len()],
            steps_left: steps_max,
            is_cut_off: false,
        },
        bound: Vec::new(),
        broken: BTreeSet::new(),
    };
    naming.name(term, true);
    naming.broken
}

struct Naming<'t> {
    frame: Frame<'t>,
    /// The values of the variables in scope.
    bound: Vec<String>,
    broken: BTreeSet<String>,
}

impl Naming<'_> {
    /// Names what keeps `term` from being what it should be, if something does.
    fn name(&mut self, term: &Term, wanted: bool) {
        let value = compile(term)(&mut self.frame);
        if value != Value::Bool(!wanted) || self.broken.len() >= BROKEN_MAX {
            return;
        }
        match &term.kind {
            TermKind::Not(inner) => self.name(inner, !wanted),
            TermKind::And(parts) if wanted => parts.iter().for_each(|part| self.name(part, true)),
            TermKind::Or(parts) if !wanted => parts.iter().for_each(|part| self.name(part, false)),
            TermKind::Loop(of) if is_of_each(of, wanted) => self.name_each(of, wanted),
            _ => {
                let place = format!("{}..{}", term.span.start, term.span.end);
                let broken = self.bound.iter().cloned().chain([place]);
                self.broken.insert(broken.collect::<Vec<_>>().join(", "));
            }
        }
    }

    fn name_each(&mut self, of: &Loop, wanted: bool) {
        let range = compile(&of.range)(&mut self.frame);
        for element in range.elements().unwrap_or_default() {
            let shown = match element {
                // Positions change with who is in view, ids do not.
                Value::Node(position) => {
                    let node = self.frame.nodes.get(position as usize);
                    node.map_or_else(String::new, |node| format!("n{}", node.id))
                }
                ref value => value.to_string(),
            };
            self.frame.variables[of.variable as usize] = element;
            self.bound.push(shown);
            self.name(&of.body, wanted);
            self.bound.pop();
        }
    }
}

/// Tells whether each element by itself can spoil a loop.
fn is_of_each(of: &Loop, wanted: bool) -> bool {
    match of.name {
        Macro::All => wanted,
        Macro::Exists => !wanted,
        Macro::ExistsOne | Macro::Map | Macro::Filter => false,
    }
}

struct Telling<'t> {
    source: &'t str,
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

    /// Returns what the author wrote, on one line.
    fn text(&self, term: &Term) -> String {
        let text = self.source.get(term.span.clone()).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
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
                let mut wrong: Vec<&Term> = Vec::new();
                for part in parts {
                    if is_wrong(&self.value(part)) {
                        wrong.push(part);
                    }
                }
                if one_is_enough {
                    wrong.truncate(1);
                } else if wrong.iter().any(|part| !is_null_test(part)) {
                    // That something is there is seen from what it is.
                    wrong.retain(|part| !is_null_test(part));
                }
                for part in wrong {
                    self.tell(part, wanted);
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

    fn count(&mut self, of: &Loop, range: &[Value]) {
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
    fn none(&mut self, of: &Loop, range: &[Value], wanted: bool) {
        let text = self.text(&of.body);
        let (name, over) = (&self.names[of.variable as usize], self.text(&of.range));
        let how = if wanted { "no" } else { "every" };
        let mut said = format!("{how} {name} in {over} has {text}");
        let mut seen = Vec::new();
        self.bound.push(of.variable);
        for element in range {
            self.frame.variables[of.variable as usize] = element.clone();
            let mut reads = Vec::new();
            self.reads(&of.body, of.variable, &mut reads);
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

    /// Says what a part without structure is, and what it was made of.
    fn plain(&mut self, term: &Term) {
        let value = self.value(term);
        let mut seen = Vec::new();
        match &term.kind {
            TermKind::Binary(_, both) => {
                for side in both.iter() {
                    self.say(side, &mut seen);
                    if !matches!(side.kind, TermKind::Field { .. }) {
                        self.made_of(side, &mut seen);
                    }
                }
            }
            TermKind::Field { .. } | TermKind::Timers(_) => {}
            _ => self.made_of(term, &mut seen),
        }
        let because = match seen.len() {
            0 => String::new(),
            _ => format!(", since {}", seen.join(" and ")),
        };
        let text = self.text(term);
        self.reasons
            .push(format!("{text} is {}{because}", self.show(&value)));
    }

    /// Says what the parts of a part are, down to what is read of nodes.
    fn made_of(&mut self, term: &Term, out: &mut Vec<String>) {
        for child in term.children() {
            match &child.kind {
                TermKind::Binary(..)
                | TermKind::Not(_)
                | TermKind::Negate(_)
                | TermKind::And(_)
                | TermKind::Or(_)
                | TermKind::List(_)
                | TermKind::Call(..) => self.made_of(child, out),
                _ => self.say(child, out),
            }
        }
    }

    /// Says what a part is, unless that is plain from its text or depends on a variable without a value.
    fn say(&mut self, term: &Term, out: &mut Vec<String>) {
        let is_plain = matches!(
            term.kind,
            TermKind::Literal(_) | TermKind::Variable(_) | TermKind::Nodes | TermKind::Id(_)
        );
        if is_plain || !self.is_closed(term) {
            return;
        }
        let value = self.value(term);
        let said = format!("{} is {}", self.text(term), self.show(&value));
        if !out.contains(&said) {
            out.push(said);
        }
    }

    /// Tells whether all variables from outside have values.
    fn is_closed(&self, term: &Term) -> bool {
        let (mut read, mut own) = (Vec::new(), Vec::new());
        term.any(&mut |part| {
            match &part.kind {
                TermKind::Variable(variable) => read.push(*variable),
                TermKind::Loop(of) => own.push(of.variable),
                TermKind::Reach(of) => own.push(of.variable),
                _ => {}
            }
            false
        });
        read.iter()
            .all(|variable| own.contains(variable) || self.bound.contains(variable))
    }

    /// Collects what is read of one variable's node.
    fn reads(&mut self, term: &Term, of: Variable, out: &mut Vec<String>) {
        let field = match &term.kind {
            TermKind::Field { operand, name, .. } => Some((operand, name.to_string())),
            TermKind::Timers(operand) => Some((operand, "timers".to_owned())),
            _ => None,
        };
        if let Some((operand, name)) = field
            && matches!(operand.kind, TermKind::Variable(variable) if variable == of)
            && let Value::Node(position) = self.value(operand)
        {
            let value = self.value(term);
            let said = format!("{}.{name} is {}", self.node(position), self.show(&value));
            if !out.contains(&said) {
                out.push(said);
            }
            return;
        }
        for child in term.children() {
            self.reads(child, of, out);
        }
    }
}

/// `x == null` or `x != null`.
fn is_null_test(term: &Term) -> bool {
    match &term.kind {
        TermKind::Binary(Operator::Equal | Operator::NotEqual, both) => both
            .iter()
            .any(|side| matches!(side.kind, TermKind::Literal(Value::Null))),
        _ => false,
    }
}
