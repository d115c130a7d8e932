//! Filters against a violation, and the proof that one helps and does no harm (A-96…A-101).
//!
//! The events of the path that this node handles are tried from the earliest on, and for each the narrowest filter first.
//! A candidate acts on its event, stays in force, and what follows is searched, with everybody's reactions, at least as
//! deep as the path and deep enough for the sender to try once more:
//!
//! - The property must not be broken there: a filter that only puts the violation off is of no use.
//! - No other property may be broken there that is not broken as well if the event runs: else the filter would be to
//!   blame.
//! - From the start state on, the filter may break nothing that is not broken without it.
//! - A filter on one content must also stand against a sender that says the same in other words: some steps deeper, no
//!   message of the same kind from the same sender may lead to the violation.
//!
//! Consequence prediction is no proof in the mathematical sense: it is the paper's, with its blind spots.

use std::collections::BTreeSet;

use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::limit::{NAME_BYTES_MAX, TEXT_BYTES_MAX};
use scry_protocol::{Digest, FilterId, NodeId, ViolationId};
use serde::Serialize;

use crate::checker::spell::is_steerable;
use crate::checker::{Pace, cut};
use crate::explore::{Limits, Options, Search, Stop, Strategy, Violation};
use crate::hook::kind_of;
use crate::model::event::{Event, EventOf, Step};
use crate::model::simulation::Simulation;
use crate::model::steering::{Rule, Steering, digest_of};
use crate::property::Property;
use crate::service::Service;
use crate::timing::Clock;

/// How many states one search of a proof may find. Beyond, nothing is proved.
const PROOF_STATES_MAX: u64 = 200_000;
/// What a retry costs: the step that is filtered, and the sender's timer.
const RETRY_STEPS: usize = 2;
/// How much deeper a retry in other words is looked for.
const REWORDED_STEPS: usize = 4;

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
}

/// Looks for remedies against one violation.
pub(crate) struct Prover<'a, S: Service> {
    pub(crate) start: &'a Simulation<S>,
    pub(crate) properties: &'a [Property<S>],
    pub(crate) me: NodeId,
    pub(crate) property: &'a str,
    pub(crate) path: &'a [Step<S>],
    /// How well clocks and timers are kept.
    pub(crate) clock: Clock,
    pub(crate) bytes_max: u64,
    /// Tells whether the time for proofs is over.
    pub(crate) halted: &'a mut dyn FnMut() -> bool,
    /// What is broken from the start state without any filter, as deep as the path, once it is known.
    pub(crate) baseline: Option<BTreeSet<String>>,
}

/// What a search that belongs to a proof came to.
struct Searched<S: Service> {
    violations: Vec<Violation<S>>,
    /// Whether it saw all it was to see.
    finished: bool,
}

impl<S: Service> Searched<S> {
    fn broken(&self) -> impl Iterator<Item = &str> {
        self.violations
            .iter()
            .map(|violation| violation.property.as_str())
    }
}

