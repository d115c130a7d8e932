//! Runs: a snapshot becomes a job, and what the checker says becomes decisions.

use scry::trace;
use scry_protocol::filter::{Action, Filter};
use scry_protocol::limit::{PATHS_MAX, SNAPSHOT_FRAME_BYTES_MAX, TEXT_BYTES_MAX};
use scry_protocol::link::checker::{
    Cancel, Ended, Found, How, PastPath, Progress, Replayed, Report,
};
use scry_protocol::link::host::{Neighbor, Surroundings};
use scry_protocol::record::{Absent, Shown};
use scry_protocol::snapshot::Missing;
use scry_protocol::{RunId, Snapshot};

use super::leases::Case;
use super::patience::Patience;
use super::settled::View;
use super::sharing::Shareable;
use super::status::LastRun;
use super::*;

/// What a job or the surroundings may take beside the checkpoints in them.
const FRAME_REST_BYTES: usize = 1 << 20;
/// How often it is said that findings do not replay.
const UNCONFIRMED_TOLD_MS: u64 = 60_000;

/// A snapshot that waits for the checker.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    run: RunId,
    view: View,
    snapshot: Snapshot,
    at: Time,
    host_epoch: u64,
}

/// A run that goes on.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    strategy: Strategy,
    pub(super) view: View,
    pub(super) started: Time,
    /// When the checker is told to stop, or, having been told, is given up.
    pub(super) patience: Patience,
    pub(super) told_to_stop: bool,
    pub(super) host_epoch: u64,
    /// When the snapshot was complete, and how old it was then.
    snapshot_at: Time,
    snapshot_age_ms: u64,
    missing: u32,
    /// Nodes that its snapshot shows, and neighbors of which it only says that they were not heard.
    pub(super) shown: BTreeSet<NodeId>,
    pub(super) unheard: BTreeSet<NodeId>,
    /// Whether its search ended before it had visited everything within its depth.
    pub(super) cut_short: bool,
    /// Whether its search has looked where its strategy promises to, and goes on only because there is time left.
    pub(super) covered: bool,
    pub(super) states: u64,
    pub(super) depth: u32,
    replayed: u32,
    pub(super) installed: u32,
    /// Violations the service was told of in it.
    pub(super) told: BTreeSet<ViolationId>,
    /// Violations predicted in it.
    seen: BTreeSet<ViolationId>,
    /// Violations its snapshot shows.
    happened: BTreeSet<ViolationId>,
    /// Neighbors' paths that it replays and has not answered for.
    pub(super) shared: BTreeSet<ViolationId>,
}

impl Run {
    /// How long ago the snapshot it searches was complete.
    pub(super) fn since_snapshot_ms(&self, now: Time) -> u64 {
        now.millis_since(self.snapshot_at)
    }

    fn snapshot_age_ms(&self, now: Time) -> u64 {
        let since = now.millis_since(self.snapshot_at);
        self.snapshot_age_ms.saturating_add(since)
    }
}

impl Controller {
    /// Takes in a snapshot: the immediate check gets the neighbors' states, the checker a job.
    pub fn handle_snapshot(&mut self, now: Time, on_demand: bool, snapshot: Snapshot) {
        self.counts.snapshots += 1;
        self.durations.gather.note_ms(snapshot.elapsed_ms);
        self.tell_surroundings(now, &snapshot, None);
        let view = View::of(&snapshot);
        let bodies: usize = snapshot
            .members
            .iter()
            .map(|member| member.body.len())
            .sum();
        let room = SNAPSHOT_FRAME_BYTES_MAX
            .saturating_sub(FRAME_REST_BYTES + self.options.properties.len())
            .saturating_sub(self.options.replay_bytes_max);
        let skip = if self.options.mode == Mode::Off {
            Some("the mode is off")
        } else if !self.options.checks {
            Some("this node does not search")
        } else if self.host.is_none() {
            Some("there is no host to protect")
        } else if bodies > room {
            self.fail_open("snapshot-too-large", 1, format!("{bodies} bytes"));
            Some("it is too large for the checker")
        } else {
            None
        };
        if skip.is_none() && self.pass_over(now, on_demand, &view, &snapshot) {
            return;
        }
        let run = RunId::new(self.paths.next_run());
        let searched = skip.is_none() && self.checker_ready && self.run.is_none();
        let fate = match skip {
            Some(_) => "skipped",
            None if searched => "searched",
            None => "waits",
        };
        self.log_snapshot(run, on_demand, &snapshot, fate, skip);
        if skip.is_some() {
            self.counts.snapshots_skipped += 1;
            return;
        }
        let waiting = Waiting {
            run,
            view,
            snapshot,
            at: now,
            host_epoch: self.host_epoch,
        };
        if let Some(older) = self.pending.replace(waiting) {
            let why = if self.checker_ready {
                "a newer one took its place"
            } else {
                self.fail_open(
                    "checker-missing",
                    1,
                    "a snapshot was not searched".to_owned(),
                );
                "there was no checker"
            };
            self.skip(&older, why);
        }
        self.start_pending(now);
        self.make_way(now);
    }

