//! What an operator may ask at any time, as `/status` answers it.

use scry_protocol::RunId;
use scry_protocol::link::host::Held;
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
    /// Properties in another mode than the global one.
    pub property_modes: BTreeMap<String, Word<Mode>>,
    /// What is known of each property.
    pub properties: Vec<PropertyStatus>,
    /// How much the service got done without filters that act.
    pub pace_free: harm::Pace,
    /// And with such filters in force, of late.
    pub pace_steered: harm::Pace,
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
    /// Members that runs go on without.
    pub left_out: Vec<LeftOutStatus>,
    /// The filters in force.
    pub filters: Vec<FilterStatus>,
    /// Past paths that are kept.
    pub past_paths: usize,
    /// Neighbors' paths that wait for a snapshot.
    pub shared_paths_waiting: usize,
    /// What was counted.
    pub counts: Counts,
    /// How long things took.
    pub durations: measured::Durations,
}

/// One property.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct PropertyStatus {
    /// Its name.
    pub property: String,
    /// How much may be done about it.
    pub mode: Word<Mode>,
    /// What keeps that from being more.
    pub why: Option<String>,
    /// Why the last run could not judge it, if so.
    pub unjudged: Option<String>,
    /// In how many runs in a row.
    pub unjudged_runs: u64,
    /// Messages dropped for its sake since the agent started.
    pub dropped: u64,
    /// Connections reset.
    pub reset: u64,
    /// Calls refused.
    pub refused: u64,
    /// Events put off.
    pub delayed: u64,
    /// Thousandths of the node's actions that it cost of late.
    pub lost_per_mille: u64,
    /// Its filters in force.
    pub filters: u64,
    /// What else was counted.
    #[serde(flatten)]
    pub counts: measured::PropertyCounts,
}

/// The attached host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct HostStatus {
    /// The service's name.
    pub service: String,
    /// The service's version.
    pub version: String,
    /// Which incarnation.
    pub incarnation: u64,
    /// What forbids steering at the host itself, as it last said.
    pub held_off_by: Option<String>,
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

/// A member that runs go on without, because of what its state does to whoever works with it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct LeftOutStatus {
    /// The member.
    pub node: Shown<NodeId>,
    /// Why.
    pub why: String,
    /// In how many milliseconds it is tried again; nothing if every run tries.
    pub again_ms: Option<u64>,
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
        let properties = self.property_status();
        let (pace_free, pace_steered) = self.harm.paces();
        Status {
            node: Shown(self.me),
            mode: Word(self.options.mode),
            property_modes: properties
                .iter()
                .filter(|property| property.mode.0 != self.options.mode)
                .map(|property| (property.property.clone(), property.mode))
                .collect(),
            properties,
            pace_free,
            pace_steered,
            host: self.host.as_ref().map(|host| HostStatus {
                service: host.service.clone(),
                version: host.version.clone(),
                incarnation: host.incarnation.get(),
                held_off_by: (host.stats.held != Held::No).then(|| host.stats.held.to_string()),
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
            left_out: self
                .left_out
                .iter()
                .filter(|(_, absence)| absence.until.is_none_or(|until| now < until))
                .map(|(&node, absence)| LeftOutStatus {
                    node: Shown(node),
                    why: absence.why.clone(),
                    again_ms: absence.until.map(|until| until.millis_since(now)),
                })
                .collect(),
            filters: self
                .active
                .values()
                .filter(|active| active.in_force)
                .map(|active| shown(now, active))
                .collect(),
            past_paths: self.paths.len(),
            shared_paths_waiting: self.shared.waiting_count(),
            counts: self.counts.clone(),
            durations: self.durations.clone(),
        }
    }
}

impl Controller {
    fn property_status(&self) -> Vec<PropertyStatus> {
        let of = |property: String| {
            let allowed = self.allowed(&property);
            let harm = self.harm.total().get(&property);
            let harm = harm.cloned().unwrap_or_default();
            let unjudged = self.unjudged.get(&property);
            let in_force =
                |active: &&leases::Active| active.in_force && active.filter.property == property;
            let filters = self.active.values().filter(in_force).count();
            PropertyStatus {
                mode: Word(allowed.mode),
                why: allowed.why,
                unjudged: unjudged.map(|unjudged| unjudged.why.clone()),
                unjudged_runs: unjudged.map_or(0, |unjudged| unjudged.runs),
                dropped: harm.dropped,
                reset: harm.reset,
                refused: harm.refused,
                delayed: harm.delayed,
                lost_per_mille: self.harm.lost_per_mille(&property),
                filters: filters as u64,
                counts: self.by_property.get(&property),
                property,
            }
        };
        self.properties().into_iter().map(of).collect()
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
