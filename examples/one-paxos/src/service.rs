//! A node of 1Paxos: it may lead, accept and learn, and has a node of Paxos below it.
//!
//! What a new leader must know of the values that may be chosen, it hears from the acceptor: a promise names all that was accepted, and
//! an acceptor that has promised takes nothing more from leaders of earlier terms. Only a leader that has such a promise, and so knows
//! all its acceptor may have accepted, replaces it: it proposes nothing more, hands what it knows over to another node, and has that
//! node made acceptor by the Paxos below as soon as it has answered. The next leader will find everything there.
//!
//! There are no timers here: whoever wants a value chosen asks again, and what was lost is sent again then.

use std::collections::BTreeMap;
use std::mem;

use paxos::{Index, Paxos, Value};
use scry::{Context, NodeId, Property, Service};
use serde::{Deserialize, Serialize};

use crate::properties;
use crate::roles::{Change, Roles, Term};
use crate::setup::Setup;

/// A node of 1Paxos.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct OnePaxos {
    /// What this node knows to be chosen.
    pub chosen: BTreeMap<Index, Value>,
    /// Who leads and who accepts, as far as this node knows.
    pub roles: Roles,
    /// This node as the leader, for all it knows.
    pub lead: Option<Lead>,
    /// This node as an acceptor: it does not ask whether it is the one, since whoever leads knows.
    pub acceptor: Acceptor,
    /// The Paxos below, whose log says who leads and who accepts.
    pub utility: Paxos,
}

/// A term that this node leads.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Lead {
    /// The term.
    pub term: Term,
    /// How far it has come.
    pub phase: Phase,
    /// What its acceptor may have accepted: all it has promised to have, and all this node has proposed.
    pub proposed: BTreeMap<Index, Value>,
}

/// How far a leader has come.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// It waits for its acceptor's promise.
    Asking,
    /// It may propose.
    Leading,
    /// It hands all it knows over to the next acceptor, and proposes nothing more.
    HandingOver {
        /// The next acceptor.
        to: NodeId,
    },
    /// The next acceptor knows everything, and the Paxos below is asked to make it acceptor.
    Replacing {
        /// The next acceptor.
        to: NodeId,
    },
}

/// What an acceptor has promised and accepted. All of it is on disk.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Acceptor {
    /// It takes nothing from leaders of terms before this one.
    pub promised: Term,
    /// What it has accepted.
    pub accepted: BTreeMap<Index, Accepted>,
}

/// What was accepted for an index, and in which term.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Accepted {
    /// The term.
    pub term: Term,
    /// The value.
    pub value: Value,
}

/// What nodes say to each other.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// A new leader asks the acceptor to follow it.
    Prepare {
        /// Its term.
        term: Term,
    },
    /// The acceptor follows.
    Promise {
        /// The leader's term.
        term: Term,
        /// All it has accepted.
        accepted: BTreeMap<Index, Value>,
    },
    /// The leader asks the acceptor to accept a value.
    Accept {
        /// Its term.
        term: Term,
        /// For which index.
        index: Index,
        /// The value.
        value: Value,
    },
    /// The acceptor has accepted a value: it is chosen.
    Learn {
        /// For which index.
        index: Index,
        /// The value.
        value: Value,
    },
    /// The leader tells the next acceptor all that the present one may have accepted.
    Handover {
        /// Its term.
        term: Term,
        /// That.
        accepted: BTreeMap<Index, Value>,
    },
    /// The next acceptor knows it.
    Ready {
        /// The leader's term.
        term: Term,
    },
    /// Said by the Paxos below.
    Utility(paxos::Message),
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// Of the Paxos below.
    Utility(paxos::Timer),
}

/// What an application asks of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To get a value chosen. Only a leader can do anything about it.
    Propose {
        /// For which index.
        index: Index,
        /// What it would like. What is chosen may be another's.
        value: Value,
    },
    /// The fault detector says that the leader is gone: to take its place.
    SuspectLeader,
    /// The fault detector says that the acceptor is gone: to replace it. Only a leader can do anything about it.
    SuspectAcceptor,
}

/// What survives a reset.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// What is known to be chosen.
    pub chosen: BTreeMap<Index, Value>,
    /// The acceptor.
    pub acceptor: Acceptor,
    /// What the Paxos below has written.
    pub utility: paxos::service::Disk,
}

