//! One agent of a cluster: its configuration, its process, its status and its steering log as it grows.

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

use crate::cluster::{Agents, Steering, Tuning};
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

/// Where agents wait for others: each takes a port that is free, and says which.
const LISTEN: &str = "127.0.0.1:0";
/// Where an agent is said to be before it has taken a port: a neighborhood may name only agents with an address.
const NOWHERE: &str = "127.0.0.1:1";

/// A place for an agent: everything that is known of it before it runs.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    /// The node beside which it runs.
    pub(crate) id: NodeId,
    /// The nodes beside which the others run.
    pub(crate) others: Vec<NodeId>,
    /// Its folder.
    pub(crate) directory: PathBuf,
    /// The service.
    pub(crate) service: &'static str,
    /// How much it does about violations.
    pub(crate) steering: Steering,
    /// How it is set.
    pub(crate) agents: Agents,
}

/// A running agent.
#[derive(Debug)]
pub(crate) struct Agent {
    /// The node beside which it runs.
    pub(crate) id: NodeId,
    /// Where other agents find it.
    pub(crate) address: String,
    /// Its process.
    pub(crate) process: Process,
    seat: Seat,
}

impl Seat {
    /// Starts the agent and waits until it answers. It does not know yet where the others are.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub(crate) async fn start(self) -> anyhow::Result<Agent> {
        std::fs::create_dir_all(&self.directory)?;
        let nowhere: Vec<(NodeId, String)> = self
            .others
            .iter()
            .map(|&id| (id, NOWHERE.to_owned()))
            .collect();
        std::fs::write(self.file(), self.configuration(&nowhere)?)?;
        let log = self.directory.join("agent.log");
        let arguments = [
            "agent".to_owned(),
            "--config".to_owned(),
            self.file().display().to_string(),
        ];
        let name = format!("agent {}", self.id);
        let (process, _) = Process::start(&name, self.service, &arguments, &log, false)?;
        let mut agent = Agent {
            id: self.id,
            address: String::new(),
            process,
            seat: self,
        };
        let is_up = |answer: &Value| !answer.is_null();
        agent
            .wait_until(is_up)
            .await
            .with_context(|| unheard(&name, &log))?;
        let status = agent.status().await?;
        let address = status["peers_listen"].as_str();
        agent.address = address.context("an agent waits for others")?.to_owned();
        Ok(agent)
    }

    fn file(&self) -> PathBuf {
        self.directory.join("scry.toml")
    }

    /// Writes the configuration: what every agent must be told, and how it is tuned, if it is.
    fn configuration(&self, known: &[(NodeId, String)]) -> anyhow::Result<String> {
        let id = self.id.get();
        let peers: Vec<String> = known
            .iter()
            .filter(|(id, _)| *id != self.id)
            .map(|(id, address)| format!("{{ id = {}, address = \"{address}\" }}", id.get()))
            .collect();
        let folder = |name: &str| json!(self.directory.join(name)).to_string();
        // A checker starts with an empty environment, so its command line says which service it is of.
        let executable = std::env::current_exe()?.display().to_string();
        let checker = json!([executable, "service", self.service]);
        let certificates = self
            .directory
            .parent()
            .context("a seat is in a cluster's folder")?;
        let certificates = certificates.join("certificates");
        let certificate = |name: &str| json!(certificates.join(name)).to_string();
        let mode = match self.steering {
            Steering::Audit => "audit",
            Steering::Off | Steering::Immediate | Steering::Full => "steer",
        };
        let (neighborhood, checker_more, steering_more, more) = match &self.agents {
            Agents::Tuned(tuning) => self.tuned(tuning)?,
            Agents::Default {
                everyone,
                properties,
            } => {
                let more = self.properties(properties)?;
                let neighborhood = match everyone {
                    true => self.everyone(),
                    false => String::new(),
                };
                (neighborhood, String::new(), String::new(), more)
            }
        };
        Ok(format!(
            "[node]\nid = {id}\n\n\
             [host]\nsocket = {}\n\n\
             [peers]\nlisten = \"{LISTEN}\"\ncertificate = {}\nkey = {}\nauthority = {}\nknown = [{}]\n\n\
             {neighborhood}\
             [checker]\ncommand = {checker}\n{checker_more}\n\
             [steering]\nmode = \"{mode}\"\nkill_file = {}\n{steering_more}\n\
             {more}\
             [log]\ndirectory = {}\n\n\
             [admin]\nlisten = {}\n",
            folder(HOST_SOCKET),
            certificate(&format!("n{id}.pem")),
            certificate(&format!("n{id}.key")),
            certificate("authority.pem"),
            peers.join(", "),
            folder("off"),
            folder("log"),
            folder("admin.sock"),
        ))
    }

    /// Writes the property file, if there is one, and returns the section that names it.
    fn properties(&self, text: &str) -> anyhow::Result<String> {
        if text.is_empty() {
            return Ok(String::new());
        }
        let file = self.directory.join("properties.toml");
        std::fs::write(&file, text)?;
        Ok(format!("[properties]\nfile = {}\n\n", json!(file)))
    }

    fn everyone(&self) -> String {
        let members: Vec<String> = self.others.iter().map(|id| id.get().to_string()).collect();
        let members = members.join(", ");
        format!("[neighborhood]\nsource = \"list\"\nmembers = [{members}]\n\n")
    }

    /// Returns what differs from the defaults: the neighborhood, more of the sections for checker and steering, and
    /// other sections.
    fn tuned(&self, tuning: &Tuning) -> anyhow::Result<(String, String, String, String)> {
        let neighborhood = match tuning.everyone {
            true => self.everyone(),
            false => String::new(),
        };
        // Without prediction snapshots are still gathered, since the immediate check judges with them; the search ends
        // before it has begun.
        let states = if self.steering.predicts() {
            tuning.states
        } else {
            1
        };
        let Tuning {
            period_ms,
            time_ms,
            depth,
            ttl_ms,
            isolate,
            patience_ms: (deadline_ms, hold_ms),
            order,
            resets,
            silent_resets,
            losses,
            properties,
            liveness,
            ..
        } = tuning;
        let checker = format!(
            "time_ms = {time_ms}\nstates = {states}\ndepth = {depth}\nliveness = \"{liveness}\"\n"
        );
        let properties = self.properties(properties)?;
        let more = format!(
            "{properties}[checker.faults]\nresets = {resets}\nsilent_resets = {silent_resets}\nlosses = {losses}\n\n\
             [checkpoint]\nperiod_ms = {period_ms}\nround_ms = 500\n\n\
             [safety]\nisolate = \"{isolate}\"\ndeadline_ms = {deadline_ms}\nhold_ms = {hold_ms}\n\n"
        );
        let order = order.name();
        let steering = format!("ttl_ms = {ttl_ms}\norder = \"{order}\"\n");
        Ok((neighborhood, checker, steering, more))
    }
}

impl Agent {
    /// Returns the folder of its steering log.
    pub(crate) fn log_directory(&self) -> PathBuf {
        self.seat.directory.join("log")
    }

    /// Tells it where the others are.
    ///
    /// # Errors
    ///
    /// If it does not read its configuration again.
    pub(crate) async fn meet(&self, known: &[(NodeId, String)]) -> anyhow::Result<()> {
        std::fs::write(self.seat.file(), self.seat.configuration(known)?)?;
        let request = "POST /reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
            Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        self.ask(request).await.map(drop)
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
        let request = "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        self.ask(request).await
    }

    async fn ask(&self, request: &str) -> anyhow::Result<Value> {
        let socket = self.seat.directory.join("admin.sock");
        let mut stream = UnixStream::connect(socket).await?;
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
