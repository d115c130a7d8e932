//! What searches say of the service with its bug and without.

use std::collections::BTreeSet;

use one_paxos::OnePaxos;
use one_paxos::properties::ONE_VALUE;
use one_paxos::scenarios::{INCREMENT, Options};
use scry::{Limits, Program, Report, Request, Search, Service, Strategy, System};

/// What happens in a second or so: where there is more, so many states are looked at.
const STATES_MAX: u64 = 500_000;

pub(crate) const OPTIONS: Options = Options {
    indices: 1,
    changes: 0,
    rounds: 1,
};

pub(crate) fn build(
    scenario: &str,
    bugs: &[&'static str],
    options: Options,
) -> Result<System<OnePaxos>, String> {
    let bugs: BTreeSet<&'static str> = bugs.iter().copied().collect();
    let known = OnePaxos::scenarios();
    let scenario = known.iter().find(|known| known.name == scenario);
    (scenario.expect("there is such a scenario").build)(&Request {
        bugs: &bugs,
        nodes: None,
        options: &options,
    })
}

fn explore(
    scenario: &str,
    bugs: &[&'static str],
    options: Options,
    strategy: Strategy,
) -> Report<OnePaxos> {
    let system = build(scenario, bugs, options).expect("these are good options");
    let (start, _) = system.start().expect("the script can be carried out");
    let options = scry::Options {
        strategy,
        limits: Limits {
            first_violation: true,
            states: Some(STATES_MAX),
            ..Limits::default()
        },
        ..scry::Options::default()
    };
    let search = Search::new(&start, OnePaxos::properties(), options);
    search.expect("these options go together").run()
}

/// LMC §5.6: n1 proposes to itself, accepts, and hears of it.
#[test]
fn f_18_a_leader_that_takes_itself_for_the_acceptor_chooses_a_second_value() {
    let portfolio = "portfolio".parse().expect("there is such a strategy");
    for strategy in [Strategy::EXHAUSTIVE, Strategy::CONSEQUENCE, portfolio] {
        let report = explore("taken-over", &[INCREMENT], OPTIONS, strategy);
        let found = report.violations.first().expect("the bug is found");
        assert_eq!(found.property, ONE_VALUE);
        let explanation = found.explanation.as_deref();
        let chosen = "n1 chose 1 for index 0, n2 chose 3 for index 0, n3 chose 3 for index 0";
        assert_eq!(explanation, Some(chosen));
        let path = found.path.iter();
        let told: Vec<String> = path
            .map(|step| format!("{}: {}", step.node, step.event))
            .collect();
        let expected = [
            "n1: call Propose { index: 0, value: 1 }",
            "n1: Accept { term: 0, index: 0, value: 1 } from n1",
            "n1: Learn { index: 0, value: 1 } from n1",
        ];
        assert_eq!(told, expected, "{strategy}");
    }
}

#[test]
fn f_18_without_the_bug_nothing_is_found() {
    let two = Options {
        indices: 2,
        ..OPTIONS
    };
    let change = Options {
        changes: 1,
        ..OPTIONS
    };
    for (scenario, options, complete) in [
        ("fresh", two, true),
        ("fresh", change, false),
        ("taken-over", two, true),
        ("reset", OPTIONS, true),
        ("handed-over", OPTIONS, true),
        ("handed-over", change, false),
    ] {
        let report = explore(scenario, &[], options, Strategy::EXHAUSTIVE);
        assert_eq!(report.violations.len(), 0, "{scenario}");
        assert!(report.complete || !complete, "{scenario}");
    }
}

#[test]
fn scenarios_that_make_no_sense_are_refused() {
    assert!(build("handed-over", &[INCREMENT], OPTIONS).is_err());
}