    /// Ends a search that goes on only because there was time, once a newer snapshot waits.
    fn make_way(&mut self, now: Time) {
        if self.pending.is_some() && self.run.as_ref().is_some_and(|run| run.covered) {
            self.cancel_run(now);
        }
    }

    /// Learns that no snapshot could be gathered.
    pub fn handle_snapshot_failed(&mut self, _now: Time, on_demand: bool, why: &str) {
        self.counts.snapshots_failed += 1;
        self.log(What::Snapshot {
            number: None,
            members: Vec::new(),
            missing: Vec::new(),
            rounds: 0,
            elapsed_ms: 0,
            age_ms: 0,
            on_demand,
            fate: "failed".to_owned(),
            why: Some(why.to_owned()),
        });
        self.fail_open("snapshot-failed", 1, why.to_owned());
    }

    /// Learns that a job could not be given to the checker.
    pub fn handle_job_unsent(&mut self, now: Time, run: RunId, why: &str) {
        if self.run.as_ref().is_some_and(|running| running.id == run) {
            self.fail_open("job-unsent", 1, why.to_owned());
            self.end_run(now, "unsent", why);
        }
    }

    pub(super) fn log_snapshot(
        &mut self,
        run: RunId,
        on_demand: bool,
        snapshot: &Snapshot,
        fate: &str,
        why: Option<&str>,
    ) {
        let what = What::Snapshot {
            number: Some(snapshot.number.get()),
            members: snapshot
                .members
                .iter()
                .map(|member| Shown(member.node))
                .collect(),
            missing: snapshot.missing.iter().map(Absent::from).collect(),
            rounds: snapshot.rounds,
            elapsed_ms: snapshot.elapsed_ms,
            age_ms: snapshot.age_ms(),
            on_demand,
            fate: fate.to_owned(),
            why: why.map(str::to_owned),
        };
        self.log(Entry::new(what).of_run(run));
    }

    fn skip(&mut self, waiting: &Waiting, why: &str) {
        self.counts.snapshots_skipped += 1;
        self.log_snapshot(waiting.run, false, &waiting.snapshot, "skipped", Some(why));
    }

    /// Takes in the states that the host asked for because it holds an event, and passes them on.
    pub fn handle_looked(&mut self, now: Time, question: u64, snapshot: &Snapshot) {
        self.counts.looks += 1;
        self.tell_surroundings(now, snapshot, Some(question));
    }

    /// Tells the host its neighbors' last known states. Of one that is missing that is the state it was last seen in: a
    /// node that cannot be heard may well go on, and the host knows what such a state is good for.
    pub(super) fn tell_surroundings(
        &mut self,
        now: Time,
        snapshot: &Snapshot,
        answers: Option<u64>,
    ) {
        if self.host.is_none() {
            return;
        }
        let others = snapshot
            .members
            .iter()
            .filter(|member| member.node != self.me);
        for member in others {
            let known = Known {
                number: member.number,
                body: member.body.clone(),
                since: now,
            };
            self.known.insert(member.node, known);
        }
        let age_ms_max = self.options.surroundings_age_ms_max;
        self.known.retain(|&node, known| {
            let unheard = |missing: &Missing| missing.node == node && missing.reason.is_unheard();
            snapshot.member(node).is_some()
                || (now.millis_since(known.since) <= age_ms_max
                    && snapshot.missing.iter().any(unheard))
        });
        // What takes a checker down may do so to whoever else works with it.
        let known = self.known.iter();
        let known = known.filter(|(node, _)| !self.is_left_out(now, **node));
        let neighbors: Vec<Neighbor> = known
            .map(|(&node, known)| Neighbor {
                node,
                number: known.number,
                present: snapshot.member(node).is_some(),
                lasting: self.lasting.get(&node).cloned().unwrap_or_default(),
                body: known.body.clone(),
            })
            .collect();
        let bytes: usize = neighbors.iter().map(|neighbor| neighbor.body.len()).sum();
        if bytes > SNAPSHOT_FRAME_BYTES_MAX - FRAME_REST_BYTES {
            self.fail_open("surroundings-too-large", 1, format!("{bytes} bytes"));
            return;
        }
        let frame = Surroundings {
            number: snapshot.number,
            answers,
            neighbors,
        };
        self.outputs.push_back(Output::Host(frame.into()));
    }

