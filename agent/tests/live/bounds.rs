//! The interface of operators stays open to them, whoever else opens connections to it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::support::{Agent, Scratch, WAIT, configuration};

const QUIET: &str = "[checkpoint]\nperiod_ms = 0\n[checker]\ncommand = [\"/bin/false\"]\n";

fn start() -> (Scratch, Agent) {
    let scratch = Scratch::new();
    let file = configuration(&scratch.0, 1, &[], QUIET);
    let agent = Agent::start(&scratch.0, 1, &file);
    (scratch, agent)
}

/// Sends a request as it stands, and returns the status.
fn say(agent: &Agent, request: &str) -> u16 {
    let socket = agent.folder.join(format!("admin{}.sock", agent.node));
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn connections_that_say_nothing_or_little_keep_no_operator_out() {
    let (_scratch, agent) = start();
    let socket = agent.folder.join("admin1.sock");
    // Fewer files than connections: without a bound none would be left for the operator.
    let limited = Command::new("prlimit")
        .args(["--pid", &agent.child.id().to_string(), "--nofile=128:128"])
        .status()
        .unwrap();
    assert!(limited.success());
    let mut open = Vec::new();
    for number in 0..400 {
        let Ok(mut stream) = UnixStream::connect(&socket) else {
            // The queue of the socket is full: the agent has not got to it yet.
            std::thread::sleep(std::time::Duration::from_millis(5));
            continue;
        };
        if number % 2 == 0 {
            // It may be closed already.
            let _ = stream.write_all(b"GET /status HTTP/1.1\r\nhost: loc");
        }
        open.push(stream);
    }
    let status = agent.status();
    assert_eq!(status["node"], "n1");
    drop(open);
}

#[test]
fn a_request_that_names_two_hosts_is_refused() {
    let (_scratch, agent) = start();
    let fine = "GET /livez HTTP/1.0\r\nhost: localhost\r\n\r\n";
    assert_eq!(say(&agent, fine), 200);
    for wrong in [
        "GET /livez HTTP/1.0\r\nhost: localhost\r\nhost: evil.example\r\n\r\n",
        "GET /livez HTTP/1.0\r\nhost: evil.example\r\nhost: localhost\r\n\r\n",
        "GET /livez HTTP/1.0\r\nhost: localhost\r\nhost: localhost\r\n\r\n",
        "GET http://evil.example/livez HTTP/1.0\r\nhost: localhost\r\n\r\n",
        "GET /livez HTTP/1.0\r\n\r\n",
    ] {
        assert_eq!(say(&agent, wrong), 403, "{wrong}");
    }
}

#[test]
fn a_pipe_as_configuration_is_refused_at_once() {
    let scratch = Scratch::new();
    let pipe = scratch.0.join("scry.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    for command in [&["validate"][..], &["agent", "--config"]] {
        let output = Command::new(crate::support::SCRY)
            .args(command)
            .arg(&pipe)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(78));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("it is not a plain file"), "{said}");
    }
}
