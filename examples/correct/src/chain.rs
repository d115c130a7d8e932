//! Chain replication: writes enter at the head, travel from node to node, and count once the tail has them.
//!
//! The chain is fixed. A node applies writes in the order of their numbers, passes each on, and keeps it until it hears
//! that the tail has it. Whoever hears nothing for a while, or loses the connection to its successor, sends all that it
//! keeps again; whoever gets a write twice ignores it and says how far the tail is. Everything is on disk, so that a node
//! that was reset goes on where it was.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use scry::{
    Bug, Context, NodeId, Program, Property, Request, Scenario, Service, System, Transport,
};
use serde::{Deserialize, Serialize};

use crate::Options;

/// What must hold, in the words of a property file.
pub const PROPERTIES: &str = include_str!("../properties/chain.toml");
/// The name of the bug on the command line.
pub const TRUSTING: &str = "trusting";

/// How long a node waits for news of the tail before it sends again.
const RESEND: Duration = Duration::from_millis(400);
/// How long it waits after a connection was lost.
const RELINK: Duration = Duration::from_millis(60);
/// How many writes may be on their way: the head takes no more.
const PENDING_MAX: usize = 64;

/// A node of the chain.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// Its place in the chain; the head is 0.
    pub place: u32,
    /// The number of the last write it has applied.
    pub applied: u32,
    /// The number of the last write that it knows to be at the tail.
    pub acknowledged: u32,
    /// What is stored: a value for each key.
    pub store: BTreeMap<u8, u32>,
    /// The writes it has applied and does not know to be at the tail, oldest first.
    pub pending: VecDeque<Write>,
    /// At the head: the last request of the application that was acknowledged.
    pub answered: u32,
}

/// A write on its way.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Write {
    /// Its place in the order that the head gives.
    pub number: u32,
    /// What the application calls it.
    pub request: u32,
    /// Where it is stored.
    pub key: u8,
    /// What is stored there.
    pub value: u32,
}

/// What nodes say to each other.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// To the successor: apply this and pass it on.
    Forward(Write),
    /// To the predecessor: the tail has all writes up to this number.
    Acknowledge(u32),
}

/// The timer of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// Nothing was heard of the tail for a while.
    Resend,
}

/// What the application may ask of the head.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To store a value.
    Write {
        /// What the application calls it: a number above all before.
        request: u32,
        /// Where.
        key: u8,
        /// What.
        value: u32,
    },
}

/// What a node is started with.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The nodes from head to tail.
    pub chain: Vec<NodeId>,
    /// How many writes a search may add.
    pub writes: u32,
    /// The bug: when a connection is lost, what was sent on it is taken for delivered.
    pub trusting: bool,
}

type Cx<'a> = Context<'a, Chain>;

impl Setup {
    /// Returns the settings of a chain of these nodes.
    pub fn new(chain: &[NodeId]) -> Self {
        Self {
            chain: chain.to_vec(),
            writes: u32::MAX,
            trusting: false,
        }
    }

    fn before(&self, place: u32) -> Option<NodeId> {
        let place = (place as usize).checked_sub(1)?;
        self.chain.get(place).copied()
    }

    fn after(&self, place: u32) -> Option<NodeId> {
        self.chain.get(place as usize + 1).copied()
    }
}

impl Service for Chain {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = Self;

