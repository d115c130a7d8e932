//! Which filters could act on a path, and what each takes from the service.

use std::cmp::Reverse;

use scry_protocol::filter::{Action, Matcher};
use scry_protocol::link::checker::Order;
use scry_protocol::{Digest, NodeId};
use serde::Serialize;

use scry_engine::kind::kind_of;
use scry_engine::model::event::{Event, EventOf, Step};
use scry_engine::model::steering::{NodeFilter, digest_of};
use scry_engine::service::Service;

/// What a filter takes from the service, the least first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Harm {
    /// The event that would break the property is looked at before it is handled, and refused only if it does.
    Check,
    /// Something comes later, and the danger can pass meanwhile.
    Delay,
    /// A datagram is lost, as datagrams may be.
    Loss,
    /// A connection is reset: both ends know, and the service has handlers for it.
    Reset,
    /// A message in the middle of a connection, or one of a node to itself, is lost and nobody is told, which no network
    /// does.
    Gap,
    /// Something comes later, but nothing was found that makes the danger pass: it waits as long as the filter is renewed.
    Standstill,
    /// A call is refused: the application sees it.
    Refusal,
}

/// A filter that could act on a path.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) rule: NodeFilter,
    /// The first event of the path on which it acts.
    pub(super) at: usize,
    /// What it takes at least.
    pub(super) harm: Harm,
}

impl Candidate {
    /// Tells whether it is for one content only.
    pub(super) fn is_narrow(&self) -> bool {
        without_content(&self.rule).is_some()
    }
}

/// Lists the filters that could act on a path, in the order in which they are tried, each once. The paper's policy knows only
/// those of the node itself.
pub(super) fn candidates<S: Service>(
    me: NodeId,
    path: &[Step<S>],
    order: Order,
    checked: Option<&[NodeId]>,
) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    let considered = |(_, step): &(usize, &Step<S>)| step.node == me || order == Order::LeastHarm;
    for (at, step) in path.iter().enumerate().filter(considered) {
        for (rule, harm) in rules::<S>(step.node, &step.event, order) {
            if all.iter().all(|known| known.rule != rule) {
                all.push(Candidate { rule, at, harm });
            }
        }
    }
    if let Some(nodes) = checked.filter(|_| order == Order::LeastHarm) {
        all.extend(checks::<S>(me, nodes, path));
    }
    if order == Order::LeastHarm {
        // Of filters that take the same, this node's come first, of those the narrower, and of those the later: the less
        // is changed, the better.
        all.sort_by_key(|candidate| {
            (
                candidate.harm,
                candidate.rule.node != me,
                !candidate.is_narrow(),
                Reverse(candidate.at),
            )
        });
    }
    all
}

/// Lists the filters that have events looked at before they are handled: the immediate check would see what an event breaks, if
/// only it asked the neighbors. Which of the `nodes` that break the property together comes last is often a matter of
/// chance, so each of them looks at the last thing that happens to it; none are named if the property is about all. Where
/// that cannot be looked at, as what a node says to itself, looking does not help.
fn checks<S: Service>(me: NodeId, nodes: &[NodeId], path: &[Step<S>]) -> Vec<Candidate> {
    let Some(last) = path.len().checked_sub(1) else {
        return Vec::new();
    };
    if check::<S>(&path[last]).is_none() {
        return Vec::new();
    }
    let is_one = |node: NodeId| nodes.is_empty() || nodes.contains(&node);
    let own = path.iter().rposition(|step| step.node == me && is_one(me));
    let mut places: Vec<usize> = own.into_iter().chain([last]).collect();
    places.dedup();
    let candidate = |at: usize| {
        let rule = check::<S>(&path[at])?;
        let harm = Harm::Check;
        Some(Candidate { rule, at, harm })
    };
    places.into_iter().filter_map(candidate).collect()
}

/// Returns the filter that has a step looked at, and all that are like it.
fn check<S: Service>(step: &Step<S>) -> Option<NodeFilter> {
    let Step { node, event, .. } = step;
    let matcher = matchers::<S>(*node, event).pop()?;
    // What a node says to itself is never held.
    let is_own = matches!(&matcher, Matcher::Message { source, .. } if source == node);
    (!is_own).then(|| filter(*node, matcher, Action::Check))
}

/// Makes a filter. Which actions there are for an event is said once, where both are defined.
fn filter(node: NodeId, matcher: Matcher, action: Action) -> NodeFilter {
    assert!(matcher.admits(action), "no network could {action} this");
    NodeFilter {
        node,
        matcher,
        action,
    }
}

