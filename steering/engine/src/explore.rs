//! Strategies over one [`World`]: what to look at, in which order, and when to stop.
//!
//! | module | what it holds |
//! |---|---|
//! | [`strategy`], [`limits`], [`report`] | what is asked of a search and what it answers |
//! | `exhaustive`, `consequence`, `portfolio`, `local`, `depth_first`, `random_walk`, `walk` | the strategies, each with its entry in the list |
//! | `breadth` | breadth-first search, the engine's inner loop, on which the first two stand |
//! | `liveness` | what must come again and again: states are alive, dead or not decided |
//! | `confirm` | every finding replayed on plain values, and laid out in time |
//! | `shortest` | findings of strategies that do not go nearest first |
//! | `visited`, `lineage`, `frontier` | what is kept of a state: its fingerprint, its origin, and until it is expanded its words |

mod breadth;
mod confirm;
mod frontier;
mod lasting;
pub mod limits;
mod lineage;
mod liveness;
mod processor;
pub mod report;
mod shortest;
pub mod strategy;
mod visited;

// The strategies, in the order of the help. A new one is named here twice: as a file, and in the list.
mod consequence;
mod depth_first;
mod exhaustive;
mod local;
mod portfolio;
mod random_walk;
mod walk;

static STRATEGIES: &[&Entry] = &[
    &exhaustive::ENTRY,
    &consequence::ENTRY,
    &portfolio::ENTRY,
    &local::ENTRY,
    &depth_first::ENTRY,
    &random_walk::ENTRY,
    &walk::ENTRY,
];

pub use limits::{Limits, Stop};
pub use liveness::Case;
pub use report::{
    ALL_AT_ONCE, Classes, Cycles, Dead, GoalReport, How, Proof, Report, STEPS_SHOWN, Standing,
    Suspicion, Unfit, Violation, Walked,
};
pub use strategy::{Settings, Strategy};

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use scry_protocol::NodeId;

use crate::explore::confirm::Confirmed;
use crate::explore::liveness::GOALS_MAX;
use crate::explore::strategy::{Claim, Entry, Found, Plan, SettingError, Walk};
use crate::interned::allowance::AllowanceTooLarge;
use crate::interned::judge::Unjudged;
use crate::interned::transitions::{Executor, Typed};
use crate::interned::world::{StepIds, World};
use crate::model::event::Step;
use crate::model::simulation::{Effectiveness, Simulation};
use crate::property::{Kind, Property};
use crate::service::Service;
use crate::timing::Clock;
use crate::timing::find::Settled;

/// What is asked of a search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How to search.
    pub strategy: Strategy,
    /// When to stop.
    pub limits: Limits,
    /// On how many threads. The report does not depend on it.
    pub threads: usize,
    /// What its dice begin with, if it has any. Same input and seed, same report.
    pub seed: u64,
    /// What is set of the strategy.
    pub settings: Settings,
    /// How paths are laid out in time.
    pub clock: Clock,
}

/// Why a search cannot start.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// The fault allowance is too large.
    #[error(transparent)]
    Allowance(#[from] AllowanceTooLarge),
    /// The strategy cannot honour an option.
    #[error("{strategy} runs on one thread, not on {threads}")]
    Threads {
        /// The strategy.
        strategy: Strategy,
        /// The threads that were asked for.
        threads: usize,
    },
    /// There are more goals than can be judged at once.
    #[error("a search judges at most {GOALS_MAX} `{kind}` properties, not {count}", kind = kind.as_str())]
    Goals {
        /// Of which kind.
        kind: Kind,
        /// How many there are.
        count: usize,
    },
    /// There is nobody to do it.
    #[error("a search needs at least one thread")]
    NoThreads,
    /// The strategy has no such setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The execution after which the search is to begin is none.
    #[error("step {step} of the prefix cannot be taken")]
    Prefix {
        /// Which step, counting from 1.
        step: usize,
    },
}

/// How far a search is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// States found.
    pub states: u64,
    /// Steps taken, and steps passed over because another way to the same state is taken.
    pub transitions: u64,
    /// Steps to the farthest state.
    pub depth: u32,
    /// States that wait to be expanded.
    pub frontier: u64,
}

