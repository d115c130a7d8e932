//! Attempts to make walks lie: settings that make no sense, services that hide where they are caught, properties nobody can answer.

use proptest::prelude::*;
use scry_engine::explore::{Case, How, SearchError, Settings, Standing, Stop};
use scry_engine::{
    Faults, Judgement, Limits, Options, Property, Report, Search, Service, Simulation, Step,
    Strategy, View,
};

use crate::liveness::{Class, Truth, some};
use crate::reference::{explore, replay, run};
use crate::table::{ANYTHING, Table, Tastes, rules, starts};
use crate::toys::Deed::{Add, Arm, Choose, Send, Set};
use crate::toys::{On, Toy, Word, boot, boot_with, by, counter, never, node, rules as toy};

fn walk(depth: Option<u32>, settings: &[(&'static str, u64)]) -> Options {
    Options {
        limits: Limits {
            depth,
            ..Limits::default()
        },
        settings: Settings::of(settings),
        ..by(Strategy::WALK)
    }
}

fn goals_of(rules: &[crate::table::Rule]) -> Vec<Property<Table>> {
    let named = rules.iter().enumerate();
    named
        .map(|(name, rule)| rule.property(name).eventually())
        .collect()
}

/// What is told of a dead state: the property, the way there, and what comes true instead.
type Told<S> = (String, Vec<Step<S>>, Option<Vec<Step<S>>>);

fn told<S: Service>(report: &Report<S>) -> Vec<Told<S>> {
    let violations = report.violations.iter();
    let violations = violations.filter(|it| matches!(it.how, How::Dead(_)));
    violations
        .map(|it| (it.property.clone(), it.path.clone(), it.live.clone()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(64) })]

    /// Where the exhaustive part has no end to grow to, walks are as exact as the search that classifies every state.
    #[test]
    fn what_can_be_enumerated_is_told_exactly(
        start in starts(Tastes { ticks: false, nodes_max: 2, ..ANYTHING }),
        rules in rules(),
        faults in any::<bool>(),
        increment in 1_u64..9,
        slice in 1_u64..400,
    ) {
        if explore(&start, 400).bound.is_some() {
            return Ok(());
        }
        let goals = goals_of(&rules);
        let recovery = ("fault-recovery", u64::from(faults));
        let exact = Options {
            settings: Settings::of(&[recovery, ("cycles", 0)]),
            ..by(Strategy::EXHAUSTIVE)
        };
        let exact = run(&start, &goals, exact);
        let settings = [recovery, ("length", 300), ("increment", increment), ("probes", 3)];
        let options = walk(None, &settings);
        let walked = run(&start, &goals, options);
        prop_assert_eq!((walked.stop, walked.complete), (Stop::Exhausted, exact.complete));
        prop_assert!(walked.suspected.is_empty());
        prop_assert_eq!(walked.unconfirmed, 0);
        let standings = |report: &Report<Table>| report.goals.iter().map(|it| it.standing.clone()).collect::<Vec<_>>();
        prop_assert_eq!(standings(&walked), standings(&exact));
        prop_assert_eq!(told(&walked), told(&exact));
        // And however it is cut into slices.
        let mut search = Search::new(&start, goals, options).expect("these options go together");
        while search.advance(slice).is_none() {}
        while !search.conclude(slice) {}
        prop_assert_eq!(told(&search.finish_as_it_is()), told(&exact));
    }

    /// Walks begin wherever the exhaustive part leads to nothing new: so a service that is caught in few states is found there,
    /// however far the edge is, and by walks alone.
    #[test]
    fn whoever_is_caught_before_the_edge_is_found(
        start in starts(Tastes { ticks: false, nodes_max: 2, ..ANYTHING }),
        rules in rules(),
        increment in 1_u64..9,
    ) {
        let reference = explore(&start, 250);
        if reference.bound.is_some() {
            return Ok(());
        }
        let goals = goals_of(&rules);
        let settings = [("exact", 0), ("length", 200), ("increment", increment), ("probes", 2)];
        let report = run(&start, &goals, walk(None, &settings));
        for goal in &goals {
            let truth = Truth::of(&reference, &[goal], false);
            let is_dead = truth.classes.values().any(|class| *class == Class::Dead);
            let suspected = report.suspected.iter().any(|it| it.property == goal.name());
            let proved = report.violations.iter().any(|it| it.property == goal.name());
            prop_assert!(!is_dead || suspected || proved, "{}", goal.name());
        }
        for violation in report.violations.iter().filter(|it| matches!(it.how, How::Dead(_))) {
            let Some(goal) = goals.iter().find(|it| it.name() == violation.property) else { continue };
            let truth = Truth::of(&reference, &[goal], false);
            prop_assert_eq!(truth.classes[&replay(&start, &violation.path)], Class::Dead);
        }
    }

    /// Settings at the ends of what they take.
    #[test]
    fn no_settings_make_walks_panic_or_lie(
        start in starts(Tastes { nodes_max: 2, ..ANYTHING }),
        rules in rules(),
        length in prop_oneof![Just(1_u64), Just(2), 1_u64..40],
        others in proptest::collection::vec(prop_oneof![Just(0_u64), Just(1), 0_u64..30, Just(u64::MAX)], 8),
        exact in any::<bool>(),
    ) {
        let goals = goals_of(&rules);
        let at_least_1 = |at: usize| others[at].clamp(1, 30);
        let settings = [
            ("length", length),
            ("walks", at_least_1(0)),
            ("increment", others[1].max(1)),
            ("prefix", others[2].min(100)),
            ("probes", at_least_1(3)),
            ("exact", u64::from(exact)),
            ("weight.call", others[4]),
            ("weight.message", others[5]),
            ("weight.timer", others[6]),
            ("weight.fault", others[7]),
        ];
        let mut options = walk(Some(4), &settings);
        options.limits.states = Some(300);
        let report = run(&start, &goals, options);
        prop_assert_eq!(report.unconfirmed, 0);
        for suspicion in &report.suspected {
            prop_assert_eq!(replay(&start, &suspicion.path), suspicion.state.clone());
        }
    }
}

#[test]
fn an_execution_of_one_step_is_walked_and_nothing_is_suspected_for_want_of_steps() {
    // It comes true after thirty steps, beside enough that enumeration does not help.
    let start = boot([counter(30), counter(300), counter(300)]);
    let options = walk(None, &[("length", 1), ("exact", 0), ("increment", 7)]);
    let report = run(&start, &[some(300).eventually()], options);
    assert_eq!((report.stop, report.depth), (Stop::Enough, 0));
    // One step decides nothing, and that is said.
    assert!(report.violations.is_empty());
    assert!(report.suspected.iter().all(|it| it.case == Case::C2));
}

#[test]
fn what_has_no_weight_happens_where_nothing_else_can() {
    let start = boot([counter(5)]);
    let weightless = [
        "weight.call",
        "weight.message",
        "weight.timer",
        "weight.fault",
    ];
    let settings = weightless.map(|name| (name, 0));
    let report = run(&start, &[some(5).eventually()], walk(Some(0), &settings));
    assert!(report.violations.is_empty() && report.suspected.is_empty());
    let Standing::Walked(walked) = &report.goals[0].standing else {
        panic!("{:?}", report.goals);
    };
    assert_eq!((walked.walks, walked.live), (1, 1));
}

#[test]
fn a_walk_without_end_stays_within_its_bytes() {
    // Round and round, never true: a prefix longer than anything, and a length like it.
    let rules = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Set(1), Arm(0)])
        .at(1, On::Timer(0), [Set(0), Arm(0)]);
    for name in ["prefix", "length"] {
        let mut options = walk(None, &[(name, u64::MAX), ("exact", 0)]);
        options.limits.bytes = Some(4 << 20);
        let report = run(&boot([rules.clone()]), &[some(7).eventually()], options);
        assert_eq!(report.stop, Stop::Bytes, "{name}");
    }
}

