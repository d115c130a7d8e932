//! The task that owns the checkpoint manager and the controller: performs every output, awaits one fact, handles it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use scry::checkpoint::Time;
use scry::checkpoint::manager::{CheckpointManager, Output};
use scry_protocol::link::checker::CheckerToAgent;
use scry_protocol::link::host::{AgentToHost, Hello, HostToAgent, Welcome};
use scry_protocol::link::peer::PeerMessage;
use scry_protocol::{GatherId, NodeId, Snapshot};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Duration, Instant};
use tracing::{debug, error, info, warn};

use super::status::{CheckerStatus, CheckpointStatus, ConfigurationStatus, HostStatus, PeerStatus};
use super::{Ask, Fact, Reloaded, SnapshotSummary, Status, options};
use crate::configuration::{Loaded, Mode, environment};
use crate::link::checker::Checker;
use crate::link::host::HostLink;
use crate::link::peers::Peers;
use crate::link::shown;
use crate::notify::Notifier;

/// Who waits for a snapshot.
type SnapshotWaiter = oneshot::Sender<Result<SnapshotSummary, String>>;

/// One node's agent.
pub(super) struct Node {
    pub(super) file: PathBuf,
    pub(super) loaded: Loaded,
    pub(super) manager: CheckpointManager,
    pub(super) facts: mpsc::Receiver<Fact>,
    pub(super) peers: Option<Peers>,
    pub(super) checker: Checker,
    pub(super) notifier: Arc<Notifier>,
    pub(super) started: Instant,
    pub(super) standing: Standing,
}

/// What is only remembered to be shown.
#[derive(Default)]
pub(super) struct Standing {
    host: Option<(HostLink, Hello)>,
    mode: Option<Mode>,
    property_modes: BTreeMap<String, Mode>,
    asked: BTreeMap<GatherId, SnapshotWaiter>,
    snapshot: Option<SnapshotSummary>,
    snapshots: u64,
    snapshots_failed: u64,
    checker: CheckerStatus,
    needs_restart: Vec<&'static str>,
    reloads: u64,
    reloads_failed: u64,
}

impl Node {
    fn now(&self) -> Time {
        Time::from_millis(self.started.elapsed().as_millis() as u64)
    }