/// A search that can be continued bit by bit, so that the caller can watch the clock.
#[derive(Debug)]
pub struct Search<S: Service> {
    world: World<Typed<S>>,
    start: Simulation<S>,
    /// What leads from there to where the search begins.
    prefix: Vec<Step<S>>,
    words: Vec<u32>,
    options: Options,
    walk: Box<dyn Walk>,
    /// What became of findings that were laid out in time, by their number.
    settled: RefCell<BTreeMap<usize, LaidOut<S>>>,
    /// How many states may still be looked at for other paths.
    tries: Cell<u32>,
}

/// What became of a finding that was laid out in time. A strategy may know better later, so what was claimed then of which path
/// stands beside it.
#[derive(Debug)]
struct LaidOut<S: Service> {
    claim: Claim,
    path: Vec<StepIds>,
    settled: Settled<S>,
}

/// What a search found since it was last asked.
#[derive(Debug)]
pub struct News<S: Service> {
    /// The violations whose paths replay.
    pub violations: Vec<Violation<S>>,
    /// How many findings there are now, to ask for what comes after them.
    pub known: usize,
    /// How many of the new findings did not replay: a handler is not a function of what it is given.
    pub unconfirmed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            strategy: Strategy::EXHAUSTIVE,
            limits: Limits::default(),
            threads: 1,
            seed: 0,
            settings: Settings::default(),
            clock: Clock::default(),
        }
    }
}

impl<S: Service> Search<S> {
    /// Prepares a search from a state.
    ///
    /// # Errors
    ///
    /// When the options do not go together.
    pub fn new(
        start: &Simulation<S>,
        properties: Vec<Property<S>>,
        options: Options,
    ) -> Result<Self, SearchError> {
        Self::after(start, &[], properties, options)
    }

    /// Prepares a search at the end of an execution (B-36). What happens in the execution is not judged, but every path that is
    /// reported begins with it.
    ///
    /// # Errors
    ///
    /// When a step of the execution cannot be taken, or the options do not go together.
    pub fn after(
        start: &Simulation<S>,
        prefix: &[Step<S>],
        properties: Vec<Property<S>>,
        options: Options,
    ) -> Result<Self, SearchError> {
        let Options {
            strategy,
            limits,
            threads,
            seed,
            settings,
            clock,
        } = options;
        if threads == 0 {
            return Err(SearchError::NoThreads);
        }
        let entry = strategy.entry();
        if threads > 1 && !entry.threads {
            return Err(SearchError::Threads { strategy, threads });
        }
        strategy.check(&settings)?;
        let begin = end_of(start, prefix)?;
        let (mut world, words) = World::of(&begin, properties)?;
        for kind in [Kind::Eventually, Kind::Sometimes] {
            let of_kind = world.goals().iter().filter(|goal| goal.kind == kind);
            let count = of_kind.count();
            if count > GOALS_MAX {
                return Err(SearchError::Goals { kind, count });
            }
        }
        let plan = Plan {
            limits,
            threads,
            seed,
            settings,
        };
        let walk = (entry.start)(&mut world, &words, plan);
        Ok(Self {
            world,
            start: start.clone(),
            prefix: prefix.to_vec(),
            words,
            options,
            walk,
            settled: RefCell::default(),
            tries: Cell::new(clock.tries.saturating_mul(confirm::TRIES_SHARE)),
        })
    }

    /// Goes on for about this many steps, and tells why the search ended if it did.
    pub fn advance(&mut self, steps: u64) -> Option<Stop> {
        loop {
            let stop = self.walk.advance(&mut self.world, steps);
            // What cannot happen in time is no violation to stop for.
            if stop != Some(Stop::Violation) || self.is_any_confirmed() {
                return stop;
            }
            self.walk.pass_over_found(&self.world);
        }
    }

    /// Draws the conclusions for which the search must be at rest, as far as about this many steps go, and tells whether
    /// all are drawn: whether `eventually` properties can still come true in each state that was found. A search that is
    /// continued forgets them. [`finish`](Self::finish) draws what is left of them; whoever has a clock does it bit by bit before.
    pub fn conclude(&mut self, steps: u64) -> bool {
        self.walk.conclude(&mut self.world, steps)
    }

