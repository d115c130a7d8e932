//! The rows for machines: one JSON object.

use scry::explore::{STEPS_SHOWN, Walked};
use serde_json::{Value, json};

use crate::walks::{ErrorRow, StepsRow};

/// Writes the rows.
pub fn report(errors: &[ErrorRow], steps: &[StepsRow]) -> Value {
    json!({
        "critical": errors.iter().map(error_row).collect::<Vec<_>>(),
        "steps": steps.iter().map(steps_row).collect::<Vec<_>>(),
    })
}

fn error_row(row: &ErrorRow) -> Value {
    let errors = row.errors.iter().map(|errors| {
        json!({
            "k": errors.probes,
            "early": errors.early,
            "late": errors.late,
            "undecided": errors.undecided,
        })
    });
    json!({
        "service": row.case.service,
        "scenario": row.case.scenario,
        "bug": row.case.bug,
        "property": row.case.property,
        "states": row.states,
        "dead": row.dead,
        "executions": row.executions,
        "errors": errors.collect::<Vec<_>>(),
    })
}

fn steps_row(row: &StepsRow) -> Value {
    let (weighted, even) = row.means();
    json!({
        "service": row.case.service,
        "scenario": row.case.scenario,
        "nodes": row.nodes,
        "weighted": walked(&row.weighted, weighted),
        "even": walked(&row.even, even),
    })
}

fn walked(walked: &Walked, mean: f64) -> Value {
    let within = STEPS_SHOWN.iter().zip(walked.within);
    json!({
        "walks": walked.walks,
        "live": walked.live,
        "mean_steps": mean,
        "within": within.map(|(steps, walks)| json!({ "steps": steps, "walks": walks })).collect::<Vec<_>>(),
    })
}
