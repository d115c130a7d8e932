//! Two-phase commit: a coordinator asks all participants whether they can, and tells them what came of it.
//!
//! One transaction follows the other. A participant that has voted yes waits for the decision, however long that takes;
//! one that votes no need not wait. Messages are datagrams, sent again until they are answered. Everything is on disk.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use scry::{Bug, Context, NodeId, Program, Property, Request, Scenario, Service, System};
use serde::{Deserialize, Serialize};

use crate::Options;

/// What must hold, in the words of a property file.
pub const PROPERTIES: &str = include_str!("../properties/commit.toml");
/// The name of the bug on the command line.
pub const IMPATIENT: &str = "impatient";

/// How long an answer may take before the question is sent again.
const RETRY: Duration = Duration::from_millis(150);
/// How long an impatient participant waits for a decision.
const PATIENCE: Duration = Duration::from_millis(100);
/// How many transactions may wait for their turn.
const WAITING_MAX: usize = 16;

/// A coordinator or a participant.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Whether it is the coordinator.
    pub coordinates: bool,
    /// The last transaction it has begun, or voted on.
    pub begun: u32,
    /// The last transaction of which it knows how it ended.
    pub decided: u32,
    /// Whether that one was committed.
    pub committed: bool,
    /// The coordinator: which request the last transaction is for.
    pub current: Asked,
    /// The coordinator: the requests that wait for their turn.
    pub waiting: VecDeque<Asked>,
    /// The coordinator: who has voted yes, before the decision; who knows the decision, after it.
    pub heard: BTreeSet<NodeId>,
    /// The coordinator: the last request that was decided on.
    pub answered: u32,
}

/// A request of the application.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// What the application calls it: a number above all before.
    pub request: u32,
    /// What it takes of every participant.
    pub cost: u32,
}

/// What nodes say to each other; all of it is about one transaction.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// Can you?
    Prepare {
        /// The transaction.
        number: u32,
        /// What it takes.
        cost: u32,
    },
    /// I can, or cannot.
    Vote {
        /// The transaction.
        number: u32,
        /// Whether.
        yes: bool,
    },
    /// It ended like this.
    Decision {
        /// The transaction.
        number: u32,
        /// Whether it was committed.
        committed: bool,
    },
    /// I know how it ended.
    Noted {
        /// The transaction.
        number: u32,
    },
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// The coordinator: somebody has not answered.
    Retry,
    /// An impatient participant: the decision should have come by now.
    Undecided,
}

/// What the application may ask of the coordinator.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To get a transaction decided.
    Transfer {
        /// What the application calls it: a number above all before.
        request: u32,
        /// What it takes of every participant.
        cost: u32,
    },
}

/// What a node is started with.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The coordinator.
    pub coordinator: NodeId,
    /// Everybody else.
    pub participants: Vec<NodeId>,
    /// The most that this participant can give.
    pub limit: u32,
    /// The costs that a search tries.
    pub costs: Vec<u32>,
    /// How many transactions a search may add.
    pub transactions: u32,
    /// The bug: a participant that voted yes gives up waiting and takes the transaction for aborted.
    pub impatient: bool,
}

type Cx<'a> = Context<'a, Commit>;

impl Setup {
    /// Returns the settings of a node; the first member is the coordinator. Participants can give 8, 9, 10 and so on.
    pub fn new(me: NodeId, members: &[NodeId]) -> Self {
        let place = members.iter().position(|&node| node == me).unwrap_or(0);
        Self {
            coordinator: members.first().copied().unwrap_or(me),
            participants: members.iter().skip(1).copied().collect(),
            limit: 7 + u32::try_from(place).unwrap_or(u32::MAX - 7),
            costs: vec![1],
            transactions: u32::MAX,
            impatient: false,
        }
    }
}

impl Service for Commit {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = Self;

    fn start(cx: &mut Cx<'_>, disk: Option<Self>) -> Self {
        let coordinates = cx.setup().coordinator == cx.me();
        let node = disk.unwrap_or(Self {
            coordinates,
            begun: 0,
            decided: 0,
            committed: false,
            current: Asked::default(),
            waiting: VecDeque::new(),
            heard: BTreeSet::new(),
            answered: 0,
        });
        if coordinates && !node.is_idle(cx.setup()) {
            cx.set_timer(Timer::Retry, RETRY);
        }
        if cx.setup().impatient && !coordinates && node.begun > node.decided {
            cx.set_timer(Timer::Undecided, PATIENCE);
        }
        node
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, Call::Transfer { request, cost }: Call) {
        if self.coordinates && self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Asked { request, cost });
            self.begin_next(cx);
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        match message {
            Message::Prepare { number, cost } => self.vote(cx, from, number, cost),
            Message::Vote { number, yes } => self.count_vote(cx, from, number, yes),
            Message::Decision { number, committed } => {
                if number > self.decided {
                    self.begun = number;
                    self.decided = number;
                    self.committed = committed;
                    cx.cancel_timer(Timer::Undecided);
                }
                cx.send(from, Message::Noted { number });
            }
            Message::Noted { number } => {
                if number == self.decided && number == self.begun {
                    self.heard.insert(from);
                    self.begin_next(cx);
                }
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Retry if !self.is_idle(cx.setup()) => self.ask(cx),
            Timer::Retry => {}
            // Wrong: it has voted yes, and others may have committed.
            Timer::Undecided => {
                self.decided = self.begun;
                self.committed = false;
            }
        }
    }

