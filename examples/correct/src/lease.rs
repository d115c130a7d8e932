//! A lock by leases: a server grants it to one client at a time, for so long and no longer.
//!
//! A client counts its time from the moment it *asked*, the server from the moment it *granted*, and the server waits a
//! margin longer than the client, so that the lock is free before it is granted again even if a clock is slow or a timer
//! late. A client that is not done by then gives up. A server that was restarted does not know what it has granted, and
//! grants nothing until that must be over. Messages are datagrams; a client that gets no answer asks again under a new
//! number.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use scry::{Bug, Context, NodeId, Program, Property, Request, Scenario, Service, Stamp, System};
use serde::{Deserialize, Serialize};

use crate::Options;

/// What must hold, in the words of a property file.
pub const PROPERTIES: &str = include_str!("../properties/lease.toml");
/// The name of the bug on the command line.
pub const OVERSTAY: &str = "overstay";

/// How long a client may hold the lock, from the moment it asked.
const LEASE: Duration = Duration::from_millis(1000);
/// How long the server waits, from the moment it granted.
const LEASE_AND_MARGIN: Duration = Duration::from_millis(1500);
/// How long it waits for an answer before it asks again.
const RETRY: Duration = Duration::from_millis(150);
/// How many requests of its application a client keeps waiting.
const WAITING_MAX: usize = 16;

/// A server or a client of the lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// A client: whether it holds the lock.
    pub holds: bool,
    /// A client: the number under which it asked for the lock it wants or holds.
    pub asked: Option<u64>,
    /// A client: the work of its application, the one it is about first.
    pub waiting: VecDeque<Job>,
    /// A client: the last request for which it got the lock.
    pub answered: u32,
    /// The server: to whom the lock was granted last.
    pub granted: Option<Grant>,
    /// The server: when it was restarted, if what it granted before may still hold.
    pub restarted: Option<Stamp>,
}

/// What an application needs the lock for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What the application calls it.
    pub request: u32,
    /// How long it takes.
    pub ms: u32,
}

/// The server's word that a client may hold the lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// To whom.
    pub to: NodeId,
    /// Under which number it asked.
    pub number: u64,
    /// When.
    pub at: Stamp,
}

/// What nodes say to each other. `u64` is the number under which a client asked.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// May I have the lock?
    Ask(u64),
    /// It is yours.
    Granted(u64),
    /// I do not hold it, and shall not.
    Release(u64),
}

/// The timers of a client.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// Nobody has answered.
    Retry,
    /// The work is done.
    Done,
    /// What it asked for is no longer worth anything.
    Expired,
}

/// What the application may ask of a client.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To get the lock and do its work.
    Work {
        /// What the application calls it: a number above all before.
        request: u32,
        /// How long that takes, in milliseconds. What takes longer than a lease lasts is given up.
        ms: u32,
    },
}

/// What a node is started with.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The server.
    pub server: NodeId,
    /// Everybody else.
    pub clients: Vec<NodeId>,
    /// Up to which request a search may go.
    pub requests: u32,
    /// The bug: a client that is not done in time keeps the lock.
    pub overstay: bool,
}

type Cx<'a> = Context<'a, Lease>;

impl Setup {
    /// Returns the settings of all nodes; the first member is the server.
    pub fn new(members: &[NodeId]) -> Self {
        Self {
            server: members.first().copied().unwrap_or(NodeId::new(0)),
            clients: members.iter().skip(1).copied().collect(),
            requests: u32::MAX,
            overstay: false,
        }
    }
}

impl Service for Lease {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    // That there was an incarnation before says all.
    type Disk = ();

