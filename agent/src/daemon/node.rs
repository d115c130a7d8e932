//! The task that owns the checkpoint manager and the controller: performs every output, awaits one fact, handles it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::controller::{self, Controller};
use scry::checkpoint::Time;
use scry::checkpoint::manager::{CheckpointManager, Output};
use scry_protocol::link::host::{AgentToHost, HostToAgent};
use scry_protocol::record::{Shown, What, Word};
use scry_protocol::{GatherId, NodeId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Duration, Instant};
use tracing::{debug, info, warn};

use super::journal::Journal;
use super::status::{CertificateStatus, CheckpointStatus, ConfigurationStatus, PeerStatus};
use super::{Ask, Fact, SnapshotSummary, Status, ready};
use crate::certificate::{Event, Info, News, moment, now_s};
use crate::configuration::Loaded;
use crate::link::checker::Checker;
use crate::link::host::HostLink;
use crate::link::peers::{KeptOut, Peers};
use crate::notify::Notifier;
use crate::rate_limit::Folding;

/// Who waits for a snapshot.
type SnapshotWaiter = oneshot::Sender<Result<SnapshotSummary, String>>;

/// One node's agent.
pub(super) struct Node {
    pub(super) file: PathBuf,
    pub(super) loaded: Loaded,
    pub(super) manager: CheckpointManager,
    pub(super) controller: Controller,
    pub(super) journal: Journal,
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
    host: Option<HostLink>,
    connected: BTreeSet<NodeId>,
    /// Why peers could not be reached when they were last tried.
    unreachable: BTreeMap<NodeId, String>,
    over_bandwidth: u64,
    asked: BTreeMap<GatherId, SnapshotWaiter>,
    snapshot: Option<SnapshotSummary>,
    /// Whether a snapshot was gathered since the service attached.
    has_gathered: bool,

    pub(super) needs_restart: Vec<&'static str>,
    pub(super) reloads: u64,
    pub(super) reloads_failed: u64,
    /// The certificate in use, once it was loaded anew.
    certificate: Option<Info>,
    certificates_loaded: u64,
    certificates_kept: u64,
    /// Lines about peers.
    lines: Folding<(&'static str, NodeId)>,
}

impl Node {
    pub(super) fn now(&self) -> Time {
        Time::from_millis(self.started.elapsed().as_millis() as u64)
    }

    /// Runs until told to stop, then says so to peers.
    pub(super) async fn run(mut self, mut shutdown: watch::Receiver<bool>) {
        let started = What::Started {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: Word(self.controller.options().mode),
            configuration: self.loaded.hash.clone(),
        };
        let now = self.now();
        self.journal.record(now, started.into());
        // Before any service is told a mode.
        self.look_for_switches(now);
        loop {
            self.perform();
            let due = [self.manager.poll_timeout(), self.controller.poll_timeout()];
            let due = due
                .into_iter()
                .flatten()
                .min()
                .map(|time| self.started + Duration::from_millis(time.as_millis()));
            let timeout = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            // What is due has its turn, however many facts there are. Those that waited when it became due come first: an
            // answer that is here is not late. They are few, since nobody may have many of them wait.
            tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => break,
                () = timeout => {
                    for _ in 0..self.facts.len() {
                        let Ok(fact) = self.facts.try_recv() else {
                            break;
                        };
                        self.handle(fact);
                        self.perform();
                    }
                    let now = self.now();
                    self.manager.handle_timeout(now);
                    self.controller.handle_timeout(now);
                }
                fact = self.facts.recv() => match fact {
                    Some(fact) => self.handle(fact),
                    None => break,
                },
            }
        }
        // First of all: it ends while the rest is put in order.
        self.checker.stop();
        let now = self.now();
        self.manager.handle_shutdown(now);
        self.perform();
        if let Some(peers) = &self.peers {
            peers.close().await;
        }
        if let Some(link) = &self.standing.host {
            link.close();
        }
        let why = "a signal".to_owned();
        self.journal.record(now, What::Stopped { why }.into());
        let journal = self.journal;
        // What is left to be written is little, and must be on disk before the process ends.
        let _ = tokio::task::spawn_blocking(move || journal.close(now)).await;
    }

