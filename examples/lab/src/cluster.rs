//! A cluster of real processes: a node and an agent beside it for each member, and the referee who watches them all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use scry::NodeId;
use scry_protocol::record::Record;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::agent::{Agent, HOST_SOCKET, Seat};
use crate::node::{self, Node, Told};
use crate::process::Process;
use crate::referee::{Judged, Referee};
use crate::staged::Staged;
use crate::usage::{Look, Usage};

/// How much is done about violations.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Steering {
    /// Nothing: no agents run.
    Off,
    /// Only the immediate safety check; nothing is predicted.
    Immediate,
    /// Prediction, filters and the immediate check, all of which only say what they would do.
    Audit,
    /// Prediction and filters, with the immediate check behind them.
    Full,
}

/// What the network between two nodes does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Link {
    /// How much later everything arrives.
    pub(crate) delay_ms: u64,
    /// Up to how much later still, drawn for each message.
    pub(crate) jitter_ms: u64,
    /// Which share of the datagrams is lost.
    pub(crate) loss: f64,
    /// How much the link carries; 0 for as much as there is.
    pub(crate) rate_kbps: u64,
}

impl Steering {
    /// Tells whether the future is searched.
    pub(crate) fn predicts(self) -> bool {
        matches!(self, Self::Audit | Self::Full)
    }
}

/// Which filter is taken if several would do.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// The one that takes the least from the service, as by default
    #[default]
    LeastHarm,
    /// The one that acts on the earliest event, as in the paper
    Earliest,
}

impl Order {
    /// Returns its name in an agent's configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LeastHarm => "least-harm",
            Self::Earliest => "earliest",
        }
    }
}

/// How agents are set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Tuning {
    /// How often a snapshot is gathered.
    pub(crate) period_ms: u64,
    /// How long a search may take.
    pub(crate) time_ms: u64,
    /// How many states it may visit.
    pub(crate) states: u64,
    /// How many events a path may have.
    pub(crate) depth: u32,
    /// How long a filter lasts.
    pub(crate) ttl_ms: u64,
    /// How the immediate check tries a handler.
    pub(crate) isolate: &'static str,
    /// How long a trial may take, and how long an event may be held until the neighbors have answered.
    pub(crate) patience_ms: (u64, u64),
    /// Which filter is taken if several would do.
    pub(crate) order: Order,
    /// Whether everybody is everybody's neighbor, or the service says who is.
    pub(crate) everyone: bool,
    /// Resets a path may contain that peers are told of.
    pub(crate) resets: u8,
    /// Resets a path may contain that nobody is told of.
    pub(crate) silent_resets: u8,
    /// Datagrams a path may lose.
    pub(crate) losses: u8,
    /// The text of the property file; empty for the service's own properties.
    pub(crate) properties: &'static str,
    /// What is done about what never comes true again.
    pub(crate) liveness: &'static str,
}

/// What a cluster is made of.
#[derive(Debug)]
pub(crate) struct Plan<S: Staged> {
    /// Its nodes with their settings.
    pub(crate) nodes: Vec<(NodeId, S::Setup)>,
    /// How much is done about violations.
    pub(crate) steering: Steering,
    /// The network.
    pub(crate) link: Link,
    /// How agents are set.
    pub(crate) tuning: Tuning,
    /// What all chance begins with.
    pub(crate) seed: u64,
    /// Where everything is written.
    pub(crate) directory: PathBuf,
}

/// How agents are set.
#[derive(Clone, Debug)]
pub(crate) enum Agents {
    /// For an experiment.
    Tuned(Tuning),
    /// As they are for whoever says no more than they must be told.
    Default {
        /// Whether they are told that everybody is everybody's neighbor, because the service does not say who is.
        everyone: bool,
        /// The property file; empty for the service's own properties.
        properties: &'static str,
    },
}

