//! The controller through its public face: facts in, work out.

use scry_protocol::compress::Packed;
use scry_protocol::filter::{Action, Filter, Matcher};
use scry_protocol::link::checker::{
    Cancel, Ended, Found, How, PastPath, Progress, Ready, Replayed, Report, Violation,
};
use scry_protocol::link::host::{
    FailedOpen, FilterEnd, FilterEnded, FilterHit, InstallFilters, PredictionAnswer, Veto,
    WithdrawFilters,
};
use scry_protocol::link::peer::{PathAnswer, PathOutcome, SharePath};
use scry_protocol::snapshot::{Member, Missing, Reason};
use scry_protocol::{Body, CheckpointNumber, Content, RunId, Snapshot};

use super::*;

mod failing;
mod measured;
mod modes;
mod settled;
mod steering;
mod unharmed;
mod with_neighbors;

const ME: NodeId = NodeId::new(1);
const OTHER: NodeId = NodeId::new(2);

fn violation(id: u64) -> ViolationId {
    ViolationId::new(id)
}

/// A controller and everything it has asked for.
struct Bench {
    now: Time,
    controller: Controller,
    jobs: Vec<Job>,
    cancels: Vec<RunId>,
    host: Vec<AgentToHost>,
    peers: Vec<(NodeId, PeerMessage)>,
    log: Vec<Entry>,
    traces: Vec<(ViolationId, Vec<u8>)>,
    saved: Option<Vec<u8>>,
    gathers: usize,
    restarts: Vec<String>,
    /// What the next snapshot shows.
    state: u8,
}

impl Bench {
    /// With a host and a checker, allowed to steer.
    fn steering() -> Self {
        Self::with(Options {
            mode: Mode::Steer,
            ..Options::default()
        })
    }

    fn with(options: Options) -> Self {
        let mut bench = Self::bare(options, Paths::default());
        bench.attach("1");
        bench.ready();
        bench
    }

    fn bare(options: Options, paths: Paths) -> Self {
        Self {
            now: Time::from_millis(1_000),
            controller: Controller::new(ME, options, paths),
            jobs: Vec::new(),
            cancels: Vec::new(),
            host: Vec::new(),
            peers: Vec::new(),
            log: Vec::new(),
            traces: Vec::new(),
            saved: None,
            gathers: 0,
            restarts: Vec::new(),
            state: 0,
        }
    }

    fn attach(&mut self, version: &str) {
        let hello = Hello {
            node: ME,
            incarnation: Incarnation::new(self.now.as_millis()),
            born: CheckpointNumber::ZERO,
            number: CheckpointNumber::ZERO,
            service: "randtree".to_owned(),
            version: version.to_owned(),
            checks: true,
        };
        self.host(hello);
    }

    fn ready(&mut self) {
        self.checker(Ready {
            properties: ["one root", "no cycle"].map(str::to_owned).to_vec(),
        });
    }

    fn host(&mut self, message: impl Into<HostToAgent>) {
        self.controller.handle_host(self.now, message.into());
        self.drain();
    }

    fn checker(&mut self, message: impl Into<CheckerToAgent>) {
        self.controller.handle_checker(self.now, message.into());
        self.drain();
    }

    fn peer(&mut self, from: NodeId, message: impl Into<PeerMessage>) {
        self.controller.handle_peer(self.now, from, message.into());
        self.drain();
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now.after_millis(millis);
        self.controller.handle_timeout(self.now);
        self.drain();
    }

    fn snapshot(&mut self) {
        self.snapshot_of_age(0);
    }

    /// A snapshot that shows something new.
    fn snapshot_of_age(&mut self, age_ms: u64) {
        self.state += 1;
        self.same_snapshot(age_ms);
    }

    /// A snapshot that shows what the last one did.
    fn same_snapshot(&mut self, age_ms: u64) {
        let state = self.state;
        let member = |node| Member {
            node,
            number: CheckpointNumber::from(3),
            age_ms,
            body: body(state),
        };
        let snapshot = Snapshot {
            by: ME,
            number: CheckpointNumber::from(3),
            rounds: 1,
            elapsed_ms: 5,
            members: vec![member(ME), member(OTHER)],
            missing: vec![Missing {
                node: NodeId::new(3),
                reason: Reason::Silent,
            }],
        };
        self.controller.handle_snapshot(self.now, false, snapshot);
        self.drain();
    }

    /// Begins a run and returns its name.
    fn begin(&mut self) -> RunId {
        self.snapshot();
        self.running()
    }

    fn running(&self) -> RunId {
        self.jobs.last().expect("a job was given").run
    }

