//! The rows for machines: one JSON object.

use serde_json::{Value, json};

use crate::row::{Fixed, Found, Row};

/// Writes the rows.
pub fn report(rows: &[Row]) -> Value {
    json!({ "bugs": rows.iter().map(row).collect::<Vec<_>>() })
}

fn row(row: &Row) -> Value {
    let Fixed {
        violations,
        complete,
        states,
        bound,
    } = &row.fixed;
    json!({
        "bug": row.case.bug,
        "service": row.case.service,
        "property": row.case.property,
        "start_steps": row.start_steps,
        "consequence": with_path(&row.consequence),
        "start_bfs": with_path(&row.start_bfs),
        "initial_bfs": row.initial_bfs.as_ref().map(without_path),
        "fixed": {
            "violations": violations.len(),
            "complete": complete,
            "states": states,
            "bound": bound,
        },
    })
}

fn without_path(found: &Found) -> Value {
    json!({
        "found": found.told.is_some(),
        "depth": found.depth,
        "states": found.states,
        "ms": found.ms(),
    })
}

fn with_path(found: &Found) -> Value {
    let mut object = without_path(found);
    object["path"] = json!(found.told.as_ref().map_or(&[][..], |told| &told.path));
    object
}
