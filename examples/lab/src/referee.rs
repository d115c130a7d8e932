//! The referee: sees the true state of the whole cluster, from the nodes' own words, and counts what is inconsistent.
//!
//! All nodes run on one machine and tell the time of each event by one clock. Their words come by different pipes, so
//! they are put in order of that clock before they are judged; a property of two nodes would otherwise be broken by
//! nothing but a late pipe.

use std::collections::{BTreeMap, VecDeque};

use scry::{Judgement, NodeId, Property, Service, View};
use serde::Serialize;

use crate::node::Told;

/// How long an event is kept for others to come before it, in milliseconds.
pub(crate) const ORDER_WITHIN_MS: u64 = 100;

/// Watches a cluster of a service.
#[derive(Debug)]
pub(crate) struct Referee<S: Service> {
    properties: Vec<Property<S>>,
    nodes: BTreeMap<NodeId, Seen<S>>,
    queue: VecDeque<Box<Told>>,
    /// Since when which property is broken.
    broken_since: BTreeMap<usize, u64>,
    /// What was counted.
    pub(crate) count: Count,
}

/// What the referee knows of a node.
#[derive(Debug)]
struct Seen<S: Service> {
    state: S,
    timers: Vec<S::Timer>,
}

/// What the referee has counted.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Count {
    /// Global states the cluster went through: one more with each event that changed one.
    pub(crate) states: u64,
    /// Those of them in which a property was broken.
    pub(crate) inconsistent_states: u64,
    /// How long a property was broken, in milliseconds.
    pub(crate) inconsistent_ms: u64,
    /// How often each property came to be broken.
    pub(crate) broken: BTreeMap<String, u64>,
    /// Events that came to nodes, whatever was done about them.
    pub(crate) actions: u64,
    /// Events that a filter changed.
    pub(crate) filtered: u64,
    /// Events that the immediate check stopped.
    pub(crate) vetoed: u64,
    /// Events that nodes could not tell: the true state was not seen at these moments.
    pub(crate) untold: u64,
    /// Events whose state could not be read.
    pub(crate) unreadable: u64,
}

/// A property came to be broken, or holds again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Change {
    /// Which.
    pub(crate) property: String,
    /// Whether it is broken now.
    pub(crate) broken: bool,
    /// What is wrong.
    pub(crate) explanation: String,
    /// When, in milliseconds since the epoch.
    pub(crate) at_ms: u64,
}

/// One event after the referee has looked at it.
#[derive(Debug)]
pub(crate) struct Judged {
    /// The event.
    pub(crate) told: Box<Told>,
    /// What it changed.
    pub(crate) changes: Vec<Change>,
}

impl<S: Service> Referee<S> {
    /// Makes a referee who goes by the service's own properties of every state.
    pub(crate) fn new() -> Self {
        let mut properties = S::properties();
        properties.retain(Property::is_always);
        Self {
            properties,
            nodes: BTreeMap::new(),
            queue: VecDeque::new(),
            broken_since: BTreeMap::new(),
            count: Count::default(),
        }
    }

    /// Hears of an event, which is judged in its turn.
    pub(crate) fn hear(&mut self, told: Box<Told>) {
        let before = self.queue.iter().rposition(|it| it.at_ms <= told.at_ms);
        self.queue.insert(before.map_or(0, |at| at + 1), told);
    }

    /// Judges the next event that is old enough at `now_ms`.
    pub(crate) fn judge_next(&mut self, now_ms: u64) -> Option<Judged> {
        let first = self.queue.front()?;
        if first.at_ms + ORDER_WITHIN_MS > now_ms {
            return None;
        }
        let told = self.queue.pop_front()?;
        let changes = self.judge(&told);
        Some(Judged { told, changes })
    }

