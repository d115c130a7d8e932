//! A cluster: nodes with agents, one of them the attacker, and beside it the same again, which nobody attacks.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde_json::json;

use super::agent::Settings;
use super::node::{Start, set_clock};
use super::{Agent, Node, Scratch, arena, until};

/// What is added to a node's id to get that of its twin in the cluster that nobody attacks, whose pace says how busy the
/// machine is.
const TWIN: u32 = 100;
/// Whom certificates are made for beside the nodes: holders of a certificate that no agent knows.
const OUTSIDERS: [u32; 2] = [8, 9];

/// So many cases run at a time. What a cluster answers is measured, but against a twin that others disturb as much.
const AT_ONCE: usize = 2;
static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// What a cluster is made of.
#[derive(Debug)]
pub struct Plan {
    nodes: u32,
    settings: Settings,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    disks: bool,
    /// By node: how far its clock is ahead, and what is in its file of numbers.
    clocks: Vec<(u32, i64)>,
    numbers: Vec<(u32, String)>,
    /// Whether the attacker's agent is left without its node.
    free_agent: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self::new()
    }
}

impl Plan {
    /// Three nodes, of which the last attacks; checked and steered with the service's own properties.
    pub fn new() -> Self {
        let mut settings = Settings::new();
        let defaults = [
            ("steering.mode", "\"steer\""),
            ("safety.isolate", "\"speculator\""),
            ("safety.deadline_ms", "200"),
            ("checkpoint.period_ms", "250"),
            ("checkpoint.round_ms", "1000"),
            ("checker.time_ms", "250"),
            // Where others want every processor, checkers that run only when nobody does would never come to an end, and what
            // is waited for is what they find. It is no easier for the service.
            ("checker.idle", "false"),
            ("checker.nice", "5"),
            ("checker.grace_ms", "5000"),
            ("checker.states", "2000"),
            ("checker.memory_bytes", "268435456"),
        ];
        for (name, value) in defaults {
            settings.insert(name.to_owned(), value.to_owned());
        }
        Self {
            nodes: 3,
            settings,
            arguments: Vec::new(),
            environment: Vec::new(),
            disks: true,
            clocks: Vec::new(),
            numbers: Vec::new(),
            free_agent: false,
        }
    }

    /// Starts nodes that keep nothing over restarts.
    #[must_use]
    pub fn without_disks(mut self) -> Self {
        self.disks = false;
        self
    }

    /// Starts a node with its clock so far ahead of the machine's.
    #[must_use]
    pub fn clock(mut self, id: u32, ahead_ms: i64) -> Self {
        self.clocks.push((id, ahead_ms));
        self
    }

    /// Starts a node that finds this in its file of numbers.
    #[must_use]
    pub fn stored_number(mut self, id: u32, text: &str) -> Self {
        self.numbers.push((id, text.to_owned()));
        self
    }

    /// Leaves the attacker's agent without its node, so that the case may speak for that.
    #[must_use]
    pub fn free_agent(mut self) -> Self {
        self.free_agent = true;
        self
    }

    /// Sets something in every agent's configuration, by its dotted name: `set("safety.isolate", "\"clone\"")`.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Starts so many nodes, of which the last attacks.
    #[must_use]
    pub fn nodes(mut self, count: u32) -> Self {
        self.nodes = count;
        self
    }

