//! What came of hunting one bug, without the service's types.

use std::time::Duration;

use scry::cli::{diagram, json};
use scry::{NodeId, Program, Report, Violation};
use serde_json::Value;

use crate::catalogue::Case;

/// What came of hunting one bug.
#[derive(Debug)]
pub struct Row {
    /// The bug.
    pub case: Case,
    /// How many steps lead from the initial state to the start state.
    pub start_steps: usize,
    /// Consequence prediction from the start state, to the first violation.
    pub consequence: Found,
    /// Breadth-first search from the start state, to the first violation.
    pub start_bfs: Found,
    /// Both to the end of the bug's depth, if it was found.
    pub levels: Option<Levels>,
    /// How far consequence prediction from the start state gets with [`REACH_STATES`](crate::hunt::REACH_STATES).
    pub consequence_reach: Reach,
    /// How far breadth-first search from the start state gets with as many.
    pub exhaustive_reach: Reach,
    /// Breadth-first search from the initial state, if there was a watch.
    pub initial_bfs: Option<Found>,
    /// The service without bugs.
    pub fixed: Fixed,
}

/// A search for the first violation.
#[derive(Debug)]
pub struct Found {
    /// The violation of the bug's property, if there is one.
    pub told: Option<Told>,
    /// The steps to it, or to the farthest state that was seen.
    pub depth: u32,
    /// How many states were seen.
    pub states: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// A violation without the service's types.
#[derive(Debug)]
pub struct Told {
    /// The nodes it is at.
    pub nodes: Vec<NodeId>,
    /// What is wrong, in words.
    pub explanation: Option<String>,
    /// The steps to it, as the service's own `check --json` writes them.
    pub path: Vec<Value>,
    /// The steps to it, drawn.
    pub diagram: String,
}

/// Both searches to the same depth.
#[derive(Debug)]
pub struct Levels {
    /// How deep.
    pub depth: u32,
    /// Consequence prediction.
    pub consequence: Extent,
    /// Breadth-first search.
    pub exhaustive: Extent,
}

/// What a search to a given depth takes.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How many states.
    pub states: u64,
    /// How long.
    pub elapsed: Duration,
}

/// How far a search gets.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// How deep.
    pub depth: u32,
    /// With how many states.
    pub states: u64,
    /// Whether there was nothing left to look at.
    pub exhausted: bool,
}

/// An exploration of the service without bugs.
#[derive(Debug)]
pub struct Fixed {
    /// What is wrong all the same, each with its way there.
    pub violations: Vec<String>,
    /// Whether all there is was explored.
    pub complete: bool,
    /// How many states were seen.
    pub states: u64,
    /// To what bound.
    pub bound: String,
}

/// Of the violations of the case's property, the one at the case's nodes, or else the first.
pub(crate) fn told_violation<'a, S: Program>(
    case: &Case,
    report: &'a Report<S>,
) -> Option<&'a Violation<S>> {
    let mut fitting = report
        .violations
        .iter()
        .filter(|violation| violation.property == case.property);
    let exact = fitting
        .clone()
        .find(|violation| violation.nodes == case.nodes);
    exact.or_else(|| fitting.next())
}

impl Found {
    /// Reads a report with the case in mind.
    pub(crate) fn of<S: Program>(case: &Case, report: &Report<S>, elapsed: Duration) -> Self {
        let violation = told_violation(case, report);
        Self {
            depth: violation.map_or(report.depth, |violation| violation.path.len() as u32),
            told: violation.map(Told::of),
            states: report.states,
            elapsed,
        }
    }

    /// Returns the time in milliseconds.
    pub fn ms(&self) -> f64 {
        milliseconds(self.elapsed)
    }
}

impl Levels {
    /// Returns how many times the states breadth-first search looks at.
    pub fn states_ratio(&self) -> f64 {
        self.exhaustive.states as f64 / self.consequence.states as f64
    }

    /// Returns how many times the time breadth-first search takes.
    pub fn time_ratio(&self) -> f64 {
        let seconds = |extent: &Extent| extent.elapsed.as_secs_f64().max(1e-9);
        seconds(&self.exhaustive) / seconds(&self.consequence)
    }
}

/// Returns a time in milliseconds, to the microsecond.
pub fn milliseconds(elapsed: Duration) -> f64 {
    elapsed.as_micros() as f64 / 1000.0
}

impl Told {
    pub(crate) fn of<S: Program>(violation: &Violation<S>) -> Self {
        let nodes: Vec<NodeId> = violation.state.nodes().keys().copied().collect();
        Self {
            nodes: violation.nodes.clone(),
            explanation: violation.explanation.clone(),
            path: json::path(&violation.path),
            diagram: diagram::sequence(&nodes, &violation.path, &violation.layout),
        }
    }
}