impl OnePaxos {
    fn below<R>(cx: &mut Context<'_, Self>, run: impl FnOnce(&mut Context<'_, Paxos>) -> R) -> R {
        cx.within(&cx.setup().utility, Message::Utility, Timer::Utility, run)
    }

    /// Lets the Paxos below do something, and goes by what it has chosen then.
    fn run_below(
        &mut self,
        cx: &mut Context<'_, Self>,
        run: impl FnOnce(&mut Paxos, &mut Context<'_, Paxos>),
    ) {
        let known = self.utility.chosen.len();
        Self::below(cx, |cx| run(&mut self.utility, cx));
        if self.utility.chosen.len() > known {
            self.follow_log(cx);
        }
    }

    fn follow_log(&mut self, cx: &mut Context<'_, Self>) {
        let me = cx.me();
        let members = cx.setup().members();
        let Some(roles) = Roles::decided(members, me, &self.utility.chosen) else {
            return;
        };
        let before = mem::replace(&mut self.roles, roles);
        if roles.term != before.term {
            // A term that an earlier incarnation may have led is on disk, and never comes up here.
            self.lead = (roles.leader == me).then(|| Lead {
                term: roles.term,
                phase: Phase::Asking,
                proposed: BTreeMap::new(),
            });
            self.ask_again(cx);
            return;
        }
        if let Some(lead) = &mut self.lead
            && let Phase::Replacing { to } = lead.phase
        {
            if to == roles.acceptor {
                lead.phase = Phase::Leading;
                self.propose_all(cx);
            } else {
                self.ask_again(cx);
            }
        }
    }

    /// Sends again what the leader waits to have answered.
    fn ask_again(&mut self, cx: &mut Context<'_, Self>) {
        let Some(Lead {
            term,
            phase,
            ref proposed,
        }) = self.lead
        else {
            return;
        };
        match phase {
            Phase::Asking => cx.send(self.roles.acceptor, Message::Prepare { term }),
            Phase::Leading => {}
            Phase::HandingOver { to } => {
                let accepted = proposed.clone();
                cx.send(to, Message::Handover { term, accepted });
            }
            Phase::Replacing { to } => self.change(cx, Change::Acceptor { term, to }),
        }
    }

    /// Returns the first entry of the log below that this node does not know.
    fn next_entry(&self) -> Index {
        let known = &self.utility.chosen;
        let gap = (0..).zip(known.keys()).find(|(at, index)| at != *index);
        gap.map_or(known.len() as Index, |(at, _)| at)
    }

    /// Asks the Paxos below for an entry of its log. Another's may be chosen.
    fn change(&mut self, cx: &mut Context<'_, Self>, change: Change) {
        let index = self.next_entry();
        if let Some(value) = change.write(cx.setup().members()) {
            let call = paxos::Call::Propose { index, value };
            self.run_below(cx, |paxos, cx| paxos.on_call(cx, call));
        }
    }

    /// As a leader, asks the acceptor to accept whatever this node has not heard to be chosen.
    fn propose_all(&self, cx: &mut Context<'_, Self>) {
        let Some(lead) = &self.lead else { return };
        for (&index, &value) in &lead.proposed {
            if !self.chosen.contains_key(&index) {
                let term = lead.term;
                cx.send(self.roles.acceptor, Message::Accept { term, index, value });
            }
        }
    }

    fn propose(&mut self, cx: &mut Context<'_, Self>, index: Index, value: Value) {
        let Some(lead) = &mut self.lead else { return };
        if lead.phase != Phase::Leading {
            return self.ask_again(cx);
        }
        if index >= cx.setup().indices {
            return;
        }
        // In one term there is one value for each index. Whoever asks again may have lost it, or others may.
        let wished = self.chosen.get(&index).copied().unwrap_or(value);
        let value = *lead.proposed.entry(index).or_insert(wished);
        let term = lead.term;
        cx.send(self.roles.acceptor, Message::Accept { term, index, value });
    }

    fn suspect_leader(&mut self, cx: &mut Context<'_, Self>) {
        if self.lead.is_some() {
            self.ask_again(cx);
        } else if self.roles.acceptor != cx.me() {
            // Who accepts must not lead as well: lost together, they would leave nobody who knows what was accepted.
            self.change(cx, Change::Leader(cx.me()));
        }
    }

    fn suspect_acceptor(&mut self, cx: &mut Context<'_, Self>) {
        let Some(lead) = &mut self.lead else { return };
        if lead.phase == Phase::Leading
            && let Some(to) = self.roles.backup(cx.setup().members())
        {
            lead.phase = Phase::HandingOver { to };
        }
        self.ask_again(cx);
    }

    /// As a leader, hears that its acceptor follows, and what may be chosen already.
    fn on_promise(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        term: Term,
        accepted: BTreeMap<Index, Value>,
    ) {
        if let Some(lead) = &mut self.lead
            && lead.term == term
            && lead.phase == Phase::Asking
            && from == self.roles.acceptor
        {
            lead.phase = Phase::Leading;
            lead.proposed = accepted;
            self.propose_all(cx);
        }
    }

    /// As a leader, hears that the next acceptor knows everything.
    fn on_ready(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: Term) {
        if let Some(lead) = &mut self.lead
            && lead.term == term
            && lead.phase == (Phase::HandingOver { to: from })
        {
            lead.phase = Phase::Replacing { to: from };
            self.ask_again(cx);
        }
    }

    /// Tells whether the Paxos below would begin something about its next entry if it were asked to.
    fn can_change(&self, me: NodeId, setup: &Setup) -> bool {
        let next = self.next_entry();
        let calls = self.utility.calls(me, &setup.utility);
        let indices = calls
            .iter()
            .map(|paxos::Call::Propose { index, .. }| *index);
        indices.into_iter().any(|index| index == next)
    }
}