impl<S: Service> Prover<'_, S> {
    pub(crate) fn remedies(mut self, violation: ViolationId) -> Remedies {
        let steerable = self.path.iter().find(|step| is_steerable::<S>(&step.event));
        let neighbor = steerable
            .map(|step| step.node)
            .filter(|&node| node != self.me);
        let mut remedies = Remedies {
            neighbor,
            ..Remedies::default()
        };
        let mut reasons = Vec::new();
        let mut tried: Vec<Rule> = Vec::new();
        let (me, path) = (self.me, self.path);
        for step in path.iter().filter(|step| step.node == me) {
            for rule in candidates::<S>(me, &step.event) {
                if tried.contains(&rule) {
                    continue;
                }
                tried.push(rule.clone());
                match self.judge(&rule) {
                    Ok(()) => {
                        remedies.words.push(words(&rule));
                        remedies.filters.push(self.filter(rule, violation));
                        return remedies;
                    }
                    Err(reason) => reasons.push(format!("{}: {reason}", words(&rule))),
                }
            }
        }
        remedies.unhelpful = match (self.path.is_empty(), reasons.is_empty()) {
            (true, _) => "it is broken already".to_owned(),
            (_, true) => format!("nothing that {} could filter happens on the path", self.me),
            _ => reasons.join("; "),
        };
        remedies
    }

    fn judge(&mut self, rule: &Rule) -> Result<(), String> {
        let acts = |step: &Step<S>| rule.matches::<S>(step.node, &step.event);
        let at = self.path.iter().position(acts);
        let at = at.expect("a candidate matches the event it was made for");
        let before = self.after(&self.path[..at])?;
        let length = self.path.len();
        let depth = length.max(length - at + RETRY_STEPS);
        let steered = before.steered(Steering::new(vec![rule.clone()]));
        let branches = acted(steered, &self.path[at]);
        let mut others = BTreeSet::new();
        for branch in &branches {
            let ahead = self.explore(branch, depth - 1)?;
            if let Some(again) = ahead
                .violations
                .iter()
                .find(|v| v.property == self.property)
            {
                let steps = again.path.len();
                return Err(format!("it only puts it off, by {steps} events"));
            }
            others.extend(ahead.broken().map(str::to_owned));
        }
        if !others.is_empty() {
            let run = self.after(&self.path[..=at])?;
            let without = self.explore(&run, depth - 1)?;
            refuse_new(&others, &without.broken().map(str::to_owned).collect())?;
        }
        self.judge_from_start(rule)?;
        for branch in &branches {
            self.judge_reworded(rule, branch, depth - 1)?;
        }
        Ok(())
    }

    /// Judges what the filter does from the start state on, off the path too.
    fn judge_from_start(&mut self, rule: &Rule) -> Result<(), String> {
        let length = self.path.len();
        let steered = self
            .start
            .clone()
            .steered(Steering::new(vec![rule.clone()]));
        let mut broken: BTreeSet<String> = self
            .explore(&steered, length)?
            .broken()
            .map(str::to_owned)
            .collect();
        // Other ways to the same violation are there without the filter as well.
        broken.remove(self.property);
        if broken.is_empty() {
            return Ok(());
        }
        if self.baseline.is_none() {
            let without = self.explore(&self.start.clone(), length)?;
            self.baseline = Some(without.broken().map(str::to_owned).collect());
        }
        refuse_new(&broken, self.baseline.as_ref().expect("it was just set"))
    }

    /// Judges whether the sender gets the same past a filter on content by saying it in other words.
    fn judge_reworded(
        &mut self,
        rule: &Rule,
        steered: &Simulation<S>,
        depth: usize,
    ) -> Result<(), String> {
        let Some(wider) = without_content(rule) else {
            return Ok(());
        };
        let ahead = self.explore(steered, depth + REWORDED_STEPS)?;
        let reworded = ahead.violations.iter().any(|violation| {
            let passes = |step: &Step<S>| {
                wider.matches::<S>(step.node, &step.event)
                    && !rule.matches::<S>(step.node, &step.event)
            };
            violation.property == self.property && violation.path.iter().any(passes)
        });
        match reworded {
            true => Err("the next try says it in other words".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns the state after a part of the path.
    fn after(&self, path: &[Step<S>]) -> Result<Simulation<S>, String> {
        let mut state = self.start.clone();
        for step in path {
            state.step(step).map_err(|error| error.to_string())?;
        }
        Ok(state)
    }

    fn explore(&mut self, start: &Simulation<S>, depth: usize) -> Result<Searched<S>, String> {
        let options = Options {
            strategy: Strategy::Consequence,
            limits: Limits {
                states: Some(PROOF_STATES_MAX),
                depth: Some(u32::try_from(depth).unwrap_or(u32::MAX)),
                bytes: Some(self.bytes_max),
                first_violation: false,
            },
            threads: 1,
            pruning: true,
            clock: self.clock,
        };
        let mut search = Search::new(start, self.properties.to_vec(), options)
            .map_err(|error| error.to_string())?;
        let pace = Pace::default();
        let stop = loop {
            if let Some(stop) = search.advance(pace.steps()) {
                break stop;
            }
            if (self.halted)() {
                break Stop::Caller;
            }
        };
        let searched = Searched {
            violations: search.found(0).0,
            finished: matches!(stop, Stop::Exhausted | Stop::Depth),
        };
        // What may or may not happen in time is not proved not to.
        let undecided = search.unfit().1.into_iter().find(|unfit| !unfit.impossible);
        match (searched.finished, undecided) {
            (true, None) => Ok(searched),
            (true, Some(unfit)) => Err(format!(
                "it cannot be proved: whether there is time for this is not decided: {}",
                unfit.property
            )),
            (false, _) => Err(format!("it cannot be proved: {stop}")),
        }
    }

    fn filter(&self, rule: Rule, violation: ViolationId) -> Filter {
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

/// Returns the states after a filter has acted on an event: several if the node chooses what to do about a connection
/// that is reset. What is postponed or refused leaves the state as it is.
fn acted<S: Service>(steered: Simulation<S>, step: &Step<S>) -> Vec<Simulation<S>> {
    let acts = |(taken, after): (Step<S>, Simulation<S>)| {
        (taken.node == step.node && taken.event == step.event).then_some(after)
    };
    let branches: Vec<Simulation<S>> = steered.successors().into_iter().filter_map(acts).collect();
    match branches.is_empty() {
        true => vec![steered],
        false => branches,
    }
}

fn refuse_new(with: &BTreeSet<String>, without: &BTreeSet<String>) -> Result<(), String> {
    match with.difference(without).next() {
        Some(broken) => Err(format!("another property may be broken then: {broken}")),
        None => Ok(()),
    }
}

/// Lists the filters that could act on an event at a node, the narrowest first.
fn candidates<S: Service>(node: NodeId, event: &EventOf<S>) -> Vec<Rule> {
    let rule = |matcher, action| Rule {
        node,
        matcher,
        action,
    };
    match event {
        Event::Deliver { from, message } | Event::Receive { from, message, .. } => {
            let actions: &[Action] = match event {
                Event::Receive { .. } => &[Action::Drop, Action::Reset],
                _ => &[Action::Drop],
            };
            let mut rules = Vec::new();
            for &action in actions {
                rules.extend(contents(message).into_iter().map(|content| {
                    let matcher = Matcher::Message {
                        kind: kind_of(message).to_owned(),
                        source: *from,
                        destination: node,
                        content,
                    };
                    rule(matcher, action)
                }));
            }
            rules
        }
        Event::Timer(timer) => {
            let kind = kind_of(timer).to_owned();
            let matchers = contents(timer).into_iter().map(|content| Matcher::Timer {
                kind: kind.clone(),
                content,
            });
            matchers
                .map(|matcher| rule(matcher, Action::Postpone))
                .collect()
        }
        Event::Call(call) => {
            let kind = kind_of(call).to_owned();
            let matchers = contents(call).into_iter().map(|content| Matcher::Call {
                kind: kind.clone(),
                content,
            });
            matchers
                .map(|matcher| rule(matcher, Action::Refuse))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Lists the contents a filter may name, the narrowest first. A value that is nothing but its name needs none.
fn contents<T: Serialize>(value: &T) -> Vec<Option<Digest>> {
    let digest = digest_of(value).filter(|&digest| digest_of(&kind_of(value)) != Some(digest));
    digest.map(Some).into_iter().chain([None]).collect()
}

fn without_content(rule: &Rule) -> Option<Rule> {
    let mut wider = rule.clone();
    let (Matcher::Message { content, .. }
    | Matcher::Timer { content, .. }
    | Matcher::Call { content, .. }) = &mut wider.matcher;
    content.take().map(|_| wider)
}

/// Says what a filter does.
pub fn words(rule: &Rule) -> String {
    let (what, content) = match &rule.matcher {
        Matcher::Message {
            kind,
            source,
            content,
            ..
        } => (format!("{kind} from {source}"), content),
        Matcher::Timer { kind, content } => (format!("timer {kind}"), content),
        Matcher::Call { kind, content } => (format!("call {kind}"), content),
    };
    let which = if content.is_some() { "this " } else { "" };
    format!("{} {which}{what} at {}", rule.action, rule.node)
}
