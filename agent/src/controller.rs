//! From snapshot to filter: the agent's controller, as a core without IO.
//!
//! Facts come from the checkpoint manager (snapshots), the checker, the host, neighbors' agents, the operator and the
//! clock; work goes to all of them ([`Output`]). Feed it a fact, poll until `None`, feed it the next.
//!
//! | module | what it does |
//! |---|---|
//! | `running` | runs: a snapshot becomes a job, the checker's words become decisions |
//! | `settled` | snapshots that show nothing new |
//! | `left_out` | members whose states take a checker down |
//! | `leases` | filters: vetting, installing, renewing, withdrawing |
//! | `sharing` | paths to and from neighbors |
//! | `modes` | how much may be done, globally and per property |
//! | [`harm`] | what steering costs the service, and when that is too much |
//! | `unjudged` | properties of which nothing is known |
//! | [`measured`] | how long things take, and counts for each property |
//! | [`paths`], [`disk`] | past paths, and the file they survive a restart in |
//! | [`status`] | what an operator may ask at any time |
//!
//! # Decisions
//!
//! - One run at a time. A snapshot that comes while a search goes on waits, and a newer one takes its place: cancelling
//!   instead would let a short period keep every search shallow, and the budget bounds the wait.
//! - A filter is in force from the moment it is proved until its lease ends, or until a later run ends without proving
//!   it again, however that run ended.
//! - A snapshot that shows just what the last search began with is not searched again: what was proved still is.
//! - When a filter acts, a snapshot is gathered at once: its replays say whether the danger is still there, and if not, the
//!   filter falls then.
//! - A snapshot is whole if it shows every node that the configuration knows. Otherwise properties that further nodes could
//!   mend are unknown.
//! - A filter that is proved again keeps its name, and its lease begins anew.
//! - A run whose snapshot is older than a setting, or shows another incarnation of the host, still reports but installs nothing.
//! - All times here are of a clock that never goes back; the wall clock is for the log alone, and added there.

pub mod disk;
pub mod harm;
mod leases;
mod left_out;
pub mod measured;
mod modes;
pub mod paths;
mod patience;
mod running;
mod settled;
mod sharing;
pub mod status;
#[cfg(test)]
mod tests;
mod unjudged;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use scry::Strategy;
use scry::checkpoint::Time;
use scry_protocol::filter::Mode;
use scry_protocol::link::checker::{
    AgentToChecker, Budget, CheckerToAgent, Clock, Faults, Job, Order,
};
use scry_protocol::link::host::{
    AgentToHost, CheckSettings, Failure, Hello, HostToAgent, Isolate, Outcome, PropertyMode, Stats,
    Suspicion, Switches, Welcome,
};
use scry_protocol::link::peer::PeerMessage;
use scry_protocol::record::{Entry, What, Word};
use scry_protocol::{Body, CheckpointNumber, FilterId, Incarnation, NodeId, RunId, ViolationId};

pub use modes::{Allowed, HoldChange, ModeBy, ModeChange, UnknownProperty};
pub use paths::Paths;
pub use patience::CheckerSeen;
pub use status::Status;

