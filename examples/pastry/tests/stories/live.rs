//! Real processes of the example's own command line on loopback.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// More than any of this takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Impatient, so that the test is not.
const SETUP: &str =
    r#"{"contacts":[1,2,3],"side_max":4,"maintain_ms":100,"retry_ms":100,"bugs":{"rejoin":false}}"#;

struct Node {
    child: Child,
    orders: ChildStdin,
    lines: Receiver<Value>,
    address: String,
}

impl Node {
    fn start(id: u32) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pastry"))
            .args(["node", "--id", &id.to_string(), "--report", "--control"])
            .args(["--setup", SETUP])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example is built");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).expect("every line is JSON");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut node = Self {
            orders: child.stdin.take().expect("piped"),
            child,
            lines,
            address: String::new(),
        };
        let ready = node.wait("ready", |line| line["kind"] == "ready");
        node.address = ready["listen"].as_str().expect("an address").to_owned();
        node
    }

    fn tell(&mut self, order: &Value) {
        writeln!(self.orders, "{order}").expect("the node reads");
        let answer = self.wait("an answer", |line| {
            line.get("done").is_some() || line.get("error").is_some()
        });
        assert!(answer.get("done").is_some(), "{order}: {answer}");
    }

    fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let line = self.lines.recv_timeout(until - Instant::now());
            let line = line.unwrap_or_else(|error| panic!("no line with {what}: {error}"));
            if fits(&line) {
                return line;
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tells everybody where everybody is.
fn introduce(nodes: &mut [Node]) {
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    let peers = json!({ "peers": { "1": addresses[0], "2": addresses[1], "3": addresses[2] } });
    for node in nodes {
        node.tell(&peers);
    }
}

#[test]
fn a_node_that_is_killed_and_started_again_gets_its_place_back() {
    let mut nodes: Vec<Node> = (1..=3).map(Node::start).collect();
    introduce(&mut nodes);
    for node in &mut nodes {
        node.tell(&json!({ "call": "Join" }));
    }
    for (at, leaves) in [json!([2, 3]), json!([1, 3]), json!([1, 2])]
        .iter()
        .enumerate()
    {
        nodes[at].wait("both others", |line| line["state"]["leaves"] == *leaves);
    }
    nodes[2] = Node::start(3);
    introduce(&mut nodes);
    nodes[2].tell(&json!({ "call": "Join" }));
    nodes[2].wait("its place", |line| {
        let state = &line["state"];
        state["mode"] == "joined" && state["leaves"] == json!([1, 2])
    });
}
