//! The part of a run that is about what must come true again and again.

use scry_protocol::ViolationId;
use scry_protocol::filter::Mode;
use scry_protocol::limit::{NAME_BYTES_MAX, PROPERTIES_MAX};
use scry_protocol::link::checker::{How, Job, PastPath, Unjudged};

use crate::checker::liveness::{Fate, Fates, Lookout, SHARE, words};
use crate::checker::remedy::Remedies;
use crate::checker::replay;
use crate::checker::{Pace, Run, SHARE_OF_TIME, Seen, clock_of, cut, is_off, path};
use scry_engine::explore::report::{Dead, How as Violated};
use scry_engine::explore::{ALL_AT_ONCE, Limits, Strategy, Violation};
use scry_engine::model::event::Step;
use scry_engine::model::simulation::Simulation;
use scry_engine::property::Property;
use scry_engine::service::Service;
use scry_engine::timing::Time;
use scry_engine::timing::find::{Settled, settle};

/// How many states are looked at to learn what a filter against a broken property does to others, and how many to prevent
/// that one never comes true.
const FATES_BRIEFLY: u64 = 5_000;
const FATES_AT_LENGTH: u64 = 100_000;
/// The search comes to its conclusions when this many parts of eight of the time are over.
const EIGHTHS: u64 = 7;

/// A search for dead states with what it took so far.
pub(in crate::checker) struct Beside<S: Service> {
    lookout: Lookout<S>,
    pace: Pace,
    took_ms: u64,
}

/// Answers what can still come true; nothing if that is not asked, or not all nodes and messages are in view.
pub(in crate::checker) fn fates<'a, S: Service>(
    (job, start, all_mail): (&Job, &Simulation<S>, bool),
    (eventually, goals): (&'a [Property<S>], &'a [Property<S>]),
    at_length: bool,
) -> Option<Fates<'a, S>> {
    let asked = job.liveness != Mode::Off && !eventually.is_empty();
    let is_known = all_mail && start.scope().is_whole();
    (asked && is_known).then_some(Fates {
        eventually,
        goals,
        states_max: match at_length {
            true => FATES_AT_LENGTH,
            false => FATES_BRIEFLY,
        },
        bytes_max: job.budget.memory_bytes_max / SHARE,
    })
}

