//! The plain deployment of `examples/paxos` as a Promela model, and SPIN's way to explore it: a C program.
//!
//! One process delivers messages; a message on its way is a bit in a mask, one mask per proposer and kind. SPIN likes
//! this better than channels: fewer bytes a state, and every delivery is one deterministic step.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

use crate::contender::{Measurement, Task, cpu_seconds};
use crate::options::Size;

/// A compiled model, in a directory that is removed with it.
#[derive(Debug)]
pub(crate) struct Verifier {
    directory: PathBuf,
}

impl Verifier {
    /// Makes the verifier of a system, where SPIN and the C compiler it needs are installed.
    pub(crate) fn build(size: Size) -> Result<Option<Self>> {
        if !is_installed("spin", "-V") || !is_installed("gcc", "--version") {
            return Ok(None);
        }
        let name = format!("scry-bench-explore-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory)?;
        let verifier = Self { directory };
        std::fs::write(verifier.directory.join("paxos.pml"), promela(size))?;
        verifier.call("spin", &["-a", "paxos.pml"])?;
        // Without MEMLIM the verifier gives up at one gigabyte.
        let flags = ["-O3", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=1048576"];
        verifier.call("gcc", &[&flags[..], &["-w", "-o", "pan", "pan.c"]].concat())?;
        Ok(Some(verifier))
    }

    /// Returns the program to run.
    pub(crate) fn program(&self) -> PathBuf {
        self.directory.join("pan")
    }

    fn call(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.directory)
            .output()?;
        ensure!(
            output.status.success(),
            "{program} ended with {}:\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            eprintln!(
                "explore: {} stays behind: {error}",
                self.directory.display()
            );
        }
    }
}

