//! One node of a cluster: a process of the service, spoken to in lines of JSON.
//!
//! What it reports goes to the cluster's channel in its own words; what a state means is the referee's business.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail};
use scry::NodeId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};

use crate::cluster::Link;
use crate::process::Process;

/// What a node is started with.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Which node.
    pub(crate) id: NodeId,
    /// Its settings.
    pub(crate) setup: Value,
    /// The socket of its agent, if it has one.
    pub(crate) agent: Option<PathBuf>,
    /// Its links to others.
    pub(crate) link: Link,
    /// What its chance begins with.
    pub(crate) seed: u64,
    /// Where it may keep what it keeps.
    pub(crate) directory: PathBuf,
}

/// One event at a node, as the node tells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    /// The node.
    pub(crate) node: NodeId,
    /// When, in milliseconds since the epoch.
    pub(crate) at_ms: u64,
    /// What kind of event.
    pub(crate) kind: String,
    /// The event, for people.
    #[serde(default)]
    pub(crate) event: String,
    /// What was done about it.
    pub(crate) verdict: String,
    /// The filter that decided so.
    #[serde(default)]
    pub(crate) filter: Value,
    /// The property that would have been broken.
    #[serde(default)]
    pub(crate) property: Option<String>,
    /// The state afterwards.
    #[serde(default)]
    pub(crate) state: Value,
    /// The timers that are armed afterwards.
    #[serde(default)]
    pub(crate) timers: Value,
    /// Events before this one that were not told.
    #[serde(default)]
    pub(crate) missed: u64,
}

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    /// Which.
    pub(crate) id: NodeId,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its process.
    pub(crate) process: Process,
    stdin: ChildStdin,
    waiting: Waiting,
}

/// Who waits for the node's next answers, the longest first.
type Waiting = Arc<Mutex<VecDeque<oneshot::Sender<Result<Value, String>>>>>;

/// A line of a node.
enum Line {
    Ready(SocketAddr),
    Answer(Result<Value, String>),
    Told(Box<Told>),
    /// So many lines were left out, because nobody read in time.
    Missed(u64),
}

impl Node {
    /// Starts a node, and waits until it listens.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or ends before it listens.
    pub(crate) async fn start(
        service: &str,
        options: &Options,
        told: mpsc::UnboundedSender<Box<Told>>,
    ) -> anyhow::Result<Self> {
        let id = options.id;
        let log = options.directory.join("node.log");
        let name = format!("{service} {id}");
        let (process, pipes) =
            Process::start(&name, service, &arguments(service, options), &log, true)?;
        let pipes = pipes.context("a node has pipes")?;
        let waiting = Waiting::default();
        let (ready, listening) = oneshot::channel();
        tokio::spawn(listen(
            pipes.stdout,
            ready,
            waiting.clone(),
            told,
            log.clone(),
        ));
        let address = listening.await.with_context(|| unheard(&name, &log))?;
        Ok(Self {
            id,
            address,
            process,
            stdin: pipes.stdin,
            waiting,
        })
    }

    /// Gives the node an order and waits for its answer.
    ///
    /// # Errors
    ///
    /// If it refuses, or is gone.
    pub(crate) async fn order(&mut self, order: &Value) -> anyhow::Result<Value> {
        let answered = self.tell(order).await?;
        match answered.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => bail!("{} refuses {order}: {error}", self.id),
            Err(_) => bail!("{} is gone", self.id),
        }
    }

    /// Gives the node an order; its answer will come, to whoever still waits for it.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub(crate) async fn tell(
        &mut self,
        order: &Value,
    ) -> anyhow::Result<oneshot::Receiver<Result<Value, String>>> {
        let (answer, answered) = oneshot::channel();
        self.waiting
            .lock()
            .expect("no thread panics while it holds this")
            .push_back(answer);
        let mut line = order.to_string();
        line.push('\n');
        self.stdin.write_all(line.as_bytes()).await?;
        self.stdin.flush().await?;
        Ok(answered)
    }

    /// Tells it where the others are.
    ///
    /// # Errors
    ///
    /// If it refuses, or is gone.
    pub(crate) async fn meet(
        &mut self,
        peers: &BTreeMap<NodeId, SocketAddr>,
    ) -> anyhow::Result<()> {
        let peers: BTreeMap<String, String> = peers
            .iter()
            .map(|(id, address)| (id.get().to_string(), address.to_string()))
            .collect();
        self.order(&json!({ "peers": peers })).await.map(drop)
    }

    /// Ends it: with good order if `stdin` is still heard.
    pub(crate) async fn end(mut self) {
        drop(self.stdin);
        self.process.end().await;
    }
}

