//! What must come true again and again: states ahead from which it never does, and what a filter does to its chances.
//!
//! An exhaustive search goes on beside that for violations, with a quarter of the time while that one lasts. Now and then it
//! stands still and draws conclusions: of each state it has found, whether the property can still come true. A state is told of
//! only if it is *dead* for certain: everything that can follow it was seen, and the property holds nowhere in it. Of
//! a space that is cut off nothing is concluded, and nothing is ever suspected here.
//!
//! Deadness is a question of all that can happen, so a snapshot that does not show every node and what is on its way between them
//! says nothing about it: whoever is out of sight may be the one that mends it.

mod fate;
mod run;

pub(crate) use fate::{Fate, Fates};
pub(super) use run::{Beside, fates};

use scry_engine::explore::report::How;
use scry_engine::explore::{Limits, Options, Search, Settings, Stop, Strategy, Violation};
use scry_engine::model::event::Step;
use scry_engine::model::simulation::Simulation;
use scry_engine::property::Property;
use scry_engine::service::Service;
use scry_engine::timing::Clock;

/// Before the search for violations has ended, this one gets such a part of the time; and always of the memory.
pub(super) const SHARE: u64 = 4;
/// At how many states conclusions are drawn for the first time, and how many times as many there must be for the next.
const CONCLUDE_AT: u64 = 1_000;
const CONCLUDE_AGAIN: u64 = 4;
/// A fair cycle is no reason to do anything: whoever is on it may leave it at any time.
const CYCLES_OFF: (&str, u64) = ("cycles", 0);

/// The search for states from which something never comes true.
#[derive(Debug)]
pub(super) struct Lookout<S: Service> {
    search: Search<S>,
    phase: Phase,
    /// At how many states conclusions are drawn next.
    conclude_at: u64,
    /// How many events a path may have.
    depth_max: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// States are looked for.
    Searching,
    /// Conclusions are drawn, and then the search goes on unless it has come to an end.
    Concluding(Option<Stop>),
    Over,
}

impl<S: Service> Lookout<S> {
    /// Prepares the search, for properties that must come true again and again. What is told has paths of so many events at most;
    /// to prove that something is dead, it may be necessary to look farther.
    pub(super) fn new(
        start: &Simulation<S>,
        properties: Vec<Property<S>>,
        (limits, depth_max): (Limits, u32),
        threads: usize,
        clock: Clock,
    ) -> Result<Self, String> {
        let options = Options {
            strategy: Strategy::EXHAUSTIVE,
            limits,
            threads,
            settings: Settings::of(&[CYCLES_OFF]),
            clock,
            ..Options::default()
        };
        let search = Search::new(start, properties, options).map_err(|error| error.to_string())?;
        Ok(Self {
            search,
            phase: Phase::Searching,
            conclude_at: CONCLUDE_AT,
            depth_max,
        })
    }

    /// Goes on for about this many steps, and returns what is dead whenever that is concluded: what was told before is
    /// among it.
    pub(super) fn advance(&mut self, steps: u64) -> Vec<Violation<S>> {
        match self.phase {
            Phase::Searching => {
                let stop = self.search.advance(steps);
                if stop.is_some() || self.search.counts().states >= self.conclude_at {
                    self.phase = Phase::Concluding(stop);
                }
                Vec::new()
            }
            Phase::Concluding(stop) => {
                if !self.search.conclude(steps) {
                    return Vec::new();
                }
                self.conclude_at = self.search.counts().states.saturating_mul(CONCLUDE_AGAIN);
                self.phase = match stop {
                    Some(_) => Phase::Over,
                    None => Phase::Searching,
                };
                let mut found = self.search.found(0).violations;
                // Handlers that panic are told of by the search for violations.
                found.retain(|violation| {
                    matches!(violation.how, How::Dead(_))
                        && violation.path.len() <= self.depth_max as usize
                });
                found
            }
            Phase::Over => Vec::new(),
        }
    }

    /// Draws conclusions next, since there is no time for more.
    pub(super) fn come_to_an_end(&mut self) {
        if self.phase == Phase::Searching {
            self.phase = Phase::Concluding(Some(Stop::Caller));
        }
    }

    /// Tells whether it has said all it will ever say.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }
}

/// Says what happens in a step, and where.
pub(super) fn words<S: Service>(step: &Step<S>) -> String {
    format!("{} at {}", step.event, step.node)
}
