//! What an operator may ask at any time, as `/status` answers it.

use scry_protocol::RunId;
use scry_protocol::record::{Shown, describe};
use serde::Serialize;

use super::*;

/// How a controller is doing.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Status {
    /// The node.
    pub node: Shown<NodeId>,
    /// How much may be done at all.
    pub mode: Word<Mode>,
    /// Properties with a mode of their own.
    pub property_modes: BTreeMap<String, Word<Mode>>,
    /// The host, if one is attached.
    pub host: Option<HostStatus>,
    /// Whether a checker is up.
    pub checker_ready: bool,
    /// The run that goes on.
    pub run: Option<RunStatus>,
    /// Whether a snapshot waits for the checker.
    pub snapshot_waits: bool,
    /// The last run.
    pub last_run: Option<LastRun>,
    /// The filters in force.
    pub filters: Vec<FilterStatus>,
    /// Past paths that are kept.
    pub past_paths: usize,
    /// Neighbors' paths that wait for a snapshot.
    pub shared_paths_waiting: usize,
    /// What was counted.
    pub counts: Counts,
}

/// The attached host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct HostStatus {
    /// The service's name.
    pub service: String,
    /// The service's version.
    pub version: String,
    /// Which life.
    pub incarnation: u64,
}

/// The run that goes on.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct RunStatus {
    /// Its name.
    pub run: Shown<RunId>,
    /// For how long, in milliseconds.
    pub elapsed_ms: u64,
    /// States visited so far.
    pub states: u64,
    /// The deepest so far.
    pub depth: u32,
}

/// A run that ended.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct LastRun {
    /// Its name.
    pub run: Shown<RunId>,
    /// How it ended.
    pub ended: String,
    /// States visited.
    pub states: u64,
    /// The deepest.
    pub depth: u32,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// The age of its snapshot's oldest checkpoint at its end, in milliseconds.
    pub snapshot_age_ms: u64,
    /// Neighbors whose checkpoints were missing.
    pub missing: u32,
    /// Violations predicted.
    pub violations: u32,
    /// Filters installed or renewed.
    pub installed: u32,
}

/// A filter in force.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FilterStatus {
    /// Its name.
    pub filter: Shown<FilterId>,
    /// The violation it prevents.
    pub violation: Shown<ViolationId>,
    /// The run that last proved it.
    pub run: Shown<RunId>,
    /// The property it protects.
    pub property: String,
    /// What it does, to what.
    pub filters: String,
    /// How much it may do.
    pub mode: Word<Mode>,
    /// How often it matched.
    pub hits: u64,
    /// How long its lease still lasts, in milliseconds.
    pub left_ms: u64,
}

impl Controller {
    /// Tells how this controller is doing.
    pub fn status(&self, now: Time) -> Status {
        let modes = self.options.property_modes.iter();
        Status {
            node: Shown(self.me),
            mode: Word(self.options.mode),
            property_modes: modes
                .map(|(property, &mode)| (property.clone(), Word(mode)))
                .collect(),
            host: self.host.as_ref().map(|host| HostStatus {
                service: host.service.clone(),
                version: host.version.clone(),
                incarnation: host.incarnation.get(),
            }),
            checker_ready: self.checker_ready,
            run: self.run.as_ref().map(|run| RunStatus {
                run: Shown(run.id),
                elapsed_ms: now.millis_since(run.started),
                states: run.states,
                depth: run.depth,
            }),
            snapshot_waits: self.pending.is_some(),
            last_run: self.last_run.clone(),
            filters: self
                .active
                .values()
                .filter(|active| active.in_force)
                .map(|active| shown(now, active))
                .collect(),
            past_paths: self.paths.len(),
            shared_paths_waiting: self.shared.waiting_count(),
            counts: self.counts.clone(),
        }
    }
}

fn shown(now: Time, active: &leases::Active) -> FilterStatus {
    FilterStatus {
        filter: Shown(active.filter.id),
        violation: Shown(active.filter.violation),
        run: Shown(active.run),
        property: active.filter.property.clone(),
        filters: describe(&active.filter),
        mode: Word(active.filter.mode),
        hits: active.hits,
        left_ms: active.until.millis_since(now),
    }
}