fn arguments(service: &str, options: &Options) -> Vec<String> {
    let Link {
        delay_ms,
        jitter_ms,
        loss,
        rate_kbps,
    } = options.link;
    let mut arguments: Vec<String> = ["service", service, "node", "--control", "--report"]
        .map(str::to_owned)
        .to_vec();
    let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    add("id", options.id.get().to_string());
    add("listen", "127.0.0.1:0".to_owned());
    add("setup", options.setup.to_string());
    add("seed", options.seed.to_string());
    add("disk", options.directory.join("disk").display().to_string());
    add("delay-ms", delay_ms.to_string());
    add("jitter-ms", jitter_ms.to_string());
    add("loss", loss.to_string());
    add("rate-kbps", rate_kbps.to_string());
    if let Some(agent) = &options.agent {
        add("agent", agent.display().to_string());
    }
    arguments
}

/// Reads what a node prints until it ends.
async fn listen(
    stdout: ChildStdout,
    ready: oneshot::Sender<SocketAddr>,
    waiting: Waiting,
    told: mpsc::UnboundedSender<Box<Told>>,
    log: PathBuf,
) {
    let mut ready = Some(ready);
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        match Line::parse(&text) {
            Ok(Line::Ready(address)) => {
                if let Some(ready) = ready.take() {
                    // Nobody waits if the start was given up.
                    let _ = ready.send(address);
                }
            }
            Ok(Line::Answer(answer)) => {
                let next = waiting.lock().expect("as above").pop_front();
                if let Some(next) = next {
                    let _ = next.send(answer);
                }
            }
            Ok(Line::Told(line)) => {
                // The cluster may have stopped listening before its nodes end.
                let _ = told.send(line);
            }
            Ok(Line::Missed(count)) => {
                note(&log, &format!("the lab was too slow for {count} lines"));
            }
            Err(error) => note(&log, &format!("the lab cannot read: {error}: {text}")),
        }
    }
    // Whoever still waits learns that no answer will come.
    waiting.lock().expect("as above").clear();
}

impl Line {
    fn parse(text: &str) -> serde_json::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        if let Some(error) = value.get("error") {
            let error = error
                .as_str()
                .map_or_else(|| error.to_string(), str::to_owned);
            return Ok(Self::Answer(Err(error)));
        }
        if let Some(done) = value.get("done") {
            return Ok(Self::Answer(Ok(done.clone())));
        }
        if value["kind"] == "missed" {
            return Ok(Self::Missed(value["count"].as_u64().unwrap_or(0)));
        }
        if value["kind"] == "ready" {
            return Ok(Self::Ready(serde_json::from_value(
                value["listen"].clone(),
            )?));
        }
        Ok(Self::Told(serde_json::from_value(value)?))
    }
}

fn note(log: &Path, text: &str) {
    use std::io::Write;
    let file = std::fs::File::options().append(true).open(log);
    // A note that cannot be written has no better place to go.
    let _: io::Result<()> = file.and_then(|mut file| writeln!(file, "{text}"));
}

/// Says that a process did not come up, with the last it said.
pub(crate) fn unheard(name: &str, log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    format!(
        "{name} did not come up ({}):\n{}",
        log.display(),
        last.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let ready = Line::parse(r#"{"kind":"ready","listen":"127.0.0.1:7"}"#).unwrap();
        assert!(matches!(ready, Line::Ready(address) if address.port() == 7));
        let done = Line::parse(r#"{"done":true}"#).unwrap();
        assert!(matches!(done, Line::Answer(Ok(Value::Bool(true)))));
        let error = Line::parse(r#"{"error":"no such call"}"#).unwrap();
        assert!(matches!(error, Line::Answer(Err(text)) if text == "no such call"));
        let told = r#"{"node":3,"at_ms":5,"kind":"timer","event":"Recovery","verdict":"run","filter":null,
            "property":null,"state":{"mode":"init"},"timers":[],"missed":0}"#;
        let Line::Told(told) = Line::parse(told).unwrap() else {
            panic!("an event was told");
        };
        assert_eq!((told.node, told.at_ms), (NodeId::new(3), 5));
        let missed = Line::parse(r#"{"kind":"missed","count":3}"#).unwrap();
        assert!(matches!(missed, Line::Missed(3)));
        assert!(Line::parse("oh").is_err());
        assert!(Line::parse(r#"{"kind":"timer"}"#).is_err());
    }
}
