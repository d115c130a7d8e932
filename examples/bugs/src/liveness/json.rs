//! The rows for machines: one JSON object.

use serde_json::{Value, json};

use crate::liveness::LivenessRow;
use crate::row::milliseconds;

/// Writes the rows.
pub fn report(rows: &[LivenessRow]) -> Value {
    json!({ "bugs": rows.iter().map(row).collect::<Vec<_>>() })
}

fn row(row: &LivenessRow) -> Value {
    let told = row.told.as_ref();
    json!({
        "bug": row.case.bug,
        "service": row.case.service,
        "property": row.case.property,
        "verdict": told.map(|told| told.verdict.as_str()),
        "critical_step": told.map(|told| told.critical_step),
        "critical_event": told.map(|told| &told.critical_event),
        "live_alternative": told.is_some_and(|told| told.live.is_some()),
        "states": row.states,
        "ms": milliseconds(row.elapsed),
        "walks": row.walks,
        "walk_ms": milliseconds(row.walks_elapsed),
        "fixed": { "dead": row.fixed.dead },
    })
}
