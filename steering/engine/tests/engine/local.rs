//! Local model checking: it finds what an exhaustive search finds, no more and, where it has an answer, no less.

mod paxos;

use std::collections::BTreeSet;

use proptest::prelude::*;
use scry_engine::explore::{Settings, Stop};
use scry_engine::timing::Clock;
use scry_engine::{Limits, NodeId, Options, Property, Report, Service, Simulation, Strategy};

use crate::reference::{confirm, essence, explore, lengths, run};
use crate::table::{ANYTHING, Rule, Table, Tastes, rules, starts};

/// How many states a generated system may have before it is cut off at a depth.
const STATES_MAX: usize = 1_200;

/// How many local states may be explored. With connections there is often no end to them: each one that is opened is another.
const LOCAL_MAX: u64 = 2_000;

fn properties(rules: &[Vec<Rule>]) -> Vec<Property<Table>> {
    let numbered = rules.iter().flatten().enumerate();
    numbered.map(|(name, rule)| rule.property(name)).collect()
}

/// Many candidates for one system, so that many are rejected.
fn many_rules() -> impl proptest::strategy::Strategy<Value = Vec<Vec<Rule>>> {
    prop::collection::vec(rules(), 4)
}

fn local(depth: Option<u32>, settings: &[(&'static str, u64)]) -> Options {
    Options {
        strategy: Strategy::LOCAL,
        limits: Limits {
            depth,
            states: Some(LOCAL_MAX),
            ..Limits::default()
        },
        clock: Clock::FREE,
        settings: Settings::of(settings),
        ..Options::default()
    }
}

/// Returns what a strategy counted.
pub(crate) fn tally<S: Service>(report: &Report<S>, name: &str) -> u64 {
    let found = report.tallies.iter().find(|(known, _)| *known == name);
    found.expect("it is counted").1
}

fn found<S: Service>(report: &Report<S>) -> BTreeSet<(String, Vec<NodeId>)> {
    lengths(report).into_keys().collect()
}

/// Holds what `local` finds within a bound against the whole states within it.
fn agrees(
    start: &Simulation<Table>,
    rules: &[Vec<Rule>],
    settings: &[(&'static str, u64)],
) -> Result<(), TestCaseError> {
    let properties = properties(rules);
    let reference = explore(start, STATES_MAX);
    let report = run(start, &properties, local(reference.bound, settings));
    confirm(start, &properties, &report);
    let real: BTreeSet<_> = reference.findings(&properties).into_keys().collect();
    let found = found(&report);
    prop_assert!(found.is_subset(&real), "{:?} beside {:?}", found, real);
    let unknown = tally(&report, "questions without an answer");
    if unknown == 0 && report.stop != Stop::States {
        prop_assert_eq!(found, real);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn e_9_local_finds_what_there_is_with_datagrams(
        start in starts(Tastes { streams: false, faults: false, ..ANYTHING }),
        rules in many_rules(),
    ) {
        agrees(&start, &rules, &[])?;
    }

    #[test]
    fn e_9_local_finds_what_there_is_with_faults(
        start in starts(Tastes { streams: false, ..ANYTHING }),
        rules in many_rules(),
    ) {
        agrees(&start, &rules, &[])?;
    }

    #[test]
    fn e_37_local_finds_what_there_is_with_connections(
        start in starts(ANYTHING),
        rules in many_rules(),
    ) {
        agrees(&start, &rules, &[])?;
    }

    #[test]
    fn e_16_the_general_version_finds_the_same(
        start in starts(Tastes { nodes_max: 2, streams: false, ticks: false, ..ANYTHING }),
        rules in rules(),
    ) {
        agrees(&start, &[rules], &[("general", 1)])?;
    }

    /// Without a bound, local graphs are finite where no handler counts, and the system's states need not be.
    #[test]
    fn e_9_local_decides_what_can_ever_happen(
        start in starts(Tastes { nodes_max: 3, streams: false, ticks: false, ..ANYTHING }),
        rules in many_rules(),
    ) {
        let properties = properties(&rules);
        let reference = explore(&start, 4 * STATES_MAX);
        let report = run(&start, &properties, local(None, &[("visits", 2_000)]));
        confirm(&start, &properties, &report);
        let real: BTreeSet<_> = reference.findings(&properties).into_keys().collect();
        let found = found(&report);
        let unknown = tally(&report, "questions without an answer");
        if unknown == 0 {
            prop_assert!(found.is_superset(&real), "{:?} beside {:?}", found, real);
        }
        if reference.bound.is_none() {
            prop_assert!(found.is_subset(&real), "{:?} beside {:?}", found, real);
        }
        prop_assert_eq!(report.stop, Stop::Exhausted);
        prop_assert_eq!(report.complete, unknown == 0);
    }

    #[test]
    fn e_28_with_the_shortcuts_of_the_paper_everything_still_replays(
        start in starts(ANYTHING),
        rules in many_rules(),
    ) {
        let properties = properties(&rules);
        let reference = explore(&start, STATES_MAX);
        let report = run(&start, &properties, local(reference.bound, &[("shortcuts", 1)]));
        confirm(&start, &properties, &report);
        let real: BTreeSet<_> = reference.findings(&properties).into_keys().collect();
        prop_assert!(found(&report).is_subset(&real));
        prop_assert!(!report.complete);
    }

    #[test]
    fn how_often_it_is_looked_at_makes_no_difference(
        start in starts(ANYTHING),
        rules in many_rules(),
        slice in 1_u64..500,
    ) {
        let properties = properties(&rules);
        let options = local(Some(6), &[]);
        let report = run(&start, &properties, options);
        let mut sliced = scry_engine::Search::new(&start, properties, options).expect("these options go together");
        while sliced.advance(slice).is_none() {}
        prop_assert_eq!(essence(&report), essence(&sliced.finish()));
    }
}

#[test]
fn e_43_one_proposal_of_paxos() {
    for settings in [&[][..], &[("shortcuts", 1)], &[("general", 1)]] {
        let report = run(&paxos::boot(1, false), &[paxos::agreement()], Options { limits: Limits::default(), ..local(None, settings)});
        println!("{settings:?} {} {} {:?} {:?} runs {}", report.states, report.transitions, report.stop, report.tallies, report.handler_runs);
    }
}

#[test]
fn e_48_two_proposals_of_paxos() {
    for buggy in [false, true] {
    for settings in [&[][..], &[("shortcuts", 1)]] {
        let t = std::time::Instant::now();
        let report = run(&paxos::boot(2, buggy), &[paxos::agreement()], Options { limits: Limits::default(), ..local(None, settings)});
        println!("{settings:?} {buggy} {} {} {:?} {:?} runs {} {:?} {:?}", report.states, report.transitions, report.stop, report.tallies, report.handler_runs, t.elapsed(), lengths(&report));
    }
    }
}
