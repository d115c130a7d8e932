//! Paxos as a [`Service`]: what nodes say to each other, what they keep, and who handles what.
//!
//! A node plays one [`Part`]. In the *plain* deployment ([`plain`]) proposers and acceptors are different
//! nodes and agree on one value. In the *replicated* one ([`replica`](crate::replica)) every node has all roles and one
//! value is agreed on for each index of a log. Both are built from the same vote and the same round
//! ([`roles`](crate::roles)), speak by datagrams, and keep what is chosen in the same place, so that one property
//! speaks for both.

use std::collections::BTreeMap;

use scry::{Context, NodeId, Property, Service};
use serde::{Deserialize, Serialize};

use crate::plain::{self, Proposer};
use crate::properties;
use crate::replica::Replica;
use crate::roles::{Acceptor, Round, Vote};

/// Names an instance of the protocol: one value is chosen for each. The plain deployment knows only index 0.
pub type Index = u32;

/// What is agreed on.
pub type Value = u32;

/// A node of Paxos.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Paxos {
    /// What this node knows to be chosen.
    pub chosen: BTreeMap<Index, Value>,
    /// The part it plays, and how far it has come.
    pub role: Role,
}

/// How far a node has come in its part.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum Role {
    /// Leads its only round.
    Proposer(Proposer),
    /// Was reset while it led its only round: led again, that round could get a second value.
    Retired,
    /// Votes.
    Acceptor(Acceptor),
    /// Does everything.
    Replica(Replica),
}

/// What nodes say to each other.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// A leader asks for a promise.
    Prepare {
        /// The instance.
        index: Index,
        /// The round it wants to lead.
        round: Round,
        /// What it would like to propose.
        value: Value,
    },
    /// An acceptor promises to take no part in lower rounds.
    Promise {
        /// The instance.
        index: Index,
        /// The round it promises to.
        round: Round,
        /// In which round it accepted `value`; `None` if it has accepted nothing and sends the leader's value back.
        accepted: Option<Round>,
        /// The value.
        value: Value,
    },
    /// A leader asks to accept a value.
    Accept {
        /// The instance.
        index: Index,
        /// The round it leads.
        round: Round,
        /// What it proposes.
        value: Value,
    },
    /// An acceptor tells a learner that it has accepted.
    Learn {
        /// The instance.
        index: Index,
        /// The round.
        round: Round,
        /// What it has accepted.
        value: Value,
    },
    /// A plain acceptor tells its proposer, who knows the value, that it has accepted.
    Accepted {
        /// The instance.
        index: Index,
        /// The round.
        round: Round,
    },
}

/// The timers of a replica.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// A round of this node should have come to an end by now.
    Retry {
        /// The instance.
        index: Index,
    },
}

/// What an application asks of a replica.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To get a value chosen.
    Propose {
        /// The instance.
        index: Index,
        /// What it would like. What is chosen may be another's.
        value: Value,
    },
}

/// Static settings of a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The part the node plays.
    pub part: Part,
    /// Who votes: of replicas, all of them.
    pub acceptors: Vec<NodeId>,
    /// What this node proposes if nobody says otherwise.
    pub value: Value,
    /// The highest round number a replica leads with: beyond it, it leaves an index to others.
    #[serde(default = "unlimited")]
    pub rounds: u32,
    /// How many instances replicas have, from index 0 on.
    #[serde(default = "unlimited")]
    pub indices: u32,
    /// The known bugs that are on.
    #[serde(default)]
    pub bugs: Bugs,
}

/// The part a node plays.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// Leads one round of the plain deployment as soon as it starts.
    Proposer,
    /// Votes in the plain deployment.
    Acceptor,
    /// Has all roles.
    Replica,
}

/// The known bugs, all off by default.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bugs {
    /// A leader proposes the value of the promise it got last, not that of the highest round (CrystalBall §5.4.2).
    pub last_promise: bool,
    /// An acceptor does not write its vote to disk (CrystalBall §5.4.2).
    pub volatile_promise: bool,
}

/// What survives a reset.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// What is known to be chosen: the application has acted on it, and a `Learn` is sent only once.
    pub chosen: BTreeMap<Index, Value>,
    /// The votes, as far as they were written.
    pub votes: BTreeMap<Index, Vote>,
    /// The numbers of the rounds a replica has led last.
    pub led: BTreeMap<Index, u32>,
}

impl Message {
    /// Returns the instance it is about.
    pub fn index(&self) -> Index {
        match *self {
            Self::Prepare { index, .. }
            | Self::Promise { index, .. }
            | Self::Accept { index, .. }
            | Self::Learn { index, .. }
            | Self::Accepted { index, .. } => index,
        }
    }

    /// Returns the round it belongs to.
    pub fn round(&self) -> Round {
        match *self {
            Self::Prepare { round, .. }
            | Self::Promise { round, .. }
            | Self::Accept { round, .. }
            | Self::Learn { round, .. }
            | Self::Accepted { round, .. } => round,
        }
    }
}

/// A bound is for a search that shall come to an end; a live node has none but the size of its numbers.
fn unlimited() -> u32 {
    u32::MAX
}

impl Setup {
    /// Returns how many acceptors are a majority.
    pub fn majority(&self) -> usize {
        self.acceptors.len() / 2 + 1
    }

    /// Sends the same message to every acceptor.
    pub(crate) fn tell_acceptors(&self, cx: &mut Context<'_, Paxos>, message: &Message) {
        for &acceptor in &self.acceptors {
            cx.send(acceptor, message.clone());
        }
    }
}

impl Service for Paxos {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = Disk;

    fn start(cx: &mut Context<'_, Self>, disk: Option<Disk>) -> Self {
        let again = disk.is_some();
        let disk = disk.unwrap_or_default();
        let role = match cx.setup().part {
            Part::Proposer if again => Role::Retired,
            Part::Proposer => Role::Proposer(Proposer::start(cx)),
            Part::Acceptor => Role::Acceptor(plain::acceptor(&disk)),
            Part::Replica => Role::Replica(Replica::start(&disk)),
        };
        let chosen = disk.chosen;
        Self { chosen, role }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let chosen = &mut self.chosen;
        match &mut self.role {
            Role::Proposer(proposer) => proposer.on_message(cx, chosen, from, message),
            Role::Acceptor(acceptor) => plain::vote(acceptor, cx, from, message),
            Role::Replica(replica) => replica.on_message(cx, chosen, from, message),
            Role::Retired => {}
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, Timer::Retry { index }: Timer) {
        if let Role::Replica(replica) = &mut self.role
            && !self.chosen.contains_key(&index)
        {
            replica.retry(cx, index);
        }
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, Call::Propose { index, value }: Call) {
        if let Role::Replica(replica) = &mut self.role
            && !self.chosen.contains_key(&index)
        {
            replica.propose(cx, index, value);
        }
    }

    fn properties() -> Vec<Property<Self>> {
        properties::all()
    }

    fn disk(&self) -> Disk {
        let mut disk = Disk {
            chosen: self.chosen.clone(),
            ..Disk::default()
        };
        match &self.role {
            Role::Acceptor(acceptor) => {
                disk.votes.insert(plain::INDEX, acceptor.written);
            }
            Role::Replica(replica) => replica.write(&mut disk),
            Role::Proposer(_) | Role::Retired => {}
        }
        disk
    }

    fn calls(&self, _: NodeId, setup: &Setup) -> Vec<Call> {
        match &self.role {
            Role::Replica(replica) => replica.calls(setup, &self.chosen),
            Role::Proposer(_) | Role::Acceptor(_) | Role::Retired => Vec::new(),
        }
    }
}
