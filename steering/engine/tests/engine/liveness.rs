//! What must come again and again: the engine's classes against plain backward reachability over whole states, and what
//! goes wrong in other checkers.

use std::collections::HashMap;

use proptest::prelude::*;
use scry_engine::explore::{
    ALL_AT_ONCE, Classes, GoalReport, How, Proof, SearchError, Settings, Standing, Stop,
};
use scry_engine::property::Kind;
use scry_engine::{
    Faults, Judgement, Limits, Options, Property, Report, Search, Service, Simulation, Strategy,
    View,
};

use crate::reference::{Reference, explore, replay, run};
use crate::table::{ANYTHING, Table, Tastes, rules, starts};
use crate::toys::Deed::{Add, Arm, Choose, Keep, Send, Set};
use crate::toys::{On, Rules, Toy, Word, boot, boot_with, by, counter, node, rules as toy};

/// How many states a generated system may have before it is cut off at a depth.
const STATES_MAX: usize = 800;

/// The class of every state, by backward reachability over whole states.
pub(crate) struct Truth<S: Service> {
    pub(crate) classes: HashMap<Simulation<S>, Class>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Class {
    Live,
    Recoverable,
    Dead,
    Unknown,
}

impl<S: Service> Truth<S> {
    pub(crate) fn of(reference: &Reference<S>, goals: &[&Property<S>], faults: bool) -> Self {
        let states: Vec<&Simulation<S>> = reference.states.keys().collect();
        let numbers: HashMap<&Simulation<S>, usize> = states
            .iter()
            .enumerate()
            .map(|(at, &it)| (it, at))
            .collect();
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); states.len()];
        let (mut live, mut open) = (Vec::new(), Vec::new());
        for (at, state) in states.iter().enumerate() {
            let judged = |goal: &&Property<S>| goal.judge(&state.views());
            if goals.iter().all(|goal| judged(goal) == Judgement::Holds) {
                live.push(at);
            } else if goals.iter().all(|goal| judged(goal) != Judgement::Violated) {
                open.push(at);
            }
            if reference.bound == Some(reference.states[*state]) {
                open.push(at);
                continue;
            }
            for (step, after) in state.successors() {
                if faults || step.event.fault().is_none() {
                    before[numbers[&after]].push(at);
                }
            }
        }
        let reach = |from: &[usize]| {
            let mut reached = vec![false; states.len()];
            let mut waiting = from.to_vec();
            while let Some(at) = waiting.pop() {
                if !std::mem::replace(&mut reached[at], true) {
                    waiting.extend(&before[at]);
                }
            }
            reached
        };
        let (alive, unknown) = (reach(&live), reach(&open));
        let class = |at: usize| match (alive[at], unknown[at]) {
            _ if live.contains(&at) => Class::Live,
            (true, _) => Class::Recoverable,
            (false, true) => Class::Unknown,
            (false, false) => Class::Dead,
        };
        Self {
            classes: states
                .iter()
                .enumerate()
                .map(|(at, &state)| (state.clone(), class(at)))
                .collect(),
        }
    }

    fn counts(&self) -> Classes {
        let mut counts = Classes::default();
        for class in self.classes.values() {
            *match class {
                Class::Live => &mut counts.live,
                Class::Recoverable => &mut counts.recoverable,
                Class::Dead => &mut counts.dead,
                Class::Unknown => &mut counts.unknown,
            } += 1;
        }
        counts
    }

    /// Returns the least depth of a dead state.
    fn nearest_dead(&self, reference: &Reference<S>) -> Option<u32> {
        let dead = self
            .classes
            .iter()
            .filter(|(_, class)| **class == Class::Dead);
        dead.map(|(state, _)| reference.states[state]).min()
    }
}

fn classes(report: &GoalReport) -> Classes {
    match report.standing {
        Standing::Classified(classes) => classes,
        ref other => panic!("not classified: {other:?}"),
    }
}

fn goal<'a, S: Service>(report: &'a Report<S>, name: &str) -> &'a GoalReport {
    let found = report.goals.iter().find(|goal| goal.property == name);
    found.unwrap_or_else(|| panic!("no goal {name}: {:?}", report.goals))
}

