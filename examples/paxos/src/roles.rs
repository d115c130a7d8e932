//! The acceptor's vote and the proposer's round, as pure values: no node, no network, no index.
//!
//! Who is asked, who is told and what is retried is the deployment's business: see [`plain`](crate::plain) and
//! [`replica`](crate::replica).

use std::collections::BTreeSet;

use scry::NodeId;
use serde::{Deserialize, Serialize};

use crate::service::{Index, Message, Setup, Value};

/// Names one attempt to get a value chosen. Rounds are unique because each carries the node that leads it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Round {
    /// Compared first: a later attempt has a higher number.
    pub number: u32,
    /// Who leads it.
    pub leader: NodeId,
}

/// A value an acceptor has accepted, and in which round.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Accepted {
    /// The round.
    pub round: Round,
    /// The value.
    pub value: Value,
}

/// What an acceptor must never go back on.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Vote {
    /// The highest round it has taken part in; it takes no part in lower ones any more.
    pub promised: Option<Round>,
    /// What it accepted last.
    pub accepted: Option<Accepted>,
}

/// An acceptor: the vote it works with, and the vote it would find on its disk.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Acceptor {
    /// The vote as the node knows it.
    pub vote: Vote,
    /// The vote as it was last written.
    pub written: Vote,
}

/// A round as its leader sees it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Lead {
    /// The acceptors that have promised.
    pub promises: BTreeSet<NodeId>,
    /// The accepted value of the highest round among those promises.
    pub highest: Option<Accepted>,
    /// The value that acceptors were asked to accept, once a majority had promised.
    pub proposed: Option<Value>,
}

impl Acceptor {
    /// Comes back after a reset, with what was on disk.
    pub fn restored(written: Vote) -> Self {
        Self {
            vote: written,
            written,
        }
    }

    /// Promises to take no part in rounds below `round`. Returns the answer to the leader, who would like `value`.
    pub fn promise(
        &mut self,
        setup: &Setup,
        index: Index,
        round: Round,
        value: Value,
    ) -> Option<Message> {
        if self.vote.promised >= Some(round) {
            return None;
        }
        self.vote.promised = Some(round);
        self.write(setup);
        let accepted = self.vote.accepted;
        Some(Message::Promise {
            index,
            round,
            accepted: accepted.map(|accepted| accepted.round),
            value: accepted.map_or(value, |accepted| accepted.value),
        })
    }

    /// Accepts `value` unless a higher round was promised, and returns what it accepted.
    pub fn accept(&mut self, setup: &Setup, round: Round, value: Value) -> Option<Accepted> {
        if self.vote.promised > Some(round) {
            return None;
        }
        self.vote.promised = Some(round);
        self.vote.accepted = Some(Accepted { round, value });
        self.write(setup);
        self.vote.accepted
    }

    /// Writes the vote to disk, before any answer leaves that others will rely on.
    fn write(&mut self, setup: &Setup) {
        if !setup.bugs.volatile_promise {
            self.written = self.vote;
        }
    }
}

impl Lead {
    /// Takes in a promise, and returns the value to propose if it is the one that makes the majority.
    ///
    /// `value` is what the promise carried: what the acceptor had accepted or, from one that had accepted nothing, the
    /// leader's own value sent back (LMC §5.5). So if no promise names an accepted value, any of them names the
    /// leader's own.
    pub fn promised(
        &mut self,
        from: NodeId,
        accepted: Option<Round>,
        value: Value,
        setup: &Setup,
    ) -> Option<Value> {
        self.promises.insert(from);
        if self.proposed.is_some() {
            return None;
        }
        self.highest = self
            .highest
            .max(accepted.map(|round| Accepted { round, value }));
        if self.promises.len() < setup.majority() {
            return None;
        }
        self.proposed = Some(match self.highest {
            // The bug takes what came last, although another promise may name a value that is chosen already.
            Some(highest) if !setup.bugs.last_promise => highest.value,
            _ => value,
        });
        self.proposed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Bugs, Part};

    fn node(number: u32) -> NodeId {
        NodeId::new(number)
    }

    fn round(number: u32, leader: u32) -> Round {
        Round {
            number,
            leader: node(leader),
        }
    }

