//! Primary and backup with fail-over: a view server says who is primary and who is backup, view after view.
//!
//! Servers tell the view server that they live. It declares a new view when the primary or the backup falls silent or a
//! backup is missing, but never before the primary of the present view has said that its backup has everything: so whoever
//! is promoted has all that was ever acknowledged. A primary acknowledges a write when its backup has it, and alone only in a
//! view without one. A backup listens to the primary of its own view and to none of an older one. What servers store, and
//! what the view server has declared, is on disk.
//!
//! That servers live is told by datagrams, everything else on connections.

mod client;
mod server;
mod views;

use std::collections::BTreeSet;

use scry::{
    Bug, Context, NodeId, Program, Property, Request, Scenario, Service, System, Transport,
};
use serde::{Deserialize, Serialize};

use crate::Options;
use client::Client;
use server::Server;
use views::Views;

/// What must hold, in the words of a property file.
pub const PROPERTIES: &str = include_str!("../properties/failover.toml");
/// The name of the bug on the command line.
pub const ALONE: &str = "alone";

/// A view server, a server or a client.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Failover {
    /// Whether it is the view server.
    pub decides: bool,
    /// The newest view it knows; 0 for none.
    pub view: u32,
    /// Who is primary in it.
    pub primary: Option<NodeId>,
    /// Who is backup in it, if anybody.
    pub backup: Option<NodeId>,
    /// A server: the last request of the client that it has stored.
    pub stored: u32,
    /// A server: what is stored.
    pub value: u32,
    /// A server: the last request that it has acknowledged as primary.
    pub acknowledged: u32,
    /// A server: the last view in which it took over what the primary has.
    pub synced: u32,
    /// The client: the last request it was told is stored.
    pub answered: u32,
    /// What only its part has.
    pub part: Part,
}

/// The part a node plays, and what it needs for it.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// Declares views.
    Views(Views),
    /// Stores what is written.
    Server(Server),
    /// Writes.
    Client(Client),
}

/// What nodes say to each other.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// A server lives, or the client wants to know the view.
    Ping {
        /// The view it knows.
        view: u32,
        /// Whether it is primary in that view and its backup, if there is one, has everything.
        ready: bool,
    },
    /// The view server's answer.
    View {
        /// The number of the view.
        view: u32,
        /// The primary.
        primary: Option<NodeId>,
        /// The backup.
        backup: Option<NodeId>,
    },
    /// The client wants something stored.
    Write {
        /// The request.
        request: u32,
        /// What.
        value: u32,
    },
    /// A primary tells the client that everything up to a request is stored.
    Written {
        /// The request.
        request: u32,
    },
    /// A primary tells its backup what is stored.
    Update {
        /// The primary's view.
        view: u32,
        /// The last request.
        stored: u32,
        /// The value.
        value: u32,
    },
    /// A backup has stored it.
    Stored {
        /// The view.
        view: u32,
        /// The last request.
        stored: u32,
    },
}

/// The timers of all parts.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// The view server: time to see who was silent.
    Tick,
    /// A server: time to say that it lives.
    Ping,
    /// A primary: its backup has not answered.
    Confirm,
    /// A primary with the bug: the client has waited long enough.
    Alone,
    /// The client: nobody has answered.
    Retry,
}

/// What the application may ask of the client.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To get something stored.
    Write {
        /// What the application calls it: a number above all before.
        request: u32,
        /// What.
        value: u32,
    },
}

/// What a node is started with.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The view server.
    pub views: NodeId,
    /// The servers.
    pub servers: Vec<NodeId>,
    /// The client.
    pub client: NodeId,
    /// Up to which request a search may go.
    pub requests: u32,
    /// The bug: a primary whose backup does not answer in time acknowledges alone.
    pub alone: bool,
}

type Cx<'a> = Context<'a, Failover>;

impl Setup {
    /// Returns the settings of all nodes: the first member is the view server, the last one the client.
    pub fn new(members: &[NodeId]) -> Self {
        let none = NodeId::new(0);
        let servers = members.get(1..members.len().saturating_sub(1));
        Self {
            views: members.first().copied().unwrap_or(none),
            servers: servers.unwrap_or_default().to_vec(),
            client: members.last().copied().unwrap_or(none),
            requests: u32::MAX,
            alone: false,
        }
    }
}

impl Service for Failover {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = Self;

