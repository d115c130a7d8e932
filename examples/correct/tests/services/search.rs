//! Searches: nothing is found in a correct service, as deep as they go; each bug is found, by a path that replays.
//!
//! The correct lock is missing: in these searches clocks answer freely, and it is correct only in time.

use std::collections::BTreeSet;

use correct::{Chain, Commit, Failover, Gossip, Lease, Options};
use scry::explore::Stop;
use scry::{Faults, Judgement, Limits, Program, Report, Request, Search, Simulation, System};

/// Returns the situation of a scenario, with as many nodes as it has by itself.
pub(crate) fn system<S: Program<Options = Options>>(
    scenario: &str,
    bugs: &[&'static str],
) -> System<S> {
    let bugs: BTreeSet<&'static str> = bugs.iter().copied().collect();
    let known: BTreeSet<&str> = S::bugs().iter().map(|bug| bug.name).collect();
    assert!(bugs.iter().all(|bug| known.contains(bug)), "{bugs:?}");
    let scenarios = S::scenarios();
    let found = scenarios.iter().find(|it| it.name == scenario);
    let request = Request {
        bugs: &bugs,
        nodes: None,
        options: &Options {},
    };
    (found.expect("the scenario exists").build)(&request).expect("it can be built")
}

fn search<S: Program>(system: &System<S>, limits: Limits) -> (Simulation<S>, Report<S>) {
    let (start, _) = system.start().expect("the script runs");
    let options = scry::Options {
        limits,
        ..scry::Options::default()
    };
    let search = Search::new(&start, S::properties(), options).expect("the options go together");
    let report = search.run();
    assert_eq!(
        report.unconfirmed, 0,
        "handlers are functions of what they are given"
    );
    (start, report)
}

/// Looks at every state within so many steps, and finds nothing.
#[track_caller]
fn assert_safe<S: Program<Options = Options>>(scenario: &str, faults: Faults, depth: u32) {
    let system = system::<S>(scenario, &[]).faults(faults);
    let limits = Limits {
        depth: Some(depth),
        ..Limits::default()
    };
    let (_, report) = search(&system, limits);
    let found: Vec<&str> = report
        .violations
        .iter()
        .map(|it| it.property.as_str())
        .collect();
    assert_eq!(found, [""; 0]);
    assert!(
        matches!(report.stop, Stop::Depth | Stop::Exhausted),
        "{:?}",
        report.stop
    );
    assert!(report.depth == depth || report.complete, "{}", report.depth);
}

/// Finds the bug, and follows the path to it step by step.
#[track_caller]
fn assert_found<S: Program<Options = Options>>(
    scenario: &str,
    bug: &'static str,
    faults: Faults,
    property: &str,
) {
    let system = system::<S>(scenario, &[bug]).faults(faults);
    let limits = Limits {
        first_violation: true,
        depth: Some(12),
        ..Limits::default()
    };
    let (mut simulation, report) = search(&system, limits);
    let violation = report.violations.first().expect("the bug shows");
    assert_eq!(violation.property, property);
    for step in &violation.path {
        simulation.step(step).expect("every step is possible");
    }
    let broken = S::properties()
        .into_iter()
        .find(|it| it.name() == property && it.judge(&simulation.views()) == Judgement::Violated);
    assert!(broken.is_some(), "the path leads to the violation");
}

const RESET: Faults = Faults {
    resets: 1,
    ..Faults::NONE
};

#[test]
fn a_chain_survives_resets_and_broken_connections() {
    let faults = Faults {
        resets: 1,
        silent_resets: 1,
        breaks: 1,
        ..Faults::NONE
    };
    assert_safe::<Chain>("start", faults, 9);
    assert_safe::<Chain>("start", Faults::NONE, 16);
}

#[test]
fn a_chain_that_trusts_lost_connections_is_found() {
    let faults = Faults {
        breaks: 1,
        ..Faults::NONE
    };
    let property = "what is acknowledged has been applied everywhere";
    assert_found::<Chain>("start", correct::chain::TRUSTING, faults, property);
}

#[test]
fn transactions_survive_resets_losses_and_duplicates() {
    let faults = Faults {
        resets: 1,
        losses: 1,
        duplicates: 1,
        ..Faults::NONE
    };
    assert_safe::<Commit>("start", faults, 10);
    assert_safe::<Commit>("start", Faults::NONE, 18);
}

#[test]
fn an_impatient_participant_is_found() {
    let property = "nobody decides a transaction differently";
    assert_found::<Commit>("start", correct::commit::IMPATIENT, Faults::NONE, property);
}

#[test]
fn primary_and_backup_survive_resets_losses_and_broken_connections() {
    let faults = Faults {
        resets: 1,
        breaks: 1,
        losses: 1,
        ..Faults::NONE
    };
    assert_safe::<Failover>("paired", faults, 9);
    assert_safe::<Failover>("start", RESET, 11);
}

#[test]
fn a_primary_that_acknowledges_alone_is_found() {
    let property = "a backup has stored what its primary has acknowledged";
    assert_found::<Failover>("paired", correct::failover::ALONE, Faults::NONE, property);
}

#[test]
fn a_counter_survives_resets_losses_and_duplicates() {
    let faults = Faults {
        resets: 1,
        losses: 1,
        duplicates: 1,
        ..Faults::NONE
    };
    assert_safe::<Gossip>("start", faults, 7);
}

#[test]
fn an_increment_that_counts_twice_is_found() {
    let property = "nobody knows more of a node's count than the node itself";
    assert_found::<Gossip>("start", correct::gossip::DELTAS, Faults::NONE, property);
}

#[test]
fn a_lock_survives_resets_losses_and_duplicates() {
    let faults = Faults {
        resets: 1,
        losses: 1,
        duplicates: 1,
        ..Faults::NONE
    };
    assert_safe::<Lease>("start", faults, 8);
}

#[test]
fn a_client_that_keeps_the_lock_is_found() {
    let property = "two clients never hold the lock at once";
    assert_found::<Lease>("start", correct::lease::OVERSTAY, Faults::NONE, property);
}