/// All that is needed to start a cluster.
#[derive(Debug)]
pub(crate) struct Launch<'a, S: Staged> {
    /// Its nodes with their settings.
    pub(crate) nodes: &'a [(NodeId, S::Setup)],
    /// Those of them that are started later, by [`Cluster::start_late`].
    pub(crate) late: &'a [NodeId],
    /// How much is done about violations.
    pub(crate) steering: Steering,
    /// The network.
    pub(crate) link: Link,
    /// How agents are set.
    pub(crate) agents: Agents,
    /// What all chance begins with.
    pub(crate) seed: u64,
    /// Where everything is written.
    pub(crate) directory: &'a Path,
}

/// Something that happened in a cluster.
#[derive(Debug)]
pub(crate) enum Happening {
    /// An event at a node, after the referee has looked at it.
    Event(Judged),
    /// An agent wrote a record.
    Record(Box<Record>),
}

/// What all processes of a kind have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Costs {
    /// The nodes.
    pub(crate) hosts: Usage,
    /// The speculators beside them.
    pub(crate) speculators: Usage,
    /// The agents.
    pub(crate) agents: Usage,
    /// Their checkers.
    pub(crate) checkers: Usage,
}

/// A running cluster. Dropped, it ends at once; [`Cluster::end`] ends it in good order.
#[derive(Debug)]
pub(crate) struct Cluster<S: Staged> {
    /// Watches it.
    pub(crate) referee: Referee<S>,
    nodes: BTreeMap<NodeId, Node>,
    agents: BTreeMap<NodeId, Agent>,
    /// What those nodes are started with that are not running yet.
    late: BTreeMap<NodeId, node::Options>,
    tell: mpsc::UnboundedSender<Box<Told>>,
    told: mpsc::UnboundedReceiver<Box<Told>>,
    records: mpsc::UnboundedReceiver<Box<Record>>,
}

impl<S: Staged> Cluster<S> {
    /// Starts everything, and waits until every node listens, knows the others and has its agent.
    ///
    /// # Errors
    ///
    /// If a process cannot be started or does not come up.
    pub(crate) async fn start(plan: &Plan<S>) -> anyhow::Result<Self> {
        Self::launch(&Launch {
            nodes: &plan.nodes,
            late: &[],
            steering: plan.steering,
            link: plan.link,
            agents: Agents::Tuned(plan.tuning.clone()),
            seed: plan.seed,
            directory: &plan.directory,
        })
        .await
    }

    /// As [`Cluster::start`]; nodes that are late have only their agent yet.
    ///
    /// # Errors
    ///
    /// If a process cannot be started or does not come up.
    pub(crate) async fn launch(launch: &Launch<'_, S>) -> anyhow::Result<Self> {
        std::fs::create_dir_all(launch.directory)?;
        if std::fs::read_dir(launch.directory)?.next().is_some() {
            let directory = launch.directory.display();
            bail!(
                "{directory} is from an earlier run, whose disks its nodes would find: choose another --directory"
            );
        }
        // Sockets are named by absolute paths.
        let directory = launch.directory.canonicalize()?;
        let mut agents = BTreeMap::new();
        let (record, records) = mpsc::unbounded_channel();
        if launch.steering != Steering::Off {
            for agent in start_agents(launch, &directory).await? {
                agent.follow(record.clone());
                agents.insert(agent.id, agent);
            }
        }
        let (tell, told) = mpsc::unbounded_channel();
        let mut cluster = Self {
            referee: Referee::new(),
            nodes: BTreeMap::new(),
            agents,
            late: BTreeMap::new(),
            tell,
            told,
            records,
        };
        for (id, setup) in launch.nodes {
            let own = directory.join(id.to_string());
            std::fs::create_dir_all(&own)?;
            let options = node::Options {
                id: *id,
                setup: serde_json::to_value(setup)?,
                agent: (launch.steering != Steering::Off).then(|| own.join(HOST_SOCKET)),
                link: launch.link,
                seed: launch.seed.wrapping_add(u64::from(id.get())),
                directory: own,
            };
            if launch.late.contains(id) {
                cluster.late.insert(*id, options);
            } else {
                cluster.start_node(&options).await?;
            }
        }
        cluster.introduce().await?;
        for (id, agent) in &mut cluster.agents {
            if !launch.late.contains(id) {
                agent
                    .wait_until(|status| is_at_work(status, launch.steering))
                    .await?;
            }
        }
        Ok(cluster)
    }

