//! The `cel` crate's own interpreter, with the functions CEL does not have written out in the plainest way.

use std::collections::HashMap;
use std::sync::Arc;

use cel::objects::{Key, Map};
use cel::{Context, ExecutionError, Program, Value};
use scry_engine::Judgement;

use crate::zoo::Animal;

/// Interprets an expression over some nodes.
pub(crate) fn interpret(expression: &str, animals: &[Animal]) -> Judgement {
    let text = expression
        .replace("sets.contains(", "sets_contains(")
        .replace("sets.intersects(", "sets_intersects(")
        .replace("sets.equivalent(", "sets_equivalent(");
    let program = Program::compile(&text).expect("the oracle reads what the compiler reads");
    let nodes: Arc<Vec<Value>> = Arc::new(animals.iter().map(node).collect());
    if !text.contains("self") {
        return judge(program.execute(&context(&nodes).unwrap()));
    }
    let mut worst = Judgement::Holds;
    for own in nodes.iter() {
        let mut context = context(&nodes).unwrap();
        context.add_variable_from_value("self", own.clone());
        match judge(program.execute(&context)) {
            Judgement::Violated => return Judgement::Violated,
            Judgement::Unknown => worst = Judgement::Unknown,
            Judgement::Holds => {}
        }
    }
    worst
}

fn judge(result: Result<Value, ExecutionError>) -> Judgement {
    match result {
        Ok(Value::Bool(holds)) => holds.into(),
        Ok(other) => panic!("{other:?} is not a bool"),
        Err(_) => Judgement::Unknown,
    }
}

fn node(animal: &Animal) -> Value {
    let Value::Map(fields) = signed(cel::to_value(&animal.state).unwrap()) else {
        panic!("a state is a struct")
    };
    let mut fields = (*fields.map).clone();
    let mut set = |name: &str, value| fields.insert(Key::String(Arc::new(name.into())), value);
    set("id", Value::Int(i64::from(animal.id.get())));
    let timers = animal.timers.iter().map(|timer| {
        let name = format!("{timer:?}");
        Value::String(Arc::new(name.split('(').next().unwrap().to_owned()))
    });
    set("timers", Value::List(Arc::new(timers.collect())));
    Value::Map(Map {
        map: Arc::new(fields),
    })
}

/// Makes all integers of one type, as they are for properties.
fn signed(value: Value) -> Value {
    match value {
        Value::UInt(value) => Value::Int(value as i64),
        Value::List(items) => Value::List(Arc::new(items.iter().cloned().map(signed).collect())),
        Value::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| {
                let key = match key {
                    Key::Uint(key) => Key::Int(*key as i64),
                    other => other.clone(),
                };
                (key, signed(value.clone()))
            });
            let map: HashMap<Key, Value> = entries.collect();
            Value::Map(Map { map: Arc::new(map) })
        }
        other => other,
    }
}

type Prepared = Result<Context<'static, 'static>, cel::DeclarationError>;

fn context(nodes: &Arc<Vec<Value>>) -> Prepared {
    let mut context = Context::default();
    context.add_variable_from_value("nodes", Value::List(nodes.clone()));
    let all = nodes.clone();
    context.add_function("node", move |id: Value| {
        find(&all, &id).ok_or_else(|| out_of_view("node"))
    })?;
    let all = nodes.clone();
    context.add_function("reach", move |from: Value, name: Arc<String>| {
        reach(&all, &from, &name).ok_or_else(|| out_of_view("reach"))
    })?;
    context.add_function("distinct", |items: Value| {
        let items = list(&items)?;
        let is_new = |at: usize| !items[..at].contains(&items[at]);
        Ok(Value::Bool((0..items.len()).all(is_new)))
    })?;
    context.add_function("sets_contains", |a: Value, b: Value| {
        let (a, b) = (list(&a)?, list(&b)?);
        Ok(Value::Bool(b.iter().all(|item| a.contains(item))))
    })?;
    context.add_function("sets_equivalent", |a: Value, b: Value| {
        let (a, b) = (list(&a)?, list(&b)?);
        let holds = b.iter().all(|item| a.contains(item)) && a.iter().all(|item| b.contains(item));
        Ok(Value::Bool(holds))
    })?;
    context.add_function("sets_intersects", |a: Value, b: Value| {
        let (a, b) = (list(&a)?, list(&b)?);
        Ok(Value::Bool(b.iter().any(|item| a.contains(item))))
    })?;
    Ok(context)
}

fn out_of_view(function: &str) -> ExecutionError {
    ExecutionError::FunctionError {
        function: function.into(),
        message: "out of view".into(),
    }
}

fn list(value: &Value) -> Result<Arc<Vec<Value>>, ExecutionError> {
    match value {
        Value::List(items) => Ok(items.clone()),
        _ => Err(out_of_view("list")),
    }
}

fn field(node: &Value, name: &str) -> Option<Value> {
    match node {
        Value::Map(map) => map.map.get(&Key::String(Arc::new(name.into()))).cloned(),
        _ => None,
    }
}

fn find(nodes: &[Value], id: &Value) -> Option<Value> {
    let found = nodes
        .iter()
        .find(|node| field(node, "id").as_ref() == Some(id));
    found.cloned()
}

/// Follows a pointer as often as there are nodes, collecting what it leads to.
fn reach(nodes: &[Value], from: &Value, name: &str) -> Option<Value> {
    let mut reached: Vec<Value> = Vec::new();
    let mut at = from.clone();
    for _ in 0..=nodes.len() {
        let pointer = field(&at, name)?;
        if pointer == Value::Null {
            break;
        }
        at = find(nodes, &pointer)?;
        if !reached.contains(&pointer) {
            reached.push(pointer);
        }
    }
    Some(Value::List(Arc::new(reached)))
}
