//! What hook, agent and immediate check cost a service that has properties: messages a second through an echo between two
//! nodes, over UDP and TCP, with all of them and without, in turns in one process. The first two settings are scry's
//! defaults, in `audit` and in `steer`; the others say what the check would cost if it copied the node in another way.
//!
//! `cargo bench -p scry-agent --bench runtime`, with `-- --json` for machines, `-- --blocks N` for more or fewer blocks,
//! `-- --setting steer/clone` for one setting, and `-- --row TCP/32` for one row of each.
//! A turn is a few thousand echoes through a pair of nodes with hook and agent, as many through one without, and as many
//! through another without; what is compared are parts of one turn, since the machine may be slower a second later. Where
//! its memory lies makes a pair a few percent faster or slower for all its incarnation, so each block of turns has pairs of its
//! own. How the second pair without compares with the first shows what is left of that: a difference no larger is none.
//!
//! A window of one waits for each answer before it asks again; a wider one asks ahead, so that a message costs next to
//! nothing but what nodes and hooks do with it.

mod agents;
mod echo;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use scry::runtime::{Handle, Options, spawn};
use scry::safety::SafetyCheck;
use scry::{NodeId, hook};
use serde_json::json;

use crate::agents::{Agents, Setting};
use crate::echo::{Call, Echo, Way};

const ONE: NodeId = NodeId::new(1);
const TWO: NodeId = NodeId::new(2);
/// How long a turn may take on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// What is measured: how much may be done, and how the check copies the node.
const SETTINGS: [Setting; 5] = [
    Setting::of("audit", "speculator"),
    Setting::of("steer", "speculator"),
    Setting::of("steer", "off"),
    Setting::of("steer", "clone"),
    Setting::of("steer", "fork"),
];
/// So much of the throughput stays, where each answer is awaited or nothing is acted on, and where many are ahead.
const GOAL: f64 = 0.95;
const GOAL_AHEAD: f64 = 0.80;
/// Turns in a block.
const TURNS: usize = 9;

/// What is measured: the transport, how many questions are under way, and how many a pair is asked in a turn.
const ROWS: [(Way, u32, u32); 4] = [
    (Way::Datagram, 1, 500),
    (Way::Datagram, 32, 5_000),
    (Way::Stream, 1, 500),
    (Way::Stream, 32, 40_000),
];

fn main() -> anyhow::Result<()> {
    scry::enter::<Echo>();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    // `cargo test --benches` starts a bench without `--bench`: then it only has to show that it works.
    let test = has("--test") || !has("--bench");
    let blocks: usize = match arguments.iter().position(|argument| argument == "--blocks") {
        Some(at) => arguments
            .get(at + 1)
            .and_then(|count| count.parse().ok())
            .filter(|count| *count > 0)
            .context("--blocks needs a number")?,
        None if test => 1,
        None => 5,
    };
    let turns = if test { 1 } else { TURNS };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let progress = std::io::stderr().is_terminal();
    let value_of = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let is_wanted = |setting: &Setting| match value_of("--setting") {
        Some(name) => *name == setting.name(),
        None => !test || setting.isolate == "speculator",
    };
    let is_row_wanted = |(way, window, _): &(Way, u32, u32)| {
        value_of("--row").is_none_or(|name| *name == format!("{}/{window}", way.name()))
    };
    let settings = SETTINGS.into_iter().filter(is_wanted);
    let all: Vec<(Setting, (Way, u32, u32))> = settings
        .flat_map(|setting| ROWS.map(|row| (setting, row)))
        .filter(|(_, row)| is_row_wanted(row))
        .collect();
    if all.is_empty() {
        bail!("there is no such setting or row; try `--setting steer/clone` or `--row TCP/32`");
    }
    let mut rows = Vec::new();
    for (setting, (way, window, rounds)) in all {
        let rounds = if test { rounds / 20 } else { rounds };
        let mut taken = Vec::new();
        for block in 1..=blocks {
            if progress {
                let (setting, name) = (setting.name(), way.name());
                eprint!("\r\x1b[K{setting}: {name} window {window}: block {block} of {blocks}");
            }
            taken.extend(runtime.block_on(measure(setting, way, window, rounds, turns))?);
        }
        rows.push(Row::of(setting, way, window, &taken));
    }
    if progress {
        eprint!("\r\x1b[K");
    }
    if has("--json") {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!(
            "{}",
            json!({ "blocks": blocks, "turns": turns, "rows": rows })
        );
        return Ok(());
    }
    println!(
        "medians of {blocks} blocks of {turns} turns; ratios are medians of the turns' ratios"
    );
    for row in rows {
        println!(
            "{:<17} {:<3} window {:>2}: {:>7.0} messages/s without, {:>7.0} with: {:>5.1} % by the clock ({}), {:>5.1} % by processor time; without against without {:>5.1} and {:>5.1} %",
            row.setting.name(),
            row.way.name(),
            row.window,
            row.plain,
            row.hooked,
            row.ratio.wall * 100.0,
            row.verdict(),
            row.ratio.cpu * 100.0,
            row.control.wall * 100.0,
            row.control.cpu * 100.0,
        );
    }
    Ok(())
}

