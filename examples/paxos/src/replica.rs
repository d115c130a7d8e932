//! Paxos with all roles on every node, one instance for each index of a log, over datagrams that may be lost.
//!
//! A leader whose round comes to nothing tries again in a higher one when its timer fires; a node that missed the
//! outcome of an index learns it by proposing there itself, since whatever was chosen is what its round will propose.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use scry::{Context, NodeId};
use serde::{Deserialize, Serialize};

use crate::roles::{Accepted, Acceptor, Lead, Round};
use crate::service::{Call, Disk, Index, Message, Paxos, Setup, Timer, Value};

/// How long a leader waits for its first round, at least. As much again is drawn at random, so that two leaders which
/// outbid each other get out of step.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Each further round waits twice as long as the one before, so often.
const DOUBLINGS_MAX: u32 = 4;

/// A node with all roles.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// The instances this node has heard of.
    pub instances: BTreeMap<Index, Instance>,
}

/// One instance of the protocol.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// This node as an acceptor.
    pub acceptor: Acceptor,
    /// The number of the last round this node has led. It is on disk: no round is ever led twice.
    pub led: u32,
    /// This node as a leader, since it was last asked to propose.
    pub attempt: Option<Attempt>,
    /// This node as a learner: who has accepted what, by round.
    pub tallies: Vec<Tally>,
}

/// A round that this node leads.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The round.
    pub round: Round,
    /// What the application would like to be chosen.
    pub value: Value,
    /// How far the round has come.
    pub lead: Lead,
}

/// The acceptors known to have accepted a value in a round.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The round.
    pub round: Round,
    /// The value.
    pub value: Value,
    /// Who has accepted it.
    pub by: BTreeSet<NodeId>,
}

impl Replica {
    /// Starts with what the last incarnation left on disk: its votes and the rounds it must not lead again.
    pub fn start(disk: &Disk) -> Self {
        let mut replica = Self::default();
        for (&index, &vote) in &disk.votes {
            replica.instance(index).acceptor = Acceptor::restored(vote);
        }
        for (&index, &led) in &disk.led {
            replica.instance(index).led = led;
        }
        replica
    }

    /// Handles a message of another replica or of this one.
    pub fn on_message(
        &mut self,
        cx: &mut Context<'_, Paxos>,
        chosen: &mut BTreeMap<Index, Value>,
        from: NodeId,
        message: Message,
    ) {
        let setup = cx.setup();
        if message.index() >= setup.indices || !setup.acceptors.contains(&from) {
            return;
        }
        match message {
            Message::Prepare {
                index,
                round,
                value,
            } => self.on_prepare(cx, from, index, round, value),
            Message::Promise {
                index,
                round,
                accepted,
                value,
            } => self.on_promise(cx, from, index, round, accepted, value),
            Message::Accept {
                index,
                round,
                value,
            } => self.on_accept(cx, index, round, value),
            Message::Learn {
                index,
                round,
                value,
            } => {
                let accepted_by = self.instance(index).learned(from, round, value);
                if accepted_by >= setup.majority() && !chosen.contains_key(&index) {
                    chosen.insert(index, value);
                    cx.cancel_timer(Timer::Retry { index });
                }
            }
            // Only plain acceptors say this.
            Message::Accepted { .. } => {}
        }
    }

    /// As an acceptor, asked by a leader to follow its round.
    fn on_prepare(
        &mut self,
        cx: &mut Context<'_, Paxos>,
        from: NodeId,
        index: Index,
        round: Round,
        value: Value,
    ) {
        let acceptor = &mut self.instance(index).acceptor;
        if let Some(promise) = acceptor.promise(cx.setup(), index, round, value) {
            cx.send(from, promise);
        }
    }

    /// As a leader, answered by an acceptor that follows.
    fn on_promise(
        &mut self,
        cx: &mut Context<'_, Paxos>,
        from: NodeId,
        index: Index,
        round: Round,
        accepted: Option<Round>,
        value: Value,
    ) {
        let setup = cx.setup();
        // A promise to a round that was given up says nothing about the present one.
        let lead = self.leading(index, round);
        let value = lead.and_then(|lead| lead.promised(from, accepted, value, setup));
        if let Some(value) = value {
            let accept = Message::Accept {
                index,
                round,
                value,
            };
            setup.tell_acceptors(cx, &accept);
        }
    }

    /// As an acceptor, asked by a leader to accept its value.
    fn on_accept(&mut self, cx: &mut Context<'_, Paxos>, index: Index, round: Round, value: Value) {
        let setup = cx.setup();
        let acceptor = &mut self.instance(index).acceptor;
        if let Some(Accepted { round, value }) = acceptor.accept(setup, round, value) {
            let learn = Message::Learn {
                index,
                round,
                value,
            };
            // Every replica is a learner as well.
            setup.tell_acceptors(cx, &learn);
        }
    }

