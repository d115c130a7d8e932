//! A node as a process, spoken to in lines of JSON.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::{WAIT, arena, until};

/// Says by how many milliseconds a node's clock is wrong.
const CLOCK: &str = "clock";

/// Sets a clock that is read by the node of a folder, this far ahead of the machine's.
pub(super) fn set_clock(folder: &Path, ahead_ms: i64) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(CLOCK), ahead_ms.to_string()).unwrap();
}

/// What a node answers: what it did, or why not.
pub type Answer = Result<Value, String>;

/// Who waits for the node's next answers, the longest first.
type Waiting = Arc<Mutex<VecDeque<Sender<Answer>>>>;

/// A running node.
#[derive(Debug)]
pub struct Node {
    /// Which.
    pub id: u32,
    /// Where it listens, by TCP and UDP alike.
    pub address: SocketAddr,
    folder: PathBuf,
    process: Mutex<Child>,
    stdin: Mutex<Option<ChildStdin>>,
    waiting: Waiting,
}

/// How a node is started.
#[derive(Debug)]
pub struct Start<'a> {
    /// Which.
    pub id: u32,
    /// Where it keeps what it keeps.
    pub folder: &'a Path,
    /// All nodes.
    pub members: &'a [u32],
    /// Whom it asks.
    pub partners: &'a [u32],
    /// The socket of its agent.
    pub agent: Option<PathBuf>,
    /// Whether it keeps anything over restarts.
    pub disk: bool,
    /// More words for its command line.
    pub arguments: &'a [String],
    /// Variables for its environment.
    pub environment: &'a [(String, String)],
}

impl Node {
    /// Starts a node, and waits until it listens.
    pub fn start(start: &Start<'_>) -> Self {
        let &Start { id, folder, .. } = start;
        std::fs::create_dir_all(folder).unwrap();
        let setup = json!({ "members": start.members, "partners": start.partners });
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.join("node.log"))
            .unwrap();
        let mut command = arena();
        command
            .args(["node", "--control", "--id", &id.to_string()])
            .args(["--setup", &setup.to_string(), "--clock-offset"])
            .arg(folder.join(CLOCK))
            .args(start.arguments)
            .env("ARENA_NODE", id.to_string())
            .envs(start.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        if let Some(agent) = &start.agent {
            command.arg("--agent").arg(agent);
        }
        if start.disk {
            command.arg("--disk").arg(folder.join("disk"));
        }
        let mut process = command.spawn().unwrap();
        let waiting = Waiting::default();
        let (ready, listens) = channel();
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().unwrap());
        let queue = Arc::clone(&waiting);
        thread::spawn(move || listen(stdout, &ready, &queue));
        let address = listens.recv_timeout(WAIT).unwrap_or_else(|_| {
            let said = std::fs::read_to_string(folder.join("node.log"));
            panic!("node {id} does not come up: {}", said.unwrap_or_default())
        });
        Self {
            id,
            address,
            folder: folder.to_owned(),
            process: Mutex::new(process),
            stdin: Mutex::new(stdin),
            waiting,
        }
    }

    /// Gives the node an order; the answer will come, unless the node ends first.
    pub fn tell(&self, order: &Value) -> Receiver<Answer> {
        let (sender, answer) = channel();
        let mut stdin = self.stdin.lock().unwrap();
        self.waiting.lock().unwrap().push_back(sender);
        if let Some(stdin) = stdin.as_mut() {
            // That it is gone is told by the answer that never comes.
            let _ = writeln!(stdin, "{order}").and_then(|()| stdin.flush());
        }
        answer
    }

    /// Gives the node an order, and waits for its answer.
    pub fn order(&self, order: &Value) -> Answer {
        let answer = self.tell(order).recv_timeout(WAIT);
        answer.unwrap_or_else(|error| panic!("node {}: {order}: {error}: {}", self.id, self.said()))
    }

    /// Makes a call of the application.
    pub fn call(&self, call: &Value) {
        let done = self.order(&json!({ "call": call }));
        assert!(done.is_ok(), "node {}: {call}: {done:?}", self.id);
    }

    /// Returns its state.
    pub fn state(&self) -> Value {
        let shown = self.order(&json!({ "state": true })).unwrap();
        shown["state"].clone()
    }

    /// Tells it where others are.
    pub fn meet(&self, others: &[(u32, SocketAddr)]) {
        let others = others
            .iter()
            .map(|(id, address)| (id.to_string(), json!(address)));
        let others: serde_json::Map<String, Value> = others.collect();
        self.order(&json!({ "peers": others })).unwrap();
    }

    /// Waits until every question it asked has its answer.
    pub fn wait_until_all_is_answered(&self) {
        let state = until("every question is answered", || {
            let state = self.state();
            let all = state["open"].as_object().unwrap().is_empty();
            all.then_some(state)
        });
        assert_eq!(state["asked"], state["answered"], "node {}", self.id);
    }

    /// Resets it: it begins anew with what it kept.
    pub fn reset(&self) {
        self.order(&json!({ "reset": { "notice": true } })).unwrap();
    }

    /// Sets its clock so far ahead of the machine's.
    pub fn set_clock(&self, ahead_ms: i64) {
        set_clock(&self.folder, ahead_ms);
    }

    /// Ends its process without a word.
    pub fn kill(&self) {
        let mut process = self.process.lock().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.lock().unwrap().id()
    }

    /// Returns how its process ended, if it did.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.process.lock().unwrap().try_wait().unwrap()
    }

    /// Returns everything it complained about.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("node.log")).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap();
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// Reads what a node prints until it ends.
fn listen(stdout: ChildStdout, ready: &Sender<SocketAddr>, waiting: &Waiting) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let Ok(value) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if let Some(address) = value["listen"].as_str() {
            // Nobody waits if the start was given up.
            let _ = ready.send(address.parse().unwrap());
            continue;
        }
        let answer = match (value.get("done"), value.get("error")) {
            (Some(done), _) => Ok(done.clone()),
            (_, Some(error)) => Err(error.as_str().unwrap_or_default().to_owned()),
            _ => continue,
        };
        if let Some(next) = waiting.lock().unwrap().pop_front() {
            let _ = next.send(answer);
        }
    }
    // Whoever still waits learns that no answer will come.
    waiting.lock().unwrap().clear();
}
