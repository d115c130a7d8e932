//! Random walks: what they find is real, and a seed is all there is to them.

use std::collections::BTreeSet;

use scry_engine::explore::{Settings, Stop};
use scry_engine::{Limits, Options, Strategy};

use crate::reference::{confirm, explore, run};
use crate::toys::{boot, by, counter, never};

fn walks(seed: u64, walks: u64, steps: u64) -> Options {
    Options {
        seed,
        settings: Settings::of(&[("walks", walks), ("steps", steps)]),
        ..by(Strategy::RANDOM_WALK)
    }
}

#[test]
fn what_is_far_away_is_found_and_replays() {
    let start = boot([counter(40), counter(40)]);
    let properties = [never(40)];
    let report = run(&start, &properties, walks(1, 10, 1_000));
    confirm(&start, &properties, &report);
    assert!(!report.violations.is_empty());
    // Forty steps of one node, and whatever the other did meanwhile.
    assert!((40..80).contains(&report.violations[0].path.len()));
    assert_eq!(report.stop, Stop::Enough);
    assert!(!report.complete);
}

#[test]
fn no_state_is_visited_that_there_is_not() {
    let start = boot([counter(3), counter(3)]);
    let all = explore(&start, 1_000).states.len() as u64;
    let few = run(&start, &[], walks(1, 1, 2));
    assert_eq!((few.states, few.depth), (3, 2));
    // Sixteen states, of which no walk of so many misses one.
    assert_eq!(run(&start, &[], walks(1, 500, 100)).states, all);
}

#[test]
fn a_seed_decides_everything() {
    let start = boot([counter(30), counter(30), counter(30)]);
    let counts = |seed| {
        let report = run(&start, &[], walks(seed, 5, 20));
        (report.states, report.transitions)
    };
    assert_eq!(counts(7), counts(7));
    let different: BTreeSet<_> = (0..20).map(counts).collect();
    assert!(different.len() > 1);
}

#[test]
fn limits_end_it() {
    let start = boot([counter(30), counter(30)]);
    let within = |limits| {
        run(
            &start,
            &[never(5)],
            Options {
                limits,
                ..walks(1, 1_000, 100)
            },
        )
    };
    let few = within(Limits {
        states: Some(10),
        ..Limits::default()
    });
    assert_eq!((few.stop, few.states), (Stop::States, 10));
    let near = within(Limits {
        depth: Some(3),
        ..Limits::default()
    });
    assert_eq!((near.stop, near.depth), (Stop::Enough, 3));
    let first = within(Limits {
        first_violation: true,
        ..Limits::default()
    });
    assert_eq!((first.stop, first.violations.len()), (Stop::Violation, 1));
}
