//! A neighbor's state on which properties and handlers fail.

use scry_tests::attack::{Cluster, Meter, Plan, until};
use serde_json::json;

/// Attacks with a state, waits until every node that is measured has told a failure, and until their agents predict again.
fn withstand(plan: Plan, spell: &str, told: &str) {
    let cluster = plan.start();
    let meter = Meter::start(&cluster);
    cluster.attacker().call(&json!({ "Cast": spell }));
    for node in cluster.measured() {
        until(told, || {
            cluster.assert_alive();
            // Whoever meets the state first tells: the service, or a checker, after which nobody else gets to see it.
            let by_service = cluster.failed_open(node.id, told);
            let by_checker = cluster.failed_open(node.id, "member-left-out");
            (by_service + by_checker > 0).then_some(())
        });
    }
    assert_predicts(&cluster);
    meter.assert_withstood();
}

/// Waits until runs end well.
fn assert_predicts(cluster: &Cluster) {
    for node in cluster.measured() {
        let agent = cluster.agent(node.id);
        let count = |name: &str| agent.status()["steering"]["counts"][name].as_u64();
        let before = count("runs_finished");
        until("a run that ends well", || {
            (count("runs_finished") > before).then_some(())
        });
    }
}

fn isolated(how: &str) -> Plan {
    Plan::new().set("safety.isolate", &format!("\"{how}\""))
}

#[test]
fn a_property_that_panics_on_a_neighbors_state_stops_nobody() {
    withstand(isolated("speculator"), "JudgePanics", "property-panicked");
}

#[test]
fn a_property_that_panics_on_a_neighbors_state_does_not_end_a_clone_in_audit() {
    let plan = isolated("clone").set("steering.mode", "\"audit\"");
    withstand(plan, "JudgePanics", "property-panicked");
}

#[test]
fn a_property_that_never_ends_on_a_neighbors_state_does_not_stop_clones() {
    withstand(isolated("clone"), "JudgeLoops", "property-late");
}

#[test]
fn a_property_that_never_ends_on_a_neighbors_state_is_told_by_the_speculator() {
    withstand(isolated("speculator"), "JudgeLoops", "property-late");
}

#[test]
fn a_property_that_aborts_on_a_neighbors_state_refuses_nothing() {
    withstand(isolated("speculator"), "JudgeAborts", "property-panicked");
}

#[test]
fn a_property_that_uses_up_the_stack_does_not_end_a_clone_in_audit() {
    let plan = isolated("clone").set("steering.mode", "\"audit\"");
    withstand(plan, "JudgeOverflows", "property-panicked");
}

#[test]
fn a_handler_that_aborts_or_never_ends_on_a_members_state_costs_the_checkers_one_run() {
    for spell in ["HandleAborts", "HandleLoops"] {
        withstand(Plan::new(), spell, "member-left-out");
    }
}
