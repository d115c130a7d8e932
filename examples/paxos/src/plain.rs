//! Single-decree Paxos with every role on a node of its own, over a network that loses nothing.
//!
//! Each proposer leads exactly one round, the one it starts with, and learns by itself that its value is chosen. This
//! is the textbook model which other checkers explore as well, so it is kept equal to theirs state by state: a promise
//! that comes after the proposal and an acceptance that comes after the choice change nothing.

use std::collections::{BTreeMap, BTreeSet};

use scry::{Context, NodeId};
use serde::{Deserialize, Serialize};

use crate::roles::{Accepted, Acceptor, Lead, Round};
use crate::service::{Disk, Index, Message, Paxos, Value};

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
        let (setup, round) = (cx.setup(), only_round(cx.me()));
        if message.round() != round {
            return;
        }
        match (message, self.lead.proposed) {
            (
                Message::Promise {
                    accepted, value, ..
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

/// Starts an acceptor with the vote that is on its disk.
pub fn acceptor(disk: &Disk) -> Acceptor {
    Acceptor::restored(disk.votes.get(&INDEX).copied().unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use scry::Effect;

    use super::*;
    use crate::bench::{Bench, node, round};
    use crate::service::{Bugs, Part, Role, Setup};

    fn setup(part: Part) -> Setup {
        Setup {
            part,
            acceptors: (0..3).map(node).collect(),
            value: 7,
            rounds: 1,
            indices: 1,
            bugs: Bugs::default(),
        }
    }

    fn promise(accepted: Option<Round>, value: Value) -> Message {
        Message::Promise {
            index: INDEX,
            round: round(1, 4),
            accepted,
            value,
        }
    }

    #[test]
    fn a_proposer_gets_the_value_of_its_majority_chosen() {
        let mut bench = Bench::start(4, setup(Part::Proposer));
        let prepare = Message::Prepare {
            index: INDEX,
            round: round(1, 4),
            value: 7,
        };
        assert_eq!(bench.sent(&bench.started), bench.to_all(&prepare));
        assert_eq!(bench.message(0, promise(Some(round(1, 3)), 5)), []);
        let effects = bench.message(1, promise(None, 7));
        let accept = Message::Accept {
            index: INDEX,
            round: round(1, 4),
            value: 5,
        };
        assert_eq!(bench.sent(&effects), bench.to_all(&accept));
        let accepted = Message::Accepted {
            index: INDEX,
            round: round(1, 4),
        };
        bench.message(0, accepted.clone());
        assert!(bench.node.chosen.is_empty());
        bench.message(2, accepted);
        assert_eq!(bench.node.chosen, BTreeMap::from([(INDEX, 5)]));
    }

    #[test]
    fn a_late_answer_changes_nothing() {
        let mut bench = Bench::start(4, setup(Part::Proposer));
        bench.message(0, promise(None, 7));
        bench.message(1, promise(None, 7));
        let proposed = bench.node.clone();
        assert_eq!(bench.message(2, promise(None, 7)), []);
        assert_eq!(bench.node, proposed);
    }

    #[test]
    fn a_proposer_does_not_lead_its_round_again_after_a_reset() {
        let mut bench = Bench::start(4, setup(Part::Proposer));
        assert_eq!(bench.reset(), []);
        assert_eq!(bench.node.role, Role::Retired);
        assert_eq!(bench.message(0, promise(None, 7)), []);
    }

    #[test]
    fn an_acceptor_answers_its_proposer_and_keeps_its_vote() {
        let mut bench = Bench::start(0, setup(Part::Acceptor));
        let accept = Message::Accept {
            index: INDEX,
            round: round(1, 4),
            value: 7,
        };
        let accepted = Message::Accepted {
            index: INDEX,
            round: round(1, 4),
        };
        let to = node(4);
        let answer = Effect::Send {
            to,
            message: accepted,
        };
        assert_eq!(bench.message(4, accept), [answer]);
        let before = bench.node.clone();
        bench.reset();
        assert_eq!(bench.node, before);
    }
}
