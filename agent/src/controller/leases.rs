//! Filters as leases: which of the checker's remedies are installed, for how long, and when they are withdrawn.

use scry_protocol::RunId;
use scry_protocol::filter::{Action, Filter, Matcher};
use scry_protocol::limit::FILTERS_MAX;
use scry_protocol::link::host::{
    FilterEnd, FilterEnded, FilterHit, InstallFilters, Predicted, PredictionAnswer, WithdrawFilters,
};
use scry_protocol::record::{Shown, describe};

use super::running::Run;
use super::*;

/// How long after its lease a filter is still counted, in case the hook's word about it is on its way.
const OVERDUE_MS: u64 = 2_000;
/// How many disarmed filters are remembered.
const DISARMED_MAX: usize = 256;
/// How long events are looked at of which one was predicted to break something. That takes nothing from the service, and where there
/// was one path to a violation there are others, most of them too short-lived to be predicted in time.
const CHECK_TTL_MS: u64 = 600_000;

/// A filter that the host has, or will have unless the service handles what it prevents.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub(super) filter: Filter,
    /// The run that last proved it.
    pub(super) run: RunId,
    /// When its lease ends, by a clock that never goes back.
    pub(super) until: Time,
    pub(super) hits: u64,
    /// Whether the host acts on it, as far as is known here.
    pub(super) in_force: bool,
    /// Violations about which the service was asked and has not answered.
    asked: BTreeSet<ViolationId>,
    /// Whether something in this run relies on it.
    relied_on: bool,
    /// The violations it was proved to prevent.
    prevents: BTreeSet<ViolationId>,
    /// The nodes whose states it was proved with.
    proved_with: BTreeSet<NodeId>,
}

impl Active {
    pub(super) fn overdue(&self) -> Time {
        self.until.after_millis(OVERDUE_MS)
    }

    /// Tells whether a run that has not proved it again says by that that the danger is over. One that was cut short says so
    /// only by its replays.
    fn is_dropped_by(&self, run: &Run) -> bool {
        if self.only_checks() {
            return false;
        }
        let unproved = self.run != run.id && self.is_judged_by(run);
        unproved && (!run.cut_short || self.prevents.is_empty())
    }

    /// Tells whether it only has events looked at, which takes nothing from the service.
    pub(super) fn only_checks(&self) -> bool {
        self.filter.action == Action::Check
    }

    /// Tells whether a run can say that the danger is over. One whose snapshot lacks a node with whose state the filter
    /// was proved, because nothing was heard of it, cannot: that node may be just as it was, and who is cut off is often
    /// the very one that a violation is about.
    fn is_judged_by(&self, run: &Run) -> bool {
        self.proved_with.is_disjoint(&run.unheard)
    }
}

/// What a filter did that blocked too much: it may only watch for a while.
#[derive(Clone, Debug)]
pub(super) struct Disarmed {
    matcher: Matcher,
    action: Action,
    pub(super) until: Time,
}

/// A prediction for which a filter is sought.
pub(super) struct Case<'a> {
    pub(super) run: RunId,
    pub(super) violation: ViolationId,
    pub(super) property: &'a str,
    pub(super) explanation: &'a str,
    pub(super) path: &'a [u8],
    /// Where the proof comes from: `search` or `replay`.
    pub(super) by: &'static str,
    /// Why nothing may be installed whatever is proposed, if so.
    pub(super) forbidden: Option<&'a str>,
    /// Why there is no remedy, if there is none.
    pub(super) unhelpful: &'a str,
}

