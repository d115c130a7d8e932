//! MaceMC's walks as published, requirement by requirement, with enumeration off.

use scry_engine::explore::{How, Settings, Standing, Stop, Walked};
use scry_engine::{Limits, Options, Property, Report, Strategy, View};

use crate::liveness::some;
use crate::reference::{confirm, replay, run};
use crate::toys::Deed::{Arm, Choose, Expired, Set};
use crate::toys::{On, Toy, boot, by, counter, never, rules as toy};

fn published(depth: u32, settings: &[(&'static str, u64)]) -> Options {
    let settings: Vec<(&'static str, u64)> = [("exact", 0)]
        .into_iter()
        .chain(settings.iter().copied())
        .collect();
    Options {
        limits: Limits {
            depth: Some(depth),
            ..Limits::default()
        },
        settings: Settings::of(&settings),
        ..by(Strategy::WALK)
    }
}

fn walked(report: &Report<Toy>) -> &Walked {
    match &report.goals[0].standing {
        Standing::Walked(walked) => walked,
        other => panic!("not walked: {other:?}"),
    }
}

#[test]
fn b_15_b_18_as_many_walks_as_are_asked_for_begin_in_each_state_at_the_edge() {
    // Two steps away lie (2, 0), (1, 1) and (0, 2).
    let start = boot([counter(30), counter(30)]);
    for walks in [1, 5] {
        let settings = [("walks", walks), ("increment", 2)];
        let report = run(&start, &[some(30).eventually()], published(2, &settings));
        let walked = walked(&report);
        assert_eq!(
            (walked.depth, walked.walks, walked.live),
            (2, 3 * walks, 3 * walks)
        );
    }
}

#[test]
fn b_9_the_exhaustive_part_grows_until_it_is_as_far_as_executions_are_long() {
    let start = boot([counter(30), counter(30)]);
    for (length, increment, depth) in [(10, 3, 9), (10, 100, 9), (2, 1, 1)] {
        let settings = [("length", length), ("increment", increment), ("probes", 1)];
        let report = run(&start, &[some(1).eventually()], published(1_000, &settings));
        assert_eq!((report.stop, report.depth), (Stop::Enough, depth));
    }
}

#[test]
fn b_13_b_19_whatever_is_chosen_in_a_handler_is_in_the_path() {
    let dice = toy().on(On::Start, [Arm(0)]).on(
        On::Timer(0),
        [Set(0), Choose(3), Expired(5), Choose(2), Arm(0)],
    );
    let start = boot([dice, counter(40)]);
    let properties: Vec<Property<Toy>> = [1, 11, 101, 110, 111, 200, 211].map(never).into();
    let goals = [some(999).eventually()];
    for seed in 0..50 {
        let options = Options {
            seed,
            ..published(1, &[("length", 60), ("probes", 2)])
        };
        let all: Vec<Property<Toy>> = properties.iter().chain(&goals).cloned().collect();
        let report = run(&start, &all, options);
        assert_eq!(report.unconfirmed, 0);
        assert!(!report.violations.is_empty() && report.suspected.len() == 1);
        for violation in report.violations.iter().filter(|it| it.how == How::Broken) {
            assert_eq!(replay(&start, &violation.path), violation.state);
        }
        let suspicion = &report.suspected[0];
        assert_eq!(replay(&start, &suspicion.path), suspicion.state);
    }
    let options = published(3, &[("length", 40)]);
    confirm(&start, &properties, &run(&start, &properties, options));
}

#[test]
fn b_16_caught_where_nothing_happens_before_the_edge_it_is_proved_by_walks_alone() {
    // Three steps away nothing happens any more; the edge goes on along another node.
    let rules = toy()
        .at(0, On::Call(0), [Set(1)])
        .at(1, On::Call(0), [Set(0)])
        .at(1, On::Call(1), [Set(5)]);
    let start = boot([rules]);
    let report = run(
        &start,
        &[some(1).eventually()],
        published(50, &[("increment", 7), ("length", 100)]),
    );
    let [violation] = report.violations.as_slice() else {
        panic!("{report:?}");
    };
    assert!(matches!(violation.how, How::Dead(_)));
    assert_eq!(
        violation
            .state
            .nodes()
            .values()
            .next()
            .map(|node| node.local.service.value),
        Some(5)
    );
}

#[test]
fn b_39_without_weights_one_step_is_as_likely_as_another() {
    let rules = toy()
        .on(On::Start, [Arm(0), Arm(1), Arm(2)])
        .at(0, On::Timer(0), [Set(2)])
        .at(0, On::Timer(1), [Set(3)])
        .at(0, On::Timer(2), [Set(4)])
        .at(0, On::Call(0), [Set(1)]);
    let start = boot([rules]);
    let equal = ["weight.call", "weight.message", "weight.timer"].map(|name| (name, 1));
    let settings = [[("walks", 20_000)].as_slice(), &equal].concat();
    let report = run(&start, &[some(1).eventually()], published(0, &settings));
    let share = walked(&report).within[0] as f64 / walked(&report).walks as f64;
    // Four standard deviations of 20 000 throws are less than 0.015.
    assert!((share - 0.25).abs() < 0.015, "{share}");
}

/// Whatever holds of no state and is known of none is told as that: a property that is only unknown now and then is walked past.
#[test]
fn a_walk_past_states_of_which_nothing_is_known_is_no_failure() {
    let project = |view: &View<'_, Toy>| Some(view.state.value);
    let goal = Property::global_in_view("has 9", project, |_, all| match all {
        [(_, 9)] => scry_engine::Judgement::Holds,
        [(_, 3)] => scry_engine::Judgement::Unknown,
        _ => scry_engine::Judgement::Violated,
    });
    // 9 never comes; on the way round lies 3.
    let rules = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Set(3), Arm(0)])
        .at(3, On::Timer(0), [Set(0), Arm(0)]);
    let report = run(
        &boot([rules]),
        &[goal.eventually()],
        published(4, &[("length", 50)]),
    );
    assert!(
        report.suspected.is_empty() && report.violations.is_empty(),
        "{report:?}"
    );
}
