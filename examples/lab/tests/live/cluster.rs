//! A cluster that a test can hurt: processes by number, their words, and a second start in the same place.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const LAB: &str = env!("CARGO_BIN_EXE_lab");
const SIZE: u32 = 5;
/// Only how long something that never comes may keep a test waiting: nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Asks again until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Finds addresses that are free for TCP and UDP, for processes that are started again where they were. They are below those
/// that the system hands out by itself, so nobody gets one by chance while no process holds it.
fn free_addresses(count: usize) -> Vec<SocketAddr> {
    const LOWEST: u64 = 10_000;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let handed_out = range
        .split_whitespace()
        .next()
        .and_then(|low| low.parse().ok());
    let span = handed_out.unwrap_or(32_768_u64).max(LOWEST + 1_000) - LOWEST;
    // Another place for each process: several may look at once.
    let begin = RandomState::new().build_hasher().finish() % span;
    let mut held = Vec::new();
    for step in 0..span {
        let port = (LOWEST + (begin + step) % span) as u16;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        // All are held until all are found, so that none is found twice.
        if let (Ok(listener), Ok(socket)) = (TcpListener::bind(address), UdpSocket::bind(address)) {
            held.push((address, listener, socket));
        }
        if held.len() == count {
            break;
        }
    }
    assert_eq!(held.len(), count, "there are free ports");
    held.into_iter().map(|(address, ..)| address).collect()
}

/// What a node has said of itself.
#[derive(Debug, Default)]
struct Heard {
    resets: u64,
    state: Value,
}

/// A node's process.
struct Node {
    child: Child,
    stdin: ChildStdin,
    heard: Arc<Mutex<Heard>>,
}

/// Five nodes and five agents; all are ended with it.
pub(crate) struct Cluster {
    folder: PathBuf,
    addresses: BTreeMap<u32, SocketAddr>,
    agents: BTreeMap<u32, Child>,
    nodes: BTreeMap<u32, Node>,
}