    /// Goes on to the end and reports.
    pub fn run(mut self) -> Report<S> {
        while self.advance(u64::MAX).is_none() {}
        self.finish()
    }

    /// Returns how far the search is.
    pub fn counts(&self) -> Counts {
        self.walk.counts()
    }

    /// Returns what else the strategy has counted so far, by name.
    pub fn tallies(&self) -> Vec<(&'static str, u64)> {
        self.walk.tallies()
    }

    /// Tells whether it has looked where its strategy promises to look, and goes on only because there is time left.
    pub fn has_covered(&self) -> bool {
        self.walk.has_covered()
    }

    /// Lists the properties that had no answer in any state so far, and those that the strategy does not judge.
    pub fn unjudged(&self) -> Vec<Unjudged> {
        let strategy = self.options.strategy;
        let judged = strategy.judges_goals();
        let mut all = self.world.transitions().unjudged(judged);
        if !judged {
            let left = self.world.goals().iter().map(|goal| Unjudged {
                property: goal.name.clone(),
                why: format!("{strategy} judges no `{}` properties", goal.kind.as_str()),
            });
            all.extend(left);
        }
        all
    }

    /// Lists the properties of which judgements were cut off because they took too many steps, with how many.
    pub fn cut_off(&self) -> Vec<(String, u64)> {
        self.world.transitions().cut_off()
    }

    /// Spells out the states that wait to be expanded. Between two calls of [`advance`](Self::advance) with one step,
    /// every state that is found waits once, so that all of them together are the states visited; only a depth-first
    /// search leaves out those at its bound.
    pub fn frontier(&self) -> Vec<Simulation<S>> {
        let mut states = Vec::new();
        self.walk
            .for_each_waiting(&mut |words| states.push(self.world.decode(words)));
        states
    }

    /// Returns the fingerprints of the states that wait to be expanded, made of their contents: other processes give them
    /// the same.
    pub fn frontier_fingerprints(&self) -> Vec<u64> {
        let mut all = Vec::new();
        self.walk
            .for_each_waiting(&mut |words| all.push(self.world.content_fingerprint(words)));
        all
    }

    /// Lists, for each node, the properties that read something of it which nothing changed so far.
    pub fn lasting(&self) -> Vec<(NodeId, Vec<String>)> {
        lasting::lasting(&self.world, &self.start)
    }

    /// Spells out at most so many of the states that wait to be expanded, spread over all of them.
    pub fn waiting(&self, max: usize) -> Vec<Simulation<S>> {
        let every = (self.counts().frontier as usize)
            .div_ceil(max.max(1))
            .max(1);
        let mut states = Vec::new();
        let mut at = 0;
        self.walk.for_each_waiting(&mut |words| {
            if at % every == 0 && states.len() < max {
                states.push(self.world.decode(words));
            }
            at += 1;
        });
        states
    }

    /// Tells what was found beyond the first `known` findings, while the search goes on. Every path is replayed on plain
    /// values first, and laid out in time.
    pub fn found(&self, known: usize) -> News<S> {
        let count = self.walk.found_count();
        let mut news = News {
            violations: Vec::new(),
            known: count,
            unconfirmed: 0,
        };
        if count > known {
            for (at, found) in self.all_found().iter().enumerate().skip(known) {
                match self.confirm(at, found) {
                    Confirmed::Violation(violation) => news.violations.push(*violation),
                    Confirmed::Unreplayed => news.unconfirmed += 1,
                    // What is only suspected is nothing to act on: it is told at the end.
                    Confirmed::Unfit(_) | Confirmed::Suspicion(_) => {}
                }
            }
        }
        news
    }

    /// Tells what was found so far that does not replay or does not fit in time.
    pub fn unfit(&self) -> (u64, Vec<Unfit>) {
        let (mut unconfirmed, mut unfit) = (0, Vec::new());
        for (at, found) in self.all_found().iter().enumerate() {
            match self.confirm(at, found) {
                Confirmed::Violation(_) | Confirmed::Suspicion(_) => {}
                Confirmed::Unreplayed => unconfirmed += 1,
                Confirmed::Unfit(one) => unfit.push(one),
            }
        }
        (unconfirmed, unfit)
    }

