//! What every strategy reports: counts, and violations as paths that replay.

use scry_protocol::NodeId;

use crate::explore::limits::Stop;
use crate::explore::strategy::Strategy;
use crate::interned::judge::Unjudged;
use crate::model::event::Step;
use crate::model::simulation::Simulation;
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
    /// What else the strategy counted, by name.
    pub tallies: Vec<(&'static str, u64)>,
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

/// A reachable state that breaks a property, and how to get there.
#[derive(Debug)]
pub struct Violation<S: Service> {
    /// The property's name.
    pub property: String,
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
