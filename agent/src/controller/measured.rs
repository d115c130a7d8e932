//! What is measured beside what is counted: how long things take, and counts for each property.

use scry_protocol::Times;
use scry_protocol::limit::HARM_MAX;
use serde::Serialize;

use super::*;

/// How long things took since the agent started.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Durations {
    /// Gathering a snapshot.
    pub gather: Times,
    /// A search, from the job to its end, however it ended.
    pub search: Times,
    /// An event that was held while the neighbors were asked.
    pub hold: Times,
    /// An event that waited for its trial by the immediate check.
    pub check: Times,
    /// From a complete snapshot to a filter because of it. Filters that the service was asked about first are not in it.
    pub prediction_to_filter: Times,
}

/// What was counted for one property since the agent started.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct PropertyCounts {
    /// Violations predicted, each once a run.
    pub predictions: u64,
    /// Violations that a snapshot showed to have happened.
    pub violations: u64,
    /// Events that the immediate check kept from their handlers.
    pub vetoes: u64,
    /// Events that it would have kept from them.
    pub audit_vetoes: u64,
    /// Filters installed, renewals not counted.
    pub filters_installed: u64,
}

/// Counts by property. Names come from the service and its checker, so that their number has a limit.
#[derive(Debug, Default)]
pub(super) struct ByProperty(BTreeMap<String, PropertyCounts>);

impl ByProperty {
    /// Returns the counts of a property; those beyond the limit share one without a name.
    pub(super) fn of(&mut self, property: &str) -> &mut PropertyCounts {
        let is_full = self.0.len() >= HARM_MAX && !self.0.contains_key(property);
        let name = if is_full { "" } else { property };
        self.0.entry(name.to_owned()).or_default()
    }

    /// Returns what was counted for a property so far.
    pub(super) fn get(&self, property: &str) -> PropertyCounts {
        self.0.get(property).cloned().unwrap_or_default()
    }

    /// Lists the properties something was counted for.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys().filter(|name| !name.is_empty())
    }
}