    /// Returns when the next event will be old enough.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        Some(self.queue.front()?.at_ms + ORDER_WITHIN_MS)
    }

    /// Returns the state of a node as it was last judged.
    pub(crate) fn state(&self, node: NodeId) -> Option<&S> {
        self.nodes.get(&node).map(|seen| &seen.state)
    }

    /// Returns all nodes and their states.
    pub(crate) fn states(&self) -> impl Iterator<Item = (NodeId, &S)> {
        self.nodes.iter().map(|(&id, seen)| (id, &seen.state))
    }

    /// Tells whether some property is broken now.
    pub(crate) fn is_inconsistent(&self) -> bool {
        !self.broken_since.is_empty()
    }

    /// Ends the watch: what is broken now was broken until `now_ms`.
    pub(crate) fn close(&mut self, now_ms: u64) {
        while self.judge_next(u64::MAX).is_some() {}
        self.count.inconsistent_ms += self.since_first(now_ms);
        self.broken_since.clear();
    }

    fn judge(&mut self, told: &Told) -> Vec<Change> {
        self.count_event(told);
        let changed = match told.kind.as_str() {
            "shutdown" | "panic" | "failed" => self.nodes.remove(&told.node).is_some(),
            _ => self.take_over(told),
        };
        if !changed {
            return Vec::new();
        }
        self.count.states += 1;
        let was_broken_ms = self.since_first(told.at_ms);
        let changes = self.look(told.at_ms);
        if self.is_inconsistent() {
            self.count.inconsistent_states += 1;
        } else {
            self.count.inconsistent_ms += was_broken_ms;
        }
        changes
    }

    fn count_event(&mut self, told: &Told) {
        self.count.untold += told.missed;
        if ["message", "timer", "call", "disconnect"].contains(&told.kind.as_str()) {
            self.count.actions += 1;
        }
        match told.verdict.as_str() {
            "veto" => self.count.vetoed += 1,
            "drop" | "reset" | "postpone" | "refuse" | "hold" => self.count.filtered += 1,
            _ => {}
        }
    }

    /// Takes over what a node says of itself; tells whether that is news.
    fn take_over(&mut self, told: &Told) -> bool {
        let (Ok(state), Ok(timers)) = (
            serde_json::from_value::<S>(told.state.clone()),
            serde_json::from_value::<Vec<S::Timer>>(told.timers.clone()),
        ) else {
            self.count.unreadable += 1;
            return false;
        };
        let known = self.nodes.get(&told.node);
        let is_news = known.is_none_or(|seen| seen.state != state || seen.timers != timers);
        self.nodes.insert(told.node, Seen { state, timers });
        is_news
    }

    /// Judges the present state.
    fn look(&mut self, at_ms: u64) -> Vec<Change> {
        let views: Vec<View<'_, S>> = self
            .nodes
            .iter()
            .map(|(&id, seen)| View {
                id,
                state: &seen.state,
                timers: &seen.timers,
            })
            .collect();
        let mut changes = Vec::new();
        for (at, property) in self.properties.iter().enumerate() {
            let broken = property.judge(&views) == Judgement::Violated;
            if broken == self.broken_since.contains_key(&at) {
                continue;
            }
            let name = property.name().to_owned();
            let mut explanation = String::new();
            if broken {
                explanation = property.explain(&views).unwrap_or_default();
                self.broken_since.insert(at, at_ms);
                *self.count.broken.entry(name.clone()).or_default() += 1;
            } else {
                self.broken_since.remove(&at);
            }
            changes.push(Change {
                property: name,
                broken,
                explanation,
                at_ms,
            });
        }
        changes
    }

    fn since_first(&self, now_ms: u64) -> u64 {
        let first = self.broken_since.values().min();
        first.map_or(0, |&since| now_ms.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use randtree::RandTree;
    use serde_json::{Value, json};

    use super::*;

    fn told(node: u32, at_ms: u64, state: Value) -> Box<Told> {
        let line = json!({
            "node": node, "at_ms": at_ms, "kind": "message", "event": "x", "verdict": "run",
            "state": state, "timers": ["Recovery"],
        });
        serde_json::from_value(line).unwrap()
    }

    fn state(children: &[u32], siblings: &[u32]) -> Value {
        json!({
            "mode": "joined", "root": 1, "parent": 1, "children": children, "siblings": siblings,
            "peers": [], "heir": null,
        })
    }

    fn judge_all(referee: &mut Referee<RandTree>) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(judged) = referee.judge_next(u64::MAX / 2) {
            changes.extend(judged.changes);
        }
        changes
    }

    #[test]
    fn coming_to_be_broken_is_counted_once_and_timed() {
        let mut referee = Referee::<RandTree>::new();
        referee.hear(told(9, 100, state(&[13], &[])));
        referee.hear(told(9, 200, state(&[13], &[13])));
        referee.hear(told(9, 250, state(&[13, 14], &[13])));
        referee.hear(told(9, 300, state(&[14], &[13])));
        let changes = judge_all(&mut referee);
        let broken: Vec<bool> = changes.iter().map(|change| change.broken).collect();
        assert_eq!(broken, [true, false]);
        assert_eq!(changes[0].explanation, "n9 has n13 as child and as sibling");
        let count = &referee.count;
        assert_eq!(count.broken[randtree::properties::DISJOINT], 1);
        assert_eq!((count.states, count.inconsistent_states), (4, 2));
        assert_eq!(count.inconsistent_ms, 100);
    }

    #[test]
    fn what_stays_broken_counts_until_the_end() {
        let mut referee = Referee::<RandTree>::new();
        referee.hear(told(9, 200, state(&[13], &[13])));
        referee.close(1200);
        assert_eq!(referee.count.inconsistent_ms, 1000);
    }

    #[test]
    fn events_are_judged_in_the_order_of_their_clock() {
        let mut referee = Referee::<RandTree>::new();
        referee.hear(told(9, 300, state(&[14], &[13])));
        referee.hear(told(9, 200, state(&[13], &[13])));
        let first = referee.judge_next(1000).unwrap();
        assert_eq!(first.told.at_ms, 200);
        assert!(referee.judge_next(300).is_none(), "another may still come");
        assert_eq!(referee.due_ms(), Some(300 + ORDER_WITHIN_MS));
    }

    #[test]
    fn an_event_that_changes_nothing_makes_no_state() {
        let mut referee = Referee::<RandTree>::new();
        for at_ms in [1, 2, 3] {
            referee.hear(told(9, at_ms, state(&[13], &[])));
        }
        referee.hear(told(9, 4, json!("unreadable")));
        judge_all(&mut referee);
        assert_eq!((referee.count.states, referee.count.actions), (1, 4));
        assert_eq!(referee.count.unreadable, 1);
    }

    #[test]
    fn a_node_that_is_gone_has_no_state() {
        let mut referee = Referee::<RandTree>::new();
        referee.hear(told(9, 1, state(&[13], &[13])));
        let mut gone = told(9, 2, Value::Null);
        gone.kind = "shutdown".to_owned();
        referee.hear(gone);
        let changes = judge_all(&mut referee);
        assert!(!changes.last().unwrap().broken);
        assert_eq!(referee.states().count(), 0);
    }
}
