//! What an operator may ask at any time.

use std::collections::BTreeMap;

use crate::controller;
use scry_protocol::{NodeId, Snapshot};
use serde::Serialize;

/// How things stand with one agent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Status {
    /// The agent's version.
    pub(crate) version: &'static str,
    /// The node.
    pub(crate) node: String,
    /// How long it has run.
    pub(crate) uptime_ms: u64,
    /// What keeps it from being ready; nothing if it is.
    pub(crate) waits_for: Vec<&'static str>,
    /// The configuration.
    pub(crate) configuration: ConfigurationStatus,
    /// What holds everything off, while it does: a file or the environment.
    pub(crate) held_off_by: Option<String>,
    /// Who set the global mode.
    pub(crate) mode_by: &'static str,
    /// What the controller does: modes, service, runs, filters, counts.
    pub(crate) steering: controller::Status,
    /// The process of the service, if one is attached and visible.
    pub(crate) host_process: Option<i32>,
    /// The other agents.
    pub(crate) peers: Vec<PeerStatus>,
    /// Where the agent waits for others.
    pub(crate) peers_listen: Option<String>,
    /// How many connections of others were refused.
    pub(crate) peers_refused: u64,
    /// How many of them were of nodes of the cluster that are not among `peers.known`.
    pub(crate) peers_not_members: u64,
    /// How many handshakes of others had to show their address first.
    pub(crate) handshakes_retried: u64,
    /// How many were not answered.
    pub(crate) handshakes_ignored: u64,
    /// This node's certificate, unless there are no peers.
    pub(crate) certificate: Option<CertificateStatus>,
    /// By how much the most urgent of what is due is late.
    pub(crate) late_ms: u64,
    /// Own checkpoints.
    pub(crate) checkpoints: CheckpointStatus,
    /// The last snapshot that was gathered.
    pub(crate) snapshot: Option<SnapshotSummary>,
    /// Records, traces and paths that could not be written.
    pub(crate) unwritten: u64,
    /// The last record of the steering log, as `scry log --verify --head` takes it.
    pub(crate) log_head: Option<String>,
}

/// Which configuration is loaded.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConfigurationStatus {
    /// The file.
    pub(crate) file: String,
    /// Names what was loaded.
    pub(crate) hash: String,
    /// Sections whose new values count only after a restart.
    pub(crate) needs_restart: Vec<&'static str>,
    /// How often it was loaded anew.
    pub(crate) reloads: u64,
    /// How often that failed, and the old one was kept.
    pub(crate) reloads_failed: u64,
}

/// This node's certificate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CertificateStatus {
    /// When it ends.
    pub(crate) until: String,
    /// The same, in seconds since 1970.
    pub(crate) until_s: i64,
    /// How many whole days are left.
    pub(crate) days_left: i64,
    /// Its SHA-256.
    pub(crate) fingerprint: String,
    /// How often files that changed were loaded.
    pub(crate) loaded: u64,
    /// How often they were bad, and what was loaded stayed.
    pub(crate) kept: u64,
}

/// One other agent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PeerStatus {
    /// Whose.
    pub(crate) node: String,
    /// Whether a connection is up. One is made when there is something to say.
    pub(crate) connected: bool,
    /// Why it could not be reached when it was last tried, if so.
    pub(crate) unreachable: Option<String>,
    /// Bytes of frames sent, with an estimate of what surrounds them.
    pub(crate) sent_bytes: u64,
    /// And received.
    pub(crate) received_bytes: u64,
    /// Frames sent.
    pub(crate) sent_frames: u64,
    /// And received.
    pub(crate) received_frames: u64,
    /// Bytes of datagrams sent on the present connection, counted.
    pub(crate) udp_sent_bytes: u64,
    /// And received.
    pub(crate) udp_received_bytes: u64,
    /// How often it was not read from for a while because it was over a limit.
    pub(crate) slowed: u64,
    /// For how long in all.
    pub(crate) slowed_ms: u64,
}

/// Own checkpoints.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CheckpointStatus {
    /// The number the service has reached.
    pub(crate) number: u64,
    /// How many are kept.
    pub(crate) stored: usize,
    /// Bytes they are charged.
    pub(crate) stored_bytes: usize,
    /// How many had to go.
    pub(crate) pruned: u64,
    /// Answers refused because of the bandwidth limit.
    pub(crate) over_bandwidth: u64,
    /// Frames that were not sent at all because of it.
    pub(crate) unsent: u64,
    /// Answers of peers that could not be read.
    pub(crate) unreadable: u64,
    /// Numbers of peers that were not believed.
    pub(crate) implausible: u64,
    /// How often the host was asked to go on under another incarnation.
    pub(crate) renewals: u64,
    /// Gathers that started anew.
    pub(crate) restarts: u64,
    /// Periods in which no gather could start.
    pub(crate) skipped: u64,
}

/// A snapshot without the states in it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SnapshotSummary {
    /// The logical time it shows.
    pub(crate) number: u64,
    /// How old its oldest checkpoint was.
    pub(crate) age_ms: u64,
    /// How many rounds it took.
    pub(crate) rounds: u32,
    /// How long it took.
    pub(crate) elapsed_ms: u64,
    /// Bytes of all its checkpoints.
    pub(crate) bytes: usize,
    /// Who is in it.
    pub(crate) members: Vec<String>,
    /// Who is not, and why.
    pub(crate) missing: BTreeMap<String, String>,
}

impl From<&Snapshot> for SnapshotSummary {
    fn from(snapshot: &Snapshot) -> Self {
        let name = |node: NodeId| node.to_string();
        Self {
            number: snapshot.number.get(),
            age_ms: snapshot.age_ms(),
            rounds: snapshot.rounds,
            elapsed_ms: snapshot.elapsed_ms,
            bytes: snapshot
                .members
                .iter()
                .map(|member| member.body.len())
                .sum(),
            members: snapshot
                .members
                .iter()
                .map(|member| name(member.node))
                .collect(),
            missing: snapshot
                .missing
                .iter()
                .map(|missing| (name(missing.node), missing.reason.to_string()))
                .collect(),
        }
    }
}
