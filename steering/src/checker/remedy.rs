//! Filters against a violation, and the proof that one helps and does no harm (A-96…A-101).
//!
//! The events of the path that this node handles are candidates. By default they are tried by what they take from the
//! service, the least first: have the last event looked at before it is handled, hold or postpone something, lose a datagram,
//! reset a connection, refuse a call; of those the narrower first, and then the later. Since most of these tries come to nothing and the time is short, one that is quickly
//! proved is sought before: at the earliest event, for all contents. It is taken if nothing better is found in time.
//! `steering.order = "earliest"` is the paper's policy instead: the earliest event, and
//! for each the narrowest filter; it holds no messages, and of what follows it asks only what is broken.
//!
//! What other nodes handle on the path is weighed too: where one of them has a filter that takes less than those of this node,
//! the violation is for that node to prevent, and the agent leaves it to it if it does. Each node by itself would refuse
//! what it can, although one of them need only be patient.
//!
//! A candidate acts on its event, stays in force, and what follows is searched, with everybody's reactions, at least as
//! deep as the path and deep enough for the sender to try once more:
//!
//! - The property must not be broken there by the same nodes: a filter that only puts the violation off is of no use.
//! - Nothing else may be broken there, nor the same by other nodes, that is not broken as well if the event runs: else the
//!   filter would be to blame.
//! - From the start state on, the filter may break nothing that is not broken without it, and every `eventually` property
//!   that can come true without it within the length of the path must be able to come true with it.
//! - A filter on one content must also stand against a sender that says the same in other words: some steps deeper, no
//!   message of the same kind from the same sender may lead to the violation.
//! - What must come true again and again, and can before the event, must still be able to when the filter has acted: a way into
//!   a dead state is no remedy (see `liveness`).
//! - It must not stop everything: if without it some node can change its state, by anything but a fault and without
//!   breaking the property, then some node must be able to do so after it has acted.
//!
//! What is held or postponed still comes, when the filter ends. Nothing is proved about that moment, and need not be: each
//! run searches anew from what there is then, and renews the filter for as long as the event is dangerous. But a filter
//! that has to be renewed for ever is no delay. So, for the order only, states that can follow are sampled: if in one of
//! them, reached without a fault, the rest of the path breaks nothing, the danger can pass and the delay is the least harm.
//! Otherwise it is tried after the loss of a message and the reset of a connection, with which services know how to deal.
//!
//! Consequence prediction is no proof in the mathematical sense: it is the paper's, with its blind spots.

mod candidate;
mod dead;
mod proof;

use std::collections::{BTreeMap, BTreeSet};

use scry_protocol::filter::{Action, Filter, Mode};
use scry_protocol::limit::{NAME_BYTES_MAX, TEXT_BYTES_MAX};
use scry_protocol::link::checker::Order;
use scry_protocol::{FilterId, NodeId, ViolationId};

use crate::checker::cut;
use crate::checker::liveness::Fates;
use crate::checker::remedy::candidate::{Candidate, Harm, candidates};
use crate::checker::remedy::proof::Danger;
use crate::checker::replay::Broken;
use crate::checker::spell::is_steerable;
use scry_engine::model::event::Step;
use scry_engine::model::simulation::Simulation;
use scry_engine::model::steering::NodeFilter;
use scry_engine::property::Property;
use scry_engine::service::Service;
use scry_engine::timing::Clock;

/// Whether a candidate is proved, and if not, what speaks against it.
type Judged = Result<Danger, String>;

pub use candidate::words;
pub use proof::{Bound, judge_veto};

/// What can be done about a violation.
#[derive(Clone, Debug, Default)]
pub struct Remedies {
    /// Filters proved to help, the best first. Ids, leases and modes are for the agent to set.
    pub filters: Vec<Filter>,
    /// The same in words.
    pub words: Vec<String>,
    /// Why there is none, in words; empty if there is one.
    pub unhelpful: String,
    /// The node of the first event that could be steered, if it is another.
    pub neighbor: Option<NodeId>,
    /// Another node with a filter that is proved too and takes less than those here.
    pub elsewhere: Option<NodeId>,
}

/// What came of trying candidates.
#[derive(Debug, Default)]
struct Choice {
    /// The best filter of this node.
    own: Option<NodeFilter>,
    /// The node with a better one.
    elsewhere: Option<NodeId>,
    /// What speaks against the candidates of this node.
    reasons: Vec<String>,
}

/// How much of the time for proofs may be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProofTime {
    Half,
    All,
}

/// Looks for remedies against one violation.
pub(crate) struct Prover<'a, S: Service> {
    pub(crate) start: &'a Simulation<S>,
    pub(crate) properties: &'a [Property<S>],
    /// What a filter must not take out of reach: each is violated in just the states that are to be reached.
    pub(crate) goals: &'a [Property<S>],
    /// Answers what can still come true, if that is asked at all.
    pub(crate) fates: Option<Fates<'a, S>>,
    pub(crate) me: NodeId,
    /// What is broken at the end of the path, and by which nodes; none if it is about all.
    pub(crate) property: &'a str,
    pub(crate) nodes: &'a [NodeId],
    pub(crate) path: &'a [Step<S>],
    pub(crate) order: Order,
    /// Whether nodes can look before they handle an event.
    pub(crate) checks: bool,
    /// How well clocks and timers are kept.
    pub(crate) clock: Clock,
    pub(crate) bytes_max: u64,
    /// Tells whether the time for proofs is over.
    pub(crate) halted: &'a mut dyn FnMut(ProofTime) -> bool,
    /// How much of it may be used now.
    pub(crate) time: ProofTime,
    /// What is broken or reached from the start state without any filter, as deep as the path, once it is known.
    pub(crate) baseline: Option<BTreeSet<Broken>>,
}

