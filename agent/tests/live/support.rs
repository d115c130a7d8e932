//! Agents as processes, and a small host that speaks the host protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scry_protocol::frame::{self, Decoder};
use scry_protocol::link::host::{AgentToHost, Checkpoint, Hello, HostToAgent, Neighbors};
use scry_protocol::{CheckpointNumber, Content, Incarnation, NodeId};

/// The executable under test.
pub(crate) const SCRY: &str = env!("CARGO_BIN_EXE_scry");
/// How long anything may take on a busy machine.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder of a test, gone when the test is over.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("scry-live-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Asks again until the answer is there, or panics when that takes too long.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + WAIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// Makes certificates for nodes one to three, and one node of another cluster.
pub(crate) fn certificates(folder: &Path) {
    for (name, nodes) in [("certs", "1..3"), ("strangers", "1..3")] {
        let made = Command::new(SCRY)
            .args(["cert", "init"])
            .arg(folder.join(name))
            .args(["--nodes", nodes])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }
}

/// Writes a configuration and returns its path.
pub(crate) fn configuration(folder: &Path, node: u32, ports: &[(u32, u16)], more: &str) -> PathBuf {
    let own = ports.iter().find(|(id, _)| *id == node);
    let known: Vec<String> = ports
        .iter()
        .filter(|(id, _)| *id != node)
        .map(|(id, port)| format!("{{ id = {id}, address = \"127.0.0.1:{port}\" }}"))
        .collect();
    let listen = own.map_or(String::new(), |(_, port)| format!("127.0.0.1:{port}"));
    let folder_shown = folder.display();
    let text = format!(
        "[node]\nid = {node}\n[host]\nsocket = \"{folder_shown}/host{node}.sock\"\n\
         [peers]\nlisten = \"{listen}\"\ncertificate = \"certs/n{node}.pem\"\nkey = \"certs/n{node}.key\"\n\
         authority = \"certs/authority.pem\"\nknown = [{}]\n\
         [log]\ndirectory = \"log{node}\"\n[admin]\nlisten = \"{folder_shown}/admin{node}.sock\"\n{more}",
        known.join(", ")
    );
    let path = folder.join(format!("scry{node}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

/// An agent's process, killed when the test is over.
pub(crate) struct Agent {
    pub(crate) child: Child,
    pub(crate) folder: PathBuf,
    pub(crate) node: u32,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Agent {
    pub(crate) fn start(folder: &Path, node: u32, configuration: &Path) -> Self {
        let mut child = Command::new(SCRY)
            .args(["agent", "--log-format", "json", "--config"])
            .arg(configuration)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        let agent = Self {
            child,
            folder: folder.to_owned(),
            node,
            lines,
        };
        until("the agent runs", || {
            agent.said("the agent runs").first().cloned()
        });
        agent
    }

    /// Returns the lines of the agent's own log that contain a text.
    pub(crate) fn said(&self, text: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .filter(|line| line.contains(text))
            .cloned()
            .collect()
    }

    /// Returns everything it said, for messages of failed assertions.
    pub(crate) fn everything(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(format!("host{}.sock", self.node))
    }

    /// Sends a request to the agent and returns status and body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let socket = self.folder.join(format!("admin{}.sock", self.node));
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        (status, text.to_owned())
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        let (code, text) = self.ask("GET", "/status", "");
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(done.success());
    }

    /// Runs a command of `scry` against this agent.
    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Output {
        let socket = self.folder.join(format!("admin{}.sock", self.node));
        Command::new(SCRY)
            .args(arguments)
            .arg("--admin")
            .arg(socket)
            .output()
            .unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host that answers what an agent asks, in a thread of its own until it is dropped.
pub(crate) struct TinyHost {
    stream: UnixStream,
    pub(crate) heard: Arc<Mutex<Vec<AgentToHost>>>,
}

pub(crate) fn hello(node: u32, incarnation: u64) -> HostToAgent {
    HostToAgent::Hello(Hello {
        node: NodeId::new(node),
        incarnation: Incarnation::new(incarnation),
        born: CheckpointNumber::from(1),
        number: CheckpointNumber::from(1),
        service: "tiny".to_owned(),
        version: "1".to_owned(),
        checks: false,
    })
}

impl TinyHost {
    pub(crate) fn attach(agent: &Agent, neighbors: &[u32]) -> Self {
        let mut stream = UnixStream::connect(agent.socket()).unwrap();
        let node = agent.node;
        stream
            .write_all(&frame::encode(&hello(node, 1)).unwrap())
            .unwrap();
        let neighbors: Vec<NodeId> = neighbors.iter().copied().map(NodeId::new).collect();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (kept, mut reading) = (Arc::clone(&heard), stream.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut decoder = Decoder::default();
            let mut buffer = [0; 4096];
            let mut number = CheckpointNumber::from(1);
            while let Ok(read) = reading.read(&mut buffer) {
                if read == 0 {
                    return;
                }
                decoder.feed(&buffer[..read]);
                while let Ok(Some(message)) = decoder.poll::<AgentToHost>() {
                    let answer = match &message {
                        AgentToHost::AskNeighbors(_) => Some(HostToAgent::Neighbors(Neighbors {
                            neighbors: Some(neighbors.clone()),
                        })),
                        AgentToHost::TakeCheckpoint(take) if take.number > number => {
                            let after = std::mem::replace(&mut number, take.number);
                            let content = Content {
                                incarnation: Incarnation::new(1),
                                born: CheckpointNumber::from(1),
                                past: scry_protocol::Past::default(),
                                state: vec![node as u8; 100],
                                timers: Vec::new(),
                                channels: None,
                            };
                            Some(HostToAgent::Checkpoint(Checkpoint {
                                number,
                                after,
                                body: content.write().unwrap(),
                                neighbors: Some(neighbors.clone()),
                            }))
                        }
                        _ => None,
                    };
                    kept.lock().unwrap().push(message);
                    if let Some(answer) = answer
                        && reading.write_all(&frame::encode(&answer).unwrap()).is_err()
                    {
                        return;
                    }
                }
            }
        });
        let host = Self { stream, heard };
        until("the host is welcome", || {
            let heard = host.heard.lock().unwrap();
            heard
                .iter()
                .any(|message| matches!(message, AgentToHost::Welcome(_)))
                .then_some(())
        });
        host
    }

    /// Says something of its own accord.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        self.stream.write_all(frame).unwrap();
    }
}

impl Drop for TinyHost {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
