//! How many bytes agents spend on checkpoints, beside what CrystalBall reports (G-19: 803 bit/s for each RandTree node).
//!
//! `cargo bench -p scry --bench traffic` prints tables, `-- --json` one object. A start without `--bench`, as `cargo test
//! --benches` makes one, or with `--test`, only shows that it works. Everything happens in virtual time from one seed
//! (`--seed N`), so that the numbers are the same on every machine. It fails when a snapshot shows a state that its node
//! never had, when a snapshot contradicts itself, or when RandTree needs more than the goal.
//!
//! # What is simulated
//!
//! The services are the real ones, run by their real handlers; recorders, checkpoint managers and frames are those of
//! real hosts and agents. Only clock and network are not: messages take 65 ms each way on average (G-39), connections are
//! reset when their process ends, 0.6 % of datagrams are lost.
//!
//! - 25 nodes, as in the papers' live run of steering (CrystalBall §5.4.1); every node gathers a snapshot every 10 s. The
//!   803 bit/s are of a run with 100 nodes, about which the paper says nothing else; in a tree of bounded degree a node's
//!   neighborhood does not grow with the tree.
//! - *steady*: nobody comes or goes. *churn*: on average once a minute one node leaves and enters again five seconds later,
//!   the papers' setting. Host and agent end together and remember nothing, so that their neighbors have to be told
//!   everything again; with an agent that outlives its host there would be less.
//! - Nodes keep no disk, so that their checkpoint numbers begin with the milliseconds since the epoch: the longest there are.
//!
//! # What is counted
//!
//! Every byte of every frame between two agents, with its header, once: where it is sent. What a node sends plus what it
//! receives is twice that, on average. Below the frames comes QUIC; agents charge 92 bytes for each frame sent by itself
//! (`agent/src/link/peers.rs`), and that is shown apart, because nothing is said of the papers' headers. So are the stamps on
//! the service's own messages, and what of them says which states may stand side by side.

mod host;
mod tally;
mod world;

use anyhow::{Result, ensure};
use chord::Chord;
use randtree::RandTree;
use scry::{NodeId, Service};
use serde_json::{Value, json};

use crate::tally::Tally;
use crate::world::{Plan, World};

const NODES: u32 = 25;
const CHURN_MS: u64 = 60_000;
/// What CrystalBall §5.5 reports for RandTree and Chord, and what this system aims at for RandTree.
const PAPER_BITS: [f64; 2] = [803.0, 8224.0];
const GOAL_BITS: f64 = 200.0;
/// What QUIC adds to a frame that is sent by itself, as agents charge it.
const FRAME_OVERHEAD_BYTES: u64 = 92;

/// One simulated run and what was counted in it.
struct Row {
    service: &'static str,
    churn: bool,
    channels: bool,
    measured_ms: u64,
    paper_bits: f64,
    tally: Tally,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let minutes = if has("--test") || !has("--bench") {
        3
    } else {
        30
    };
    let seed = arguments
        .iter()
        .position(|argument| argument == "--seed")
        .and_then(|at| arguments.get(at + 1)?.parse().ok())
        .unwrap_or(0x5c27);
    let mut rows = Vec::new();
    for churn in [false, true] {
        for channels in [false, true] {
            rows.push(measure::<RandTree>(
                "randtree",
                trees(),
                (churn, channels),
                minutes,
                seed,
            )?);
        }
    }
    for channels in [false, true] {
        rows.push(measure::<Chord>(
            "chord",
            rings(),
            (true, channels),
            minutes.min(10),
            seed,
        )?);
    }
    if has("--json") {
        println!("{}", Value::Array(rows.iter().map(Row::to_json).collect()));
    } else {
        print(&rows);
    }
    for row in rows.iter().filter(|row| row.service == "randtree") {
        let bits = row.rate(row.tally.bytes());
        ensure!(
            bits < GOAL_BITS,
            "{}: {bits:.0} bit/s where {GOAL_BITS} are the goal",
            row.name()
        );
    }
    Ok(())
}

fn trees() -> Vec<(NodeId, randtree::Setup)> {
    let setup = randtree::Setup {
        bootstrap: (1..=3).map(NodeId::new).collect(),
        ..randtree::Setup::default()
    };
    (1..=NODES)
        .map(|id| (NodeId::new(id), setup.clone()))
        .collect()
}

fn rings() -> Vec<(NodeId, chord::Setup)> {
    // Places on the ring as far from each other as hashed addresses would be.
    let ids: Vec<NodeId> = (1..=NODES)
        .map(|number| NodeId::new(number.wrapping_mul(0x9e37_79b1)))
        .collect();
    let setup = chord::Setup::new(ids[..3].iter().copied());
    ids.into_iter().map(|id| (id, setup.clone())).collect()
}

