//! What searches say of the transport with its bug and without.

use std::collections::BTreeSet;

use mace_transport::MaceTransport;
use mace_transport::properties::{ALL_ACKED, FILE, NEVER_BACK};
use mace_transport::scenarios::{Options, STALE_SYN};
use scry::explore::{How, Standing};
use scry::properties::{PropertyFile, Schema};
use scry::{Limits, Program, Property, Report, Request, Search, Service, Simulation};

/// As the command line has it without further options.
const OPTIONS: Options = Options {
    messages: 2,
    open_retries: 0,
    retries: 1,
    reopens: 2,
};

fn start(
    scenario: &str,
    bugs: &[&'static str],
    options: &Options,
) -> (Simulation<MaceTransport>, usize) {
    let bugs: BTreeSet<&'static str> = bugs.iter().copied().collect();
    let known = MaceTransport::scenarios();
    let scenario = known.iter().find(|known| known.name == scenario);
    let request = Request {
        bugs: &bugs,
        nodes: None,
        options,
    };
    let system = (scenario.expect("it exists").build)(&request).expect("it can be built");
    let (start, steps) = system.start().expect("the script runs");
    (start, steps.len())
}

fn file() -> Vec<Property<MaceTransport>> {
    let schema = Schema::of::<MaceTransport>();
    let set = PropertyFile::load(
        "properties.toml",
        FILE.as_bytes(),
        &schema,
        MaceTransport::properties(),
    );
    set.expect("the file fits").properties_of_all_kinds()
}

fn explore(start: &Simulation<MaceTransport>) -> Report<MaceTransport> {
    let options = scry::Options {
        limits: Limits {
            states: Some(200_000),
            ..Limits::default()
        },
        ..scry::Options::default()
    };
    let search = Search::new(start, file(), options);
    let report = search.expect("the options go together").run();
    assert!(report.complete, "what can happen has an end");
    assert_eq!(report.unconfirmed, 0);
    report
}

fn dead(report: &Report<MaceTransport>) -> u64 {
    let [goal] = &report.goals[..] else {
        panic!("one goal: {:?}", report.goals);
    };
    match &goal.standing {
        Standing::Classified(classes) => classes.dead,
        other => panic!("not classified: {other:?}"),
    }
}

#[test]
fn f_20_the_acknowledgement_at_step_5_is_the_critical_event() {
    // From the beginning, and from where the paper's first four steps lead.
    for (scenario, before) in [("two-messages", 0), ("overtaken", 4)] {
        let (start, steps) = start(scenario, &[STALE_SYN], &OPTIONS);
        assert_eq!(steps, before);
        let report = explore(&start);
        let found = report
            .violations
            .iter()
            .find(|one| one.property == ALL_ACKED);
        let found = found.expect("the dead state is found");
        assert!(matches!(found.how, How::Dead(dead) if dead.critical));
        assert_eq!(steps + found.path.len(), 5);
        let last = found.path.last().expect("a step");
        assert_eq!(
            format!("{}: {}", last.node, last.event),
            "n1: Ack(6001) from n2"
        );
        // Beside it: the timer of the first packet still runs, so that sender and receiver can agree again.
        let live = found.live.as_ref().expect("a live execution beside it");
        let instead = live[found.path.len() - 1].event.to_string();
        assert_eq!(instead, "timer Retransmit { to: n2, sequence: 6001 }");
    }
}

#[test]
fn the_safety_property_is_broken_before_it_is_too_late() {
    let report = explore(&start("two-messages", &[STALE_SYN], &OPTIONS).0);
    let mut broken = report.violations.iter();
    let broken = broken.find(|one| one.property == NEVER_BACK);
    assert_eq!(broken.expect("it is found").path.len(), 4);
    assert!(dead(&report) > 0);
}

#[test]
fn the_repaired_transport_has_no_dead_state_and_violates_nothing() {
    let patient = Options {
        open_retries: 1,
        ..OPTIONS
    };
    for (scenario, options) in [
        ("two-messages", &OPTIONS),
        ("overtaken", &OPTIONS),
        ("both-ways", &OPTIONS),
        ("reset", &OPTIONS),
        ("two-messages", &patient),
    ] {
        let report = explore(&start(scenario, &[], options).0);
        let names: Vec<&str> = report
            .violations
            .iter()
            .map(|one| one.property.as_str())
            .collect();
        assert_eq!((names, dead(&report)), (vec![], 0), "{scenario}");
    }
}