    fn setup(bugs: Bugs) -> Setup {
        Setup {
            part: Part::Acceptor,
            acceptors: (0..3).map(node).collect(),
            value: 7,
            bugs,
        }
    }

    fn fixed() -> Setup {
        setup(Bugs::default())
    }

    #[test]
    fn rounds_are_ordered_by_number_and_then_by_leader() {
        assert!(round(2, 0) > round(1, 2));
        assert!(round(1, 2) > round(1, 1));
    }

    #[test]
    fn an_acceptor_promises_only_upwards() {
        let mut acceptor = Acceptor::default();
        let mut promises = |round| acceptor.promise(&fixed(), 0, round, 7).is_some();
        assert!(promises(round(1, 1)));
        assert!(!promises(round(1, 1)));
        assert!(!promises(round(1, 0)));
        assert!(promises(round(2, 0)));
    }

    #[test]
    fn a_promise_names_the_accepted_value_or_sends_the_leaders_back() {
        let mut acceptor = Acceptor::default();
        let promise = |acceptor: &mut Acceptor, number| match acceptor.promise(
            &fixed(),
            0,
            round(number, 0),
            7,
        ) {
            Some(Message::Promise {
                accepted, value, ..
            }) => (accepted, value),
            other => panic!("{other:?} is no promise"),
        };
        assert_eq!(promise(&mut acceptor, 1), (None, 7));
        acceptor.accept(&fixed(), round(1, 0), 5);
        assert_eq!(promise(&mut acceptor, 2), (Some(round(1, 0)), 5));
    }

    #[test]
    fn an_acceptor_accepts_in_the_promised_round_and_above_only() {
        let mut acceptor = Acceptor::default();
        acceptor.promise(&fixed(), 0, round(2, 0), 7);
        assert_eq!(acceptor.accept(&fixed(), round(1, 1), 5), None);
        assert_eq!(acceptor.vote.accepted, None);
        assert!(acceptor.accept(&fixed(), round(2, 0), 6).is_some());
        assert!(acceptor.accept(&fixed(), round(3, 0), 8).is_some());
        assert_eq!(acceptor.vote.promised, Some(round(3, 0)));
    }

    #[test]
    fn every_answer_is_on_disk_unless_that_bug_is_on() {
        let mut acceptor = Acceptor::default();
        acceptor.promise(&fixed(), 0, round(1, 0), 7);
        assert_eq!(acceptor.written, acceptor.vote);
        acceptor.accept(&fixed(), round(1, 0), 5);
        assert_eq!(acceptor.written, acceptor.vote);
        assert_eq!(Acceptor::restored(acceptor.written), acceptor);

        let forgetful = setup(Bugs {
            volatile_promise: true,
            ..Bugs::default()
        });
        acceptor.accept(&forgetful, round(2, 0), 6);
        let again = Acceptor::restored(acceptor.written);
        assert_eq!(again.vote.promised, Some(round(1, 0)));
    }

    #[test]
    fn a_leader_proposes_its_own_value_to_a_majority_that_accepted_nothing() {
        let mut lead = Lead::default();
        assert_eq!(lead.promised(node(0), None, 7, &fixed()), None);
        assert_eq!(lead.promised(node(0), None, 7, &fixed()), None);
        assert_eq!(lead.promised(node(1), None, 7, &fixed()), Some(7));
        assert_eq!(lead.promised(node(2), None, 7, &fixed()), None);
    }

    #[test]
    fn a_leader_proposes_the_value_of_the_highest_round_whoever_answers_last() {
        let mut lead = Lead::default();
        lead.promised(node(0), Some(round(2, 1)), 5, &fixed());
        let mut other = lead.clone();
        let older = Some(round(1, 0));
        assert_eq!(lead.promised(node(1), older, 4, &fixed()), Some(5));
        assert_eq!(other.promised(node(2), None, 7, &fixed()), Some(5));
    }

    #[test]
    fn the_last_promise_decides_when_that_bug_is_on() {
        let hasty = setup(Bugs {
            last_promise: true,
            ..Bugs::default()
        });
        let mut lead = Lead::default();
        lead.promised(node(0), Some(round(2, 1)), 5, &hasty);
        assert_eq!(lead.promised(node(2), None, 7, &hasty), Some(7));
    }
}