    async fn start_node(&mut self, options: &node::Options) -> anyhow::Result<()> {
        let node = Node::start(S::NAME, options, self.tell.clone()).await?;
        self.nodes.insert(options.id, node);
        Ok(())
    }

    /// Tells every node where the others are.
    async fn introduce(&mut self) -> anyhow::Result<()> {
        let nodes = self.nodes.values();
        let addresses: BTreeMap<NodeId, SocketAddr> =
            nodes.map(|node| (node.id, node.address)).collect();
        for node in self.nodes.values_mut() {
            node.meet(&addresses).await?;
        }
        Ok(())
    }

    /// Starts a node that is late, and tells the others where it is.
    ///
    /// # Errors
    ///
    /// If it does not come up.
    pub(crate) async fn start_late(&mut self, node: NodeId) -> anyhow::Result<()> {
        let options = self.late.remove(&node).context("a node that is late")?;
        self.start_node(&options).await?;
        self.introduce().await
    }

    /// Gives a node an order without waiting for its answer.
    ///
    /// # Errors
    ///
    /// If the node is gone.
    pub(crate) async fn tell(&mut self, node: NodeId, order: &Value) -> anyhow::Result<()> {
        let node = self
            .nodes
            .get_mut(&node)
            .context("a node of this cluster")?;
        node.tell(order).await.map(drop)
    }

    /// Returns the members.
    pub(crate) fn members(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    /// Waits for the next thing to happen, until a moment.
    pub(crate) async fn next(&mut self, until: Instant) -> Option<Happening> {
        loop {
            while let Ok(told) = self.told.try_recv() {
                self.referee.hear(told);
            }
            let now_ms = epoch_ms();
            if let Some(judged) = self.referee.judge_next(now_ms) {
                return Some(Happening::Event(judged));
            }
            let due = self.referee.due_ms().map(|due_ms| {
                Instant::now() + Duration::from_millis(due_ms.saturating_sub(now_ms).max(1))
            });
            tokio::select! {
                Some(told) = self.told.recv() => self.referee.hear(told),
                Some(record) = self.records.recv() => return Some(Happening::Record(record)),
                () = sleep_until(due.map_or(until, |due| due.min(until))) => {
                    if Instant::now() >= until {
                        return None;
                    }
                }
            }
        }
    }

    /// Waits until a node says something, long before the referee gets to it; tells whether it did.
    pub(crate) async fn hear_until(
        &mut self,
        patience: Duration,
        mut is_it: impl FnMut(&Told) -> bool,
    ) -> bool {
        let until = Instant::now() + patience;
        loop {
            tokio::select! {
                Some(told) = self.told.recv() => {
                    let found = is_it(&told);
                    self.referee.hear(told);
                    if found {
                        return true;
                    }
                }
                () = sleep_until(until) => return false,
            }
        }
    }

    /// Gives a node an order.
    ///
    /// # Errors
    ///
    /// If it refuses, or is gone.
    pub(crate) async fn order(&mut self, node: NodeId, order: Value) -> anyhow::Result<Value> {
        let node = self
            .nodes
            .get_mut(&node)
            .context("a node of this cluster")?;
        node.order(&order).await
    }

    /// Makes an application's call. A call that steering refuses is no failure of the lab.
    ///
    /// # Errors
    ///
    /// If the node is gone.
    pub(crate) async fn call(&mut self, node: NodeId, call: &S::Call) -> anyhow::Result<()> {
        let answer = self.order(node, json!({ "call": call })).await;
        match answer {
            Err(error) if error.to_string().contains("is gone") => Err(error),
            _ => Ok(()),
        }
    }

    /// Stops an agent where it is, as if it were cut off, or lets it go on.
    pub(crate) fn pause_agent(&self, node: NodeId, pause: bool) {
        if let Some(agent) = self.agents.get(&node) {
            agent.process.pause(pause);
        }
    }

    /// Fails if a process has ended that should not have.
    ///
    /// # Errors
    ///
    /// Which one, and how.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let nodes = self.nodes.values_mut().map(|node| &mut node.process);
        let agents = self.agents.values_mut().map(|agent| &mut agent.process);
        for process in nodes.chain(agents) {
            if let Some(status) = process.ended() {
                bail!("{} ended before its time: {status}", process.name());
            }
        }
        Ok(())
    }