    /// Gives the snapshot that waits to the checker, if it can take one.
    pub(super) fn start_pending(&mut self, now: Time) {
        if !self.checker_ready || self.run.is_some() {
            return;
        }
        let Some(mut waiting) = self.pending.take() else {
            return;
        };
        if self.pass_over(now, false, &waiting.view, &waiting.snapshot) {
            return;
        }
        let age_ms = waiting.snapshot.age_ms();
        if age_ms.saturating_add(now.millis_since(waiting.at)) > self.options.snapshot_age_ms_max {
            self.fail_open(
                "snapshot-stale",
                1,
                format!("{} waited too long", waiting.run),
            );
            self.skip(&waiting, "it is too old by now");
            return;
        }
        self.without_left_out(now, &mut waiting.snapshot);
        waiting.view = View::of(&waiting.snapshot);
        self.paths.turn();
        self.counts.runs += 1;
        let (shared, past_paths) = self.replayed_paths();
        let limit = self
            .options
            .budget
            .time_ms
            .saturating_add(self.options.grace_ms);
        let Snapshot {
            members, missing, ..
        } = &waiting.snapshot;
        self.run = Some(Run {
            id: waiting.run,
            strategy: self.options.strategy,
            view: waiting.view,
            started: now,
            patience: Patience::new(now, limit),
            told_to_stop: false,
            host_epoch: waiting.host_epoch,
            snapshot_at: waiting.at,
            snapshot_age_ms: age_ms,
            missing: u32::try_from(waiting.snapshot.missing.len()).unwrap_or(u32::MAX),
            shown: members.iter().map(|member| member.node).collect(),
            unheard: missing
                .iter()
                .filter(|missing| missing.reason.is_unheard())
                .map(|missing| missing.node)
                .collect(),
            cut_short: false,
            covered: false,
            states: 0,
            depth: 0,
            replayed: 0,
            installed: 0,
            told: BTreeSet::new(),
            seen: BTreeSet::new(),
            happened: BTreeSet::new(),
            shared,
        });
        let whole = self.is_whole(&waiting.snapshot);
        let job = Job {
            run: waiting.run,
            snapshot: waiting.snapshot,
            properties: self.options.properties.clone(),
            faults: self.options.faults,
            clock: self.options.clock,
            budget: self.options.budget,
            order: self.options.order,
            checks: self.can_check(),
            past_paths,
            whole,
            modes: self.own_modes(),
            strategy: self.options.strategy.name().to_owned(),
            liveness: self.options.liveness,
        };
        self.outputs
            .push_back(Output::Checker(Box::new(job).into()));
    }

    /// Tells whether the host can look before it handles an event, and may hold it for that.
    fn can_check(&self) -> bool {
        let host = self.host.as_ref().is_some_and(|host| host.checks);
        host && self.options.isolate != Isolate::Off && self.options.hold_ms_max > 0
    }

    /// Neighbors' paths first, since somebody waits for the answer; then the best of its own.
    fn replayed_paths(&self) -> (BTreeSet<ViolationId>, Vec<PastPath>) {
        let count_max = self.options.replay_paths_max.min(PATHS_MAX);
        let mut paths = self.shared.waiting_paths();
        paths.truncate(count_max);
        let shared: BTreeSet<ViolationId> = paths.iter().map(|path| path.violation).collect();
        let bytes: usize = paths.iter().map(|path| path.path.len()).sum();
        let bytes_max = self.options.replay_bytes_max.saturating_sub(bytes);
        let own = self.paths.best(count_max, bytes_max);
        let own = own
            .into_iter()
            .filter(|path| !shared.contains(&path.violation));
        paths.extend(own);
        paths.truncate(count_max);
        (shared, paths)
    }

