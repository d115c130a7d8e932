//! Five nodes of RandTree with five agents, all real processes, and what becomes of them when some are killed.
//!
//! The tree has the bug of CrystalBall's first example and stands as that example has it: n1 is root, n2 its child, n3 a
//! child of n2. So agents have something to predict, and filters to lose.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says where"
)]

mod cluster;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use cluster::{Cluster, until};

/// The node whose agent predicts what its request would lead to.
const ROOT: u32 = 1;
/// The node that has n3 as its child, and would have it as sibling.
const MIDDLE: u32 = 2;
/// The node that may be reset in silence.
const LEAF: u32 = 3;

fn is_kind(record: &Value, kind: &str) -> bool {
    record["kind"] == kind
}

/// Waits until an agent has a complete snapshot of all five after so many records.
fn is_complete_again(cluster: &Cluster, node: u32, after: usize) {
    until("a complete snapshot", || {
        let log = cluster.log(node);
        log.iter().skip(after).any(|it| {
            is_kind(it, "snapshot")
                && it["members"].as_array().is_some_and(|it| it.len() == 5)
                && it["missing"] == json!([])
        })
    });
}

/// Waits until the root's agent has a filter.
fn has_filter(cluster: &Cluster) {
    until("a filter at the root", || {
        let filters = cluster.status(ROOT)["steering"]["filters"].clone();
        filters.as_array().is_some_and(|it| !it.is_empty())
    });
}

/// Makes the service do something, and waits until it has.
fn still_serves(cluster: &mut Cluster) {
    for node in [4, 5] {
        let before = cluster.resets(node);
        cluster.order(node, &json!({ "reset": { "notice": true } }));
        cluster.order(node, &json!({ "call": "Join" }));
        until("a node joins again", || {
            cluster.resets(node) > before && cluster.state(node)["parent"].is_u64()
        });
    }
}

#[test]
fn five_agents_gather_complete_snapshots_of_five_nodes() {
    let cluster = Cluster::start("complete");
    for node in 1..=5 {
        is_complete_again(&cluster, node, 0);
    }
    has_filter(&cluster);
}

#[test]
fn killed_agents_take_their_filters_along_and_are_attached_again_when_restarted() {
    let mut cluster = Cluster::start("agents");
    has_filter(&cluster);
    for node in 1..=5 {
        cluster.kill_agent(node);
    }
    // What the filters would have prevented happens now: nobody is in its way.
    cluster.order(LEAF, &json!({ "cut": [MIDDLE] }));
    cluster.order(LEAF, &json!({ "reset": { "notice": false } }));
    cluster.order(LEAF, &json!({ "call": "Join" }));
    until("n2 has n3 as child and as sibling", || {
        let state = cluster.state(MIDDLE);
        let has = |list: &str| {
            let nodes = state[list].as_array();
            nodes.is_some_and(|nodes| nodes.contains(&json!(LEAF)))
        };
        has("children") && has("siblings")
    });
    let before: Vec<usize> = (1..=5).map(|node| cluster.log(node).len()).collect();
    for node in 1..=5 {
        cluster.start_agent(node);
    }
    for (node, before) in (1..=5).zip(before) {
        until("the host is attached again", || {
            let log = cluster.log(node);
            log.iter().skip(before).any(|it| is_kind(it, "host-up"))
        });
        is_complete_again(&cluster, node, before);
    }
}

#[test]
fn a_killed_node_is_told_by_its_agent_and_attached_again_with_a_higher_number() {
    let mut cluster = Cluster::start("node");
    is_complete_again(&cluster, 4, 0);
    let old = cluster.status(4);
    let before = cluster.log(4).len();
    cluster.kill_node(4);
    until("the agent says that the host is gone", || {
        let log = cluster.log(4);
        log.iter().skip(before).any(|it| is_kind(it, "host-down"))
    });
    assert_eq!(cluster.status(4)["steering"]["host"], Value::Null);
    let before = cluster.log(4).len();
    cluster.start_node(4);
    cluster.order(4, &json!({ "call": "Join" }));
    is_complete_again(&cluster, 4, before);
    let new = cluster.status(4);
    let number = |status: &Value| status["checkpoints"]["number"].as_u64();
    assert!(number(&new) > number(&old), "{old:#} {new:#}");
    let life = |status: &Value| status["steering"]["host"]["incarnation"].as_u64();
    assert!(life(&new) > life(&old), "{old:#} {new:#}");
}

