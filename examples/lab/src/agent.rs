//! One agent of a cluster: its configuration, its process, its status and its steering log as it grows.

use std::io;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use scry::NodeId;
use scry_protocol::record::Record;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cluster::{Steering, Tuning};
use crate::node::unheard;
use crate::process::Process;

/// The socket in a node's folder by which it finds its agent.
pub(crate) const HOST_SOCKET: &str = "host.sock";
/// The steering log's file in the log's directory.
const LOG_FILE: &str = "steering.jsonl";
/// How often a growing log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long an agent may take to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A place for an agent: everything that is known of it before it runs.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The node beside which it runs.
    pub(crate) id: NodeId,
    /// Its folder.
    pub(crate) directory: PathBuf,
    /// Keeps the port until the agent takes it.
    port: UdpSocket,
}

/// A running agent.
#[derive(Debug)]
pub(crate) struct Agent {
    /// The node beside which it runs.
    pub(crate) id: NodeId,
    /// Its process.
    pub(crate) process: Process,
    directory: PathBuf,
}

impl Seat {
    /// Makes the folder and finds a free port.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(crate) fn new(id: NodeId, directory: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&directory)?;
        let port = UdpSocket::bind("127.0.0.1:0")?;
        Ok(Self {
            id,
            directory,
            port,
        })
    }

    /// Starts the agent and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub(crate) async fn start(
        self,
        service: &str,
        known: &[(NodeId, String)],
        steering: Steering,
        tuning: &Tuning,
    ) -> anyhow::Result<Agent> {
        let file = self.directory.join("scry.toml");
        std::fs::write(&file, self.configuration(service, known, steering, tuning)?)?;
        let log = self.directory.join("agent.log");
        let arguments = [
            "agent".to_owned(),
            "--config".to_owned(),
            file.display().to_string(),
        ];
        let name = format!("agent {}", self.id);
        drop(self.port);
        let (process, _) = Process::start(&name, service, &arguments, &log, false)?;
        let mut agent = Agent {
            id: self.id,
            process,
            directory: self.directory,
        };
        let is_up = |answer: &Value| !answer.is_null();
        agent
            .wait_until(is_up)
            .await
            .with_context(|| unheard(&name, &log))?;
        Ok(agent)
    }

    /// Returns where other agents find it.
    ///
    /// # Errors
    ///
    /// If its port has no address.
    pub(crate) fn address(&self) -> io::Result<String> {
        Ok(self.port.local_addr()?.to_string())
    }

    fn configuration(
        &self,
        service: &str,
        known: &[(NodeId, String)],
        steering: Steering,
        tuning: &Tuning,
    ) -> anyhow::Result<String> {
        let id = self.id.get();
        let others: Vec<&(NodeId, String)> =
            known.iter().filter(|(id, _)| *id != self.id).collect();
        let peers: Vec<String> = others
            .iter()
            .map(|(id, address)| format!("{{ id = {}, address = \"{address}\" }}", id.get()))
            .collect();
        let members: Vec<String> = others.iter().map(|(id, _)| id.get().to_string()).collect();
        let neighborhood = match tuning.everyone {
            true => format!("source = \"list\"\nmembers = [{}]", members.join(", ")),
            false => "source = \"service\"".to_owned(),
        };
        // Without prediction snapshots are still gathered, since the immediate check judges with them; the search ends
        // before it has begun.
        let states = if steering.predicts() {
            tuning.states
        } else {
            1
        };
        let mode = match steering {
            Steering::Audit => "audit",
            Steering::Off | Steering::Immediate | Steering::Full => "steer",
        };
        let folder = |name: &str| json!(self.directory.join(name)).to_string();
        let Tuning {
            period_ms,
            time_ms,
            depth,
            ttl_ms,
            isolate,
            resets,
            silent_resets,
            losses,
            ..
        } = tuning;
        // A checker starts with an empty environment, so its command line says which service it is of.
        let executable = std::env::current_exe()?.display().to_string();
        let checker = json!([executable, "service", service]);
        let certificates = self
            .directory
            .parent()
            .context("a seat is in a cluster's folder")?;
        let certificates = certificates.join("certificates");
        let certificate = |name: &str| json!(certificates.join(name)).to_string();
        Ok(format!(
            "[node]\nid = {id}\n\n\
             [host]\nsocket = {}\n\n\
             [peers]\nlisten = \"{}\"\ncertificate = {}\nkey = {}\nauthority = {}\nknown = [{}]\n\n\
             [neighborhood]\n{neighborhood}\n\n\
             [checkpoint]\nperiod_ms = {period_ms}\nround_ms = 500\n\n\
             [checker]\ncommand = {checker}\ntime_ms = {time_ms}\nstates = {states}\ndepth = {depth}\n\n\
             [checker.faults]\nresets = {resets}\nsilent_resets = {silent_resets}\nlosses = {losses}\n\n\
             [steering]\nmode = \"{mode}\"\nttl_ms = {ttl_ms}\nkill_file = {}\n\n\
             [safety]\nisolate = \"{isolate}\"\n\n\
             [log]\ndirectory = {}\n\n\
             [admin]\nlisten = {}\n",
            folder(HOST_SOCKET),
            self.address()?,
            certificate(&format!("n{id}.pem")),
            certificate(&format!("n{id}.key")),
            certificate("authority.pem"),
            peers.join(", "),
            folder("off"),
            folder("log"),
            folder("admin.sock"),
        ))
    }
}