    /// Proposes a value, unless the outcome is known or a proposal of this node is under way there.
    pub fn propose(&mut self, cx: &mut Context<'_, Paxos>, index: Index, value: Value) {
        let setup = cx.setup();
        let instance = self.instances.get(&index);
        let is_free = instance.is_none_or(|instance| instance.attempt.is_none());
        if index < setup.indices && is_free {
            self.lead(cx, index, value);
        }
    }

    /// Tries again in a higher round.
    pub fn retry(&mut self, cx: &mut Context<'_, Paxos>, index: Index) {
        let attempt = self
            .instances
            .get(&index)
            .and_then(|it| it.attempt.as_ref());
        if let Some(value) = attempt.map(|attempt| attempt.value) {
            self.lead(cx, index, value);
        }
    }

    fn instance(&mut self, index: Index) -> &mut Instance {
        self.instances.entry(index).or_default()
    }

    /// Returns the round if this node leads it.
    fn leading(&mut self, index: Index, round: Round) -> Option<&mut Lead> {
        let attempt = self.instances.get_mut(&index)?.attempt.as_mut()?;
        (attempt.round == round).then_some(&mut attempt.lead)
    }

    /// Returns the number of the next round this node can lead: above all it has led or promised to others. There is
    /// none beyond the limit of its settings.
    fn next_number(&self, index: Index, setup: &Setup) -> Option<u32> {
        let highest = self.instances.get(&index).map_or(0, |instance| {
            let promised = instance.acceptor.vote.promised;
            promised.map_or(instance.led, |round| round.number.max(instance.led))
        });
        (highest < setup.rounds).then(|| highest + 1)
    }

    fn lead(&mut self, cx: &mut Context<'_, Paxos>, index: Index, value: Value) {
        let setup = cx.setup();
        let Some(number) = self.next_number(index, setup) else {
            return;
        };
        let leader = cx.me();
        let round = Round { number, leader };
        let instance = self.instance(index);
        instance.led = number;
        instance.attempt = Some(Attempt {
            round,
            value,
            lead: Lead::default(),
        });
        let prepare = Message::Prepare {
            index,
            round,
            value,
        };
        setup.tell_acceptors(cx, &prepare);
        if number < setup.rounds {
            let least = RETRY_AFTER * (1 << (number - 1).min(DOUBLINGS_MAX));
            let jitter_ms = cx.random() % (least.as_millis() as u64);
            let after = least + Duration::from_millis(jitter_ms);
            cx.set_timer(Timer::Retry { index }, after);
        }
    }

    /// Returns what an application would do next (LMC §4.2): propose where something is going on whose outcome this
    /// node has missed, otherwise for a new index. It waits for its own proposal first.
    pub fn calls(&self, setup: &Setup, chosen: &BTreeMap<Index, Value>) -> Vec<Call> {
        let mut open = Vec::new();
        for (&index, instance) in &self.instances {
            if chosen.contains_key(&index) {
                continue;
            }
            if instance.attempt.is_some() {
                return Vec::new();
            }
            if self.next_number(index, setup).is_some() {
                open.push(index);
            }
        }
        if open.is_empty() && setup.rounds > 0 {
            let is_new =
                |index: &Index| !self.instances.contains_key(index) && !chosen.contains_key(index);
            open.extend((0..setup.indices).find(is_new));
        }
        let value = setup.value;
        let propose = |index| Call::Propose { index, value };
        open.into_iter().map(propose).collect()
    }

    /// Adds to `disk` what this node has written.
    pub fn write(&self, disk: &mut Disk) {
        for (&index, instance) in &self.instances {
            if instance.acceptor.written.promised.is_some() {
                disk.votes.insert(index, instance.acceptor.written);
            }
            if instance.led > 0 {
                disk.led.insert(index, instance.led);
            }
        }
    }
}

impl Instance {
    /// Counts who has accepted a value in a round, and returns how many have.
    fn learned(&mut self, from: NodeId, round: Round, value: Value) -> usize {
        let key = |tally: &Tally| (tally.round, tally.value);
        let at = match self.tallies.binary_search_by_key(&(round, value), key) {
            Ok(at) => at,
            Err(at) => {
                let by = BTreeSet::new();
                self.tallies.insert(at, Tally { round, value, by });
                at
            }
        };
        self.tallies[at].by.insert(from);
        self.tallies[at].by.len()
    }
}

#[cfg(test)]
mod tests {
    use scry::{Effect, Service};

    use super::*;
    use crate::bench::{Bench, node, round};
    use crate::service::{Bugs, Part};

    fn setup() -> Setup {
        Setup {
            part: Part::Replica,
            acceptors: (0..3).map(node).collect(),
            value: 1,
            rounds: 3,
            indices: 4,
            bugs: Bugs::default(),
        }
    }

    fn propose(index: Index) -> Call {
        Call::Propose { index, value: 1 }
    }

    fn promise(round: Round) -> Message {
        Message::Promise {
            index: 0,
            round,
            accepted: None,
            value: 1,
        }
    }

    fn learn(round: Round, value: Value) -> Message {
        Message::Learn {
            index: 0,
            round,
            value,
        }
    }

