//! Stamps with numbers that cannot be true.

use std::net::UdpSocket;

use scry::NodeId;
use scry::runtime::wire;
use scry_tests::attack::{Cluster, Meter, Plan, until};
use serde_json::json;

/// The greatest number there is.
const ABSURD: u64 = 1 << 62;
/// No honest cluster comes this far.
const PLAUSIBLE: u64 = 1 << 50;

/// A datagram of some node with an absurd number and a message of the service, or one that is none.
fn datagram(from: u32, message: &[u8]) -> Vec<u8> {
    let mut stamp = wire::NO_STAMP;
    stamp.number = serde_json::from_value(json!(ABSURD)).expect("in range");
    let mut bytes = Vec::new();
    assert!(wire::datagram(
        &mut bytes,
        NodeId::new(from),
        &stamp,
        message
    ));
    bytes
}

/// `Written(0)`, which nobody asked for and which changes nothing.
const WRITTEN: &[u8] = b"\x81\xa7Written\x00";

fn attack(cluster: &Cluster, from: u32, message: &[u8]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for node in cluster.measured() {
        let bytes = datagram(from, message);
        socket.send_to(&bytes, node.address).expect("sent");
    }
}

/// Waits until every agent has searched more snapshots, the last of them whole, with numbers that are near each other.
fn assert_predicting(cluster: &Cluster) {
    for agent in &cluster.agents {
        let runs = |status: &serde_json::Value| {
            status["steering"]["counts"]["runs_finished"]
                .as_u64()
                .unwrap_or(0)
        };
        let before = runs(&agent.status());
        until("runs on whole snapshots", || {
            let status = agent.status();
            let number = status["checkpoints"]["number"].as_u64().unwrap_or(u64::MAX);
            assert!(number < PLAUSIBLE, "agent {} is at {number}", agent.id);
            let missing = status["snapshot"]["missing"].as_array();
            let whole = missing.is_some_and(Vec::is_empty);
            (whole && runs(&status) >= before + 2).then_some(())
        });
    }
}

#[test]
fn one_datagram_of_a_stranger_does_not_end_prediction() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    // Fifteen bytes that are no message, and a message.
    assert_eq!(datagram(77, b"\xc1").len(), 15);
    attack(&cluster, 77, b"\xc1");
    attack(&cluster, 77, WRITTEN);
    for node in cluster.measured() {
        until("it is told", || {
            cluster.assert_alive();
            (cluster.failed_open(node.id, "stamp-refused") > 0).then_some(())
        });
    }
    assert_predicting(&cluster);
    meter.assert_withstood();
}

#[test]
fn one_datagram_in_a_members_name_does_not_end_prediction() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let member = cluster.attacker().id;
    attack(&cluster, member, WRITTEN);
    for node in cluster.measured() {
        until("it is told", || {
            cluster.assert_alive();
            (cluster.failed_open(node.id, "stamp-refused") > 0).then_some(())
        });
    }
    assert_predicting(&cluster);
    meter.assert_withstood();
}
