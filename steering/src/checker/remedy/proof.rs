//! The proof that a filter helps and does no harm: searches under the filter, held against searches without it.

use std::collections::{BTreeSet, HashSet, VecDeque};

use scry_protocol::NodeId;
use scry_protocol::filter::Action;
use scry_protocol::link::checker::Order;

use crate::checker::remedy::Prover;
use crate::checker::remedy::candidate::{Candidate, Harm, veto, without_content};
use crate::checker::replay::{Broken, broken, replay, set_of};
use scry_engine::explore::{Limits, Options, Search, Stop, Strategy, Violation};
use scry_engine::model::event::{Event, EventOf, Step};
use scry_engine::model::fault::Faults;
use scry_engine::model::network::Parcel;
use scry_engine::model::simulation::Simulation;
use scry_engine::model::steering::{NodeFilter, Steering};
use scry_engine::property::Property;
use scry_engine::service::Service;
use scry_engine::timing::Clock;

/// How many states one search of a proof may find. Beyond, nothing is proved.
pub(super) const PROOF_STATES_MAX: u64 = 200_000;
/// What a retry costs: the step that is filtered, and the sender's timer.
pub(super) const RETRY_STEPS: usize = 2;
/// How much deeper a retry in other words is looked for.
pub(super) const REWORDED_STEPS: usize = 4;
/// How many steps a search takes before the clock is looked at. The first slices are smaller, so that early states are
/// among the samples.
const SLICE_STEPS: u64 = 256;
/// How many states that wait to be expanded are looked at after a slice, and how many in all, for whether a danger passed.
const SAMPLES_AT_ONCE: usize = 8;
const SAMPLES_MAX: usize = 96;
/// How many states are looked at for whether a system goes on. With more, it does.
const MOVES_MAX: usize = 128;

/// What becomes of the danger while a filter lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Danger {
    /// States can follow in which the event would break nothing any more, or the event is gone for good.
    Passes,
    /// None was found.
    Lasts,
}

/// How far [`judge_veto`] looks.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Events on a path.
    pub depth: u32,
    /// States.
    pub states: u64,
    /// Bytes of memory.
    pub bytes: u64,
}

/// A search that belongs to a proof.
struct Task<'a, S: Service> {
    start: &'a Simulation<S>,
    properties: Vec<Property<S>>,
    bound: Bound,
    clock: Clock,
}

impl<S: Service> Task<'_, S> {
    /// Searches, and shows what is found and what waits after each slice to somebody who may end it for a reason.
    fn run(
        self,
        halted: &mut dyn FnMut() -> bool,
        mut watch: impl FnMut(&Search<S>, &[Violation<S>]) -> Result<(), String>,
    ) -> Result<Vec<Violation<S>>, String> {
        let options = Options {
            // Whatever found the violation: a proof needs a strategy that looks everywhere within its bounds, and says so.
            strategy: Strategy::CONSEQUENCE,
            limits: Limits {
                states: Some(self.bound.states),
                depth: Some(self.bound.depth),
                bytes: Some(self.bound.bytes),
                first_violation: false,
            },
            clock: self.clock,
            ..Options::default()
        };
        let mut search =
            Search::new(self.start, self.properties, options).map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        let mut known = 0;
        let mut steps = 4;
        loop {
            let stop = search.advance(steps);
            steps = (steps * 2).min(SLICE_STEPS);
            let found = search.found(known);
            known = found.known;
            watch(&search, &found.violations)?;
            all.extend(found.violations);
            match stop {
                Some(Stop::Exhausted | Stop::Depth) => return decided(&search, all),
                Some(stop) => return Err(format!("it cannot be proved: {stop}")),
                None if halted() => return Err(format!("it cannot be proved: {}", Stop::Caller)),
                None => {}
            }
        }
    }
}