fn exhaustive(depth: Option<u32>, faults: bool, threads: usize) -> Options {
    Options {
        limits: Limits {
            depth,
            ..Limits::default()
        },
        threads,
        settings: Settings::of(&[("fault-recovery", u64::from(faults))]),
        ..by(Strategy::EXHAUSTIVE)
    }
}

/// Compares a report with backward reachability, one goal.
fn compare<S: Service>(
    start: &Simulation<S>,
    reference: &Reference<S>,
    report: &Report<S>,
    name: &str,
    goals: &[&Property<S>],
    faults: bool,
) -> Result<(), TestCaseError> {
    let truth = Truth::of(reference, goals, faults);
    prop_assert_eq!(classes(goal(report, name)), truth.counts(), "{}", name);
    let is_it = |it: &&scry_engine::Violation<S>| {
        it.property == name && !matches!(it.how, How::Lasso { .. })
    };
    let found = report.violations.iter().find(is_it);
    let nearest = truth.nearest_dead(reference);
    if let Some(violation) = found {
        let How::Dead(dead) = violation.how else {
            return Err(TestCaseError::fail("a goal is not broken by one state"));
        };
        prop_assert_eq!(Some(violation.path.len() as u32), nearest);
        prop_assert_eq!(truth.classes[&replay(start, &violation.path)], Class::Dead);
        match violation.path.split_last() {
            None => prop_assert!(!dead.critical),
            Some((_, before)) => {
                let class = truth.classes[&replay(start, before)];
                prop_assert!(class != Class::Dead);
                prop_assert_eq!(dead.critical, class != Class::Unknown);
            }
        }
    } else if name != ALL_AT_ONCE {
        prop_assert_eq!(nearest, None);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn b_3_b_5_b_7_classes_are_those_of_backward_reachability(
        start in starts(ANYTHING),
        settled in starts(Tastes { ticks: false, nodes_max: 2, ..ANYTHING }),
        rules in rules(),
        faults in any::<bool>(),
    ) {
        for start in [start, settled] {
            let reference = explore(&start, STATES_MAX);
            let goals: Vec<Property<Table>> = rules
                .iter()
                .enumerate()
                .map(|(name, rule)| rule.property(name).eventually())
                .collect();
            let options = exhaustive(reference.bound, faults, 1);
            let report = run(&start, &goals, options);
            prop_assert_eq!(report.unconfirmed, 0);
            prop_assert_eq!(report.states, reference.states.len() as u64);
            for one in &goals {
                compare(&start, &reference, &report, one.name(), &[one], faults)?;
            }
            if goals.len() > 1 {
                let all: Vec<&Property<Table>> = goals.iter().collect();
                compare(&start, &reference, &report, ALL_AT_ONCE, &all, faults)?;
            }
        }
    }

    #[test]
    fn a_sometimes_property_is_reached_where_it_first_holds(
        start in starts(Tastes { nodes_max: 2, panics: false, ..ANYTHING }),
        rules in rules(),
    ) {
        let reference = explore(&start, STATES_MAX);
        let goals: Vec<Property<Table>> = rules
            .iter()
            .enumerate()
            .map(|(name, rule)| rule.property(name).sometimes())
            .collect();
        let report = run(&start, &goals, exhaustive(reference.bound, false, 1));
        prop_assert!(report.violations.is_empty());
        for one in &goals {
            let holds = reference
                .states
                .iter()
                .filter(|(state, _)| one.judge(&state.views()) == Judgement::Holds);
            let expected = match holds.map(|(_, &depth)| depth).min() {
                Some(steps) => Standing::Reached { steps },
                None if reference.bound.is_none() => Standing::Vacuous,
                None => Standing::NotReached,
            };
            prop_assert_eq!(&goal(&report, one.name()).standing, &expected);
        }
    }

    /// TLC 971: violations were lost with several workers.
    #[test]
    fn i_15_the_number_of_threads_changes_no_class(start in starts(ANYTHING), rules in rules()) {
        let goals: Vec<Property<Table>> = rules
            .iter()
            .enumerate()
            .map(|(name, rule)| rule.property(name).eventually())
            .collect();
        let bound = explore(&start, STATES_MAX).bound;
        let with = |threads| {
            let report = run(&start, &goals, exhaustive(bound, false, threads));
            let found = report.violations.into_iter();
            let found = found.map(|it| (it.property, it.how, it.path));
            (report.goals, report.goal_bytes, found.collect::<Vec<_>>())
        };
        prop_assert_eq!(with(1), with(3));
    }

    /// A limit of states cuts a level in the middle: what its states lead to is partly unknown.
    #[test]
    fn a_search_that_is_cut_anywhere_calls_nothing_dead_that_is_not(
        start in starts(Tastes { ticks: false, nodes_max: 2, ..ANYTHING }),
        rules in rules(),
        states in 1_u64..60,
    ) {
        let reference = explore(&start, STATES_MAX);
        if reference.bound.is_some() {
            return Ok(());
        }
        let goals: Vec<Property<Table>> = rules
            .iter()
            .enumerate()
            .map(|(name, rule)| rule.property(name).eventually())
            .collect();
        let options = Options {
            limits: Limits { states: Some(states), ..Limits::default() },
            ..by(Strategy::EXHAUSTIVE)
        };
        let report = run(&start, &goals, options);
        for one in &goals {
            let truth = Truth::of(&reference, &[one], false);
            let (cut, whole) = (classes(goal(&report, one.name())), truth.counts());
            prop_assert!(cut.dead <= whole.dead);
            prop_assert!(cut.recoverable <= whole.recoverable && cut.live <= whole.live);
            prop_assert_eq!(cut.live + cut.recoverable + cut.dead + cut.unknown, report.states);
            prop_assert!(report.complete == (cut.unknown == 0) || !report.complete);
        }
        for violation in &report.violations {
            let property = goals.iter().find(|it| it.name() == violation.property);
            let Some(property) = property else { continue };
            let truth = Truth::of(&reference, &[property], false);
            prop_assert_eq!(truth.classes[&violation.state], Class::Dead);
        }
    }
}

/// The property that some node has this value.
pub(crate) fn some(value: u64) -> Property<Toy> {
    Property::global(
        format!("some node has {value}"),
        |view: &View<'_, Toy>| Some(view.state.value),
        move |all| all.iter().any(|(_, has)| **has == value),
    )
}

/// From 0 a call leads to 1 and back, and another to 2, from where there is no way back.
pub(crate) fn trap() -> Rules {
    toy()
        .at(0, On::Call(0), [Set(1)])
        .at(1, On::Call(0), [Set(0)])
        .at(1, On::Call(1), [Set(2)])
        .at(2, On::Call(0), [Set(3)])
        .at(3, On::Call(0), [Set(2)])
}

#[test]
fn b_5_the_critical_transition_is_the_step_into_the_trap() {
    let start = boot([trap()]);
    let report = run(&start, &[some(1).eventually()], by(Strategy::EXHAUSTIVE));
    let expected = Classes {
        live: 1,
        recoverable: 1,
        dead: 2,
        unknown: 0,
    };
    assert_eq!(classes(&report.goals[0]), expected);
    let [violation] = report.violations.as_slice() else {
        panic!("{:?}", report.violations);
    };
    assert_eq!(violation.path.len(), 2);
    assert_eq!(violation.state.nodes()[&node(0)].local.service.value, 2);
    let How::Dead(dead) = violation.how else {
        panic!("{:?}", violation.how);
    };
    assert!(dead.critical);
    assert_eq!(dead.proof, Proof::Plain { states: 2 });
}

#[test]
fn b_7_what_can_never_hold_at_once_is_said_where_each_can_hold() {
    // 1 and 2 hold in turns, never both.
    let rules = toy().at(0, On::Call(0), [Set(1)]);
    let rules = rules
        .at(1, On::Call(0), [Set(2)])
        .at(2, On::Call(0), [Set(1)]);
    let start = boot([rules]);
    let goals = [some(1).eventually(), some(2).eventually()];
    let report = run(&start, &goals, by(Strategy::EXHAUSTIVE));
    let names: Vec<&str> = report
        .violations
        .iter()
        .map(|it| it.property.as_str())
        .collect();
    assert_eq!(names, [ALL_AT_ONCE]);
    assert_eq!(classes(goal(&report, ALL_AT_ONCE)).dead, 3);
    assert_eq!(classes(goal(&report, "some node has 1")).dead, 0);
    assert!(report.violations[0].path.is_empty());
}

#[test]
fn faults_are_no_way_to_recover_unless_they_are_asked_for() {
    // The reply is lost for good, and only a restart brings the node back to 0.
    let rules = toy().at(0, On::Call(0), [Set(5)]);
    let faults = Faults {
        resets: 1,
        ..Faults::NONE
    };
    let start = boot_with(faults, [rules]);
    let zero = || {
        Property::node("each node has 0", |view: &View<'_, Toy>| {
            view.state.value == 0
        })
    };
    let with = |faults| {
        let report = run(&start, &[zero().eventually()], exhaustive(None, faults, 1));
        (classes(&report.goals[0]).dead, report.violations.len())
    };
    assert_eq!(with(false), (2, 1));
    // With the fault still to come it is alive; with the fault spent it is dead.
    assert_eq!(with(true), (1, 1));
}