/// How a controller behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The agent's version, for the host.
    pub version: String,
    /// How much may be done at all.
    pub mode: Mode,
    /// Properties with a mode of their own in the configuration; the lowest counts.
    pub property_modes: BTreeMap<String, Mode>,
    /// The text of the property file; empty if the service's own properties are meant.
    pub properties: String,
    /// The modes that the property file gives; the lowest counts.
    pub file_modes: BTreeMap<String, Mode>,
    /// The names in the property file, if there is one.
    pub file_names: Option<BTreeSet<String>>,
    /// Files that forbid steering, for the host to look for itself: absolute paths.
    pub switches: Vec<String>,
    /// All nodes of the service, if they are known: a snapshot of all of them is whole.
    pub everyone: Option<BTreeSet<NodeId>>,
    /// How much harm is too much.
    pub harm: harm::HarmLimits,
    /// How long after a filter acted, and a snapshot was gathered because of that, the next one is.
    pub hit_pause_ms: u64,
    /// Whether snapshots are searched here.
    pub checks: bool,
    /// Faults a path may contain.
    pub faults: Faults,
    /// How well clocks and timers are kept.
    pub clock: Clock,
    /// When a search stops.
    pub budget: Budget,
    /// Which of several filters is taken.
    pub order: Order,
    /// How the checker searches.
    pub strategy: Strategy,
    /// How much may be done about what must come true again and again and never would.
    pub liveness: Mode,
    /// How long beyond its budget a checker may be silent before it is told to stop, and then again before it is killed.
    pub grace_ms: u64,
    /// How old the oldest checkpoint of a snapshot may be when a filter is installed because of it.
    pub snapshot_age_ms_max: u64,
    /// How long a filter lasts.
    pub filter_ttl_ms: u64,
    /// How often a filter may act.
    pub filter_hits_max: u64,
    /// How many filters there may be at once.
    pub filters_max: usize,
    /// How long a filter that was disarmed may only watch when it is proved again.
    pub disarmed_ms: u64,
    /// Whether predictions go to the service first, which may handle them itself.
    pub tell_service: bool,
    /// Whether paths are shared with neighbors, and theirs looked at.
    pub share_paths: bool,
    /// How many neighbors' paths may wait for a snapshot.
    pub shared_waiting_max: usize,
    /// How long the same path is not shared again.
    pub share_pause_ms: u64,
    /// How many past paths are replayed in a run, and how many bytes they may have.
    pub replay_paths_max: usize,
    /// See `replay_paths_max`.
    pub replay_bytes_max: usize,
    /// How the immediate safety check copies the host.
    pub isolate: Isolate,
    /// How long its verdict may take.
    pub check_deadline_ms: u64,
    /// How old the neighbors' states may be for it.
    pub surroundings_age_ms_max: u64,
    /// How long it may hold an event until the neighbors have answered.
    pub hold_ms_max: u64,
    /// How much of its time the host may wait for it, in thousandths.
    pub time_share_per_mille: u32,
    /// How many outputs may wait; records are dropped beyond that, work is not.
    pub records_waiting_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: Mode::Audit,
            property_modes: BTreeMap::new(),
            properties: String::new(),
            file_modes: BTreeMap::new(),
            file_names: None,
            switches: Vec::new(),
            everyone: None,
            harm: harm::HarmLimits::default(),
            hit_pause_ms: 1_000,
            checks: true,
            faults: Faults::default(),
            clock: Clock::default(),
            budget: Budget {
                time_ms: 8_000,
                states_max: 10_000_000,
                depth_max: 64,
                memory_bytes_max: 512 << 20,
                violations_max: 16,
            },
            order: Order::LeastHarm,
            strategy: Strategy::PORTFOLIO,
            liveness: Mode::Audit,
            grace_ms: 2_000,
            snapshot_age_ms_max: 30_000,
            filter_ttl_ms: 60_000,
            filter_hits_max: 1_000,
            filters_max: 64,
            disarmed_ms: 600_000,
            tell_service: false,
            share_paths: true,
            shared_waiting_max: 32,
            share_pause_ms: 30_000,
            replay_paths_max: 64,
            replay_bytes_max: 4 << 20,
            isolate: Isolate::Speculator,
            check_deadline_ms: 50,
            surroundings_age_ms_max: 30_000,
            hold_ms_max: 20,
            time_share_per_mille: 20,
            records_waiting_max: 10_000,
        }
    }
}

