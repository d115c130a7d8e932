//! Filters against what never comes true again, and what any filter does to what must come true.
//!
//! The event to keep back is the critical transition: before it the property can still come true, after it never. Only that one
//! is a candidate; what comes before it does no harm, and what comes after it is too late.
//!
//! - A delay waits for the danger to pass, and it does pass: some execution makes the property come true from the state before,
//!   and up to the first event on it that the filter matches it runs under the filter. When it comes to that event, the event is
//!   harmless, so that the next run lets the filter fall. Only an execution that begins with the event itself, in another way
//!   that chance has, does not wait for anything.
//! - A filter that takes something away must leave a state from which the property can come true, with the filter in force for
//!   good and when it is gone.
//! - Whatever a filter is for: what can come true before its event must be able to come true afterwards. That it cannot
//!   is a reason to refuse only if it is proved.

use scry_protocol::ViolationId;
use scry_protocol::limit::TEXT_BYTES_MAX;

use crate::checker::cut;
use crate::checker::liveness::{self, Fate, Lookout};
use crate::checker::remedy::candidate::{Candidate, Harm, candidates, without_content, words};
use crate::checker::remedy::proof::{PROOF_STATES_MAX, RETRY_STEPS, REWORDED_STEPS};
use crate::checker::remedy::proof::{acted, refuse_new};
use crate::checker::remedy::{Prover, Remedies};
use crate::checker::replay::broken;
use crate::checker::spell::is_steerable;
use scry_engine::explore::{Limits, Options, Search};
use scry_engine::model::event::Step;
use scry_engine::model::simulation::Simulation;
use scry_engine::model::steering::{NodeFilter, Steering};
use scry_engine::service::Service;

/// How many steps are taken before the clock is looked at.
const SLICE_STEPS: u64 = 1024;
/// Among how many states those are that are looked at for whether a delay is over, how many of a level, and how many in all.
const STATES_SAMPLED: u64 = 5_000;
const SAMPLES_AT_ONCE: usize = 4;
const SAMPLES_MAX: usize = 32;

