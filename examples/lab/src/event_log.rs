//! `events.jsonl` in a run's folder: every event of every node, what was done about it, the state after it, and which
//! properties it broke or mended.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde_json::json;

use crate::referee::Judged;

/// Writes down what happens, as long as the disk takes it: one that is full ends the story, not the experiment.
#[derive(Debug)]
pub(crate) struct EventLog(Option<BufWriter<File>>);

impl EventLog {
    /// Begins the log of a run.
    pub(crate) fn create(directory: &Path) -> Self {
        let file = File::create(directory.join("events.jsonl"));
        Self(file.ok().map(BufWriter::new))
    }

    /// Writes an event down, in the order in which the referee judges.
    pub(crate) fn note(&mut self, judged: &Judged) {
        let Some(file) = &mut self.0 else { return };
        let written = serde_json::to_value(&judged.told).map(|mut line| {
            if !judged.changes.is_empty() {
                let changes = judged.changes.iter().map(|change| {
                    json!({ "property": change.property, "broken": change.broken, "explanation": change.explanation })
                });
                line["changes"] = changes.collect();
            }
            writeln!(file, "{line}")
        });
        if !matches!(written, Ok(Ok(()))) {
            self.0 = None;
        }
    }
}