/// What a controller wants done.
#[derive(Debug, Eq, PartialEq)]
pub enum Output {
    /// Tell the checker.
    Checker(AgentToChecker),
    /// Tell the host.
    Host(AgentToHost),
    /// Tell a peer's agent.
    Peer {
        /// Whose.
        to: NodeId,
        /// What.
        message: PeerMessage,
    },
    /// Write a record.
    Log(Entry),
    /// Write a trace file.
    Trace {
        /// Which violation's.
        violation: ViolationId,
        /// The trace as JSON.
        json: Vec<u8>,
    },
    /// Keep the past paths where a restart finds them.
    SavePaths(Vec<u8>),
    /// Gather a snapshot soon: a neighbor's warning waits for one, or a filter has acted.
    Gather,
    /// Kill the checker and start another.
    RestartChecker {
        /// Why.
        why: String,
    },
}

/// What a controller has counted since it started. The first six are those of the papers.
#[derive(Clone, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Counts {
    /// Violations predicted, each once a run.
    pub predictions: u64,
    /// Predictions without a safe filter.
    pub unhelpful: u64,
    /// Events kept from their handlers, by filters or by the immediate safety check.
    pub behaviour_changes: u64,
    /// Those of them kept back by the immediate safety check.
    pub check_engagements: u64,
    /// Violations that a snapshot showed to have happened.
    pub uncaught_violations: u64,
    /// Events that came to a handler, or would have.
    pub actions: u64,

    /// Those of the predictions by which a property never comes true again.
    pub predictions_dead: u64,
    /// Runs begun.
    pub runs: u64,
    /// Runs that ended by themselves.
    pub runs_finished: u64,
    /// Runs lost because the checker crashed.
    pub runs_crashed: u64,
    /// Runs lost because the checker hung.
    pub runs_hung: u64,
    /// Snapshots that were complete.
    pub snapshots: u64,
    /// Snapshots that could not be gathered.
    pub snapshots_failed: u64,
    /// Snapshots that were never searched.
    pub snapshots_skipped: u64,
    /// Snapshots that showed just what had been searched before.
    pub snapshots_unchanged: u64,
    /// States visited.
    pub states: u64,
    /// Findings that did not replay and were not told: the service has chance or a clock of its own.
    pub findings_unconfirmed: u64,
    /// Past paths replayed.
    pub replays: u64,
    /// Past paths that still led to a violation.
    pub replays_confirmed: u64,
    /// Filters installed, renewals not counted.
    pub filters_installed: u64,
    /// Filters renewed.
    pub filters_renewed: u64,
    /// Predictions that the service was told.
    pub predictions_told: u64,
    /// Predictions that the service took care of itself.
    pub predictions_handled: u64,
    /// Filters that ended.
    pub filters_lapsed: u64,
    /// Filters that were not installed although the checker found them safe.
    pub filters_rejected: u64,
    /// Filters that were disarmed.
    pub filters_disarmed: u64,
    /// Events that filters would have kept from their handlers.
    pub audit_hits: u64,
    /// Events that the immediate safety check would have kept from their handlers.
    pub audit_vetoes: u64,
    /// Events that the immediate safety check held, by what came of it.
    pub suspicions: BTreeMap<&'static str, u64>,
    /// Times the neighbors' states were gathered because an event was held.
    pub looks: u64,
    /// Events that ran without the immediate safety check, which had used up its share of time.
    pub unchecked: u64,
    /// Paths shared with neighbors.
    pub paths_shared: u64,
    /// Paths that neighbors shared.
    pub paths_received: u64,
    /// Paths shared with neighbors that they now prevent.
    pub paths_prevented: u64,
    /// Checkers started anew.
    pub checker_restarts: u64,
    /// Properties that fell back to audit because they did too much harm.
    pub harm_fallbacks: u64,
    /// Snapshots gathered because a filter acted.
    pub hit_gathers: u64,
    /// Records dropped because too many waited.
    pub records_dropped: u64,
    /// What failed while the service went on, by name.
    pub failed_open: BTreeMap<&'static str, u64>,
}

/// The host as it is known here.
#[derive(Clone, Debug)]
struct Host {
    incarnation: Incarnation,
    service: String,
    version: String,
    /// Whether it can look before it handles an event.
    checks: bool,
    /// What it last said it counted.
    stats: Stats,
    /// How often each thing failed there.
    failures: BTreeMap<&'static str, u64>,
}

