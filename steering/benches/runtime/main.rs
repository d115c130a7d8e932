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
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
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
    /// What each turn took.
    turns: Vec<Turn>,
}

/// What one turn took for each message, in microseconds.
#[derive(Clone, Copy)]
struct Turn {
    wall_us: f64,
    /// Of all processors together, the thread that stands in for the agent included: what a busy machine cannot blur.
    cpu_us: f64,
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
                turns: Vec::new(),
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
            let turn = runtime.block_on(measure(way, hooked, rounds))?;
            contenders[at].turns.push(turn);
        }
    }
    let rows: Vec<Row> = contenders
        .chunks(2)
        .map(|pair| Row::of(&pair[0], &pair[1]))
        .collect();
    if has("--json") {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!(
            "{}",
            json!({ "runs": runs, "rounds": rounds, "rows": rows })
        );
        return Ok(());
    }
    println!("{runs} turns of {rounds} echoes; medians, and the medians of the turns' ratios");
    for row in rows {
        println!(
            "{:<4} {:>8.0} messages/s without hook, {:>8.0} with: {:.1} % by the clock, {:.1} % by processor time",
            row.transport,
            row.plain,
            row.hooked,
            row.ratio * 100.0,
            row.cpu_ratio * 100.0,
        );
    }
    Ok(())
}

/// What came of one transport.
struct Row {
    transport: &'static str,
    /// Messages a second without a hook.
    plain: f64,
    /// And with one.
    hooked: f64,
    /// The second over the first, by the clock.
    ratio: f64,
    /// The same by processor time.
    cpu_ratio: f64,
}

impl Row {
    fn of(plain: &Contender, hooked: &Contender) -> Self {
        let rate =
            |contender: &Contender| 1e6 / median(contender.turns.iter().map(|it| it.wall_us));
        let turns = || plain.turns.iter().zip(&hooked.turns);
        Self {
            transport: plain.way.name(),
            plain: rate(plain),
            hooked: rate(hooked),
            ratio: median(turns().map(|(plain, hooked)| plain.wall_us / hooked.wall_us)),
            cpu_ratio: median(turns().map(|(plain, hooked)| plain.cpu_us / hooked.cpu_us)),
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "transport": self.transport,
            "plain_messages_per_second": self.plain,
            "hooked_messages_per_second": self.hooked,
            "ratio": self.ratio,
            "cpu_ratio": self.cpu_ratio,
        })
    }
}

/// Runs echoes between two fresh nodes, and returns what a message took.
async fn measure(way: Way, hooked: bool, rounds: u32) -> anyhow::Result<Turn> {
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
    let (begun, cpu) = (Instant::now(), cpu_us()?);
    one.call(Call::Go {
        to: TWO,
        way,
        rounds: warm + rounds,
    })
    .await?;
    finish(warm + rounds).await?;
    let messages = f64::from(rounds) * 2.0;
    let turn = Turn {
        wall_us: begun.elapsed().as_secs_f64() * 1e6 / messages,
        cpu_us: (cpu_us()? - cpu) / messages,
    };
    one.shutdown().await;
    two.shutdown().await;
    Ok(turn)
}

/// Returns the processor time this process has had, in microseconds.
fn cpu_us() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