    fn disk(&self) -> Self {
        self.clone()
    }

    fn calls(&self, _: NodeId, setup: &Setup) -> Vec<Call> {
        let begun = self
            .begun
            .saturating_add(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX));
        if !self.coordinates || !self.waiting.is_empty() || begun >= setup.transactions {
            return Vec::new();
        }
        let request = self.current.request + 1;
        let costs = setup.costs.iter();
        costs
            .map(|&cost| Call::Transfer { request, cost })
            .collect()
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        let all = setup
            .participants
            .iter()
            .copied()
            .chain([setup.coordinator]);
        Some(all.filter(|&node| node != me).collect())
    }

    fn properties() -> Vec<Property<Self>> {
        crate::properties(PROPERTIES)
    }
}

/// The coordinator.
impl Commit {
    /// Tells whether the last transaction is over, and everybody knows.
    fn is_idle(&self, setup: &Setup) -> bool {
        self.begun == 0
            || self.begun == self.decided && self.heard.len() == setup.participants.len()
    }

    fn begin_next(&mut self, cx: &mut Cx<'_>) {
        if !self.is_idle(cx.setup()) {
            return;
        }
        cx.cancel_timer(Timer::Retry);
        let Some(next) = self.waiting.pop_front() else {
            return;
        };
        self.begun += 1;
        self.current = next;
        self.heard.clear();
        self.ask(cx);
    }

    /// Asks everybody who has not answered: for a vote, or to note the decision.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        let number = self.begun;
        let message = match number == self.decided {
            true => Message::Decision {
                number,
                committed: self.committed,
            },
            false => Message::Prepare {
                number,
                cost: self.current.cost,
            },
        };
        for &participant in &cx.setup().participants {
            if !self.heard.contains(&participant) {
                cx.send(participant, message.clone());
            }
        }
        cx.set_timer(Timer::Retry, RETRY);
    }

    fn count_vote(&mut self, cx: &mut Cx<'_>, from: NodeId, number: u32, yes: bool) {
        if number != self.begun || number == self.decided {
            return;
        }
        self.heard.insert(from);
        let all = self.heard.len() == cx.setup().participants.len();
        if all || !yes {
            self.decided = number;
            self.committed = yes;
            self.answered = self.current.request;
            self.heard.clear();
            self.ask(cx);
        }
    }
}

/// A participant.
impl Commit {
    fn vote(&mut self, cx: &mut Cx<'_>, from: NodeId, number: u32, cost: u32) {
        if number > self.begun {
            self.begun = number;
            if cost > cx.setup().limit {
                self.decided = number;
                self.committed = false;
            } else if cx.setup().impatient {
                cx.set_timer(Timer::Undecided, PATIENCE);
            }
        }
        if number != self.begun {
            return;
        }
        // Who asks about a transaction that is over has missed this node's no, or asked before it was over.
        if number > self.decided {
            cx.send(from, Message::Vote { number, yes: true });
        } else if !self.committed {
            cx.send(from, Message::Vote { number, yes: false });
        }
    }
}

impl Program for Commit {
    type Options = Options;

    const ABOUT: &'static str =
        "Two-phase commit: all participants commit a transaction, or none does";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: IMPATIENT,
            about: "a participant that voted yes gives up waiting and takes the transaction for aborted",
        }]
    }

    fn setup(me: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            impatient: bugs.contains(IMPATIENT),
            ..Setup::new(me, members)
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![Scenario {
            name: "start",
            about: "a coordinator, two participants and a transaction that one or none can give",
            build: start,
        }]
    }
}

fn start(request: &Request<'_, Commit>) -> Result<System<Commit>, String> {
    let members = crate::members(request.nodes, 3, 2)?;
    let setup = |node: NodeId| Setup {
        costs: vec![1, 9],
        transactions: 1,
        impatient: request.has_bug(IMPATIENT),
        ..Setup::new(node, &members)
    };
    Ok(System::new(members.iter().map(|&node| (node, setup(node)))))
}