/// A neighbor's last known state.
#[derive(Clone, Debug)]
struct Known {
    number: CheckpointNumber,
    body: Body,
    /// When it was gathered.
    since: Time,
}

/// Decides what one node's agent does. Feed it a fact, poll until `None`, feed it the next.
#[derive(Debug)]
pub struct Controller {
    me: NodeId,
    options: Options,
    paths: Paths,
    host: Option<Host>,
    /// Counts attachments: a run that began with another attachment installs nothing.
    host_epoch: u64,
    /// The name and version of the service that was attached last.
    served: Option<(String, String)>,
    checker_ready: bool,
    /// How long a checker may still take to be ready, while one starts.
    starting: Option<patience::Patience>,
    run: Option<running::Run>,
    pending: Option<running::Waiting>,
    last_run: Option<status::LastRun>,
    settled: Option<settled::Settled>,
    /// What was last known of each neighbor.
    known: BTreeMap<NodeId, Known>,
    /// By neighbor, the properties that read something of it which nothing changed in the last search.
    lasting: BTreeMap<NodeId, Vec<String>>,
    /// When it was last said that findings did not replay.
    unconfirmed_told: Option<Time>,
    /// When it was last said that judgements were cut off.
    cut_off_told: Option<Time>,
    /// Violations the last snapshot showed to have happened.
    happened: BTreeSet<ViolationId>,
    active: BTreeMap<FilterId, leases::Active>,
    disarmed: Vec<leases::Disarmed>,
    /// What the last incarnation of the host looked at before it was handled.
    checks: Vec<leases::Active>,
    shared: sharing::Sharing,
    global: modes::GlobalMode,
    /// The modes an operator set.
    set_modes: BTreeMap<String, Mode>,
    /// The properties the service brings along, once a checker has told.
    service_names: Option<BTreeSet<String>>,
    /// Those of which the checker has said that they must come true again and again.
    eventually: BTreeSet<String>,
    harm: harm::Ledger,
    /// Properties that had no answer in the last run, by name.
    unjudged: BTreeMap<String, unjudged::Unjudged>,
    /// Members that runs go on without.
    left_out: BTreeMap<NodeId, left_out::Absence>,
    /// Properties that panicked in the last run.
    panicked: BTreeSet<String>,
    /// Before when no further snapshot is asked for because a filter acted.
    gather_after: Time,
    counts: Counts,
    by_property: measured::ByProperty,
    durations: measured::Durations,
    records_waiting: usize,
    outputs: VecDeque<Output>,
}

