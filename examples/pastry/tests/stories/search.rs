//! What searches say of the ring with its bug and without.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use pastry::Pastry;
use pastry::properties::{ALL_NODES, FILE};
use pastry::scenarios::{Options, REJOIN};
use scry::explore::{How, Standing};
use scry::properties::{PropertyFile, Schema};
use scry::{Limits, Program, Report, Request, Search, Service, Simulation};

fn start(scenario: &str, bugs: &[&'static str], nodes: Option<u32>) -> Simulation<Pastry> {
    let bugs: BTreeSet<&'static str> = bugs.iter().copied().collect();
    let known = Pastry::scenarios();
    let scenario = known.iter().find(|known| known.name == scenario);
    let request = Request {
        bugs: &bugs,
        nodes,
        options: &Options {
            side: NonZeroUsize::MIN.saturating_add(1),
            impatient: false,
        },
    };
    let system = (scenario.expect("it exists").build)(&request).expect("it can be built");
    system.start().expect("the script runs").0
}

fn explore(start: &Simulation<Pastry>, states: u64) -> Report<Pastry> {
    let schema = Schema::of::<Pastry>();
    let set = PropertyFile::load(
        "properties.toml",
        FILE.as_bytes(),
        &schema,
        Pastry::properties(),
    );
    let properties = set.expect("the file fits").properties_of_all_kinds();
    let options = scry::Options {
        limits: Limits {
            states: Some(states),
            ..Limits::default()
        },
        ..scry::Options::default()
    };
    let search = Search::new(start, properties, options);
    let report = search.expect("the options go together").run();
    assert_eq!(report.unconfirmed, 0);
    report
}

fn dead(report: &Report<Pastry>) -> u64 {
    let [goal] = &report.goals[..] else {
        panic!("one goal: {:?}", report.goals);
    };
    match &goal.standing {
        Standing::Classified(classes) => classes.dead,
        other => panic!("not classified: {other:?}"),
    }
}

#[test]
fn f_21_the_request_of_a_restarted_node_is_the_critical_event() {
    let report = explore(&start("steady", &[REJOIN], None), 10_000);
    assert!(report.complete, "what can happen has an end");
    let found = report
        .violations
        .iter()
        .find(|one| one.property == ALL_NODES);
    let found = found.expect("the dead state is found");
    assert!(matches!(found.how, How::Dead(dead) if dead.critical));
    let events: Vec<String> = found
        .path
        .iter()
        .map(|step| format!("{}: {}", step.node, step.event))
        .collect();
    assert_eq!(
        events,
        [
            "n2: silent reset",
            "n2: call Join",
            "n1: Join { node: n2, hops: 0 } from n2"
        ]
    );
    // Beside it: n1 greets n2 on the old connection first, and so learns that it was restarted.
    let live = found.live.as_ref().expect("a live execution beside it");
    let noticed = "learns that its connection to n2 is dead";
    assert!(
        live.iter()
            .any(|step| step.event.to_string().contains(noticed))
    );
}

#[test]
fn the_repaired_ring_has_no_dead_state_and_violates_nothing() {
    for (scenario, nodes, complete) in [
        ("steady", None, true),
        ("restarted", None, true),
        ("fresh", None, true),
        ("restarted", Some(3), false),
        ("fresh", Some(3), false),
    ] {
        let report = explore(&start(scenario, &[], nodes), 30_000);
        let names: Vec<&str> = report
            .violations
            .iter()
            .map(|one| one.property.as_str())
            .collect();
        assert_eq!((names, dead(&report)), (vec![], 0), "{scenario}");
        assert!(report.complete || !complete, "{scenario}");
    }
}