/// What may or may not happen in time is not proved not to.
fn decided<S: Service>(
    search: &Search<S>,
    all: Vec<Violation<S>>,
) -> Result<Vec<Violation<S>>, String> {
    match search.unfit().1.into_iter().find(|unfit| !unfit.impossible) {
        None => Ok(all),
        Some(unfit) => Err(format!(
            "it cannot be proved: whether there is time for this is not decided: {}",
            unfit.property
        )),
    }
}

impl<S: Service> Prover<'_, S> {
    /// Proves that a candidate helps and does no harm, or says what speaks against it.
    pub(super) fn judge(&mut self, candidate: &Candidate) -> Result<Danger, String> {
        let Candidate { rule, at, harm } = candidate;
        if *harm == Harm::Check {
            return self.judge_check(candidate);
        }
        let before = self.after(&self.path[..*at])?;
        let length = self.path.len();
        let depth = length.max(length - at + RETRY_STEPS) - 1;
        let steered = before.clone().steered(Steering::new(vec![rule.clone()]));
        let branches = acted(steered, &self.path[*at]);
        if self.order == Order::LeastHarm
            && self.goes_on(&before)
            && !branches.iter().any(|branch| self.goes_on(branch))
        {
            return Err("it stops everything".to_owned());
        }
        let mut others = BTreeSet::new();
        let mut danger = Danger::Passes;
        for branch in &branches {
            let (broken, then) = self.judge_branch(candidate, branch, depth)?;
            others.extend(broken);
            if then == Danger::Lasts {
                danger = Danger::Lasts;
            }
        }
        if !others.is_empty() {
            // One step deeper: what happens beside the event is not to seem new because the event took a step.
            let run = self.after(&self.path[..=*at])?;
            let without = self.explore(&run, depth + 1)?;
            refuse_new(&others, &without, Some(self.property))?;
        }
        self.judge_from_start(rule)?;
        let waits = *harm == Harm::Delay && danger == Danger::Passes;
        // Last, since it takes long and seldom finds anything.
        self.leaves_alive(candidate, &before, &branches, waits)?;
        Ok(match harm {
            Harm::Delay => danger,
            _ => Danger::Passes,
        })
    }

    /// Judges what follows if the last event of the path is refused when it would break the property.
    ///
    /// The filter itself does nothing, and whoever refuses looks at the states of that moment; so it is taken unless
    /// something is found that speaks against it: that the property is broken all the same, by an event that is not
    /// looked at, or something else is.
    fn judge_check(&mut self, candidate: &Candidate) -> Result<Danger, String> {
        let Candidate { rule, at, .. } = candidate;
        if at + 1 < self.path.len() {
            // It breaks the property only in another order of events, of which nothing is known yet.
            return Ok(Danger::Passes);
        }
        let before = self.after(&self.path[..*at])?;
        let event = &self.path[*at].event;
        let kept_back = kept_back(&before, rule.node, event)?;
        let bound = self
            .task(&before, self.path.len().max(RETRY_STEPS), Vec::new())
            .bound;
        let clock = self.clock;
        let mut others = BTreeSet::new();
        for start in &kept_back {
            let properties = self.properties.to_vec();
            let task = Task {
                start,
                properties,
                bound,
                clock,
            };
            let (property, nodes) = (self.property, self.nodes);
            let gets_past = |violation: &Violation<S>| {
                let mut last = violation.path.last().into_iter();
                violation.property == property
                    && violation.nodes == nodes
                    && !last.any(|step| rule.matches::<S>(step.node, &step.event))
            };
            let mut broken_all_the_same = false;
            let time = self.time;
            let found = task.run(&mut || (self.halted)(time), |_, found| {
                broken_all_the_same |= found.iter().any(gets_past);
                match broken_all_the_same {
                    true => Err("it only puts it off".to_owned()),
                    false => Ok(()),
                }
            });
            match found {
                Err(reason) if broken_all_the_same => return Err(reason),
                Ok(found) => others.extend(all_broken(found)),
                Err(_) => {}
            }
        }
        others.retain(|(name, _)| name != self.property);
        if !others.is_empty() {
            let run = self.after(self.path)?;
            if let Ok(without) = self.explore(&run, self.path.len() + 1) {
                refuse_new(&others, &without, None)?;
            }
        }
        Ok(Danger::Passes)
    }

    /// Judges what follows after a filter has acted, and returns what else is broken there, and whether the danger passes.
    ///
    /// One search serves both questions: what is broken as deep as the path, and whether the sender gets the same past a
    /// filter on content by saying it in other words, which is looked for some steps deeper.
    fn judge_branch(
        &mut self,
        candidate: &Candidate,
        branch: &Simulation<S>,
        depth: usize,
    ) -> Result<(BTreeSet<Broken>, Danger), String> {
        let rule = &candidate.rule;
        let wider = without_content(rule);
        let deeper = wider.as_ref().map_or(0, |_| REWORDED_STEPS);
        let (property, nodes) = (self.property, self.nodes);
        let object = |violation: &Violation<S>| {
            if violation.property != property || violation.nodes != nodes {
                return None;
            }
            let steps = violation.path.len();
            if steps <= depth {
                return Some(format!("it only puts it off, by {steps} events"));
            }
            let passes = |step: &Step<S>| {
                wider.as_ref().is_some_and(|wider| {
                    wider.matches::<S>(step.node, &step.event)
                        && !rule.matches::<S>(step.node, &step.event)
                })
            };
            let reworded = violation.path.iter().any(passes);
            reworded.then(|| "the next try says it in other words".to_owned())
        };
        let rest = &self.path[candidate.at..];
        let properties = self.properties;
        let mut danger = Danger::Lasts;
        let mut samples_left = match candidate.harm {
            Harm::Delay => SAMPLES_MAX,
            _ => 0,
        };
        let watch = |search: &Search<S>, found: &[Violation<S>]| {
            if let Some(reason) = found.iter().find_map(&object) {
                return Err(reason);
            }
            if danger == Danger::Lasts && samples_left > 0 {
                let samples = search.waiting(SAMPLES_AT_ONCE.min(samples_left));
                samples_left -= samples.len();
                let passed = |state: &Simulation<S>| {
                    state.faults() == branch.faults()
                        && has_passed(state, rest, properties, (property, nodes))
                };
                if samples.iter().any(passed) {
                    danger = Danger::Passes;
                }
            }
            Ok(())
        };
        let task = self.task(branch, depth + deeper, Vec::new());
        let time = self.time;
        let found = task.run(&mut || (self.halted)(time), watch)?;
        let broken = found
            .into_iter()
            .filter(|violation| violation.path.len() <= depth)
            .map(|violation| (violation.property, violation.nodes));
        Ok((broken.collect(), danger))
    }

    /// Judges what the filter does from the start state on, off the path too: what it breaks, and what can come true no
    /// more.
    pub(super) fn judge_from_start(&mut self, rule: &NodeFilter) -> Result<(), String> {
        let length = self.path.len();
        let steered = self
            .start
            .clone()
            .steered(Steering::new(vec![rule.clone()]));
        let mut seen = self.seen_from(&steered, length)?;
        let is_goal = |broken: &Broken| self.goals.iter().any(|goal| goal.name() == broken.0);
        let reached: BTreeSet<Broken> = seen.iter().filter(|it| is_goal(it)).cloned().collect();
        // Other ways to the same violation are there without the filter as well.
        seen.retain(|broken| !is_goal(broken) && broken.0 != self.property);
        if seen.is_empty() && reached.len() == self.goals.len() {
            return Ok(());
        }
        if self.baseline.is_none() {
            self.baseline = Some(self.seen_from(&self.start.clone(), length)?);
        }
        let baseline = self.baseline.as_ref().expect("it was just set");
        refuse_new(&seen, baseline, None)?;
        let is_in = |all: &BTreeSet<Broken>, goal: &Property<S>| {
            all.iter().any(|(name, _)| name == goal.name())
        };
        let missed = self
            .goals
            .iter()
            .find(|goal| is_in(baseline, goal) && !is_in(&reached, goal));
        match missed {
            Some(goal) => Err(format!("then this cannot come true: {}", goal.name())),
            None => Ok(()),
        }
    }

    /// Tells whether something other than a fault changes what some node knows, without breaking the property, within the
    /// length of the path.
    fn goes_on(&self, from: &Simulation<S>) -> bool {
        let mut from = from.clone();
        from.set_faults(Faults::NONE);
        let mut seen = HashSet::from([from.clone()]);
        let mut waiting = VecDeque::from([(from.clone(), 0)]);
        while let Some((state, depth)) = waiting.pop_front() {
            for (_, next) in state.successors() {
                let breaks =
                    |(property, nodes): Broken| property == self.property && nodes == self.nodes;
                if broken(&next, self.properties).any(breaks) {
                    continue;
                }
                let moved = |node: &NodeId| next.nodes()[node].local != from.nodes()[node].local;
                if next.nodes().keys().any(moved) || seen.len() >= MOVES_MAX {
                    return true;
                }
                if depth + 1 < self.path.len() && seen.insert(next.clone()) {
                    waiting.push_back((next, depth + 1));
                }
            }
        }
        false
    }

    /// Returns the state after a part of the path.
    pub(super) fn after(&self, path: &[Step<S>]) -> Result<Simulation<S>, String> {
        let mut state = self.start.clone();
        for step in path {
            state.step(step).map_err(|error| error.to_string())?;
        }
        Ok(state)
    }

    /// Lists what is broken within a depth.
    pub(super) fn explore(
        &mut self,
        from: &Simulation<S>,
        depth: usize,
    ) -> Result<BTreeSet<Broken>, String> {
        let task = self.task(from, depth, Vec::new());
        let time = self.time;
        let found = task.run(&mut || (self.halted)(time), |_, _| Ok(()))?;
        Ok(all_broken(found))
    }

    /// Lists by name what is broken within a depth, and the goals that are reached.
    fn seen_from(
        &mut self,
        from: &Simulation<S>,
        depth: usize,
    ) -> Result<BTreeSet<Broken>, String> {
        let task = self.task(from, depth, self.goals.to_vec());
        let time = self.time;
        let found = task.run(&mut || (self.halted)(time), |_, _| Ok(()))?;
        Ok(all_broken(found))
    }

    fn task<'t>(
        &self,
        start: &'t Simulation<S>,
        depth: usize,
        goals: Vec<Property<S>>,
    ) -> Task<'t, S> {
        let mut properties = self.properties.to_vec();
        properties.extend(goals);
        Task {
            start,
            properties,
            bound: Bound {
                depth: u32::try_from(depth).unwrap_or(u32::MAX),
                states: PROOF_STATES_MAX,
                bytes: self.bytes_max,
            },
            clock: self.clock,
        }
    }
}