impl<S: Service> Prover<'_, S> {
    pub(crate) fn remedies(mut self, violation: ViolationId) -> Remedies {
        if self.order == Order::Earliest {
            // The paper asks only what is broken.
            self.goals = &[];
        }
        let steerable = self.path.iter().find(|step| is_steerable::<S>(&step.event));
        let neighbor = steerable
            .map(|step| step.node)
            .filter(|&node| node != self.me);
        let mut remedies = Remedies {
            neighbor,
            ..Remedies::default()
        };
        let Choice {
            own,
            elsewhere,
            reasons,
        } = self.choose();
        remedies.elsewhere = elsewhere;
        match own {
            Some(rule) => {
                remedies.words.push(words(&rule));
                remedies.filters.push(self.filter(rule, violation));
            }
            None => {
                remedies.unhelpful = match (self.path.is_empty(), reasons.is_empty()) {
                    (true, _) => "it is broken already".to_owned(),
                    (_, true) => {
                        format!("nothing that {} could filter happens on the path", self.me)
                    }
                    _ => reasons.join("; "),
                }
            }
        }
        remedies
    }

    /// Proves candidates one after the other until one is proved. If that is another node's, the best that was proved of
    /// this node's goes with it.
    fn choose(&mut self) -> Choice {
        let checked = self.checks.then_some(self.nodes);
        let candidates = candidates::<S>(self.me, self.path, self.order, checked);
        let mut judged = match self.order {
            Order::LeastHarm => self.secure(&candidates),
            Order::Earliest => BTreeMap::new(),
        };
        let proved = |(at, verdict): (&usize, &Judged)| {
            let rule = || candidates[*at].rule.clone();
            verdict.is_ok().then(rule)
        };
        let secured = judged.iter().find_map(proved);
        let mut choice = Choice::default();
        // Proved, but the danger does not pass: they have to wait for their place in the order.
        let mut standstills: Vec<NodeFilter> = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let Candidate { rule, harm, .. } = candidate;
            if *harm > Harm::Standstill
                && let Some(rule) = standstills.first()
            {
                return self.chosen(rule.clone(), secured, choice);
            }
            let verdict = judged.remove(&at);
            match verdict.unwrap_or_else(|| self.judge(candidate)) {
                Ok(Danger::Lasts) if self.order == Order::LeastHarm && *harm == Harm::Delay => {
                    standstills.push(rule.clone());
                }
                Ok(_) => {
                    // What was tried of this node's own speaks for leaving it to the other.
                    for (at, verdict) in &judged {
                        let reason = verdict.as_ref().err();
                        let words = words(&candidates[*at].rule);
                        let reason = reason.map(|reason| format!("{words}: {reason}"));
                        choice.reasons.extend(reason);
                    }
                    let own = standstills.into_iter().find(|rule| rule.node == self.me);
                    return self.chosen(rule.clone(), secured.or(own), choice);
                }
                Err(reason) if rule.node == self.me => {
                    choice.reasons.push(format!("{}: {reason}", words(rule)));
                }
                Err(_) => {}
            }
        }
        match standstills.into_iter().next() {
            Some(rule) => self.chosen(rule, secured, choice),
            None => choice,
        }
    }

    fn chosen(&self, rule: NodeFilter, second: Option<NodeFilter>, choice: Choice) -> Choice {
        match rule.node == self.me {
            true => Choice {
                // Whoever comes last has to look, too.
                elsewhere: match rule.action {
                    Action::Check => self.path.last().map(|step| step.node),
                    _ => None,
                }
                .filter(|&node| node != self.me),
                own: Some(rule),
                ..choice
            },
            false => Choice {
                own: second,
                elsewhere: Some(rule.node),
                ..choice
            },
        }
    }

    /// Proves something in half of the time, and returns what was judged, by place: with the earliest event the most of the
    /// path is gone, and with all contents the sender need not be followed into other words, so that such a filter is
    /// proved soonest.
    fn secure(&mut self, candidates: &[Candidate]) -> BTreeMap<usize, Judged> {
        let own = |(_, candidate): &(usize, &Candidate)| candidate.rule.node == self.me;
        let mut order: Vec<(usize, &Candidate)> =
            candidates.iter().enumerate().filter(own).collect();
        // What only looks is as good as proved.
        order.sort_by_key(|(_, candidate)| {
            let acts = candidate.harm != Harm::Check;
            (acts, candidate.at, candidate.is_narrow())
        });
        let mut judged = BTreeMap::new();
        self.time = ProofTime::Half;
        for (at, candidate) in order {
            let verdict = self.judge(candidate);
            let is_proved = verdict.is_ok();
            if is_proved || !(self.halted)(self.time) {
                judged.insert(at, verdict);
            }
            if is_proved || (self.halted)(self.time) {
                break;
            }
        }
        self.time = ProofTime::All;
        judged
    }

    fn filter(&self, rule: NodeFilter, violation: ViolationId) -> Filter {
        let reason = format!(
            "{}: else, {} events from now, a property may be broken: {}",
            words(&rule),
            self.path.len(),
            self.property
        );
        Filter {
            id: FilterId::new(0),
            matcher: rule.matcher,
            action: rule.action,
            ttl_ms: 0,
            hits_max: 0,
            mode: Mode::Off,
            violation,
            property: cut(self.property.to_owned(), NAME_BYTES_MAX),
            reason: cut(reason, TEXT_BYTES_MAX),
        }
    }
}
