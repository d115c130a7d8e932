//! Filters in force while a system is explored: what they make of the events they match.
//!
//! A filter changes what an event does, not which events there are: a path found under filters replays under the same
//! filters, step by step. A postponed timer, a refused call, a held message and the postponed news of a lost connection
//! do not happen at all, since for as long as the filter lasts nothing changes.
//!
//! - A message that is held keeps its place: whatever is behind it on its connection waits with it.
//! - While the news of a lost connection is postponed, the node takes the connection for open. What it sends goes on a newer
//!   one, the peer's or its own, as soon as the news is there: a peer might have opened one and said nothing on it, which no
//!   handler could tell apart, and nothing is gained if all that is sent meanwhile vanishes. Breaks that this node would see
//!   first do not happen: that a connection is broken and this end does not know is what a break at the other end comes to.
//!
//! - A filter that has an event checked changes nothing here: what the immediate check makes of the event is asked where it is
//!   proposed.
//!
//! What is held or postponed comes when the filter ends, in the state that is then. The model has no lease: whether the
//! event is still dangerous then is for the run to say that renews the filter or does not.

use std::sync::Arc;

use scry_protocol::filter::{Action, Matcher};
use scry_protocol::{Digest, NodeId};
use serde::Serialize;

use crate::kind::kind_of;
use crate::model::event::{Event, EventOf};
use crate::service::Service;

/// What a filter does at a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeFilter {
    /// The node whose events it sees.
    pub node: NodeId,
    /// Which events.
    pub matcher: Matcher,
    /// What becomes of them.
    pub action: Action,
}

/// The filters in force. Copies share one allocation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Steering {
    rules: Arc<Vec<NodeFilter>>,
}

impl Steering {
    /// Puts filters in force. Where several match an event, the first acts.
    pub fn new(rules: Vec<NodeFilter>) -> Self {
        Self {
            rules: Arc::new(rules),
        }
    }

    /// Tells whether there is no filter.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Tells whether the news that the connections of a node with a peer are lost are kept from the node.
    pub fn delays_news<S: Service>(&self, node: NodeId, peer: NodeId) -> bool {
        self.action::<S>(node, &Event::Break { peer }) == Some(Action::Postpone)
    }

    /// Returns what becomes of an event at a node, or `None` if it runs.
    pub fn action<S: Service>(&self, node: NodeId, event: &EventOf<S>) -> Option<Action> {
        let acts = |rule: &&NodeFilter| rule.action != Action::Check;
        let mut rules = self.rules.iter().filter(acts);
        let rule = rules.find(|rule| rule.matches::<S>(node, event))?;
        Some(rule.action)
    }
}

impl NodeFilter {
    /// Tells whether it acts on an event at a node. An action that makes no sense for an event does not act on it.
    pub fn matches<S: Service>(&self, node: NodeId, event: &EventOf<S>) -> bool {
        if node != self.node || !self.matcher.admits(self.action) {
            return false;
        }
        match (&self.matcher, event) {
            (
                Matcher::Message {
                    kind,
                    source,
                    destination,
                    content,
                },
                Event::Deliver { from, message } | Event::Receive { from, message, .. },
            ) => {
                (source == from || self.is_for_all())
                    && *destination == node
                    && is_like(message, kind, *content)
            }
            (Matcher::Timer { kind, content }, Event::Timer(timer)) => {
                is_like(timer, kind, *content)
            }
            (Matcher::Call { kind, content }, Event::Call(call)) => is_like(call, kind, *content),
            (
                Matcher::Disconnect { peer },
                Event::Hangup { from: lost, .. }
                | Event::Disconnect { from: lost, .. }
                | Event::Break { peer: lost },
            ) => peer == lost || self.is_for_all(),
            _ => false,
        }
    }

    /// Tells whether it does not matter whom an event comes from.
    fn is_for_all(&self) -> bool {
        self.action == Action::Check
    }
}

fn is_like<T: Serialize>(value: &T, kind: &str, content: Option<Digest>) -> bool {
    kind_of(value) == kind && content.is_none_or(|content| digest_of(value) == Some(content))
}

/// Names a message, timer or call by its content as it travels, or not at all if it cannot be encoded.
pub fn digest_of<T: Serialize>(value: &T) -> Option<Digest> {
    Some(Digest::of(&scry_protocol::messagepack::to_vec(value).ok()?))
}