    #[test]
    fn a_proposal_asks_everyone_and_arms_the_retry() {
        let mut bench = Bench::start(1, setup());
        let effects = bench.call(propose(0));
        let prepare = Message::Prepare {
            index: 0,
            round: round(1, 1),
            value: 1,
        };
        assert_eq!(bench.sent(&effects), bench.to_all(&prepare));
        let timer = Timer::Retry { index: 0 };
        assert!(
            matches!(effects.last(), Some(Effect::Arm { timer: armed, .. }) if *armed == timer)
        );
        assert_eq!(bench.call(propose(0)), [], "one is under way already");
    }

    #[test]
    fn a_majority_of_promises_to_the_present_round_leads_to_accept_once() {
        let mut bench = Bench::start(1, setup());
        bench.call(propose(0));
        assert_eq!(bench.message(1, promise(round(1, 1))), []);
        assert_eq!(bench.message(2, promise(round(1, 2))), [], "not this round");
        let effects = bench.message(2, promise(round(1, 1)));
        let accept = Message::Accept {
            index: 0,
            round: round(1, 1),
            value: 1,
        };
        assert_eq!(bench.sent(&effects), bench.to_all(&accept));
        assert_eq!(bench.message(0, promise(round(1, 1))), []);
    }

    #[test]
    fn an_acceptor_tells_every_learner() {
        let mut bench = Bench::start(2, setup());
        let accept = Message::Accept {
            index: 0,
            round: round(1, 1),
            value: 5,
        };
        let effects = bench.message(1, accept);
        assert_eq!(bench.sent(&effects), bench.to_all(&learn(round(1, 1), 5)));
    }

    #[test]
    fn a_value_is_chosen_by_a_majority_of_one_round() {
        let mut bench = Bench::start(2, setup());
        bench.message(0, learn(round(1, 0), 5));
        bench.message(0, learn(round(1, 0), 5));
        bench.message(1, learn(round(2, 1), 5));
        assert!(bench.node.chosen.is_empty());
        let effects = bench.message(1, learn(round(1, 0), 5));
        assert_eq!(bench.node.chosen, BTreeMap::from([(0, 5)]));
        let timer = Timer::Retry { index: 0 };
        assert_eq!(effects, [Effect::Cancel { timer }]);
        assert_eq!(bench.call(propose(0)), [], "the outcome is known");
    }

    #[test]
    fn a_retry_outbids_what_was_promised_meanwhile_until_the_limit() {
        let mut bench = Bench::start(1, setup());
        bench.call(propose(0));
        let other = Message::Prepare {
            index: 0,
            round: round(2, 0),
            value: 0,
        };
        bench.message(0, other);
        let effects = bench.timer(Timer::Retry { index: 0 });
        let prepare = Message::Prepare {
            index: 0,
            round: round(3, 1),
            value: 1,
        };
        assert_eq!(bench.sent(&effects), bench.to_all(&prepare));
        assert_eq!(effects.len(), 3, "it was the last, so no timer is armed");
        assert_eq!(bench.timer(Timer::Retry { index: 0 }), []);
    }

    #[test]
    fn strangers_and_indices_beyond_the_limit_are_ignored() {
        let mut bench = Bench::start(1, setup());
        let before = bench.node.clone();
        assert_eq!(bench.message(9, learn(round(1, 0), 5)), []);
        let far = Message::Prepare {
            index: 4,
            round: round(1, 0),
            value: 0,
        };
        assert_eq!(bench.message(0, far), []);
        assert_eq!(bench.message(0, promise(round(1, 1))), []);
        assert_eq!(bench.call(propose(4)), []);
        assert_eq!(bench.node, before);
    }

    #[test]
    fn an_application_proposes_where_it_missed_the_outcome_and_then_anew() {
        let mut bench = Bench::start(1, setup());
        let calls = |bench: &Bench| bench.node.calls(node(1), &bench.setup);
        assert_eq!(calls(&bench), [propose(0)]);
        for index in [0, 2] {
            let round = round(1, 0);
            let value = 0;
            bench.message(
                0,
                Message::Prepare {
                    index,
                    round,
                    value,
                },
            );
        }
        assert_eq!(calls(&bench), [propose(0), propose(2)]);
        bench.node.chosen = BTreeMap::from([(0, 0), (2, 0)]);
        assert_eq!(calls(&bench), [propose(1)]);
        bench.call(propose(1));
        assert_eq!(calls(&bench), [], "it waits for its own proposal");
        bench.node.chosen.insert(1, 1);
        assert_eq!(calls(&bench), [propose(3)]);
        bench.node.chosen.insert(3, 1);
        assert_eq!(calls(&bench), [], "the log is full");
    }

    #[test]
    fn no_round_is_led_twice_even_after_a_reset() {
        let mut bench = Bench::start(1, setup());
        bench.call(propose(0));
        bench.reset();
        let effects = bench.call(propose(0));
        let prepare = Message::Prepare {
            index: 0,
            round: round(2, 1),
            value: 1,
        };
        assert_eq!(bench.sent(&effects), bench.to_all(&prepare));
    }
}
