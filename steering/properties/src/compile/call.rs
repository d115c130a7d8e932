//! Functions: what is called with values and answers with one.

use super::{Code, Position, code, compile};
use crate::term::{Function, Term};
use crate::value::{Double, Value};

/// Compiles a call.
pub(super) fn call(function: Function, arguments: &[Term], position: Position) -> Code {
    let run: fn(&[Value]) -> Value = match function {
        Function::Size => |arguments| arguments[0].size(),
        Function::Distinct | Function::Intersects | Function::Contains | Function::Equivalent => {
            return sets(function, arguments, position);
        }
        Function::TextContains => |arguments| texts(arguments, |a, b| a.contains(b)),
        Function::StartsWith => |arguments| texts(arguments, |a, b| a.starts_with(b)),
        Function::EndsWith => |arguments| texts(arguments, |a, b| a.ends_with(b)),
        Function::ToInt => |arguments| to_int(&arguments[0]),
        Function::ToDouble => |arguments| to_double(&arguments[0]),
        Function::ToText => |arguments| match &arguments[0] {
            value @ Value::Text(_) => value.clone(),
            value @ (Value::Int(_) | Value::Bool(_)) => Value::text(&value.to_string()),
            Value::Double(value) => Value::text(&value.0.to_string()),
            _ => Value::Unknown,
        },
    };
    let arguments: Vec<Code> = arguments.iter().map(compile).collect();
    code(move |frame| {
        let arguments: Vec<Value> = arguments.iter().map(|argument| argument(frame)).collect();
        run(&arguments)
    })
}

/// The functions on lists taken as sets. What they answer for the elements in view is final if the lists are closed, or
/// if further elements cannot turn it round.
fn sets(function: Function, arguments: &[Term], position: Position) -> Code {
    let arguments: Vec<Code> = arguments.iter().map(compile).collect();
    code(move |frame| {
        let arguments: Vec<Value> = arguments.iter().map(|argument| argument(frame)).collect();
        let lists: Option<Vec<(&[Value], bool)>> = arguments
            .iter()
            .map(|argument| match argument {
                Value::List(items) => Some((&**items, false)),
                Value::Open(items) => Some((&**items, true)),
                _ => None,
            })
            .collect();
        let compared = match lists.as_deref() {
            Some([(items, _)]) => items.len().saturating_mul(items.len()),
            Some([(a, _), (b, _)]) => a.len().saturating_mul(b.len()),
            _ => 0,
        };
        if !frame.take_steps(compared) {
            return Value::Unknown;
        }
        let (answer, is_final) = match lists.as_deref() {
            Some([(items, is_open)]) => {
                let is_new = |(at, item): (usize, &Value)| !has(&items[..at], item);
                let distinct = items.iter().enumerate().all(is_new);
                (distinct, !is_open || !distinct)
            }
            Some([(a, a_open), (b, b_open)]) => {
                let a_in_b = a.iter().all(|item| has(b, item));
                let b_in_a = b.iter().all(|item| has(a, item));
                let is_closed = !a_open && !b_open;
                match function {
                    Function::Intersects => {
                        let found = a.iter().any(|item| has(b, item));
                        (found, is_closed || found)
                    }
                    // What is missing in a closed list stays missing.
                    Function::Contains => (b_in_a, if b_in_a { !b_open } else { !a_open }),
                    _ => {
                        let differ = (!a_in_b && !b_open) || (!b_in_a && !a_open);
                        (a_in_b && b_in_a, is_closed || differ)
                    }
                }
            }
            _ => return Value::Unknown,
        };
        match is_final {
            true => Value::Bool(answer),
            false => position.as_seen(answer),
        }
    })
}

fn has(items: &[Value], wanted: &Value) -> bool {
    items.iter().any(|item| item.is_same(wanted))
}

fn texts(arguments: &[Value], holds: fn(&str, &str) -> bool) -> Value {
    match arguments {
        [Value::Text(a), Value::Text(b)] => Value::Bool(holds(a, b)),
        _ => Value::Unknown,
    }
}

fn to_int(value: &Value) -> Value {
    match value {
        Value::Int(_) => value.clone(),
        // Beyond this, CEL's own integers end.
        Value::Double(value) if value.0.abs() < 9.2e18 => Value::Int(value.0 as i128),
        Value::Text(text) => text.parse().map_or(Value::Unknown, Value::Int),
        _ => Value::Unknown,
    }
}

fn to_double(value: &Value) -> Value {
    match value {
        Value::Double(_) => value.clone(),
        Value::Int(value) => Value::Double(Double(*value as f64)),
        Value::Text(text) => text
            .parse()
            .map_or(Value::Unknown, |value| Value::Double(Double(value))),
        _ => Value::Unknown,
    }
}
