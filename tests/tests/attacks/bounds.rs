//! Connections to the nodes' own ports that say nothing, say it slowly, or are too many.

use std::io::Write;
use std::net::TcpStream;

use scry::NodeId;
use scry::model::network::Connection;
use scry::runtime::wire::{self, Hello};
use scry_tests::attack::{Cluster, Meter, Plan, until};

/// More than a node lets be silent, and fewer than a process may have open.
const SILENT: usize = 300;
/// More than a node lets those have who are not its peers.
const STRANGERS: u32 = 100;

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
            // A frame of sixteen megabytes that never comes. Those that are closed already do not take it.
            let _ = stream.write_all(&hello);
            let _ = stream.write_all(&(16_u32 << 20).to_be_bytes());
            stream
        })
        .collect();
    until_told(&cluster);
    meter.assert_withstood();
    drop(strangers);
}
