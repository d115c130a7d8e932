//! What changed from one state to the next, as few short lines.

use serde_json::Value;

/// Where two values differ: the way there, and both sides.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Change {
    /// The fields that lead there, joined by dots; empty if the values differ as wholes.
    pub(super) place: String,
    /// What was there, if anything was.
    pub(super) before: Option<Value>,
    /// What is there now, if anything is.
    pub(super) after: Option<Value>,
}

/// Finds where two values differ. Objects are compared field by field, lists of equal length place by place; anything
/// else is the same or it is not.
pub(super) fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(String::new(), before, after, &mut found);
    found
}

fn compare(place: String, before: &Value, after: &Value, found: &mut Vec<Change>) {
    let below = |name: &str| match place.is_empty() {
        true => name.to_owned(),
        false => format!("{place}.{name}"),
    };
    match (before, after) {
        _ if before == after => {}
        (Value::Object(old), Value::Object(new)) => {
            for (name, value) in old {
                match new.get(name) {
                    Some(now) => compare(below(name), value, now, found),
                    None => found.push(Change {
                        place: below(name),
                        before: Some(value.clone()),
                        after: None,
                    }),
                }
            }
            for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                found.push(Change {
                    place: below(name),
                    before: None,
                    after: Some(value.clone()),
                });
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() && old.len() > 1 => {
            for (at, (value, now)) in old.iter().zip(new).enumerate() {
                compare(below(&at.to_string()), value, now, found);
            }
        }
        _ => found.push(Change {
            place,
            before: Some(before.clone()),
            after: Some(after.clone()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: Value, after: Value, expected: &[&str]) {
        let side = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        let found: Vec<String> = changes(&before, &after)
            .iter()
            .map(|change| {
                format!(
                    "{} {} {}",
                    change.place,
                    side(&change.before),
                    side(&change.after)
                )
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn only_what_differs_is_named_by_the_way_to_it() {
        check(json!({"a": 1, "b": 2}), json!({"a": 1, "b": 2}), &[]);
        check(json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}), &["b 2 3"]);
        check(
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"b": 1}}),
            &["a.c 2 -"],
        );
        check(json!({}), json!({"new": []}), &["new - []"]);
        check(json!({"l": [1, 2]}), json!({"l": [1, 3]}), &["l.1 2 3"]);
        check(json!({"l": [1]}), json!({"l": [1, 2]}), &["l [1] [1,2]"]);
        check(
            json!("Idle"),
            json!({"Leader": 3}),
            &[" \"Idle\" {\"Leader\":3}"],
        );
    }
}
