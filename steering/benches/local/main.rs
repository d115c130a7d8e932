//! Paxos as local model checking was measured on (LMC §5): one proposal, two, and two with the bug of the last answer, by
//! exhaustive and depth-first search, by local model checking that puts all local states together, and by that which asks about classes.
//!
//! `cargo bench -p scry --bench local`, with `-- --json` for machines and `-- --states N` for how many states the searches may find
//! that do not come to an end. Machines differ and are shared, so of the times only ratios mean something; nothing fails because of one.
//! It does fail where an answer is wrong.

#[path = "../../engine/tests/engine/local/paxos.rs"]
mod paxos;

use std::time::Instant;

use anyhow::{Context, ensure};
use scry::explore::{Settings, Stop};
use scry::timing::Clock;
use scry::{Limits, Options, Property, Report, Search, Simulation, Strategy};
use serde_json::{Value, json};

use crate::paxos::Paxos;

/// How often what is quick is measured.
const RUNS: usize = 5;

/// What came of one search.
struct Measured {
    seconds: f64,
    report: Report<Paxos>,
}

impl Measured {
    fn tally(&self, name: &str) -> u64 {
        let found = self.report.tallies.iter().find(|(known, _)| *known == name);
        found.map_or(0, |&(_, count)| count)
    }

    fn is_complete(&self) -> bool {
        self.report.complete
    }
}

/// How a violation was found.
struct Hunted {
    seconds: f64,
    depth: usize,
    questions: u64,
    /// Time spent on questions.
    asking: f64,
}

fn options(strategy: Strategy, settings: &[(&'static str, u64)], states: Option<u64>) -> Options {
    Options {
        strategy,
        limits: Limits {
            states,
            ..Limits::default()
        },
        clock: Clock::FREE,
        settings: Settings::of(settings),
        ..Options::default()
    }
}

/// Searches to the end, or for so many steps.
fn measure(start: &Simulation<Paxos>, options: Options, steps: u64) -> anyhow::Result<Measured> {
    let begun = Instant::now();
    let mut search = Search::new(start, vec![paxos::agreement()], options)?;
    search.advance(steps);
    let report = search.finish_as_it_is();
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(report.violations.is_empty(), "Paxos is correct");
    Ok(Measured { seconds, report })
}

/// As [`measure`], the median of some runs.
fn often(
    runs: usize,
    start: &Simulation<Paxos>,
    settings: &[(&'static str, u64)],
) -> anyhow::Result<Measured> {
    let all = (0..runs).map(|_| measure(start, options(Strategy::LOCAL, settings, None), u64::MAX));
    let mut all = all.collect::<anyhow::Result<Vec<_>>>()?;
    all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(all.swap_remove(runs / 2))
}

fn hunt(start: &Simulation<Paxos>, properties: Vec<Property<Paxos>>) -> anyhow::Result<Hunted> {
    let begun = Instant::now();
    let mut search = Search::new(start, properties, options(Strategy::LOCAL, &[], None))?;
    let looked_at = |search: &Search<Paxos>| {
        let all = search.tallies();
        let of = |name| all.iter().find(|it| it.0 == name).map_or(0, |it| it.1);
        (of("questions"), of("places looked at"))
    };
    let mut asking = 0.0;
    let mut before = looked_at(&search);
    loop {
        let step = Instant::now();
        let stop = search.advance(1);
        let now = looked_at(&search);
        if now != before {
            asking += step.elapsed().as_secs_f64();
            before = now;
        }
        if let Some(violation) = search.found(0).violations.first() {
            return Ok(Hunted {
                seconds: begun.elapsed().as_secs_f64(),
                depth: violation.path.len(),
                questions: now.0,
                asking,
            });
        }
        ensure!(stop.is_none(), "the bug is not found");
    }
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` starts a bench without `--bench`: then it only has to show that it works.
    let test = has("--test") || !has("--bench");
    let states = match arguments.iter().position(|argument| argument == "--states") {
        Some(at) => arguments
            .get(at + 1)
            .context("--states needs a number")?
            .parse()
            .context("--states needs a number")?,
        None if test => 1_000,
        None => 5_000_000,
    };
    let runs = if test { 1 } else { RUNS };
    let whole = if test { Some(states) } else { None };

    let one = paxos::boot(1, false);
    let breadth = measure(&one, options(Strategy::EXHAUSTIVE, &[], whole), u64::MAX)?;
    let depth = measure(&one, options(Strategy::DEPTH_FIRST, &[], whole), u64::MAX)?;
    let general = often(runs, &one, &[("general", 1)])?;
    let local = often(runs, &one, &[])?;
    let shortcuts = often(runs, &one, &[("shortcuts", 1)])?;
    ensure!(local.is_complete() && general.is_complete());

    let two = paxos::boot(2, false);
    let cut = options(Strategy::EXHAUSTIVE, &[], Some(states));
    let two_breadth = measure(&two, cut, u64::MAX)?;
    let general_of_two = options(Strategy::LOCAL, &[("general", 1)], None);
    let two_general = measure(&two, general_of_two, states)?;
    let two_local = often(runs, &two, &[])?;
    ensure!(two_local.report.stop == Stop::Exhausted && two_local.is_complete());

    let buggy = hunt(&paxos::boot(2, true), vec![paxos::agreement()])?;
    let per_question = buggy.asking * 1e3 / buggy.questions.max(1) as f64;
    let shown = json!({
        "one_proposal": {
            "exhaustive": searched(&breadth),
            "depth_first": searched(&depth),
            "local_general": locally(&general, "combinations judged"),
            "local": locally(&local, "combinations that would be wrong"),
            "local_shortcuts": locally(&shortcuts, "combinations that would be wrong"),
        },
        "two_proposals": {
            "exhaustive": { "seconds": two_breadth.seconds, "states": two_breadth.report.states, "complete": two_breadth.is_complete() },
            "local_general": { "seconds": two_general.seconds, "complete": two_general.is_complete() },
            "local": {
                "seconds": two_local.seconds,
                "complete": two_local.is_complete(),
                "depth": two_local.report.depth,
                "transitions": two_local.tally("steps of nodes"),
                "states": two_local.report.states,
                "verifications": two_local.tally("questions"),
                "places": two_local.tally("places looked at"),
                "bytes": two_local.tally("bytes"),
            },
        },
        "buggy": {
            "found": true,
            "seconds": buggy.seconds,
            "depth": buggy.depth,
            "verifications": buggy.questions,
            "ms_per_verification": per_question,
        },
        "ratio_one": breadth.seconds / local.seconds,
        "ratio_two": two_breadth.seconds / two_local.seconds,
    });
    match has("--json") {
        true => println!("{shown}"),
        false => println!("{shown:#}"),
    }
    Ok(())
}

fn searched(measured: &Measured) -> Value {
    json!({
        "seconds": measured.seconds,
        "transitions": measured.report.transitions,
        "states": measured.report.states,
        "depth": measured.report.depth,
        "complete": measured.is_complete(),
    })
}

fn locally(measured: &Measured, system_states: &str) -> Value {
    json!({
        "seconds": measured.seconds,
        "transitions": measured.tally("steps of nodes"),
        "system_states": measured.tally(system_states),
        "local_states": measured.report.states,
        "depth": measured.report.depth,
        "bytes": measured.tally("bytes"),
    })
}