    pub(super) fn progress(&mut self, now: Time, progress: &Progress) {
        if let Some(run) = self.run.as_mut().filter(|run| run.id == progress.run) {
            run.states = progress.states;
            run.depth = progress.depth;
            run.covered |= progress.covered;
        }
        self.make_way(now);
    }

    /// a path that is confirmed has its filter again before the search begins.
    pub(super) fn replayed(&mut self, now: Time, replayed: Replayed) {
        let violation = replayed.violation;
        let Some(run) = self.run.as_mut().filter(|run| run.id == replayed.run) else {
            return;
        };
        run.replayed += 1;
        let dead = replayed.how == How::Dead;
        let shared = run.shared.remove(&violation);
        let new = replayed.confirmed && run.seen.insert(violation);
        let run_id = run.id;
        self.counts.replays += 1;
        self.counts.replays_confirmed += u64::from(replayed.confirmed);
        self.counts.predictions += u64::from(new);
        let known = if shared {
            self.shared.path(violation)
        } else {
            let stored = self.paths.path(violation);
            stored.map(|stored| {
                (
                    stored.property.clone(),
                    stored.explanation.clone(),
                    stored.path.clone(),
                )
            })
        };
        // A path that was given up meanwhile is not there any more; its filters say what they protect.
        let (property, explanation, path) = known.unwrap_or_default();
        let from = shared.then(|| self.shared.first_of(violation)).flatten();
        let what = What::Replay {
            property: property.clone(),
            confirmed: replayed.confirmed,
            remedies: u32::try_from(replayed.remedies.len()).unwrap_or(u32::MAX),
            shared_by: from.map(Shown),
        };
        self.log(Entry::new(what).of_run(run_id).of_violation(violation));
        if !replayed.confirmed {
            self.danger_passed(violation);
        }
        let installed = if replayed.confirmed {
            // What the checker names is what is broken here; a neighbor's claim counts only where it names nothing.
            let named = replayed
                .remedies
                .first()
                .map(|filter| filter.property.clone());
            let property = named.filter(|name| !name.is_empty()).unwrap_or(property);
            if dead {
                self.counts.predictions_dead += u64::from(new);
                self.learn_eventually(&property);
            }
            self.by_property.of(&property).predictions += u64::from(new);
            if shared {
                self.paths.found(violation, &property, &explanation, &path);
            } else {
                self.paths.erred(violation);
            }
            let left_to = replayed.elsewhere.filter(|&node| node != self.me);
            let left = left_to.is_some_and(|to| {
                let shareable = Shareable {
                    run: run_id,
                    violation,
                    property: &property,
                    path: &path,
                    unhelpful: None,
                };
                self.share(now, to, shareable)
            });
            let case = Prediction {
                violation,
                property,
                explanation,
                path,
            };
            match left && !only_checks(&replayed.remedies) {
                true => None,
                false => self.decide(now, "replay", &case, replayed.remedies.clone(), ""),
            }
        } else {
            None
        };
        if shared {
            self.answer(violation, replayed.confirmed, &replayed.remedies, installed);
        }
    }

