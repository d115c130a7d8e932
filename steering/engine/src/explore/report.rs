//! What every strategy reports: counts, and violations as paths that replay.

use scry_protocol::NodeId;

use crate::explore::limits::Stop;
use crate::explore::liveness::Case;
use crate::explore::strategy::Strategy;
use crate::interned::judge::Unjudged;
use crate::model::event::Step;
use crate::model::simulation::Simulation;
use crate::property::Kind;
use crate::service::Service;
use crate::timing::Layout;

/// What came of a search.
#[derive(Debug)]
pub struct Report<S: Service> {
    /// How it searched.
    pub strategy: Strategy,
    /// How many different states it found, the start state among them.
    pub states: u64,
    /// How many steps are possible in the states it expanded. Not all are taken: some ways that meet are walked once.
    pub transitions: u64,
    /// The number of steps to the farthest state.
    pub depth: u32,
    /// Why it ended.
    pub stop: Stop,
    /// Whether there is nothing it did not see: never true of a strategy that prunes.
    pub complete: bool,
    /// Where it looked, if it has nothing left to explore and that is not everything.
    pub extent: Option<&'static str>,
    /// How many times a handler ran.
    pub handler_runs: u64,
    /// How many different local states there are.
    pub local_states: u64,
    /// How many different node states there are.
    pub node_states: u64,
    /// What is wrong, in order of discovery.
    pub violations: Vec<Violation<S>>,
    /// How many findings did not replay, and so are not reported: two fingerprints collided, or a handler is not a
    /// function of what it is given.
    pub unconfirmed: u64,
    /// The properties that had no answer in any state.
    pub unjudged: Vec<Unjudged>,
    /// Properties of which judgements took more steps than they may and are unknown, with how many.
    pub cut_off: Vec<(String, u64)>,
    /// What would be wrong if time were no matter.
    pub unfit: Vec<Unfit>,
    /// What came of each `eventually` and `sometimes` property, if the strategy judges those.
    pub goals: Vec<GoalReport>,
    /// How many bytes it took to judge them.
    pub goal_bytes: u64,
    /// States from which walks did not reach what an `eventually` property asks for. It is not proved that none does.
    pub suspected: Vec<Suspicion<S>>,
    /// What else the strategy counted, by name.
    pub tallies: Vec<(&'static str, u64)>,
}

/// A state from which walks did not reach what an `eventually` property asks for.
#[derive(Debug)]
pub struct Suspicion<S: Service> {
    /// The property's name, or [`ALL_AT_ONCE`].
    pub property: String,
    /// Whether it is decided, by walks, that the last step of the path is the critical one (B-50).
    pub case: Case,
    /// How many walks from the state failed.
    pub walks: u64,
    /// How many steps each of them had.
    pub steps: u64,
    /// What is missing, in words, if the property can say.
    pub explanation: Option<String>,
    /// The steps from the start state.
    pub path: Vec<Step<S>>,
    /// When they happen.
    pub layout: Layout,
    /// The state they lead to.
    pub state: Simulation<S>,
    /// Executions in which it comes true: the one that shares most with the path first (B-51, B-52).
    pub live: Vec<Vec<Step<S>>>,
}

impl<S: Service> Suspicion<S> {
    /// Bounds the chance that a walk from the state reaches what is asked for, at 95 % confidence: if it were greater, so
    /// many walks would not all have failed.
    pub fn recovery_bound(&self) -> f64 {
        (3.0 / self.walks.max(1) as f64).min(1.0)
    }
}

/// What is said of all `eventually` properties together, where there are several (B-7).
pub const ALL_AT_ONCE: &str = "all `eventually` properties at once";

/// What came of an `eventually` or a `sometimes` property.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GoalReport {
    /// The property's name, or [`ALL_AT_ONCE`].
    pub property: String,
    /// Which of the two it is.
    pub kind: Kind,
    /// What is known.
    pub standing: Standing,
    /// What is known of fair cycles in which it never holds although it could.
    pub cycles: Cycles,
}

/// What is known of fair cycles.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cycles {
    /// They were not looked for.
    NotAsked,
    /// There is none among the states that were expanded.
    None,
    /// There is one.
    Found,
    /// More states may lie on cycles than are looked at, or a handler has more outcomes than are explored.
    Undecided,
}

