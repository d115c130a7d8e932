//! A small correct service: whoever is called asks a partner to write a number down, and is answered when it has.
//!
//! Every second request travels on a connection, the others as datagrams. What is not answered for a while is asked again,
//! and to write the same number twice changes nothing, so nothing is ever lost for good. Everything is on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use scry::{
    Context, NodeId, Program, Property, Request, Scenario, Service, System, Transport, View,
};
use serde::{Deserialize, Serialize};

use crate::spell::{Kind, Spell};

/// How long an answer may take before the question is repeated.
const PATIENCE: Duration = Duration::from_millis(250);
/// How many questions may be open. A call beyond that is counted and dropped: the application makes another.
const OPEN_MAX: usize = 256;
/// How many calls a node may have had in a search.
const SEARCHED_CALLS: u64 = 2;

/// A node.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Register {
    /// The number of the last question.
    asked: u64,
    /// Questions without an answer, with who was asked.
    open: BTreeMap<u64, NodeId>,
    /// How many questions were answered.
    answered: u64,
    /// How many calls found too many questions open.
    turned_away: u64,
    /// The highest number that each partner has answered.
    confirmed: BTreeMap<NodeId, u64>,
    /// The highest number written down for each node.
    written: BTreeMap<NodeId, u64>,
    /// What harms whoever else has this state.
    spell: Spell,
}

/// What nodes say to each other.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Write this down.
    Write(u64),
    /// It is written down.
    Written(u64),
}

/// The timer of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Timer {
    /// Ask again what was not answered.
    Again,
}

/// What the application may ask.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Have the next number written down.
    Ask,
    /// Make the own state harm others.
    Cast(Kind),
}

/// What a node is started with.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setup {
    /// All nodes: each is everybody's neighbor.
    pub(crate) members: Vec<NodeId>,
    /// Whom a node asks, in turn.
    pub(crate) partners: Vec<NodeId>,
}

/// The service has no options of its own.
#[derive(Args, Clone, Debug)]
pub(crate) struct NoOptions {}

type Cx<'a> = Context<'a, Register>;

impl Register {
    fn ask(&mut self, cx: &mut Cx<'_>) {
        let me = cx.me();
        let partners: Vec<NodeId> = cx.setup().partners.clone();
        let partners: Vec<NodeId> = partners.into_iter().filter(|&node| node != me).collect();
        if partners.is_empty() || self.open.len() >= OPEN_MAX {
            self.turned_away += 1;
            return;
        }
        self.asked += 1;
        let number = self.asked;
        // Two in a row go to the same partner, so that it gets both kinds.
        let turn = (number / 2) as usize % partners.len();
        self.open.insert(number, partners[turn]);
        cx.send(partners[turn], Message::Write(number));
    }
}

impl Service for Register {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = Self;

    fn start(cx: &mut Cx<'_>, disk: Option<Self>) -> Self {
        cx.set_timer(Timer::Again, PATIENCE);
        disk.unwrap_or_else(|| Self {
            asked: 0,
            open: BTreeMap::new(),
            answered: 0,
            turned_away: 0,
            confirmed: BTreeMap::new(),
            written: BTreeMap::new(),
            spell: Spell::default(),
        })
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, call: Call) {
        self.spell.handle();
        match call {
            Call::Ask => self.ask(cx),
            Call::Cast(kind) => self.spell = Spell::new(kind, cx.me()),
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        self.spell.handle();
        match message {
            Message::Write(number) => {
                let written = self.written.entry(from).or_default();
                *written = number.max(*written);
                cx.send(from, Message::Written(number));
            }
            Message::Written(number) => {
                if self.open.remove(&number).is_some() {
                    self.answered += 1;
                    let confirmed = self.confirmed.entry(from).or_default();
                    *confirmed = number.max(*confirmed);
                }
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, Timer::Again: Timer) {
        self.spell.handle();
        cx.set_timer(Timer::Again, PATIENCE);
        for (&number, &partner) in &self.open {
            cx.send(partner, Message::Write(number));
        }
    }

    fn disk(&self) -> Self {
        self.clone()
    }

    fn calls(&self, _: NodeId, _: &Setup) -> Vec<Call> {
        match self.asked < SEARCHED_CALLS {
            true => vec![Call::Ask],
            false => Vec::new(),
        }
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        let others = setup.members.iter().copied();
        Some(others.filter(|&node| node != me).collect())
    }

    fn properties() -> Vec<Property<Self>> {
        vec![
            Property::node(ANSWERS, |view: &View<'_, Self>| {
                view.state.answered <= view.state.asked
            }),
            Property::pair(
                CONFIRMED,
                |view: &View<'_, Self>| {
                    view.state.spell.judge();
                    Some((view.state.confirmed.clone(), view.state.written.clone()))
                },
                |(a, (confirmed, _)), (b, (_, written))| {
                    let nothing = 0;
                    confirmed.get(&b).unwrap_or(&nothing) <= written.get(&a).unwrap_or(&nothing)
                },
            ),
        ]
    }

    fn transport(message: &Message) -> Transport {
        let (Message::Write(number) | Message::Written(number)) = message;
        match number % 2 {
            0 => Transport::Stream,
            _ => Transport::Datagram,
        }
    }
}

/// The name of a property of one node.
const ANSWERS: &str = "nobody has more answers than questions";
/// The name of a property of two nodes.
const CONFIRMED: &str = "what is confirmed is written down";

impl Program for Register {
    type Options = NoOptions;

    const ABOUT: &'static str =
        "Numbers that others write down: the service that attacks are tried on";

    fn setup(_: NodeId, members: &[NodeId], _: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            members: members.to_vec(),
            partners: members.to_vec(),
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![Scenario {
            name: "start",
            about: "two nodes that have written nothing",
            build: start,
        }]
    }
}

fn start(request: &Request<'_, Register>) -> Result<System<Register>, String> {
    let count = request.nodes.unwrap_or(2);
    let members: Vec<NodeId> = (1..=count).map(NodeId::new).collect();
    let setup = Setup {
        members: members.clone(),
        partners: members.clone(),
    };
    Ok(System::new(
        members.into_iter().map(|node| (node, setup.clone())),
    ))
}