    pub(super) fn found(&mut self, now: Time, found: Found) {
        let violation = found.violation;
        let id = violation.id;
        if self.run.as_ref().is_none_or(|run| run.id != found.run) {
            return;
        }
        let dead = violation.how == How::Dead;
        if dead {
            self.learn_eventually(&violation.property);
        }
        let mode = self.mode_of(&violation.property);
        if mode == Mode::Off {
            return;
        }
        let trace = self.hand_out_trace(id, &violation.trace);
        let what = What::Violation {
            property: violation.property.clone(),
            how: dead.then(|| Word(violation.how).to_string()),
            critical: Some(violation.critical.clone()).filter(|said| !said.is_empty()),
            explanation: violation.explanation.clone(),
            depth: violation.depth,
            strategy: self
                .run
                .as_ref()
                .map(|run| match violation.found_by.as_str() {
                    "" => run.strategy.name().to_owned(),
                    found_by => found_by.to_owned(),
                }),
            mode: Word(mode),
            neighbor: violation.neighbor.map(Shown),
            trace: trace.then(|| format!("{id}.json")),
        };
        self.log(Entry::new(what).of_run(found.run).of_violation(id));
        let run = self.run.as_mut().expect("its presence was checked above");
        if violation.depth == 0 {
            // It is counted when it comes, not in every snapshot in which it is still there.
            run.happened.insert(id);
            let new = u64::from(!self.happened.contains(&id));
            self.counts.uncaught_violations += new;
            self.by_property.of(&violation.property).violations += new;
            return;
        }
        let new = u64::from(run.seen.insert(id));
        self.counts.predictions += new;
        self.counts.predictions_dead += if dead { new } else { 0 };
        self.by_property.of(&violation.property).predictions += new;
        self.paths.found(
            id,
            &violation.property,
            &violation.explanation,
            &violation.path,
        );
        let cheaper = violation.elsewhere.filter(|&node| node != self.me);
        let other = violation.neighbor.filter(|&node| node != self.me);
        let shared = cheaper.or(other).is_some_and(|to| {
            let unhelpful = violation.remedies.is_empty();
            let shareable = Shareable {
                run: found.run,
                violation: id,
                property: &violation.property,
                path: &violation.path,
                unhelpful: unhelpful.then_some(violation.unhelpful.as_str()),
            };
            self.share(now, to, shareable)
        });
        // Whoever loses less by it prevents it. To look costs nobody anything.
        let cheaper = cheaper.is_some() && !only_checks(&violation.remedies);
        if shared && (violation.remedies.is_empty() || cheaper) {
            return;
        }
        let case = Prediction {
            violation: id,
            property: violation.property,
            explanation: violation.explanation,
            path: violation.path,
        };
        self.decide(
            now,
            "search",
            &case,
            violation.remedies,
            &violation.unhelpful,
        );
    }

    fn decide(
        &mut self,
        now: Time,
        by: &'static str,
        prediction: &Prediction,
        remedies: Vec<Filter>,
        unhelpful: &str,
    ) -> Option<Mode> {
        let run = self.run.as_ref().expect("only a run predicts");
        let age_ms = run.snapshot_age_ms(now);
        let stale = age_ms > self.options.snapshot_age_ms_max;
        let other = run.host_epoch != self.host_epoch || self.host.is_none();
        let forbidden = if other {
            Some("the snapshot shows another incarnation of the host".to_owned())
        } else if stale {
            Some(format!("the snapshot is {age_ms} ms old"))
        } else {
            None
        };
        let run = run.id;
        if stale && !remedies.is_empty() {
            self.fail_open("snapshot-stale", 1, format!("{age_ms} ms in {run}"));
        }
        let case = Case {
            run,
            violation: prediction.violation,
            property: &prediction.property,
            explanation: &prediction.explanation,
            path: &prediction.path,
            by,
            forbidden: forbidden.as_deref(),
            unhelpful,
        };
        self.remedy(now, &case, remedies)
    }