/// Judges what comes of keeping one event from its handler as an immediate check does: a datagram is lost, a connection is
/// reset with its message, a call is refused, a timer or the news of a lost connection comes later.
///
/// What follows is searched, with everybody's reactions, as deep as the bound says. A message that is about to be handled
/// need not be on its way in the state.
///
/// # Errors
///
/// When a property may be broken that is not broken as well if the event runs, or when that cannot be told within the
/// bound: then the event should run. Also when such an event cannot be kept back at all.
pub fn judge_veto<S: Service>(
    state: &Simulation<S>,
    properties: &[Property<S>],
    node: NodeId,
    event: &EventOf<S>,
    bound: Bound,
    clock: Clock,
    halted: &mut dyn FnMut() -> bool,
) -> Result<(), String> {
    let mut before = state.clone();
    if !before.enabled(node).contains(event) {
        send_for(&mut before, node, event);
    }
    let kept_back = kept_back(&before, node, event)?;
    let mut look = |states: Vec<Simulation<S>>| -> Result<BTreeSet<Broken>, String> {
        let mut all = BTreeSet::new();
        for start in &states {
            let properties = properties.to_vec();
            let task = Task {
                start,
                properties,
                bound,
                clock,
            };
            all.extend(all_broken(task.run(halted, |_, _| Ok(()))?));
        }
        Ok(all)
    };
    let with = look(kept_back)?;
    if with.is_empty() {
        return Ok(());
    }
    let without = look(ways(&before, node, event))?;
    refuse_new(&with, &without, None)
}