impl Controller {
    /// Takes the first remedy that may be installed, and tells how much the installed one may do.
    pub(super) fn remedy(
        &mut self,
        now: Time,
        case: &Case<'_>,
        remedies: Vec<Filter>,
    ) -> Option<Mode> {
        if remedies.is_empty() {
            self.counts.unhelpful += 1;
            let why = match case.unhelpful {
                "" => "nothing safe was found",
                why => why,
            };
            self.reject(case, None, why);
            return None;
        }
        for mut filter in remedies {
            if filter.property.is_empty() {
                filter.property = case.property.to_owned();
            }
            filter.violation = case.violation;
            let twin = self.twin(&filter);
            filter.id = twin.unwrap_or_else(|| FilterId::new(self.paths.next_filter()));
            let what = What::FilterProposed {
                property: filter.property.clone(),
                filters: describe(&filter),
                action: Word(filter.action),
            };
            self.log(case.entry(what).of_filter(filter.id));
            if let Some(why) = self.objection(case, &filter, twin.is_some()) {
                self.counts.filters_rejected += 1;
                self.reject(case, Some(filter.id), &why);
                continue;
            }
            let what = What::FilterProved {
                property: filter.property.clone(),
                by: case.by.to_owned(),
            };
            self.log(case.entry(what).of_filter(filter.id));
            return Some(self.put_in_force(now, case, filter));
        }
        None
    }

    /// An installed filter that does the same.
    fn twin(&self, filter: &Filter) -> Option<FilterId> {
        let same = |active: &&Active| {
            active.filter.matcher == filter.matcher
                && active.filter.action == filter.action
                && active.filter.property == filter.property
        };
        self.active
            .values()
            .find(same)
            .map(|active| active.filter.id)
    }

    fn objection(&self, case: &Case<'_>, filter: &Filter, renewed: bool) -> Option<String> {
        if let Some(why) = case.forbidden {
            return Some(why.to_owned());
        }
        if self.mode_of(&filter.property) == Mode::Off {
            return Some("its property is switched off".to_owned());
        }
        let is_elsewhere = match &filter.matcher {
            Matcher::Message { destination, .. } => *destination != self.me,
            Matcher::Timer { .. } | Matcher::Call { .. } | Matcher::Disconnect { .. } => false,
        };
        if is_elsewhere || !filter.matcher.admits(filter.action) {
            return Some("it is not for events of this node".to_owned());
        }
        let max = self.options.filters_max.min(FILTERS_MAX);
        if !renewed && self.active.len() >= max {
            return Some(format!("there are {max} filters already"));
        }
        None
    }

    fn reject(&mut self, case: &Case<'_>, filter: Option<FilterId>, why: &str) {
        let mut entry = case.entry(What::FilterRejected {
            property: case.property.to_owned(),
            why: why.to_owned(),
        });
        entry.filter = filter.map(Shown);
        self.log(entry);
    }

    /// Installs a filter, or asks the service first.
    fn put_in_force(&mut self, now: Time, case: &Case<'_>, mut filter: Filter) -> Mode {
        let mode = self.prepare(case, &mut filter);
        // The service is only asked where it may also act: audit never touches it.
        if self.options.tell_service && mode == Mode::Steer {
            self.tell_service(now, case, filter);
            return mode;
        }
        let id = filter.id;
        let there = self.active.get(&id);
        let renewed = there.is_some_and(|active| active.in_force);
        if let Some(active) = self
            .active
            .get_mut(&id)
            .filter(|active| active.run == case.run && active.in_force)
        {
            // Another violation of this run is prevented by the same filter, whose lease has just begun.
            active.prevents.insert(case.violation);
            return active.filter.mode;
        }
        let frame = InstallFilters {
            run: case.run,
            filters: vec![filter.clone()],
        };
        self.outputs.push_back(Output::Host(frame.into()));
        let active = self.keep(now, case.run, filter);
        active.in_force = true;
        active.relied_on = true;
        if let Some(run) = self.run.as_ref().filter(|_| !renewed) {
            let elapsed_ms = run.since_snapshot_ms(now);
            self.durations.prediction_to_filter.note_ms(elapsed_ms);
        }
        self.note_installed(id, case.violation, renewed, false);
        mode
    }

