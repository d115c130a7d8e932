//! Single-decree Paxos with every role on a node of its own, over a network that loses nothing.
//!
//! Each proposer leads exactly one round, the one it starts with, and learns by itself that its value is chosen. This
//! is the textbook model which other checkers explore as well, so it is kept equal to theirs state by state: a promise
//! that comes after the proposal and an acceptance that comes after the choice change nothing.

use std::collections::{BTreeMap, BTreeSet};

use scry::{Context, NodeId};
use serde::{Deserialize, Serialize};

use crate::roles::{Accepted, Acceptor, Lead, Round};
use crate::service::{Index, Message, Paxos, Value};

/// The only instance there is.
pub const INDEX: Index = 0;

/// A node that leads one round.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Proposer {
    /// The round.
    pub lead: Lead,
    /// Who has accepted what was proposed in it.
    pub accepted_by: BTreeSet<NodeId>,
}

impl Proposer {
    /// Asks every acceptor for its promise.
    pub fn start(cx: &mut Context<'_, Paxos>) -> Self {
        let prepare = Message::Prepare {
            index: INDEX,
            round: only_round(cx.me()),
            value: cx.setup().value,
        };
        cx.setup().tell_acceptors(cx, &prepare);
        Self {
            lead: Lead::default(),
            accepted_by: BTreeSet::new(),
        }
    }

    /// Handles an answer of an acceptor.
    pub fn on_message(
        &mut self,
        cx: &mut Context<'_, Paxos>,
        chosen: &mut BTreeMap<Index, Value>,
        from: NodeId,
        message: Message,
    ) {
        let setup = cx.setup();
        match (message, self.lead.proposed) {
            (
                Message::Promise {
                    round,
                    accepted,
                    value,
                    ..
                },
                None,
            ) => {
                if let Some(value) = self.lead.promised(from, accepted, value, setup) {
                    let accept = Message::Accept {
                        index: INDEX,
                        round,
                        value,
                    };
                    setup.tell_acceptors(cx, &accept);
                }
            }
            (Message::Accepted { .. }, Some(proposed)) if chosen.is_empty() => {
                self.accepted_by.insert(from);
                if self.accepted_by.len() >= setup.majority() {
                    chosen.insert(INDEX, proposed);
                }
            }
            _ => {}
        }
    }
}

/// Handles what a proposer asks of an acceptor.
pub fn vote(
    acceptor: &mut Acceptor,
    cx: &mut Context<'_, Paxos>,
    proposer: NodeId,
    message: Message,
) {
    match message {
        Message::Prepare { round, value, .. } => {
            if let Some(promise) = acceptor.promise(cx.setup(), INDEX, round, value) {
                cx.send(proposer, promise);
            }
        }
        Message::Accept { round, value, .. } => {
            if let Some(Accepted { round, .. }) = acceptor.accept(cx.setup(), round, value) {
                let index = INDEX;
                cx.send(proposer, Message::Accepted { index, round });
            }
        }
        _ => {}
    }
}

fn only_round(leader: NodeId) -> Round {
    Round { number: 1, leader }
}
