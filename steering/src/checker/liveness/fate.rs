//! Whether properties can still come true from a state, each for itself: yes with a way there, no for certain, or not known.

use scry_engine::explore::report::How;
use scry_engine::explore::{Limits, Options, Search, Settings, Stop, Strategy};
use scry_engine::model::event::Step;
use scry_engine::model::fault::Faults;
use scry_engine::model::simulation::Simulation;
use scry_engine::property::Property;
use scry_engine::service::Service;
use scry_engine::timing::Clock;

/// How many steps a search takes before the clock is looked at.
const SLICE_STEPS: u64 = 1024;
/// What becomes of a property.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fate<S: Service> {
    /// It can come true, after these steps.
    Comes(Vec<Step<S>>),
    /// It never does, whatever happens: everything that can follow was seen.
    Never,
    /// Too much can follow, or nobody can tell.
    Unknown,
}

/// Asks what can still come true.
#[derive(Debug)]
pub(crate) struct Fates<'a, S: Service> {
    /// What must come true again and again, as it stands.
    pub(in crate::checker) eventually: &'a [Property<S>],
    /// For each of them, by name, what is violated in just the states where it is true.
    pub(in crate::checker) goals: &'a [Property<S>],
    /// How many states are looked at for one question. With more the answer is not known.
    pub(in crate::checker) states_max: u64,
    pub(in crate::checker) bytes_max: u64,
}

impl<S: Service> Clone for Fates<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

// Not derived, since that would ask it of services too.
impl<S: Service> Copy for Fates<'_, S> {}

impl<S: Service> Fates<'_, S> {
    /// Tells whether there is anything that must come true.
    pub(in crate::checker) fn is_empty(&self) -> bool {
        self.eventually.is_empty()
    }

    /// Lists the properties with what becomes of each from a state on, with the filters that are in force there for good.
    /// Faults are no way to come true: nobody can rely on them.
    pub(in crate::checker) fn of(
        &self,
        state: &Simulation<S>,
        halted: &mut dyn FnMut() -> bool,
    ) -> Vec<(String, Fate<S>)> {
        let mut start = state.clone().with_moments(None);
        start.set_faults(Faults::NONE);
        let (mut fates, all_seen) = self.ways(&start, halted);
        let is_open = |fate: &(String, Fate<S>)| fate.1 == Fate::Unknown;
        if all_seen && fates.iter().any(is_open) {
            let never = self.never(&start, halted);
            for (name, fate) in &mut fates {
                if *fate == Fate::Unknown && never.contains(name) {
                    *fate = Fate::Never;
                }
            }
        }
        fates
    }

    /// As [`of`](Self::of), of one property.
    pub(in crate::checker) fn of_one(
        &self,
        property: &str,
        state: &Simulation<S>,
        halted: &mut dyn FnMut() -> bool,
    ) -> Fate<S> {
        let named = |all: &[Property<S>]| -> Vec<Property<S>> {
            let of_name = all.iter().filter(|it| it.name() == property);
            of_name.cloned().collect()
        };
        let (eventually, goals) = (named(self.eventually), named(self.goals));
        let one = Fates {
            eventually: &eventually,
            goals: &goals,
            ..*self
        };
        let first = one.of(state, halted).into_iter().next();
        first.map_or(Fate::Unknown, |(_, fate)| fate)
    }

    /// Looks for a way to each, nearest first, and tells whether there is nothing more to see.
    fn ways(
        &self,
        start: &Simulation<S>,
        halted: &mut dyn FnMut() -> bool,
    ) -> (Vec<(String, Fate<S>)>, bool) {
        let mut goals = self.goals.to_vec();
        // What is off is a goal of filters, and not asked here.
        goals.retain(|goal| self.eventually.iter().any(|it| it.name() == goal.name()));
        let mut fates: Vec<(String, Fate<S>)> = goals
            .iter()
            .map(|goal| (goal.name().to_owned(), Fate::Unknown))
            .collect();
        let Ok(mut search) = Search::new(start, goals, self.options()) else {
            return (fates, false);
        };
        let mut known = 0;
        loop {
            let stop = search.advance(SLICE_STEPS);
            let found = search.found(known);
            known = found.known;
            for violation in found.violations {
                let reached = fates
                    .iter_mut()
                    .find(|(name, _)| *name == violation.property);
                if let Some((_, fate @ Fate::Unknown)) = reached {
                    *fate = Fate::Comes(violation.path);
                }
            }
            if fates.iter().all(|(_, fate)| *fate != Fate::Unknown) {
                return (fates, true);
            }
            match stop {
                Some(stop) => return (fates, stop == Stop::Exhausted),
                None if halted() => return (fates, false),
                None => {}
            }
        }
    }

    /// Lists those that never come true from a state on.
    fn never(&self, start: &Simulation<S>, halted: &mut dyn FnMut() -> bool) -> Vec<String> {
        let options = self.options();
        let Ok(mut search) = Search::new(start, self.eventually.to_vec(), options) else {
            return Vec::new();
        };
        loop {
            match search.advance(SLICE_STEPS) {
                Some(Stop::Exhausted) => break,
                Some(_) => return Vec::new(),
                None if halted() => return Vec::new(),
                None => {}
            }
        }
        while !search.conclude(SLICE_STEPS) {
            if halted() {
                return Vec::new();
            }
        }
        let found = search.found(0).violations.into_iter();
        let at_once = found
            .filter(|violation| violation.path.is_empty() && matches!(violation.how, How::Dead(_)));
        at_once.map(|violation| violation.property).collect()
    }

    fn options(&self) -> Options {
        Options {
            strategy: Strategy::EXHAUSTIVE,
            limits: Limits {
                states: Some(self.states_max),
                depth: None,
                bytes: Some(self.bytes_max),
                first_violation: false,
            },
            settings: Settings::of(&[super::CYCLES_OFF]),
            // Without time more can happen than with it: what never comes true then, never does.
            clock: Clock::FREE,
            ..Options::default()
        }
    }
}