    /// Sets what is the agent's to set, and returns how much the filter may do.
    fn prepare(&self, case: &Case<'_>, filter: &mut Filter) -> Mode {
        let disarmed = self
            .disarmed
            .iter()
            .any(|disarmed| disarmed.matcher == filter.matcher && disarmed.action == filter.action);
        let allowed = self.mode_of(&filter.property);
        filter.mode = if disarmed {
            allowed.min(Mode::Audit)
        } else {
            allowed
        };
        filter.ttl_ms = match filter.action {
            Action::Check => CHECK_TTL_MS.max(self.options.filter_ttl_ms),
            _ => self.options.filter_ttl_ms,
        };
        filter.hits_max = self.options.filter_hits_max;
        if filter.reason.is_empty() {
            filter.reason = format!("{}: {}", case.violation, case.explanation);
            truncate(&mut filter.reason, scry_protocol::limit::TEXT_BYTES_MAX);
        }
        filter.mode
    }

    /// Tells the service of a violation, once a run.
    fn tell_service(&mut self, now: Time, case: &Case<'_>, filter: Filter) {
        let run = self.run.as_mut().expect("only a run predicts");
        if !run.told.insert(case.violation) {
            return;
        }
        self.counts.predictions_told += 1;
        let what = What::PredictionTold {
            property: filter.property.clone(),
            filters: describe(&filter),
        };
        self.log(case.entry(what).of_filter(filter.id));
        let frame = Box::new(Predicted {
            violation: case.violation,
            property: filter.property.clone(),
            explanation: case.explanation.to_owned(),
            path: case.path.to_vec(),
            filters: vec![filter.clone()],
        });
        self.outputs.push_back(Output::Host(frame.into()));
        let active = self.keep(now, case.run, filter);
        active.asked.insert(case.violation);
    }

    /// Keeps a filter of a run, whose lease begins now.
    fn keep(&mut self, now: Time, run: RunId, filter: Filter) -> &mut Active {
        let until = now.after_millis(filter.ttl_ms);
        let before = self.active.remove(&filter.id);
        let same_run = before.as_ref().is_some_and(|before| before.run == run);
        let of_run = self.run.as_ref().filter(|running| running.id == run);
        let proved_with = of_run.map(|run| run.shown.clone()).unwrap_or_default();
        let before = before.unwrap_or(Active {
            filter: filter.clone(),
            run,
            until,
            hits: 0,
            in_force: false,
            asked: BTreeSet::new(),
            relied_on: false,
            prevents: BTreeSet::new(),
            proved_with: BTreeSet::new(),
        });
        let mut prevents = before.prevents;
        prevents.insert(filter.violation);
        let active = Active {
            filter,
            run,
            until,
            hits: before.hits,
            in_force: before.in_force,
            asked: before.asked,
            relied_on: same_run && before.relied_on,
            prevents,
            proved_with,
        };
        self.active.entry(active.filter.id).or_insert(active)
    }

    /// The service has said what it does about a violation. A filter that several violations wait for stays as long as
    /// one of them is left to it.
    pub(super) fn prediction_answered(&mut self, answer: &PredictionAnswer) {
        let mut was_asked = false;
        for &id in &answer.filters {
            let Some(active) = self.active.get_mut(&id) else {
                continue;
            };
            if !active.asked.remove(&answer.violation) {
                continue;
            }
            let entry = Entry::new(What::PredictionAnswer {
                property: active.filter.property.clone(),
                handled: answer.handled,
            });
            let entry = entry.of_run(active.run).of_violation(answer.violation);
            let renewed = active.in_force;
            let mut over = false;
            if answer.handled {
                over = active.asked.is_empty() && !active.relied_on;
            } else {
                active.in_force = true;
                active.relied_on = true;
            }
            self.log(entry.of_filter(id));
            if !std::mem::replace(&mut was_asked, true) {
                self.counts.predictions_handled += u64::from(answer.handled);
            }
            if over && renewed {
                self.withdraw(&[id], "handled-by-service");
            } else if over {
                self.active.remove(&id);
            } else if !answer.handled {
                self.note_installed(id, answer.violation, renewed, true);
            }
        }
    }