#[test]
fn a_property_that_nobody_can_answer_is_suspected_of_nothing() {
    let unknown = || {
        let project = |view: &View<'_, Toy>| Some(view.state.value);
        Property::global_in_view("nobody knows", project, |_, _| Judgement::Unknown).eventually()
    };
    let rules = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Add(1), Arm(0)])
        .at(1, On::Timer(0), [Add(1)]);
    for exact in [0, 1] {
        for raise in [0, 1] {
            let settings = [("exact", exact), ("raise-length", raise), ("length", 40)];
            let report = run(&boot([rules.clone()]), &[unknown()], walk(None, &settings));
            assert!(report.violations.is_empty() && report.suspected.is_empty());
            assert_eq!(report.unjudged.len(), 1, "{:?}", report.unjudged);
        }
    }
}

/// Two servers; each job goes to one of them by chance, and each server finishes its jobs. The difference is what counts.
fn load_balancer(jobs: u64) -> Simulation<Toy> {
    // The value is 10 × (100 + difference), with the scheduler's choice as last digit.
    let at = |difference: u64| 10 * (100 + difference);
    let rules = toy().on(On::Start, [Set(at(0)), Arm(0)]);
    let rules = (0..jobs).fold(rules, |rules, difference| {
        let here = at(difference);
        let less = difference.saturating_sub(1);
        rules
            .at(here, On::Timer(0), [Arm(0), Choose(2)])
            .at(10 * here, On::Timer(0), [Arm(0), Set(at(difference + 1))])
            .at(10 * here + 1, On::Timer(0), [Arm(0), Set(at(less))])
    });
    // As many jobs as there can be.
    let rules = rules.at(at(jobs), On::Timer(0), [Arm(0), Set(at(jobs - 1))]);
    boot([rules, counter(300), counter(300)])
}

