//! Bounded breadth-first searches in plain values.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use randtree::scenarios::Options;
use randtree::{Announce, RandTree, properties};
use scry::{Limits, Report, Search, Simulation, Step, Strategy};

use crate::support::{broken, faults, system};

/// What a search found.
struct Found {
    states: usize,
    /// The depth of the first violation, what is broken, and the steps that lead there.
    violation: Option<(usize, Vec<String>, Vec<Step<RandTree>>)>,
}

/// Searches all states up to a depth, and stops at the first that is broken.
fn search(start: Simulation<RandTree>, depth_max: usize) -> Found {
    let build = BuildHasherDefault::<DefaultHasher>::default();
    let mut seen = HashSet::from([build.hash_one(&start)]);
    let mut parents: Vec<(usize, Step<RandTree>)> = Vec::new();
    // Paths are kept as (parent, step) by number; the start is number 0.
    let mut layer = vec![(0, start)];
    for depth in 1..=depth_max {
        let mut next = Vec::new();
        for (number, state) in layer {
            for (step, after) in state.successors() {
                if !seen.insert(build.hash_one(&after)) {
                    continue;
                }
                parents.push((number, step));
                let broken = broken(&after);
                if !broken.is_empty() {
                    let mut path = Vec::new();
                    let mut at = parents.len();
                    while at > 0 {
                        let (parent, step) = &parents[at - 1];
                        path.push(step.clone());
                        at = *parent;
                    }
                    path.reverse();
                    return Found {
                        states: seen.len(),
                        violation: Some((depth, broken, path)),
                    };
                }
                if depth < depth_max {
                    next.push((parents.len(), after));
                }
            }
        }
        layer = next;
    }
    Found {
        states: seen.len(),
        violation: None,
    }
}

fn holds(name: &str, start: Simulation<RandTree>, depth_max: usize) -> usize {
    let found = search(start, depth_max);
    if let Some((depth, broken, path)) = found.violation {
        panic!("{name}, depth {depth}: {broken:?}\n{}", told(&path));
    }
    found.states
}

fn told(path: &[Step<RandTree>]) -> String {
    let lines: Vec<String> = path
        .iter()
        .map(|step| format!("  {} {}", step.node, step.event))
        .collect();
    lines.join("\n")
}

/// The bug is found at `depth` and breaks `expected`; without it, nothing is found within the same bound. The engine's
/// consequence prediction finds it too, among fewer states.
fn check(scenario: &str, bug: &'static str, options: &Options, depth: usize, expected: &str) {
    let start = |bugs: &[&'static str]| {
        let started = system(scenario, bugs, None, options).start();
        started.expect("the script runs with any bug").0
    };
    let found = search(start(&[bug]), depth);
    let (at, broken, path) = found
        .violation
        .unwrap_or_else(|| panic!("{scenario} with {bug}: nothing found"));
    assert_eq!((at, path.len()), (depth, depth));
    assert!(broken.iter().any(|name| name == expected), "{broken:?}");
    let states = holds(scenario, start(&[]), depth);

    let limits = Limits {
        depth: Some(depth as u32),
        first_violation: true,
        ..Limits::default()
    };
    let options = scry::Options {
        strategy: Strategy::CONSEQUENCE,
        limits,
        ..scry::Options::default()
    };
    let consequence = Search::new(&start(&[bug]), properties::all(), options);
    let consequence = consequence.expect("the options go together").run();
    let violation = &consequence.violations[0];
    assert_eq!(violation.path.len(), depth);
    assert!(consequence.states <= states as u64);
    eprintln!(
        "{scenario}: depth {depth}, {states} states, {} for consequence prediction",
        consequence.states
    );
}

#[test]
fn r1_is_found() {
    let options = Options::default();
    check("r1", "update-sibling", &options, 4, properties::DISJOINT);
}

#[test]
fn r2_is_found() {
    let options = Options::default();
    check("r2", "new-root", &options, 6, properties::ROOT_APART);
}

#[test]
fn r3_is_found() {
    let options = Options::default();
    check("r3", "promote", &options, 2, properties::ROOT_ALONE);
}

#[test]
fn r4_is_found() {
    let options = Options::default();
    check("r4", "timer", &options, 2, properties::TIMER_RUNS);
}

#[test]
fn r6_breaks_a_safety_property_too() {
    let options = Options::default();
    check("r6", "two-trees", &options, 1, properties::TIMER_RUNS);
}

/// The papers' stories differ in when the new root is announced; the bugs do not depend on it (H-9).
#[test]
fn the_bugs_are_found_in_the_other_order_of_announcing_too() {
    let announce = |announce| Options {
        announce: Some(announce),
        ..Options::default()
    };
    let (early, late) = (announce(Announce::AtOnce), announce(Announce::AfterReply));
    check("r2", "new-root", &early, 4, properties::ROOT_APART);
    check("r3", "promote", &late, 2, properties::ROOT_ALONE);
}

/// The engine's exhaustive search, with a fault of each kind allowed.
fn engine(scenario: &str, nodes: Option<u32>, options: &Options, depth: u32) -> Report<RandTree> {
    let system = system(scenario, &[], nodes, options).faults(faults(1, 1, 1));
    let (start, _) = system.start().expect("the script runs");
    let mut properties = properties::all();
    properties.push(properties::timer_always_runs());
    let limits = Limits {
        depth: Some(depth),
        first_violation: true,
        ..Limits::default()
    };
    let options = scry::Options {
        limits,
        ..scry::Options::default()
    };
    let search = Search::new(&start, properties, options);
    search.expect("the options go together").run()
}

#[test]
fn the_engine_sees_the_same_states() {
    for (scenario, depth) in [("r1", 6), ("r3", 5), ("r4", 7), ("fresh", 7)] {
        let options = Options::default();
        let system = system(scenario, &[], None, &options).faults(faults(1, 1, 1));
        let plain = holds(scenario, system.start().expect("the script runs").0, depth);
        let engine = engine(scenario, None, &options, depth as u32);
        assert_eq!(engine.states, plain as u64, "{scenario}");
    }
}

#[test]
fn without_bugs_no_property_breaks_under_a_fault_of_each_kind() {
    let papers = Options::default();
    let early = Options {
        announce: Some(Announce::AtOnce),
        ..Options::default()
    };
    let keepalive = Options {
        keepalive: true,
        ..Options::default()
    };
    let narrow = Options {
        degree: Some(1),
        ..Options::default()
    };
    for (scenario, nodes, options, depth) in [
        ("r1", None, &papers, 7),
        ("r2", None, &papers, 6),
        ("r3", None, &papers, 6),
        ("r4", None, &papers, 9),
        ("r5", None, &papers, 6),
        ("r6", None, &papers, 8),
        ("fresh", Some(3), &papers, 10),
        ("fresh", Some(4), &papers, 8),
        ("fresh", Some(4), &narrow, 8),
        ("r1", None, &early, 7),
        ("r2", None, &early, 6),
        ("r4", None, &early, 9),
        ("r1", None, &keepalive, 5),
        ("r6", None, &keepalive, 5),
        ("fresh", Some(3), &keepalive, 8),
    ] {
        let report = engine(scenario, nodes, options, depth);
        assert_eq!(report.unconfirmed, 0);
        if let Some(violation) = report.violations.first() {
            panic!(
                "{scenario}, {options:?}: {}\n{}",
                violation.property,
                told(&violation.path)
            );
        }
        eprintln!("{scenario}: {} states up to depth {depth}", report.states);
    }
}