#[test]
fn a_killed_peer_is_missing_with_a_reason_until_it_is_back() {
    let mut cluster = Cluster::start("peer");
    is_complete_again(&cluster, ROOT, 0);
    cluster.kill_agent(5);
    cluster.kill_node(5);
    until("a snapshot says who is missing and why", || {
        let log = cluster.log(ROOT);
        log.iter().any(|it| {
            let missing = it["missing"].as_array();
            is_kind(it, "snapshot")
                && missing.is_some_and(|missing| {
                    let is_it = |it: &Value| it["node"] == "n5" && it["reason"].is_string();
                    missing.iter().any(is_it)
                })
        })
    });
    let before = cluster.log(ROOT).len();
    cluster.start_agent(5);
    cluster.start_node(5);
    is_complete_again(&cluster, ROOT, before);
}

#[test]
fn a_checker_that_is_killed_is_started_again_and_the_service_runs_on() {
    let mut cluster = Cluster::start("checker-killed");
    has_filter(&cluster);
    // It takes no time from the service.
    assert_eq!(cluster.checker_policy(ROOT), nix::libc::SCHED_IDLE);
    let before = cluster.log(ROOT).len();
    cluster.signal_checker(ROOT, Signal::SIGKILL);
    until("another checker, and a run of it", || {
        let log = cluster.log(ROOT);
        let mut records = log.iter().skip(before);
        records.any(|it| is_kind(it, "checker-restart"))
            && records.any(|it| is_kind(it, "run") && it["ended"] == "budget")
    });
    still_serves(&mut cluster);
}

#[test]
fn a_checker_that_is_stopped_loses_its_run_and_is_replaced() {
    let mut cluster = Cluster::start("checker-stopped");
    has_filter(&cluster);
    let before = cluster.log(ROOT).len();
    cluster.signal_checker(ROOT, Signal::SIGSTOP);
    still_serves(&mut cluster);
    until(
        "the run is lost, and another checker makes the next",
        || {
            let log = cluster.log(ROOT);
            let mut records = log.iter().skip(before);
            records.any(|it| is_kind(it, "run") && it["ended"] == "hung")
                && records.any(|it| is_kind(it, "run") && it["ended"] == "budget")
        },
    );
}

#[test]
fn a_kill_file_switches_a_running_cluster_off_and_on_again() {
    let mut cluster = Cluster::start("kill-file");
    has_filter(&cluster);
    let file = cluster.kill_file(ROOT);
    fs::write(&file, "").expect("a file can be made");
    until("the root has no filter", || {
        let status = cluster.status(ROOT);
        status["steering"]["mode"] == "off" && status["steering"]["filters"] == json!([])
    });
    still_serves(&mut cluster);
    fs::remove_file(&file).expect("the file is there");
    until("the root is steered again", || {
        cluster.status(ROOT)["steering"]["mode"] == "steer"
    });
}

#[test]
fn a_log_that_cannot_be_written_costs_records_and_nothing_else() {
    let mut cluster = Cluster::start("log");
    has_filter(&cluster);
    cluster.kill_agent(ROOT);
    // A file where the folder should be is in everybody's way, whatever their rights.
    let folder = cluster.log_folder(ROOT);
    let aside = folder.with_extension("aside");
    fs::rename(&folder, &aside).expect("the log is there");
    fs::write(&folder, "").expect("a file can be made");
    cluster.start_agent(ROOT);
    has_filter(&cluster);
    until("records are lost and counted", || {
        cluster.status(ROOT)["unwritten"].as_u64() > Some(0)
    });
    still_serves(&mut cluster);
    fs::remove_file(&folder).expect("the file is there");
    until("the log says that records are missing", || {
        let log = cluster.log(ROOT);
        log.iter()
            .any(|it| is_kind(it, "failed-open") && it["failure"] == "log-full")
    });
}