    fn end(&mut self) {
        let run = self.running();
        self.checker(report(run, Ended::Exhausted));
    }

    /// A run that finds one violation with one remedy, while it goes on.
    fn find(&mut self, id: u64) {
        let run = self.running();
        self.checker(found(run, id, vec![join_filter()]));
    }

    fn drain(&mut self) {
        while let Some(output) = self.controller.poll_output() {
            match output {
                Output::Checker(AgentToChecker::Job(job)) => self.jobs.push(*job),
                Output::Checker(AgentToChecker::Cancel(Cancel { run })) => self.cancels.push(run),
                Output::Host(message) => self.host.push(message),
                Output::Peer { to, message } => self.peers.push((to, message)),
                Output::Log(entry) => self.log.push(entry),
                Output::Trace { violation, json } => self.traces.push((violation, json)),
                Output::SavePaths(bytes) => self.saved = Some(bytes),
                Output::Gather => self.gathers += 1,
                Output::RestartChecker { why } => self.restarts.push(why),
            }
        }
    }

    /// The kinds of the records since the last look that concern a violation.
    fn kinds_of(&self, id: u64) -> Vec<&'static str> {
        let of = |entry: &&Entry| {
            entry
                .violation
                .is_some_and(|shown| shown.0 == violation(id))
        };
        self.log
            .iter()
            .filter(of)
            .map(|entry| entry.what.kind())
            .collect()
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.log.iter().map(|entry| entry.what.kind()).collect()
    }

    fn records(&self, kind: &str) -> Vec<&Entry> {
        self.log
            .iter()
            .filter(|entry| entry.what.kind() == kind)
            .collect()
    }

    fn installed(&self) -> Vec<&Filter> {
        let mut filters = Vec::new();
        for message in &self.host {
            if let AgentToHost::InstallFilters(InstallFilters { filters: new, .. }) = message {
                filters.extend(new);
            }
        }
        filters
    }

    fn withdrawn(&self) -> Vec<FilterId> {
        let mut ids = Vec::new();
        for message in &self.host {
            if let AgentToHost::WithdrawFilters(WithdrawFilters {
                filters: Some(gone),
            }) = message
            {
                ids.extend(gone);
            }
        }
        ids
    }

    fn in_force(&self) -> usize {
        self.controller.status(self.now).filters.len()
    }

    fn clear(&mut self) {
        self.host.clear();
        self.log.clear();
        self.peers.clear();
    }
}

fn body(state: u8) -> Body {
    let content = Content {
        incarnation: Incarnation::new(1),
        born: CheckpointNumber::ZERO,
        past: scry_protocol::Past::default(),
        state: vec![state],
        timers: Vec::new(),
        channels: None,
    };
    content.write().unwrap()
}

fn report(run: RunId, ended: Ended) -> Report {
    Report {
        run,
        ended,
        progress: Progress {
            run,
            states: 100,
            depth: 7,
            elapsed_ms: 30,
            covered: false,
        },
        violations: 0,
        unconfirmed: 0,
        detail: String::new(),
        lasting: Vec::new(),
        unjudged: Vec::new(),
        cut_off: Vec::new(),
        left_out: Vec::new(),
        panicked: Vec::new(),
    }
}

/// A filter as the checker proposes it: without id, lease and mode.
fn filter(kind: &str) -> Filter {
    Filter {
        id: FilterId::new(0),
        matcher: Matcher::Message {
            kind: kind.to_owned(),
            source: OTHER,
            destination: ME,
            content: None,
        },
        action: Action::Drop,
        ttl_ms: 0,
        hits_max: 0,
        mode: Mode::Off,
        violation: violation(0),
        property: String::new(),
        reason: String::new(),
    }
}

fn join_filter() -> Filter {
    filter("Join")
}

fn found(run: RunId, id: u64, remedies: Vec<Filter>) -> Box<Found> {
    Box::new(Found {
        run,
        violation: Violation {
            id: violation(id),
            property: "one root".to_owned(),
            how: How::Broken,
            critical: String::new(),
            explanation: "n1 and n2 both lead".to_owned(),
            depth: 4,
            path: id.to_be_bytes().to_vec(),
            remedies,
            unhelpful: String::new(),
            neighbor: None,
            elsewhere: None,
            found_by: "local".to_owned(),
            trace: rmp_serde::to_vec(&Packed::pack(br#"{"version":1}"#.to_vec())).unwrap(),
        },
    })
}

fn replayed(run: RunId, id: u64, confirmed: bool, remedies: Vec<Filter>) -> Replayed {
    Replayed {
        run,
        violation: violation(id),
        confirmed,
        how: How::Broken,
        remedies,
        elsewhere: None,
    }
}