    fn handle(&mut self, fact: Fact) {
        let now = self.now();
        match fact {
            Fact::HostUp { link, hello } => {
                if self.standing.host.take().is_some() {
                    self.manager.handle_host_gone(now);
                }
                self.standing.has_gathered = false;
                self.checker.attached(link.process);
                self.standing.host = Some(link);
                self.handle_host(now, HostToAgent::Hello(hello));
            }
            Fact::Host { serial, message } => {
                if self.is_attached(serial) {
                    self.handle_host(now, message);
                }
            }
            Fact::HostGone { serial } => {
                if self.is_attached(serial) {
                    self.standing.host = None;
                    self.manager.handle_host_gone(now);
                    self.controller.handle_host_gone(now, "its socket closed");
                }
            }
            Fact::Peer {
                from,
                message,
                frame_bytes,
                place,
            } => {
                let begun = Instant::now();
                let rest = self.manager.handle_peer(now, from, *message, frame_bytes);
                if let Some(message) = rest {
                    self.controller.handle_peer(now, from, message);
                }
                // What it makes the agent do counts as well.
                self.perform();
                if let Some(peers) = &self.peers {
                    peers.handle_work(from, begun.elapsed());
                }
                drop(place);
            }
            Fact::PeerSlowed { peer, limit, count } => {
                let quota = What::Quota {
                    limit: limit.name().to_owned(),
                    count,
                    peer: Some(Shown(peer)),
                };
                self.journal.record(now, quota.into());
            }
            Fact::Certificate(news) => self.note_certificate(now, news),
            Fact::PeerUp { peer, address } => {
                self.standing.unreachable.remove(&peer);
                if self.standing.connected.insert(peer) {
                    let peer = Shown(peer);
                    self.journal
                        .record(now, What::PeerUp { peer, address }.into());
                }
            }
            Fact::PeerLost { peer, why } => {
                self.standing.unreachable.insert(peer, why.clone());
                if self.standing.connected.remove(&peer) {
                    let peer = Shown(peer);
                    self.journal
                        .record(now, What::PeerDown { peer, why }.into());
                }
                self.manager.handle_peer_lost(now, peer);
            }
            Fact::Checker(message) => self.controller.handle_checker(now, message),
            Fact::CheckerStarted => self.controller.handle_checker_started(now),
            Fact::CheckerSeen(seen) => {
                if self.controller.handle_checker_seen(now, seen) {
                    info!("the checker waits for a processor");
                }
            }
            Fact::CheckerDiffers => self.controller.handle_checker_differs(),
            Fact::JobUnsent { run, why } => self.controller.handle_job_unsent(now, run, &why),
            Fact::LookForSwitches => {
                self.journal.handle_timeout(now);
                self.tell_left_out(now);
                self.look_for_switches(now);
            }
            Fact::SteerOff => self.steer_off(now),
            Fact::CheckerGone { why, blamed } => {
                self.controller.handle_blame(now, &blamed, &why);
                self.controller.handle_checker_gone(now, &why);
            }
            Fact::Ask(ask) => self.answer(now, ask),
        }
    }

    /// Tells whether a line about a peer is to be written, or there were many like it just before.
    fn may_tell(&mut self, now: Time, what: &'static str, peer: NodeId) -> bool {
        const LINES_MAX: u64 = 5;
        let lines = &mut self.standing.lines;
        lines.note(now.as_millis(), (what, peer), LINES_MAX)
    }

    fn tell_left_out(&mut self, now: Time) {
        for left_out in self.standing.lines.over(now.as_millis()) {
            let about = left_out.key.map(|(what, peer)| format!("{what} of {peer}"));
            let count = left_out.count;
            info!(about, count, "more lines like those before were left out");
        }
    }

    /// Writes down what happened to this node's certificate.
    fn note_certificate(&mut self, now: Time, news: News) {
        let record = What::Certificate {
            event: news.event.name().to_owned(),
            until: Some(moment(news.own.until_s)),
            detail: news.detail,
        };
        self.journal.record(now, record.into());
        match news.event {
            Event::Loaded => self.standing.certificates_loaded += 1,
            Event::Kept => self.standing.certificates_kept += 1,
            Event::EndsSoon | Event::Ended => {}
        }
        self.standing.certificate = Some(news.own);
    }

