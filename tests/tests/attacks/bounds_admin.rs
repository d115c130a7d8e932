//! Connections to the interface of operators that say nothing, or a byte now and then.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says where"
)]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scry_tests::attack::{Meter, Plan, until};

#[test]
fn silent_connections_keep_no_operator_from_the_switch() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let agent = cluster.agent(1);
    // Fewer files than connections: without a bound none would be left for the operator.
    let limited = Command::new("prlimit")
        .args(["--pid", &agent.pid().to_string(), "--nofile=256:256"])
        .status()
        .unwrap();
    assert!(limited.success());
    let stop = Arc::new(AtomicBool::new(false));
    let (socket, stopped) = (agent.folder().join("admin.sock"), Arc::clone(&stop));
    let attacking = std::thread::spawn(move || {
        let mut open = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            // When the queue is full, or it was closed, the next one is tried.
            if let Ok(mut stream) = UnixStream::connect(&socket) {
                let _ = stream.write_all(b"GET /status HTTP/1.1\r\nhost: loc");
                open.push(stream);
            }
            if open.len() >= 600 {
                open.drain(..300);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    meter.watch();
    // What an operator wants is done, each time.
    for mode in ["audit", "steer", "off", "steer"] {
        // On a machine so busy that a request takes longer than a whole round of newcomers, once more.
        until("the mode is set", || {
            let output = agent.command(&["mode", mode]);
            output.status.success().then_some(())
        });
        until("it counts", || {
            let output = agent.command(&["status", "--json"]);
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            (status["steering"]["mode"] == mode).then_some(())
        });
    }
    meter.assert_withstood();
    stop.store(true, Ordering::Relaxed);
    attacking.join().unwrap();
}
