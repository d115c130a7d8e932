//! Generated services: the engine must find exactly what a search over whole states in plain values finds.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use scry_engine::explore::{Settings, Stop};
use scry_engine::model::Event;
use scry_engine::timing::Clock;
use scry_engine::{Limits, NodeId, Options, Property, Search, Service, Simulation, Strategy};

use crate::reference::{confirm, essence, explore, lengths, run};
use crate::table::{ANYTHING, Rule, Table, Tastes, rules, starts};

/// How many states a generated system may have before it is cut off at a depth.
const STATES_MAX: usize = 1_200;

fn properties(rules: &[Rule]) -> Vec<Property<Table>> {
    let numbered = rules.iter().enumerate();
    numbered.map(|(name, rule)| rule.property(name)).collect()
}

fn options(strategy: Strategy, depth: Option<u32>) -> Options {
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

/// Collects every state a breadth-first strategy visits.
fn visited<S: Service>(start: &Simulation<S>, options: Options) -> HashSet<Simulation<S>> {
    let mut search = Search::new(start, Vec::new(), options).expect("these options go together");
    let mut states: HashSet<_> = search.frontier().into_iter().collect();
    while search.advance(1).is_none() {
        states.extend(search.frontier());
    }
    states.extend(search.frontier());
    states
}

/// Explores every node by itself, and adds their transitions up.
fn transitions_alone(start: &Simulation<Table>) -> u64 {
    let alone = |(id, node): (&NodeId, &scry_engine::model::Node<Table>)| {
        let setups = BTreeMap::from([(*id, start.setups()[id].clone())]);
        let nodes = BTreeMap::from([(*id, node.clone())]);
        explore(
            &Simulation::from_nodes(setups, nodes, start.faults()),
            10_000,
        )
        .transitions
    };
    start.nodes().iter().map(alone).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_9_exhaustive_visits_what_whole_states_reach(start in starts(ANYTHING)) {
        let reference = explore(&start, STATES_MAX);
        let options = options(Strategy::EXHAUSTIVE, reference.bound);
        let report = run(&start, &[], options);
        prop_assert_eq!(report.states, reference.states.len() as u64);
        prop_assert_eq!(report.transitions, reference.transitions);
        prop_assert_eq!(report.depth, reference.depth());
        prop_assert_eq!(report.complete, reference.bound.is_none());
        let stop = if reference.bound.is_some() { Stop::Depth } else { Stop::Exhausted };
        prop_assert_eq!(report.stop, stop);
        let states: HashSet<_> = reference.states.into_keys().collect();
        prop_assert!(visited(&start, options) == states);
    }

    /// Where there are datagrams only, most steps commute, and the engine passes over many.
    #[test]
    fn a_9_steps_that_are_passed_over_lead_nowhere_else(
        start in starts(Tastes { nodes_max: 4, streams: false, ..ANYTHING }),
        rules in rules(),
    ) {
        let properties = properties(&rules);
        let reference = explore(&start, STATES_MAX);
        let options = options(Strategy::EXHAUSTIVE, reference.bound);
        let report = run(&start, &properties, options);
        prop_assert_eq!(report.transitions, reference.transitions);
        prop_assert_eq!(report.depth, reference.depth());
        prop_assert_eq!(lengths(&report), reference.findings(&properties));
        let states: HashSet<_> = reference.states.into_keys().collect();
        prop_assert!(visited(&start, options) == states);
    }

    #[test]
    fn a_4_a_step_touches_one_node_and_what_is_on_its_way(start in starts(ANYTHING)) {
        for state in explore(&start, 100).states.keys() {
            for (step, after) in state.successors() {
                for (id, node) in state.nodes().iter().filter(|(id, _)| **id != step.node) {
                    prop_assert_eq!(&node.local, &after.nodes()[id].local);
                    prop_assert_eq!(&node.links, &after.nodes()[id].links);
                }
                let Event::Deliver { from, message } = step.event else { continue };
                let copies = |state: &Simulation<Table>| {
                    let inbox = &state.nodes()[&step.node].inbox;
                    let same = inbox.datagrams().find(|it| (it.0, *it.1) == (from, message));
                    same.map_or(0, |(_, _, count)| count)
                };
                // One is taken; only a node that writes to itself may have sent the like again.
                prop_assert!(from == step.node || copies(&after) + 1 == copies(state));
            }
        }
    }

    #[test]
    fn what_the_engine_remembers_of_properties_is_what_they_judge(
        start in starts(ANYTHING),
        rules in rules(),
    ) {
        let properties = properties(&rules);
        let reference = explore(&start, STATES_MAX);
        let report = run(&start, &properties, options(Strategy::EXHAUSTIVE, reference.bound));
        confirm(&start, &properties, &report);
        // The same findings, and each at the least depth at which it can be seen.
        prop_assert_eq!(lengths(&report), reference.findings(&properties));
        prop_assert!(report.violations.is_sorted_by_key(|violation| violation.path.len()));
        prop_assert_eq!(report.states, reference.states.len() as u64);
    }

    #[test]
    fn a_61_consequence_without_pruning_is_exhaustive(
        start in starts(ANYTHING),
        rules in rules(),
    ) {
        let properties = properties(&rules);
        let bound = explore(&start, STATES_MAX).bound;
        let exhaustive = options(Strategy::EXHAUSTIVE, bound);
        let unpruned = Options { settings: Settings::of(&[("pruning", 0)]), ..options(Strategy::CONSEQUENCE, bound) };
        let (one, other) = (run(&start, &properties, exhaustive), run(&start, &properties, unpruned));
        prop_assert_eq!(essence(&one), essence(&other));
        prop_assert!(visited(&start, exhaustive) == visited(&start, unpruned));
    }

    #[test]
    fn i_15_the_number_of_threads_changes_nothing(
        start in starts(ANYTHING),
        rules in rules(),
        consequence in any::<bool>(),
    ) {
        let properties = properties(&rules);
        let strategy = if consequence { Strategy::CONSEQUENCE } else { Strategy::EXHAUSTIVE };
        let bound = explore(&start, STATES_MAX).bound;
        let with = |threads| {
            let options = Options { threads, ..options(strategy, bound) };
            essence(&run(&start, &properties, options))
        };
        let one = with(1);
        prop_assert_eq!(&one, &with(2));
        prop_assert_eq!(&one, &with(3));
    }

    #[test]
    fn a_portfolio_finds_what_its_members_find(
        start in starts(ANYTHING),
        rules in rules(),
        slice in 1_u64..2_000,
    ) {
        let properties = properties(&rules);
        let bound = explore(&start, STATES_MAX).bound;
        let exhaustive = run(&start, &properties, options(Strategy::EXHAUSTIVE, bound));
        let portfolio = options(Strategy::PORTFOLIO, bound);
        let report = run(&start, &properties, portfolio);
        confirm(&start, &properties, &report);
        // Local model checking may be done first, and its paths need not be the shortest.
        let (found, shortest) = (lengths(&report), lengths(&exhaustive));
        if exhaustive.complete {
            prop_assert!(report.complete);
            prop_assert!(found.keys().eq(shortest.keys()));
        }
        for finding in shortest.keys() {
            prop_assert!(found.contains_key(finding));
        }
        for violation in &report.violations {
            prop_assert!(!violation.found_by.is_empty());
        }
        // Neither threads nor how often it is looked at make a difference.
        let threads = run(&start, &properties, Options { threads: 2, ..portfolio });
        prop_assert_eq!(essence(&report), essence(&threads));
        let mut sliced = Search::new(&start, properties, portfolio).expect("these options go together");
        while sliced.advance(slice).is_none() {}
        prop_assert_eq!(essence(&report), essence(&sliced.finish()));
    }

    #[test]
    fn b_33_depth_first_within_a_bound_visits_what_breadth_first_visits(
        start in starts(ANYTHING),
        rules in rules(),
        nearer in 0_u32..3,
    ) {
        let properties = properties(&rules);
        let reference = explore(&start, STATES_MAX);
        let bound = reference.bound.map(|bound| bound.saturating_sub(nearer).min(6)).or(Some(nearer + 3));
        let breadth = run(&start, &properties, options(Strategy::EXHAUSTIVE, bound));
        let depth = run(&start, &properties, options(Strategy::DEPTH_FIRST, bound));
        confirm(&start, &properties, &depth);
        prop_assert_eq!(depth.states, breadth.states);
        prop_assert_eq!(depth.transitions, breadth.transitions);
        prop_assert_eq!(depth.depth, breadth.depth);
        prop_assert_eq!(depth.stop, breadth.stop);
        let found = |lengths: BTreeMap<_, u32>| lengths.into_keys().collect::<Vec<_>>();
        prop_assert_eq!(found(lengths(&depth)), found(lengths(&breadth)));
    }

    #[test]
    fn a_62_a_64_consequence_starts_with_every_step_and_reports_only_what_is_real(
        start in starts(ANYTHING),
        rules in rules(),
    ) {
        let properties = properties(&rules);
        let reference = explore(&start, STATES_MAX);
        let report = run(&start, &properties, options(Strategy::CONSEQUENCE, reference.bound));
        confirm(&start, &properties, &report);
        prop_assert!(!report.complete);
        let real = reference.findings(&properties);
        for (finding, length) in lengths(&report) {
            prop_assert!(real[&finding] <= length);
        }
        let predicted = visited(&start, options(Strategy::CONSEQUENCE, reference.bound));
        prop_assert!(predicted.iter().all(|state| reference.states.contains_key(state)));
        let first = visited(&start, options(Strategy::CONSEQUENCE, Some(1)));
        prop_assert!(first == visited(&start, options(Strategy::EXHAUSTIVE, Some(1))));
    }

    #[test]
    fn a_59_without_messages_every_local_state_acts_once(
        start in starts(Tastes { sends: false, faults: false, ticks: false, ..ANYTHING }),
    ) {
        let alone = transitions_alone(&start);
        let report = run(&start, &[], options(Strategy::CONSEQUENCE, None));
        prop_assert_eq!(report.stop, Stop::Exhausted);
        prop_assert_eq!(report.transitions, alone);
    }
}
