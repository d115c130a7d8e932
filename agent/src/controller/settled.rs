//! Snapshots that show nothing new: they are not searched again, and the filters the last search proved stay.
//!
//! Where nothing happens a short period would otherwise keep a processor busy with finding the same again. A search that
//! came to its end has nothing left to find. One that ran out of its budget may come further another time, and is
//! repeated, but not all the time; what it does not find again stays proved by the search before.

use scry_protocol::link::checker::Ended;
use scry_protocol::link::host::InstallFilters;
use scry_protocol::{Digest, RunId, Snapshot};

use super::*;

/// A search that was cut short is made again after so many times as long as it took.
const REST_FACTOR: u64 = 4;
/// How often an unchanged snapshot is written down.
const LOGGED_MS: u64 = 1_000;

/// What a snapshot shows, whatever its number and age.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct View {
    members: Vec<(NodeId, Digest)>,
    missing: Vec<NodeId>,
}

impl View {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let members = snapshot.members.iter();
        let missing = snapshot.missing.iter();
        Self {
            members: members
                .map(|member| (member.node, member.body.digest()))
                .collect(),
            missing: missing.map(|missing| missing.node).collect(),
        }
    }
}

/// What was searched last, as long as that still counts.
#[derive(Debug)]
pub(super) struct Settled {
    view: View,
    run: RunId,
    /// When the same is searched again, if ever.
    again: Option<Time>,
    logged: Option<Time>,
}

impl Controller {
    /// Notes that the present run comes to its end by itself.
    pub(super) fn settle(&mut self, now: Time, ended: Ended) {
        let Some(run) = self.run.as_ref() else {
            return;
        };
        if run.host_epoch != self.host_epoch {
            return;
        }
        if ended == Ended::Budget
            && let Some(before) = self.settled.as_ref().filter(|it| it.view == run.view)
        {
            // What an earlier search of the same proved still is, however far this one came.
            for active in self.active.values_mut().filter(|it| it.run == before.run) {
                active.run = run.id;
            }
        }
        let again = match ended {
            Ended::Exhausted | Ended::Covered => None,
            Ended::Budget => {
                let took_ms = now.millis_since(run.started).max(1);
                Some(now.after_millis(took_ms.saturating_mul(REST_FACTOR)))
            }
            Ended::Cancelled | Ended::Unreadable => return,
        };
        self.settled = Some(Settled {
            view: run.view.clone(),
            run: run.id,
            again,
            logged: None,
        });
    }

    /// Takes in a snapshot if it shows just what was searched last, and tells whether it did.
    pub(super) fn pass_over(
        &mut self,
        now: Time,
        on_demand: bool,
        view: &View,
        snapshot: &Snapshot,
    ) -> bool {
        let busy = self.run.is_some() || self.pending.is_some() || self.shared.waiting_count() > 0;
        let Some(settled) = self.settled.as_ref().filter(|_| !busy) else {
            return false;
        };
        if settled.view != *view || settled.again.is_some_and(|again| now >= again) {
            return false;
        }
        let run = settled.run;
        let lately = |last: Time| now.millis_since(last) < LOGGED_MS;
        let logs = !settled.logged.is_some_and(lately);
        self.counts.snapshots_unchanged += 1;
        if logs {
            let why = "nothing has changed since it was searched";
            self.log_snapshot(run, on_demand, snapshot, "unchanged", Some(why));
            if let Some(settled) = &mut self.settled {
                settled.logged = Some(now);
            }
        }
        self.renew_filters(now, run);
        true
    }

    /// Prolongs the leases that a run proved and that are half over.
    fn renew_filters(&mut self, now: Time, run: RunId) {
        let half_ms = self.options.filter_ttl_ms / 2;
        let mut filters = Vec::new();
        for active in self.active.values_mut() {
            let proved = active.run == run && active.in_force;
            if proved && active.until.millis_since(now) < half_ms {
                active.until = now.after_millis(active.filter.ttl_ms);
                filters.push(active.filter.clone());
            }
        }
        if filters.is_empty() {
            return;
        }
        for filter in &filters {
            self.note_installed(filter.id, filter.violation, true, false);
        }
        let frame = InstallFilters { run, filters };
        self.outputs.push_back(Output::Host(frame.into()));
    }
}
