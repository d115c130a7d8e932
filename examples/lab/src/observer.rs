//! Keeps what is worth keeping of a run: marks for the timeline, join times, and what to look at first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use scry::NodeId;
use scry_protocol::record::{Record, What};
use serde::Serialize;

use crate::cluster::{Cluster, Happening, epoch_ms};
use crate::referee::Judged;
use crate::staged::Staged;

/// What kind of thing a mark is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MarkKind {
    /// The lab did something to a node.
    Fault,
    /// A violation was predicted.
    Prediction,
    /// A filter was installed.
    Filter,
    /// A filter changed what a node does.
    Change,
    /// The immediate check stopped an event.
    Veto,
    /// A property came to be broken.
    Inconsistency,
}

impl MarkKind {
    /// Every kind, in the order of a violation's incarnation.
    pub(crate) const ALL: [Self; 6] = [
        Self::Fault,
        Self::Prediction,
        Self::Filter,
        Self::Change,
        Self::Veto,
        Self::Inconsistency,
    ];

    /// Returns its name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Prediction => "prediction",
            Self::Filter => "filter",
            Self::Change => "filtered",
            Self::Veto => "veto",
            Self::Inconsistency => "INCONSISTENT",
        }
    }
}

/// Something worth showing, with its moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mark {
    /// When, in milliseconds since the start.
    pub(crate) at_ms: u64,
    /// What kind.
    pub(crate) kind: MarkKind,
    /// At which node; none if the whole cluster is meant.
    pub(crate) node: Option<NodeId>,
    /// What.
    pub(crate) text: String,
}

/// What is kept of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Observer {
    /// When it started, in milliseconds since the epoch.
    pub(crate) started_ms: u64,
    /// The marks, as they came.
    pub(crate) marks: Vec<Mark>,
    /// How long nodes took to get their place, in milliseconds.
    pub(crate) join_ms: Vec<f64>,
    /// Violations predicted, those of past paths that still lead there included, once for each run that says so.
    pub(crate) predictions: u64,
    /// How many different violations that were.
    pub(crate) violations: BTreeSet<String>,
    /// How long the first prediction took from the start of this observer, in milliseconds.
    pub(crate) first_prediction_ms: Option<u64>,
    /// Filters installed, renewals not counted.
    pub(crate) filters: u64,
    /// Searches made, and how many milliseconds they took together.
    pub(crate) searches: u64,
    /// How long all searches took together.
    pub(crate) searched_ms: u64,
    /// Where the first violation's trace is.
    pub(crate) first_trace: Option<PathBuf>,
    #[serde(skip)]
    told_by: BTreeSet<(NodeId, String)>,
    #[serde(skip)]
    joining: BTreeMap<NodeId, u64>,
}

impl Observer {
    /// Begins to observe.
    pub(crate) fn new() -> Self {
        Self {
            started_ms: epoch_ms(),
            marks: Vec::new(),
            join_ms: Vec::new(),
            predictions: 0,
            violations: BTreeSet::new(),
            first_prediction_ms: None,
            filters: 0,
            searches: 0,
            searched_ms: 0,
            first_trace: None,
            told_by: BTreeSet::new(),
            joining: BTreeMap::new(),
        }
    }

    /// Takes note of what happened, and returns how many marks that made.
    pub(crate) fn take<S: Staged>(
        &mut self,
        happening: &Happening,
        cluster: &Cluster<S>,
        directory: &Path,
    ) -> usize {
        let before = self.marks.len();
        match happening {
            Happening::Event(judged) => self.event(judged, cluster),
            Happening::Record(record) => self.record(record, directory),
        }
        self.marks.len() - before
    }

    /// Takes note of what the lab does itself.
    pub(crate) fn fault(&mut self, node: NodeId, text: String) {
        self.mark(epoch_ms(), MarkKind::Fault, Some(node), text);
    }

    fn event<S: Staged>(&mut self, judged: &Judged, cluster: &Cluster<S>) {
        let told = &judged.told;
        let has_place = cluster
            .referee
            .state(told.node)
            .is_some_and(|state| state.has_place(told.node));
        match told.kind.as_str() {
            "call" if !has_place => {
                self.joining.entry(told.node).or_insert(told.at_ms);
            }
            // Whoever is reset before it has a place begins anew.
            "reset" | "shutdown" => drop(self.joining.remove(&told.node)),
            _ if has_place => {
                if let Some(since) = self.joining.remove(&told.node) {
                    self.join_ms.push(told.at_ms.saturating_sub(since) as f64);
                }
            }
            _ => {}
        }
        let node = Some(told.node);
        match told.verdict.as_str() {
            "veto" => {
                let property = told.property.as_deref().unwrap_or("a property");
                let text = format!("{} stopped: it would break \"{property}\"", told.event);
                self.mark(told.at_ms, MarkKind::Veto, node, text);
            }
            verdict @ ("drop" | "reset" | "postpone" | "refuse" | "hold") => {
                let text = format!("{} — {verdict}", told.event);
                self.mark(told.at_ms, MarkKind::Change, node, text);
            }
            _ => {}
        }
        for change in judged.changes.iter().filter(|change| change.broken) {
            let mut text = format!("\"{}\" is broken", change.property);
            if !change.explanation.is_empty() {
                text += &format!(": {}", change.explanation);
            }
            text += &format!(" (after {} {})", told.kind, told.event);
            self.mark(change.at_ms, MarkKind::Inconsistency, node, text);
        }
    }

    fn record(&mut self, record: &Record, directory: &Path) {
        let node = record.node.0;
        let at_ms = record.time.as_millis();
        let violation = record.entry.violation;
        match &record.entry.what {
            What::Violation {
                property,
                explanation,
                depth,
                trace,
                ..
            } if *depth > 0 => {
                if let (None, Some(trace)) = (&self.first_trace, trace) {
                    let folder = directory.join(node.to_string()).join("log").join("traces");
                    self.first_trace = Some(folder.join(trace));
                }
                let violation = violation.map(|violation| violation.to_string());
                if self.predicted(at_ms, node, violation) {
                    let what = match explanation.is_empty() {
                        true => property,
                        false => explanation,
                    };
                    let text = format!("in {depth} steps: {what}");
                    self.mark(at_ms, MarkKind::Prediction, Some(node), text);
                }
            }
            What::Replay {
                confirmed: true, ..
            } => {
                let violation = violation.map(|violation| violation.to_string());
                self.predicted(at_ms, node, violation);
            }
            What::FilterInstalled {
                filters,
                renewed: false,
                ..
            } => {
                self.filters += 1;
                self.mark(at_ms, MarkKind::Filter, Some(node), filters.clone());
            }
            What::Run { elapsed_ms, .. } => {
                self.searches += 1;
                self.searched_ms += elapsed_ms;
            }
            _ => {}
        }
    }

    /// Counts a prediction, and tells whether this node had not made it before.
    fn predicted(&mut self, at_ms: u64, node: NodeId, violation: Option<String>) -> bool {
        self.predictions += 1;
        let took = at_ms.saturating_sub(self.started_ms);
        self.first_prediction_ms.get_or_insert(took);
        let Some(violation) = violation else {
            return true;
        };
        let is_news = self.told_by.insert((node, violation.clone()));
        self.violations.insert(violation);
        is_news
    }

    fn mark(&mut self, at_ms: u64, kind: MarkKind, node: Option<NodeId>, text: String) {
        self.marks.push(Mark {
            at_ms: at_ms.saturating_sub(self.started_ms),
            kind,
            node,
            text,
        });
    }
}