impl Agent {
    /// Returns the folder of its steering log.
    pub(crate) fn log_directory(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Waits until its status is as wished.
    ///
    /// # Errors
    ///
    /// If it does not become so, or the agent ends.
    pub(crate) async fn wait_until(&mut self, fits: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let patience = Instant::now() + PATIENCE;
        loop {
            if self.status().await.is_ok_and(|status| fits(&status)) {
                return Ok(());
            }
            if let Some(status) = self.process.ended() {
                bail!("the {} ended: {status}", self.process.name());
            }
            if Instant::now() > patience {
                bail!(
                    "the {} is not ready after {PATIENCE:?}",
                    self.process.name()
                );
            }
            tokio::time::sleep(LOOK_EVERY / 5).await;
        }
    }

    /// Asks for its status.
    ///
    /// # Errors
    ///
    /// If it does not answer in what it should.
    pub(crate) async fn status(&self) -> anyhow::Result<Value> {
        let mut stream = UnixStream::connect(self.directory.join("admin.sock")).await?;
        let request = "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await??;
        body(&answer)
    }

    /// Sends every record of its steering log, as it is written, until nobody listens.
    pub(crate) fn follow(&self, records: mpsc::UnboundedSender<Box<Record>>) {
        let file = self.log_directory().join(LOG_FILE);
        tokio::spawn(async move {
            let mut tail = Tail::default();
            while !records.is_closed() {
                for record in tail.read(&file) {
                    // Checked again above.
                    let _ = records.send(Box::new(record));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
    }
}

/// Reads the body of an answer of HTTP/1.1 that ends with its connection.
fn body(answer: &[u8]) -> anyhow::Result<Value> {
    let text = std::str::from_utf8(answer)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .context("an answer has a head")?;
    let status = head.split_whitespace().nth(1);
    if status != Some("200") {
        bail!(
            "the agent answers {}",
            head.lines().next().unwrap_or_default()
        );
    }
    Ok(serde_json::from_str(body)?)
}

/// Where reading a growing file has come to.
#[derive(Debug, Default)]
struct Tail {
    read: usize,
}

impl Tail {
    /// Reads the records that were written since the last time. A line without an end is left for the next.
    fn read(&mut self, file: &Path) -> Vec<Record> {
        let bytes = std::fs::read(file).unwrap_or_default();
        if bytes.len() < self.read {
            // The log has begun a new file.
            self.read = 0;
        }
        let fresh = &bytes[self.read..];
        let Some(end) = fresh.iter().rposition(|&byte| byte == b'\n') else {
            return Vec::new();
        };
        self.read += end + 1;
        let lines = fresh[..end].split(|&byte| byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_and_a_refusal_is_told() {
        let fine = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"mode\":\"steer\"}";
        assert_eq!(body(fine).unwrap()["mode"], "steer");
        let refused = body(b"HTTP/1.1 503 Service Unavailable\r\n\r\nno").unwrap_err();
        assert!(refused.to_string().contains("503"));
        assert!(body(b"HTTP/1.1").is_err());
    }

    #[test]
    fn a_log_is_read_line_by_line_as_it_grows() {
        let directory = std::env::temp_dir().join(format!("scry-lab-tail-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join(LOG_FILE);
        let line = "{\"time\":\"2026-11-16T08:30:00.000Z\",\"node\":\"n1\",\"kind\":\"stopped\",\"why\":\"asked\"}\n";
        let mut tail = Tail::default();
        assert!(tail.read(&file).is_empty());
        std::fs::write(&file, format!("{line}{}", &line[..9])).unwrap();
        assert_eq!(tail.read(&file).len(), 1);
        std::fs::write(&file, format!("{line}{line}")).unwrap();
        assert_eq!(tail.read(&file).len(), 1);
        assert!(tail.read(&file).is_empty());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
