//! One of the papers' stories, told once with live nodes: the situation, a look ahead, the fatal step, and what came of it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`tree`] | RandTree: the child that is a sibling as well (F-4) |
//! | [`vote`] | Paxos: a second value is chosen (F-13, F-14) |
//! | [`reply`] | RandTree: a reply is ignored, and the tree never agrees again (F-8) |
//! | [`transport`] | MaceTransport: a late packet, and nothing is ever acknowledged again (F-20) |
//! | [`mod@never`] | what the last two have in common: waiting for what may never come |
//! | [`evidence`] | what the agents' steering logs say |
//! | [`account`] | what came of it, for people and for machines |
//!
//! The fatal step waits until the agents have seen the situation, so that what is told is what they can do and not how
//! lucky they were. How often they are in time is what `lab paxos` and `lab randtree` measure.

mod account;
mod evidence;
mod never;
mod reply;
mod transport;
mod tree;
mod vote;

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use scry::NodeId;

use crate::Output;
use crate::cluster::{Cluster, Happening, Order, Plan, Steering, epoch_ms};
use crate::paxos::Bug;
use crate::stage::Stage;
use crate::staged::Staged;
use crate::view::View;
use account::Account;
use evidence::Evidence;

/// How long anything may take before the story is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a prevented violation is watched, in case it was only put off.
const AFTERMATH: Duration = Duration::from_millis(1500);
/// How often each agent gathers a snapshot.
const PERIOD_MS: u64 = 500;

/// What a story can be asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Telling {
    /// Which story.
    #[arg(value_enum)]
    story: Tale,
    /// How much is done about the violation.
    #[arg(long, value_enum, default_value = "steered")]
    way: Way,
    /// How the immediate check tries a handler.
    #[arg(long, value_enum, default_value = "clone")]
    isolate: Isolate,
    /// Which filter is taken if several would do.
    #[arg(long, value_enum, default_value = "least-harm")]
    order: Order,
    /// What is done about what never comes true again, in `r5` and `transport`.
    #[arg(long, value_enum, default_value = "steer")]
    liveness: Liveness,
    /// Tell it without the bug: nothing may be done about anything then.
    #[arg(long)]
    fixed: bool,
    /// The seed of everything that is left to chance; `r1` needs one with which n13 asks n9 first and n1 the second time.
    #[arg(long, default_value_t = 4)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// A story of CrystalBall or MaceMC.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tale {
    /// RandTree: a node is reset in silence, joins elsewhere, and is a child and a sibling of the same node
    R1,
    /// Paxos: a leader proposes the value of the promise it got last
    Bug1,
    /// Paxos: an acceptor does not write its vote to disk, and is reset
    Bug2,
    /// RandTree: a node that was reset ignores a reply, and its parent never learns that it has another (MaceMC)
    R5,
    /// MaceTransport: a late first packet replaces a younger connection, and nothing is ever acknowledged (MaceMC)
    Transport,
}

/// What is done about what never comes true again.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Liveness {
    /// It is not looked for
    Off,
    /// It is predicted
    Audit,
    /// It is predicted and prevented, if the way allows it
    Steer,
}

/// How much is done about a violation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// Nothing: no agents run
    Unsteered,
    /// Prediction and filters, with the immediate check behind them
    Steered,
    /// The same, but all of it only says what it would do
    Audit,
    /// The immediate check alone
    Immediate,
}

/// How the immediate check tries a handler.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Isolate {
    /// Not at all
    Off,
    /// In a small process that forks
    Speculator,
    /// On a clone of the state
    Clone,
    /// In a fork of the node
    Fork,
}

