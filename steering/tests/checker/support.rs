//! What the tests share: jobs, a shell that listens, and scenarios by name.

use std::collections::BTreeSet;
use std::time::Instant;

use scry::checker::{Checker, Shell};
use scry::{Faults, NodeId, Program, Request, Service, Simulation};
use scry_protocol::RunId;
use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::link::checker::{
    self, Budget, CheckerToAgent, Job, Order, PastPath, Replayed, Report, Violation,
};

use crate::snapshot::snapshot;

/// Hears what a checker tells, and may cancel it.
pub(crate) struct Listener {
    begun: Instant,
    pub(crate) heard: Vec<CheckerToAgent>,
    /// After how many questions it cancels.
    pub(crate) patience: Option<u32>,
}

impl Shell for Listener {
    fn elapsed_ms(&mut self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn is_cancelled(&mut self) -> bool {
        match &mut self.patience {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn tell(&mut self, message: CheckerToAgent) {
        self.heard.push(message);
    }
}

pub(crate) fn listener() -> Listener {
    Listener {
        begun: Instant::now(),
        heard: Vec::new(),
        patience: None,
    }
}

impl Listener {
    pub(crate) fn found(&self) -> Vec<&Violation> {
        let found = self.heard.iter().filter_map(|message| match message {
            CheckerToAgent::Found(found) => Some(&found.violation),
            _ => None,
        });
        found.collect()
    }

    /// Returns the properties that were found broken, by name.
    pub(crate) fn broken(&self) -> Vec<&str> {
        let found = self.found().into_iter();
        let mut broken: Vec<&str> = found.map(|found| found.property.as_str()).collect();
        broken.sort_unstable();
        broken
    }

    pub(crate) fn replayed(&self) -> Vec<&Replayed> {
        let replayed = self.heard.iter().filter_map(|message| match message {
            CheckerToAgent::Replayed(replayed) => Some(replayed),
            _ => None,
        });
        replayed.collect()
    }

    pub(crate) fn report(&self) -> &Report {
        match self.heard.last() {
            Some(CheckerToAgent::Report(report)) => report,
            other => panic!("a run ends with a report, not with {other:?}"),
        }
    }
}

pub(crate) fn job<S: Service>(state: &Simulation<S>, by: u32) -> Job {
    Job {
        run: RunId::new(1),
        snapshot: snapshot(state, NodeId::new(by)),
        properties: String::new(),
        faults: wire(state.faults()),
        clock: scry_protocol::link::checker::Clock::default(),
        budget: Budget {
            time_ms: 60_000,
            states_max: 300_000,
            depth_max: 9,
            memory_bytes_max: 1 << 30,
            violations_max: 16,
        },
        order: Order::LeastHarm,
        checks: false,
        past_paths: Vec::new(),
        whole: true,
        modes: Vec::new(),
        strategy: "consequence".to_owned(),
        liveness: Mode::Audit,
    }
}

/// The same job with the paper's policy.
pub(crate) fn earliest(job: Job) -> Job {
    Job {
        order: Order::Earliest,
        ..job
    }
}

fn wire(faults: Faults) -> checker::Faults {
    checker::Faults {
        resets: faults.resets,
        silent_resets: faults.silent_resets,
        breaks: faults.breaks,
        losses: faults.losses,
        duplicates: faults.duplicates,
        late_starts: faults.late_starts,
    }
}

pub(crate) fn past(violation: &Violation) -> PastPath {
    PastPath {
        violation: violation.id,
        path: violation.path.clone(),
    }
}

pub(crate) fn run<S: Service>(job: &Job) -> Listener {
    let mut listener = listener();
    Checker::<S>::default().run(job, &mut listener);
    listener
}

/// Leads a scenario to its start state.
pub(crate) fn scenario<S: Program>(
    name: &str,
    bugs: &[&'static str],
    options: &S::Options,
) -> Simulation<S> {
    let bugs: BTreeSet<&'static str> = bugs.iter().copied().collect();
    let scenario = S::scenarios().into_iter().find(|it| it.name == name);
    let request = Request {
        bugs: &bugs,
        nodes: None,
        options,
    };
    let system = (scenario.expect("a known scenario").build)(&request).expect("a good request");
    system.start().expect("a script that runs").0
}

/// Shows a filter as the tests write it.
pub(crate) fn shown(filter: &Filter) -> String {
    let action = match filter.action {
        Action::Drop => "drop",
        Action::Reset => "reset",
        Action::Postpone => "postpone",
        Action::Refuse => "refuse",
        Action::Hold => "hold",
        Action::Check => "check",
    };
    let content = |content: &Option<_>| if content.is_some() { " this" } else { "" };
    match &filter.matcher {
        Matcher::Message {
            kind,
            source,
            destination,
            content: digest,
        } => format!("{action}{} {kind} {source}->{destination}", content(digest)),
        Matcher::Timer {
            kind,
            content: digest,
        } => {
            format!("{action}{} timer {kind}", content(digest))
        }
        Matcher::Call {
            kind,
            content: digest,
        } => {
            format!("{action}{} call {kind}", content(digest))
        }
        Matcher::Disconnect { peer } => format!("{action} loss of {peer}"),
    }
}
