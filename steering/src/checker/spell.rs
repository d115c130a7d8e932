//! A path spelled out as a trace: what was said, by which step it was sent, and every state along the way.

use std::collections::BTreeMap;

use scry_protocol::NodeId;
use serde_json::Value;

use crate::trace::{Kind, Trace, TraceSend, TraceStep, VERSION};
use scry_engine::context::Effect;
use scry_engine::model::event::{Event, EventOf, Step};
use scry_engine::model::handler;
use scry_engine::model::simulation::{Effectiveness, Simulation};
use scry_engine::service::Service;
use scry_engine::timing::Layout;

/// A message on its way: from, to, what it says, and the step that sent it.
type OnItsWay<S> = (NodeId, NodeId, <S as Service>::Message, Option<usize>);

/// Spells a path out. Property, explanation, author and remedies are left for the caller; steps after one that cannot
/// be taken are left out.
pub fn spell<S: Service>(start: &Simulation<S>, path: &[Step<S>]) -> Trace {
    let mut state = start.clone();
    let mut under_way: Vec<OnItsWay<S>> = Vec::new();
    for (&to, node) in start.nodes() {
        for (from, message, count) in node.inbox.datagrams() {
            let copies = (0..count).map(|_| (from, to, message.clone(), None));
            under_way.extend(copies);
        }
        let streams = node.inbox.streams();
        under_way.extend(streams.map(|(from, message)| (from, to, message.clone(), None)));
    }
    let states: BTreeMap<NodeId, Value> = start
        .nodes()
        .iter()
        .map(|(&id, node)| (id, value_of(&node.local.service)))
        .collect();
    let mut steps = Vec::new();
    for (number, step) in path.iter().enumerate() {
        let sent = sends(&state, step);
        if state.step(step) != Ok(Effectiveness::Changed) {
            break;
        }
        let sent_by = arrive::<S>(&mut under_way, step);
        let spelled_sends = sent.iter().map(|(to, message)| TraceSend {
            to: *to,
            label: format!("{message:?}"),
        });
        steps.push(TraceStep {
            node: step.node,
            kind: kind(&step.event),
            from: peer(&step.event),
            sent_by,
            label: step.event.to_string(),
            picks: step.tosses.picks.clone(),
            decided: Vec::new(),
            time_ms: None,
            sends: spelled_sends.collect(),
            state: value_of(&state.nodes()[&step.node].local.service),
        });
        let sent = sent.into_iter();
        under_way.extend(sent.map(|(to, message)| (step.node, to, message, Some(number))));
    }
    Trace {
        version: VERSION,
        property: String::new(),
        explanation: String::new(),
        by: NodeId::new(0),
        start: states,
        steps,
        remedies: Vec::new(),
        needs: Vec::new(),
        found_by: None,
    }
}

/// Adds when the steps happen, and what that takes.
pub fn add_times(trace: &mut Trace, layout: &Layout) {
    for (number, step) in trace.steps.iter_mut().enumerate() {
        if layout.takes_time() {
            step.time_ms = layout.times_ms.get(number).copied().flatten();
        }
        step.decided = layout.decided.get(number).cloned().unwrap_or_default();
    }
    trace.needs.clone_from(&layout.needs);
    let others = layout.meanwhile.iter();
    trace.needs.extend(others.map(|other| {
        let (ms, node, event) = (other.time_ms, other.node, &other.event);
        format!("meanwhile, after {ms} ms, {node}: {event}")
    }));
    trace.needs.extend(layout.unchecked.clone());
}

/// Runs the step's handler once more to see what it sends.
fn sends<S: Service>(state: &Simulation<S>, step: &Step<S>) -> Vec<(NodeId, S::Message)> {
    let (Some(node), Some(input)) = (state.nodes().get(&step.node), step.event.input()) else {
        return Vec::new();
    };
    let setup = &state.setups()[&step.node];
    let outcome = handler::run(step.node, setup, &node.local, &input, &step.tosses);
    let sends = outcome
        .effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Send { to, message } => Some((to, message)),
            _ => None,
        });
    sends.collect()
}

/// Takes from what is under way what an event takes from it, and tells which step sent it.
fn arrive<S: Service>(under_way: &mut Vec<OnItsWay<S>>, step: &Step<S>) -> Option<usize> {
    let (from, message) = match &step.event {
        Event::Deliver { from, message }
        | Event::Receive { from, message, .. }
        | Event::Lose { from, message }
        | Event::Duplicate { from, message } => (from, message),
        _ => return None,
    };
    let at = under_way
        .iter()
        .position(|(f, to, m, _)| (f, *to, m) == (from, step.node, message))?;
    match &step.event {
        Event::Duplicate { .. } => {
            let copy = under_way[at].clone();
            let origin = copy.3;
            under_way.push(copy);
            origin
        }
        _ => under_way.remove(at).3,
    }
}

pub(crate) fn kind<M, T, C>(event: &Event<M, T, C>) -> Kind {
    match event {
        Event::Deliver { .. } | Event::Receive { .. } => Kind::Message,
        Event::Refuse { .. }
        | Event::Hangup { .. }
        | Event::Disconnect { .. }
        | Event::Break { .. } => Kind::Disconnect,
        Event::Timer(_) => Kind::Timer,
        Event::Call(_) => Kind::Call,
        Event::Reset { .. } | Event::Stop | Event::Start => Kind::Reset,
        Event::Lose { .. } | Event::Duplicate { .. } => Kind::Fault,
    }
}

pub(crate) fn peer<M, T, C>(event: &Event<M, T, C>) -> Option<NodeId> {
    match event {
        Event::Deliver { from, .. }
        | Event::Receive { from, .. }
        | Event::Refuse { from, .. }
        | Event::Hangup { from, .. }
        | Event::Disconnect { from, .. }
        | Event::Lose { from, .. }
        | Event::Duplicate { from, .. } => Some(*from),
        Event::Break { peer } => Some(*peer),
        Event::Timer(_) | Event::Call(_) | Event::Reset { .. } | Event::Stop | Event::Start => None,
    }
}

/// Shows a state as JSON, or, where JSON has no words for it (a map with keys of several parts), as its debug form.
pub(crate) fn value_of<S: Service>(service: &S) -> Value {
    serde_json::to_value(service).unwrap_or_else(|_| Value::String(format!("{service:?}")))
}

/// Tells whether a filter could act on an event.
pub(crate) fn is_steerable<S: Service>(event: &EventOf<S>) -> bool {
    matches!(
        event,
        Event::Deliver { .. }
            | Event::Receive { .. }
            | Event::Hangup { .. }
            | Event::Disconnect { .. }
            | Event::Break { .. }
            | Event::Timer(_)
            | Event::Call(_)
    )
}
