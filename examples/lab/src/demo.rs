//! A minute's story: a small RandTree with its bugs, first left alone, then steered, with the same faults.
//!
//! The fault is the one of CrystalBall's first example (F-4). A child of the root leaves, so that the root has room. Then
//! a grandchild is reset and nobody is told; it joins again, the root takes it in, and tells its children of their new
//! sibling. One of them still has that sibling as its child.

use std::time::Duration;

use randtree::{Bugs, Call, RandTree, Setup};
use scry::NodeId;

use crate::Output;
use crate::churn::{self, Deed};
use crate::cluster::{Link, Order, Plan, Steering, Tuning};
use crate::draw::Draw;
use crate::html;
use crate::result::{Comparison, RunResult};
use crate::stage::Stage;
use crate::staged::Staged;
use crate::view::View;

/// What the demonstration can be asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Demo {
    /// How many nodes.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(3..=24))]
    nodes: u32,
    /// How often the fault happens.
    #[arg(long, default_value_t = 3)]
    faults: u32,
    /// The seed of everything that is left to chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

impl Default for Demo {
    fn default() -> Self {
        Self {
            nodes: 7,
            faults: 3,
            seed: 1,
            output: Output {
                json: false,
                html: None,
                directory: None,
            },
        }
    }
}

/// How long the tree may take to come together.
const SETTLE_PATIENCE: Duration = Duration::from_secs(10);
/// How long the tree is left alone before each fault: long enough for a snapshot and a search.
const LOOK_AHEAD: Duration = Duration::from_millis(3500);
/// How long its consequences are watched.
const AFTERMATH: Duration = Duration::from_millis(2500);

impl Demo {
    /// Tells the story twice and compares.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let directory = self.output.directory();
        let mut view = View::new(self.output.json);
        view.say(&format!(
            "{} nodes of RandTree, a tree in which no node may have the same node as child and as sibling.\n\
             This one forgets to strike off a child that turns up as a sibling. First it is left alone.\n",
            self.nodes
        ));
        let mut runs = Vec::new();
        for (name, steering) in [("unsteered", Steering::Off), ("steered", Steering::Full)] {
            if steering == Steering::Full {
                view.say("\nNow the same with an agent beside every node.\n");
            }
            runs.push(
                self.tell(name, steering, &directory.join(name), &mut view)
                    .await?,
            );
        }
        let comparison = Comparison::new("RandTree, unsteered and steered", runs);
        let text = format!("\n{}\n{}", comparison.text(), hints(&comparison.runs));
        self.output
            .write(&comparison, &text, &html::page(&comparison))
    }

    async fn tell(
        &self,
        name: &str,
        steering: Steering,
        directory: &std::path::Path,
        view: &mut View,
    ) -> anyhow::Result<RunResult> {
        let ids: Vec<NodeId> = (1..=self.nodes).map(NodeId::new).collect();
        let plan = Plan::<RandTree> {
            nodes: ids.iter().map(|&id| (id, setup())).collect(),
            steering,
            link: Link {
                delay_ms: 10,
                jitter_ms: 5,
                ..Link::default()
            },
            tuning: tuning(1000),
            seed: self.seed,
            directory: directory.to_owned(),
        };
        let mut stage = Stage::open(&plan, name, view).await?;
        stage.perform(&churn::joins(&ids), &Call::Join).await?;
        let mut draw = Draw::new(self.seed);
        for _ in 0..self.faults {
            settle(&mut stage).await;
            fault(&mut stage, &mut draw).await?;
        }
        settle(&mut stage).await;
        Ok(stage.close().await)
    }
}

/// The settings of a node. Its timer says a word on every connection, so that a parent whose child was reset in silence
/// notices within a second, and one fault does not hide the next.
fn setup() -> Setup {
    Setup {
        bootstrap: vec![NodeId::new(1)],
        bugs: Bugs {
            update_sibling: true,
            ..Bugs::default()
        },
        ..Setup::default()
    }
}

/// How agents are set for trees.
pub(crate) fn tuning(period_ms: u64) -> Tuning {
    Tuning {
        period_ms,
        time_ms: 800,
        states: 2_000_000,
        depth: 12,
        ttl_ms: 5_000,
        isolate: "speculator",
        patience_ms: (50, 20),
        order: Order::default(),
        everyone: false,
        resets: 0,
        silent_resets: 1,
        losses: 0,
        properties: "",
        liveness: "audit",
    }
}

/// Waits until everybody has a place.
async fn settle(stage: &mut Stage<'_, RandTree>) {
    let members = stage.cluster.members().len();
    stage
        .watch_until(SETTLE_PATIENCE, |cluster, _| {
            let placed = cluster
                .referee
                .states()
                .filter(|(id, state)| state.has_place(*id));
            placed.count() == members
        })
        .await;
}

/// Makes room at the root, and lets a grandchild of it lose its memory and join again.
async fn fault(stage: &mut Stage<'_, RandTree>, draw: &mut Draw) -> anyhow::Result<()> {
    let Some((leaver, forgetful)) = cast(stage, draw) else {
        let wait = stage.elapsed() + AFTERMATH;
        stage.watch_to(wait).await;
        return Ok(());
    };
    stage.act(leaver, Deed::Reset, &Call::Join).await?;
    let looked = stage.elapsed() + LOOK_AHEAD;
    stage.watch_to(looked).await;
    stage.act(forgetful, Deed::SilentReset, &Call::Join).await?;
    stage.act(forgetful, Deed::Join, &Call::Join).await?;
    let seen = stage.elapsed() + AFTERMATH;
    stage.watch_to(seen).await;
    stage.cluster.check()?;
    stage.act(leaver, Deed::Join, &Call::Join).await
}

/// Picks a child of the root without children, and a child of another child of the root.
fn cast(stage: &Stage<'_, RandTree>, draw: &mut Draw) -> Option<(NodeId, NodeId)> {
    let referee = &stage.cluster.referee;
    let (_, root) = referee.states().find(|(id, state)| state.is_root(*id))?;
    let by_load = |child: &NodeId| referee.state(*child).map_or(0, |it| it.children.len());
    let leaver = root.children.iter().copied().min_by_key(by_load)?;
    let others = root.children.iter().filter(|&&child| child != leaver);
    let grandchildren: Vec<NodeId> = others
        .filter_map(|child| referee.state(*child))
        .flat_map(|state| state.children.iter().copied())
        .collect();
    let pick = draw.word() as usize;
    let forgetful = grandchildren.get(pick.checked_rem(grandchildren.len())?)?;
    Some((leaver, *forgetful))
}

/// Says where to look next.
fn hints(runs: &[RunResult]) -> String {
    let mut text = String::new();
    for run in runs {
        text += &format!("logs   {:<10} {}\n", run.name, run.directory.display());
    }
    let trace = runs.iter().find_map(|run| run.first_trace.as_ref());
    if let Some(trace) = trace {
        text += &format!(
            "\nHow the first violation would have come about:\n\n  cargo run --release -p lab -- explain {}\n",
            trace.display()
        );
    }
    text
}