impl<S: Service> Prover<'_, S> {
    /// Looks for a filter that keeps back the last event of the path, after which a property never comes true again.
    pub(crate) fn against_death(mut self, violation: ViolationId) -> Remedies {
        // Whether things can come true is asked exactly, and not within the length of a path.
        self.goals = &[];
        let mut remedies = Remedies::default();
        let Some(last) = self.path.last() else {
            remedies.unhelpful = "it is too late already".to_owned();
            return remedies;
        };
        let critical = liveness::words(last);
        if !is_steerable::<S>(&last.event) {
            remedies.unhelpful =
                format!("nobody can keep back the critical transition: {critical}");
            return remedies;
        }
        if last.node != self.me {
            remedies.neighbor = Some(last.node);
            remedies.unhelpful = format!(
                "only {} can keep back the critical transition: {critical}",
                last.node
            );
            return remedies;
        }
        let (before, live) = match self.alive_before() {
            Ok(alive) => alive,
            Err(reason) => {
                remedies.unhelpful = reason;
                return remedies;
            }
        };
        let mut reasons = Vec::new();
        for candidate in candidates::<S>(self.me, std::slice::from_ref(last), self.order, None) {
            match self.keeps_from_death(&candidate, &before, &live) {
                Ok(()) => {
                    let rule = candidate.rule;
                    remedies.words.push(words(&rule));
                    let mut filter = self.filter(rule, violation);
                    let reason = format!(
                        "{}: else, {} events from now, this may never come true again: {}",
                        remedies.words[0],
                        self.path.len(),
                        self.property
                    );
                    filter.reason = cut(reason, TEXT_BYTES_MAX);
                    remedies.filters.push(filter);
                    return remedies;
                }
                Err(reason) => reasons.push(format!("{}: {reason}", words(&candidate.rule))),
            }
        }
        remedies.unhelpful = reasons.join("; ");
        remedies
    }

    /// Returns the state before the last event, and how the property comes true from there.
    fn alive_before(&mut self) -> Result<(Simulation<S>, Vec<Step<S>>), String> {
        let before = self.after(&self.path[..self.path.len() - 1])?;
        match self.fate_of(self.property, &before) {
            Fate::Comes(live) => Ok((before, live)),
            Fate::Never => Err("it is too late before that".to_owned()),
            Fate::Unknown => Err("whether it is too late before that is not known".to_owned()),
        }
    }

    fn fate_of(&mut self, property: &str, state: &Simulation<S>) -> Fate<S> {
        let time = self.time;
        let fates = self.fates;
        fates.map_or(Fate::Unknown, |fates| {
            fates.of_one(property, state, &mut || (self.halted)(time))
        })
    }

    /// Judges a filter on the critical transition, given the state before it and how the property comes true from there.
    fn keeps_from_death(
        &mut self,
        candidate: &Candidate,
        before: &Simulation<S>,
        live: &[Step<S>],
    ) -> Result<(), String> {
        let Candidate { rule, harm, .. } = candidate;
        let last = &self.path[self.path.len() - 1];
        let steered = before.clone().steered(Steering::new(vec![rule.clone()]));
        let branches = acted(steered, last);
        let waits = *harm == Harm::Delay;
        if waits {
            let first = live.first();
            if first.is_some_and(|step| rule.matches::<S>(step.node, &step.event)) {
                return Err("what it keeps back is the way out as well".to_owned());
            }
        } else {
            for branch in &branches {
                let free = branch.clone().steered(Steering::default());
                for (state, when) in [(&free, "afterwards"), (branch, "while it lasts")] {
                    match self.fate_of(self.property, state) {
                        Fate::Comes(_) => {}
                        Fate::Never => return Err(never(self.property, when)),
                        Fate::Unknown => {
                            return Err(format!(
                                "it cannot be proved that this comes true {when}: {}",
                                self.property
                            ));
                        }
                    }
                }
            }
        }
        self.leaves_alive(candidate, before, &branches, waits)?;
        self.is_not_reworded(candidate, &branches)?;
        let depth = self.path.len().max(RETRY_STEPS);
        let run = self.after(self.path)?;
        let without = self.explore(&run, depth + 1)?;
        for branch in &branches {
            let broken = self.explore(branch, depth)?;
            refuse_new(&broken, &without, None)?;
        }
        self.judge_from_start(rule)
    }

    /// Refuses a filter after which something never comes true that could without it: when the filter has acted and is gone,
    /// or, unless it waits for a danger to pass and falls then, for as long as it lasts.
    pub(super) fn leaves_alive(
        &mut self,
        candidate: &Candidate,
        before: &Simulation<S>,
        branches: &[Simulation<S>],
        waits: bool,
    ) -> Result<(), String> {
        let Some(fates) = self.fates.filter(|fates| !fates.is_empty()) else {
            return Ok(());
        };
        let time = self.time;
        let (properties, property, nodes) = (self.properties, self.property, self.nodes);
        let breaks = |state: &Simulation<S>| {
            broken(state, properties).any(|(name, by)| name == property && by == nodes)
        };
        let rule = &candidate.rule;
        let mut halted = || (self.halted)(time);
        let before = before.clone().steered(Steering::default());
        let without = fates.of(&before, &mut halted);
        let comes = |name: &String| {
            let of_name = |it: &&(String, Fate<S>)| it.0 == *name;
            matches!(without.iter().find(of_name), Some((_, Fate::Comes(_))))
        };
        if !without.iter().any(|(name, _)| comes(name)) {
            return Ok(());
        }
        let lost = |with: Vec<(String, Fate<S>)>| {
            let mut never = with.into_iter().filter(|(_, fate)| *fate == Fate::Never);
            never.find_map(|(name, _)| comes(&name).then_some(name))
        };
        for branch in branches {
            let free = branch.clone().steered(Steering::default());
            if free != before
                && let Some(name) = lost(fates.of(&free, &mut halted))
            {
                return Err(never(&name, "afterwards"));
            }
            if waits {
                continue;
            }
            if let Some(name) = lost(fates.of(branch, &mut halted)) {
                let mut comes = |state: &Simulation<S>| {
                    !breaks(state)
                        && matches!(fates.of_one(&name, state, &mut halted), Fate::Comes(_))
                };
                if candidate.harm != Harm::Delay || !falls(branch, rule, &mut comes) {
                    return Err(never(&name, "while it lasts"));
                }
            }
        }
        Ok(())
    }

    /// Refuses a filter on one content if the same may be said in other words, some steps later, and that is too late for the
    /// property as well.
    fn is_not_reworded(
        &mut self,
        candidate: &Candidate,
        branches: &[Simulation<S>],
    ) -> Result<(), String> {
        let rule = &candidate.rule;
        let (Some(wider), Some(fates)) = (without_content(rule), self.fates) else {
            return Ok(());
        };
        let depth = self.path.len() + REWORDED_STEPS;
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        let limits = Limits {
            states: Some(PROOF_STATES_MAX),
            depth: Some(depth),
            bytes: Some(self.bytes_max),
            first_violation: false,
        };
        for branch in branches {
            let properties = fates.eventually.to_vec();
            let mut lookout = Lookout::new(branch, properties, (limits, depth), 1, self.clock)?;
            while !lookout.is_over() {
                let dead = lookout.advance(SLICE_STEPS);
                let says_so = dead.iter().any(|dead| {
                    let last = dead.path.last();
                    dead.property == self.property
                        && last.is_some_and(|step| {
                            wider.matches::<S>(step.node, &step.event)
                                && !rule.matches::<S>(step.node, &step.event)
                        })
                });
                if says_so {
                    return Err("the next try says it in other words".to_owned());
                }
                if (self.halted)(self.time) {
                    return Err("it cannot be proved that the next try is harmless".to_owned());
                }
            }
        }
        Ok(())
    }
}

fn never(property: &str, when: &str) -> String {
    format!("then this never comes true {when}: {property}")
}

/// Tells whether a delay may come to its end: whether states can follow under it in which the event is harmless, or gone. Some of
/// the nearest are looked at.
fn falls<S: Service>(
    branch: &Simulation<S>,
    rule: &NodeFilter,
    is_fine: &mut dyn FnMut(&Simulation<S>) -> bool,
) -> bool {
    let options = Options {
        limits: Limits {
            states: Some(STATES_SAMPLED),
            ..Limits::default()
        },
        ..Options::default()
    };
    let Ok(mut search) = Search::new(branch, Vec::new(), options) else {
        return false;
    };
    let mut left = SAMPLES_MAX;
    loop {
        let stop = search.advance(1);
        let samples = search.waiting(left.min(SAMPLES_AT_ONCE));
        left -= samples.len();
        for sample in samples {
            let free = sample.steered(Steering::default());
            let matched = |(step, after): (Step<S>, Simulation<S>)| {
                rule.matches::<S>(step.node, &step.event).then_some(after)
            };
            let after: Vec<Simulation<S>> =
                free.successors().into_iter().filter_map(matched).collect();
            let is_over = match after.is_empty() {
                true => is_fine(&free),
                false => after.iter().all(&mut *is_fine),
            };
            if is_over {
                return true;
            }
        }
        if stop.is_some() || left == 0 {
            return false;
        }
    }
}
