//! Numbers and incarnations that cannot be true: in stamps, between agents, and on a disk.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::thread;

use scry::NodeId;
use scry::runtime::wire;
use scry_protocol::channel::{Envelope, Place};
use scry_protocol::frame::{self, Decoder};
use scry_protocol::link::host::{AgentToHost, Checkpoint, Hello, HostToAgent};
use scry_protocol::{CheckpointNumber, Content, Incarnation, Moment, Past};
use scry_tests::attack::{Agent, Cluster, Meter, Plan, until};
use serde_json::Value;

/// The greatest number there is.
const ABSURD: u64 = 1 << 62;
/// No honest cluster comes this far.
const PLAUSIBLE: u64 = 1 << 50;

fn number(number: u64) -> CheckpointNumber {
    CheckpointNumber::new(number).expect("in range")
}

fn absurd() -> Envelope {
    Envelope {
        number: number(ABSURD),
        ..wire::NO_STAMP
    }
}

fn datagram(from: u32, stamp: &Envelope, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let fits = wire::datagram(&mut bytes, NodeId::new(from), stamp, message);
    assert!(fits);
    bytes
}

/// `Written(0)`, which nobody asked for and which changes nothing.
pub(crate) const WRITTEN: &[u8] = b"\x81\xa7Written\x00";

fn attack(cluster: &Cluster, from: u32, stamp: &Envelope, message: &[u8]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for node in cluster.measured() {
        let bytes = datagram(from, stamp, message);
        socket.send_to(&bytes, node.address).expect("sent");
    }
}

fn until_told(cluster: &Cluster, failure: &str) {
    for node in cluster.measured() {
        until("it is told", || {
            cluster.assert_alive();
            (cluster.failed_open(node.id, failure) > 0).then_some(())
        });
    }
}

fn number_of(status: &Value) -> u64 {
    status["checkpoints"]["number"].as_u64().unwrap_or(u64::MAX)
}

/// Returns how many neighbors are missing from a snapshot, if there is one.
fn missing(snapshot: &Value) -> Option<usize> {
    snapshot["missing"].as_object().map(serde_json::Map::len)
}

/// Waits until an agent has searched more snapshots that are as they should be, with numbers that can be true.
fn until_predicting(agent: &Agent, is_fine: impl Fn(&Value) -> bool) {
    let runs = |status: &Value| {
        let runs = &status["steering"]["counts"]["runs_finished"];
        runs.as_u64().unwrap_or(0)
    };
    let before = runs(&agent.status());
    until("runs on whole snapshots", || {
        let status = agent.status();
        let number = number_of(&status);
        assert!(number < PLAUSIBLE, "agent {} is at {number}", agent.id);
        (is_fine(&status["snapshot"]) && runs(&status) >= before + 2).then_some(())
    });
}

/// Waits until every agent searches whole snapshots.
pub(crate) fn assert_predicting(cluster: &Cluster) {
    for agent in &cluster.agents {
        until_predicting(agent, |snapshot| missing(snapshot) == Some(0));
    }
}

/// The service is correct: whoever predicts a violation is wrong.
pub(crate) fn assert_nothing_predicted(cluster: &Cluster) {
    for agent in &cluster.agents {
        let violations = agent.records("violation");
        assert!(violations.is_empty(), "agent {}: {violations:?}", agent.id);
    }
}

#[test]
fn one_datagram_of_a_stranger_does_not_end_prediction() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    // Fifteen bytes that are no message, and a message.
    assert_eq!(datagram(77, &absurd(), b"\xc1").len(), 15);
    attack(&cluster, 77, &absurd(), b"\xc1");
    attack(&cluster, 77, &absurd(), WRITTEN);
    until_told(&cluster, "stamp-refused");
    assert_predicting(&cluster);
    meter.assert_withstood();
}

#[test]
fn one_datagram_in_a_members_name_does_not_end_prediction() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let member = cluster.attacker().id;
    attack(&cluster, member, &absurd(), WRITTEN);
    until_told(&cluster, "stamp-refused");
    assert_predicting(&cluster);
    assert_nothing_predicted(&cluster);
    meter.assert_withstood();
}

