//! What liveness costs: walks on the tables against walks through plain handlers, and the classes of all states against
//! exploring them, in one process.
//!
//! `cargo bench -p scry --bench liveness`, with `-- --json` for machines and `-- --steps N` for longer walks. Machines differ and
//! are shared, so only the ratios mean something, and nothing here fails because of time.

mod handlers;

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, ensure};
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
/// How many steps a walk has at the most.
const LENGTH: u64 = 10_000;

/// Steps a second.
struct Walked {
    tables: f64,
    handlers: f64,
}

/// What the classes of all states cost beside exploring them.
struct Classified {
    states: u64,
    explore_seconds: f64,
    classify_seconds: f64,
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

    let (paxos, _) = scenarios::plain_system(proposers, acceptors, Bugs::default()).start()?;
    let chosen = vec![chosen()];
    let paxos_walked = walk(&paxos, &chosen, steps)?;
    let paxos_classified = classify(&paxos, &chosen, None)?;

    let tree = randtree()?;
    let file = PropertyFile::load(
        "properties.toml",
        RANDTREE.as_bytes(),
        &Schema::of::<RandTree>(),
        Vec::new(),
    )
    .map_err(|diagnostics| anyhow::anyhow!("{diagnostics}"))?;
    let goals = file.properties_of_all_kinds();
    let tree_walked = walk(&tree, &goals, steps / 10)?;
    let tree_classified = classify(&tree, &goals, Some(states_max))?;

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
            "  {} states explored in {:.3} s, classified in {:.3} s and {} bytes: {:.2}×",
            classified.states,
            classified.explore_seconds,
            classified.classify_seconds,
            classified.bytes,
            classified.classify_seconds / classified.explore_seconds
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
) -> anyhow::Result<Walked> {
    let options = Options {
        strategy: Strategy::WALK,
        settings: Settings::of(&[("walks", u64::MAX >> 1), ("length", LENGTH)]),
        ..Options::default()
    };
    let mut search = Search::new(start, properties.to_vec(), options)?;
    // What is new is learnt once, and then known: a tenth of the walks goes ahead.
    search.advance(steps / 10);
    let before = search.counts().transitions;
    let begun = Instant::now();
    search.advance(steps);
    let seconds = begun.elapsed().as_secs_f64();
    let taken = search.counts().transitions - before;
    ensure!(taken > 0, "walks on the tables took no step");

    let begun = Instant::now();
    let plain = handlers::walk(start, properties, LENGTH, steps / PLAIN_SHARE);
    let plain_seconds = begun.elapsed().as_secs_f64();
    ensure!(plain > 0, "walks through handlers took no step");
    Ok(Walked {
        tables: taken as f64 / seconds,
        handlers: plain as f64 / plain_seconds,
    })
}

fn classify<S: Service>(
    start: &Simulation<S>,
    properties: &[Property<S>],
    states: Option<u64>,
) -> anyhow::Result<Classified> {
    let options = Options {
        limits: Limits {
            states,
            ..Limits::default()
        },
        ..Options::default()
    };
    // Exploring alone is measured without goals, since a search with goals keeps more.
    let begun = Instant::now();
    let alone = Search::new(start, Vec::new(), options)?.run();
    let explore_seconds = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let mut search = Search::new(start, properties.to_vec(), options)?;
    while search.advance(u64::MAX).is_none() {}
    while !search.conclude(u64::MAX) {}
    let whole_seconds = begun.elapsed().as_secs_f64();
    let report = search.finish();
    ensure!(
        report.states == alone.states,
        "{} states with goals, {} without",
        report.states,
        alone.states
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
    Ok(Classified {
        states: report.states,
        explore_seconds,
        classify_seconds: (whole_seconds - explore_seconds).max(0.0),
        bytes: report.goal_bytes,
    })
}
