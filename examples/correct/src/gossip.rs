//! A counter spread by gossip: every node counts for itself, and tells others what it knows.
//!
//! A node's count is what it has counted itself; of others it knows the highest it has heard. It says at once what it has
//! counted, and now and then all that it knows. Whoever hears of a node's own count says how much of it it knows now. An
//! increment is answered once a majority knows it. Messages are datagrams, and lost ones are made up for by the next round
//! of gossip. Everything is on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use scry::{Bug, Context, NodeId, Program, Property, Request, Scenario, Service, System};
use serde::{Deserialize, Serialize};

use crate::Options;

/// What must hold, in the words of a property file.
pub const PROPERTIES: &str = include_str!("../properties/gossip.toml");
/// The name of the bug on the command line.
pub const DELTAS: &str = "deltas";

/// How often a node tells somebody what it knows.
const ROUND: Duration = Duration::from_millis(200);

/// A node that counts.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Gossip {
    /// What it knows of everybody's count, its own included.
    pub counts: BTreeMap<NodeId, u32>,
    /// How much of its own count others are known to know.
    pub known: BTreeMap<NodeId, u32>,
    /// How much of its own count a majority knows.
    pub answered: u32,
}

/// What nodes say to each other.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// I have counted so much.
    Counted {
        /// How much of that the receiver is known to know.
        since: u32,
        /// All of it.
        count: u32,
    },
    /// This is what I know of everybody.
    Tell(BTreeMap<NodeId, u32>),
    /// I know so much of your count.
    Heard(u32),
}

/// The timer of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// Time to tell somebody.
    Round,
}

/// What the application may ask.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To count one more.
    Add,
}

/// What a node is started with.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// All nodes.
    pub members: Vec<NodeId>,
    /// Up to how much a node may count in a search.
    pub adds: u32,
    /// The bug: a node adds what it is told to be new, though it may have been told before.
    pub deltas: bool,
}

type Cx<'a> = Context<'a, Gossip>;

impl Setup {
    /// Returns the settings of all nodes.
    pub fn new(members: &[NodeId]) -> Self {
        Self {
            members: members.to_vec(),
            adds: u32::MAX,
            deltas: false,
        }
    }

    fn others(&self, me: NodeId) -> Vec<NodeId> {
        let others = self.members.iter().copied();
        others.filter(|&node| node != me).collect()
    }
}

impl Service for Gossip {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = Self;

    fn start(cx: &mut Cx<'_>, disk: Option<Self>) -> Self {
        cx.set_timer(Timer::Round, ROUND);
        disk.unwrap_or_else(|| Self {
            counts: BTreeMap::from([(cx.me(), 0)]),
            known: BTreeMap::new(),
            answered: 0,
        })
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, Call::Add: Call) {
        let own = self.counts.entry(cx.me()).or_default();
        *own += 1;
        let count = *own;
        for peer in cx.setup().others(cx.me()) {
            let since = self.known.get(&peer).copied().unwrap_or_default();
            cx.send(peer, Message::Counted { since, count });
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        match message {
            Message::Counted { since, count } => {
                let known = self.counts.entry(from).or_default();
                *known = match cx.setup().deltas {
                    // Wrong: it may have heard of some of them, and only its answer be late or lost.
                    true => known.saturating_add(count.saturating_sub(since)),
                    false => count.max(*known),
                };
                cx.send(from, Message::Heard(count));
            }
            Message::Tell(counts) => self.learn(cx, from, &counts),
            Message::Heard(count) => self.hear(cx, from, count),
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, Timer::Round: Timer) {
        cx.set_timer(Timer::Round, ROUND);
        let others = cx.setup().others(cx.me());
        if let Ok(count @ 1..) = u32::try_from(others.len()) {
            let peer = others[cx.choose(count) as usize];
            cx.send(peer, Message::Tell(self.counts.clone()));
        }
    }

    fn disk(&self) -> Self {
        self.clone()
    }

    fn calls(&self, me: NodeId, setup: &Setup) -> Vec<Call> {
        let may = self.counts.get(&me).is_none_or(|&own| own < setup.adds);
        may.then_some(Call::Add).into_iter().collect()
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        Some(setup.others(me))
    }

    fn properties() -> Vec<Property<Self>> {
        crate::properties(PROPERTIES)
    }
}

impl Gossip {
    fn learn(&mut self, cx: &mut Cx<'_>, from: NodeId, told: &BTreeMap<NodeId, u32>) {
        for (&node, &count) in told {
            if node == cx.me() {
                // It knows best.
                continue;
            }
            let known = self.counts.entry(node).or_default();
            *known = match cx.setup().deltas && node == from {
                // Whoever adds needs the whole count now and then.
                true => count,
                false => count.max(*known),
            };
        }
        let count = told.get(&from).copied().unwrap_or_default();
        cx.send(from, Message::Heard(count));
    }

    fn hear(&mut self, cx: &mut Cx<'_>, from: NodeId, count: u32) {
        let known = self.known.entry(from).or_default();
        *known = count.max(*known);
        // This node knows its count itself; so many others make a majority with it.
        let others = cx.setup().members.len() / 2;
        let mut known: Vec<u32> = self.known.values().copied().collect();
        known.sort_unstable();
        let at = known.len().checked_sub(others);
        if let Some(&count) = at.and_then(|at| known.get(at)) {
            self.answered = count.max(self.answered);
        }
    }
}

impl Program for Gossip {
    type Options = Options;

    const ABOUT: &'static str =
        "A counter spread by gossip: nobody is said to have counted more than it has";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: DELTAS,
            about: "increments that are told twice are counted twice",
        }]
    }

    fn setup(_: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            deltas: bugs.contains(DELTAS),
            ..Setup::new(members)
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![Scenario {
            name: "start",
            about: "two nodes that have counted nothing (limit it: --depth 8)",
            build: start,
        }]
    }
}

fn start(request: &Request<'_, Gossip>) -> Result<System<Gossip>, String> {
    let members = crate::members(request.nodes, 2, 2)?;
    let setup = Setup {
        adds: 2,
        deltas: request.has_bug(DELTAS),
        ..Setup::new(&members)
    };
    Ok(System::new(
        members.into_iter().map(|node| (node, setup.clone())),
    ))
}
