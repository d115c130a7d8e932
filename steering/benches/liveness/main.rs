//! What liveness costs: walks on the tables against walks through plain handlers, and the classes of all states against
//! exploring them, in one process.
//!
//! `cargo bench -p scry --bench liveness`, with `-- --json` for machines and `-- --steps N` for longer walks. Everything runs on one thread and
//! is measured in the time that the processor spent on this process, the best of some rounds, so that it matters little what else the
//! machine does. Nothing here fails because of time.

mod handlers;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::time::{ClockId, clock_gettime};
use paxos::{Bugs, Paxos, scenarios};
use randtree::RandTree;
use scry::explore::{Settings, Standing};
use scry::properties::{PropertyFile, Schema};
use scry::property::View;
use scry::{Limits, Options, Program, Property, Request, Search, Service, Simulation, Strategy};
use serde_json::{Value, json};

const RANDTREE: &str = include_str!("../../../examples/randtree/properties.toml");
/// A plain walk takes so many steps for a hundred of the tables'.
const PLAIN_SHARE: u64 = 50;
/// How often everything is measured. The best time counts: the others were disturbed.
const ROUNDS: u32 = 3;
/// How many steps a walk has at the most.
const LENGTH: u64 = 10_000;

/// Steps a second.
struct Walked {
    tables: f64,
    handlers: f64,
}

