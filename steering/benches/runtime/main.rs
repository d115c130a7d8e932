//! What the hook costs a service: messages a second through an echo between two nodes, over UDP and TCP, with and
//! without a hook, in turns in one process.
//!
//! `cargo bench -p scry --bench runtime`, with `-- --json` for machines and `-- --runs N` for more turns. The hook's socket
//! is read by a thread that throws away what it reads, and asks for a checkpoint ten times a second.

mod drain;
mod echo;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use scry::runtime::{Handle, Options, spawn};
use scry::{NodeId, hook};
use serde_json::json;

use crate::drain::Drain;
use crate::echo::{Call, Echo, Way};

const ONE: NodeId = NodeId::new(1);
const TWO: NodeId = NodeId::new(2);

struct Contender {
    way: Way,
    hooked: bool,
    /// Messages a second, for each turn.
    rates: Vec<f64>,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` starts a bench without `--bench`: then it only has to show that it works.
    let test = has("--test") || !has("--bench");
    let runs: usize = match arguments.iter().position(|argument| argument == "--runs") {
        Some(at) => arguments
            .get(at + 1)
            .and_then(|count| count.parse().ok())
            .context("--runs needs a number")?,
        None if test => 1,
        None => 9,
    };
    let rounds = if test { 200 } else { 100_000 };
    let mut contenders: Vec<Contender> = [Way::Datagram, Way::Stream]
        .into_iter()
        .flat_map(|way| {
            [false, true].map(|hooked| Contender {
                way,
                hooked,
                rates: Vec::new(),
            })
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    for run in 0..runs {
        // Each goes first as often as the other, so that neither has the warmer machine.
        let order: Vec<usize> = match run % 2 {
            0 => (0..contenders.len()).collect(),
            _ => (0..contenders.len()).rev().collect(),
        };
        for at in order {
            let Contender { way, hooked, .. } = contenders[at];
            let rate = runtime.block_on(measure(way, hooked, rounds))?;
            contenders[at].rates.push(rate);
        }
    }
    let rows: Vec<_> = contenders
        .chunks(2)
        .map(|pair| {
            let (plain, hooked) = (median(&pair[0].rates), median(&pair[1].rates));
            let ratios = pair[0].rates.iter().zip(&pair[1].rates);
            let ratios: Vec<f64> = ratios.map(|(plain, hooked)| hooked / plain).collect();
            (pair[0].way, plain, hooked, median(&ratios))
        })
        .collect();
    if has("--json") {
        let rows = rows.iter().map(|(way, plain, hooked, ratio)| {
            json!({
                "transport": way.name(),
                "plain_messages_per_second": plain,
                "hooked_messages_per_second": hooked,
                "ratio": ratio,
            })
        });
        println!(
            "{}",
            json!({ "runs": runs, "rounds": rounds, "rows": rows.collect::<Vec<_>>() })
        );
        return Ok(());
    }
    println!("{runs} turns of {rounds} echoes; medians, and the median of the turns' ratios");
    for (way, plain, hooked, ratio) in rows {
        println!(
            "{:<4} {plain:>10.0} messages/s without hook, {hooked:>10.0} with: {:.1} %",
            way.name(),
            ratio * 100.0
        );
    }
    Ok(())
}

/// Runs echoes between two fresh nodes, and returns how many messages went by in a second.
async fn measure(way: Way, hooked: bool, rounds: u32) -> anyhow::Result<f64> {
    let drain = Drain::start()?;
    let node = |id: NodeId| -> anyhow::Result<Handle<Echo>> {
        let mut options = Options::new(id, ());
        if hooked {
            let mut hook = hook::Options::new(id, "echo", "1");
            hook.socket = Some(drain.path().to_owned());
            options.hook = Some(hook);
        }
        Ok(spawn(options)?)
    };
    let (one, two) = (node(ONE)?, node(TWO)?);
    let peers = BTreeMap::from([(ONE, one.address()), (TWO, two.address())]);
    one.add_peers(peers.clone()).await?;
    two.add_peers(peers).await?;
    if hooked {
        drain.wait_for_hooks(2)?;
    }
    let finish = |wanted: u32| {
        let one = one.clone();
        async move {
            let limit = Instant::now() + Duration::from_secs(120);
            while one.state().await?.state.answers < wanted {
                if Instant::now() > limit {
                    bail!("the echo does not come to an end");
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        }
    };
    // The first few open connections and warm up.
    let warm = rounds / 10;
    one.call(Call::Go {
        to: TWO,
        way,
        rounds: warm,
    })
    .await?;
    finish(warm).await?;
    let begun = Instant::now();
    one.call(Call::Go {
        to: TWO,
        way,
        rounds: warm + rounds,
    })
    .await?;
    finish(warm + rounds).await?;
    let elapsed = begun.elapsed().as_secs_f64();
    one.shutdown().await;
    two.shutdown().await;
    Ok(f64::from(rounds) * 2.0 / elapsed)
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