impl Acceptor {
    /// Follows the leader of a term, unless it follows a later one already.
    fn follows(&mut self, term: Term) -> bool {
        let follows = term >= self.promised;
        if follows {
            self.promised = term;
        }
        follows
    }

    fn on_message(&mut self, cx: &mut Context<'_, OnePaxos>, from: NodeId, message: Message) {
        match message {
            Message::Prepare { term } if self.follows(term) => {
                let all = self.accepted.iter();
                let accepted = all.map(|(&index, it)| (index, it.value)).collect();
                cx.send(from, Message::Promise { term, accepted });
            }
            Message::Accept { term, index, value } if self.follows(term) => {
                self.accepted.insert(index, Accepted { term, value });
                for &member in cx.setup().members() {
                    cx.send(member, Message::Learn { index, value });
                }
            }
            Message::Handover { term, accepted } if self.follows(term) => {
                let handed = accepted.into_iter();
                self.accepted
                    .extend(handed.map(|(index, value)| (index, Accepted { term, value })));
                cx.send(from, Message::Ready { term });
            }
            _ => {}
        }
    }
}

impl Service for OnePaxos {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = Disk;

    fn start(cx: &mut Context<'_, Self>, disk: Option<Disk>) -> Self {
        let (me, setup) = (cx.me(), cx.setup());
        let is_new = disk.is_none();
        let written = disk.as_ref().map(|disk| disk.utility.clone());
        let utility = Self::below(cx, |cx| Paxos::start(cx, written));
        let disk = disk.unwrap_or_default();
        let decided = Roles::decided(setup.members(), me, &utility.chosen);
        let roles = decided.unwrap_or_else(|| Roles::at_start(setup, me));
        // What a leader has proposed is lost with it: after a reset it must be made leader again, of a new term.
        let lead = (is_new && roles.leader == me).then(|| Lead {
            term: roles.term,
            phase: Phase::Leading,
            proposed: BTreeMap::new(),
        });
        Self {
            chosen: disk.chosen,
            roles,
            lead,
            acceptor: disk.acceptor,
            utility,
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if !cx.setup().members().contains(&from) {
            return;
        }
        match message {
            Message::Promise { term, accepted } => self.on_promise(cx, from, term, accepted),
            Message::Ready { term } => self.on_ready(cx, from, term),
            Message::Learn { index, value } => {
                self.chosen.entry(index).or_insert(value);
            }
            Message::Utility(message) => {
                self.run_below(cx, |paxos, cx| paxos.on_message(cx, from, message));
            }
            Message::Prepare { .. } | Message::Accept { .. } | Message::Handover { .. } => {
                self.acceptor.on_message(cx, from, message);
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, Timer::Utility(timer): Timer) {
        self.run_below(cx, |paxos, cx| paxos.on_timer(cx, timer));
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: Call) {
        match call {
            Call::Propose { index, value } => self.propose(cx, index, value),
            Call::SuspectLeader => self.suspect_leader(cx),
            Call::SuspectAcceptor => self.suspect_acceptor(cx),
        }
    }

    fn properties() -> Vec<Property<Self>> {
        properties::all()
    }

    fn disk(&self) -> Disk {
        Disk {
            chosen: self.chosen.clone(),
            acceptor: self.acceptor.clone(),
            utility: self.utility.disk(),
        }
    }

    /// A leader proposes for the first index it knows nothing of; the fault detector may be wrong at any time.
    fn calls(&self, me: NodeId, setup: &Setup) -> Vec<Call> {
        let mut calls = Vec::new();
        let leads = self.lead.as_ref();
        if let Some(lead) = leads.filter(|lead| lead.phase == Phase::Leading) {
            let is_new = |index: &Index| {
                !lead.proposed.contains_key(index) && !self.chosen.contains_key(index)
            };
            if let Some(index) = (0..setup.indices).find(is_new) {
                let value = setup.value;
                calls.push(Call::Propose { index, value });
            }
            if self.roles.backup(setup.members()).is_some() && self.can_change(me, setup) {
                calls.push(Call::SuspectAcceptor);
            }
        } else if leads.is_none() && self.roles.acceptor != me && self.can_change(me, setup) {
            calls.push(Call::SuspectLeader);
        }
        calls
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        let members = setup.members().iter().copied();
        Some(members.filter(|&member| member != me).collect())
    }
}
