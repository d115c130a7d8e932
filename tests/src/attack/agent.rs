//! An agent as a process: its configuration, its interface for operators, its steering log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output, Stdio};
use std::sync::Mutex;

use serde_json::Value;

use super::{WAIT, arena, until};

/// Settings by their dotted names, with values as a configuration file spells them.
pub type Settings = BTreeMap<String, String>;

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    /// Beside which node it runs.
    pub id: u32,
    /// Where other agents find it.
    pub address: SocketAddr,
    folder: PathBuf,
    process: Mutex<Child>,
}

impl Agent {
    /// Starts an agent, and waits until it answers. It takes a port that is free; where the others are it is told later.
    pub fn start(id: u32, folder: &Path, settings: &Settings) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let file = folder.join("scry.toml");
        write(&file, settings);
        let log = File::create(folder.join("agent.log")).unwrap();
        let process = arena()
            .args(["agent", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut agent = Self {
            id,
            address: ([127, 0, 0, 1], 0).into(),
            folder: folder.to_owned(),
            process: Mutex::new(process),
        };
        agent.address = until("an agent comes up", || {
            let ended = agent.ended();
            assert!(ended.is_none(), "agent {id}: {ended:?}: {}", agent.said());
            let status = agent.try_ask("GET", "/status", "")?.1;
            let status: Value = serde_json::from_str(&status).ok()?;
            status["peers_listen"].as_str()?.parse().ok()
        });
        agent
    }

    /// Has it read other settings.
    pub fn reload(&self, settings: &Settings) {
        write(&self.folder.join("scry.toml"), settings);
        let (code, said) = self.ask("POST", "/reload", "{}");
        assert_eq!(code, 200, "{said}");
    }

    /// Returns its folder, with `scry.toml`, `agent.log`, `log/`, `host.sock` and `admin.sock`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sends a request of an operator, and returns code and body of the answer. On a busy machine a connection may be
    /// refused or cut short; who is asked again until then must answer within [`WAIT`].
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        until("an agent answers", || {
            let ended = self.ended();
            let id = self.id;
            assert!(ended.is_none(), "agent {id}: {ended:?}: {}", self.said());
            self.try_ask(method, path, body)
        })
    }

    fn try_ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = UnixStream::connect(self.folder.join("admin.sock")).ok()?;
        stream.set_read_timeout(Some(WAIT)).ok()?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, text) = answer.split_once("\r\n\r\n")?;
        let code = head.split_whitespace().nth(1)?.parse().ok()?;
        Some((code, text.to_owned()))
    }

    /// Asks how it is doing.
    pub fn status(&self) -> Value {
        let (code, text) = self.ask("GET", "/status", "");
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the value of a metric, by its name with its labels as they are written; nothing if there is none.
    pub fn metric(&self, name: &str) -> u64 {
        let (code, text) = self.ask("GET", "/metrics", "");
        assert_eq!(code, 200, "{text}");
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(metric, _)| *metric == name);
        found.map_or(0, |(_, value)| {
            value.parse::<f64>().unwrap_or_default() as u64
        })
    }

    /// Returns how often a failure was counted.
    pub fn failed_open(&self, failure: &str) -> u64 {
        self.metric(&format!("scry_failed_open_total{{failure=\"{failure}\"}}"))
    }

    /// Returns the records of its steering log of one kind, or all for an empty one, in the newest file.
    pub fn records(&self, kind: &str) -> Vec<Value> {
        let file = self.folder.join("log").join("steering.jsonl");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        records
            .filter(|record: &Value| kind.is_empty() || record["kind"] == kind)
            .collect()
    }

    /// Runs a command of `scry` against it.
    pub fn command(&self, arguments: &[&str]) -> Output {
        arena()
            .args(arguments)
            .arg("--admin")
            .arg(self.folder.join("admin.sock"))
            .output()
            .unwrap()
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.lock().unwrap().id()
    }

    /// Returns how its process ended, if it did.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.process.lock().unwrap().try_wait().unwrap()
    }

    /// Returns everything it said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("agent.log")).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap();
        let _ = process.kill();
        let _ = process.wait();
    }
}

fn write(file: &Path, settings: &Settings) {
    let lines = settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}\n"));
    std::fs::write(file, lines.collect::<String>()).unwrap();
}
