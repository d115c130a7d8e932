//! From a checked expression to closures, run over nodes in view or over what was projected of them.
//!
//! # Where not every node is in view
//!
//! An answer counts only if it would be the same with any further nodes, whatever their states: `exists` that found
//! somebody, `all` that found a counterexample, a size that is too large already. What only holds *as seen* (`all` that
//! found no counterexample) is unknown, except where it stands such that it could only turn the property from unknown
//! into true ([`Position`]): "every node in view is fine" is what a property of nodes in view has to say. No answer as
//! seen ever makes a property false, so whatever is violated in a part of the nodes is violated in the whole.

mod call;

use std::sync::Arc;

use crate::syntax::Operator;
use crate::term::{Loop, Macro, Reach, Term, TermKind};
use crate::value::{Double, MappingKind, Value};
use scry_engine::property::Scope;

/// A compiled expression.
pub(crate) type Code = Box<dyn Fn(&mut Frame<'_>) -> Value + Send + Sync>;

/// What an expression is run over.
#[derive(Debug)]
pub(crate) struct Frame<'f> {
    /// Whether there may be nodes beside those in view.
    pub(crate) scope: Scope,
    /// The nodes in view, by rising id.
    pub(crate) nodes: &'f [NodeFrame<'f>],
    /// The values of the variables, by their numbers.
    pub(crate) variables: Vec<Value>,
    /// How many steps may still be taken.
    pub(crate) steps_left: u64,
    /// Whether more would have been needed.
    pub(crate) is_cut_off: bool,
}

/// What an expression sees of a node: its state, or what was projected of it.
#[derive(Clone, Debug)]
pub(crate) struct NodeFrame<'f> {
    pub(crate) id: u32,
    pub(crate) state: Value,
    pub(crate) timers: Value,
    pub(crate) slots: &'f [Value],
}

impl Frame<'_> {
    /// Takes steps, and tells whether they could be taken. What cannot be looked at any more is unknown.
    #[inline]
    pub(crate) fn take_steps(&mut self, steps: usize) -> bool {
        match self.steps_left.checked_sub(steps as u64) {
            Some(left) => {
                self.steps_left = left;
                true
            }
            None => {
                self.steps_left = 0;
                self.is_cut_off = true;
                false
            }
        }
    }

    fn find(&self, id: &Value) -> Option<u32> {
        let Value::Int(id) = id else { return None };
        let at = self
            .nodes
            .iter()
            .position(|node| i128::from(node.id) == *id)?;
        u32::try_from(at).ok()
    }

    fn with<R>(&mut self, variable: u32, value: Value, run: impl FnOnce(&mut Self) -> R) -> R {
        self.variables[variable as usize] = value;
        run(self)
    }
}

impl<'f> Frame<'f> {
    fn node(&self, value: &Value) -> Option<&'f NodeFrame<'f>> {
        match value {
            Value::Node(position) => self.nodes.get(*position as usize),
            _ => None,
        }
    }
}

/// What an expression's truth does to the truth of the property it is part of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Position {
    /// Being true, it can only help the property to be true.
    Asserted,
    /// Being false, it can only help the property to be true.
    Denied,
    /// Neither can be said, or it is no truth value.
    Elsewhere,
}

impl Position {
    fn negated(self) -> Self {
        match self {
            Self::Asserted => Self::Denied,
            Self::Denied => Self::Asserted,
            Self::Elsewhere => Self::Elsewhere,
        }
    }

    /// What an answer counts for that holds of the nodes in view, and may be another with more of them.
    fn as_seen(self, answer: bool) -> Value {
        match (self, answer) {
            (Self::Asserted, true) | (Self::Denied, false) => Value::Bool(answer),
            _ => Value::Unknown,
        }
    }
}