/// Returns the states after an event was kept from its handler once.
fn kept_back<S: Service>(
    before: &Simulation<S>,
    node: NodeId,
    event: &EventOf<S>,
) -> Result<Vec<Simulation<S>>, String> {
    let rule = veto::<S>(node, event).ok_or("it cannot be kept back")?;
    let steering = Steering::new(vec![rule.clone()]);
    let steered = before.clone().steered(steering);
    Ok(match rule.action {
        // It acts once and is over: what comes next is not kept back.
        Action::Drop | Action::Reset => ways(&steered, node, event)
            .into_iter()
            .map(|after| after.steered(Steering::default()))
            .collect(),
        Action::Postpone | Action::Refuse | Action::Hold | Action::Check => vec![steered],
    })
}

/// Returns the states to which an event leads.
fn ways<S: Service>(state: &Simulation<S>, node: NodeId, event: &EventOf<S>) -> Vec<Simulation<S>> {
    let steps = state.successors().into_iter();
    let same = steps.filter(|(step, _)| step.node == node && step.event == *event);
    same.map(|(_, after)| after).collect()
}

/// Puts a message on its way that an event delivers.
fn send_for<S: Service>(state: &mut Simulation<S>, node: NodeId, event: &EventOf<S>) {
    let (from, parcel) = match event {
        Event::Deliver { from, message } => (*from, Parcel::Datagram(message.clone())),
        Event::Receive {
            from,
            connection,
            message,
        } => {
            let segment = Parcel::Segment {
                connection: *connection,
                first: true,
                message: message.clone(),
            };
            (*from, segment)
        }
        _ => return,
    };
    state.post(from, vec![(node, parcel)]);
}