fn is_installed(program: &str, harmless: &str) -> bool {
    Command::new(program)
        .arg(harmless)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs the verifier. It must be the first child of this process: its memory and processor time are those of
/// all children.
pub(crate) fn explore(task: &Task) -> Result<Measurement> {
    let program = task
        .verifier
        .as_deref()
        .context("spin needs --verifier, a program made of its model")?;
    let Output { status, stdout, .. } = Command::new(program)
        .args(arguments(task))
        .current_dir(program.parent().unwrap_or(Path::new(".")))
        .output()?;
    let text = String::from_utf8_lossy(&stdout);
    ensure!(
        status.success()
            && text.contains("errors: 0")
            && !text.contains("too small")
            && !text.contains("not completed"),
        "the verifier did not explore everything:\n{text}"
    );
    let peak_kilobytes = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    Ok(Measurement {
        states: count(&text, "states, stored")?,
        // It counts the initial state as if a transition led there.
        transitions: count(&text, "transitions (= stored+matched)")? - 1,
        seconds: seconds(&text)?,
        cpu_seconds: cpu_seconds(UsageWho::RUSAGE_CHILDREN)?,
        peak_rss_bytes: u64::try_from(peak_kilobytes)? * 1024,
        handler_runs: None,
    })
}

fn arguments(task: &Task) -> [String; 2] {
    let size = task.size;
    // Each proposer and acceptor exchange four messages at most, and every step delivers one.
    let depth = 4 * u32::from(size.proposers) * u32::from(size.acceptors) + 1;
    // Two to four slots a state: with fewer it is slower, with more it is not faster.
    let states = task.states_expected.unwrap_or(1 << 23);
    let slots = (2 * states).next_power_of_two();
    [
        format!("-m{}", depth + 1),
        format!("-w{}", slots.ilog2().max(10)),
    ]
}

/// Finds the number that stands before a label. It may be written as 1.2e+08.
fn count(text: &str, label: &str) -> Result<u64> {
    let number: f64 = before(text, label)?;
    Ok(number as u64)
}

/// Finds the duration, which SPIN counts in hundredths.
fn seconds(text: &str) -> Result<f64> {
    let rest = text
        .lines()
        .find_map(|line| line.split_once("elapsed time"))
        .map(|(_, rest)| rest)
        .context("the verifier does not tell its time")?;
    before(rest, "seconds")
}

fn before<N: FromStr>(text: &str, label: &str) -> Result<N> {
    text.lines()
        .find_map(|line| line.split_once(label))
        .and_then(|(number, _)| number.trim().parse().ok())
        .with_context(|| format!("the verifier prints no number of {label}:\n{text}"))
}

/// Writes the model. Ballots and values are the proposer's number from 1 on; 0 is none.
///
/// Every index is written out, so that the compiled model computes none.
fn promela(size: Size) -> String {
    let Size {
        proposers,
        acceptors,
    } = size;
    let everyone = (1_u16 << acceptors) - 1;
    let mut text = String::new();
    for a in 0..acceptors {
        text += &format!("byte promised_{a}, vote_ballot_{a}, vote_value_{a};\n");
    }
    for p in 0..proposers {
        text += &format!(
            "byte promised_by_{p}, highest_ballot_{p}, highest_value_{p}, proposed_{p}, accepted_by_{p};\n\
             byte prepares_{p} = {everyone}, promises_{p}, accepts_{p}, accepteds_{p};\n"
        );
        for a in 0..acceptors {
            text += &format!("byte promise_ballot_{p}_{a}, promise_value_{p}_{a};\n");
        }
    }
    text += "active proctype network() {\nend: do\n";
    for p in 0..proposers {
        for a in 0..acceptors {
            text += &deliveries(size, p, a);
        }
    }
    text += "od\n}\n";
    text
}

/// Writes the deliveries between one proposer and one acceptor. Only those that change something are enabled.
fn deliveries(size: Size, p: u8, a: u8) -> String {
    let bit = 1_u16 << a;
    let everyone = (1_u16 << size.acceptors) - 1;
    let ballot = p + 1;
    let majority = size.majority();
    let promised_by = members(size, &format!("promised_by_{p}"));
    let accepted_by = members(size, &format!("accepted_by_{p}"));
    let mut agreement = String::new();
    for other in (0..size.proposers).filter(|&other| other != p) {
        let others = members(size, &format!("accepted_by_{other}"));
        write!(
            agreement,
            "assert({others} < {majority} || proposed_{other} == proposed_{p}); "
        )
        .expect("a string takes any text");
    }
    format!(
        ":: d_step {{ (prepares_{p} & {bit}) && promised_{a} < {ballot} ->
    prepares_{p} = prepares_{p} ^ {bit}; promised_{a} = {ballot}; promises_{p} = promises_{p} | {bit};
    promise_ballot_{p}_{a} = vote_ballot_{a}; promise_value_{p}_{a} = vote_value_{a} }}
:: d_step {{ (promises_{p} & {bit}) && proposed_{p} == 0 ->
    promises_{p} = promises_{p} ^ {bit}; promised_by_{p} = promised_by_{p} | {bit};
    if
    :: promise_ballot_{p}_{a} > highest_ballot_{p} ->
        highest_ballot_{p} = promise_ballot_{p}_{a}; highest_value_{p} = promise_value_{p}_{a}
    :: else
    fi;
    promise_ballot_{p}_{a} = 0; promise_value_{p}_{a} = 0;
    if
    :: {promised_by} >= {majority} ->
        proposed_{p} = (highest_ballot_{p} -> highest_value_{p} : {ballot}); accepts_{p} = {everyone}
    :: else
    fi }}
:: d_step {{ (accepts_{p} & {bit}) && promised_{a} <= {ballot} ->
    accepts_{p} = accepts_{p} ^ {bit}; accepteds_{p} = accepteds_{p} | {bit};
    promised_{a} = {ballot}; vote_ballot_{a} = {ballot}; vote_value_{a} = proposed_{p} }}
:: d_step {{ (accepteds_{p} & {bit}) && {accepted_by} < {majority} ->
    accepteds_{p} = accepteds_{p} ^ {bit}; accepted_by_{p} = accepted_by_{p} | {bit};
    if
    :: {accepted_by} >= {majority} -> {agreement}skip
    :: else
    fi }}
"
    )
}

/// Writes how many acceptors are in a set.
fn members(size: Size, set: &str) -> String {
    let bits: Vec<String> = (0..size.acceptors)
        .map(|a| format!("(({set} >> {a}) & 1)"))
        .collect();
    format!("({})", bits.join(" + "))
}
