//! Bounded breadth-first searches in plain values.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use randtree::RandTree;
use randtree::properties;
use randtree::scenarios::Options;
use scry::{Simulation, Step};

use crate::support::{broken, start};

/// What a search found.
pub(crate) struct Found {
    pub(crate) states: usize,
    /// The depth of the first violation, what is broken, and the steps that lead there.
    pub(crate) violation: Option<(usize, Vec<String>, Vec<Step<RandTree>>)>,
}

/// Searches all states up to a depth, and stops at the first that is broken.
pub(crate) fn search(start: Simulation<RandTree>, depth_max: usize) -> Found {
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

pub(crate) fn holds(name: &str, start: Simulation<RandTree>, depth_max: usize) -> usize {
    let found = search(start, depth_max);
    if let Some((depth, broken, path)) = found.violation {
        let told: Vec<String> = path
            .iter()
            .map(|step| format!("  {} {}", step.node, step.event))
            .collect();
        panic!("{name}, depth {depth}: {broken:?}\n{}", told.join("\n"));
    }
    found.states
}

/// The bug is found at `depth` and breaks `expected`; without it, nothing is found within the same bound and a little
/// beyond.
fn check(scenario: &str, bug: &'static str, depth: usize, expected: &str) {
    let (at, broken, path) = search(start(scenario, &[bug]), depth)
        .violation
        .unwrap_or_else(|| panic!("{scenario} with {bug}: nothing found"));
    assert_eq!((at, path.len()), (depth, depth));
    assert!(broken.iter().any(|name| name == expected), "{broken:?}");
    let states = holds(scenario, start(scenario, &[]), depth);
    eprintln!("{scenario}: {states} states without the bug up to depth {depth}");
}

#[test]
fn r1_is_found() {
    check("r1", "update-sibling", 4, properties::DISJOINT);
}

#[test]
fn r2_is_found() {
    check("r2", "new-root", 6, properties::ROOT_APART);
}

#[test]
fn r3_is_found() {
    check("r3", "promote", 2, properties::ROOT_ALONE);
}

#[test]
fn r4_is_found() {
    check("r4", "timer", 2, properties::TIMER_RUNS);
}

#[test]
fn r6_breaks_a_safety_property_too() {
    check("r6", "two-trees", 2, properties::TIMER_RUNS);
}

#[test]
fn explore() {
    let Ok(spec) = std::env::var("EXPLORE") else {
        return;
    };
    for one in spec.split(',') {
        let parts: Vec<&str> = one.split(':').collect();
        let n = |i: usize| parts[i].parse::<u8>().unwrap();
        let nodes = (parts[0] == "fresh").then(|| u32::from(n(5)));
        let flag = |name: &str| parts.contains(&name);
        let options = Options {
            keepalive: flag("k"),
            announce: flag("early").then_some(randtree::Announce::AtOnce),
            degree: flag("d1").then_some(1),
        };
        let system = crate::support::system(parts[0], &[], nodes, &options)
            .faults(crate::support::faults(n(2), n(3), n(4)));
        let clock = std::time::Instant::now();
        let mut all = properties::all();
        all.push(properties::timer_always_runs());
        let search = scry::Search::new(&system.start().unwrap().0, all, scry::Options {
            limits: scry::Limits { depth: Some(u32::from(n(1))), bytes: Some(5 << 30), first_violation: true, ..Default::default() },
            ..Default::default()
        }).unwrap();
        let report = search.run();
        eprintln!("{one}: {} states depth {} {} handlers {} {:?}", report.states, report.depth, report.stop, report.handler_runs, clock.elapsed());
        for violation in &report.violations {
            eprintln!("  {} {:?}", violation.property, violation.explanation);
            for step in &violation.path { eprintln!("    {} {}", step.node, step.event); }
        }
    }
}
