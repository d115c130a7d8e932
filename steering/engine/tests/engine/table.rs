//! A service whose handlers are tables, so that services can be generated.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use scry_engine::{Context, Faults, NodeId, Property, Service, Simulation, Stamp, Transport};
use serde::{Deserialize, Serialize};

const STATES: usize = 3;
const MESSAGES: u8 = 3;
const TIMERS: u8 = 2;
const CALLS: u8 = 2;
const INPUTS: usize = (MESSAGES + TIMERS + CALLS) as usize + 1;
/// Where in the table the reaction to a disconnect stands.
const DISCONNECT: usize = INPUTS - 1;

/// A node that does what its table says.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) state: u8,
    /// Survives resets.
    pub(crate) kept: u8,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) struct Message {
    number: u8,
    stream: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    peers: Vec<NodeId>,
    /// For the first start, and for one start after each value on disk.
    starts: Vec<Reaction>,
    /// By input and state.
    reactions: Vec<Reaction>,
    /// By state, whether each call is possible.
    calls: Vec<Vec<bool>>,
}

/// What a handler does.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Reaction {
    Do {
        state: u8,
        kept: Option<u8>,
        effects: Vec<Ask>,
    },
    Choose(Vec<Reaction>),
    Expired(Box<[Reaction; 2]>),
    Draw(Vec<Reaction>),
    Tick(Box<Reaction>),
    Panic,
}

/// One effect, with peers by their place in the setup.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Ask {
    Send(usize, Message),
    Arm(u8),
    Cancel(u8),
    Disconnect(usize),
}

impl Table {
    fn react(&mut self, cx: &mut Context<'_, Self>, input: usize) {
        let reaction = &cx.setup().reactions[input * STATES + usize::from(self.state)];
        self.play(cx, reaction);
    }

    fn play(&mut self, cx: &mut Context<'_, Self>, reaction: &Reaction) {
        match reaction {
            Reaction::Do {
                state,
                kept,
                effects,
            } => {
                self.state = *state;
                self.kept = kept.unwrap_or(self.kept);
                for ask in effects {
                    let peer = |at: usize| cx.setup().peers[at % cx.setup().peers.len()];
                    match *ask {
                        Ask::Send(to, message) => cx.send(peer(to), message),
                        Ask::Arm(timer) => cx.set_timer(timer, Duration::from_secs(1)),
                        Ask::Cancel(timer) => cx.cancel_timer(timer),
                        Ask::Disconnect(from) => cx.disconnect(peer(from)),
                    }
                }
            }
            Reaction::Choose(ways) => {
                let way = cx.choose(ways.len() as u32);
                self.play(cx, &ways[way as usize]);
            }
            Reaction::Expired(ways) => {
                let expired = cx.expired(Stamp::default(), Duration::from_secs(1));
                self.play(cx, &ways[usize::from(expired)]);
            }
            Reaction::Draw(ways) => {
                let drawn = cx.random() % ways.len() as u64;
                self.play(cx, &ways[drawn as usize]);
            }
            Reaction::Tick(then) => {
                cx.tick();
                self.play(cx, then);
            }
            Reaction::Panic => panic!("the table says so"),
        }
    }
}

impl Service for Table {
    type Message = Message;
    type Timer = u8;
    type Call = u8;
    type Setup = Setup;
    type Disk = u8;

    fn start(cx: &mut Context<'_, Self>, disk: Option<u8>) -> Self {
        let mut started = Self {
            state: 0,
            kept: disk.unwrap_or(0),
        };
        let reaction = &cx.setup().starts[disk.map_or(0, |kept| 1 + usize::from(kept))];
        started.play(cx, reaction);
        started
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: Message) {
        self.react(cx, usize::from(message.number));
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: u8) {
        self.react(cx, usize::from(MESSAGES + timer));
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: u8) {
        self.react(cx, usize::from(MESSAGES + TIMERS + call));
    }

    fn on_disconnect(&mut self, cx: &mut Context<'_, Self>, _: NodeId) {
        self.react(cx, DISCONNECT);
    }

    fn disk(&self) -> u8 {
        self.kept
    }

    fn calls(&self, _: NodeId, setup: &Setup) -> Vec<u8> {
        let possible = &setup.calls[usize::from(self.state)];
        (0..CALLS)
            .filter(|&call| possible[usize::from(call)])
            .collect()
    }

    fn transport(message: &Message) -> Transport {
        match message.stream {
            true => Transport::Stream,
            false => Transport::Datagram,
        }
    }
}

/// What a generated service may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tastes {
    pub(crate) nodes_max: u32,
    pub(crate) sends: bool,
    /// Whether some messages travel on connections.
    pub(crate) streams: bool,
    pub(crate) faults: bool,
    pub(crate) panics: bool,
    /// Whether handlers count for ever.
    pub(crate) ticks: bool,
}

pub(crate) const ANYTHING: Tastes = Tastes {
    nodes_max: 3,
    sends: true,
    streams: true,
    faults: true,
    panics: true,
    ticks: true,
};

