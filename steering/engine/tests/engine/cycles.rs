//! Fair cycles against components and edges of whole states.

use std::collections::HashMap;

use proptest::prelude::*;
use scry_engine::explore::{Cycles, How, Settings};
use scry_engine::{
    Judgement, Limits, Options, Property, Report, Search, Service, Simulation, Step, Strategy, View,
};

use crate::liveness::{Class, Truth, balancer, some};
use crate::reference::{Reference, explore, replay, run};
use crate::table::{ANYTHING, Table, Tastes, rules, starts};
use crate::toys::Deed::{Arm, Set};
use crate::toys::{On, Toy, boot, by, rules as toy};

const STATES_MAX: usize = 250;

/// Tells whether some states that are not live and not dead make a fair component: slow, by what reaches what.
fn has_fair_component<S: Service>(reference: &Reference<S>, goal: &Property<S>) -> bool {
    let truth = Truth::of(reference, &[goal], false);
    let may = |state: &Simulation<S>| {
        let class = truth.classes[state];
        goal.judge(&state.views()) == Judgement::Violated
            && class != Class::Dead
            && reference.bound != Some(reference.states[state])
    };
    let states: Vec<&Simulation<S>> = reference.states.keys().filter(|it| may(it)).collect();
    let numbers: HashMap<&Simulation<S>, usize> = states
        .iter()
        .enumerate()
        .map(|(at, &it)| (it, at))
        .collect();
    let edges: Vec<Vec<(Step<S>, Option<usize>)>> = states
        .iter()
        .map(|state| {
            let steps = state.successors().into_iter();
            let steps = steps.filter(|(step, _)| step.event.fault().is_none());
            steps
                .map(|(step, after)| (step, numbers.get(&after).copied()))
                .collect()
        })
        .collect();
    let reach = |from: usize| {
        let mut reached = vec![false; states.len()];
        let mut waiting: Vec<usize> = edges[from].iter().filter_map(|edge| edge.1).collect();
        while let Some(at) = waiting.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                waiting.extend(edges[at].iter().filter_map(|edge| edge.1));
            }
        }
        reached
    };
    let reached: Vec<Vec<bool>> = (0..states.len()).map(reach).collect();
    (0..states.len()).filter(|&at| reached[at][at]).any(|at| {
        let component: Vec<usize> = (0..states.len())
            .filter(|&to| reached[at][to] && reached[to][at])
            .collect();
        let possible =
            |step: &Step<S>, state: usize| edges[state].iter().any(|edge| edge.0 == *step);
        let always = edges[at]
            .iter()
            .filter(|(step, _)| component.iter().all(|&state| possible(step, state)));
        let mut always = always.map(|(step, _)| step);
        always.all(|step| {
            component.iter().any(|&state| {
                edges[state]
                    .iter()
                    .any(|(it, to)| it == step && to.is_some_and(|to| component.contains(&to)))
            })
        })
    })
}

/// The steps to where a way round begins, and that way.
type Rounds<'a, S> = (&'a [Step<S>], &'a [Step<S>]);

fn lasso<S: Service>(report: &Report<S>) -> Option<Rounds<'_, S>> {
    report
        .violations
        .iter()
        .find_map(|violation| match violation.how {
            How::Lasso { round } => Some(violation.path.split_at(violation.path.len() - round)),
            _ => None,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn fair_cycles_are_found_where_whole_states_have_them(
        start in starts(Tastes { ticks: false, nodes_max: 2, ..ANYTHING }),
        rules in rules(),
    ) {
        let reference = explore(&start, STATES_MAX);
        for (name, rule) in rules.iter().enumerate() {
            let goal: Property<Table> = rule.property(name);
            let options = Options {
                limits: Limits { depth: reference.bound, ..Limits::default() },
                ..by(Strategy::EXHAUSTIVE)
            };
            let report = run(&start, &[goal.clone().eventually()], options);
            prop_assert_eq!(report.unconfirmed, 0);
            let expected = match has_fair_component(&reference, &goal) {
                true => Cycles::Found,
                false => Cycles::None,
            };
            prop_assert_eq!(report.goals[0].cycles, expected);
            prop_assert_eq!(lasso(&report).is_some(), expected == Cycles::Found);
            if let Some((stem, round)) = lasso(&report) {
                let base = replay(&start, stem);
                let truth = Truth::of(&reference, &[&goal], false);
                prop_assert!(truth.classes[&base] != Class::Dead);
                prop_assert!(replay(&base, round) == base);
                for at in 0..round.len() {
                    let state = replay(&base, &round[..at]);
                    prop_assert_eq!(goal.judge(&state.views()), Judgement::Violated);
                }
            }
        }
    }
}

/// TLC 201: components were checked as sets of states, not by their edges.
#[test]
fn a_step_that_always_leads_out_makes_going_round_unfair() {
    // 0 and 1 take turns; from both a call leads to 5, which is live, and back from there.
    let always = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Set(1), Arm(0)])
        .at(1, On::Timer(0), [Set(0), Arm(0)])
        .at(0, On::Call(0), [Set(5)])
        .at(1, On::Call(0), [Set(5)])
        .at(5, On::Call(0), [Set(0)]);
    let report = run(
        &boot([always.clone()]),
        &[some(5).eventually()],
        by(Strategy::EXHAUSTIVE),
    );
    assert_eq!(report.goals[0].cycles, Cycles::None);
    assert!(report.violations.is_empty());
}

