//! What the steering logs of a cluster say, read as an operator would.

use std::collections::BTreeMap;
use std::path::Path;

use scry::NodeId;
use scry_protocol::record::{Record, What};
use serde::Serialize;

/// All records of all agents.
#[derive(Debug)]
pub(super) struct Evidence {
    logs: BTreeMap<NodeId, Vec<Record>>,
}

/// What agents must have come to before the story goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// A filter in force at one of these nodes.
    pub(super) filter: Option<&'a [NodeId]>,
    /// Searches that ended.
    pub(super) runs: bool,
}

/// A filter that went to a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Installed {
    /// The node.
    pub(super) node: NodeId,
    /// What it does, to what.
    pub(super) what: String,
    /// The property it protects.
    pub(super) property: String,
    /// When, in milliseconds since the epoch.
    #[serde(skip)]
    pub(super) at_ms: u64,
    /// How long after the snapshot was complete, in milliseconds.
    pub(super) after_snapshot_ms: Option<u64>,
}

/// An event after which it would have been too late for a property, as an agent predicted it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Critical {
    /// The node whose agent said so.
    pub(super) node: NodeId,
    /// The event and its node.
    pub(super) event: String,
    /// The property.
    pub(super) property: String,
}

/// How many snapshots must show a situation. All but the last word an agent gave its host before the second was complete
/// has arrived: the host has answered for the second on the same link.
const SNAPSHOTS: usize = 2;

impl Evidence {
    /// Reads the logs of these nodes. An agent that has written nothing has nothing to say.
    pub(super) fn read(directory: &Path, members: &[NodeId]) -> Self {
        let log = |node: &NodeId| {
            let file = directory.join(node.to_string()).join("log/steering.jsonl");
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let records = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            (*node, records.collect())
        };
        Self {
            logs: members.iter().map(log).collect(),
        }
    }

    /// Tells whether every agent has seen the whole situation since a moment, and come to what is wanted.
    pub(super) fn shows(&self, members: &[NodeId], since_ms: u64, wanted: Wanted<'_>) -> bool {
        let has_filter = wanted.filter.is_none_or(|nodes| {
            let mut logs = nodes.iter().filter_map(|node| self.logs.get(node));
            logs.any(|log| has_filter_in_force(log))
        });
        has_filter
            && self.logs.values().all(|log| {
                let later = || log.iter().filter(|it| it.time.as_millis() > since_ms);
                let whole: Vec<_> = later()
                    .filter(|it| is_whole(it, members.len()))
                    .filter_map(|it| it.entry.run)
                    .collect();
                let runs = later().filter(|it| {
                    let is_of_whole = it.entry.run.is_some_and(|run| whole.contains(&run));
                    is_of_whole && is_searched(it)
                });
                whole.len() >= SNAPSHOTS && (!wanted.runs || runs.count() >= SNAPSHOTS)
            })
    }

    /// Returns how often agents said what they would have blocked.
    pub(super) fn would_block(&self) -> u64 {
        self.count(|what| {
            matches!(
                what,
                What::FilterHit { acted: false, .. } | What::Veto { acted: false, .. }
            )
        })
    }

    /// Returns how often filters acted.
    pub(super) fn filter_hits(&self) -> u64 {
        self.count(|what| matches!(what, What::FilterHit { acted: true, .. }))
    }

    /// Returns how often the immediate check acted.
    pub(super) fn vetoes(&self) -> u64 {
        self.count(|what| matches!(what, What::Veto { acted: true, .. }))
    }

    /// Returns what would have been blocked, in words.
    pub(super) fn would_have(&self) -> Vec<String> {
        self.words(false)
    }

    /// Returns what was blocked, in words.
    pub(super) fn blocked(&self) -> Vec<String> {
        self.words(true)
    }

    /// Returns how often a violation was predicted.
    pub(super) fn predictions(&self) -> u64 {
        self.count(|what| {
            matches!(
                what,
                What::Violation { depth: 1.., .. }
                    | What::Replay {
                        confirmed: true,
                        ..
                    }
            )
        })
    }