    /// Hands out the trace for its file, and tells whether there is one.
    fn hand_out_trace(&mut self, violation: ViolationId, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return false;
        }
        match trace::unpack(bytes) {
            Ok(json) => {
                self.outputs.push_back(Output::Trace { violation, json });
                true
            }
            Err(error) => {
                self.fail_open("trace-unreadable", 1, error.to_string());
                false
            }
        }
    }

    pub(super) fn report(&mut self, now: Time, report: Report) {
        let Some(run) = self.run.as_mut().filter(|run| run.id == report.run) else {
            return;
        };
        run.states = report.progress.states;
        run.depth = report.progress.depth;
        run.cut_short = matches!(report.ended, Ended::Budget | Ended::Cancelled);
        self.counts.runs_finished += 1;
        let ended = Word(report.ended).to_string();
        if report.ended == Ended::Unreadable {
            self.fail_open("job-unreadable", 1, report.detail.clone());
        }
        let lasting = report.lasting.into_iter();
        self.lasting = lasting
            .map(|lasting| (lasting.node, lasting.properties))
            .collect();
        self.note_unjudged(report.unjudged);
        let readable = report.ended != scry_protocol::link::checker::Ended::Unreadable;
        self.note_left_out(now, readable, report.left_out, report.panicked);
        self.note_unconfirmed(now, report.unconfirmed);
        self.note_cut_off(now, &report.cut_off);
        self.settle(now, report.ended);
        self.end_run(now, &ended, &report.detail);
    }

    /// Counts findings that did not replay, and says so now and then: every run may have some.
    fn note_unconfirmed(&mut self, now: Time, new: u64) {
        self.counts.findings_unconfirmed += new;
        let told = self.unconfirmed_told;
        if new == 0 || told.is_some_and(|told| now < told.after_millis(UNCONFIRMED_TOLD_MS)) {
            return;
        }
        self.unconfirmed_told = Some(now);
        let detail = format!(
            "{new} in one run: the same event does not always do the same, so the service has chance or a clock of its own"
        );
        self.fail_open("finding-unconfirmed", new, detail);
    }

    /// Says now and then that judgements took more steps than they may: every run may have some.
    fn note_cut_off(&mut self, now: Time, properties: &[String]) {
        let told = self.cut_off_told;
        if properties.is_empty()
            || told.is_some_and(|told| now < told.after_millis(UNCONFIRMED_TOLD_MS))
        {
            return;
        }
        self.cut_off_told = Some(now);
        let names: Vec<String> = properties.iter().map(|name| format!("{name:?}")).collect();
        let mut detail = format!("unknown in some states: {}", names.join(", "));
        // As long as a sentence for people may be.
        let end = (0..=TEXT_BYTES_MAX.min(detail.len())).rev();
        let end = end.into_iter().find(|&at| detail.is_char_boundary(at));
        detail.truncate(end.unwrap_or(0));
        self.fail_open("judgement-cut-off", 1, detail);
    }

    /// Learns that the checker is gone. It costs the run that was going on, nothing else.
    pub fn handle_checker_gone(&mut self, now: Time, why: &str) {
        self.starting = None;
        self.checker_ready = false;
        self.counts.checker_restarts += 1;
        let count = self.counts.checker_restarts;
        self.log(What::CheckerRestart {
            why: why.to_owned(),
            count,
            wait_ms: None,
        });
        if self.run.is_some() {
            self.counts.runs_crashed += 1;
            self.fail_open("checker-crashed", 1, why.to_owned());
            self.end_run(now, "crashed", why);
        }
    }

    pub(super) fn cancel_run(&mut self, now: Time) {
        let grace_ms = self.options.grace_ms;
        if let Some(run) = self.run.as_mut().filter(|run| !run.told_to_stop) {
            run.told_to_stop = true;
            run.patience.until = now.after_millis(grace_ms);
            let cancel = Cancel { run: run.id };
            self.outputs.push_back(Output::Checker(cancel.into()));
        }
    }

    pub(super) fn end_run(&mut self, now: Time, ended: &str, detail: &str) {
        let Some(run) = self.run.take() else {
            return;
        };
        self.counts.states += run.states;
        self.durations.search.note_ms(now.millis_since(run.started));
        let withdrawn = self.withdraw_unproved(&run);
        let last = LastRun {
            run: Shown(run.id),
            ended: ended.to_owned(),
            states: run.states,
            depth: run.depth,
            elapsed_ms: now.millis_since(run.started),
            snapshot_age_ms: run.snapshot_age_ms(now),
            missing: run.missing,
            violations: u32::try_from(run.seen.len()).unwrap_or(u32::MAX),
            installed: run.installed,
        };
        let what = What::Run {
            strategy: Some(run.strategy.name().to_owned()),
            ended: last.ended.clone(),
            states: last.states,
            depth: last.depth,
            elapsed_ms: last.elapsed_ms,
            snapshot_age_ms: last.snapshot_age_ms,
            missing: last.missing,
            replayed: run.replayed,
            violations: last.violations,
            installed: last.installed,
            withdrawn,
            detail: (!detail.is_empty()).then(|| detail.to_owned()),
        };
        self.log(Entry::new(what).of_run(run.id));
        self.last_run = Some(last);
        self.happened = run.happened;
        self.give_up_shared(&run.shared);
        self.save_paths();
        self.start_pending(now);
    }
}

/// Tells whether the best that a node can do is to have an event looked at.
fn only_checks(remedies: &[Filter]) -> bool {
    let first = remedies.first();
    first.is_some_and(|filter| filter.action == Action::Check)
}

/// What is known of a prediction that is decided on.
struct Prediction {
    violation: ViolationId,
    property: String,
    explanation: String,
    path: Vec<u8>,
}