impl<S: Service> Run<'_, S> {
    /// Prepares the search for dead states, if there is anything to look for.
    pub(in crate::checker) fn lookout(&mut self) -> Option<Beside<S>> {
        if self.job.liveness == Mode::Off || self.eventually.is_empty() {
            return None;
        }
        if !self.start.scope().is_whole() {
            let why = "not all nodes are in view, so nobody knows whether it can still come true";
            self.leave_unjudged(why);
            return None;
        }
        if !self.all_mail {
            let why =
                "not all messages on their way are known, and one of them may make it come true";
            self.leave_unjudged(why);
            return None;
        }
        let budget = self.job.budget;
        let limits = Limits {
            states: Some(budget.states_max),
            depth: None,
            bytes: Some(budget.memory_bytes_max / SHARE),
            first_violation: false,
        };
        let made = Lookout::new(
            &self.start,
            self.eventually.clone(),
            (limits, budget.depth_max),
            self.threads,
            clock_of(self.job),
        );
        match made {
            Ok(lookout) => Some(Beside {
                lookout,
                pace: Pace::default(),
                took_ms: 0,
            }),
            Err(error) => {
                self.leave_unjudged(&error);
                None
            }
        }
    }

    fn leave_unjudged(&mut self, why: &str) {
        for property in &self.eventually {
            let name = cut(property.name().to_owned(), NAME_BYTES_MAX);
            let is_told = self.unjudged.iter().any(|it| it.property == name);
            if !is_told && self.unjudged.len() < PROPERTIES_MAX {
                self.unjudged.push(Unjudged {
                    property: name,
                    why: cut(why.to_owned(), NAME_BYTES_MAX),
                });
            }
        }
    }

    /// Goes on looking for dead states, if it is their turn: beside the search for violations, or alone when that has ended.
    pub(in crate::checker) fn look_out(&mut self, beside: &mut Option<Beside<S>>, alone: bool) {
        let Some(Beside {
            lookout,
            pace,
            took_ms,
        }) = beside
        else {
            return;
        };
        let begun = self.shell.elapsed_ms();
        if lookout.is_over() || (!alone && took_ms.saturating_mul(SHARE) > begun) {
            return;
        }
        if begun >= self.job.budget.time_ms / 8 * EIGHTHS {
            lookout.come_to_an_end();
        }
        let found = lookout.advance(pace.steps());
        let took = self.shell.elapsed_ms().saturating_sub(begun);
        pace.note(took);
        *took_ms += took;
        for violation in found {
            self.report_dead(violation);
        }
    }

    /// Goes on until it is over, once nothing else is left to do.
    pub(in crate::checker) fn look_out_to_the_end(&mut self, mut beside: Option<Beside<S>>) {
        while beside.as_ref().is_some_and(|it| !it.lookout.is_over()) && self.halted().is_none() {
            self.look_out(&mut beside, true);
        }
    }

    fn report_dead(&mut self, violation: Violation<S>) {
        let Violated::Dead(Dead { critical, .. }) = violation.how else {
            return;
        };
        if is_off(self.job, &violation.property)
            || self.told.len() >= self.job.budget.violations_max as usize
            || self.shell.is_cancelled()
        {
            return;
        }
        let id = path::name(&violation.property, &violation.nodes, &violation.path);
        let last = violation.path.last();
        // Where limits hide whether it could come true one step before, nobody knows which event is to blame.
        let critical = last.filter(|_| critical).map(words).unwrap_or_default();
        let never = match critical.as_str() {
            "" => "it never comes true again".to_owned(),
            critical => format!("it never comes true again after {critical}"),
        };
        let explanation = match violation.explanation.filter(|said| !said.is_empty()) {
            Some(said) => format!("{never}: {said}"),
            None => never,
        };
        self.report(Seen {
            id,
            how: How::Dead,
            critical,
            property: violation.property,
            nodes: violation.nodes,
            explanation,
            path: violation.path,
            layout: violation.layout,
            found_by: Strategy::EXHAUSTIVE.name(),
        });
    }

    /// Looks for a filter that keeps back the critical transition at the end of a path.
    pub(in crate::checker) fn lifeline(
        &mut self,
        id: ViolationId,
        property: &str,
        critical: &str,
        path: &[Step<S>],
    ) -> Remedies {
        let why = if path.is_empty() {
            "it is too late already"
        } else if critical.is_empty() {
            "which event is the critical transition is not known"
        } else if property == ALL_AT_ONCE {
            "nothing is done about several properties at once"
        } else {
            return self.prove(property, &[], path, true, |prover| prover.against_death(id));
        };
        Remedies {
            unhelpful: why.to_owned(),
            ..Remedies::default()
        }
    }

    /// Replays a path to where something never came true again. If there is such a path now, up to the critical transition,
    /// what keeps that back is returned, if anything does.
    pub(in crate::checker) fn replay_dead(
        &mut self,
        past: &PastPath,
        old: &[Step<S>],
    ) -> Option<Remedies> {
        let named = |name: &&str| path::name(name, &[], old) == past.violation;
        let mut names = self.goals.iter().map(Property::name);
        let property = names.find(named)?.to_owned();
        if is_off(self.job, &property) {
            return None;
        }
        let (mut steps, states) = replay::follow(&self.start, old);
        let first = self.first_dead(&property, &states)?;
        steps.truncate(first);
        if !self.leads_in_time(&steps, &states[first]) {
            return None;
        }
        let critical = words(steps.last()?);
        Some(self.lifeline(past.violation, &property, &critical, &steps))
    }

    /// Finds the first of the states along a path from which a property never comes true, unless that is the first of all.
    /// What follows a dead state is dead too.
    fn first_dead(&mut self, property: &str, states: &[Simulation<S>]) -> Option<usize> {
        let last = states.len().checked_sub(1)?;
        // Mostly the last is alive, and that is all there is to know.
        if self.fate_in_replay(property, &states[last]) != Fate::Never {
            return None;
        }
        let (mut low, mut dead) = (0, last);
        while low < dead {
            let middle = low + (dead - low) / 2;
            match self.fate_in_replay(property, &states[middle]) {
                Fate::Comes(_) => low = middle + 1,
                Fate::Never => dead = middle,
                Fate::Unknown => return None,
            }
        }
        (dead > 0).then_some(dead)
    }

    fn fate_in_replay(&mut self, property: &str, state: &Simulation<S>) -> Fate<S> {
        let deadline = self.job.budget.time_ms / SHARE_OF_TIME;
        let asked = (self.job, &self.start, self.all_mail);
        let Some(fates) = fates(asked, (&self.eventually, &self.goals), true) else {
            return Fate::Unknown;
        };
        let shell = &mut *self.shell;
        fates.of_one(property, state, &mut || {
            shell.is_cancelled() || shell.elapsed_ms() >= deadline
        })
    }

    /// Tells whether there are times for a path to a state.
    fn leads_in_time(&self, path: &[Step<S>], end: &Simulation<S>) -> bool {
        let clock = clock_of(self.job);
        if clock.time == Time::Free {
            return true;
        }
        let arrives = |state: &Simulation<S>| state == end;
        let (settled, _) = settle(&self.start, path, &arrives, &clock);
        matches!(settled, Settled::Fits(other, _) if other == path)
    }
}
