//! MaceMC's search on the tables: what it calls dead is dead, what it suspects replays, and a seed is all there is to it.

use proptest::prelude::*;
use scry_engine::explore::{Case, How, Settings, Standing, Stop, Walked};
use scry_engine::{Limits, Options, Property, Report, Simulation, Strategy, View};

use crate::liveness::{Class, Truth, balancer, some, trap};
use crate::reference::{confirm, explore, replay, run};
use crate::table::{ANYTHING, Table, Tastes, rules, starts};
use crate::toys::Deed::{Add, Arm, Set};
use crate::toys::{On, Rules, Toy, boot, by, counter, never, rules as toy};

fn walk(depth: u32, settings: &[(&'static str, u64)]) -> Options {
    Options {
        limits: Limits {
            depth: Some(depth),
            ..Limits::default()
        },
        settings: Settings::of(settings),
        ..by(Strategy::WALK)
    }
}

fn walked(report: &Report<Toy>) -> &Walked {
    match &report.goals[0].standing {
        Standing::Walked(walked) => walked,
        other => panic!("not walked: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn b_54_what_walks_call_dead_is_dead_and_what_they_suspect_replays(
        start in starts(Tastes { ticks: false, nodes_max: 2, ..ANYTHING }),
        rules in rules(),
        faults in any::<bool>(),
    ) {
        let reference = explore(&start, 800);
        if reference.bound.is_some() {
            return Ok(());
        }
        let goals: Vec<Property<Table>> = rules
            .iter()
            .enumerate()
            .map(|(name, rule)| rule.property(name).eventually())
            .collect();
        let settings = [("length", 200), ("fault-recovery", u64::from(faults)), ("increment", 2)];
        let report = run(&start, &goals, walk(6, &settings));
        prop_assert_eq!(report.unconfirmed, 0);
        // A space so small is enumerated, so that no suspicion is left.
        prop_assert!(report.suspected.is_empty());
        for violation in &report.violations {
            let How::Dead(dead) = violation.how else { continue };
            let one: Vec<&Property<Table>> = goals.iter().filter(|it| it.name() == violation.property).collect();
            let all: Vec<&Property<Table>> = goals.iter().collect();
            let truth = Truth::of(&reference, if one.is_empty() { &all } else { &one }, faults);
            let class = |steps: usize| truth.classes[&replay(&start, &violation.path[..steps])];
            let steps = violation.path.len();
            prop_assert_eq!(class(steps), Class::Dead);
            // B-5, B-48: on finite spaces the step of the walks is the exact one.
            if dead.critical {
                prop_assert!(class(steps - 1) != Class::Dead);
            }
            if let Some(live) = &violation.live {
                prop_assert_eq!(truth.classes[&replay(&start, live)], Class::Live);
                prop_assert_eq!(&live[..steps - 1], &violation.path[..steps - 1]);
            }
        }
    }

    #[test]
    fn b_15_b_38_the_exhaustive_part_is_that_of_breadth_first_search(
        start in starts(ANYTHING),
        rules in rules(),
        increment in 1_u64..4,
    ) {
        let reference = explore(&start, 800);
        let depth = reference.bound.unwrap_or(5).min(5);
        let properties: Vec<Property<Table>> = rules
            .iter()
            .enumerate()
            .map(|(name, rule)| rule.property(name))
            .collect();
        let breadth = Options { limits: Limits { depth: Some(depth), ..Limits::default() }, ..by(Strategy::EXHAUSTIVE) };
        let breadth = run(&start, &properties, breadth);
        let settings = [("length", 30), ("increment", increment)];
        let report = run(&start, &properties, walk(depth, &settings));
        prop_assert_eq!(report.states, breadth.states);
        confirm(&start, &properties, &report);
        // Walks find more, never less.
        for violation in &breadth.violations {
            let same = |it: &&scry_engine::Violation<Table>| (&it.property, &it.nodes) == (&violation.property, &violation.nodes);
            prop_assert!(report.violations.iter().any(|it| same(&it)));
        }
    }

    #[test]
    fn a_seed_decides_everything(start in starts(Tastes { ticks: false, nodes_max: 2, ..ANYTHING }), rules in rules(), seed in any::<u64>(), slice in 1_u64..50) {
        let goals: Vec<Property<Table>> = rules
            .iter()
            .enumerate()
            .map(|(name, rule)| rule.property(name).eventually())
            .collect();
        let options = Options { seed, ..walk(3, &[("length", 60), ("probes", 5)]) };
        let essence = |report: Report<Table>| {
            let found = report.violations.into_iter().map(|it| (it.property, it.path, it.live));
            let suspected = report.suspected.into_iter().map(|it| (it.property, it.path, it.live));
            (report.states, report.transitions, report.goals, found.collect::<Vec<_>>(), suspected.collect::<Vec<_>>())
        };
        let whole = essence(run(&start, &goals, options));
        let mut search = scry_engine::Search::new(&start, goals, options).expect("these options go together");
        while search.advance(slice).is_none() {}
        prop_assert_eq!(essence(search.finish()), whole);
    }
}

/// Steps 0, 1, 2 … at each of which a timer is armed, up to `last`.
fn line(rules: Rules, from: u64, last: u64) -> Rules {
    (from..last).fold(rules, |rules, at| {
        rules.at(at, On::Timer(0), [Add(1), Arm(0)])
    })
}

#[test]
fn b_12_what_holds_within_the_exhaustive_part_ends_no_walk() {
    // Live at step 3; from step 12 on it goes round for ever.
    let rules = line(toy().on(On::Start, [Arm(0)]), 0, 13);
    let rules = rules.at(13, On::Timer(0), [Set(12), Arm(0)]);
    let start = boot([rules]);
    let report = run(
        &start,
        &[some(3).eventually()],
        walk(10, &[("length", 100)]),
    );
    let [violation] = report.violations.as_slice() else {
        panic!("{report:?}");
    };
    let How::Dead(dead) = violation.how else {
        panic!("{:?}", violation.how);
    };
    // After the last live state everything is dead already: the step out of it is the critical one.
    assert_eq!((violation.path.len(), dead.critical), (4, true));
}

#[test]
fn b_16_a_walk_that_ends_where_nothing_happens_is_decided() {
    let start = boot([counter(4)]);
    let dead = run(&start, &[some(9).eventually()], walk(0, &[]));
    assert_eq!(dead.violations.len(), 1, "{dead:?}");
    let fine = run(&start, &[some(4).eventually()], walk(0, &[]));
    assert!(fine.violations.is_empty() && fine.suspected.is_empty());
    // What holds where nothing happens any more goes on to hold, however deep the exhaustive part is.
    let deep = run(
        &start,
        &[some(4).eventually()],
        walk(20, &[("increment", 1)]),
    );
    assert!(
        deep.violations.is_empty() && deep.suspected.is_empty(),
        "{deep:?}"
    );
    assert_eq!(deep.stop, Stop::Exhausted);
}

#[test]
fn b_4_a_balancer_that_may_prefer_one_server_is_never_called_dead() {
    let balanced = || Property::node("balanced", |view: &View<'_, Toy>| view.state.value == 0);
    for seed in 0..20 {
        let options = Options {
            seed,
            ..walk(8, &[("length", 40), ("probes", 2), ("walks", 5)])
        };
        let report = run(&balancer(), &[balanced().eventually()], options);
        assert!(report.violations.is_empty() && report.suspected.is_empty());
    }
}

#[test]
fn b_5_the_critical_step_is_that_of_the_exact_classes() {
    let goals = [some(1).eventually()];
    let start = boot([trap(), counter(3)]);
    let exact = run(&start, &goals, by(Strategy::EXHAUSTIVE));
    let last = |report: &Report<Toy>| {
        let violation = report.violations.first().expect("it is found");
        let step = violation.path.last().expect("the trap is a step away");
        let before = replay(&start, &violation.path[..violation.path.len() - 1]);
        let values = |state: &Simulation<Toy>| state.nodes()[&step.node].local.service.value;
        (
            step.node,
            step.event.clone(),
            values(&before),
            values(&violation.state),
        )
    };
    for seed in 0..30 {
        let options = Options {
            seed,
            ..walk(6, &[("length", 300)])
        };
        let report = run(&start, &goals, options);
        let How::Dead(dead) = report.violations[0].how else {
            panic!("{report:?}");
        };
        assert!(dead.critical);
        assert_eq!(last(&report), last(&exact));
        let live = report.violations[0]
            .live
            .as_ref()
            .expect("there is another way");
        let shared = report.violations[0].path.len() - 1;
        assert_eq!(live[..shared], report.violations[0].path[..shared]);
    }
}

/// A line of so many steps on which a node can leave for a much longer line without the goal.
fn wide(length: u64) -> Simulation<Toy> {
    let rules = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Set(1_000), Arm(0)])
        .at(1_000, On::Timer(0), [Set(0), Arm(0)])
        .at(1_000, On::Call(0), [Set(2_000)]);
    let rules = line(rules, 2_000, 2_000 + length);
    boot([rules, counter(300), counter(300)])
}

#[test]
fn what_is_too_large_to_enumerate_is_suspected_with_a_bound() {
    let goals = [some(1_000).eventually()];
    // Beside it two nodes count, so that 60 000 states and more can follow.
    let report = run(
        &wide(200),
        &goals,
        walk(4, &[("length", 2_000), ("probes", 20)]),
    );
    assert!(report.violations.is_empty());
    let [suspicion] = report.suspected.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((suspicion.case, suspicion.walks), (Case::C1, 20));
    assert!((suspicion.recovery_bound() - 0.15).abs() < 1e-9);
    assert!(!suspicion.live.is_empty());
    let end = replay(&wide(200), &suspicion.path);
    assert_eq!(end, suspicion.state);
}

#[test]
fn b_37_steps_are_as_likely_as_their_weights_say() {
    let rules = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Set(2)])
        .at(0, On::Call(0), [Set(1)]);
    let start = boot([rules]);
    let within_one = |weights: [(&'static str, u64); 2]| {
        let settings = [("walks", 20_000), weights[0], weights[1]];
        let report = run(&start, &[some(1).eventually()], walk(0, &settings));
        walked(&report).within[0] as f64 / walked(&report).walks as f64
    };
    // Four standard deviations of 20 000 throws are less than 0.015.
    let near = |share: f64, expected: f64| (share - expected).abs() < 0.015;
    let call = |call: u64, timer: u64| within_one([("weight.call", call), ("weight.timer", timer)]);
    assert!(near(call(8, 2), 0.8), "{}", call(8, 2));
    assert!(near(call(1, 1), 0.5), "{}", call(1, 1));
    assert!(near(call(1, 9), 0.1), "{}", call(1, 9));
    assert!(near(call(1, 0), 1.0));
}

#[test]
fn b_42_it_is_counted_within_how_many_steps_walks_are_live() {
    let start = boot([counter(30)]);
    let report = run(&start, &[some(30).eventually()], walk(0, &[("walks", 7)]));
    let walked = walked(&report);
    assert_eq!((walked.walks, walked.live, walked.depth), (7, 7, 0));
    let shown = scry_engine::explore::STEPS_SHOWN.iter().zip(walked.within);
    for (steps, count) in shown {
        assert_eq!(count, if *steps >= 30 { 7 } else { 0 });
    }
}

#[test]
fn b_36_a_search_can_begin_at_a_live_prefix() {
    // The trap opens after twenty steps: far beyond what is explored from the start.
    let rules = line(toy().on(On::Start, [Arm(0)]), 0, 20)
        .at(20, On::Timer(0), [Set(0), Arm(0)])
        .at(20, On::Call(0), [Set(50)])
        .at(50, On::Call(0), [Set(51)])
        .at(51, On::Call(0), [Set(50)]);
    let start = boot([rules]);
    let goals = [some(20).eventually()];
    let report = run(&start, &goals, walk(2, &[("prefix", 15), ("length", 500)]));
    let violation = report.violations.first().expect("it is near the prefix");
    assert!(violation.path.len() >= 21);
    assert!(matches!(violation.how, How::Dead(dead) if dead.critical));
    // Where there is no live prefix there is nothing to begin with, and the report says that no walk was made.
    let none = run(
        &start,
        &[some(99).eventually()],
        walk(2, &[("prefix", 15), ("length", 500)]),
    );
    assert_eq!((none.stop, walked(&none).walks), (Stop::Enough, 0));
}

#[test]
fn b_11_safety_is_judged_in_walks_too() {
    let start = boot([counter(40)]);
    let properties = [never(33), some(40).eventually()];
    let report = run(&start, &properties, walk(2, &[]));
    confirm(&start, &properties, &report);
    assert_eq!(report.violations.len(), 1);
    assert_eq!(report.violations[0].path.len(), 33);
}

#[test]
fn b_41_longer_walks_refute_what_short_ones_suspect() {
    // Live only after 400 steps, beside much else, so that enumeration does not decide it.
    let start = boot([counter(400), counter(300), counter(300)]);
    let goals = [some(400).eventually()];
    let settings = [("length", 300), ("probes", 3)];
    let short = run(&start, &goals, walk(0, &settings));
    assert_eq!(short.suspected.len(), 1, "{short:?}");
    assert_eq!(short.suspected[0].case, Case::C2);
    let raised = run(
        &start,
        &goals,
        walk(0, &[("length", 300), ("probes", 3), ("raise-length", 1)]),
    );
    assert!(raised.suspected.is_empty(), "{raised:?}");
    assert_eq!(walked(&raised).refuted, 1);
}