    fn start(cx: &mut Cx<'_>, disk: Option<Self>) -> Self {
        let setup = cx.setup();
        let decides = setup.views == cx.me();
        let mut node = disk.unwrap_or_else(|| Self {
            decides,
            view: 0,
            primary: None,
            backup: None,
            stored: 0,
            value: 0,
            acknowledged: 0,
            synced: 0,
            answered: 0,
            part: if decides {
                Part::Views(Views::default())
            } else if setup.client == cx.me() {
                Part::Client(Client::default())
            } else {
                Part::Server(Server::default())
            },
        });
        match node.part {
            Part::Views(_) => node.start_views(cx),
            Part::Server(_) => node.start_server(cx),
            Part::Client(_) => node.start_client(cx),
        }
        node
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, Call::Write { request, value }: Call) {
        self.want(cx, request, value);
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        match (&self.part, message) {
            (Part::Views(_), Message::Ping { view, ready }) => {
                self.hear_ping(cx, from, view, ready)
            }
            (
                Part::Server(_),
                Message::View {
                    view,
                    primary,
                    backup,
                },
            ) => self.enter_view(cx, view, primary, backup),
            (Part::Server(_), Message::Write { request, value }) => {
                self.write(cx, from, request, value);
            }
            (
                Part::Server(_),
                Message::Update {
                    view,
                    stored,
                    value,
                },
            ) => self.update(cx, from, view, stored, value),
            (Part::Server(_), Message::Stored { view, stored }) => {
                self.confirmed(cx, from, view, stored);
            }
            (
                Part::Client(_),
                Message::View {
                    view,
                    primary,
                    backup,
                },
            ) => self.learn_view(cx, view, primary, backup),
            (Part::Client(_), Message::Written { request }) => self.written(cx, request),
            // Said to one who does not play that part.
            _ => {}
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Tick => self.tick(cx),
            Timer::Ping => self.ping(cx),
            Timer::Confirm => self.replicate(cx),
            Timer::Alone => self.lose_patience(cx),
            Timer::Retry => self.retry(cx),
        }
    }

    fn disk(&self) -> Self {
        self.clone()
    }

    fn calls(&self, _: NodeId, setup: &Setup) -> Vec<Call> {
        let Part::Client(client) = &self.part else {
            return Vec::new();
        };
        let request = self.answered + 1;
        let may = client.waiting.is_empty() && request <= setup.requests;
        let write = Call::Write {
            request,
            value: request,
        };
        may.then_some(write).into_iter().collect()
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        let all = setup.servers.iter().copied();
        let all = all.chain([setup.views, setup.client]);
        Some(all.filter(|&node| node != me).collect())
    }

    fn properties() -> Vec<Property<Self>> {
        crate::properties(PROPERTIES)
    }

    fn transport(message: &Message) -> Transport {
        match message {
            Message::Ping { .. } | Message::View { .. } => Transport::Datagram,
            _ => Transport::Stream,
        }
    }
}

impl Program for Failover {
    type Options = Options;

    const ABOUT: &'static str = "Primary and backup with fail-over: what is acknowledged is kept";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: ALONE,
            about: "a primary whose backup does not answer in time acknowledges alone",
        }]
    }

    fn setup(_: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            alone: bugs.contains(ALONE),
            ..Setup::new(members)
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![
            Scenario {
                name: "paired",
                about: "a view server, a primary with its backup, and a client (limit it: --depth 8)",
                build: paired,
            },
            Scenario {
                name: "start",
                about: "the same nodes, just started (limit it: --depth 8)",
                build: start,
            },
        ]
    }
}

fn start(request: &Request<'_, Failover>) -> Result<System<Failover>, String> {
    let members = crate::members(request.nodes, 4, 4)?;
    let setup = Setup {
        requests: 1,
        alone: request.has_bug(ALONE),
        ..Setup::new(&members)
    };
    Ok(System::new(
        members.into_iter().map(|node| (node, setup.clone())),
    ))
}

fn paired(request: &Request<'_, Failover>) -> Result<System<Failover>, String> {
    use scry::Act;
    let system = start(request)?;
    let servers = crate::members(request.nodes, 4, 4)?;
    let pings = || {
        let servers = servers[1..servers.len() - 1].iter();
        servers.map(|&server| Act::Timer(server, Timer::Ping))
    };
    // The first round makes a primary, the second a backup; then it gets what there is, and the third says so.
    let mut script: Vec<Act<Failover>> = Vec::new();
    for _ in 0..3 {
        script.extend(pings());
        script.push(Act::Settle);
    }
    Ok(system.script(script))
}
