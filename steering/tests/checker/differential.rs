//! Under filters the engine must find exactly what a search over whole states in plain values finds (I-18).

use std::collections::HashSet;

use proptest::prelude::*;
use scry::hook::kind_of;
use scry::model::steering::digest_of;
use scry::model::{EventOf, Rule, Steering};
use scry::{Event, Limits, NodeId, Options, Search, Simulation, Strategy as How};
use scry_protocol::filter::{Action, Matcher};

use crate::table::{ANYTHING, Table, starts};

/// How deep both search, and how many states a system may have there.
const DEPTH: u32 = 4;
const STATES_MAX: usize = 3_000;

/// Collects every state within the depth, or nothing if there are too many.
fn plain(start: &Simulation<Table>) -> Option<HashSet<Simulation<Table>>> {
    let mut seen = HashSet::from([start.clone()]);
    let mut level = vec![start.clone()];
    for _ in 0..DEPTH {
        let after = level.iter().flat_map(Simulation::successors);
        let mut next = Vec::new();
        for (_, state) in after {
            if seen.insert(state.clone()) {
                next.push(state);
            }
            if seen.len() > STATES_MAX {
                return None;
            }
        }
        level = next;
    }
    Some(seen)
}

fn engine(start: &Simulation<Table>) -> HashSet<Simulation<Table>> {
    let options = Options {
        strategy: How::Exhaustive,
        limits: Limits {
            depth: Some(DEPTH),
            ..Limits::default()
        },
        ..Options::default()
    };
    let mut search = Search::new(start, Vec::new(), options).expect("these options go together");
    let mut states: HashSet<_> = search.frontier().into_iter().collect();
    while search.advance(1).is_none() {
        states.extend(search.frontier());
    }
    states.extend(search.frontier());
    states
}

/// Makes a filter against an event.
fn against(node: NodeId, event: &EventOf<Table>, narrow: bool, action: Action) -> Option<Rule> {
    let (matcher, action) = match event {
        Event::Deliver { from, message } | Event::Receive { from, message, .. } => {
            let matcher = Matcher::Message {
                kind: kind_of(message).to_owned(),
                source: *from,
                destination: node,
                content: digest_of(message).filter(|_| narrow),
            };
            (matcher, action)
        }
        Event::Timer(timer) => {
            let (kind, content) = (kind_of(timer).to_owned(), digest_of(timer));
            let content = content.filter(|_| narrow);
            (Matcher::Timer { kind, content }, Action::Postpone)
        }
        Event::Call(call) => {
            let (kind, content) = (kind_of(call).to_owned(), digest_of(call));
            let content = content.filter(|_| narrow);
            (Matcher::Call { kind, content }, Action::Refuse)
        }
        _ => return None,
    };
    Some(Rule {
        node,
        matcher,
        action,
    })
}

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![Just(Action::Drop), Just(Action::Reset), Just(Action::Hold)]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn the_engine_does_under_filters_what_plain_values_do(
        start in starts(ANYTHING),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), actions()), 1..3),
    ) {
        let Some(unsteered) = plain(&start) else { return Ok(()) };
        let mut events: Vec<(NodeId, EventOf<Table>)> = Vec::new();
        for state in &unsteered {
            for &node in state.nodes().keys() {
                events.extend(state.enabled(node).into_iter().map(|event| (node, event)));
            }
        }
        events.sort();
        events.dedup();
        events.retain(|(node, event)| against(*node, event, true, Action::Drop).is_some());
        prop_assume!(!events.is_empty());
        let rules = picks.iter().filter_map(|(index, narrow, action)| {
            let (node, event) = index.get(&events);
            against(*node, event, *narrow, *action)
        });
        let steered = start.clone().steered(Steering::new(rules.collect()));
        if let Some(expected) = plain(&steered) {
            prop_assert!(engine(&steered) == expected);
        }
    }
}