    /// Adds words to the command line of every node.
    #[must_use]
    pub fn node_arguments(mut self, words: &[&str]) -> Self {
        self.arguments
            .extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    /// Adds a variable to the environment of every node.
    #[must_use]
    pub fn node_environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts everything, and waits until every node has its agent and every agent its checker.
    pub fn start(self) -> Cluster {
        let turn = Turn::wait();
        let scratch = Scratch::new();
        let ids: Vec<u32> = (1..=self.nodes).collect();
        let twins: Vec<u32> = ids.iter().map(|id| id + TWIN).collect();
        make_certificates(&scratch.0, &[&ids[..], &twins[..]].concat());
        let attacked = self.start_group(&scratch.0, &ids);
        let control = self.start_group(&scratch.0, &twins);
        let cluster = Cluster {
            nodes: attacked.nodes,
            agents: attacked.agents,
            control,
            plan: self,
            scratch,
            _turn: turn,
        };
        cluster.wait_until_ready();
        cluster
    }

    /// Starts nodes with agents that know each other and nobody else.
    fn start_group(&self, root: &Path, ids: &[u32]) -> Group {
        let nowhere: Vec<(u32, SocketAddr)> = ids
            .iter()
            .map(|&id| (id, ([127, 0, 0, 1], 1).into()))
            .collect();
        let agents: Vec<Agent> = ids
            .iter()
            .map(|&id| {
                let folder = root.join(format!("n{id}"));
                Agent::start(id, &folder, &self.settings_of(root, id, &nowhere))
            })
            .collect();
        let known: Vec<(u32, SocketAddr)> = agents.iter().map(|it| (it.id, it.address)).collect();
        for agent in &agents {
            agent.reload(&self.settings_of(root, agent.id, &known));
        }
        // The twins meet no trouble of their own.
        let of_attacked = |id: &u32| ids.contains(id);
        for (id, ahead_ms) in self.clocks.iter().filter(|(id, _)| of_attacked(id)) {
            set_clock(&root.join(format!("n{id}")), *ahead_ms);
        }
        for (id, text) in self.numbers.iter().filter(|(id, _)| of_attacked(id)) {
            let disk = root.join(format!("n{id}")).join("disk");
            std::fs::create_dir_all(&disk).unwrap();
            std::fs::write(disk.join("numbers"), text).unwrap();
        }
        let nodes = ids
            .iter()
            .map(|&id| Arc::new(self.start_node(root, ids, id)));
        let nodes: Vec<Arc<Node>> = nodes.collect();
        introduce(&nodes);
        Group { nodes, agents }
    }

    /// Starts one of the nodes with these ids.
    fn start_node(&self, root: &Path, ids: &[u32], id: u32) -> Node {
        let folder = root.join(format!("n{id}"));
        let has_agent = !(self.free_agent && id == self.nodes);
        Node::start(&Start {
            id,
            folder: &folder,
            members: ids,
            partners: &ids[..ids.len() - 1],
            agent: has_agent.then(|| folder.join("host.sock")),
            disk: self.disks,
            arguments: &self.arguments,
            environment: &self.environment,
        })
    }

    fn settings_of(&self, root: &Path, id: u32, known: &[(u32, SocketAddr)]) -> Settings {
        let quoted = |path: PathBuf| json!(path).to_string();
        let folder = root.join(format!("n{id}"));
        let certificates = root.join("certificates");
        let known: Vec<String> = known
            .iter()
            .filter(|(other, _)| *other != id)
            .map(|(id, address)| format!("{{ id = {id}, address = \"{address}\" }}"))
            .collect();
        let mut settings = Settings::from(
            [
                ("node.id", id.to_string()),
                ("host.socket", quoted(folder.join("host.sock"))),
                ("peers.listen", "\"127.0.0.1:0\"".to_owned()),
                (
                    "peers.certificate",
                    quoted(certificates.join(format!("n{id}.pem"))),
                ),
                ("peers.key", quoted(certificates.join(format!("n{id}.key")))),
                (
                    "peers.authority",
                    quoted(certificates.join("authority.pem")),
                ),
                ("peers.known", format!("[{}]", known.join(", "))),
                ("steering.kill_file", quoted(folder.join("off"))),
                ("log.directory", quoted(folder.join("log"))),
                ("admin.listen", quoted(folder.join("admin.sock"))),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        settings.extend(self.settings.clone());
        settings
    }
}

/// Nodes and their agents.
#[derive(Debug)]
pub(super) struct Group {
    /// By rising id. The last is the one that attacks, or would.
    pub(super) nodes: Vec<Arc<Node>>,
    agents: Vec<Agent>,
}

impl Group {
    /// Returns the nodes that are measured.
    pub(super) fn measured(&self) -> &[Arc<Node>] {
        &self.nodes[..self.nodes.len() - 1]
    }
}

/// The right to run a cluster, until it is dropped.
#[derive(Debug)]
struct Turn;

impl Turn {
    fn wait() -> Self {
        // A case that failed has left nothing that this one could trip over.
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = ENDED
            .wait_while(running, |running| *running >= AT_ONCE)
            .unwrap_or_else(PoisonError::into_inner);
        *running += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// A running cluster. Everything of it ends when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes, by rising id. The last is the attacker.
    pub nodes: Vec<Arc<Node>>,
    /// Their agents.
    pub agents: Vec<Agent>,
    /// The same again, started in the same way and asked as much, which nobody attacks.
    pub(super) control: Group,
    plan: Plan,
    scratch: Scratch,
    _turn: Turn,
}

impl Cluster {
    /// Returns the node whose state, agent or certificate is in the attacker's hands.
    pub fn attacker(&self) -> &Node {
        self.nodes.last().unwrap()
    }

    /// Returns the nodes that are measured: all but the attacker.
    pub fn measured(&self) -> &[Arc<Node>] {
        &self.nodes[..self.nodes.len() - 1]
    }

    /// Returns a node's agent.
    pub fn agent(&self, id: u32) -> &Agent {
        self.agents.iter().find(|agent| agent.id == id).unwrap()
    }

    /// Returns a node.
    pub fn node(&self, id: u32) -> &Node {
        self.nodes.iter().find(|node| node.id == id).unwrap()
    }

    /// Returns how often a node's agent counted a failure.
    pub fn failed_open(&self, id: u32, failure: &str) -> u64 {
        self.agent(id).failed_open(failure)
    }

    /// Returns the folder of certificates: `nI.pem` and `nI.key` for every node and for 8 and 9, whom no agent knows, and
    /// `authority.pem`.
    pub fn certificates(&self) -> PathBuf {
        self.scratch.0.join("certificates")
    }

    /// Returns the configuration that a node's agent runs with, for a case that changes some of it and has it reloaded.
    pub fn settings(&self, id: u32) -> Settings {
        let known: Vec<(u32, SocketAddr)> =
            self.agents.iter().map(|it| (it.id, it.address)).collect();
        self.plan.settings_of(&self.scratch.0, id, &known)
    }

    /// Ends a node's process and starts it again, with what it kept and with its clock so far ahead.
    pub fn restart(&mut self, id: u32, ahead_ms: i64) {
        let at = self.nodes.iter().position(|node| node.id == id).unwrap();
        self.nodes[at].kill();
        self.nodes[at].set_clock(ahead_ms);
        let ids: Vec<u32> = (1..=self.plan.nodes).collect();
        self.nodes[at] = Arc::new(self.plan.start_node(&self.scratch.0, &ids, id));
        introduce(&self.nodes);
    }

    /// Waits until every agent has its host, its checker, and a snapshot without anybody missing.
    fn wait_until_ready(&self) {
        let hosted = match self.plan.free_agent {
            true => &self.agents[..self.agents.len() - 1],
            false => &self.agents,
        };
        for agent in hosted.iter().chain(&self.control.agents) {
            until("host, checker and a whole snapshot", || {
                let status = agent.status();
                let has_host = !status["steering"]["host"].is_null();
                let ready = has_host && status["steering"]["checker_ready"] == true;
                ready.then_some(())
            });
            until("a run", || {
                let runs = agent.status()["steering"]["counts"]["runs_finished"].as_u64();
                (runs > Some(0)).then_some(())
            });
        }
    }

    /// Fails if a process has ended.
    pub fn assert_alive(&self) {
        for node in self.nodes.iter().chain(&self.control.nodes) {
            let ended = node.ended();
            assert!(
                ended.is_none(),
                "node {}: {ended:?}: {}",
                node.id,
                node.said()
            );
        }
        for agent in self.agents.iter().chain(&self.control.agents) {
            let ended = agent.ended();
            assert!(
                ended.is_none(),
                "agent {}: {ended:?}: {}",
                agent.id,
                agent.said()
            );
        }
    }
}

fn introduce(nodes: &[Arc<Node>]) {
    let addresses: Vec<(u32, SocketAddr)> = nodes.iter().map(|it| (it.id, it.address)).collect();
    for node in nodes {
        node.meet(&addresses);
    }
}

fn make_certificates(folder: &Path, ids: &[u32]) {
    let ids: Vec<String> = ids
        .iter()
        .chain(&OUTSIDERS)
        .map(ToString::to_string)
        .collect();
    let made = arena()
        .args(["cert", "init"])
        .arg(folder.join("certificates"))
        .args(["--nodes", &ids.join(",")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}
