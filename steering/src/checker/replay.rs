//! Past paths on a new state (A-104…A-108).
//!
//! What happens by itself is taken from the old path, with the dice as they fell: timers, calls and faults. Messages are
//! those the service really sends now: an old message is looked for among what is on its way, and never injected. What
//! cannot happen any more is passed over, since the new state may have it behind itself.

use std::collections::BTreeSet;

use crate::engine::PANIC_PROPERTY;
use crate::hook::kind_of;
use crate::model::event::{Event, EventOf, Step};
use crate::model::network;
use crate::model::simulation::{Effectiveness, Simulation};
use crate::property::{Judgement, Property};
use crate::service::Service;

/// A past path that still errs.
#[derive(Debug)]
pub struct Replay<S: Service> {
    /// What happens now, up to the first violation.
    pub path: Vec<Step<S>>,
    /// The property that is broken there.
    pub property: String,
}

/// Follows an old path from a new state up to the first property that it breaks, or returns `None` if it breaks none.
pub fn replay<S: Service>(
    start: &Simulation<S>,
    old: &[Step<S>],
    properties: &[Property<S>],
) -> Option<Replay<S>> {
    let before: BTreeSet<String> = broken(start, properties).collect();
    let mut state = start.clone();
    let mut path = Vec::new();
    for step in old {
        let Some(event) = find(&state, step) else {
            continue;
        };
        let step = Step {
            event,
            ..step.clone()
        };
        if state.step(&step) != Ok(Effectiveness::Changed) {
            continue;
        }
        path.push(step);
        let property = broken(&state, properties).find(|name| !before.contains(name));
        if let Some(property) = property {
            return Some(Replay { path, property });
        }
    }
    None
}

pub(crate) fn broken<'a, S: Service>(
    state: &'a Simulation<S>,
    properties: &'a [Property<S>],
) -> impl Iterator<Item = String> + 'a {
    let views = state.views();
    let panicked = state
        .nodes()
        .values()
        .any(|node| node.local.panic.is_some());
    let names = properties
        .iter()
        .filter(move |property| property.judge(&views) == Judgement::Violated)
        .map(|property| property.name().to_owned());
    names.chain(panicked.then(|| PANIC_PROPERTY.to_owned()))
}

/// Finds what an old event is now: itself if it happens by itself; else the same message on its way, or, if the service
/// words it differently now, one of the same kind.
fn find<S: Service>(state: &Simulation<S>, old: &Step<S>) -> Option<EventOf<S>> {
    let node = state.nodes().get(&old.node)?;
    if old.event.is_internal() {
        return Some(old.event.clone());
    }
    let mut now: Vec<EventOf<S>> = network::arrivals(old.node, &node.links, &node.inbox);
    now.extend(network::network_faults(&node.links, &node.inbox));
    let place = |likeness| {
        now.iter()
            .position(|event| is_like(event, &old.event) == likeness)
    };
    let at = place(Likeness::Same).or_else(|| place(Likeness::Kind))?;
    Some(now.swap_remove(at))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Likeness {
    Same,
    Kind,
    Different,
}

fn is_like<M: Eq + serde::Serialize, T, C>(now: &Event<M, T, C>, old: &Event<M, T, C>) -> Likeness {
    use Event::{Deliver, Disconnect, Duplicate, Hangup, Lose, Receive, Refuse};
    match (now, old) {
        (
            Deliver { from, message },
            Deliver {
                from: f,
                message: m,
            },
        )
        | (
            Lose { from, message },
            Lose {
                from: f,
                message: m,
            },
        )
        | (
            Duplicate { from, message },
            Duplicate {
                from: f,
                message: m,
            },
        )
        | (
            Receive { from, message, .. },
            Receive {
                from: f,
                message: m,
                ..
            },
        ) => match from == f {
            true if message == m => Likeness::Same,
            true if kind_of(message) == kind_of(m) => Likeness::Kind,
            _ => Likeness::Different,
        },
        (Refuse { from, .. }, Refuse { from: f, .. })
        | (Hangup { from, .. }, Hangup { from: f, .. })
        | (Disconnect { from, .. }, Disconnect { from: f, .. })
            if from == f =>
        {
            Likeness::Same
        }
        _ => Likeness::Different,
    }
}