/// The paper's example of what is no dead state: whoever always prefers one server is never balanced, but could be.
#[test]
fn f_30_b_4_a_load_balancer_is_never_called_dead_by_walks_alone() {
    let balanced = || some(1_000).eventually();
    for seed in 0..3 {
        for length in [1_000, 4_000] {
            let settings = [
                ("exact", 0),
                ("length", length),
                ("increment", 3),
                ("probes", 60),
            ];
            let options = Options {
                seed,
                ..walk(Some(6), &settings)
            };
            let report = run(&load_balancer(30), &[balanced()], options);
            assert!(report.violations.is_empty());
            // C2 at the most: never that it is decided.
            for suspicion in &report.suspected {
                assert_eq!(
                    suspicion.case,
                    Case::C2,
                    "{length}: {:?}",
                    suspicion.path.len()
                );
            }
        }
    }
    let exact = run(&load_balancer(3), &[balanced()], by(Strategy::EXHAUSTIVE));
    let is_dead = |it: &scry_engine::Violation<Toy>| matches!(it.how, How::Dead(_));
    assert!(!exact.violations.iter().any(is_dead));
}

#[test]
fn b_52_where_nothing_is_decided_several_executions_that_come_true_are_told() {
    // The walk is caught in a long line after a while; walks are too short to see it for certain.
    let rules = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Add(1), Arm(0)])
        .at(1, On::Timer(0), [Set(0), Arm(0)]);
    let start = boot([rules, counter(4_000), counter(4_000)]);
    let goal = Property::global(
        "one has counted to 130",
        |view: &View<'_, Toy>| Some((view.id, view.state.value)),
        |all| {
            all.iter()
                .any(|(id, (_, value))| id.get() == 1 && *value == 130)
        },
    );
    let mut seen = 0;
    for seed in 0..40 {
        let settings = [
            ("exact", 0),
            ("length", 420),
            ("probes", 20),
            ("weight.timer", 1),
        ];
        let options = Options {
            seed,
            ..walk(Some(0), &settings)
        };
        let report = run(&start, &[goal.clone().eventually()], options);
        for suspicion in &report.suspected {
            seen = seen.max(suspicion.live.len());
            assert!(suspicion.live.len() <= 3);
            for live in &suspicion.live {
                let end = replay(&start, live);
                assert_eq!(goal.judge(&end.views()), Judgement::Holds);
            }
        }
    }
    assert!(seen >= 2, "{seen}");
}

