//! Real processes of the example's own command line on loopback.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

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
    fn start(id: u32) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mace-transport"))
            .args(["node", "--id", &id.to_string(), "--report", "--control"])
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

#[test]
fn messages_arrive_in_order_and_are_acknowledged() {
    let mut nodes = [1, 2].map(Node::start);
    let peers = json!({ "peers": { "1": nodes[0].address, "2": nodes[1].address } });
    for node in &mut nodes {
        node.tell(&peers);
    }
    let texts: Vec<String> = (1..=9).map(|number| format!("m{number}")).collect();
    nodes[0].tell(&json!({ "call": { "Send": { "to": 2, "texts": texts } } }));
    nodes[1].wait("all nine", |line| {
        line["state"]["incoming"][0]["delivered"] == 9
    });
    nodes[0].wait("nothing in flight", |line| {
        let to = &line["state"]["outgoing"][0];
        to["established"] == true && to["inflight"] == json!([]) && to["waiting"] == json!([])
    });
}