/// Lists the filters that could act on an event at a node, the narrowest first. The paper's policy knows no delay of
/// messages: it drops them, and on connections also with a reset.
fn rules<S: Service>(node: NodeId, event: &EventOf<S>, order: Order) -> Vec<(NodeFilter, Harm)> {
    use Action::{Drop, Hold, Postpone, Refuse, Reset};
    let actions: &[(Action, Harm)] = match (event, order) {
        (Event::Deliver { from, .. }, _) if *from == node => &[(Drop, Harm::Gap)],
        // Not held: when the filter ends, what was held would do just what it was held for, and a service that speaks by
        // datagrams bears their loss.
        (Event::Deliver { .. }, _) => &[(Drop, Harm::Loss)],
        (Event::Receive { .. }, Order::LeastHarm) => {
            &[(Hold, Harm::Delay), (Reset, Harm::Reset), (Drop, Harm::Gap)]
        }
        (Event::Receive { .. }, Order::Earliest) => &[(Drop, Harm::Gap), (Reset, Harm::Reset)],
        (
            Event::Timer(_) | Event::Hangup { .. } | Event::Disconnect { .. } | Event::Break { .. },
            _,
        ) => &[(Postpone, Harm::Delay)],
        (Event::Call(_), _) => &[(Refuse, Harm::Refusal)],
        _ => &[],
    };
    let mut all = Vec::new();
    for &(action, harm) in actions {
        all.extend(
            matchers::<S>(node, event)
                .into_iter()
                .map(|matcher| (filter(node, matcher, action), harm)),
        );
    }
    all
}

/// Lists what a filter could match of an event at a node, the narrowest first.
fn matchers<S: Service>(node: NodeId, event: &EventOf<S>) -> Vec<Matcher> {
    match event {
        Event::Deliver { from, message } | Event::Receive { from, message, .. } => {
            let matcher = |content| Matcher::Message {
                kind: kind_of(message).into_owned(),
                source: *from,
                destination: node,
                content,
            };
            contents(message).into_iter().map(matcher).collect()
        }
        Event::Timer(timer) => {
            let kind = kind_of(timer).into_owned();
            let matcher = |content| Matcher::Timer {
                kind: kind.clone(),
                content,
            };
            contents(timer).into_iter().map(matcher).collect()
        }
        Event::Call(call) => {
            let kind = kind_of(call).into_owned();
            let matcher = |content| Matcher::Call {
                kind: kind.clone(),
                content,
            };
            contents(call).into_iter().map(matcher).collect()
        }
        Event::Hangup { from: peer, .. }
        | Event::Disconnect { from: peer, .. }
        | Event::Break { peer } => vec![Matcher::Disconnect { peer: *peer }],
        _ => Vec::new(),
    }
}

/// Returns what a veto does to an event: the one event is kept from its handler as a network or a scheduler could keep it
/// . `None` for what cannot be kept back, such as a reset.
pub(super) fn veto<S: Service>(node: NodeId, event: &EventOf<S>) -> Option<NodeFilter> {
    let action = match event {
        Event::Deliver { .. } => Action::Drop,
        Event::Receive { .. } => Action::Reset,
        Event::Call(_) => Action::Refuse,
        _ => Action::Postpone,
    };
    let matcher = matchers::<S>(node, event).into_iter().next()?;
    Some(filter(node, matcher, action))
}

/// Lists the contents a filter may name, the narrowest first. A value that is nothing but its name needs none.
fn contents<T: Serialize>(value: &T) -> Vec<Option<Digest>> {
    let digest = digest_of(value).filter(|&digest| digest_of(&kind_of(value)) != Some(digest));
    digest.map(Some).into_iter().chain([None]).collect()
}

/// Returns the rule for every content, if it is for one only.
pub(super) fn without_content(rule: &NodeFilter) -> Option<NodeFilter> {
    let mut wider = rule.clone();
    match &mut wider.matcher {
        Matcher::Message { content, .. }
        | Matcher::Timer { content, .. }
        | Matcher::Call { content, .. } => content.take().map(|_| wider),
        Matcher::Disconnect { .. } => None,
    }
}

/// Says what a filter does.
pub fn words(rule: &NodeFilter) -> String {
    let (what, content) = match &rule.matcher {
        Matcher::Message { kind, content, .. } if rule.action == Action::Check => {
            (kind.clone(), *content)
        }
        Matcher::Message {
            kind,
            source,
            content,
            ..
        } => (format!("{kind} from {source}"), *content),
        Matcher::Timer { kind, content } => (format!("timer {kind}"), *content),
        Matcher::Call { kind, content } => (format!("call {kind}"), *content),
        Matcher::Disconnect { peer } => {
            (format!("the news of a lost connection with {peer}"), None)
        }
    };
    let which = if content.is_some() { "this " } else { "" };
    format!("{} {which}{what} at {}", rule.action, rule.node)
}
