//! Paxos as a [`Service`]: what nodes say to each other, what they keep, and who handles what.
//!
//! A node plays one [`Part`]. In the *plain* deployment ([`plain`](crate::plain)) proposers and acceptors are different
//! nodes and agree on one value. Both are built from the same vote and the same round ([`roles`](crate::roles)), speak
//! by datagrams, and keep what is chosen in the same place, so that one property speaks for both.

use std::collections::BTreeMap;

use scry::{Context, NodeId, Service};
use serde::{Deserialize, Serialize};

use crate::plain::{self, Proposer};
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
    /// A plain acceptor tells its proposer that it has accepted.
    Accepted {
        /// The instance.
        index: Index,
        /// The round.
        round: Round,
    },
}

/// Static settings of a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The part the node plays.
    pub part: Part,
    /// Who votes.
    pub acceptors: Vec<NodeId>,
    /// What this node proposes of its own accord.
    pub value: Value,
    /// The known bugs that are on.
    pub bugs: Bugs,
}

/// The part a node plays.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// Leads one round of the plain deployment as soon as it starts.
    Proposer,
    /// Votes in the plain deployment.
    Acceptor,
}

/// The known bugs, all off by default.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Bugs {
    /// A leader proposes the value of the promise it got last, not that of the highest round (CrystalBall §5.4.2).
    pub last_promise: bool,
    /// An acceptor does not write its vote to disk (CrystalBall §5.4.2).
    pub volatile_promise: bool,
}

/// What survives a reset.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// What is known to be chosen: an application that has acted on it must not see it undone.
    pub chosen: BTreeMap<Index, Value>,
    /// The votes, as far as they were written.
    pub votes: BTreeMap<Index, Vote>,
}

/// No timer and no call exists in the plain deployment.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Never {}

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
    type Timer = Never;
    type Call = Never;
    type Setup = Setup;
    type Disk = Disk;

    fn start(cx: &mut Context<'_, Self>, disk: Option<Disk>) -> Self {
        let again = disk.is_some();
        let Disk { chosen, votes } = disk.unwrap_or_default();
        let role = match cx.setup().part {
            Part::Proposer if again => Role::Retired,
            Part::Proposer => Role::Proposer(Proposer::start(cx)),
            Part::Acceptor => Role::Acceptor(Acceptor::restored(
                votes.get(&plain::INDEX).copied().unwrap_or_default(),
            )),
        };
        Self { chosen, role }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match &mut self.role {
            Role::Proposer(proposer) => proposer.on_message(cx, &mut self.chosen, from, message),
            Role::Acceptor(acceptor) => plain::vote(acceptor, cx, from, message),
            Role::Retired => {}
        }
    }

    fn on_timer(&mut self, _: &mut Context<'_, Self>, timer: Never) {
        match timer {}
    }

    fn on_call(&mut self, _: &mut Context<'_, Self>, call: Never) {
        match call {}
    }

    fn disk(&self) -> Disk {
        let votes = match &self.role {
            Role::Acceptor(acceptor) => BTreeMap::from([(plain::INDEX, acceptor.written)]),
            Role::Proposer(_) | Role::Retired => BTreeMap::new(),
        };
        Disk {
            chosen: self.chosen.clone(),
            votes,
        }
    }
}
