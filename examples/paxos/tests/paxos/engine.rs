//! The scenarios as the command line builds them, in the engine: exact sizes, both bugs both ways.

use paxos::Paxos;
use paxos::scenarios::Options;
use scry::{Faults, Limits, Program, Report, Request, Search, Service, Strategy, System};

use crate::replica::story;
use crate::search::search;

const OPTIONS: Options = Options {
    proposers: None,
    acceptors: 3,
    rounds: 1,
    indices: 1,
};

fn build(
    scenario: &str,
    bug: Option<&'static str>,
    nodes: Option<u32>,
    options: Options,
) -> Result<System<Paxos>, String> {
    let known = |name| Paxos::bugs().iter().any(|bug| bug.name == name);
    assert!(bug.is_none_or(known));
    let request = Request {
        bugs: &bug.into_iter().collect(),
        nodes,
        options: &options,
    };
    let scenarios = Paxos::scenarios();
    let scenario = scenarios.iter().find(|it| it.name == scenario);
    (scenario.expect("there is such a scenario").build)(&request)
}

fn explore(
    scenario: &str,
    bug: Option<&'static str>,
    options: Options,
    strategy: Strategy,
) -> Report<Paxos> {
    let system = build(scenario, bug, None, options).expect("these are good options");
    run(&system, strategy)
}

fn run(system: &System<Paxos>, strategy: Strategy) -> Report<Paxos> {
    let (start, _) = system.start().expect("the script can be carried out");
    let options = scry::Options {
        strategy,
        limits: Limits {
            first_violation: true,
            ..Limits::default()
        },
        ..scry::Options::default()
    };
    Search::new(&start, Paxos::properties(), options)
        .expect("these options go together")
        .run()
}

fn exhaustive(scenario: &str, bug: Option<&'static str>) -> Report<Paxos> {
    explore(scenario, bug, OPTIONS, Strategy::EXHAUSTIVE)
}

#[test]
fn the_plain_deployment_has_the_size_other_checkers_report() {
    let report = exhaustive("plain", None);
    assert!(report.complete && report.violations.is_empty());
    assert_eq!(report.states, 5_451_776);
    assert_eq!(report.transitions, 22_908_645);
}

#[test]
fn one_proposal_has_the_size_brute_force_counts() {
    let report = exhaustive("single", None);
    assert!(report.complete && report.violations.is_empty());
    let size = (report.states, report.transitions, report.depth);
    assert_eq!(size, (5_124, 24_592, 19));

    // Where only messages interleave, consequence prediction has nothing to prune (LMC §6).
    let predicted = explore("single", None, OPTIONS, Strategy::CONSEQUENCE);
    assert_eq!(predicted.states, report.states);
}

/// Two replicas are few enough for brute force even when both propose, retry, fill two indices and meet faults.
#[test]
fn rivals_retries_indices_and_faults_are_safe_and_counted_as_brute_force_does() {
    let reset = Faults {
        resets: 1,
        ..Faults::NONE
    };
    let network = Faults {
        losses: 1,
        duplicates: 1,
        ..Faults::NONE
    };
    for (proposers, rounds, indices, faults) in [
        (2, 1, 1, Faults::NONE),
        (1, 2, 1, reset),
        (1, 1, 2, network),
    ] {
        let options = Options {
            proposers: Some(proposers),
            rounds,
            indices,
            ..OPTIONS
        };
        let system = build("log", None, Some(2), options).expect("these are good options");
        let system = system.faults(faults);
        let report = run(&system, Strategy::EXHAUSTIVE);
        assert!(report.complete && report.violations.is_empty());
        let seen = search(&system, usize::MAX);
        assert_eq!(
            (report.states, report.transitions),
            (seen.states as u64, seen.transitions as u64)
        );
    }
}

#[test]
fn each_bug_is_found_where_it_is_switched_on() {
    for strategy in [Strategy::EXHAUSTIVE, Strategy::CONSEQUENCE] {
        for (scenario, bug) in [
            ("bug1", "last-promise"),
            ("bug2", "volatile-promise"),
            ("reset", "volatile-promise"),
        ] {
            let report = explore(scenario, Some(bug), OPTIONS, strategy);
            check_story(&report);
        }
    }
}

/// Between A and B it is the paper's story: B leads, C has accepted nothing and sends B's value back, B chooses it.
fn check_story(report: &Report<Paxos>) {
    let expected = "n0 chose 0 for index 0, n1 chose 1 for index 0";
    let mut violations = report.violations.iter();
    let found = violations.find(|it| it.explanation.as_deref() == Some(expected));
    let found = found.expect("A and B choose different values");
    assert_eq!(found.property, "at most one value is chosen");
    let told = story(&found.path);
    let mut rest = told.iter();
    for line in [
        "n1: propose 1",
        "n2: prepare 1 from n1",
        "n1: echo 1 from n2",
    ] {
        assert!(rest.any(|told| told == line), "{line} in {told:?}");
    }
    let last = rest.next_back().expect("B must learn");
    assert!(last.starts_with("n1: learn 1"), "{told:?}");
}

#[test]
fn nothing_is_found_where_the_bugs_are_off() {
    for scenario in ["bug1", "bug2", "reset"] {
        let report = exhaustive(scenario, None);
        assert!(report.complete && report.violations.is_empty());
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let none = Options {
        acceptors: 0,
        ..OPTIONS
    };
    assert!(build("plain", None, Some(3), OPTIONS).is_err());
    assert!(build("plain", None, None, none).is_err());
    assert!(build("bug1", None, Some(4), OPTIONS).is_err());
    assert!(build("single", None, Some(0), OPTIONS).is_err());
    assert!(build("single", None, Some(5), OPTIONS).is_ok());
}
