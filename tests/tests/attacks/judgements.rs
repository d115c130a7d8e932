//! A neighbor's state on which properties and handlers fail.

use scry_tests::attack::{Meter, Plan, until};
use serde_json::json;

#[test]
fn a_property_that_panics_on_a_neighbors_state_stops_nobody() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    cluster.attacker().call(&json!({ "Cast": "JudgePanics" }));
    for node in cluster.measured() {
        until("it is told", || {
            (cluster.failed_open(node.id, "property-panicked") > 0).then_some(())
        });
    }
    meter.assert_withstood();
}