impl Cluster {
    /// Starts it, and waits until the tree stands: n1 above n2 above n3, the others anywhere.
    pub(crate) fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("scry-five-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let made = Command::new(LAB)
            .args(["cert", "init"])
            .arg(folder.join("certificates"))
            .args(["--nodes", "1..5"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let mut addresses = free_addresses(2 * SIZE as usize);
        let agents = addresses.split_off(SIZE as usize);
        let mut cluster = Self {
            folder,
            addresses: (1..=SIZE).zip(addresses).collect(),
            agents: BTreeMap::new(),
            nodes: BTreeMap::new(),
        };
        for node in 1..=SIZE {
            cluster.configure(node, &agents);
        }
        for node in 1..=SIZE {
            cluster.start_agent(node);
            cluster.start_node(node);
        }
        for node in [2, 3, 1, 4, 5] {
            cluster.order(node, &json!({ "call": "Join" }));
            until("a node joins", || {
                let state = cluster.state(node);
                state["mode"] == "joined" && (state["parent"].is_u64() || state["root"] == node)
            });
        }
        until("the tree stands", || {
            cluster.state(1)["root"] == 1
                && cluster.state(2)["parent"] == 1
                && cluster.state(3)["parent"] == 2
        });
        cluster
    }

    fn configure(&self, node: u32, agents: &[SocketAddr]) {
        let folder = self.folder(node);
        fs::create_dir_all(&folder).unwrap();
        let others: Vec<(u32, &SocketAddr)> =
            (1..).zip(agents).filter(|(id, _)| *id != node).collect();
        let known: Vec<String> = others
            .iter()
            .map(|(id, address)| format!("{{ id = {id}, address = \"{address}\" }}"))
            .collect();
        let members: Vec<u32> = others.iter().map(|(id, _)| *id).collect();
        let listen = agents[node as usize - 1];
        let at = folder.display();
        let certificates = self.folder.join("certificates");
        let certificates = certificates.display();
        let text = format!(
            "[node]\nid = {node}\n[host]\nsocket = \"{at}/host.sock\"\n\
             [peers]\nlisten = \"{listen}\"\ncertificate = \"{certificates}/n{node}.pem\"\n\
             key = \"{certificates}/n{node}.key\"\nauthority = \"{certificates}/authority.pem\"\nknown = [{}]\n\
             [neighborhood]\nsource = \"list\"\nmembers = {members:?}\n\
             [checkpoint]\nperiod_ms = 500\nround_ms = 500\n\
             [checker]\ncommand = [\"{LAB}\", \"service\", \"randtree\"]\ntime_ms = 400\ngrace_ms = 400\ndepth = 8\n\
             [checker.faults]\nresets = 0\nsilent_resets = 1\n\
             [steering]\nmode = \"steer\"\nkill_file = \"{at}/off\"\n[safety]\nisolate = \"off\"\n\
             [log]\ndirectory = \"{at}/log\"\n[admin]\nlisten = \"{at}/admin.sock\"\n",
            known.join(", ")
        );
        fs::write(folder.join("scry.toml"), text).unwrap();
    }

    fn folder(&self, node: u32) -> PathBuf {
        self.folder.join(format!("n{node}"))
    }

    /// Returns the folder of an agent's steering log.
    pub(crate) fn log_folder(&self, node: u32) -> PathBuf {
        self.folder(node).join("log")
    }

    /// Returns the file whose existence switches steering off at a node.
    pub(crate) fn kill_file(&self, node: u32) -> PathBuf {
        self.folder(node).join("off")
    }

    /// Starts an agent, and waits until it answers.
    pub(crate) fn start_agent(&mut self, node: u32) {
        let folder = self.folder(node);
        let words = File::options()
            .create(true)
            .append(true)
            .open(folder.join("agent.log"))
            .unwrap();
        let child = Command::new(LAB)
            .args(["agent", "--config"])
            .arg(folder.join("scry.toml"))
            .stdin(Stdio::null())
            .stdout(words.try_clone().unwrap())
            .stderr(words)
            .spawn()
            .unwrap();
        self.agents.insert(node, child);
        until("the agent answers", || self.try_status(node).is_some());
    }

    /// Starts a node where it was, and waits until its agent has it.
    pub(crate) fn start_node(&mut self, node: u32) {
        let folder = self.folder(node);
        let setup = json!({
            "bootstrap": match node { 1 | 2 => vec![2], 3 => vec![1, 2], _ => vec![1] },
            "degree_max": 5,
            "eligibility": [],
            "recovery_period_ms": 500,
            "announce": "after-reply",
            "keepalive": false,
            "bugs": { "update-sibling": true },
        });
        let mut command = Command::new(LAB);
        command
            .args(["service", "randtree", "node", "--control", "--report"])
            .args(["--id", &node.to_string()])
            .args(["--listen", &self.addresses[&node].to_string()])
            .args(["--setup", &setup.to_string()])
            .arg("--agent")
            .arg(folder.join("host.sock"))
            .arg("--disk")
            .arg(folder.join("disk"));
        for (peer, address) in self.addresses.iter().filter(|(id, _)| **id != node) {
            command.args(["--peer", &format!("{peer}={address}")]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let heard = Arc::<Mutex<Heard>>::default();
        let stdout = child.stdout.take().unwrap();
        let ear = Arc::clone(&heard);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let line: Value = serde_json::from_str(&line).unwrap();
                if line["state"].is_object() {
                    let mut heard = ear.lock().unwrap();
                    heard.resets += u64::from(line["kind"] == "reset");
                    heard.state = line["state"].clone();
                }
            }
        });
        let stdin = child.stdin.take().unwrap();
        let node_process = Node {
            child,
            stdin,
            heard,
        };
        self.nodes.insert(node, node_process);
        until("the agent has its host", || {
            let status = self.try_status(node);
            status.is_some_and(|status| !status["steering"]["host"].is_null())
        });
    }

    /// Kills an agent as the kernel would.
    pub(crate) fn kill_agent(&mut self, node: u32) {
        end(self.agents.remove(&node).unwrap());
    }

    /// Kills a node as the kernel would.
    pub(crate) fn kill_node(&mut self, node: u32) {
        end(self.nodes.remove(&node).unwrap().child);
    }

    /// Sends a signal to an agent's checker.
    pub(crate) fn signal_checker(&self, node: u32, signal: Signal) {
        let (pid, _) = self.checker(node);
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Returns by which policy the kernel gives a checker a processor.
    pub(crate) fn checker_policy(&self, node: u32) -> i32 {
        /// Counted from behind the name, as in the file's manual page from 3 on.
        const POLICY: usize = 41 - 3;
        let (_, words) = self.checker(node);
        words[POLICY].parse().unwrap()
    }

    /// Returns a checker's process, and what the kernel says of it.
    fn checker(&self, node: u32) -> (i32, Vec<String>) {
        let agent = self.agents[&node].id().to_string();
        let children = fs::read_dir("/proc").unwrap().flatten().filter_map(|it| {
            let pid: i32 = it.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(it.path().join("stat")).ok()?;
            // The name is in brackets and may hold anything; the parent is the second word after it.
            let words = stat.rsplit(')').next()?.split_whitespace();
            let words: Vec<String> = words.map(str::to_owned).collect();
            (*words.get(1)? == agent).then_some((pid, words))
        });
        let mut children: Vec<_> = children.collect();
        assert_eq!(children.len(), 1, "an agent has one checker");
        children.remove(0)
    }

    /// Gives a node an order.
    pub(crate) fn order(&mut self, node: u32, order: &Value) {
        let stdin = &mut self.nodes.get_mut(&node).unwrap().stdin;
        writeln!(stdin, "{order}").unwrap();
        stdin.flush().unwrap();
    }

    /// Returns the state a node has told last.
    pub(crate) fn state(&self, node: u32) -> Value {
        self.nodes[&node].heard.lock().unwrap().state.clone()
    }

    /// Returns how often a node has told that it was reset.
    pub(crate) fn resets(&self, node: u32) -> u64 {
        self.nodes[&node].heard.lock().unwrap().resets
    }

    /// Returns an agent's steering log.
    pub(crate) fn log(&self, node: u32) -> Vec<Value> {
        let text = fs::read_to_string(self.log_folder(node).join("steering.jsonl"));
        let text = text.unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.collect()
    }

    /// Asks an agent how it is doing.
    pub(crate) fn status(&self, node: u32) -> Value {
        self.try_status(node).expect("the agent answers")
    }

    fn try_status(&self, node: u32) -> Option<Value> {
        let mut stream = UnixStream::connect(self.folder(node).join("admin.sock")).ok()?;
        let request = "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }
}

fn end(mut child: Child) {
    // One that has ended by itself is as good as killed.
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, node) in std::mem::take(&mut self.nodes) {
            end(node.child);
        }
        for (_, agent) in std::mem::take(&mut self.agents) {
            end(agent);
        }
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