    /// Returns how long after its snapshot was complete the first violation was predicted, in milliseconds.
    pub(super) fn prediction_ms(&self) -> Option<u64> {
        let is_one = |it: &&Record| matches!(it.entry.what, What::Violation { depth: 1.., .. });
        let first = self.all().filter(is_one).min_by_key(|it| it.time)?;
        self.after_snapshot_ms(first)
    }

    /// Returns the filters that were installed, the first one first; renewals are not counted.
    pub(super) fn installed(&self) -> Vec<Installed> {
        let mut installed: Vec<Installed> = self
            .all()
            .filter_map(|record| match &record.entry.what {
                What::FilterInstalled {
                    filters,
                    property,
                    renewed: false,
                    ..
                } => Some(Installed {
                    node: record.node.0,
                    what: filters.clone(),
                    property: property.clone(),
                    at_ms: record.time.as_millis(),
                    after_snapshot_ms: self.after_snapshot_ms(record),
                }),
                _ => None,
            })
            .collect();
        installed.sort_by_key(|it| it.at_ms);
        installed
    }

    /// Returns the critical transitions that were predicted, each once for a node.
    pub(super) fn critical(&self) -> Vec<Critical> {
        let mut all: Vec<Critical> = Vec::new();
        for record in self.all() {
            if let What::Violation {
                critical: Some(event),
                property,
                ..
            } = &record.entry.what
            {
                let critical = Critical {
                    node: record.node.0,
                    event: event.clone(),
                    property: property.clone(),
                };
                if !all.contains(&critical) {
                    all.push(critical);
                }
            }
        }
        all
    }

    fn all(&self) -> impl Iterator<Item = &Record> {
        self.logs.values().flatten()
    }

    fn count(&self, fits: impl Fn(&What) -> bool) -> u64 {
        self.all().filter(|it| fits(&it.entry.what)).count() as u64
    }

    fn words(&self, wanted: bool) -> Vec<String> {
        let words = self.all().filter_map(|record| {
            let (by, event, acted) = match &record.entry.what {
                What::FilterHit { event, acted, .. } => ("filter", event, *acted),
                What::Veto { event, acted, .. } => ("immediate check", event, *acted),
                _ => return None,
            };
            (acted == wanted).then(|| format!("{}: {event} ({by})", record.node))
        });
        words.collect()
    }

    /// Returns how long after the snapshot of its run a record was written.
    fn after_snapshot_ms(&self, record: &Record) -> Option<u64> {
        let run = record.entry.run?;
        let log = self.logs.get(&record.node.0)?;
        let snapshot = log.iter().find(|it| {
            it.entry.run == Some(run) && matches!(it.entry.what, What::Snapshot { .. })
        })?;
        let since = snapshot.time.as_millis();
        Some(record.time.as_millis().saturating_sub(since))
    }
}

/// Tells whether there is a filter, and the host has answered since it came: it has it.
fn has_filter_in_force(log: &[Record]) -> bool {
    let mut active = BTreeMap::new();
    for (at, record) in log.iter().enumerate() {
        match (&record.entry.what, record.entry.filter) {
            (What::FilterInstalled { .. }, Some(filter)) => {
                active.entry(filter).or_insert(at);
            }
            (What::FilterLapsed { .. }, Some(filter)) => drop(active.remove(&filter)),
            _ => {}
        }
    }
    active.values().any(|&at| {
        let later = log[at..].iter();
        later.filter(|it| is_whole(it, 1)).count() >= SNAPSHOTS
    })
}

/// Tells whether a snapshot has so many members and lacks nobody.
fn is_whole(record: &Record, count: usize) -> bool {
    matches!(&record.entry.what, What::Snapshot { members, missing, fate, .. }
        if members.len() >= count
            && missing.is_empty()
            && ["searched", "waits", "unchanged"].contains(&fate.as_str()))
}

/// Tells whether a record says that all a snapshot shows was searched, by a run that came to its own end or by one before.
fn is_searched(record: &Record) -> bool {
    match &record.entry.what {
        What::Run { ended, .. } => ended == "exhausted" || ended == "budget",
        What::Snapshot { fate, .. } => fate == "unchanged",
        _ => false,
    }
}
