//! What is counted for each property, and how long things take.

use scry_protocol::Times;
use scry_protocol::limit::HARM_MAX;
use scry_protocol::link::host::{Outcome, Suspicion};

use super::*;
use crate::controller::measured::PropertyCounts;

fn veto(property: &str, acted: bool) -> Veto {
    Veto {
        property: property.to_owned(),
        event: String::new(),
        explanation: String::new(),
        acted,
        elapsed_us: 80,
    }
}

#[test]
fn what_happens_is_counted_for_its_property() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.find(7);
    let mut happened = found(run, 9, Vec::new());
    happened.violation.depth = 0;
    bench.checker(happened);
    bench.end();
    bench.host(veto("one root", true));
    bench.host(veto("no cycle", false));
    bench.host(veto("no cycle", false));
    let status = bench.controller.status(bench.now);
    let of = |name: &str| {
        let mut all = status.properties.iter();
        let found = all.find(|property| property.property == name);
        found.expect("it has a name").clone()
    };
    let root = of("one root");
    assert_eq!(root.filters, 1);
    assert_eq!(
        root.counts,
        PropertyCounts {
            predictions: 1,
            violations: 1,
            vetoes: 1,
            audit_vetoes: 0,
            filters_installed: 1,
        }
    );
    let cycle = of("no cycle");
    assert_eq!((cycle.filters, cycle.counts.audit_vetoes), (0, 2));
    assert_eq!(cycle.counts.predictions, 0);
}

#[test]
fn a_host_that_makes_up_properties_costs_no_memory() {
    let mut bench = Bench::steering();
    for at in 0..10 * HARM_MAX {
        bench.host(veto(&format!("property {at}"), true));
    }
    let status = bench.controller.status(bench.now);
    assert!(status.properties.len() <= HARM_MAX + 8);
    assert_eq!(
        status.counts.check_engagements,
        10 * HARM_MAX as u64,
        "all are in the sum"
    );
}

#[test]
fn how_long_things_take_is_measured() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.now = bench.now.after_millis(300);
    bench.find(7);
    bench.now = bench.now.after_millis(700);
    bench.end();
    bench.host(Suspicion {
        property: "one root".to_owned(),
        event: String::new(),
        outcome: Outcome::Cleared,
        held_us: 4_000,
    });
    let mut check_times = Times::default();
    for us in [30, 40] {
        check_times.note_us(us);
        bench.host(Stats {
            check_times: check_times.clone(),
            ..Stats::default()
        });
    }
    let durations = bench.controller.status(bench.now).durations;
    let of = |times: &Times| (times.count(), times.sum_us());
    assert_eq!(of(&durations.gather).0, 1);
    assert_eq!(of(&durations.search), (1, 1_000_000));
    assert_eq!(of(&durations.prediction_to_filter), (1, 300_000));
    assert_eq!(of(&durations.hold), (1, 4_000));
    assert_eq!(of(&durations.check), (2, 70), "what is new each time");
    // A renewal is no new filter.
    bench.begin();
    bench.find(7);
    bench.end();
    let durations = bench.controller.status(bench.now).durations;
    assert_eq!(of(&durations.prediction_to_filter).0, 1);
    assert_eq!(of(&durations.search).0, 2);
}