    fn is_attached(&self, serial: u64) -> bool {
        self.standing
            .host
            .as_ref()
            .is_some_and(|link| link.serial == serial)
    }

    fn handle_host(&mut self, now: Time, message: HostToAgent) {
        self.controller.handle_host(now, message.clone());
        self.manager.handle_host(now, message);
    }

    /// Carries out everything that the cores want done. What one of them does may give work to the other.
    fn perform(&mut self) {
        loop {
            if let Some(output) = self.manager.poll_output() {
                self.perform_manager(output);
            } else if let Some(output) = self.controller.poll_output() {
                self.perform_controller(output);
            } else {
                break;
            }
        }
        let count = self.manager.counts().over_bandwidth;
        if count > self.standing.over_bandwidth {
            self.standing.over_bandwidth = count;
            let limit = "bandwidth".to_owned();
            let peer = None;
            let now = self.now();
            self.journal
                .record(now, What::Quota { limit, count, peer }.into());
        }
    }

    fn perform_manager(&mut self, output: Output) {
        let now = self.now();
        match output {
            Output::Host(message) => self.tell_host(message),
            Output::Peer { to, frame } => self.tell_peer(to, frame),
            Output::Snapshot {
                gather,
                on_demand,
                snapshot,
            } => {
                let summary = SnapshotSummary::from(&snapshot);
                self.standing.snapshot = Some(summary.clone());
                self.standing.has_gathered = true;
                if let Some(waiter) = self.standing.asked.remove(&gather) {
                    let _ = waiter.send(Ok(summary));
                }
                self.controller.handle_snapshot(now, on_demand, snapshot);
            }
            Output::Looked { question, snapshot } => {
                self.controller.handle_looked(now, question, &snapshot);
            }
            Output::NeighborsLeftOut { count, kept } => {
                warn!(
                    count,
                    kept, "there are more neighbors than `neighborhood.neighbors_max` lets count"
                );
                self.controller.handle_neighbors_left_out(count, kept);
            }
            Output::Unreadable { from, why } => {
                warn!(peer = %from, "cannot read a peer's checkpoint: {why}");
            }
            Output::Implausible { from, number } => {
                warn!(peer = %from, %number, "a peer's number is not believed: it is further ahead than honest ones can be");
                self.controller.handle_implausible(from, number);
            }
            Output::Failed {
                gather,
                on_demand,
                error,
            } => {
                let why = error.to_string();
                self.controller.handle_snapshot_failed(now, on_demand, &why);
                if let Some(waiter) = self.standing.asked.remove(&gather) {
                    let _ = waiter.send(Err(why));
                }
            }
        }
    }

    fn perform_controller(&mut self, output: controller::Output) {
        let now = self.now();
        match output {
            controller::Output::Checker(message) => self.checker.send(message),
            controller::Output::Host(message) => self.tell_host(message),
            controller::Output::Peer { to, message } => {
                // It goes out as one of the manager's own frames, so that one limit and one account hold for all.
                if !self.manager.handle_message(now, to, &message)
                    && self.may_tell(now, "paths left out", to)
                {
                    warn!(peer = %to, "a path or its answer was left out: over the bandwidth limit");
                }
            }
            controller::Output::Log(entry) => self.journal.record(now, entry),
            controller::Output::Trace { violation, json } => self.journal.trace(violation, json),
            controller::Output::SavePaths(bytes) => self.journal.paths(bytes),
            controller::Output::Gather => {
                if let Err(error) = self.manager.handle_demand(now) {
                    debug!(%error, "no gather for a neighbor's path");
                }
            }
            controller::Output::RestartChecker { why } => self.checker.restart(why),
        }
    }