    pub(super) fn note_installed(
        &mut self,
        id: FilterId,
        violation: ViolationId,
        renewed: bool,
        told_service: bool,
    ) {
        let Some(active) = self.active.get(&id) else {
            return;
        };
        let (filter, run) = (&active.filter, active.run);
        let what = What::FilterInstalled {
            property: filter.property.clone(),
            filters: describe(filter),
            action: Word(filter.action),
            mode: Word(filter.mode),
            ttl_ms: filter.ttl_ms,
            hits_max: filter.hits_max,
            renewed,
            told_service,
        };
        if !renewed {
            let of_property = self.by_property.of(&filter.property);
            of_property.filters_installed += 1;
        }
        let entry = Entry::new(what).of_run(run).of_violation(violation);
        self.log(entry.of_filter(id));
        if renewed {
            self.counts.filters_renewed += 1;
        } else {
            self.counts.filters_installed += 1;
        }
        if let Some(current) = self.run.as_mut().filter(|current| current.id == run) {
            current.installed += 1;
        }
    }

    /// Takes filters back from the host.
    pub(super) fn withdraw(&mut self, filters: &[FilterId], why: &str) {
        if filters.is_empty() {
            return;
        }
        if self.host.is_some() {
            let frame = WithdrawFilters {
                filters: Some(filters.to_vec()),
            };
            self.outputs.push_back(Output::Host(frame.into()));
        }
        for id in filters {
            if let Some(active) = self.active.remove(id) {
                self.lapse(&active, why, active.hits);
            }
        }
    }

    /// what the run that ends could have proved again and did not falls; what it could not judge stays as long as
    /// its lease. Returns how many fell.
    pub(super) fn withdraw_unproved(&mut self, run: &Run) -> u32 {
        let unproved = self
            .active
            .iter()
            .filter(|(_, active)| active.is_dropped_by(run));
        let unproved: Vec<FilterId> = unproved.map(|(id, _)| *id).collect();
        self.withdraw(&unproved, "not-proved-again");
        u32::try_from(unproved.len()).unwrap_or(u32::MAX)
    }

    /// A path that led to a violation does so no longer. A filter on a call or a timer that no other prediction needs falls
    /// now, not with its lease or the end of the run. One on a message stays until the run ends without proving it: the
    /// message it has dropped is not on its way any more, but may be sent again.
    pub(super) fn danger_passed(&mut self, violation: ViolationId) {
        let Some(run) = &self.run else {
            return;
        };
        let mut over = Vec::new();
        for (&id, active) in &mut self.active {
            if !active.is_judged_by(run) || active.only_checks() {
                continue;
            }
            let waits = matches!(active.filter.matcher, Matcher::Message { .. });
            let was_last = active.prevents.remove(&violation) && active.prevents.is_empty();
            if was_last && !waits && active.run != run.id {
                over.push(id);
            }
        }
        self.withdraw(&over, "danger-passed");
    }

    /// The hook has dropped all of them by itself.
    pub(super) fn forget_filters(&mut self, why: &str) {
        for active in std::mem::take(&mut self.active).into_values() {
            self.lapse(&active, why, active.hits);
            if active.only_checks() && active.in_force {
                self.checks.push(active);
            }
        }
    }

    /// A host that was restarted goes on to look at what its earlier incarnation looked at.
    pub(super) fn resume_checks(&mut self, now: Time) {
        for mut active in std::mem::take(&mut self.checks) {
            let left_ms = active.until.millis_since(now);
            if left_ms == 0 || self.mode_of(&active.filter.property) == Mode::Off {
                continue;
            }
            active.filter.ttl_ms = left_ms;
            active.filter.mode = self.mode_of(&active.filter.property);
            let frame = InstallFilters {
                run: active.run,
                filters: vec![active.filter.clone()],
            };
            self.outputs.push_back(Output::Host(frame.into()));
            let (id, violation) = (active.filter.id, active.filter.violation);
            self.active.insert(id, active);
            self.note_installed(id, violation, true, false);
        }
    }