impl Controller {
    /// Begins without a host and without a checker.
    pub fn new(me: NodeId, options: Options, paths: Paths) -> Self {
        Self {
            me,
            harm: harm::Ledger::new(options.harm),
            global: modes::GlobalMode::new(options.mode),
            options,
            paths,
            host: None,
            host_epoch: 0,
            served: None,
            checker_ready: false,
            starting: None,
            run: None,
            pending: None,
            last_run: None,
            settled: None,
            unconfirmed_told: None,
            cut_off_told: None,
            known: BTreeMap::new(),
            lasting: BTreeMap::new(),
            happened: BTreeSet::new(),
            active: BTreeMap::new(),
            disarmed: Vec::new(),
            checks: Vec::new(),
            shared: sharing::Sharing::default(),
            set_modes: BTreeMap::new(),
            service_names: None,
            eventually: BTreeSet::new(),
            unjudged: BTreeMap::new(),
            left_out: BTreeMap::new(),
            panicked: BTreeSet::new(),
            gather_after: Time::from_millis(0),
            counts: Counts {
                // So that each is there to be watched before it happens.
                suspicions: OUTCOMES.map(|outcome| (outcome_name(outcome), 0)).into(),
                ..Counts::default()
            },
            by_property: measured::ByProperty::default(),
            durations: measured::Durations::default(),
            records_waiting: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes in what the host says. What concerns checkpoints is passed over.
    pub fn handle_host(&mut self, now: Time, message: HostToAgent) {
        match message {
            HostToAgent::Hello(hello) => self.attach(now, hello),
            HostToAgent::Goodbye(_) => self.handle_host_gone(now, "it ended in good order"),
            HostToAgent::Stats(stats) => self.take_stats(now, stats),
            HostToAgent::FilterHit(hit) => self.filter_hit(now, &hit),
            HostToAgent::FilterEnded(ended) => self.filter_ended(now, &ended),
            HostToAgent::PredictionAnswer(answer) => self.prediction_answered(&answer),
            HostToAgent::Veto(veto) => {
                let of_property = self.by_property.of(&veto.property);
                if veto.acted {
                    self.counts.behaviour_changes += 1;
                    self.counts.check_engagements += 1;
                    of_property.vetoes += 1;
                    // What is refused at the last moment is mostly tried again; a search may find how to keep clear of it.
                    self.look_again(now);
                } else {
                    self.counts.audit_vetoes += 1;
                    of_property.audit_vetoes += 1;
                }
                self.log(What::Veto {
                    property: veto.property,
                    event: veto.event,
                    explanation: veto.explanation,
                    acted: veto.acted,
                    elapsed_us: veto.elapsed_us,
                });
            }
            HostToAgent::FailedOpen(failed) => {
                let name = failure_name(failed.failure);
                let before = match &mut self.host {
                    Some(host) => host.failures.insert(name, failed.count).unwrap_or(0),
                    None => 0,
                };
                let new = failed.count.saturating_sub(before).max(1);
                self.fail_open(name, new, failed.detail);
            }
            HostToAgent::Suspicion(suspicion) => self.suspicion(suspicion),
            HostToAgent::Renewed(renewed) => {
                if let Some(host) = &mut self.host {
                    host.incarnation = renewed.incarnation;
                }
            }
            HostToAgent::Checkpoint(_)
            | HostToAgent::Neighbors(_)
            | HostToAgent::Contacts(_)
            | HostToAgent::LookAgain(_) => {}
        }
    }

    /// Learns that a peer's number was not believed.
    pub fn handle_implausible(&mut self, peer: NodeId, number: CheckpointNumber) {
        let detail = format!("{peer} is at {number}, or says so");
        self.fail_open("number-implausible", 1, detail);
    }

    /// Learns that the host is gone: its process ended or its socket closed.
    pub fn handle_host_gone(&mut self, _now: Time, why: &str) {
        if self.host.take().is_none() {
            return;
        }
        self.host_epoch += 1;
        self.settled = None;
        self.harm.handle_host_gone();
        self.unjudged.clear();
        self.log(What::HostDown {
            why: why.to_owned(),
        });
        self.forget_filters("host-gone");
    }

    /// Takes in what the checker says.
    pub fn handle_checker(&mut self, now: Time, message: CheckerToAgent) {
        match message {
            CheckerToAgent::Ready(ready) => {
                self.learn_names(ready.properties);
                self.starting = None;
                self.checker_ready = true;
                self.start_pending(now);
            }
            CheckerToAgent::Progress(progress) => self.progress(now, &progress),
            CheckerToAgent::Replayed(replayed) => self.replayed(now, replayed),
            CheckerToAgent::Found(found) => self.found(now, *found),
            CheckerToAgent::Report(report) => self.report(now, report),
        }
    }

    /// Learns that the checker runs another program than the host: what it finds may be of other handlers.
    pub fn handle_checker_differs(&mut self) {
        let detail = "the checker runs another program than the service: what it predicts may not be what the service does";
        self.fail_open("checker-differs", 1, detail.to_owned());
    }

    /// Learns that the node has more neighbors than it may look at.
    pub fn handle_neighbors_left_out(&mut self, count: usize, kept: usize) {
        let detail = format!(
            "{} neighbors, of which `neighborhood.neighbors_max` lets {kept} count: {count} are not looked at",
            count + kept
        );
        self.fail_open("neighborhood-too-large", 1, detail);
    }

    /// Learns that time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.watch_checker(now);
        self.expire_filters(now);
        self.disarmed.retain(|disarmed| disarmed.until > now);
        self.end_pauses(now);
        self.expire_told(now);
    }

    /// Learns that the options are others now. The check's settings go to the host at once, the rest counts from the next run on.
    /// What an operator set at run time stays, of everything and of a property, where the options say what they said before.
    pub fn handle_options(&mut self, now: Time, mut options: Options) {
        let mode = self.global.configure(options.mode);
        options.mode = mode;
        let changed = self.options.mode != mode;
        let before = std::mem::replace(&mut self.options, options);
        let options = &self.options;
        self.set_modes.retain(|name, _| {
            before.property_modes.get(name) == options.property_modes.get(name)
                && before.file_modes.get(name) == options.file_modes.get(name)
        });
        self.harm.set_limits(options.harm);
        self.settled = None;
        let switches_changed = before.switches != options.switches;
        self.complain_about_names();
        if changed {
            self.tell_mode(mode);
        }
        if switches_changed {
            self.tell_switches();
        }
        self.tell_rules();
        self.lower_filters(now);
    }

    /// Returns what is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        if matches!(output, Output::Log(_)) {
            self.records_waiting -= 1;
        }
        Some(output)
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Time> {
        let run = self.run.as_ref().map(|run| run.patience.until);
        let starting = self.starting.as_ref().map(|patience| patience.until);
        let filters = self.active.values().map(leases::Active::overdue);
        filters
            .chain(run)
            .chain(starting)
            .chain(self.harm.poll_timeout())
            .min()
    }