    fn tell_host(&self, message: AgentToHost) {
        if let Some(link) = &self.standing.host {
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
                let set = self.set_operator_mode(now, property, mode.into());
                let _ = done.send(set);
            }
            Ask::Reload(answer) => {
                let reloaded = self.reload(now);
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

    fn status(&self) -> Status {
        let standing = &self.standing;
        let (stored, stored_bytes) = self.manager.stored();
        let counts = self.manager.counts();
        let kept_out = self
            .peers
            .as_ref()
            .map_or_else(KeptOut::default, Peers::kept_out);
        Status {
            version: env!("CARGO_PKG_VERSION"),
            node: self.loaded.node.to_string(),
            uptime_ms: self.now().as_millis(),
            waits_for: ready::waits_for(self.readiness()),
            configuration: ConfigurationStatus {
                file: self.file.display().to_string(),
                hash: self.loaded.hash.clone(),
                needs_restart: standing.needs_restart.clone(),
                reloads: standing.reloads,
                reloads_failed: standing.reloads_failed,
            },
            held_off_by: self.controller.held_off_by().map(str::to_owned),
            mode_by: self.controller.mode_by().text(),
            steering: self.controller.status(self.now()),
            host_process: standing.host.as_ref().and_then(|link| link.process),
            peers: self.peer_status(),
            peers_listen: self
                .peers
                .as_ref()
                .and_then(Peers::address)
                .map(|address| address.to_string()),
            peers_refused: kept_out.refused,
            peers_not_members: kept_out.not_members,
            handshakes_retried: kept_out.retried,
            handshakes_ignored: kept_out.ignored,
            certificate: self.certificate_status(),
            late_ms: self.late_ms(),
            checkpoints: CheckpointStatus {
                number: self.manager.number().get(),
                stored,
                stored_bytes,
                pruned: counts.pruned,
                over_bandwidth: counts.over_bandwidth,
                unsent: counts.unsent,
                unreadable: counts.unreadable,
                implausible: counts.implausible,
                renewals: counts.renewals,
                restarts: counts.restarts,
                skipped: counts.skipped,
            },
            snapshot: standing.snapshot.clone(),
            unwritten: self.journal.dropped(),
            log_head: self.journal.head().map(|head| head.to_string()),
        }
    }

    /// Returns by how much the most urgent of what is due is late. With a loop that turns this is a moment.
    fn late_ms(&self) -> u64 {
        let due = [self.manager.poll_timeout(), self.controller.poll_timeout()];
        let due = due.into_iter().flatten().min();
        due.map_or(0, |due| {
            let now = self.now().as_millis();
            now.saturating_sub(due.as_millis())
        })
    }

    fn certificate_status(&self) -> Option<CertificateStatus> {
        let loaded = self.loaded.identity.as_ref().map(|identity| &identity.own);
        let own = self.standing.certificate.as_ref().or(loaded)?;
        Some(CertificateStatus {
            until: moment(own.until_s),
            until_s: own.until_s,
            days_left: own.days_left(now_s()),
            fingerprint: own.fingerprint.clone(),
            loaded: self.standing.certificates_loaded,
            kept: self.standing.certificates_kept,
        })
    }

    fn readiness(&self) -> ready::Standing {
        let configuration = &self.loaded.configuration;
        let checkpoint = &configuration.checkpoint;
        ready::Standing {
            is_off: self.controller.options().mode == scry_protocol::filter::Mode::Off,
            host_attached: self.standing.host.is_some(),
            searches: checkpoint.gather,
            checker_ready: self.controller.is_checker_ready(),
            gathers: checkpoint.gather && checkpoint.period_ms > 0 && self.peers.is_some(),
            has_gathered: self.standing.has_gathered,
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
                    unreachable: match standing.connected {
                        true => None,
                        false => self.standing.unreachable.get(&node).cloned(),
                    },
                    sent_bytes: traffic.sent_bytes,
                    received_bytes: traffic.received_bytes,
                    sent_frames: traffic.sent_frames,
                    received_frames: traffic.received_frames,
                    udp_sent_bytes: standing.udp_sent_bytes,
                    udp_received_bytes: standing.udp_received_bytes,
                    slowed: standing.slowed,
                    slowed_ms: standing.slowed_ms,
                }
            })
            .collect()
    }
}
