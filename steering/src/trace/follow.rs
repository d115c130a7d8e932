//! A stored trace taken again, step by step, in the service that it is of.
//!
//! A trace shows what happened in words, not the messages themselves. So at each step all that can happen at that node is
//! looked at, and what reads the same and leads to the same state is taken. Where two things do, the other is tried if the first leads
//! to nowhere: which of two connections something came on is not in the words.

use scry_protocol::NodeId;
use serde_json::Value;

use super::difference::changes;
use super::{Trace, TraceStep};
use crate::checker::spell::{kind, peer, value_of};
use scry_engine::model::event::Step;
use scry_engine::model::simulation::Simulation;
use scry_engine::service::Service;

/// How often another way is tried, for each step of a trace and in any case.
const TRIES_EACH: usize = 4;
const TRIES_MIN: usize = 1_000;
/// How much of a value is shown.
const VALUE_LETTERS_MAX: usize = 60;

/// Why a trace cannot be taken again.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum FollowError {
    /// It is of other nodes.
    #[error("it is of the nodes {there}, and here are {here}")]
    Nodes {
        /// The nodes of the trace.
        there: String,
        /// Those that there are.
        here: String,
    },
    /// It begins elsewhere.
    #[error(
        "it begins in another state: at {node}, {place}{there} where here is {here}; with other bugs or options it may fit"
    )]
    Start {
        /// A node that differs.
        node: NodeId,
        /// Which field of its state, with a colon; empty if it is the whole.
        place: String,
        /// Its value in the trace.
        there: String,
        /// Its value here.
        here: String,
    },
    /// Something cannot happen.
    #[error(
        "step {step} of {steps} ({node}: {label}) cannot happen here, or leads to another state; with other bugs, faults or options it may"
    )]
    Step {
        /// Which step, counting from 1.
        step: usize,
        /// How many there are.
        steps: usize,
        /// Where it happens.
        node: NodeId,
        /// What happens.
        label: String,
    },
}

/// Finds the steps of a trace from a state on.
///
/// # Errors
///
/// When the trace does not begin there, or a step of it cannot be taken.
pub fn follow<S: Service>(
    start: &Simulation<S>,
    trace: &Trace,
) -> Result<Vec<Step<S>>, FollowError> {
    begins(start, trace)?;
    let mut tries = TRIES_MIN + TRIES_EACH * trace.steps.len();
    let mut taken: Vec<Step<S>> = Vec::with_capacity(trace.steps.len());
    // For each step that was taken, and for the one to be taken: the ways that are left, the first last.
    let mut ways = vec![ways_to(start, trace.steps.first())];
    let mut farthest = 0;
    while taken.len() < trace.steps.len() {
        let left = ways.last_mut().expect("there is one more than steps taken");
        match left.pop() {
            Some((step, after)) => {
                taken.push(step);
                farthest = farthest.max(taken.len());
                ways.push(ways_to(&after, trace.steps.get(taken.len())));
            }
            None if taken.is_empty() || tries == 0 => {
                let step = &trace.steps[farthest];
                return Err(FollowError::Step {
                    step: farthest + 1,
                    steps: trace.steps.len(),
                    node: step.node,
                    label: step.label.clone(),
                });
            }
            None => {
                tries -= 1;
                taken.pop();
                ways.pop();
            }
        }
    }
    Ok(taken)
}

fn begins<S: Service>(start: &Simulation<S>, trace: &Trace) -> Result<(), FollowError> {
    let list = |nodes: &mut dyn Iterator<Item = &NodeId>| {
        nodes
            .map(NodeId::to_string)
            .collect::<Vec<String>>()
            .join(", ")
    };
    if !start.nodes().keys().eq(trace.start.keys()) {
        return Err(FollowError::Nodes {
            there: list(&mut trace.start.keys()),
            here: list(&mut start.nodes().keys()),
        });
    }
    for (&node, there) in &trace.start {
        let here = value_of(&start.nodes()[&node].local.service);
        let Some(change) = changes(there, &here).into_iter().next() else {
            continue;
        };
        let shown = |value: &Option<Value>| match value {
            Some(value) => short(value),
            None => "nothing".to_owned(),
        };
        let place = match change.place.as_str() {
            "" => String::new(),
            place => format!("{place}: "),
        };
        return Err(FollowError::Start {
            node,
            place,
            there: shown(&change.before),
            here: shown(&change.after),
        });
    }
    Ok(())
}

/// Lists what can happen that reads like a step, the first last.
fn ways_to<S: Service>(
    state: &Simulation<S>,
    wanted: Option<&TraceStep>,
) -> Vec<(Step<S>, Simulation<S>)> {
    let Some(wanted) = wanted else {
        return Vec::new();
    };
    let reads_like_it = |step: &Step<S>, after: &Simulation<S>| {
        step.node == wanted.node
            && kind(&step.event) == wanted.kind
            && peer(&step.event) == wanted.from
            && step.tosses.picks == wanted.picks
            && step.event.to_string() == wanted.label
            && value_of(&after.nodes()[&step.node].local.service) == wanted.state
    };
    let mut all = state.successors();
    all.retain(|(step, after)| reads_like_it(step, after));
    all.reverse();
    all
}

fn short(value: &Value) -> String {
    let whole = value.to_string();
    match whole.char_indices().nth(VALUE_LETTERS_MAX) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}