    /// Returns how this controller behaves.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Tells whether a checker is up.
    pub fn is_checker_ready(&self) -> bool {
        self.checker_ready
    }

    /// Returns what was counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the past paths.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    fn attach(&mut self, now: Time, hello: Hello) {
        if self.host.is_some() {
            self.handle_host_gone(now, "another connection took its place");
        }
        self.host_epoch += 1;
        let served = Some((hello.service.clone(), hello.version.clone()));
        if !hello.checks || std::mem::replace(&mut self.served, served.clone()) != served {
            self.checks.clear();
        }
        let dropped = self.paths.serve(&hello.service, &hello.version);
        self.log(What::HostUp {
            service: hello.service.clone(),
            version: hello.version.clone(),
        });
        if dropped > 0 {
            self.log(What::Paths {
                kept: 0,
                dropped: dropped as u64,
                why: "they are of another version of the service".to_owned(),
            });
            self.save_paths();
        }
        self.host = Some(Host {
            incarnation: hello.incarnation,
            service: hello.service,
            version: hello.version,
            checks: hello.checks,
            stats: Stats::default(),
            failures: BTreeMap::new(),
        });
        let welcome = Welcome {
            version: self.options.version.clone(),
            mode: self.options.mode,
        };
        self.outputs.push_back(Output::Host(welcome.into()));
        self.tell_switches();
        self.tell_rules();
        self.resume_checks(now);
    }

    /// Tells the host which files forbid steering, so that it needs nobody to obey them.
    fn tell_switches(&mut self) {
        if self.host.is_some() {
            let files = self.options.switches.clone();
            let switches = Switches { files };
            self.outputs.push_back(Output::Host(switches.into()));
        }
    }

    fn tell_rules(&mut self) {
        if self.host.is_none() {
            return;
        }
        let rules = CheckSettings {
            properties: self.options.properties.clone(),
            modes: self.own_modes(),
            isolate: self.options.isolate,
            deadline_ms: self.options.check_deadline_ms,
            surroundings_age_ms_max: self.options.surroundings_age_ms_max,
            hold_ms_max: self.options.hold_ms_max,
            time_share_per_mille: self.options.time_share_per_mille,
        };
        self.outputs.push_back(Output::Host(Box::new(rules).into()));
    }

    /// Counts are since the host's start, and a frame may be lost: what is new is the difference.
    fn take_stats(&mut self, now: Time, stats: Stats) {
        let Some(host) = &mut self.host else {
            return;
        };
        let steers = |active: &leases::Active| {
            active.in_force && active.filter.mode == Mode::Steer && !active.only_checks()
        };
        let steered = self.active.values().any(steers);
        let fallen = self.harm.handle_stats(now, &stats, steered);
        self.counts.actions += stats.events.saturating_sub(host.stats.events);
        let unchecked = stats.unchecked_events;
        self.counts.unchecked += unchecked.saturating_sub(host.stats.unchecked_events);
        let dropped = stats
            .dropped_frames
            .saturating_sub(host.stats.dropped_frames);
        let before = &host.stats.check_times;
        self.durations.check.add_new(before, &stats.check_times);
        host.stats = stats;
        if dropped > 0 {
            let detail = "the host dropped what this agent did not read in time";
            self.fail_open("socket-full", dropped, detail.to_owned());
        }
        if !fallen.is_empty() {
            self.fall_back(now, fallen);
        }
    }

    fn suspicion(&mut self, suspicion: Suspicion) {
        let outcome = Word(suspicion.outcome);
        self.durations.hold.note_us(suspicion.held_us);
        *self
            .counts
            .suspicions
            .entry(outcome_name(suspicion.outcome))
            .or_default() += 1;
        self.log(What::Suspicion {
            property: suspicion.property,
            event: suspicion.event,
            outcome,
            held_us: suspicion.held_us,
        });
    }

    fn log(&mut self, entry: impl Into<Entry>) {
        if self.records_waiting >= self.options.records_waiting_max {
            self.counts.records_dropped += 1;
            return;
        }
        self.records_waiting += 1;
        self.outputs.push_back(Output::Log(entry.into()));
    }

    fn fail_open(&mut self, failure: &'static str, new: u64, detail: String) {
        let count = self.counts.failed_open.entry(failure).or_default();
        *count += new;
        let what = What::FailedOpen {
            failure: failure.to_owned(),
            count: *count,
            detail,
        };
        self.log(what);
    }

    fn save_paths(&mut self) {
        self.outputs
            .push_back(Output::SavePaths(self.paths.write()));
    }
}

