//! What judging costs: plain Paxos 3×3 with agreement from the property file, with agreement in Rust, and with no
//! property at all, in turns in one process.
//!
//! `cargo bench -p scry --bench properties`, with `-- --json` for machines and `-- --runs N` for more turns.

use std::time::Instant;

use anyhow::{Context, bail};
use paxos::{Bugs, Paxos, scenarios};
use scry::properties::{PropertyFile, Schema};
use scry::{Options, Property, Search, Service};
use serde_json::json;

const FILE: &str = include_str!("../../../examples/paxos/properties.toml");

struct Contender {
    name: &'static str,
    properties: Vec<Property<Paxos>>,
    seconds: Vec<f64>,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` starts a bench without `--bench`: then it only has to show that it works.
    let test = has("--test") || !has("--bench");
    let runs = match arguments.iter().position(|argument| argument == "--runs") {
        Some(at) => arguments
            .get(at + 1)
            .context("--runs needs a number")?
            .parse()
            .context("--runs needs a number")?,
        None if test => 1,
        None => 5,
    };
    let (proposers, acceptors) = if test { (2, 2) } else { (3, 3) };

    let file = PropertyFile::load(
        "properties.toml",
        FILE.as_bytes(),
        &Schema::of::<Paxos>(),
        Vec::new(),
    )
    .map_err(|diagnostics| anyhow::anyhow!("{diagnostics}"))?;
    let contender = |name, properties| Contender {
        name,
        properties,
        seconds: Vec::new(),
    };
    let mut contenders = [
        contender("file", file.properties()),
        contender("rust", Paxos::properties()),
        contender("none", Vec::new()),
    ];
    let (start, _) = scenarios::plain_system(proposers, acceptors, Bugs::default()).start()?;
    let mut states = Vec::new();
    for _ in 0..runs {
        for contender in &mut contenders {
            let begun = Instant::now();
            let report =
                Search::new(&start, contender.properties.clone(), Options::default())?.run();
            contender.seconds.push(begun.elapsed().as_secs_f64());
            states.push(report.states);
            if !report.violations.is_empty() {
                bail!(
                    "{}: plain Paxos agrees, but a violation is reported",
                    contender.name
                );
            }
        }
    }
    if states.iter().any(|&count| count != states[0]) {
        bail!("the contenders saw different numbers of states: {states:?}");
    }
    // The least of several runs is what the work costs; the rest is what the machine was doing besides.
    let least = |at: usize| {
        contenders[at]
            .seconds
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min)
    };
    let [file, rust, none] = [least(0), least(1), least(2)];
    if has("--json") {
        let seconds = |seconds: f64| json!({ "seconds": seconds });
        println!(
            "{}",
            json!({
                "states": states[0], "runs": runs,
                "file": seconds(file), "rust": seconds(rust), "none": seconds(none),
                "ratio_rust": file / rust, "ratio_none": file / none,
            })
        );
    } else {
        println!(
            "plain Paxos {proposers}×{acceptors}, {} states, least of {runs} runs",
            states[0]
        );
        for (name, seconds) in [("file", file), ("rust", rust), ("none", none)] {
            println!("  agreement from {name:<6}{seconds:>8.3} s");
        }
        println!(
            "file against rust: {:+.1} %, against none: {:+.1} %",
            (file / rust - 1.0) * 100.0,
            (file / none - 1.0) * 100.0
        );
        println!("goals: within 3 % of rust, within 10 % of none");
    }
    Ok(())
}
