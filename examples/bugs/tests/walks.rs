//! Where the truth is known: the engine's classes are those of an enumeration over whole states, and sixty walks find the step that it
//! calls critical.

use bugs::walks::graph::Graph;
use bugs::walks::{self, ERROR_CASES, ErrorCase, critical};
use chord::Chord;
use mace_transport::MaceTransport;
use pastry::Pastry;
use randtree::RandTree;
use scry::explore::{How, Settings, Standing};
use scry::{Limits, Options, Program, Property, Report, Search, Simulation, Step, Strategy};

/// Returns the only case of a scenario.
fn case(service: &str, scenario: &str) -> ErrorCase {
    let mut all = ERROR_CASES.iter();
    let found = all.find(|case| case.service == service && case.scenario == scenario);
    *found.expect("the case is listed")
}

/// The step into the state at the end of a path is the one from a state that is not dead into one that is.
#[track_caller]
fn is_critical<S: Program>(graph: &Graph, start: &Simulation<S>, path: &[Step<S>]) -> u32 {
    let number = |state: &Simulation<S>| graph.number(state).expect("the state can be reached");
    let mut state = start.clone();
    let mut before = None;
    for step in path {
        before = Some(number(&state));
        state.step(step).expect("the path replays");
    }
    let dead = number(&state);
    assert!(graph.is_dead(dead));
    assert!(before.is_none_or(|before| !graph.is_dead(before)));
    dead
}

fn deaths<S: Program>(report: &Report<S>) -> impl Iterator<Item = &[Step<S>]> {
    let dead = report.violations.iter();
    dead.filter_map(|violation| match violation.how {
        How::Dead(dead) => Some((dead.critical, violation.path.as_slice())),
        How::Broken | How::Lasso { .. } => None,
    })
    .map(|(critical, path)| {
        assert!(critical);
        path
    })
}

/// The classes of the exhaustive search, and the first death it tells of.
fn exact<S: Program>(graph: &Graph, start: &Simulation<S>, goal: &[Property<S>]) {
    let options = Options {
        settings: Settings::of(&[("cycles", 0)]),
        ..Options::default()
    };
    let report = Search::new(start, goal.to_vec(), options)
        .expect("these options go together")
        .run();
    assert!(report.complete);
    let Standing::Classified(classes) = &report.goals[0].standing else {
        panic!("not classified: {:?}", report.goals);
    };
    let count = |fits: &dyn Fn(u32) -> bool| {
        let all = 0..graph.len() as u32;
        all.filter(|&state| fits(state)).count() as u64
    };
    assert_eq!(classes.live, count(&|state| graph.is_live(state)));
    assert_eq!(classes.dead, count(&|state| graph.is_dead(state)));
    assert_eq!(classes.unknown, 0);
    assert_eq!(report.states, graph.len() as u64);
    let mut deaths = deaths(&report);
    let path = deaths.next().expect("something is dead");
    let dead = is_critical(graph, start, path);
    let nearest = (0..graph.len() as u32).filter(|&state| graph.is_dead(state));
    let nearest = nearest.map(|state| graph.depth(state)).min();
    assert_eq!(nearest, Some(graph.depth(dead)));
    assert_eq!(deaths.next(), None);
}

/// The strategy `walk` with sixty walks for an answer: what it calls critical is.
fn walked<S: Program>(graph: &Graph, start: &Simulation<S>, goal: &[Property<S>]) {
    for seed in 0..5 {
        let options = Options {
            strategy: Strategy::WALK,
            settings: Settings::of(&[("probes", 60), ("length", 2_000)]),
            limits: Limits {
                first_violation: true,
                ..Limits::default()
            },
            seed,
            ..Options::default()
        };
        let report = Search::new(start, goal.to_vec(), options)
            .expect("these options go together")
            .run();
        // Where too much can follow to be enumerated, it stays a suspicion, and is right all the same.
        let suspected = report.suspected.iter().map(|it| it.path.as_slice());
        let path = deaths(&report).chain(suspected).next();
        is_critical(graph, start, path.expect("walks find it"));
    }
}

/// All of it, and the search as published on the enumerated states.
fn check<S: Program>(service: &str, scenario: &str) {
    let case = case(service, scenario);
    let start = walks::start::<S>(case.service, case.scenario, Some(case.bug), None);
    let start = start.expect("the scenario leads to a state");
    let mut goal = walks::goals::<S>(case.file).expect("the property file is read");
    goal.retain(|part| part.name() == case.property);
    let graph = Graph::of(&start, &goal, 100_000).expect("it has an end");
    exact(&graph, &start, &goal);
    walked(&graph, &start, &goal);
    let executions = critical::failing(&graph, 100);
    let errors = critical::errors(&graph, &executions, 60);
    let (told, late) = (errors.early, errors.late);
    assert_eq!(told.len(), 1, "{told:?} too early");
    assert_eq!(
        (late, told[0] + errors.undecided),
        (0, executions.len() as u64)
    );
}

#[test]
fn b_53_sixty_walks_find_the_ignored_reply() {
    check::<RandTree>("randtree", "late-reply");
}

#[test]
fn b_53_sixty_walks_find_the_lost_timer() {
    check::<RandTree>("randtree", "torn");
}

#[test]
fn b_53_sixty_walks_find_the_pointer_that_stays() {
    check::<Chord>("chord", "unheard");
}

#[test]
fn b_53_sixty_walks_find_the_acknowledgement_of_another_connection() {
    for scenario in ["two-messages", "both-ways", "reset"] {
        check::<MaceTransport>("mace-transport", scenario);
    }
}

#[test]
fn b_53_sixty_walks_find_the_request_that_comes_back() {
    for scenario in ["steady", "fresh"] {
        check::<Pastry>("pastry", scenario);
    }
}