    /// Runs until told to stop, then says so to peers.
    pub(super) async fn run(mut self, mut shutdown: watch::Receiver<bool>) {
        loop {
            self.perform();
            let due = self
                .manager
                .poll_timeout()
                .map(|time| self.started + Duration::from_millis(time.as_millis()));
            let timeout = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => break,
                fact = self.facts.recv() => match fact {
                    Some(fact) => self.handle(fact),
                    None => break,
                },
                () = timeout => {
                    let now = self.now();
                    self.manager.handle_timeout(now);
                }
            }
        }
        let now = self.now();
        self.manager.handle_shutdown(now);
        self.perform();
        if let Some(peers) = &self.peers {
            peers.close().await;
        }
        if let Some((link, _)) = &self.standing.host {
            link.close();
        }
    }

    fn handle(&mut self, fact: Fact) {
        let now = self.now();
        match fact {
            Fact::HostUp { link, hello } => {
                if self.standing.host.take().is_some() {
                    self.manager.handle_host_gone(now);
                }
                link.send(
                    Welcome {
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                        mode: self.mode().into(),
                    }
                    .into(),
                );
                self.checker.attached(link.process);
                self.standing.host = Some((link, hello.clone()));
                self.manager.handle_host(now, HostToAgent::Hello(hello));
            }
            Fact::Host { serial, message } => {
                if self.is_attached(serial) {
                    self.manager.handle_host(now, message);
                }
            }
            Fact::HostGone { serial } => {
                if self.is_attached(serial) {
                    self.standing.host = None;
                    self.manager.handle_host_gone(now);
                }
            }
            Fact::Frame { from, frame } => self.handle_frame(now, from, &frame),
            Fact::PeerLost(peer) => self.manager.handle_peer_lost(now, peer),
            Fact::Checker(message) => {
                if matches!(message, CheckerToAgent::Ready(_)) {
                    self.standing.checker.ready = true;
                }
            }
            Fact::CheckerGone { .. } => {
                self.standing.checker.ready = false;
                self.standing.checker.restarts += 1;
            }
            Fact::Ask(ask) => self.answer(now, ask),
        }
    }

    fn is_attached(&self, serial: u64) -> bool {
        self.standing
            .host
            .as_ref()
            .is_some_and(|(link, _)| link.serial == serial)
    }

    fn handle_frame(&mut self, now: Time, from: NodeId, frame: &[u8]) {
        match self.manager.handle_frame(now, from, frame) {
            Ok(None) => {}
            Ok(Some(message)) => self.handle_path(now, from, message),
            // The link decoded it before; only a bug of ours comes here.
            Err(error) => error!(peer = %from, %error, "a frame was decoded once but not twice"),
        }
    }

    fn handle_path(&mut self, _now: Time, from: NodeId, message: PeerMessage) {
        match message {
            PeerMessage::SharePath(path) if path.by != from => {
                warn!(peer = %from, by = %path.by, "refused a path: its sender is not its finder");
            }
            _ => {}
        }
    }

    /// Carries out everything that the cores want done.
    fn perform(&mut self) {
        while let Some(output) = self.manager.poll_output() {
            match output {
                Output::Host(message) => self.tell_host(message),
                Output::Peer { to, frame } => self.tell_peer(to, frame),
                Output::Snapshot {
                    gather, snapshot, ..
                } => self.take_snapshot(gather, snapshot),
                Output::Failed { gather, error, .. } => {
                    self.standing.snapshots_failed += 1;
                    debug!(%gather, %error, "no snapshot");
                    if let Some(waiter) = self.standing.asked.remove(&gather) {
                        let _ = waiter.send(Err(error.to_string()));
                    }
                }
            }
        }
    }

    fn tell_host(&self, message: AgentToHost) {
        if let Some((link, _)) = &self.standing.host {
            link.send(message);
        }
    }

    fn tell_peer(&mut self, to: NodeId, frame: Vec<u8>) {
        let queued = self
            .peers
            .as_ref()
            .is_some_and(|peers| peers.send(to, frame));
        if !queued {
            let now = self.now();
            self.manager.handle_peer_lost(now, to);
        }
    }

    fn take_snapshot(&mut self, gather: GatherId, snapshot: Snapshot) {
        let summary = SnapshotSummary::from(&snapshot);
        debug!(%gather, ?summary, "a snapshot");
        self.standing.snapshots += 1;
        self.standing.snapshot = Some(summary.clone());
        if let Some(waiter) = self.standing.asked.remove(&gather) {
            let _ = waiter.send(Ok(summary));
        }
    }

    fn answer(&mut self, now: Time, ask: Ask) {
        match ask {
            Ask::Status(answer) => {
                let _ = answer.send(Box::new(self.status()));
            }
            Ask::Mode {
                mode,
                property,
                done,
            } => {
                self.set_mode(mode, property);
                let _ = done.send(());
            }
            Ask::Reload(answer) => {
                let reloaded = self.reload();
                let _ = answer.send(reloaded);
            }
            Ask::Snapshot(answer) => match self.manager.handle_demand(now) {
                Ok(gather) => {
                    self.standing.asked.insert(gather, answer);
                }
                Err(error) => {
                    let _ = answer.send(Err(error.to_string()));
                }
            },
        }
    }

    fn mode(&self) -> Mode {
        self.standing
            .mode
            .unwrap_or(self.loaded.configuration.steering.mode)
    }

    fn set_mode(&mut self, mode: Mode, property: Option<String>) {
        info!(
            ?mode,
            property = property.as_deref().map(shown),
            "an operator set the mode"
        );
        match property {
            Some(property) => {
                self.standing.property_modes.insert(property, mode);
            }
            None => {
                self.standing.mode = Some(mode);
                self.tell_host(scry_protocol::link::host::SetMode { mode: mode.into() }.into());
            }
        }
    }

    /// Reads the configuration again, and keeps the old one if the new one is bad.
    fn reload(&mut self) -> Result<Reloaded, String> {
        self.notifier.tell("RELOADING=1");
        let outcome = match Loaded::load(&self.file, &environment()) {
            Ok(new) => {
                let needs_restart = self.loaded.needs_restart(&new);
                self.adopt(new, &needs_restart);
                self.standing.reloads += 1;
                info!(
                    hash = self.loaded.hash,
                    ?needs_restart,
                    "the configuration was loaded anew"
                );
                Ok(Reloaded {
                    hash: self.loaded.hash.clone(),
                    needs_restart,
                })
            }
            Err(wrong) => {
                self.standing.reloads_failed += 1;
                error!("the new configuration is bad, the old one stays:\n{wrong}");
                Err(wrong.to_string())
            }
        };
        self.notifier.tell("READY=1");
        outcome
    }

    fn adopt(&mut self, new: Loaded, needs_restart: &[&'static str]) {
        self.standing.needs_restart = needs_restart.to_vec();
        if let Some(peers) = &self.peers {
            peers.set_known(&new.configuration.peers.known);
        }
        self.checker.set(options::checker(&new.configuration));
        self.loaded = new;
    }

    fn status(&self) -> Status {
        let standing = &self.standing;
        let (stored, stored_bytes) = self.manager.stored();
        let counts = self.manager.counts();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            node: self.loaded.node.to_string(),
            uptime_ms: self.now().as_millis(),
            configuration: ConfigurationStatus {
                file: self.file.display().to_string(),
                hash: self.loaded.hash.clone(),
                needs_restart: standing.needs_restart.clone(),
                reloads: standing.reloads,
                reloads_failed: standing.reloads_failed,
            },
            mode: self.mode(),
            property_modes: standing.property_modes.clone(),
            host: standing.host.as_ref().map(|(link, hello)| HostStatus {
                service: hello.service.clone(),
                version: hello.version.clone(),
                process: link.process,
            }),
            peers: self.peer_status(),
            peers_listen: self
                .peers
                .as_ref()
                .and_then(Peers::address)
                .map(|address| address.to_string()),
            peers_refused: self.peers.as_ref().map_or(0, Peers::refused),
            checkpoints: CheckpointStatus {
                number: self.manager.number().get(),
                stored,
                stored_bytes,
                pruned: counts.pruned,
                over_bandwidth: counts.over_bandwidth,
                unsent: counts.unsent,
                unreadable: counts.unreadable,
                restarts: counts.restarts,
                skipped: counts.skipped,
            },
            snapshot: standing.snapshot.clone(),
            snapshots: standing.snapshots,
            snapshots_failed: standing.snapshots_failed,
            checker: standing.checker,
        }
    }

    fn peer_status(&self) -> Vec<PeerStatus> {
        let Some(peers) = &self.peers else {
            return Vec::new();
        };
        let traffic = self.manager.traffic();
        peers
            .standing()
            .into_iter()
            .map(|(node, standing)| {
                let traffic = traffic.get(&node).copied().unwrap_or_default();
                PeerStatus {
                    node: node.to_string(),
                    connected: standing.connected,
                    sent_bytes: traffic.sent_bytes,
                    received_bytes: traffic.received_bytes,
                    sent_frames: traffic.sent_frames,
                    received_frames: traffic.received_frames,
                    udp_sent_bytes: standing.udp_sent_bytes,
                    udp_received_bytes: standing.udp_received_bytes,
                }
            })
            .collect()
    }
}