    /// The hook ends leases by itself; this is for those of whose end nothing was heard.
    pub(super) fn expire_filters(&mut self, now: Time) {
        let over: Vec<FilterId> = self
            .active
            .iter()
            .filter(|(_, active)| active.overdue() <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            if let Some(active) = self.active.remove(&id) {
                self.lapse(&active, "lapsed", active.hits);
            }
        }
    }

    /// A filter that acted takes something from the service: whether it still must is looked at as soon as possible.
    pub(super) fn look_again(&mut self, now: Time) {
        if now >= self.gather_after {
            self.gather_after = now.after_millis(self.options.hit_pause_ms);
            self.counts.hit_gathers += 1;
            self.outputs.push_back(Output::Gather);
        }
    }

    pub(super) fn filter_hit(&mut self, now: Time, hit: &FilterHit) {
        // A hit may be told after the filter's end; it is written down all the same.
        let (new, property, owner) = match self.active.get_mut(&hit.filter) {
            Some(active) => {
                let new = hit.hits.saturating_sub(active.hits);
                active.hits = active.hits.max(hit.hits);
                let filter = &active.filter;
                (
                    new,
                    filter.property.clone(),
                    Some((active.run, filter.violation)),
                )
            }
            None => (1, String::new(), None),
        };
        if hit.acted {
            self.counts.behaviour_changes += new;
            self.look_again(now);
        } else {
            self.counts.audit_hits += new;
        }
        let mut entry = Entry::new(What::FilterHit {
            property,
            event: hit.event.clone(),
            acted: hit.acted,
            hits: hit.hits,
        })
        .of_filter(hit.filter);
        if let Some((run, violation)) = owner {
            entry = entry.of_run(run).of_violation(violation);
        }
        self.log(entry);
    }

    pub(super) fn filter_ended(&mut self, now: Time, ended: &FilterEnded) {
        // The end of what was withdrawn from here is known already.
        let Some(active) = self.active.remove(&ended.filter) else {
            return;
        };
        // What it prevented can happen again.
        self.settled = None;
        if ended.end == FilterEnd::Disarmed {
            self.counts.filters_disarmed += 1;
            if self.disarmed.len() == DISARMED_MAX {
                self.disarmed.remove(0);
            }
            self.disarmed.push(Disarmed {
                matcher: active.filter.matcher.clone(),
                action: active.filter.action,
                until: now.after_millis(self.options.disarmed_ms),
            });
        }
        let missed = ended.hits.saturating_sub(active.hits);
        match active.filter.mode {
            Mode::Steer => self.counts.behaviour_changes += missed,
            Mode::Audit | Mode::Off => self.counts.audit_hits += missed,
        }
        self.lapse(&active, &Word(ended.end).to_string(), ended.hits);
    }

    fn lapse(&mut self, active: &Active, why: &str, hits: u64) {
        if !active.in_force {
            // It was never more than a question to the service.
            return;
        }
        self.counts.filters_lapsed += 1;
        let entry = Entry::new(What::FilterLapsed {
            property: active.filter.property.clone(),
            why: why.to_owned(),
            hits,
        });
        self.log(
            entry
                .of_run(active.run)
                .of_violation(active.filter.violation)
                .of_filter(active.filter.id),
        );
    }
}

impl Case<'_> {
    pub(super) fn entry(&self, what: What) -> Entry {
        Entry::new(what)
            .of_run(self.run)
            .of_violation(self.violation)
    }
}

/// Cuts a text to a number of bytes, at the end of a letter.
fn truncate(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        text.truncate(end);
    }
}
