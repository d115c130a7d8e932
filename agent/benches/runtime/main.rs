//! What hook and agent cost a service: messages a second through an echo between two nodes, over UDP and TCP, with both
//! and without, in turns in one process.
//!
//! `cargo bench -p scry-agent --bench runtime`, with `-- --json` for machines and `-- --turns N` for more turns. Each row
//! has its two pairs of nodes running side by side; a turn is a few thousand echoes through the one and as many through
//! the other, and what is compared are the two halves of one turn, since the machine may be slower a second later. A
//! window of one waits for each answer before it asks again; a wider one asks ahead, so that a message costs next to
//! nothing but what nodes and hooks do with it.

mod agents;
mod echo;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use scry::runtime::{Handle, Options, spawn};
use scry::{NodeId, hook};
use serde_json::json;

use crate::agents::Agents;
use crate::echo::{Call, Echo, Way};

const ONE: NodeId = NodeId::new(1);
const TWO: NodeId = NodeId::new(2);
/// How long a turn may take on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// What is asked of the hook: so much of the throughput stays.
const GOAL: f64 = 0.97;

/// What is measured: the transport, how many questions are under way, and how many make half a turn.
const ROWS: [(Way, u32, u32); 4] = [
    (Way::Datagram, 1, 500),
    (Way::Datagram, 32, 5_000),
    (Way::Stream, 1, 500),
    (Way::Stream, 32, 10_000),
];

fn main() -> anyhow::Result<()> {
    scry::enter::<Echo>();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` starts a bench without `--bench`: then it only has to show that it works.
    let test = has("--test") || !has("--bench");
    let turns: usize = match arguments.iter().position(|argument| argument == "--turns") {
        Some(at) => arguments
            .get(at + 1)
            .and_then(|count| count.parse().ok())
            .context("--turns needs a number")?,
        None if test => 1,
        None => 61,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut rows = Vec::new();
    for (way, window, rounds) in ROWS {
        let rounds = if test { rounds / 20 } else { rounds };
        rows.push(runtime.block_on(compare(way, window, rounds, turns))?);
    }
    if has("--json") {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!("{}", json!({ "turns": turns, "rows": rows }));
        return Ok(());
    }
    println!("medians of {turns} turns; ratios are medians of the turns' ratios");
    for row in rows {
        println!(
            "{:<3} window {:>2}: {:>7.0} messages/s without, {:>7.0} with hook and agent: {:>5.1} % by the clock ({}), {:>5.1} % by processor time",
            row.way.name(),
            row.window,
            row.plain,
            row.hooked,
            row.ratio * 100.0,
            if row.ratio >= GOAL {
                "≥ 97 met"
            } else {
                "≥ 97 MISSED"
            },
            row.cpu_ratio * 100.0,
        );
    }
    Ok(())
}

/// What came of one comparison.
struct Row {
    way: Way,
    window: u32,
    /// Messages a second without hook and agent.
    plain: f64,
    /// And with them.
    hooked: f64,
    /// The second over the first, by the clock.
    ratio: f64,
    /// The same by processor time of the nodes' process.
    cpu_ratio: f64,
}

impl Row {
    fn json(&self) -> serde_json::Value {
        json!({
            "transport": self.way.name(),
            "window": self.window,
            "plain_messages_per_second": self.plain,
            "hooked_messages_per_second": self.hooked,
            "ratio": self.ratio,
            "cpu_ratio": self.cpu_ratio,
        })
    }
}

/// What half a turn took for each message, in microseconds.
#[derive(Clone, Copy)]
struct Half {
    wall_us: f64,
    cpu_us: f64,
}

/// Two nodes that echo.
struct Pair {
    one: Handle<Echo>,
    two: Handle<Echo>,
    /// Answers asked for so far.
    asked: u32,
}

async fn compare(way: Way, window: u32, rounds: u32, turns: usize) -> anyhow::Result<Row> {
    let mut agents = Agents::start()?;
    let mut plain = Pair::start(None).await?;
    let mut hooked = Pair::start(Some(&agents)).await?;
    agents.wait_for_snapshots().await?;
    // The first few open connections and warm up.
    plain.echo(way, window, rounds).await?;
    hooked.echo(way, window, rounds).await?;
    let mut halves: Vec<(Half, Half)> = Vec::new();
    for turn in 0..turns {
        // Each goes first as often as the other.
        halves.push(if turn % 2 == 0 {
            let first = plain.echo(way, window, rounds).await?;
            (first, hooked.echo(way, window, rounds).await?)
        } else {
            let first = hooked.echo(way, window, rounds).await?;
            (plain.echo(way, window, rounds).await?, first)
        });
    }
    plain.end().await;
    hooked.end().await;
    let middle = |value: fn(&(Half, Half)) -> f64| median(halves.iter().map(value));
    Ok(Row {
        way,
        window,
        plain: 1e6 / middle(|(plain, _)| plain.wall_us),
        hooked: 1e6 / middle(|(_, hooked)| hooked.wall_us),
        ratio: middle(|(plain, hooked)| plain.wall_us / hooked.wall_us),
        cpu_ratio: middle(|(plain, hooked)| plain.cpu_us / hooked.cpu_us),
    })
}

impl Pair {
    async fn start(agents: Option<&Agents>) -> anyhow::Result<Self> {
        let node = |id: NodeId| -> anyhow::Result<Handle<Echo>> {
            let mut options = Options::new(id, ());
            if let Some(agents) = agents {
                let mut hook = hook::Options::new(id, "echo", "1");
                hook.socket = Some(agents.socket(id.get()));
                options.hook = Some(hook);
            }
            Ok(spawn(options)?)
        };
        let (one, two) = (node(ONE)?, node(TWO)?);
        let peers = BTreeMap::from([(ONE, one.address()), (TWO, two.address())]);
        one.add_peers(peers.clone()).await?;
        two.add_peers(peers).await?;
        let asked = 0;
        Ok(Self { one, two, asked })
    }

    /// Echoes so many times, and returns what a message took.
    async fn echo(&mut self, way: Way, window: u32, count: u32) -> anyhow::Result<Half> {
        self.asked += count;
        let rounds = self.asked;
        let (begun, cpu) = (Instant::now(), cpu_us()?);
        let go = Call::Go {
            to: TWO,
            way,
            window,
            rounds,
        };
        self.one.call(go).await?;
        while self.one.state().await?.state.answers < rounds {
            if begun.elapsed() > PATIENCE {
                bail!("the echo does not come to an end");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let messages = f64::from(count) * 2.0;
        Ok(Half {
            wall_us: begun.elapsed().as_secs_f64() * 1e6 / messages,
            cpu_us: (cpu_us()? - cpu) / messages,
        })
    }

    async fn end(self) {
        self.one.shutdown().await;
        self.two.shutdown().await;
    }
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