/// What is known of a goal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Standing {
    /// `eventually`: every state that was found, counted once (B-3).
    Classified(Classes),
    /// `eventually`: by walks.
    Walked(Walked),
    /// `sometimes`: it holds in a state, this many steps from the start.
    Reached {
        /// The least number of steps.
        steps: u32,
    },
    /// `sometimes`: it holds in no state there is, so whatever is checked of such states is not checked at all.
    Vacuous,
    /// `sometimes`: it holds in no state that was found, and not all were.
    NotReached,
}

/// The numbers of steps for which it is told how many walks were live by then (MaceMC Fig. 2).
pub const STEPS_SHOWN: [u64; 16] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
];

/// What came of the walks from the last depth that was reached.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Walked {
    /// After how many steps they began.
    pub depth: u32,
    /// How many there were.
    pub walks: u64,
    /// How many of them reached a state in which it holds.
    pub live: u64,
    /// For each of [`STEPS_SHOWN`], how many of them did so within that many steps (B-42).
    pub within: [u64; STEPS_SHOWN.len()],
    /// How many suspicions were refuted in all: what walks missed was found by enumeration or by longer walks.
    pub refuted: u64,
}

/// How many states there are of each class.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Classes {
    /// The property holds.
    pub live: u64,
    /// It does not hold, and a state can be reached in which it does.
    pub recoverable: u64,
    /// It does not hold, and never will again. This is proved.
    pub dead: u64,
    /// It is not known to hold, and limits or unknown judgements hide whether it can.
    pub unknown: u64,
}

/// In which way a property is violated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum How {
    /// It does not hold in the state at the end of the path, and must hold in every state.
    Broken,
    /// It must hold again and again, and from the state at the end of the path on it never does.
    Dead(Dead),
    /// It must hold again and again, and need not: the last steps of the path can be repeated for ever. It could come true,
    /// but no step stays possible that is not taken (weak fairness). Where chance decides, it may be very unlikely.
    Lasso {
        /// How many of the last steps are the way round.
        round: usize,
    },
}

/// What is known of a dead state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Dead {
    /// Whether the last step of the path is the critical transition (B-5): before it there was a way back. If not, limits hide
    /// whether there was, unless the path has no step.
    pub critical: bool,
    /// What the proof rests on.
    pub proof: Proof,
}

/// What the proof that a state is dead rests on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Proof {
    /// Everything that can follow was enumerated once more on plain values, with the handlers run anew.
    Plain {
        /// How many states that are.
        states: u64,
    },
    /// The tables of the search, since more states can follow than are enumerated again. As with everything that rests on
    /// them, two fingerprints may have collided.
    Tables,
}

/// A state that breaks a property, to which no path was found that fits in time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unfit {
    /// The property's name.
    pub property: String,
    /// The nodes it is about; empty if it is about all.
    pub nodes: Vec<NodeId>,
    /// Whether there is no such path: else not all were tried.
    pub impossible: bool,
    /// What the first path would take that there may not be, in words; nothing if there are no times for it whatever
    /// clocks and timers do.
    pub need: Option<String>,
}

/// A reachable state that breaks a property, or from which it never comes true again, and how to get there.
#[derive(Debug)]
pub struct Violation<S: Service> {
    /// The property's name.
    pub property: String,
    /// In which way it is violated.
    pub how: How,
    /// The nodes it is about; empty if it is about all.
    pub nodes: Vec<NodeId>,
    /// What is wrong, in words, if the property can say.
    pub explanation: Option<String>,
    /// The steps from the start state.
    pub path: Vec<Step<S>>,
    /// When they happen.
    pub layout: Layout,
    /// The state they lead to.
    pub state: Simulation<S>,
    /// If it is a dead state: an execution that shares as much with the path as is known, and in which the property comes true
    /// after they part (B-51).
    pub live: Option<Vec<Step<S>>>,
    /// If several strategies worked together: which of them found it, the first of them first.
    pub found_by: Vec<&'static str>,
}

impl<S: Service> Report<S> {
    /// Returns how many findings cannot happen in time.
    pub fn impossible(&self) -> u64 {
        self.unfit.iter().filter(|unfit| unfit.impossible).count() as u64
    }

    /// Returns how many findings there are of which it is not known whether they can happen in time.
    pub fn undecided(&self) -> u64 {
        self.unfit.len() as u64 - self.impossible()
    }

    /// Bounds the probability that two of the states had one fingerprint, so that one was missed (birthday bound).
    pub fn collision_bound(&self) -> f64 {
        let states = self.states as f64;
        (states * states / 2f64.powi(65)).min(1.0)
    }
}
