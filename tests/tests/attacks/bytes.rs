//! A neighbor's state on which the service's own types fail when they read it.

use scry_tests::attack::{Meter, Plan, until};
use serde_json::json;

/// Attacks with a state, and waits until a failure is told.
fn withstand(plan: Plan, spell: &str, told: &str) {
    let cluster = plan.start();
    let meter = Meter::start(&cluster);
    cluster.attacker().call(&json!({ "Cast": spell }));
    for node in cluster.measured() {
        until(told, || {
            cluster.assert_alive();
            (cluster.failed_open(node.id, told) > 0).then_some(())
        });
    }
    meter.assert_withstood();
}

#[test]
fn a_neighbor_on_whose_state_reading_panics_is_left_out_on_clones() {
    let plan = Plan::new().set("safety.isolate", "\"clone\"");
    withstand(plan, "ReadPanics", "surroundings-unreadable");
}
