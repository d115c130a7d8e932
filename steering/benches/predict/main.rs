//! How long a prediction takes: from a job to the first violation with its remedy proved, for the papers' three stories, by
//! consequence prediction and by the portfolio, in turns, beside a floor: restoring the snapshot alone.
//!
//! `cargo bench -p scry --bench predict`, with `-- --json` for machines and `-- --runs N` for more turns.

#[path = "../../tests/checker/snapshot.rs"]
mod snapshot;

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use paxos::Paxos;
use randtree::RandTree;
use scry::checker::start::restore;
use scry::checker::{Checker, Shell};
use scry::{NodeId, Program, Request, Service, Simulation};
use scry_protocol::RunId;
use scry_protocol::link::checker::{Budget, CheckerToAgent, Faults, Job, Order};
use serde_json::json;

/// Notes when the first violation is told, and then ends the run.
struct Stopwatch {
    begun: Instant,
    found_ms: Option<f64>,
    remedied: bool,
}

impl Shell for Stopwatch {
    fn elapsed_ms(&mut self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn is_cancelled(&mut self) -> bool {
        self.found_ms.is_some()
    }

    fn tell(&mut self, message: CheckerToAgent) {
        if let (CheckerToAgent::Found(found), None) = (message, self.found_ms) {
            self.found_ms = Some(self.begun.elapsed().as_secs_f64() * 1e3);
            self.remedied = !found.violation.remedies.is_empty();
        }
    }
}

fn scenario<S: Program>(
    name: &str,
    bug: &'static str,
    options: &S::Options,
) -> anyhow::Result<Simulation<S>> {
    let scenario = S::scenarios().into_iter().find(|it| it.name == name);
    let request = Request {
        bugs: &BTreeSet::from([bug]),
        nodes: None,
        options,
    };
    let built = (scenario.context("no such scenario")?.build)(&request);
    let system = built.map_err(anyhow::Error::msg)?;
    Ok(system.start()?.0)
}

struct Row {
    name: &'static str,
    restore_ms: f64,
    /// With consequence prediction.
    found_ms: f64,
    portfolio_ms: f64,
}

fn measure<S: Service>(
    name: &'static str,
    state: &Simulation<S>,
    by: u32,
    runs: usize,
) -> anyhow::Result<Row> {
    let faults = state.faults();
    let job = |strategy: &str| Job {
        run: RunId::new(1),
        snapshot: snapshot::snapshot(state, NodeId::new(by)),
        properties: String::new(),
        faults: Faults {
            resets: faults.resets,
            silent_resets: faults.silent_resets,
            breaks: faults.breaks,
            losses: faults.losses,
            duplicates: faults.duplicates,
            late_starts: faults.late_starts,
        },
        clock: scry_protocol::link::checker::Clock::default(),
        budget: Budget {
            time_ms: 60_000,
            states_max: 1_000_000,
            depth_max: 20,
            memory_bytes_max: 1 << 30,
            violations_max: 16,
        },
        order: Order::LeastHarm,
        checks: false,
        past_paths: Vec::new(),
        whole: true,
        modes: Vec::new(),
        strategy: strategy.to_owned(),
        liveness: scry_protocol::filter::Mode::Off,
    };
    let jobs = ["consequence", "portfolio"].map(job);
    let (mut restores, mut founds) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..runs {
        let begun = Instant::now();
        restore::<S>(&jobs[0].snapshot, faults, &scry::timing::Clock::default())?;
        restores.push(begun.elapsed().as_secs_f64() * 1e3);
        for (job, founds) in jobs.iter().zip(&mut founds) {
            let mut stopwatch = Stopwatch {
                begun: Instant::now(),
                found_ms: None,
                remedied: false,
            };
            Checker::<S>::default().run(job, &mut stopwatch);
            ensure!(stopwatch.remedied, "{name}: no remedy");
            founds.push(stopwatch.found_ms.context("nothing was found")?);
        }
    }
    let [found_ms, portfolio_ms] = founds.map(median);
    Ok(Row {
        name,
        restore_ms: median(restores),
        found_ms,
        portfolio_ms,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
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
            .parse()?,
        None if test => 1,
        None => 21,
    };
    if runs == 0 {
        bail!("--runs needs a number above zero");
    }
    let options = paxos::scenarios::Options {
        proposers: None,
        acceptors: 3,
        rounds: 1,
        indices: 1,
    };
    let tree = scenario::<RandTree>("r1", "update-sibling", &Default::default())?;
    let first = scenario::<Paxos>("bug1", "last-promise", &options)?;
    let second = scenario::<Paxos>("bug2", "volatile-promise", &options)?;
    let rows = [
        measure("randtree r1", &tree, 1, runs)?,
        measure("paxos bug1", &first, 2, runs)?,
        measure("paxos bug2", &second, 2, runs)?,
    ];
    if has("--json") {
        let rows = rows.iter().map(|row| {
            json!({
                "story": row.name,
                "restore_ms": row.restore_ms,
                "found_ms": row.found_ms,
                "portfolio_ms": row.portfolio_ms,
            })
        });
        println!(
            "{}",
            json!({ "runs": runs, "rows": rows.collect::<Vec<_>>() })
        );
        return Ok(());
    }
    println!("median of {runs} runs, milliseconds from the job on");
    println!(
        "{:<14} {:>10} {:>24} {:>16}",
        "story", "restored", "first remedy proved", "by the portfolio"
    );
    for row in rows {
        println!(
            "{:<14} {:>10.3} {:>24.2} {:>16.2}",
            row.name, row.restore_ms, row.found_ms, row.portfolio_ms
        );
    }
    Ok(())
}
