//! A neighbor's state on which the service's own types fail when somebody reads, copies, shows, writes, compares or drops it.

use scry_tests::attack::{Cluster, Meter, Plan, until};
use serde_json::json;

/// Attacks with a state, and waits until every node that is measured has told a failure.
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
    meter.assert_withstood();
}

/// Waits until a run of every measured node's agent has ended well since the attack, without the attacker.
fn assert_predicts_without_attacker(cluster: &Cluster) {
    for node in cluster.measured() {
        let agent = cluster.agent(node.id);
        let finished = || agent.status()["steering"]["counts"]["runs_finished"].as_u64();
        until("the attacker is left out", || {
            let out = agent.status()["steering"]["left_out"].clone();
            let out = out.as_array().expect("a list of nodes").clone();
            out.iter().any(|it| it["node"] == "n3").then_some(())
        });
        let before = finished();
        until("a run without the attacker", || {
            (finished() > before).then_some(())
        });
    }
}

fn isolated(how: &str) -> Plan {
    Plan::new().set("safety.isolate", &format!("\"{how}\""))
}

#[test]
fn a_state_on_which_reading_panics_is_left_out_by_the_speculator() {
    withstand(
        isolated("speculator"),
        "ReadPanics",
        "surroundings-unreadable",
    );
}

#[test]
fn a_state_that_never_ends_being_read_is_left_out_by_the_speculator() {
    withstand(
        isolated("speculator"),
        "ReadLoops",
        "surroundings-unreadable",
    );
}

#[test]
fn a_state_on_which_reading_panics_is_left_out_on_clones() {
    withstand(isolated("clone"), "ReadPanics", "surroundings-unreadable");
}

#[test]
fn a_state_on_which_reading_panics_is_left_out_in_forks() {
    withstand(isolated("fork"), "ReadPanics", "surroundings-unreadable");
}

#[test]
fn a_state_on_which_reading_aborts_is_left_out_on_clones() {
    withstand(isolated("clone"), "ReadAborts", "surroundings-unreadable");
}

#[test]
fn a_state_that_uses_up_the_stack_is_left_out_on_clones() {
    withstand(
        isolated("clone"),
        "ReadOverflows",
        "surroundings-unreadable",
    );
}

#[test]
fn a_state_that_cannot_be_copied_dropped_or_shown_is_left_out_on_clones() {
    for spell in ["ClonePanics", "DropPanics", "ShowPanics"] {
        withstand(isolated("clone"), spell, "surroundings-unreadable");
    }
}

#[test]
fn a_state_that_announces_more_than_there_is_or_nests_too_deep_is_left_out() {
    for spell in ["ReadBombs", "ReadNests"] {
        withstand(isolated("clone"), spell, "surroundings-unreadable");
    }
}

#[test]
fn a_state_on_which_reading_aborts_costs_the_checkers_one_run() {
    let cluster = Plan::new().set("safety.isolate", "\"off\"").start();
    let meter = Meter::start(&cluster);
    cluster.attacker().call(&json!({ "Cast": "ReadAborts" }));
    assert_predicts_without_attacker(&cluster);
    meter.assert_withstood();
}

#[test]
fn a_state_that_never_ends_being_read_costs_the_checkers_one_run() {
    let cluster = Plan::new().set("safety.isolate", "\"off\"").start();
    let meter = Meter::start(&cluster);
    cluster.attacker().call(&json!({ "Cast": "ReadLoops" }));
    assert_predicts_without_attacker(&cluster);
    meter.assert_withstood();
}

#[test]
fn where_nothing_is_steered_no_neighbors_state_is_read() {
    let plan = isolated("clone").node_environment("SCRY_STEER", "off");
    let cluster = plan.start();
    let meter = Meter::start(&cluster);
    cluster.attacker().call(&json!({ "Cast": "ReadAborts" }));
    assert_predicts_without_attacker(&cluster);
    meter.assert_withstood();
    for node in cluster.measured() {
        let told = cluster.failed_open(node.id, "surroundings-unreadable");
        assert_eq!(told, 0, "node {}", node.id);
    }
}
