//! Past paths on a new state (A-104…A-108).
//!
//! What happens by itself is taken from the old path, with the dice as they fell: timers, calls and faults. Messages are
//! those the service really sends now: an old message is looked for among what is on its way, and never injected. What
//! cannot happen any more is passed over, since the new state may have it behind itself.

use std::collections::BTreeSet;

use scry_protocol::NodeId;

use scry_engine::interned::PANIC_PROPERTY;
use scry_engine::kind::kind_of;
use scry_engine::model::event::{Event, EventOf, Step};
use scry_engine::model::network;
use scry_engine::model::simulation::{Effectiveness, Simulation};
use scry_engine::property::{Judgement, Property, Shape, View};
use scry_engine::service::Service;

/// A past path that is confirmed: it still breaks its property.
#[derive(Debug)]
pub struct Replay<S: Service> {
    /// What happens now, up to the first violation.
    pub path: Vec<Step<S>>,
    /// The property that is broken there.
    pub property: String,
    /// The nodes it is broken by; empty if it is about all.
    pub nodes: Vec<NodeId>,
}

/// Follows an old path from a new state up to the first property that it breaks, or returns `None` if it breaks none.
pub fn replay<S: Service>(
    start: &Simulation<S>,
    old: &[Step<S>],
    properties: &[Property<S>],
) -> Option<Replay<S>> {
    let before = set_of(broken(start, properties).collect());
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
        let new = broken(&state, properties).find(|broken| !before.contains(broken));
        if let Some((property, nodes)) = new {
            return Some(Replay {
                path,
                property,
                nodes,
            });
        }
    }
    None
}

/// Follows an old path from a new state to its end, and returns what happens now, with the states from the new one on.
pub(super) fn follow<S: Service>(
    start: &Simulation<S>,
    old: &[Step<S>],
) -> (Vec<Step<S>>, Vec<Simulation<S>>) {
    let mut path = Vec::new();
    let mut states = vec![start.clone()];
    for step in old {
        let mut state = states[states.len() - 1].clone();
        let Some(event) = find(&state, step) else {
            continue;
        };
        let step = Step {
            event,
            ..step.clone()
        };
        if state.step(&step) == Ok(Effectiveness::Changed) {
            path.push(step);
            states.push(state);
        }
    }
    (path, states)
}

/// A property that is broken, and the nodes it is broken by; none if it is about all.
pub(super) type Broken = (String, Vec<NodeId>);

/// Makes a set of them.
pub(super) fn set_of(broken: Vec<Broken>) -> BTreeSet<Broken> {
    broken.into_iter().collect()
}

/// Lists what is broken in a state.
pub(super) fn broken<'a, S: Service>(
    state: &'a Simulation<S>,
    properties: &'a [Property<S>],
) -> impl Iterator<Item = Broken> + 'a {
    let (views, scope) = (state.views(), state.scope());
    let panicked = state
        .nodes()
        .iter()
        .filter(|(_, node)| node.local.panic.is_some())
        .map(|(&id, _)| (PANIC_PROPERTY.to_owned(), vec![id]));
    let of = move |property: &Property<S>| -> Vec<Broken> {
        if property.judge_in(scope, &views) != Judgement::Violated {
            return Vec::new();
        }
        let groups = groups(property.shape(), views.len());
        let judge = |group: &Vec<usize>| {
            let some: Vec<View<'_, S>> = group.iter().map(|&at| same(&views[at])).collect();
            property.judge_in(scope, &some) == Judgement::Violated
        };
        let found = groups.into_iter().filter(judge);
        let named = found.map(|group| {
            let nodes = match property.shape() {
                Shape::Global(..) => Vec::new(),
                _ => group.into_iter().map(|at| views[at].id).collect(),
            };
            (property.name().to_owned(), nodes)
        });
        named.collect()
    };
    properties.iter().flat_map(of).chain(panicked)
}

/// Lists the groups of nodes, by position, that a property of this shape looks at together.
fn groups<S: Service>(shape: &Shape<S>, count: usize) -> Vec<Vec<usize>> {
    match shape {
        Shape::Node(_) => (0..count).map(|at| vec![at]).collect(),
        Shape::Pair(..) => (0..count)
            .flat_map(|a| (a + 1..count).map(move |b| vec![a, b]))
            .collect(),
        Shape::Global(..) => vec![(0..count).collect()],
    }
}

fn same<'a, S: Service>(view: &View<'a, S>) -> View<'a, S> {
    View {
        id: view.id,
        state: view.state,
        timers: view.timers,
    }
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