/// What the classes of all states cost beside exploring them.
#[derive(Clone, Copy)]
struct Classified {
    states: u64,
    explore_seconds: f64,
    classify_seconds: f64,
    /// To look for fair cycles as well.
    cycles_seconds: f64,
    bytes: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` starts a bench without `--bench`: then it only has to show that it works.
    let test = has("--test") || !has("--bench");
    let steps = match arguments.iter().position(|argument| argument == "--steps") {
        Some(at) => arguments
            .get(at + 1)
            .context("--steps needs a number")?
            .parse()
            .context("--steps needs a number")?,
        None if test => 5_000,
        None => 10_000_000,
    };
    let (proposers, acceptors) = if test { (2, 2) } else { (3, 3) };
    let states_max = if test { 1_000 } else { 1_000_000 };
    let rounds = if test { 1 } else { ROUNDS };

    let (paxos, _) = scenarios::plain_system(proposers, acceptors, Bugs::default()).start()?;
    let chosen = vec![chosen()];
    let paxos_walked = walk(&paxos, &chosen, steps, rounds)?;
    let paxos_classified = classify(&paxos, &chosen, None, rounds)?;

    let tree = randtree()?;
    let file = PropertyFile::load(
        "properties.toml",
        RANDTREE.as_bytes(),
        &Schema::of::<RandTree>(),
        Vec::new(),
    )
    .map_err(|diagnostics| anyhow::anyhow!("{diagnostics}"))?;
    let goals = file.properties_of_all_kinds();
    let tree_walked = walk(&tree, &goals, steps / 10, rounds)?;
    let tree_classified = classify(&tree, &goals, Some(states_max), rounds)?;

    let rows = [
        ("plain Paxos", &paxos_walked, &paxos_classified),
        ("fixed RandTree, cut", &tree_walked, &tree_classified),
    ];
    if has("--json") {
        // The goals are set for Paxos; the rest stands beside it.
        let mut all = shown(&paxos_walked, &paxos_classified);
        all["randtree"] = shown(&tree_walked, &tree_classified);
        println!("{all}");
        return Ok(());
    }
    for (name, walked, classified) in rows {
        println!(
            "{name}: {:.0} steps a second on the tables, {:.0} through handlers: {:.1}×",
            walked.tables,
            walked.handlers,
            walked.tables / walked.handlers
        );
        println!(
            "  {} states explored in {:.3} s, classified in {:.3} s and {} bytes: {:.2}×; fair cycles in {:.3} s more",
            classified.states,
            classified.explore_seconds,
            classified.classify_seconds,
            classified.bytes,
            classified.classify_seconds / classified.explore_seconds,
            classified.cycles_seconds
        );
    }
    println!("goals, on plain Paxos 3×3: walks at least 20×, classes at most 3×");
    Ok(())
}

fn shown(walked: &Walked, classified: &Classified) -> Value {
    json!({
        "walk_steps_per_second": walked.tables,
        "handler_walk_steps_per_second": walked.handlers,
        "ratio": walked.tables / walked.handlers,
        "classify_seconds": classified.classify_seconds,
        "explore_seconds": classified.explore_seconds,
        "classify_ratio": classified.classify_seconds / classified.explore_seconds,
        "classify_bytes": classified.bytes,
        "cycles_seconds": classified.cycles_seconds,
        "states": classified.states,
    })
}

/// The property that somebody knows a value to be chosen.
fn chosen() -> Property<Paxos> {
    Property::global(
        "somebody knows what is chosen",
        |view: &View<'_, Paxos>| Some(!view.state.chosen.is_empty()),
        |all| all.iter().any(|(_, knows)| **knows),
    )
    .eventually()
}

fn randtree() -> anyhow::Result<Simulation<RandTree>> {
    let mut known = RandTree::scenarios().into_iter();
    let scenario = known
        .find(|it| it.name == "fresh")
        .context("no scenario fresh")?;
    let request = Request {
        bugs: &BTreeSet::new(),
        nodes: None,
        options: &Default::default(),
    };
    let system = (scenario.build)(&request).map_err(anyhow::Error::msg)?;
    Ok(system.start()?.0)
}

/// Walks from the start state, by weights as the strategy has them: on the tables, and through handlers.
fn walk<S: Service>(
    start: &Simulation<S>,
    properties: &[Property<S>],
    steps: u64,
    rounds: u32,
) -> anyhow::Result<Walked> {
    let options = Options {
        strategy: Strategy::WALK,
        settings: Settings::of(&[("walks", u64::MAX >> 1), ("length", LENGTH)]),
        ..Options::default()
    };
    let mut best = Walked {
        tables: 0.0,
        handlers: 0.0,
    };
    for _ in 0..rounds {
        let mut search = Search::new(start, properties.to_vec(), options)?;
        // What is new is learnt once, and then known: a tenth of the walks goes ahead.
        search.advance(steps / 10);
        let before = search.counts().transitions;
        let begun = clock()?;
        search.advance(steps);
        let seconds = since(begun)?;
        let taken = search.counts().transitions - before;
        ensure!(taken > 0, "walks on the tables took no step");

        let begun = clock()?;
        let plain = handlers::walk(start, properties, LENGTH, steps / PLAIN_SHARE);
        let plain_seconds = since(begun)?;
        ensure!(plain > 0, "walks through handlers took no step");
        best.tables = best.tables.max(taken as f64 / seconds);
        best.handlers = best.handlers.max(plain as f64 / plain_seconds);
    }
    Ok(best)
}

fn classify<S: Service>(
    start: &Simulation<S>,
    properties: &[Property<S>],
    states: Option<u64>,
    rounds: u32,
) -> anyhow::Result<Classified> {
    let limits = Limits {
        states,
        ..Limits::default()
    };
    let with = |cycles: u64| Options {
        limits,
        settings: Settings::of(&[("cycles", cycles)]),
        ..Options::default()
    };
    let mut best: Option<Classified> = None;
    for _ in 0..rounds {
        // Exploring alone is measured without goals, since a search with goals keeps more.
        let begun = clock()?;
        let alone = Search::new(start, Vec::new(), with(0))?.run();
        let explore_seconds = since(begun)?;
        let (classes_seconds, _) = conclude(start, properties, with(0), alone.states)?;
        let (whole_seconds, bytes) = conclude(start, properties, with(1), alone.states)?;
        let this = Classified {
            states: alone.states,
            explore_seconds,
            classify_seconds: (classes_seconds - explore_seconds).max(0.0),
            cycles_seconds: (whole_seconds - classes_seconds).max(0.0),
            bytes,
        };
        let known = best.get_or_insert(this);
        known.explore_seconds = known.explore_seconds.min(this.explore_seconds);
        known.classify_seconds = known.classify_seconds.min(this.classify_seconds);
        known.cycles_seconds = known.cycles_seconds.min(this.cycles_seconds);
    }
    best.context("nothing was measured")
}

/// Explores and draws conclusions, and returns how many seconds and bytes that took.
fn conclude<S: Service>(
    start: &Simulation<S>,
    properties: &[Property<S>],
    options: Options,
    states: u64,
) -> anyhow::Result<(f64, u64)> {
    let begun = clock()?;
    let mut search = Search::new(start, properties.to_vec(), options)?;
    while search.advance(u64::MAX).is_none() {}
    while !search.conclude(u64::MAX) {}
    let seconds = since(begun)?;
    let report = search.finish();
    ensure!(
        report.states == states,
        "{} states with goals, {states} without",
        report.states,
    );
    for goal in &report.goals {
        if let Standing::Classified(it) = goal.standing {
            let all = it.live + it.recoverable + it.dead + it.unknown;
            ensure!(
                all == report.states,
                "{}: not every state has a class",
                goal.property
            );
        }
    }
    Ok((seconds, report.goal_bytes))
}

/// How long the processor has worked for this process.
fn clock() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

fn since(begun: Duration) -> anyhow::Result<f64> {
    Ok((clock()? - begun).as_secs_f64())
}
