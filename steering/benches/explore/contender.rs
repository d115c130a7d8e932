//! Who competes, and how one run of each is measured.
//!
//! Peak memory belongs to a process, so every run has one of its own: the bench starts itself again with a
//! [`Task`] on the command line and reads one line of JSON.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use paxos::{Bugs, properties, scenarios};
use scry::{Options, Search};
use serde::{Deserialize, Serialize};

use crate::options::Size;
use crate::{spin, stateright_paxos};

/// A checker, as it is set up here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Contender {
    /// scry's exhaustive search on one thread.
    Scry,
    /// The same on two.
    ScryTwoThreads,
    /// stateright's breadth-first search over actors on one thread.
    Stateright,
    /// SPIN's depth-first search, compiled.
    Spin,
}

/// One run of one contender.
#[derive(Debug)]
pub(crate) struct Task {
    /// Who runs.
    pub(crate) contender: Contender,
    /// On what.
    pub(crate) size: Size,
    /// The program SPIN made of its model; nobody else needs it.
    pub(crate) verifier: Option<PathBuf>,
    /// How many states there will be, if known: SPIN's hash table does not grow well.
    pub(crate) states_expected: Option<u64>,
}

/// What one run saw and what it took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// States, the initial one among them.
    pub(crate) states: u64,
    /// Transitions, also those to states seen before.
    pub(crate) transitions: u64,
    /// Duration of the search alone: neither building the model nor tearing down its tables.
    pub(crate) seconds: f64,
    /// Time on a processor during the search, of all threads: what a busy machine distorts least.
    pub(crate) cpu_seconds: f64,
    /// The most memory the process ever held.
    pub(crate) peak_rss_bytes: u64,
    /// How often a handler ran, from who counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handler_runs: Option<u64>,
}

/// Measures a stretch of work in this process.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    cpu_seconds_before: f64,
}

impl Clock {
    /// Starts the stretch.
    pub(crate) fn start() -> Result<Self> {
        Ok(Self {
            cpu_seconds_before: cpu_seconds(UsageWho::RUSAGE_SELF)?,
            started: Instant::now(),
        })
    }

    /// Ends it, and returns its seconds by the clock and by the processor.
    pub(crate) fn stop(self) -> Result<(f64, f64)> {
        let seconds = self.started.elapsed().as_secs_f64();
        let cpu_seconds = cpu_seconds(UsageWho::RUSAGE_SELF)? - self.cpu_seconds_before;
        Ok((seconds, cpu_seconds))
    }
}

/// Returns how long somebody has been on a processor so far, in the program and in the kernel.
pub(crate) fn cpu_seconds(who: UsageWho) -> Result<f64> {
    let usage = getrusage(who)?;
    let spent = usage.user_time() + usage.system_time();
    Ok(spent.num_microseconds() as f64 / 1e6)
}

impl Contender {
    /// Everybody, scry first.
    pub(crate) const ALL: [Self; 4] = [
        Self::Scry,
        Self::ScryTwoThreads,
        Self::Stateright,
        Self::Spin,
    ];
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Scry => "scry",
            Self::ScryTwoThreads => "scry_2threads",
            Self::Stateright => "stateright",
            Self::Spin => "spin",
        })
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|contender| contender.to_string() == text);
        found.ok_or_else(|| {
            let all = Self::ALL.map(|contender| contender.to_string());
            format!(
                "no contender is called `{text}`; there are {}",
                all.join(", ")
            )
        })
    }
}

impl Task {
    /// Performs the task in a process of its own.
    pub(crate) fn measure(&self) -> Result<Measurement> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(format!("--contender={}", self.contender))
            .arg(format!("--proposers={}", self.size.proposers))
            .arg(format!("--acceptors={}", self.size.acceptors));
        if let Some(verifier) = &self.verifier {
            command.arg("--verifier").arg(verifier);
        }
        if let Some(states) = self.states_expected {
            command.arg(format!("--states-expected={states}"));
        }
        let output = command.stderr(Stdio::inherit()).output()?;
        ensure!(
            output.status.success(),
            "its process ended with {}",
            output.status
        );
        serde_json::from_slice(&output.stdout).context("its process printed no measurement")
    }

    /// Performs the task here.
    pub(crate) fn perform(&self) -> Result<Measurement> {
        match self.contender {
            Contender::Scry => scry(self.size, 1),
            Contender::ScryTwoThreads => scry(self.size, 2),
            Contender::Stateright => stateright_paxos::explore(self.size),
            Contender::Spin => spin::explore(self),
        }
    }
}

fn scry(size: Size, threads: usize) -> Result<Measurement> {
    let system = scenarios::plain_system(
        size.proposers.into(),
        size.acceptors.into(),
        Bugs::default(),
    );
    let (start, _) = system.start()?;
    let options = Options {
        threads,
        ..Options::default()
    };
    let clock = Clock::start()?;
    let mut search = Search::new(&start, properties::all(), options)?;
    while search.advance(u64::MAX).is_none() {}
    let (seconds, cpu_seconds) = clock.stop()?;
    let report = search.finish();
    ensure!(
        report.complete,
        "scry did not explore everything: {}",
        report.stop
    );
    ensure!(
        report.violations.is_empty() && report.unconfirmed == 0,
        "scry takes a correct Paxos for wrong"
    );
    Ok(Measurement {
        states: report.states,
        transitions: report.transitions,
        seconds,
        cpu_seconds,
        peak_rss_bytes: peak_rss_bytes()?,
        handler_runs: Some(report.handler_runs),
    })
}

/// Returns the most memory this process ever held.
///
/// The kernel starts this mark anew with each program, unlike `getrusage`, whose mark survives `exec`.
pub(crate) fn peak_rss_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .context("the kernel does not tell the peak memory")?
        .trim()
        .parse()?;
    Ok(kilobytes * 1024)
}
