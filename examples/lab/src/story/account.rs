//! What came of a story, for people and for machines.

use std::path::PathBuf;

use serde::Serialize;

use super::evidence::{Critical, Evidence, Installed};
use super::never::Outcome;
use super::{Isolate, Liveness, Tale, Telling, Way};
use crate::result::RunResult;

/// What came of a story.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Account {
    story: Tale,
    way: Way,
    fixed: bool,
    isolate: Isolate,
    liveness: Liveness,
    /// What came of what must come true again, if the story is about that.
    comes_true: Option<Outcome>,
    /// The critical transitions that were predicted, each once.
    critical: Vec<Critical>,
    /// Whether the referee, who sees all nodes, saw a property broken.
    broken: bool,
    /// Which properties.
    broken_properties: Vec<String>,
    /// How often agents predicted a violation.
    predictions: u64,
    /// The filters, the first one first.
    filters_installed: Vec<Installed>,
    /// How often filters acted.
    filter_hits: u64,
    /// How often the immediate check stopped an event.
    vetoes: u64,
    /// How often either would have acted, were it allowed to.
    would_block: u64,
    /// What was blocked.
    blocked: Vec<String>,
    /// What would have been blocked.
    would_have_blocked: Vec<String>,
    /// How long after its snapshot was complete the first violation was predicted.
    prediction_ms: Option<u64>,
    /// How long after its snapshot was complete the first filter went to its node.
    snapshot_to_filter_ms: Option<u64>,
    /// Where the logs are.
    directory: PathBuf,
}

impl Account {
    /// Puts together what the referee saw and what the logs say.
    pub(super) fn new(
        telling: &Telling,
        result: &RunResult,
        evidence: &Evidence,
        comes_true: Option<Outcome>,
    ) -> Self {
        let filters_installed = evidence.installed();
        Self {
            story: telling.story,
            way: telling.way,
            fixed: telling.fixed,
            isolate: telling.isolate,
            liveness: telling.liveness,
            comes_true,
            critical: evidence.critical(),
            broken: !result.count.broken.is_empty(),
            broken_properties: result.count.broken.keys().cloned().collect(),
            predictions: evidence.predictions(),
            filter_hits: evidence.filter_hits(),
            vetoes: evidence.vetoes(),
            would_block: evidence.would_block(),
            blocked: evidence.blocked(),
            would_have_blocked: evidence.would_have(),
            prediction_ms: evidence.prediction_ms(),
            snapshot_to_filter_ms: filters_installed
                .first()
                .and_then(|it| it.after_snapshot_ms),
            filters_installed,
            directory: result.directory.clone(),
        }
    }

    /// Tells it to people.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("\n");
        let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
        let after = |ms: Option<u64>| {
            let said = ms.map(|ms| format!(", {ms} ms after the snapshot was complete"));
            said.unwrap_or_default()
        };
        line(
            "verdict",
            match (&self.comes_true, self.broken) {
                (_, true) => format!("BROKEN: {}", self.broken_properties.join(", ")),
                (Some(outcome), _) => outcome.text(),
                (None, false) => "nothing was broken".to_owned(),
            },
        );
        line(
            "predicted",
            match self.predictions {
                0 => "nothing".to_owned(),
                count => format!("{count} times{}", after(self.prediction_ms)),
            },
        );
        for critical in &self.critical {
            line(
                "critical",
                format!(
                    "{}: {}, for {}",
                    critical.node, critical.event, critical.property
                ),
            );
        }
        for filter in &self.filters_installed {
            let after = after(filter.after_snapshot_ms);
            line(
                "filter",
                format!("at {}: {}{after}", filter.node, filter.what),
            );
        }
        for event in &self.blocked {
            line("blocked", event.clone());
        }
        for event in &self.would_have_blocked {
            line("would block", event.clone());
        }
        line("logs", self.directory.display().to_string());
        text
    }

    /// Tells it as a page.
    pub(super) fn page(&self) -> String {
        let text = self.text();
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
        format!(
            "<!doctype html>\n<html lang=\"en\"><title>A story</title><pre>{escaped}</pre></html>\n"
        )
    }
}