/// MaceMC §2: whoever prefers one server for ever is never balanced, but could be at any time.
pub(crate) fn balancer() -> Simulation<Toy> {
    // Value 1 and 2: one of the two servers has one job more; 0: balanced.
    let rules = toy().on(On::Start, [Arm(0)]);
    let rules = rules
        .at(0, On::Timer(0), [Arm(0), Add(1), Choose(2)])
        .at(10, On::Timer(0), [Arm(0), Set(2), Choose(2)])
        .at(11, On::Timer(0), [Arm(0), Set(3), Choose(2)]);
    let back = |rules: Rules, at: u64, to: u64| rules.at(at, On::Timer(0), [Arm(0), Set(to)]);
    let rules = back(rules, 20, 10);
    let rules = back(rules, 21, 0);
    let rules = back(rules, 30, 11);
    boot([back(rules, 31, 0)])
}

#[test]
fn b_4_a_balancer_that_may_prefer_one_server_is_never_called_dead() {
    let balanced = Property::node("balanced", |view: &View<'_, Toy>| view.state.value == 0);
    let report = run(
        &balancer(),
        &[balanced.eventually()],
        by(Strategy::EXHAUSTIVE),
    );
    assert!(report.complete);
    let counted = classes(&report.goals[0]);
    assert_eq!((counted.dead, counted.unknown, counted.live), (0, 0, 1));
    assert!(
        report
            .violations
            .iter()
            .all(|it| !matches!(it.how, How::Dead(_)))
    );
}

/// stateright PR 3: what is owed was forgotten where two paths meet, and in cycles.
#[test]
fn what_is_owed_is_not_forgotten_where_paths_meet_or_in_cycles() {
    // Two ways lead to 3, one through 1, which is live; 3 and 4 go round for ever and are dead.
    let rules = toy()
        .at(0, On::Call(0), [Set(1)])
        .at(0, On::Call(1), [Set(2)])
        .at(1, On::Call(0), [Set(3)])
        .at(2, On::Call(0), [Set(3)])
        .at(3, On::Call(0), [Set(4)])
        .at(4, On::Call(0), [Set(3)]);
    let report = run(
        &boot([rules]),
        &[some(1).eventually()],
        by(Strategy::EXHAUSTIVE),
    );
    let counted = classes(&report.goals[0]);
    // 2 leads to 3 only: it is dead as well, and the nearest.
    assert_eq!((counted.live, counted.recoverable, counted.dead), (1, 1, 3));
    assert_eq!(report.violations[0].path.len(), 1);
}

/// PSharp 78: liveness was switched off without a word. Whoever does not judge it says so.
#[test]
fn a_strategy_that_does_not_judge_goals_says_so() {
    let start = boot([trap()]);
    let properties = [some(1).eventually(), some(7).sometimes()];
    for strategy in Strategy::all() {
        let report = run(&start, &properties, by(strategy));
        let unjudged: Vec<(&str, &str)> = report
            .unjudged
            .iter()
            .map(|it| (it.property.as_str(), it.why.as_str()))
            .collect();
        if strategy.judges_goals() {
            assert!(unjudged.is_empty(), "{unjudged:?}");
            assert_eq!(report.goals.len(), 2);
            continue;
        }
        assert!(report.goals.is_empty());
        let [(first, why), (second, _)] = unjudged.as_slice() else {
            panic!("{strategy}: {unjudged:?}");
        };
        assert_eq!((*first, *second), ("some node has 1", "some node has 7"));
        assert!(why.ends_with("judges no `eventually` properties"), "{why}");
        // And it takes none of them for a property of every state.
        assert!(report.violations.is_empty());
    }
}

/// fizzbee 169: bounded in silence. What limits hide is unknown, and nothing is dead for it.
#[test]
fn what_limits_hide_is_unknown() {
    let start = boot([counter(20)]);
    let properties = [some(20).eventually(), some(20).sometimes()];
    let bounded = run(&start, &properties, exhaustive(Some(5), false, 1));
    assert_eq!(bounded.stop, Stop::Depth);
    let expected = Classes {
        unknown: 6,
        ..Classes::default()
    };
    assert_eq!(classes(&bounded.goals[0]), expected);
    assert_eq!(bounded.goals[1].standing, Standing::NotReached);
    assert!(bounded.violations.is_empty());
    let whole = run(&start, &properties, by(Strategy::EXHAUSTIVE));
    assert_eq!(classes(&whole.goals[0]).recoverable, 20);
    assert_eq!(whole.goals[1].standing, Standing::Reached { steps: 20 });
}

#[test]
fn a_vacuous_check_is_said_to_be_one() {
    let start = boot([counter(3)]);
    let report = run(&start, &[some(9).sometimes()], by(Strategy::EXHAUSTIVE));
    let [only] = report.goals.as_slice() else {
        panic!("{:?}", report.goals);
    };
    assert_eq!(
        (only.kind, &only.standing),
        (Kind::Sometimes, &Standing::Vacuous)
    );
}

#[test]
fn properties_of_one_name_are_one_goal() {
    // As the parts of a property in a file are: each can hold, never both.
    let part = |value| some(value).of_kind(Kind::Eventually);
    let rename = |value: u64| {
        Property::global(
            "both",
            |view: &View<'_, Toy>| Some(view.state.value),
            move |all| all.iter().any(|(_, has)| **has == value),
        )
        .eventually()
    };
    assert_eq!(part(1).kind(), Kind::Eventually);
    let rules = toy()
        .at(1, On::Call(0), [Set(2)])
        .at(2, On::Call(0), [Set(1)]);
    let start = boot([rules.on(On::Call(0), [Set(1)])]);
    let report = run(&start, &[rename(1), rename(2)], by(Strategy::EXHAUSTIVE));
    assert_eq!(report.goals.len(), 1);
    assert_eq!(classes(&report.goals[0]).dead, 3);
}

#[test]
fn conclusions_are_drawn_bit_by_bit_and_forgotten_when_the_search_goes_on() {
    let start = boot([counter(6), counter(6), trap()]);
    let properties = vec![some(6).eventually()];
    let options = by(Strategy::EXHAUSTIVE);
    let whole = run(&start, &properties, options);
    let mut search = Search::new(&start, properties, options).expect("these options go together");
    assert_eq!(search.advance(10), None);
    while !search.conclude(3) {}
    while search.advance(7).is_none() {}
    let mut rounds = 0;
    while !search.conclude(5) {
        rounds += 1;
    }
    assert!(rounds > 3);
    let report = search.finish();
    assert_eq!(report.goals, whole.goals);
    assert_eq!(report.violations.len(), whole.violations.len());
}

#[test]
fn more_goals_than_bits_are_refused() {
    let start = boot([counter(1)]);
    let goals: Vec<_> = (0..32).map(|value| some(value).eventually()).collect();
    let refused = Search::new(&start, goals, by(Strategy::EXHAUSTIVE)).expect_err("refused");
    let kind = Kind::Eventually;
    assert_eq!(refused, SearchError::Goals { kind, count: 32 });
}

/// Words and deliveries that only a step that was passed over makes are needed all the same.
#[test]
fn steps_that_the_search_passed_over_count_as_ways_to_recover() {
    let ask = Word::Datagram(0);
    let asks = |to: u32| toy().at(0, On::Call(0), [Set(1), Send(node(to), ask)]);
    let answers = |rules: Rules| rules.on(On::Word(ask), [Set(9), Keep(1)]);
    let start = boot([answers(asks(1)), answers(asks(2)), answers(asks(0))]);
    let nine = Property::node("all have 9", |view: &View<'_, Toy>| view.state.value == 9);
    let reference = explore(&start, 10_000);
    let report = run(
        &start,
        &[nine.clone().eventually()],
        by(Strategy::EXHAUSTIVE),
    );
    let truth = Truth::of(&reference, &[&nine], false);
    assert_eq!(classes(&report.goals[0]), truth.counts());
}