impl Telling {
    /// Tells the story and says what came of it.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if self.way == Way::Immediate && self.isolate == Isolate::Off {
            bail!("the immediate check alone, switched off, is --way unsteered");
        }
        let directory = self.output.directory();
        let mut view = View::new(self.output.json);
        let account = match self.story {
            Tale::R1 => self.tree(&directory, &mut view).await?,
            Tale::Bug1 => self.vote(Bug::LastPromise, &directory, &mut view).await?,
            Tale::Bug2 => {
                self.vote(Bug::VolatilePromise, &directory, &mut view)
                    .await?
            }
            Tale::R5 => self.reply(&directory, &mut view).await?,
            Tale::Transport => self.transport(&directory, &mut view).await?,
        };
        self.output
            .write(&account, &account.text(), &account.page())
    }

    /// Sets the agents of a plan as this telling wants them.
    fn tune<S: Staged>(&self, plan: &mut Plan<S>) {
        plan.steering = self.way.steering();
        plan.tuning.isolate = self.isolate.name();
        // A story is about what is decided, not about how fast this machine is.
        plan.tuning.patience_ms = (5_000, 5_000);
        plan.tuning.order = self.order;
        plan.tuning.liveness = self.liveness.name();
    }

    /// Waits until the agents have seen the situation that is there now, and what they decided about it is in force: with
    /// the bug, a filter at a certain node, or at that of the last event where looking at it is enough.
    async fn look_ahead<S: Staged>(
        &self,
        stage: &mut Stage<'_, S>,
        directory: &Path,
        node: NodeId,
    ) -> anyhow::Result<()> {
        if self.way == Way::Unsteered {
            return Ok(());
        }
        let since_ms = epoch_ms();
        let members = stage.cluster.members();
        let predicts = self.way.steering().predicts();
        let looks = self.way == Way::Steered && self.isolate != Isolate::Off;
        let nodes = if looks { members.clone() } else { vec![node] };
        let mut wants = evidence::Wanted {
            filter: (predicts && !self.fixed).then_some(nodes.as_slice()),
            runs: predicts,
        };
        let is_seen = |_: &_, happening: &Happening| {
            matches!(happening, Happening::Record(_))
                && Evidence::read(directory, &members).shows(&members, since_ms, wants)
        };
        if stage.watch_until(PATIENCE, is_seen).await {
            return Ok(());
        }
        wants.filter = None;
        stage.cluster.check()?;
        match Evidence::read(directory, &members).shows(&members, since_ms, wants) {
            true => bail!("the situation was searched, and there is no filter at {nodes:?}"),
            false => bail!("the situation was not seen in {PATIENCE:?}"),
        }
    }

    /// Watches until it is clear what came of the fatal step: `ended` says whether the story has come to its end without
    /// anything being done about it.
    async fn watch_end<S: Staged>(
        &self,
        stage: &mut Stage<'_, S>,
        directory: &Path,
        ended: impl Fn(&Cluster<S>) -> bool,
    ) -> anyhow::Result<()> {
        let members = stage.cluster.members();
        let way = self.way;
        let is_clear = |cluster: &Cluster<S>| {
            let count = &cluster.referee.count;
            let is_broken = !count.broken.is_empty();
            match way {
                _ if ended(cluster) => true,
                Way::Unsteered => is_broken,
                Way::Audit => is_broken && Evidence::read(directory, &members).would_block() > 0,
                Way::Steered | Way::Immediate => is_broken || count.filtered + count.vetoed > 0,
            }
        };
        if !is_clear(&stage.cluster)
            && !stage
                .watch_until(PATIENCE, |cluster, _| is_clear(cluster))
                .await
        {
            stage.cluster.check()?;
            bail!("the story came to no end in {PATIENCE:?}");
        }
        let is_broken = |cluster: &Cluster<S>, _: &_| !cluster.referee.count.broken.is_empty();
        stage.watch_until(AFTERMATH, is_broken).await;
        stage.cluster.check()
    }

    /// Ends the run and puts together what came of it.
    async fn close<S: Staged>(&self, stage: Stage<'_, S>, directory: &Path) -> Account {
        let members = stage.cluster.members();
        let result = stage.close().await;
        // Read after the agents have ended, so that all they had to say is there.
        let evidence = Evidence::read(directory, &members);
        Account::new(self, &result, &evidence, None)
    }
}

impl Way {
    fn steering(self) -> Steering {
        match self {
            Self::Unsteered => Steering::Off,
            Self::Steered => Steering::Full,
            Self::Audit => Steering::Audit,
            Self::Immediate => Steering::Immediate,
        }
    }
}

impl Liveness {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Audit => "audit",
            Self::Steer => "steer",
        }
    }
}

impl Isolate {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Speculator => "speculator",
            Self::Clone => "clone",
            Self::Fork => "fork",
        }
    }
}
