//! The search from the initial state is a fair one: the bug is within its reach, given time.

use bugs::catalogue;
use bugs::hunt::system;
use bugs::initial::faults_of;
use scry::model::simulation::Effectiveness;
use scry::{Event, Judgement, Limits, Options, Program, Search, Simulation, Strategy};

/// Script and path, taken from the initial state with the budget of that search, lead to the violation. Losses are
/// left out: what was lost stays on its way.
#[track_caller]
fn check<S: Program>(bug: &str) {
    let case = catalogue::ALL.iter().find(|case| case.bug == bug);
    let case = case.expect("the catalogue has the bug");
    let system = system::<S>(case, true).expect("the scenario can be built");
    let (start, script) = system.start().expect("the script can be carried out");
    let options = Options {
        strategy: Strategy::CONSEQUENCE,
        limits: Limits {
            first_violation: true,
            ..Limits::default()
        },
        ..Options::default()
    };
    let report = Search::new(&start, S::properties(), options)
        .expect("the options go together")
        .run();
    let violation = report
        .violations
        .iter()
        .find(|violation| violation.property == case.property)
        .expect("the bug is found");

    let steps = || script.iter().chain(&violation.path);
    let mut simulation = Simulation::boot(system.setups.clone(), faults_of(steps()));
    for step in steps() {
        if matches!(step.event, Event::Lose { .. }) {
            continue;
        }
        let effect = simulation.step(step);
        assert_eq!(effect, Ok(Effectiveness::Changed), "{}", step.event);
    }
    let views = simulation.views();
    let property = S::properties()
        .into_iter()
        .find(|property| property.name() == case.property)
        .expect("the service has the property");
    assert_eq!(property.judge(&views), Judgement::Violated);
}

#[test]
fn every_bug_is_within_reach() {
    for case in catalogue::ALL {
        match case.service {
            "randtree" => check::<randtree::RandTree>(case.bug),
            "chord" => check::<chord::Chord>(case.bug),
            "paxos" => check::<paxos::Paxos>(case.bug),
            "one-paxos" => check::<one_paxos::OnePaxos>(case.bug),
            other => panic!("{other} is not tested here"),
        }
    }
}