/// What came of one comparison.
struct Row {
    setting: Setting,
    way: Way,
    window: u32,
    /// Messages a second without hook, agent and check.
    plain: f64,
    /// And with them.
    hooked: f64,
    /// The second over the first.
    ratio: Cost,
    /// The same for nodes without hook and agent over others without.
    control: Cost,
}

/// What a message takes in microseconds, or the quotient of two such, by the clock and by processor time of the nodes'
/// process.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

/// What the three pairs took in one turn.
struct Turn {
    plain: Cost,
    control: Cost,
    hooked: Cost,
}

impl Row {
    fn of(setting: Setting, way: Way, window: u32, turns: &[Turn]) -> Self {
        let middle = |value: &dyn Fn(&Turn) -> f64| median(turns.iter().map(value));
        let ratio = |other: fn(&Turn) -> Cost| Cost {
            wall: middle(&|turn| turn.plain.wall / other(turn).wall),
            cpu: middle(&|turn| turn.plain.cpu / other(turn).cpu),
        };
        Self {
            setting,
            way,
            window,
            plain: 1e6 / middle(&|turn| turn.plain.wall),
            hooked: 1e6 / middle(&|turn| turn.hooked.wall),
            ratio: ratio(|turn| turn.hooked),
            control: ratio(|turn| turn.control),
        }
    }

    fn goal(&self) -> f64 {
        match self.setting.mode == "audit" || self.window == 1 {
            true => GOAL,
            false => GOAL_AHEAD,
        }
    }

    fn verdict(&self) -> String {
        let met = if self.ratio.wall >= self.goal() {
            "met"
        } else {
            "MISSED"
        };
        format!("≥ {:.0} {met}", self.goal() * 100.0)
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "mode": self.setting.mode,
            "isolate": self.setting.isolate,
            "goal": self.goal(),
            "transport": self.way.name(),
            "window": self.window,
            "plain_messages_per_second": self.plain,
            "hooked_messages_per_second": self.hooked,
            "ratio": self.ratio.wall,
            "cpu_ratio": self.ratio.cpu,
            "control_ratio": self.control.wall,
            "control_cpu_ratio": self.control.cpu,
        })
    }
}

impl Setting {
    const fn of(mode: &'static str, isolate: &'static str) -> Self {
        Self { mode, isolate }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.mode, self.isolate)
    }
}

/// Two nodes that echo.
struct Pair {
    one: Handle<Echo>,
    two: Handle<Echo>,
    /// Answers asked for so far.
    asked: u32,
}

/// Measures a block of turns.
async fn measure(
    setting: Setting,
    way: Way,
    window: u32,
    rounds: u32,
    turns: usize,
) -> anyhow::Result<Vec<Turn>> {
    let mut agents = Agents::start(setting)?;
    let mut pairs = [
        Pair::start(None).await?,
        Pair::start(None).await?,
        Pair::start(Some(&agents)).await?,
    ];
    agents.wait_for_snapshots().await?;
    // The first few open connections and warm up.
    for pair in &mut pairs {
        pair.echo(way, window, rounds).await?;
    }
    let mut taken = Vec::new();
    for turn in 0..turns {
        let mut costs = [Cost {
            wall: 0.0,
            cpu: 0.0,
        }; 3];
        // Each goes first as often as the others.
        for at in 0..3 {
            let at = (at + turn) % 3;
            costs[at] = pairs[at].echo(way, window, rounds).await?;
        }
        let [plain, control, hooked] = costs;
        taken.push(Turn {
            plain,
            control,
            hooked,
        });
    }
    for pair in pairs {
        pair.end().await;
    }
    Ok(taken)
}

impl Pair {
    async fn start(agents: Option<&Agents>) -> anyhow::Result<Self> {
        let node = |id: NodeId| -> anyhow::Result<Handle<Echo>> {
            let mut options = Options::new(id, ());
            if let Some(agents) = agents {
                let mut hook = hook::Options::new(id, "echo", "1");
                hook.socket = Some(agents.socket(id.get()));
                options.hook = Some(hook);
                options.guard = Some(Box::new(SafetyCheck::new(id, None)));
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
    async fn echo(&mut self, way: Way, window: u32, count: u32) -> anyhow::Result<Cost> {
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
        Ok(Cost {
            wall: begun.elapsed().as_secs_f64() * 1e6 / messages,
            cpu: (cpu_us()? - cpu) / messages,
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