#[test]
fn a_limit_of_bytes_ends_the_classification_too_and_walks_are_what_is_left() {
    let start = boot([counter(40), counter(40), counter(40)]);
    let goals = [some(90).eventually()];
    let without = run(&start, &goals, walk(None, &[("length", 200), ("walks", 1)]));
    assert!(matches!(without.goals[0].standing, Standing::Classified(_)));
    // Enough to see all states once, not to keep their words beside it.
    let mut ended = Vec::new();
    for kib in [2_000, 3_000, 4_000, 5_000, 6_000, 8_000, 12_000] {
        let mut options = walk(None, &[("length", 200)]);
        options.limits.bytes = Some(kib << 10);
        let report = run(&start, &goals, options);
        assert_eq!(report.unconfirmed, 0);
        // Whatever is left, what was found is told, and as no more than it is.
        let classified = matches!(report.goals[0].standing, Standing::Classified(_));
        assert!(!report.complete || classified);
        ended.push((report.stop, classified));
    }
    assert_eq!(ended.first().map(|it| it.0), Some(Stop::Bytes));
}

/// With every step more is on its way, and nothing ever comes true again: whoever looks for another way on than the critical step would
/// take all the memory there is.
#[test]
fn what_grows_without_end_is_not_looked_through_for_another_way() {
    let rules = toy()
        .at(0, On::Call(1), [Set(2)])
        .at(0, On::Call(0), [Set(1)])
        .at(1, On::Call(0), [Send(node(1), Word::Stream(0))]);
    let start = boot([rules, toy()]);
    let goal = some_is_0();
    let exhaustive = Options {
        limits: Limits {
            depth: Some(4),
            ..Limits::default()
        },
        ..by(Strategy::EXHAUSTIVE)
    };
    for options in [exhaustive, walk(Some(4), &[("length", 60)])] {
        let report = run(&start, &[goal.clone().eventually()], options);
        let dead = report
            .violations
            .iter()
            .find(|it| matches!(it.how, How::Dead(_)));
        let dead = dead.map(|it| it.path.len());
        assert!(dead == Some(1) || !report.suspected.is_empty(), "{dead:?}");
    }
}

/// The property that node 0 has 0.
fn some_is_0() -> Property<Toy> {
    Property::global(
        "n0 has 0",
        |view: &View<'_, Toy>| Some((view.id, view.state.value)),
        |all| all.iter().any(|(_, it)| **it == (node(0), 0)),
    )
}

#[test]
fn findings_keep_their_numbers_when_more_is_found() {
    // A dead state is suspected first, and then a property of every state is broken on paths as long.
    let rules = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Set(1), Arm(0)])
        .at(1, On::Timer(0), [Set(2), Arm(0)])
        .at(2, On::Timer(0), [Set(1), Arm(0)]);
    let start = boot([rules, counter(12)]);
    let properties = vec![some(99).eventually(), never(11), never(12)];
    let options = Options {
        limits: Limits {
            first_violation: true,
            ..Limits::default()
        },
        settings: Settings::of(&[("length", 6), ("increment", 1)]),
        ..Options {
            strategy: Strategy::WALK,
            ..Options::default()
        }
    };
    let mut search = Search::new(&start, properties.clone(), options).expect("they go together");
    let mut known = 0;
    for _ in 0..2_000 {
        let stop = search.advance(50);
        let news = search.found(known);
        known = news.known;
        assert_eq!(news.unconfirmed, 0);
        if stop.is_some() {
            break;
        }
    }
    let report = search.finish();
    assert_eq!(report.unconfirmed, 0);
    for violation in &report.violations {
        let property = properties.iter().find(|it| it.name() == violation.property);
        let property = property.expect("it is one of ours");
        let state = replay(&start, &violation.path);
        assert_eq!(state, violation.state);
        assert_eq!(property.judge(&state.views()), Judgement::Violated);
    }
}