/// An incarnation that nobody has had, a little after that of the node it is said to be of, with a number that can be true.
fn other_lives(cluster: &Cluster) -> Envelope {
    let numbers = cluster.agents.iter().map(|it| number_of(&it.status()));
    let number = number(numbers.max().expect("there are agents") + 1);
    let status = cluster.agent(cluster.attacker().id).status();
    let incarnation = status["steering"]["host"]["incarnation"].as_u64();
    let incarnation = Incarnation::new(incarnation.expect("it has a host") + 7);
    let mut past = Past::default();
    for node in &cluster.nodes {
        past.note(
            NodeId::new(node.id),
            Moment {
                incarnation,
                number,
            },
        );
    }
    Envelope {
        number,
        place: Some(Place {
            incarnation,
            serial: 0,
            sequence: 1,
        }),
        past: Some(Box::new(past)),
        ..wire::NO_STAMP
    }
}

#[test]
fn a_lie_about_incarnations_does_not_keep_nodes_apart() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let member = cluster.attacker().id;
    attack(&cluster, member, &other_lives(&cluster), WRITTEN);
    until_told(&cluster, "incarnation-renewed");
    assert_predicting(&cluster);
    assert_nothing_predicted(&cluster);
    meter.assert_withstood();
}

/// Speaks for the attacker's node, whose agent then asks others for an absurd number, and tells them that it is there.
fn lie_to_agent(agent: &Agent) {
    let mut stream = UnixStream::connect(agent.folder().join("host.sock")).expect("it listens");
    let (incarnation, at) = (Incarnation::new(1), number(ABSURD / 2));
    let hello = Hello {
        node: NodeId::new(agent.id),
        incarnation,
        born: at,
        number: at,
        service: "Register".to_owned(),
        version: "1".to_owned(),
        checks: false,
    };
    let content = Content {
        incarnation,
        born: at,
        past: Past::default(),
        state: Vec::new(),
        timers: Vec::new(),
        channels: None,
    };
    let checkpoint = move |number: CheckpointNumber| Checkpoint {
        number,
        after: number.previous(),
        body: content.write().expect("small"),
        neighbors: Some(vec![NodeId::new(1), NodeId::new(2)]),
    };
    let mut say = {
        let mut stream = stream.try_clone().expect("a socket");
        move |message: HostToAgent| {
            let bytes = frame::encode(&message).expect("small");
            // The agent may have had enough.
            let _ = stream.write_all(&bytes);
        }
    };
    say(hello.into());
    say(checkpoint(at).into());
    thread::spawn(move || {
        let mut decoder = Decoder::default();
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            decoder.feed(&bytes[..count]);
            while let Ok(Some(message)) = decoder.poll() {
                if let AgentToHost::TakeCheckpoint(take) = message {
                    say(checkpoint(take.number).into());
                }
            }
        }
    });
}

#[test]
fn absurd_numbers_between_agents_move_nobody() {
    let cluster = Plan::new().free_agent().start();
    let meter = Meter::start(&cluster);
    let attacker = cluster.agent(cluster.attacker().id);
    lie_to_agent(attacker);
    until_told(&cluster, "number-implausible");
    for node in cluster.measured() {
        let others = cluster.nodes.len() - 2;
        until_predicting(cluster.agent(node.id), |snapshot| {
            missing(snapshot).is_some_and(|missing| missing <= others)
        });
    }
    assert_nothing_predicted(&cluster);
    meter.assert_withstood();
}

/// As an earlier version left it on disk after the attack, and as garbage.
#[test]
fn an_absurd_number_on_disk_is_not_believed() {
    let cluster = Plan::new()
        .stored_number(1, &format!("{ABSURD}\n"))
        .stored_number(2, "4611686018427387904 17 0123456789abcdef\n")
        .start();
    let meter = Meter::start(&cluster);
    until_told(&cluster, "numbers-unfit");
    assert_predicting(&cluster);
    assert_nothing_predicted(&cluster);
    meter.assert_withstood();
}