/// Tells whether the rest of a path no longer breaks a property from a state, with no filter in force.
fn has_passed<S: Service>(
    state: &Simulation<S>,
    rest: &[Step<S>],
    properties: &[Property<S>],
    (property, nodes): (&str, &[NodeId]),
) -> bool {
    let free = state.clone().steered(Steering::default());
    replay(&free, rest, properties)
        .is_none_or(|replay| replay.property != property || replay.nodes != nodes)
}

/// Returns the states after a filter has acted on an event: several if the node chooses what to do about a connection
/// that is reset. What is held, postponed or refused leaves the state as it is.
pub(super) fn acted<S: Service>(steered: Simulation<S>, step: &Step<S>) -> Vec<Simulation<S>> {
    let acts = |(taken, after): (Step<S>, Simulation<S>)| {
        (taken.node == step.node && taken.event == step.event).then_some(after)
    };
    let branches: Vec<Simulation<S>> = steered.successors().into_iter().filter_map(acts).collect();
    match branches.is_empty() {
        true => vec![steered],
        false => branches,
    }
}

fn all_broken<S: Service>(found: Vec<Violation<S>>) -> BTreeSet<Broken> {
    let found = found.into_iter();
    let broken = found.map(|violation| (violation.property, violation.nodes));
    set_of(broken.collect())
}

/// Refuses what breaks something that is not broken without it. Of the property `by_node` it counts which nodes break it,
/// of others only whether somebody does.
pub(super) fn refuse_new(
    with: &BTreeSet<Broken>,
    without: &BTreeSet<Broken>,
    by_node: Option<&str>,
) -> Result<(), String> {
    let is_new = |broken: &&Broken| match by_node == Some(broken.0.as_str()) {
        true => !without.contains(broken),
        false => without.iter().all(|(name, _)| *name != broken.0),
    };
    match with.iter().find(is_new) {
        Some((name, _)) if by_node == Some(name) => Err("other nodes may break it then".to_owned()),
        Some((name, _)) => Err(format!("another property may be broken then: {name}")),
        None => Ok(()),
    }
}
