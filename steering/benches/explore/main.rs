//! Explores single-decree Paxos with scry and with its closest peers in one run, and reports the ratios.
//!
//! `cargo bench -p scry --bench explore` prints a table, `-- --json` one object. See [`options`] for the rest. Machines
//! differ and are shared, so only the ratios mean something: nothing here fails because of time. It does fail when two
//! contenders disagree on what they explored.

mod contender;
mod options;
mod result;
mod spin;
mod stateright_paxos;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::contender::{Contender, Measurement, Task};
use crate::options::{Mode, Plan};
use crate::result::{Entry, Outcome};
use crate::spin::Verifier;

/// What sysexits calls a bad command line.
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let mode = match options::parse(std::env::args().skip(1)) {
        Ok(mode) => mode,
        Err(error) => {
            eprintln!("explore: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match run(mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("explore: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mode: Mode) -> Result<()> {
    match mode {
        Mode::Single(task) => {
            println!("{}", serde_json::to_string(&task.perform()?)?);
        }
        Mode::Compare(plan) => {
            let outcome = compare(&plan)?;
            if plan.json {
                println!("{}", outcome.to_json());
            } else {
                print!("{outcome}");
            }
        }
    }
    Ok(())
}

/// Runs every contender in a process of its own, in turns, so that a busy minute of the machine hits all of them.
fn compare(plan: &Plan) -> Result<Outcome> {
    let size = plan.size;
    let verifier =
        Verifier::build(size).context("SPIN is installed, but its model does not build")?;
    let mut entries: Vec<Entry> = Contender::ALL
        .into_iter()
        .filter(|&contender| contender != Contender::Spin || verifier.is_some())
        .map(Entry::new)
        .collect();
    let mut states = None;
    for turn in 0..plan.turns() {
        for entry in &mut entries {
            let contender = entry.contender;
            if turn >= plan.runs(contender) {
                continue;
            }
            let task = Task {
                contender,
                size,
                verifier: verifier.as_ref().map(Verifier::program),
                states_expected: states,
            };
            let measurement = task
                .measure()
                .with_context(|| format!("{contender} could not be measured"))?;
            if !plan.json {
                eprintln!("{contender}: {:.3} s", measurement.seconds);
            }
            states.get_or_insert(measurement.states);
            entry.runs.push(measurement);
        }
    }
    agree(&entries)?;
    Ok(Outcome::new(size, entries))
}

/// Checks that everybody explored the same space, so that their times can be compared.
fn agree(entries: &[Entry]) -> Result<()> {
    let explored = |run: &Measurement| (run.states, run.transitions);
    let mut all = Vec::new();
    for entry in entries {
        for run in &entry.runs {
            all.push((entry.contender, explored(run)));
        }
    }
    ensure!(
        all.windows(2).all(|pair| pair[0].1 == pair[1].1),
        "the contenders explored different spaces (states, transitions): {}",
        all.iter()
            .map(|(contender, counts)| format!("{contender} {counts:?}"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(())
}