fn measure<S: Service>(
    service: &'static str,
    nodes: Vec<(NodeId, S::Setup)>,
    (churn, channels): (bool, bool),
    minutes: u64,
    seed: u64,
) -> Result<Row> {
    let measured_ms = minutes * 60_000;
    let tally = World::<S>::new(Plan {
        nodes,
        channels,
        churn_ms: churn.then_some(CHURN_MS),
        warm_up_ms: 120_000,
        measured_ms,
        seed,
    })
    .run()?;
    Ok(Row {
        service,
        churn,
        channels,
        measured_ms,
        paper_bits: PAPER_BITS[usize::from(service == "chord")],
        tally,
    })
}

impl Row {
    /// Turns bytes of all nodes over the measured time into bits each second of one node.
    fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 * 1000.0 / self.measured_ms as f64 / f64::from(NODES)
    }

    fn name(&self) -> String {
        let churn = if self.churn { "churn" } else { "steady" };
        let channels = if self.channels { "with" } else { "without" };
        format!("{} {churn}, {channels} channel state", self.service)
    }

    fn members(&self) -> f64 {
        self.tally.members as f64 / self.tally.snapshots.max(1) as f64
    }

    fn age_ms(&self) -> f64 {
        self.tally.age_ms as f64 / self.tally.members.max(1) as f64
    }

    fn to_json(&self) -> Value {
        let tally = &self.tally;
        let kinds: serde_json::Map<String, Value> = tally
            .kinds
            .iter()
            .map(|(kind, sum)| {
                let value = json!({
                    "frames": sum.frames,
                    "bytes": sum.bytes,
                    "mean_bytes": sum.mean(),
                    "bits_per_second_per_node": self.rate(sum.bytes),
                });
                ((*kind).to_owned(), value)
            })
            .collect();
        json!({
            "service": self.service,
            "nodes": NODES,
            "churn": self.churn,
            "channel_state": self.channels,
            "minutes": self.measured_ms / 60_000,
            "bits_per_second_per_node": self.rate(tally.bytes()),
            "paper_bits_per_second_per_node": self.paper_bits,
            "goal_bits_per_second_per_node": GOAL_BITS,
            "in_and_out_bits_per_second_per_node": 2.0 * self.rate(tally.bytes()),
            "with_transport_bits_per_second_per_node":
                self.rate(tally.bytes() + tally.frames() * FRAME_OVERHEAD_BYTES),
            "kinds": kinds,
            "checkpoint_bytes": {
                "whole": tally.whole.mean(),
                "lz4": tally.alone.mean(),
                "delta": tally.delta.mean(),
            },
            "snapshots": tally.snapshots,
            "members_per_snapshot": self.members(),
            "member_age_ms": self.age_ms(),
            "missing": tally.missing,
            "failed": tally.failed,
            "checkpoints": tally.checkpoints,
            "departures": tally.departures,
            "stamp_bits_per_second_per_node": self.rate(tally.stamp_bytes),
            "past_bits_per_second_per_node": self.rate(tally.past_bytes),
            "service_bits_per_second_per_node": self.rate(tally.message_bytes),
        })
    }
}

fn print(rows: &[Row]) {
    println!(
        "bit/s for each of {NODES} nodes; the paper's RandTree 803, Chord 8224; the goal for RandTree 200\n"
    );
    println!(
        "{:<40} {:>6} {:>8} {:>10} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>7}",
        "",
        "frames",
        "of paper",
        "in and out",
        "with QUIC",
        "stamps",
        "of past",
        "snapshots",
        "members",
        "missing",
        "age ms"
    );
    for row in rows {
        let tally = &row.tally;
        let bits = row.rate(tally.bytes());
        println!(
            "{:<40} {:>6.0} {:>7.0}% {:>10.0} {:>9.0} {:>7.0} {:>7.0} {:>9} {:>7.2} {:>7} {:>7.0}",
            row.name(),
            bits,
            100.0 * bits / row.paper_bits,
            2.0 * bits,
            row.rate(tally.bytes() + tally.frames() * FRAME_OVERHEAD_BYTES),
            row.rate(tally.stamp_bytes),
            row.rate(tally.past_bytes),
            tally.snapshots,
            row.members(),
            tally.missing,
            row.age_ms(),
        );
    }
    println!("\nby kind of frame: bit/s for each node (frames a minute and node, mean bytes)");
    for row in rows {
        println!("{}", row.name());
        for (kind, sum) in &row.tally.kinds {
            let minutes = row.measured_ms as f64 / 60_000.0 * f64::from(NODES);
            println!(
                "  {kind:<10} {:>7.1}  ({:>6.2}, {:>6.1})",
                row.rate(sum.bytes),
                sum.frames as f64 / minutes,
                sum.mean()
            );
        }
    }
    println!("\nmean bytes of a checkpoint: whole, lz4 alone, difference to the one 10 s before");
    for row in rows {
        println!(
            "{:<40} {:>7.1} {:>7.1} {:>7.1}",
            row.name(),
            row.tally.whole.mean(),
            row.tally.alone.mean(),
            row.tally.delta.mean()
        );
    }
}
