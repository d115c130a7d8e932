//! Real processes of the example's own command line on loopback.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use one_paxos::Bugs;
use one_paxos::scenarios::member;
use scry::NodeId;
use serde_json::{Value, json};

/// More than any of this takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

struct Node {
    child: Child,
    orders: ChildStdin,
    lines: Receiver<Value>,
    address: String,
}

impl Node {
    fn start(id: u32, bugs: Bugs) -> Self {
        let setup = member(NodeId::new(id), &[1, 2, 3].map(NodeId::new), bugs);
        let setup = serde_json::to_string(&setup).expect("plain data");
        let mut child = Command::new(env!("CARGO_BIN_EXE_one-paxos"))
            .args(["node", "--id", &id.to_string(), "--report", "--control"])
            .args(["--setup", &setup])
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

fn cluster(bugs: Bugs) -> Vec<Node> {
    let mut nodes: Vec<Node> = (1..=3).map(|id| Node::start(id, bugs)).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    let peers = json!({ "peers": { "1": addresses[0], "2": addresses[1], "3": addresses[2] } });
    for node in &mut nodes {
        node.tell(&peers);
        node.wait("an answer", |line| line.get("done").is_some());
    }
    nodes
}

fn propose(value: u32, index: u32) -> Value {
    json!({ "call": { "Propose": { "index": index, "value": value } } })
}

#[test]
fn leader_and_acceptor_are_replaced_live_and_all_choose_the_same() {
    let mut nodes = cluster(Bugs::default());
    nodes[0].tell(&propose(1, 0));
    for node in &mut nodes {
        node.wait("the first value", |line| line["state"]["chosen"]["0"] == 1);
    }
    nodes[2].tell(&json!({ "call": "SuspectLeader" }));
    nodes[2].wait("the lead", |line| {
        line["state"]["lead"]["phase"] == "Leading"
    });
    nodes[2].tell(&json!({ "call": "SuspectAcceptor" }));
    nodes[2].wait("the next acceptor", |line| {
        let state = &line["state"];
        state["lead"]["phase"] == "Leading" && state["roles"]["acceptor"] == 1
    });
    nodes[2].tell(&propose(3, 1));
    for node in &mut nodes {
        node.wait("the second value", |line| line["state"]["chosen"]["1"] == 3);
    }
}