/// TLC 59: unsound with symmetry. Handlers run once for all nodes with equal settings; which of them it is about is not forgotten.
#[test]
fn equal_nodes_are_told_apart_by_what_must_come() {
    let alike = || {
        toy()
            .at(0, On::Call(0), [Set(1)])
            .at(1, On::Call(0), [Set(0)])
    };
    // Only node 1 can leave for good.
    let start = boot([alike(), alike().at(1, On::Call(1), [Set(9)])]);
    let has_one = |id: u32| {
        Property::global(
            format!("n{id} has 1"),
            |view: &View<'_, Toy>| Some((view.id, view.state.value)),
            move |all| all.iter().any(|(_, it)| **it == (node(id), 1)),
        )
        .eventually()
    };
    for options in [by(Strategy::EXHAUSTIVE), walk(None, &[("length", 60)])] {
        let report = run(&start, &[has_one(0), has_one(1)], options);
        let dead: Vec<&str> = report
            .violations
            .iter()
            .filter(|it| matches!(it.how, How::Dead(_)))
            .map(|it| it.property.as_str())
            .collect();
        assert_eq!(dead, ["n1 has 1"]);
    }
}

#[test]
fn b_36_a_search_begins_at_the_end_of_any_execution() {
    let rules = toy()
        .at(0, On::Call(0), [Set(1)])
        .at(1, On::Call(0), [Set(2)])
        .at(1, On::Call(1), [Set(5)])
        .at(2, On::Call(0), [Set(3)])
        .at(3, On::Call(0), [Set(2)]);
    let faults = Faults {
        resets: 1,
        ..Faults::NONE
    };
    let start = boot_with(faults, [rules]);
    let whole = run(&start, &[some(2).eventually()], by(Strategy::EXHAUSTIVE));
    // 0, 1: from there on 5 is a step away, and dead.
    let path: Vec<Step<Toy>> = whole.violations[0].path[..1].to_vec();
    for options in [by(Strategy::EXHAUSTIVE), walk(None, &[("length", 90)])] {
        let goals = vec![
            some(2).eventually(),
            some(1).sometimes(),
            some(0).sometimes(),
        ];
        let search = Search::after(&start, &path, goals, options).expect("they go together");
        let report = search.run();
        assert!(!report.complete);
        assert_eq!(report.extent, Some("in all that can follow the prefix"));
        let dead = report
            .violations
            .iter()
            .find(|it| matches!(it.how, How::Dead(_)));
        let dead = dead.expect("it is found");
        assert_eq!(dead.path[..1], path);
        assert_eq!(dead.path.len(), 2);
        assert_eq!(replay(&start, &dead.path), dead.state);
        let live = dead.live.as_ref().expect("there is another way");
        assert_eq!(live[..1], path);
        // What holds in the prefix was reached, counted from the start.
        let reached = |at: usize| match report.goals[at].standing {
            Standing::Reached { steps } => Some(steps),
            _ => None,
        };
        assert_eq!((reached(1), reached(2)), (Some(1), Some(0)));
    }
    // Whoever has left is asked nothing any more.
    let twice = [whole.violations[0].path.clone(), path].concat();
    let refused = Search::after(
        &start,
        &twice,
        vec![some(2).eventually()],
        by(Strategy::WALK),
    );
    assert_eq!(refused.err(), Some(SearchError::Prefix { step: 3 }));
}