    fn start(cx: &mut Cx<'_>, disk: Option<Self>) -> Self {
        let place = cx.setup().chain.iter().position(|&node| node == cx.me());
        let node = disk.unwrap_or(Self {
            place: place
                .and_then(|it| u32::try_from(it).ok())
                .unwrap_or(u32::MAX),
            applied: 0,
            acknowledged: 0,
            store: BTreeMap::new(),
            pending: VecDeque::new(),
            answered: 0,
        });
        if !node.pending.is_empty() {
            cx.set_timer(Timer::Resend, RELINK);
        }
        node
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, call: Call) {
        let Call::Write {
            request,
            key,
            value,
        } = call;
        if self.place == 0 && self.pending.len() < PENDING_MAX {
            let number = self.applied + 1;
            self.apply(
                cx,
                Write {
                    number,
                    request,
                    key,
                    value,
                },
            );
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        match message {
            Message::Forward(write) if write.number == self.applied + 1 => self.apply(cx, write),
            Message::Forward(write) if write.number <= self.applied => {
                cx.send(from, Message::Acknowledge(self.acknowledged));
            }
            // One before it was lost with a connection, and will come again, and this one after it.
            Message::Forward(_) => {}
            Message::Acknowledge(number) => self.acknowledge(cx, number),
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, Timer::Resend: Timer) {
        let Some(next) = cx.setup().after(self.place) else {
            return;
        };
        for &write in &self.pending {
            cx.send(next, Message::Forward(write));
        }
        if !self.pending.is_empty() {
            cx.set_timer(Timer::Resend, RESEND);
        }
    }

    fn on_disconnect(&mut self, cx: &mut Cx<'_>, peer: NodeId) {
        if cx.setup().after(self.place) != Some(peer) || self.pending.is_empty() {
            return;
        }
        if cx.setup().trusting {
            // Wrong: what was sent last may have been lost with the connection.
            self.acknowledge(cx, self.applied);
        } else {
            cx.set_timer(Timer::Resend, RELINK);
        }
    }

    fn disk(&self) -> Self {
        self.clone()
    }

    fn calls(&self, _: NodeId, setup: &Setup) -> Vec<Call> {
        let may = self.place == 0 && self.applied < setup.writes && self.pending.len() < 2;
        let last = self.pending.back().map_or(self.answered, |it| it.request);
        let next = may.then_some(Call::Write {
            request: last + 1,
            key: 0,
            value: last + 1,
        });
        next.into_iter().collect()
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        let others = setup.chain.iter().copied().filter(|&node| node != me);
        Some(others.collect())
    }

    fn properties() -> Vec<Property<Self>> {
        crate::properties(PROPERTIES)
    }

    fn transport(_: &Message) -> Transport {
        Transport::Stream
    }
}

impl Chain {
    fn apply(&mut self, cx: &mut Cx<'_>, write: Write) {
        self.applied = write.number;
        self.store.insert(write.key, write.value);
        self.pending.push_back(write);
        match cx.setup().after(self.place) {
            Some(next) => {
                cx.send(next, Message::Forward(write));
                if self.pending.len() == 1 {
                    cx.set_timer(Timer::Resend, RESEND);
                }
            }
            None => self.acknowledge(cx, write.number),
        }
    }

    /// Learns that the tail has all writes up to this one.
    fn acknowledge(&mut self, cx: &mut Cx<'_>, number: u32) {
        if number <= self.acknowledged {
            return;
        }
        self.acknowledged = number;
        while let Some(write) = self.pending.front()
            && write.number <= number
        {
            if self.place == 0 {
                self.answered = write.request;
            }
            self.pending.pop_front();
        }
        match self.pending.is_empty() {
            true => cx.cancel_timer(Timer::Resend),
            false => cx.set_timer(Timer::Resend, RESEND),
        }
        if let Some(before) = cx.setup().before(self.place) {
            cx.send(before, Message::Acknowledge(number));
        }
    }
}

impl Program for Chain {
    type Options = Options;

    const ABOUT: &'static str = "Chain replication: a write counts once the tail has it";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: TRUSTING,
            about: "when a connection is lost, what was sent on it is taken for delivered",
        }]
    }

    fn setup(_: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            trusting: bugs.contains(TRUSTING),
            ..Setup::new(members)
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![Scenario {
            name: "start",
            about: "an empty chain of three nodes and a write; --nodes and the fault allowance as you like",
            build: |request| start(request, 1),
        }]
    }
}

fn start(request: &Request<'_, Chain>, writes: u32) -> Result<System<Chain>, String> {
    let chain = crate::members(request.nodes, 3, 2)?;
    let setup = Setup {
        writes,
        trusting: request.has_bug(TRUSTING),
        ..Setup::new(&chain)
    };
    Ok(System::new(
        chain.into_iter().map(|node| (node, setup.clone())),
    ))
}
