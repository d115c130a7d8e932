//! Connections to the nodes' own ports that say nothing, say it slowly, or are too many; and senders that are.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};

use scry::NodeId;
use scry::model::network::Connection;
use scry::runtime::wire::{self, Hello};
use scry_protocol::Incarnation;
use scry_protocol::channel::{Envelope, Place};
use scry_tests::attack::{Cluster, Meter, Plan, until};

use crate::numbers::{WRITTEN, assert_predicting};

/// More than a node lets be silent, and fewer than a process may have open.
const SILENT: usize = 300;
/// More senders than a checkpoint could name, and how often each speaks.
const SENDERS: u32 = 5_000;
const ROUNDS: u32 = 3;
/// More than a node lets those have who are not its peers.
const STRANGERS: u32 = 100;
/// A frame that is not too long for a stranger: a longer one ends its connection at once.
const FRAME_BYTES: u32 = 60_000;

fn connect(cluster: &Cluster) -> Vec<TcpStream> {
    let node = &cluster.measured()[0];
    let connect = |_| TcpStream::connect(node.address).expect("accepted");
    (0..SILENT).map(connect).collect()
}

/// Waits until a limit at the first node's port is told.
fn until_told(cluster: &Cluster) {
    let id = cluster.measured()[0].id;
    until("a limit is told", || {
        cluster.assert_alive();
        (cluster.failed_open(id, "port-limit") > 0).then_some(())
    });
}

#[test]
fn connections_that_say_nothing_cost_nobody_else_anything() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let _silent = connect(&cluster);
    until_told(&cluster);
    meter.assert_withstood();
}

/// Each datagram is of another sender. Were something kept of every one, checkpoints would soon be too large.
#[test]
fn senders_without_number_leave_nothing_behind() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let node = &cluster.measured()[0];
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let stamp = Envelope {
        number: 1.into(),
        place: Some(Place {
            incarnation: Incarnation::new(1),
            serial: 0,
            sequence: 1,
        }),
        ..wire::NO_STAMP
    };
    for round in 0..ROUNDS {
        for from in 1000..1000 + SENDERS {
            let mut bytes = Vec::new();
            assert!(wire::datagram(
                &mut bytes,
                NodeId::new(from),
                &stamp,
                WRITTEN
            ));
            // What the receiver has no room for is lost, as datagrams are; there are more rounds.
            let _ = socket.send_to(&bytes, node.address);
        }
        if round == 0 {
            until("it is told", || {
                cluster.assert_alive();
                (cluster.failed_open(node.id, "stamp-refused") > 0).then_some(())
            });
        }
        meter.watch();
    }
    assert_predicting(&cluster);
    meter.assert_withstood();
}

#[test]
fn strangers_with_half_a_frame_each_are_few() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let node = &cluster.measured()[0];
    let strangers: Vec<TcpStream> = (0..STRANGERS)
        .map(|count| {
            let from = NodeId::new(1000 + count);
            let mut stream = TcpStream::connect(node.address).expect("accepted");
            let hello = wire::hello(&Hello {
                version: wire::VERSION,
                from,
                incarnation: Default::default(),
                to: NodeId::new(node.id),
                connection: Connection {
                    opener: from,
                    serial: 1,
                },
            });
            // As long a frame as a stranger may send, and it never comes. Those that are closed already do not take it.
            let _ = stream.write_all(&hello);
            let _ = stream.write_all(&FRAME_BYTES.to_be_bytes());
            stream
        })
        .collect();
    until_told(&cluster);
    meter.assert_withstood();
    drop(strangers);
}
