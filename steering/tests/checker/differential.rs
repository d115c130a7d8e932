//! Under filters the engine must find exactly what a search over whole states in plain values finds (I-18).

use std::collections::HashSet;

use proptest::prelude::*;
use scry::explore::Settings;
use scry::hook::kind_of;
use scry::model::steering::digest_of;
use scry::model::{EventOf, NodeFilter, Steering};
use scry::timing::Clock;
use scry::{Event, Limits, NodeId, Options, Search, Simulation, Strategy as How};
use scry_protocol::filter::{Action, Matcher};

use crate::reference::{confirm, essence, explore_to, lengths, run};
use crate::table::{ANYTHING, Table, rules, starts};

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
    let options = options(How::EXHAUSTIVE, Some(DEPTH));
    let mut search = Search::new(start, Vec::new(), options).expect("these options go together");
    let mut states: HashSet<_> = search.frontier().into_iter().collect();
    while search.advance(1).is_none() {
        states.extend(search.frontier());
    }
    states.extend(search.frontier());
    states
}

/// Makes a filter against an event.
fn against(
    node: NodeId,
    event: &EventOf<Table>,
    narrow: bool,
    action: Action,
) -> Option<NodeFilter> {
    let (matcher, action) = match event {
        Event::Deliver { from, message } | Event::Receive { from, message, .. } => {
            let matcher = Matcher::Message {
                kind: kind_of(message).into_owned(),
                source: *from,
                destination: node,
                content: digest_of(message).filter(|_| narrow),
            };
            (matcher, action)
        }
        Event::Timer(timer) => {
            let (kind, content) = (kind_of(timer).into_owned(), digest_of(timer));
            let content = content.filter(|_| narrow);
            (Matcher::Timer { kind, content }, Action::Postpone)
        }
        Event::Call(call) => {
            let (kind, content) = (kind_of(call).into_owned(), digest_of(call));
            let content = content.filter(|_| narrow);
            (Matcher::Call { kind, content }, Action::Refuse)
        }
        Event::Hangup { from: peer, .. }
        | Event::Disconnect { from: peer, .. }
        | Event::Break { peer } => (Matcher::Disconnect { peer: *peer }, Action::Postpone),
        _ => return None,
    };
    Some(NodeFilter {
        node,
        matcher,
        action,
    })
}

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![Just(Action::Drop), Just(Action::Reset), Just(Action::Hold)]
}

type Picks = Vec<(prop::sample::Index, bool, Action)>;

fn picks() -> impl Strategy<Value = Picks> {
    prop::collection::vec(
        (any::<prop::sample::Index>(), any::<bool>(), actions()),
        1..3,
    )
}

/// Puts filters in force against some of the events that can happen; nothing if there are none, or too many states.
fn filtered(start: &Simulation<Table>, picks: &Picks) -> Option<Simulation<Table>> {
    let unsteered = plain(start)?;
    let mut events: Vec<(NodeId, EventOf<Table>)> = Vec::new();
    for state in &unsteered {
        for &node in state.nodes().keys() {
            events.extend(state.enabled(node).into_iter().map(|event| (node, event)));
        }
    }
    events.sort();
    events.dedup();
    events.retain(|(node, event)| against(*node, event, true, Action::Drop).is_some());
    if events.is_empty() {
        return None;
    }
    let rules = picks.iter().filter_map(|(index, narrow, action)| {
        let (node, event) = index.get(&events);
        against(*node, event, *narrow, *action)
    });
    Some(start.clone().steered(Steering::new(rules.collect())))
}

fn options(strategy: How, depth: Option<u32>) -> Options {
    Options {
        strategy,
        limits: Limits {
            depth,
            ..Limits::default()
        },
        clock: Clock::FREE,
        ..Options::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn the_engine_does_under_filters_what_plain_values_do(
        start in starts(ANYTHING),
        picks in picks(),
    ) {
        let Some(steered) = filtered(&start, &picks) else { return Ok(()) };
        if let Some(expected) = plain(&steered) {
            prop_assert!(engine(&steered) == expected);
        }
    }

    /// What a proof relies on: nothing that consequence prediction reports under filters is made up, and without its
    /// pruning it is the exhaustive search.
    #[test]
    fn a_61_a_64_consequences_under_filters_are_real_and_without_pruning_all(
        start in starts(ANYTHING),
        picks in picks(),
        rules in rules(),
    ) {
        let steered = filtered(&start, &picks);
        prop_assume!(steered.is_some());
        let steered = steered.expect("just looked");
        let named = rules.iter().enumerate().map(|(name, rule)| rule.property(name));
        let properties: Vec<_> = named.collect();
        let reference = explore_to(&steered, STATES_MAX, DEPTH);
        let bound = Some(reference.bound.unwrap_or(DEPTH));
        let exhaustive = run(&steered, &properties, options(How::EXHAUSTIVE, bound));
        let real = reference.findings(&properties);
        prop_assert_eq!(&lengths(&exhaustive), &real);

        let predicted = run(&steered, &properties, options(How::CONSEQUENCE, bound));
        // Each path replays under the same filters, step by step, and ends where it says.
        confirm(&steered, &properties, &predicted);
        for (finding, length) in lengths(&predicted) {
            prop_assert!(real.get(&finding).is_some_and(|least| *least <= length), "{:?}", finding);
        }

        let exact = Options { settings: Settings::of(&[("pruning", 0)]), ..options(How::CONSEQUENCE, bound) };
        prop_assert_eq!(essence(&run(&steered, &properties, exact)), essence(&exhaustive));
    }

    /// A filter takes an event away, and its action is the only trace of it: what a node knows is not touched.
    #[test]
    fn a_97_a_99_a_filtered_event_is_a_step_that_leaves_the_state_alone(
        start in starts(ANYTHING),
        picks in picks(),
    ) {
        let steered = filtered(&start, &picks);
        prop_assume!(steered.is_some());
        let steered = steered.expect("just looked");
        for state in explore_to(&steered, 300, DEPTH).states.keys() {
            for &node in state.nodes().keys() {
                for event in state.enabled(node) {
                    let action = state.steering().action::<Table>(node, &event);
                    let steps = state.successors().into_iter();
                    let taken: Vec<_> = steps
                        .filter(|(step, _)| step.node == node && step.event == event)
                        .map(|(_, after)| after)
                        .collect();
                    match action {
                        None | Some(Action::Reset) => {}
                        Some(Action::Drop) => {
                            prop_assert_eq!(taken.len(), 1);
                            prop_assert_eq!(&taken[0].nodes()[&node].local, &state.nodes()[&node].local);
                            prop_assert_ne!(&taken[0].nodes()[&node].inbox, &state.nodes()[&node].inbox);
                        }
                        Some(Action::Hold | Action::Postpone | Action::Refuse) => {
                            prop_assert!(taken.is_empty());
                        }
                        Some(Action::Check) => prop_assert!(false, "it changes nothing in a search"),
                    }
                }
            }
        }
    }
}