    fn start(cx: &mut Cx<'_>, disk: Option<()>) -> Self {
        let is_server = cx.setup().server == cx.me();
        let waits = is_server && disk.is_some();
        Self {
            holds: false,
            asked: None,
            waiting: VecDeque::new(),
            answered: 0,
            granted: None,
            restarted: waits.then(|| cx.now()),
        }
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, Call::Work { request, ms }: Call) {
        if cx.setup().server != cx.me() && self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Job { request, ms });
            if self.asked.is_none() {
                self.ask(cx);
            }
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        match message {
            Message::Ask(number) => self.consider(cx, from, number),
            Message::Granted(number) if self.asked == Some(number) => {
                if let (false, Some(job)) = (self.holds, self.waiting.front()) {
                    self.holds = true;
                    self.answered = job.request;
                    cx.cancel_timer(Timer::Retry);
                    cx.set_timer(Timer::Done, Duration::from_millis(job.ms.into()));
                }
            }
            Message::Granted(number) => cx.send(from, Message::Release(number)),
            Message::Release(number) => {
                let is_it = |grant: &Grant| grant.to == from && grant.number == number;
                if self.granted.as_ref().is_some_and(is_it) {
                    self.granted = None;
                }
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Retry => self.ask(cx),
            // Wrong: the server no longer counts on it.
            Timer::Expired if self.holds && cx.setup().overstay => {}
            Timer::Done | Timer::Expired => {
                if self.holds {
                    self.waiting.pop_front();
                }
                self.let_go(cx);
            }
        }
    }

    fn disk(&self) {}

    fn calls(&self, me: NodeId, setup: &Setup) -> Vec<Call> {
        let request = self.answered + 1;
        let may = me != setup.server && self.waiting.is_empty() && request <= setup.requests;
        let work = Call::Work { request, ms: 2000 };
        may.then_some(work).into_iter().collect()
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        let all = setup.clients.iter().copied().chain([setup.server]);
        Some(all.filter(|&node| node != me).collect())
    }

    fn properties() -> Vec<Property<Self>> {
        crate::properties(PROPERTIES)
    }
}

impl Lease {
    /// A client asks, under a new number: an answer to an older question no longer counts.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        let number = cx.tick();
        self.asked = Some(number);
        let server = cx.setup().server;
        cx.send(server, Message::Ask(number));
        cx.set_timer(Timer::Retry, RETRY);
        cx.set_timer(Timer::Expired, LEASE);
    }

    /// A client no longer holds the lock, if it did, and goes on with what waits.
    fn let_go(&mut self, cx: &mut Cx<'_>) {
        let number = self.asked.take();
        self.holds = false;
        cx.cancel_timer(Timer::Retry);
        cx.cancel_timer(Timer::Done);
        cx.cancel_timer(Timer::Expired);
        if let Some(number) = number {
            let server = cx.setup().server;
            cx.send(server, Message::Release(number));
        }
        if !self.waiting.is_empty() {
            self.ask(cx);
        }
    }

    /// The server is asked for the lock. Who is not answered asks again.
    fn consider(&mut self, cx: &mut Cx<'_>, from: NodeId, number: u64) {
        if let Some(at) = self.restarted {
            if !cx.expired(at, LEASE_AND_MARGIN) {
                return;
            }
            self.restarted = None;
        }
        let free = match self.granted {
            None => true,
            Some(grant) if grant.to == from => number >= grant.number,
            Some(grant) => cx.expired(grant.at, LEASE_AND_MARGIN),
        };
        if free {
            let at = cx.now();
            self.granted = Some(Grant {
                to: from,
                number,
                at,
            });
            cx.send(from, Message::Granted(number));
        }
    }
}

impl Program for Lease {
    type Options = Options;

    const ABOUT: &'static str = "A lock by leases: one client holds it at a time";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: OVERSTAY,
            about: "a client that is not done in time keeps the lock",
        }]
    }

    fn setup(_: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            overstay: bugs.contains(OVERSTAY),
            ..Setup::new(members)
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![Scenario {
            name: "start",
            about: "a server and two clients that need the lock once each (limit it: --depth 12)",
            build: start,
        }]
    }
}

fn start(request: &Request<'_, Lease>) -> Result<System<Lease>, String> {
    let members = crate::members(request.nodes, 3, 2)?;
    let setup = Setup {
        requests: 1,
        overstay: request.has_bug(OVERSTAY),
        ..Setup::new(&members)
    };
    Ok(System::new(
        members.into_iter().map(|node| (node, setup.clone())),
    ))
}