#[test]
fn a_step_that_is_possible_now_and_then_need_not_be_taken() {
    // As before, but the way out is there in 0 only.
    let sometimes = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Set(1), Arm(0)])
        .at(1, On::Timer(0), [Set(0), Arm(0)])
        .at(0, On::Call(0), [Set(5)])
        .at(5, On::Call(0), [Set(0)]);
    let start = boot([sometimes]);
    let report = run(&start, &[some(5).eventually()], by(Strategy::EXHAUSTIVE));
    let (stem, round) = lasso(&report).expect("0, 1, 0, 1 for ever");
    assert_eq!((stem.len(), round.len()), (0, 2));
    // It is no dead state, and is not called one.
    assert_eq!(report.violations.len(), 1);
    let off = Options {
        settings: Settings::of(&[("cycles", 0)]),
        ..by(Strategy::EXHAUSTIVE)
    };
    let report = run(&start, &[some(5).eventually()], off);
    assert_eq!(report.goals[0].cycles, Cycles::NotAsked);
    assert!(report.violations.is_empty());
}

/// Two nodes that each go back and forth between two values for ever, and one of them might come to 5.
fn two_that_take_turns() -> Simulation<Toy> {
    let turns = |a: u64, b: u64| {
        toy()
            .on(On::Start, [Set(a), Arm(0)])
            .at(a, On::Timer(0), [Set(b), Arm(0)])
            .at(b, On::Timer(0), [Set(a), Arm(0)])
    };
    boot([turns(0, 1).at(0, On::Call(0), [Set(5)]), turns(7, 8)])
}

#[test]
fn who_had_no_time_to_look_for_cycles_says_that_it_is_not_decided() {
    let start = two_that_take_turns();
    let mut seen = Vec::new();
    for concluded in 0.. {
        let goals = vec![some(5).eventually()];
        let mut search = Search::new(&start, goals, by(Strategy::EXHAUSTIVE)).expect("they fit");
        while search.advance(100).is_none() {}
        let done = (0..concluded).any(|_| search.conclude(1));
        let report = search.finish_as_it_is();
        match report.goals.first() {
            None => assert_eq!(report.unjudged.len(), 1),
            Some(goal) if done => assert_eq!(goal.cycles, Cycles::Found),
            Some(goal) => assert_eq!(goal.cycles, Cycles::Undecided),
        }
        seen.push(report.goals.first().map(|goal| goal.cycles));
        if done {
            break;
        }
    }
    seen.dedup();
    assert_eq!(seen, [None, Some(Cycles::Undecided), Some(Cycles::Found)]);
}

#[test]
fn cycles_take_no_more_bytes_than_the_search_may() {
    // Thirteen nodes take turns, so that every state has many edges and lies on a cycle.
    let turns = || {
        toy()
            .on(On::Start, [Arm(0)])
            .at(0, On::Timer(0), [Set(1), Arm(0)])
            .at(1, On::Timer(0), [Set(0), Arm(0)])
    };
    let mut all: [_; 13] = std::array::from_fn(|_| turns());
    all[0] = turns()
        .at(0, On::Call(0), [Set(5)])
        .at(5, On::Call(0), [Set(0)]);
    let start = boot(all);
    let mut seen = Vec::new();
    for kib in (1..).map(|step| 300 * step) {
        let options = Options {
            limits: Limits {
                bytes: Some(kib << 10),
                ..Limits::default()
            },
            ..by(Strategy::EXHAUSTIVE)
        };
        let report = run(&start, &[some(5).eventually()], options);
        if !report.complete {
            continue;
        }
        // What is kept of states, and what cycles take.
        assert!(
            report.goal_bytes <= 3 * (kib << 10),
            "{kib}: {}",
            report.goal_bytes
        );
        seen.push(report.goals[0].cycles);
        if report.goals[0].cycles == Cycles::Found {
            break;
        }
    }
    seen.dedup();
    assert_eq!(seen, [Cycles::Undecided, Cycles::Found]);
}

#[test]
fn a_cycle_of_dead_states_is_told_as_dead_and_not_again() {
    let rules = toy()
        .on(On::Start, [Arm(0)])
        .at(0, On::Timer(0), [Set(1), Arm(0)])
        .at(1, On::Timer(0), [Set(0), Arm(0)]);
    let report = run(
        &boot([rules]),
        &[some(5).eventually()],
        by(Strategy::EXHAUSTIVE),
    );
    assert_eq!(report.violations.len(), 1);
    assert!(matches!(report.violations[0].how, How::Dead(_)));
    assert_eq!(report.goals[0].cycles, Cycles::None);
}

#[test]
fn the_other_node_gets_its_turns_on_a_fair_way_round() {
    // Node 1 counts 7, 8, 7, 8 …: a way round that leaves it out would not be fair, since its timer stays armed.
    let start = two_that_take_turns();
    let report = run(&start, &[some(5).eventually()], by(Strategy::EXHAUSTIVE));
    let (_, round) = lasso(&report).expect("there is a way round without 5");
    let mut nodes: Vec<u32> = round.iter().map(|step| step.node.get()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes, [0, 1]);
}

/// The load balancer once more: that one server may be preferred for ever is told as a way round at the most, never as dead.
#[test]
fn b_4_a_balancer_has_no_dead_state_whatever_its_cycles_are() {
    let balanced = Property::node("balanced", |view: &View<'_, Toy>| view.state.value == 0);
    let report = run(
        &balancer(),
        &[balanced.eventually()],
        by(Strategy::EXHAUSTIVE),
    );
    assert!(
        report
            .violations
            .iter()
            .all(|it| matches!(it.how, How::Lasso { .. }))
    );
}