    fn all_found(&self) -> Vec<Found> {
        self.walk.found(&self.world, &self.words)
    }

    /// Draws what is left of the [conclusions](Self::conclude) and reports what was found so far. Every path is replayed on plain
    /// values first.
    pub fn finish(mut self) -> Report<S> {
        while !self.conclude(u64::MAX) {}
        self.finish_as_it_is()
    }

    /// As [`finish`](Self::finish), but with the conclusions that are drawn already and no others: what is missing is told as
    /// not judged.
    pub fn finish_as_it_is(mut self) -> Report<S> {
        let stop = self.advance(0).unwrap_or(Stop::Caller);
        let counts = self.counts();
        let (mut violations, mut unfit, mut unconfirmed) = (Vec::new(), Vec::new(), 0);
        let mut suspected = Vec::new();
        for (at, found) in self.all_found().iter().enumerate() {
            match self.confirm(at, found) {
                Confirmed::Violation(violation) => violations.push(*violation),
                Confirmed::Unreplayed => unconfirmed += 1,
                Confirmed::Unfit(one) => unfit.push(one),
                Confirmed::Suspicion(one) => suspected.push(*one),
            }
        }
        let extent = self.walk.extent();
        let extent = extent.or((!self.prefix.is_empty()).then_some(AFTER_PREFIX));
        let extent = extent.filter(|_| stop == Stop::Exhausted);
        let (goals, goal_bytes) = (self.goals(), self.walk.goal_bytes());
        let mut unjudged = self.unjudged();
        if goals.is_empty() && self.options.strategy.judges_goals() {
            let of_goals = self.world.goals();
            unjudged.retain(|it| of_goals.iter().all(|goal| goal.name != it.property));
            unjudged.extend(of_goals.iter().map(|goal| Unjudged {
                property: goal.name.clone(),
                why: "there was no time to draw conclusions".to_owned(),
            }));
        }
        let transitions = self.world.transitions();
        Report {
            strategy: self.options.strategy,
            states: counts.states,
            transitions: counts.transitions,
            depth: counts.depth,
            stop,
            complete: stop == Stop::Exhausted && extent.is_none() && !transitions.is_truncated(),
            extent,
            handler_runs: transitions.handler_runs(),
            local_states: transitions.local_states(),
            node_states: self.world.node_states(),
            violations,
            unconfirmed,
            unjudged,
            cut_off: transitions.cut_off(),
            unfit,
            goals,
            goal_bytes,
            suspected,
            tallies: self.walk.tallies(),
        }
    }

    /// Tells what came of each goal. What holds in the prefix was reached, and what is reached nowhere after it is not known to be
    /// reached nowhere.
    fn goals(&self) -> Vec<GoalReport> {
        let mut all = self.walk.goals(&self.world);
        if self.prefix.is_empty() {
            return all;
        }
        let prefix = self.prefix.len() as u32;
        for report in all.iter_mut().filter(|it| it.kind == Kind::Sometimes) {
            let goals = self.world.goals();
            let goal = goals
                .iter()
                .position(|it| it.kind == report.kind && it.name == report.property);
            let earlier = goal.and_then(|goal| self.first_in_prefix(goal));
            report.standing = match (earlier, &report.standing) {
                (Some(steps), _) => Standing::Reached { steps },
                (None, Standing::Reached { steps }) => Standing::Reached {
                    steps: prefix + steps,
                },
                (None, _) => Standing::NotReached,
            };
        }
        all
    }
}

/// Where a search looks that begins after a prefix.
const AFTER_PREFIX: &str = "in all that can follow the prefix";

/// Returns the state at the end of an execution.
fn end_of<S: Service>(
    start: &Simulation<S>,
    execution: &[Step<S>],
) -> Result<Simulation<S>, SearchError> {
    let mut state = start.clone();
    for (at, step) in execution.iter().enumerate() {
        if state.step(step) != Ok(Effectiveness::Changed) {
            return Err(SearchError::Prefix { step: at + 1 });
        }
    }
    Ok(state)
}