const OUTCOMES: [Outcome; 6] = [
    Outcome::Cleared,
    Outcome::Refused,
    Outcome::Late,
    Outcome::NotTogether,
    Outcome::RefusalBreaks,
    Outcome::Limited,
];

/// The name of what came of a held event in metrics, as the log has it.
fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Cleared => "cleared",
        Outcome::Refused => "refused",
        Outcome::Late => "late",
        Outcome::NotTogether => "not-together",
        Outcome::RefusalBreaks => "refusal-breaks",
        Outcome::Limited => "limited",
    }
}

/// The name of a failure in the log and in metrics.
fn failure_name(failure: Failure) -> &'static str {
    match failure {
        Failure::CheckLate => "check-late",
        Failure::SpeculatorGone => "speculator-gone",
        Failure::ForkFailed => "fork-failed",
        Failure::RulesUnfit => "rules-unfit",
        Failure::SurroundingsUnreadable => "surroundings-unreadable",
        Failure::SurroundingsStale => "surroundings-stale",
        Failure::CheckpointTooLarge => "checkpoint-too-large",
        Failure::CheckOverShare => "check-over-share",
        Failure::PropertyPanicked => "property-panicked",
        Failure::VetoesDisarmed => "vetoes-disarmed",
        Failure::JudgementCutOff => "judgement-cut-off",
        Failure::PropertyLate => "property-late",
        Failure::StampRefused => "stamp-refused",
        Failure::NumbersUnfit => "numbers-unfit",
        Failure::Renewed => "incarnation-renewed",
        Failure::PortLimit => "port-limit",
    }
}