/// Generates the start states of systems.
pub(crate) fn starts(tastes: Tastes) -> impl Strategy<Value = Simulation<Table>> {
    let nodes = (2..=tastes.nodes_max).prop_flat_map(move |count| {
        // Every node has a table of its own; the id after the last is that of a node that is not there.
        let peers: Vec<NodeId> = (0..=count).map(NodeId::new).collect();
        vec(setup(peers, tastes), count as usize)
    });
    let budget = || 0..=u8::from(tastes.faults);
    let faults = (budget(), budget(), budget(), budget(), budget(), budget()).prop_map(
        |(resets, silent_resets, breaks, losses, duplicates, late_starts)| Faults {
            resets,
            silent_resets,
            breaks,
            losses,
            duplicates,
            late_starts,
        },
    );
    (nodes, faults).prop_map(|(setups, faults)| {
        let ids = (0..).map(NodeId::new);
        Simulation::boot(ids.zip(setups).collect(), faults)
    })
}

fn setup(peers: Vec<NodeId>, tastes: Tastes) -> impl Strategy<Value = Setup> {
    let (others, quiet) = (
        peers.len(),
        Tastes {
            // A panic while the system boots is no event of a search.
            panics: false,
            ..tastes
        },
    );
    (
        reaction(others, quiet),
        vec(reaction(others, tastes), STATES),
        vec(reaction(others, tastes), INPUTS * STATES),
        vec(vec(any::<bool>(), CALLS as usize), STATES),
    )
        .prop_map(move |(first, mut starts, reactions, calls)| {
            starts.insert(0, first);
            Setup {
                peers: peers.clone(),
                starts,
                reactions,
                calls,
            }
        })
}

fn reaction(peers: usize, tastes: Tastes) -> BoxedStrategy<Reaction> {
    let state = || 0..STATES as u8;
    let deed = (
        state(),
        prop::option::weighted(0.3, state()),
        vec(ask(peers, tastes), 0..3),
    )
        .prop_map(|(state, kept, effects)| Reaction::Do {
            state,
            kept,
            effects,
        });
    let panics = u32::from(tastes.panics);
    let leaf = prop_oneof![30 => deed, panics => Just(Reaction::Panic)].boxed();
    let either = prop_oneof![
        8 => leaf.clone(),
        1 => vec(leaf.clone(), 2..4).prop_map(Reaction::Choose),
        u32::from(tastes.ticks) => leaf.clone().prop_map(|then| Reaction::Tick(Box::new(then))),
    ]
    .boxed();
    prop_oneof![
        12 => either.clone(),
        1 => vec(either.clone(), 2..4).prop_map(Reaction::Choose),
        1 => [either.clone(), either.clone()].prop_map(|ways| Reaction::Expired(Box::new(ways))),
        1 => vec(either, 2..4).prop_map(Reaction::Draw),
    ]
    .boxed()
}

fn ask(peers: usize, tastes: Tastes) -> impl Strategy<Value = Ask> {
    let message = (0..MESSAGES, any::<bool>()).prop_map(move |(number, stream)| Message {
        number,
        stream: stream && tastes.streams,
    });
    let sends = u32::from(tastes.sends);
    prop_oneof![
        4 * sends => (0..peers, message).prop_map(|(to, message)| Ask::Send(to, message)),
        2 => (0..TIMERS).prop_map(Ask::Arm),
        1 => (0..TIMERS).prop_map(Ask::Cancel),
        sends => (0..peers).prop_map(Ask::Disconnect),
    ]
}

/// What a generated property looks at, and what it makes of it.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Node(Vec<bool>),
    Pair(Vec<Option<u8>>, Vec<bool>),
    Global(Vec<Option<u8>>, Vec<bool>),
}

/// Generates properties of each shape.
pub(crate) fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let local = 2 * STATES;
    let holds = |count: usize| vec(prop::bool::weighted(0.7), count);
    let projection = move || vec(prop::option::weighted(0.8, 0..3_u8), local);
    let rule = prop_oneof![
        holds(local).prop_map(Rule::Node),
        (projection(), holds(9)).prop_map(|(project, holds)| Rule::Pair(project, holds)),
        (projection(), holds(64)).prop_map(|(project, holds)| Rule::Global(project, holds)),
    ];
    vec(rule, 0..6)
}

impl Rule {
    pub(crate) fn property(&self, name: usize) -> Property<Table> {
        // What a rule can tell apart: the state, and whether some timer is armed.
        fn number(view: &scry_engine::View<'_, Table>) -> usize {
            2 * usize::from(view.state.state) + usize::from(!view.timers.is_empty())
        }
        let name = name.to_string();
        match self.clone() {
            Self::Node(holds) => Property::node(name, move |view| holds[number(view)]),
            Self::Pair(project, holds) => Property::pair(
                name,
                move |view| project[number(view)],
                move |(_, a), (_, b)| holds[usize::from(3 * a + b)],
            ),
            Self::Global(project, holds) => Property::global(
                name,
                move |view| project[number(view)],
                move |all| {
                    let digits = all.iter().map(|(_, value)| 1 + usize::from(**value));
                    holds[digits.fold(0, |sum, digit| 4 * sum + digit) % holds.len()]
                },
            ),
        }
    }
}
