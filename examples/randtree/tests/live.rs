//! Real processes of the example's own command line on loopback: what they report and what they are told.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use scry_protocol::Content;
use scry_protocol::frame::Decoder;
use scry_protocol::link::host::HostToAgent;
use serde_json::{Value, json};

/// More than any of this takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

struct Node {
    child: Child,
    orders: Option<ChildStdin>,
    lines: Receiver<Value>,
    address: String,
    /// The state it reported last.
    state: Value,
}

impl Node {
    fn start(id: u32, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_randtree"))
            .args(["node", "--id", &id.to_string(), "--report", "--control"])
            .args(more)
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
            orders: child.stdin.take(),
            child,
            lines,
            address: String::new(),
            state: Value::Null,
        };
        let ready = node.wait("ready", |line| line["kind"] == "ready");
        node.address = ready["listen"].as_str().expect("an address").to_owned();
        node
    }

    fn tell(&mut self, order: &Value) -> Value {
        let orders = self.orders.as_mut().expect("not closed yet");
        writeln!(orders, "{order}").expect("the node reads");
        self.wait("an answer", |line| {
            line.get("done").is_some() || line.get("error").is_some()
        })
    }

    /// Waits until the state it reports is as described.
    fn wait_state(&mut self, what: &str, fits: impl Fn(&Value) -> bool) {
        if !fits(&self.state) {
            self.wait(what, |line| line.get("state").is_some_and(&fits));
        }
    }

    /// Waits for a line, skipping others.
    fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            match self.lines.recv_timeout(until - Instant::now()) {
                Ok(line) => {
                    if let Some(state) = line.get("state") {
                        self.state = state.clone();
                    }
                    if fits(&line) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no line with {what} in {LIMIT:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("ended without {what}"),
            }
        }
    }

    fn exit_code(&mut self) -> Option<i32> {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                return status.code();
            }
            thread::yield_now();
        }
        panic!("the node does not end");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tree_of_three() -> Vec<Node> {
    let setup = r#"{"bootstrap":[1],"recovery_period_ms":100}"#;
    let mut nodes: Vec<Node> = (1..=3)
        .map(|id| Node::start(id, &["--setup", setup]))
        .collect();
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    let peers = json!({ "1": addresses[0], "2": addresses[1], "3": addresses[2] });
    for node in &mut nodes {
        assert_eq!(
            node.tell(&json!({ "peers": peers })),
            json!({ "done": "peers" })
        );
        assert_eq!(
            node.tell(&json!({ "call": "Join" })),
            json!({ "done": "call" })
        );
    }
    nodes[0].wait_state("both children", |state| state["children"] == json!([2, 3]));
    for node in &mut nodes[1..] {
        node.wait_state("its parent", |state| state["parent"] == 1);
    }
    nodes
}

#[test]
fn three_processes_form_a_tree_and_mend_it_when_one_is_killed() {
    let mut nodes = tree_of_three();
    let mut third = nodes.pop().expect("three");
    third.child.kill().expect("it runs");
    let lost = nodes[0].wait("the loss of n3", |line| line["kind"] == "disconnect");
    assert_eq!(lost["node"], 1);
    assert_eq!(lost["verdict"], "run");
    assert_eq!(lost["state"]["children"], json!([2]));
    assert!(
        lost["timers"].is_array() && lost["at_ms"].is_u64(),
        "{lost}"
    );
    drop(third);
    // The end of standard input is the end of a node, in good order.
    drop(nodes[1].orders.take());
    nodes[1].wait("its end", |line| line["kind"] == "shutdown");
    assert_eq!(nodes[1].exit_code(), Some(0));
    assert_eq!(
        nodes[0].tell(&json!({ "shutdown": true })),
        json!({ "done": "shutdown" })
    );
    assert_eq!(nodes[0].exit_code(), Some(0));
}

#[test]
fn orders_are_answered_one_by_one_also_wrong_ones() {
    let mut node = Node::start(1, &["--delay-ms", "1", "--loss", "0.5", "--seed", "7"]);
    for order in [
        json!({ "cut": [2, 3] }),
        json!({ "heal": true }),
        json!({ "emulate": { "delay_ms": 5, "peers": [2] } }),
        json!({ "reset": { "notice": true } }),
    ] {
        let done = node.tell(&order);
        let name = order
            .as_object()
            .and_then(|order| order.keys().next().cloned());
        assert_eq!(done, json!({ "done": name }));
    }
    for wrong in [
        json!({ "call": "Leave" }),
        json!({ "heal": false }),
        json!({ "emulate": { "loss": 2.0 } }),
        json!({ "emulate": { "lost": 0.1 } }),
        json!("nonsense"),
    ] {
        let answer = node.tell(&wrong);
        assert!(answer["error"].is_string(), "{wrong}: {answer}");
    }
    let state = node.tell(&json!({ "state": true }));
    assert_eq!(state["done"]["state"]["mode"], "init");
    assert_eq!(state["done"]["timers"], json!([]));
}

#[test]
fn a_wrong_command_line_is_refused() {
    for wrong in [
        vec!["node"],
        vec!["node", "--id", "x"],
        vec!["node", "--id", "1", "--bug", "unheard-of"],
        vec!["node", "--id", "1", "--setup", "{\"degree\":1}"],
        vec!["node", "--id", "1", "--peer", "2"],
        vec!["node", "--id", "1", "--loss", "2"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_randtree"))
            .args(&wrong)
            .output()
            .expect("the example is built");
        assert_eq!(output.status.code(), Some(64), "{wrong:?}");
        assert!(!output.stderr.is_empty(), "{wrong:?}");
    }
}

/// Reads what a node tells its agent, up to its first checkpoint.
fn first_checkpoint(mut agent: UnixStream) -> Content {
    agent
        .set_read_timeout(Some(LIMIT))
        .expect("a limit that is not zero");
    let (mut decoder, mut buffer) = (Decoder::default(), [0; 4096]);
    loop {
        while let Some(message) = decoder.poll::<HostToAgent>().expect("frames") {
            if let HostToAgent::Checkpoint(checkpoint) = message {
                return checkpoint.body.read().expect("whole");
            }
        }
        let length = agent.read(&mut buffer).expect("the node speaks in time");
        assert!(length > 0, "the node ended without a checkpoint");
        decoder.feed(&buffer[..length]);
    }
}

#[test]
fn channel_state_is_kept_unless_the_command_line_says_otherwise() {
    let folder = std::env::temp_dir().join(format!("randtree-live-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a scratch folder");
    let socket = folder.join("agent.sock");
    let listener = UnixListener::bind(&socket).expect("a socket of our own");
    let socket = socket.to_str().expect("readable");
    for (more, kept) in [(None, true), (Some("--no-channel-state"), false)] {
        let mut arguments = vec!["--setup", "{}", "--agent", socket];
        arguments.extend(more);
        let _node = Node::start(1, &arguments);
        let (agent, _) = listener.accept().expect("the node looks for its agent");
        assert_eq!(first_checkpoint(agent).channels.is_some(), kept, "{more:?}");
    }
    std::fs::remove_dir_all(&folder).expect("our own folder");
}