fn code(run: impl Fn(&mut Frame<'_>) -> Value + Send + Sync + 'static) -> Code {
    Box::new(run)
}

/// Compiles an expression whose value is asked for by itself.
pub(crate) fn compile(term: &Term) -> Code {
    compile_at(term, Position::Elsewhere)
}

/// Compiles what must be true.
pub(crate) fn compile_asserted(term: &Term) -> Code {
    compile_at(term, Position::Asserted)
}

fn compile_at(term: &Term, position: Position) -> Code {
    match &term.kind {
        TermKind::Literal(value) => {
            let value = value.clone();
            code(move |_| value.clone())
        }
        TermKind::Variable(variable) => {
            let variable = *variable as usize;
            code(move |frame| frame.variables[variable].clone())
        }
        TermKind::Nodes => code(nodes_in_view),
        TermKind::Lookup(id) => lookup(id),
        TermKind::Id(node) => from_node(node, |node| Value::Int(i128::from(node.id))),
        TermKind::Timers(node) => from_node(node, |node| node.timers.clone()),
        TermKind::Slot(node, slot) => {
            let slot = *slot;
            from_node(node, move |node| {
                node.slots.get(slot).cloned().unwrap_or(Value::Unknown)
            })
        }
        TermKind::Field {
            operand,
            name,
            absent_is_null,
        } => field(operand, name, *absent_is_null),
        TermKind::Has(operand, name) => has(operand, name),
        TermKind::Index(both) => two(both, Value::at),
        TermKind::Not(inner) => not(inner, position),
        TermKind::Negate(inner) => negate(inner),
        TermKind::And(parts) => kleene(parts, false, position),
        TermKind::Or(parts) => kleene(parts, true, position),
        TermKind::Binary(operator, both) => {
            let (operator, combine) = (*operator, binary(*operator));
            two(both, move |a, b| match unsettled(operator, a, b) {
                Some(answer) => position.as_seen(answer),
                None => combine(a, b),
            })
        }
        TermKind::Conditional(parts) => conditional(parts, position),
        TermKind::List(items) => list(items),
        TermKind::Map(entries) => map(entries),
        TermKind::Loop(of) => over(of, position),
        TermKind::Call(function, arguments) => call::call(*function, arguments, position),
        TermKind::Reach(of) => reach(of),
    }
}

/// `nodes`
fn nodes_in_view(frame: &mut Frame<'_>) -> Value {
    let count = u32::try_from(frame.nodes.len()).unwrap_or(u32::MAX);
    let nodes = (0..count).map(Value::Node).collect();
    match frame.scope {
        Scope::Whole => Value::List(nodes),
        Scope::Partial => Value::Open(nodes),
    }
}

/// `node(id)`
fn lookup(id: &Term) -> Code {
    let id = compile(id);
    code(move |frame| {
        let id = id(frame);
        frame.find(&id).map_or(Value::Unknown, Value::Node)
    })
}

fn from_node(node: &Term, read: impl Fn(&NodeFrame<'_>) -> Value + Send + Sync + 'static) -> Code {
    let node = compile(node);
    code(move |frame| {
        let node = node(frame);
        frame.node(&node).map_or(Value::Unknown, &read)
    })
}

/// `operand.name`
fn field(operand: &Term, name: &Arc<str>, absent_is_null: bool) -> Code {
    let (operand, name) = (compile(operand), name.clone());
    code(move |frame| {
        let value = operand(frame);
        let record = frame.node(&value).map_or(&value, |node| &node.state);
        match (record.field(&name), record) {
            (Some(value), _) => value.clone(),
            (None, Value::Map(_)) if absent_is_null => Value::Null,
            _ => Value::Unknown,
        }
    })
}

/// `has(operand.name)`
fn has(operand: &Term, name: &Arc<str>) -> Code {
    let (operand, name) = (compile(operand), name.clone());
    code(move |frame| {
        let value = operand(frame);
        let record = frame.node(&value).map_or(&value, |node| &node.state);
        match record {
            Value::Unknown => Value::Unknown,
            record => Value::Bool(record.field(&name).is_some()),
        }
    })
}

/// `[items]`
fn list(items: &[Term]) -> Code {
    let items: Vec<Code> = items.iter().map(compile).collect();
    code(move |frame| Value::list(items.iter().map(|item| item(frame)).collect()))
}

/// `{key: value}`
fn map(entries: &[(Term, Term)]) -> Code {
    let entries: Vec<(Code, Code)> = entries
        .iter()
        .map(|(key, value)| (compile(key), compile(value)))
        .collect();
    code(move |frame| {
        let entries = entries
            .iter()
            .map(|(key, value)| (key(frame), value(frame)));
        Value::map(MappingKind::Map, entries.collect())
    })
}

fn two(
    both: &[Term; 2],
    combine: impl Fn(&Value, &Value) -> Value + Send + Sync + 'static,
) -> Code {
    let [left, right] = both;
    let (left, right) = (compile(left), compile(right));
    code(move |frame| combine(&left(frame), &right(frame)))
}

/// `!inner`
fn not(inner: &Term, position: Position) -> Code {
    let inner = compile_at(inner, position.negated());
    code(move |frame| match inner(frame) {
        Value::Bool(value) => Value::Bool(!value),
        _ => Value::Unknown,
    })
}

/// `-inner`
fn negate(inner: &Term) -> Code {
    let inner = compile(inner);
    code(move |frame| match inner(frame) {
        Value::Int(value) => value.checked_neg().map_or(Value::Unknown, Value::Int),
        Value::Double(value) => Value::Double(Double(-value.0)),
        _ => Value::Unknown,
    })
}

/// `condition ? yes : no`
fn conditional(parts: &[Term; 3], position: Position) -> Code {
    let [condition, yes, no] = parts;
    let condition = compile(condition);
    let [yes, no] = [yes, no].map(|branch| compile_at(branch, position));
    code(move |frame| match condition(frame) {
        Value::Bool(true) => yes(frame),
        Value::Bool(false) => no(frame),
        _ => Value::Unknown,
    })
}

/// `&&` and `||` with a third truth value: one side can decide whatever the other is. `decisive` is what decides.
fn kleene(parts: &[Term], decisive: bool, position: Position) -> Code {
    let parts = parts.iter().map(|part| compile_at(part, position));
    let parts: Vec<Code> = parts.collect();
    code(move |frame| {
        let mut answer = Value::Bool(!decisive);
        for part in &parts {
            match part(frame) {
                Value::Bool(value) if value == decisive => return Value::Bool(decisive),
                Value::Bool(_) => {}
                _ => answer = Value::Unknown,
            }
        }
        answer
    })
}

/// What an operator answers for the nodes in view, if more nodes could turn it round.
fn unsettled(operator: Operator, a: &Value, b: &Value) -> Option<bool> {
    let fits: fn(std::cmp::Ordering) -> bool = match operator {
        Operator::Less => std::cmp::Ordering::is_lt,
        Operator::LessEqual => std::cmp::Ordering::is_le,
        Operator::Greater => std::cmp::Ordering::is_gt,
        Operator::GreaterEqual => std::cmp::Ordering::is_ge,
        Operator::In => {
            let absent = matches!(b, Value::Open(_)) && a.is_in(b) == Value::Unknown;
            return (absent && !a.is_uncertain()).then_some(false);
        }
        _ => return None,
    };
    let (order, left_grows) = match (a, b) {
        (Value::AtLeast(a), b) => (Value::Int(*a).compare(b)?, true),
        (a, Value::AtLeast(b)) => (a.compare(&Value::Int(*b))?, false),
        _ => return None,
    };
    let is_true = fits(order);
    // A number that can only grow stays above what it is above now, and may come to be above what it is not.
    let stays_true = left_grows == fits(std::cmp::Ordering::Greater);
    (is_true != stays_true).then_some(is_true)
}

fn binary(operator: Operator) -> fn(&Value, &Value) -> Value {
    fn ordered(a: &Value, b: &Value, fits: fn(std::cmp::Ordering) -> bool) -> Value {
        match (a, b) {
            // Not a number is neither less nor greater, but it is an answer.
            (Value::Double(_), Value::Double(_) | Value::Int(_))
            | (Value::Int(_), Value::Double(_)) => Value::Bool(a.compare(b).is_some_and(fits)),
            // What more nodes could turn round was dealt with: a number that grows is as good as it is now.
            (Value::AtLeast(least), other) => Value::Int(*least)
                .compare(other)
                .map_or(Value::Unknown, |order| Value::Bool(fits(order))),
            (other, Value::AtLeast(least)) => other
                .compare(&Value::Int(*least))
                .map_or(Value::Unknown, |order| Value::Bool(fits(order))),
            _ => a
                .compare(b)
                .map_or(Value::Unknown, |order| Value::Bool(fits(order))),
        }
    }
    match operator {
        Operator::Equal => |a, b| a.equals(b),
        Operator::NotEqual => |a, b| match a.equals(b) {
            Value::Bool(equal) => Value::Bool(!equal),
            other => other,
        },
        Operator::Less => |a, b| ordered(a, b, std::cmp::Ordering::is_lt),
        Operator::LessEqual => |a, b| ordered(a, b, std::cmp::Ordering::is_le),
        Operator::Greater => |a, b| ordered(a, b, std::cmp::Ordering::is_gt),
        Operator::GreaterEqual => |a, b| ordered(a, b, std::cmp::Ordering::is_ge),
        Operator::In => |a, b| a.is_in(b),
        Operator::Add => |a, b| match (a, b) {
            (Value::Text(a), Value::Text(b)) => Value::text(&format!("{a}{b}")),
            (Value::List(a), Value::List(b)) => {
                Value::List(a.iter().chain(b.iter()).cloned().collect())
            }
            (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([&**a, &**b].concat().into()),
            (Value::List(a) | Value::Open(a), Value::List(b) | Value::Open(b)) => {
                Value::Open(a.iter().chain(b.iter()).cloned().collect())
            }
            _ => arithmetic(a, b, i128::checked_add, |a, b| a + b),
        },
        Operator::Subtract => |a, b| arithmetic(a, b, i128::checked_sub, |a, b| a - b),
        Operator::Multiply => |a, b| arithmetic(a, b, i128::checked_mul, |a, b| a * b),
        Operator::Divide => |a, b| arithmetic(a, b, i128::checked_div, |a, b| a / b),
        Operator::Remainder => |a, b| match (a, b) {
            (Value::Int(a), Value::Int(b)) => a.checked_rem(*b).map_or(Value::Unknown, Value::Int),
            _ => Value::Unknown,
        },
    }
}

fn arithmetic(
    a: &Value,
    b: &Value,
    ints: fn(i128, i128) -> Option<i128>,
    doubles: fn(f64, f64) -> f64,
) -> Value {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => ints(*a, *b).map_or(Value::Unknown, Value::Int),
        (Value::Double(a), Value::Double(b)) => Value::Double(Double(doubles(a.0, b.0))),
        _ => Value::Unknown,
    }
}

fn over(of: &Loop, position: Position) -> Code {
    let (range, variable) = (compile(&of.range), of.variable);
    match of.name {
        Macro::All | Macro::Exists => {
            let decisive = of.name == Macro::Exists;
            let body = compile_at(&of.body, position);
            code(move |frame| {
                let range = range(frame);
                let Some(elements) = range.elements() else {
                    return Value::Unknown;
                };
                if !frame.take_steps(elements.len()) {
                    return Value::Unknown;
                }
                let mut answer = match range {
                    // Whoever decides it may be out of view.
                    Value::Open(_) => position.as_seen(!decisive),
                    _ => Value::Bool(!decisive),
                };
                for element in elements {
                    match frame.with(variable, element, &body) {
                        Value::Bool(value) if value == decisive => return Value::Bool(decisive),
                        Value::Bool(_) => {}
                        _ => answer = Value::Unknown,
                    }
                }
                answer
            })
        }
        Macro::ExistsOne | Macro::Map | Macro::Filter => selection(of, range),
    }
}

/// The macros that have no answer where their body has none for some element. The body must have one for every node out
/// of view too, if the range is open.
fn selection(of: &Loop, range: Code) -> Code {
    let (body, variable) = (compile(&of.body), of.variable);
    let condition = of.condition.as_ref().map(compile);
    let is_sure = of.is_sure();
    let range = move |frame: &mut Frame<'_>| {
        let range = range(frame);
        match range {
            Value::Open(_) if !is_sure => None,
            _ => {
                let elements = range.elements()?;
                frame
                    .take_steps(elements.len())
                    .then_some((range, elements))
            }
        }
    };
    match of.name {
        Macro::Map => code(move |frame| {
            let Some((range, elements)) = range(frame) else {
                return Value::Unknown;
            };
            let mut mapped = Vec::new();
            for element in elements {
                frame.variables[variable as usize] = element;
                match condition.as_ref().map(|condition| condition(frame)) {
                    None | Some(Value::Bool(true)) => mapped.push(body(frame)),
                    Some(Value::Bool(false)) => {}
                    Some(_) => return Value::Unknown,
                }
            }
            range.list_like(mapped)
        }),
        name => code(move |frame| {
            let Some((range, elements)) = range(frame) else {
                return Value::Unknown;
            };
            let mut kept = Vec::new();
            for element in elements {
                match frame.with(variable, element.clone(), &body) {
                    Value::Bool(true) => kept.push(element),
                    Value::Bool(false) => {}
                    _ => return Value::Unknown,
                }
            }
            match (name, &range) {
                (Macro::Filter, _) => range.list_like(kept),
                (_, Value::Open(_)) if kept.len() < 2 => Value::Unknown,
                _ => Value::Bool(kept.len() == 1),
            }
        }),
    }
}

/// Follows pointers from node to node. One that leads out of view makes the answer unknown (B-6, A-79).
fn reach(of: &Reach) -> Code {
    let (start, step, variable) = (compile(&of.start), compile(&of.step), of.variable);
    code(move |frame| {
        let from = start(frame);
        if frame.node(&from).is_none() {
            return Value::Unknown;
        }
        let mut reached = Vec::new();
        let mut ahead = vec![from];
        while let Some(node) = ahead.pop() {
            let pointers = match frame.with(variable, node, &step) {
                Value::Null => continue,
                Value::List(pointers) => pointers,
                pointer => [pointer].into(),
            };
            for pointer in pointers.iter() {
                if *pointer == Value::Null {
                    continue;
                }
                let Some(position) = frame.find(pointer) else {
                    return Value::Unknown;
                };
                if !frame.take_steps(reached.len() + 1) {
                    return Value::Unknown;
                }
                if !reached.contains(pointer) {
                    reached.push(pointer.clone());
                    ahead.push(Value::Node(position));
                }
            }
        }
        reached.sort();
        Value::List(reached.into())
    })
}