    /// Returns what the processes have used so far.
    pub(crate) fn costs(&self) -> Costs {
        let look = Look::now();
        let mut costs = Costs::default();
        for node in self.nodes.values() {
            costs.hosts.include(look.of(node.process.pid()));
            costs
                .speculators
                .include(look.of_children(node.process.pid()));
        }
        for agent in self.agents.values() {
            costs.agents.include(look.of(agent.process.pid()));
            costs
                .checkers
                .include(look.of_children(agent.process.pid()));
        }
        costs
    }

    /// Asks all agents how they are doing.
    pub(crate) async fn statuses(&self) -> BTreeMap<NodeId, Value> {
        let mut statuses = BTreeMap::new();
        for (&id, agent) in &self.agents {
            if let Ok(status) = agent.status().await {
                statuses.insert(id, status);
            }
        }
        statuses
    }

    /// Ends everything in good order, nodes first, so that agents see them leave.
    pub(crate) async fn end(self) {
        let nodes = self
            .nodes
            .into_values()
            .map(|node| tokio::spawn(node.end()));
        for node in nodes.collect::<Vec<_>>() {
            // A task of ours that panics has nothing left to end.
            let _ = node.await;
        }
        let agents = self
            .agents
            .into_values()
            .map(|mut agent| tokio::spawn(async move { agent.process.end().await }));
        for agent in agents.collect::<Vec<_>>() {
            let _ = agent.await;
        }
    }
}

async fn start_agents<S: Staged>(
    launch: &Launch<'_, S>,
    directory: &Path,
) -> anyhow::Result<Vec<Agent>> {
    make_certificates::<S>(launch, directory).await?;
    let ids = || launch.nodes.iter().map(|(id, _)| *id);
    let mut agents = Vec::new();
    for id in ids() {
        let seat = Seat {
            id,
            others: ids().filter(|other| *other != id).collect(),
            directory: directory.join(id.to_string()),
            service: S::NAME,
            steering: launch.steering,
            agents: launch.agents.clone(),
        };
        agents.push(seat.start().await?);
    }
    let known: Vec<(NodeId, String)> = agents
        .iter()
        .map(|agent| (agent.id, agent.address.clone()))
        .collect();
    for agent in &agents {
        agent.meet(&known).await?;
    }
    Ok(agents)
}

async fn make_certificates<S: Staged>(
    launch: &Launch<'_, S>,
    directory: &Path,
) -> anyhow::Result<()> {
    let folder = directory.join("certificates");
    let ids: Vec<String> = launch
        .nodes
        .iter()
        .map(|(id, _)| id.get().to_string())
        .collect();
    let arguments = [
        "cert",
        "init",
        &folder.display().to_string(),
        "--nodes",
        &ids.join(","),
    ]
    .map(str::to_owned);
    let log = directory.join("certificates.log");
    let (mut process, _) = Process::start("cert init", S::NAME, &arguments, &log, false)?;
    let status = process.wait().await?;
    if !status.success() {
        bail!(node::unheard("cert init", &log));
    }
    Ok(())
}

/// Tells whether an agent has all it needs.
fn is_at_work(status: &Value, steering: Steering) -> bool {
    let status = &status["steering"];
    let has_host = !status["host"].is_null();
    has_host && (!steering.predicts() || status["checker_ready"] == true)
}

/// Returns the milliseconds since the epoch.
pub(crate) fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
