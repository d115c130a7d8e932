//! What every strategy reports: counts, and violations as paths that replay.

use scry_protocol::NodeId;

use crate::engine::judge::Unjudged;
use crate::explore::limits::Stop;
use crate::explore::strategy::Strategy;
use crate::model::event::Step;
use crate::model::simulation::Simulation;
use crate::service::Service;

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
    /// The state they lead to.
    pub state: Simulation<S>,
}

impl<S: Service> Report<S> {
    /// Bounds the probability that two of the states had one fingerprint, so that one was missed (birthday bound).
    pub fn collision_bound(&self) -> f64 {
        let states = self.states as f64;
        (states * states / 2f64.powi(65)).min(1.0)
    }
}
