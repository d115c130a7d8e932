//! The engine and the plain search see the same states, and consequence prediction finds both figures.

use chord::properties::{self, ORDER, SELF_POINTERS, SELF_PREDECESSOR};
use chord::scenarios::Options;
use chord::{Chord, Setup};
use scry::{Faults, Limits, Report, Search, Simulation, Strategy};

use crate::world::{self, fresh, start};

/// How many states consequence prediction may look at, far more than either figure needs.
const STATES_MAX: u64 = 100_000;

fn explore(start: &Simulation<Chord>, strategy: Strategy, limits: Limits) -> Report<Chord> {
    let options = scry::Options {
        strategy,
        limits,
        ..scry::Options::default()
    };
    let report = Search::new(start, properties::all(), options)
        .expect("the options go together")
        .run();
    assert_eq!(report.unconfirmed, 0);
    report
}

#[track_caller]
fn agree(start: Simulation<Chord>, depth: u32) {
    let limits = Limits {
        depth: Some(depth),
        ..Limits::default()
    };
    let report = explore(&start, Strategy::EXHAUSTIVE, limits);
    assert!(report.violations.is_empty());
    let plain = world::search(start, depth as usize);
    assert_eq!(report.states, plain.states as u64);
}

/// What consequence prediction finds first, and in how many steps.
fn predicted(scenario: &str, bugs: &[&'static str]) -> Vec<(String, usize)> {
    let limits = Limits {
        states: Some(STATES_MAX),
        first_violation: true,
        ..Limits::default()
    };
    let report = explore(&start(scenario, bugs), Strategy::CONSEQUENCE, limits);
    report
        .violations
        .into_iter()
        .map(|violation| (violation.property, violation.path.len()))
        .collect()
}

#[test]
fn the_engine_counts_the_states_the_plain_search_counts() {
    let faults = Faults {
        resets: 1,
        silent_resets: 1,
        breaks: 1,
        ..Faults::NONE
    };
    agree(start("c1", &[]), 5);
    agree(start("c2", &[]), 7);
    agree(start("liveness", &[]), 8);
    agree(fresh(3, &Options::default(), faults), 6);
}

#[test]
fn consequence_prediction_finds_figure_10() {
    let found = predicted("c1", &["self-predecessor"]);
    let expected = [SELF_POINTERS, SELF_PREDECESSOR].map(|property| (property.to_owned(), 6));
    assert!(!found.is_empty());
    assert!(found.iter().all(|one| expected.contains(one)), "{found:?}");
    assert_eq!(predicted("c1", &[]), []);
}

#[test]
fn consequence_prediction_finds_figure_11() {
    assert_eq!(predicted("c2", &["ordering"]), [(ORDER.to_owned(), 3)]);
    assert_eq!(predicted("c2", &[]), []);
}

#[test]
fn each_bug_is_off_by_default() {
    let setup = Setup::new([]);
    assert_eq!(setup.bugs, chord::Bugs::default());
    let start = start("fresh", &[]);
    assert!(start.setups().values().all(|node| node.bugs == setup.bugs));
}
