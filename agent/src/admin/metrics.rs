//! Counts, levels and lengths of time in the text form that Prometheus reads.

mod writer;

use crate::controller::harm::Pace;
use crate::controller::status::PropertyStatus;
use crate::daemon::{PeerStatus, Status};

use writer::{Labels, Metrics, level};

/// Writes what a status says. Everything is counted elsewhere, so that a scrape changes nothing.
pub(super) fn encode(status: &Status) -> String {
    let mut metrics = Metrics::default();
    agent(&mut metrics, status);
    steering(&mut metrics, status);
    by_property(&mut metrics, status);
    durations(&mut metrics, status);
    counts(&mut metrics, status);
    checkpoints(&mut metrics, status);
    snapshot(&mut metrics, status);
    peers(&mut metrics, status);
    metrics.into_text()
}

/// Writes what is known of the agent itself.
fn agent(metrics: &mut Metrics, status: &Status) {
    let labels = vec![("hash", status.configuration.hash.clone())];
    metrics.level(
        "configuration",
        "The configuration that is loaded; nodes whose files agree have the same hash",
        vec![(labels, 1)],
    );
    metrics.one(
        "ready",
        "Whether the agent can do its work, as /readyz says",
        status.waits_for.is_empty().into(),
    );
    metrics.count(
        "reloads",
        "Configurations loaded anew",
        status.configuration.reloads,
    );
    metrics.count(
        "reloads_failed",
        "Bad configurations, in whose place the old one stayed",
        status.configuration.reloads_failed,
    );
    metrics.one(
        "host_attached",
        "Whether a service is attached",
        status.steering.host.is_some().into(),
    );
    metrics.one(
        "checker_ready",
        "Whether the checker is up",
        status.steering.checker_ready.into(),
    );
    metrics.one(
        "mode",
        "How much may be done: 0 off, 1 audit, 2 steer",
        u8::from(status.steering.mode.0).into(),
    );
    metrics.count(
        "peers_refused",
        "Connections of others that were refused",
        status.peers_refused,
    );
    guarded(metrics, status);
    metrics.count(
        "unwritten",
        "Records, traces and paths that could not be written",
        status.unwritten,
    );
}

/// Writes what was done against strangers, and how long the certificate lasts.
fn guarded(metrics: &mut Metrics, status: &Status) {
    for (name, help, value) in [
        (
            "peers_not_members",
            "Connections of nodes of the cluster that are not among peers.known",
            status.peers_not_members,
        ),
        (
            "handshakes_retried",
            "Handshakes of others that had to show their address first",
            status.handshakes_retried,
        ),
        (
            "handshakes_ignored",
            "Handshakes of others that were not answered",
            status.handshakes_ignored,
        ),
    ] {
        metrics.count(name, help, value);
    }
    metrics.one(
        "late_ms",
        "By how much the most urgent of what the agent has to do is late",
        level(status.late_ms),
    );
    if let Some(certificate) = &status.certificate {
        metrics.one(
            "certificate_expires_timestamp_seconds",
            "When this node's certificate ends",
            certificate.until_s,
        );
        metrics.count(
            "certificates_loaded",
            "Certificates loaded anew because their files changed",
            certificate.loaded,
        );
        metrics.count(
            "certificates_kept",
            "Changed certificates that were bad, in whose place the old ones stayed",
            certificate.kept,
        );
    }
}

/// Writes what the controller has in force, and what the service gets done.
fn steering(metrics: &mut Metrics, status: &Status) {
    metrics.one(
        "filters",
        "Filters in force",
        level(status.steering.filters.len() as u64),
    );
    metrics.one(
        "past_paths",
        "Past paths kept",
        level(status.steering.past_paths as u64),
    );
    let paces = [
        ("none", status.steering.pace_free),
        ("in force", status.steering.pace_steered),
    ];
    let a_minute = |count: fn(&Pace) -> u64| {
        let of = |(filters, pace): &(&str, Pace)| {
            let labels = vec![("filters", (*filters).to_owned())];
            (labels, level(count(pace) * 60_000 / pace.elapsed_ms.max(1)))
        };
        paces.iter().map(of).collect::<Vec<_>>()
    };
    metrics.level(
        "events_per_minute",
        "Events handled a minute, without filters that act and with such in force",
        a_minute(|pace| pace.events),
    );
    metrics.level(
        "calls_per_minute",
        "Calls answered a minute, without filters that act and with such in force",
        a_minute(|pace| pace.calls),
    );
}

/// Writes what the controller counted: every field of its counts under its own name.
fn counts(metrics: &mut Metrics, status: &Status) {
    let counts = serde_json::to_value(&status.steering.counts).expect("counts can be written");
    let Some(counts) = counts.as_object() else {
        return;
    };
    for (name, value) in counts {
        match value {
            serde_json::Value::Object(by_name) => {
                let (label, help) = match name.as_str() {
                    "suspicions" => ("outcome", "Events that were held, by what came of it"),
                    _ => ("failure", "What failed while the service went on"),
                };
                let of = |(key, value): (&String, &serde_json::Value)| {
                    (vec![(label, key.clone())], value.as_u64().unwrap_or(0))
                };
                metrics.counts(name, help, by_name.iter().map(of).collect());
            }
            value => {
                let help = format!("Controller: {}", name.replace('_', " "));
                metrics.count(name, &help, value.as_u64().unwrap_or(0));
            }
        }
    }
}

/// Writes what is known of own checkpoints, and of gathering.
fn checkpoints(metrics: &mut Metrics, status: &Status) {
    checkpoints_kept(metrics, status);
    checkpoints_exchanged(metrics, status);
}

fn checkpoints_kept(metrics: &mut Metrics, status: &Status) {
    let checkpoints = &status.checkpoints;
    metrics.one(
        "checkpoint_number",
        "The logical time reached",
        level(checkpoints.number),
    );
    metrics.one(
        "checkpoints_stored",
        "Own checkpoints kept",
        level(checkpoints.stored as u64),
    );
    metrics.one(
        "checkpoints_stored_bytes",
        "Bytes of own checkpoints kept",
        level(checkpoints.stored_bytes as u64),
    );
    metrics.count(
        "checkpoints_pruned",
        "Own checkpoints that had to go",
        checkpoints.pruned,
    );
}

/// Writes what was not sent, not believed or not gathered.
fn checkpoints_exchanged(metrics: &mut Metrics, status: &Status) {
    let checkpoints = &status.checkpoints;
    for (name, help, value) in [
        (
            "over_bandwidth",
            "Answers refused because of the bandwidth limit",
            checkpoints.over_bandwidth,
        ),
        (
            "unsent",
            "Frames not sent at all because of it",
            checkpoints.unsent,
        ),
        (
            "unreadable",
            "Answers of peers that could not be read",
            checkpoints.unreadable,
        ),
        (
            "implausible",
            "Numbers of peers that were not believed",
            checkpoints.implausible,
        ),
        (
            "renewals",
            "How often the host was asked to go on under another incarnation",
            checkpoints.renewals,
        ),
        (
            "gathers_restarted",
            "Gathers that started anew",
            checkpoints.restarts,
        ),
        (
            "gathers_skipped",
            "Periods in which no gather could start",
            checkpoints.skipped,
        ),
    ] {
        metrics.count(name, help, value);
    }
}

/// Writes what the last snapshot was.
fn snapshot(metrics: &mut Metrics, status: &Status) {
    if let Some(snapshot) = &status.snapshot {
        metrics.one(
            "snapshot_age_ms",
            "Age of the last snapshot when it was complete",
            level(snapshot.age_ms),
        );
        metrics.one(
            "snapshot_bytes",
            "Bytes of the last snapshot",
            level(snapshot.bytes as u64),
        );
        metrics.one(
            "snapshot_members",
            "Nodes in the last snapshot",
            level(snapshot.members.len() as u64),
        );
        metrics.one(
            "snapshot_missing",
            "Neighbors missing in it",
            level(snapshot.missing.len() as u64),
        );
    }
}

/// Writes what is known of each peer.
fn peers(metrics: &mut Metrics, status: &Status) {
    let each = |value: fn(&PeerStatus) -> u64| {
        let of = |peer: &PeerStatus| (vec![("peer", peer.node.clone())], value(peer));
        status.peers.iter().map(of).collect::<Vec<_>>()
    };
    metrics.level(
        "peer_connected",
        "Whether a connection is up; one is made when there is something to say",
        levels(each(|peer| peer.connected.into())),
    );
    metrics.level(
        "peer_unreachable",
        "Whether it could not be reached when it was last tried",
        levels(each(|peer| peer.unreachable.is_some().into())),
    );
    metrics.counts(
        "peer_sent_bytes",
        "Bytes of frames sent, overhead estimated",
        each(|peer| peer.sent_bytes),
    );
    metrics.counts(
        "peer_received_bytes",
        "Bytes of frames received, overhead estimated",
        each(|peer| peer.received_bytes),
    );
    metrics.counts(
        "peer_sent_frames",
        "Frames sent",
        each(|peer| peer.sent_frames),
    );
    metrics.counts(
        "peer_received_frames",
        "Frames received",
        each(|peer| peer.received_frames),
    );
    metrics.counts(
        "peer_slowed",
        "How often a peer was not read from for a while because it was over a limit",
        each(|peer| peer.slowed),
    );
    metrics.counts(
        "peer_slowed_ms",
        "For how long in all",
        each(|peer| peer.slowed_ms),
    );
    metrics.level(
        "peer_udp_bytes",
        "Bytes of datagrams sent on the present connection",
        levels(each(|peer| peer.udp_sent_bytes)),
    );
}

/// Writes what is known of each property.
fn by_property(metrics: &mut Metrics, status: &Status) {
    let each = |value: fn(&PropertyStatus) -> u64| {
        let of = |property: &PropertyStatus| {
            let labels = vec![("property", property.property.clone())];
            (labels, value(property))
        };
        let all = status.steering.properties.iter().map(of);
        all.collect::<Vec<_>>()
    };
    standing_of_properties(metrics, &each);
    harm_of_properties(metrics, &each);
    steering_of_properties(metrics, &each);
}

/// Reads a number off every property, each with its label.
type EachProperty<'e> = dyn Fn(fn(&PropertyStatus) -> u64) -> Vec<(Labels, u64)> + 'e;

fn standing_of_properties(metrics: &mut Metrics, each: &EachProperty<'_>) {
    metrics.level(
        "property_mode",
        "How much may be done about it: 0 off, 1 audit, 2 steer",
        levels(each(|property| u8::from(property.mode.0).into())),
    );
    metrics.level(
        "property_unjudged_runs",
        "Runs in a row that could not judge it",
        levels(each(|property| property.unjudged_runs)),
    );
    metrics.level(
        "property_lost_per_mille",
        "Thousandths of the node's actions that it cost of late",
        levels(each(|property| property.lost_per_mille)),
    );
}

/// Writes what was taken from the service for the sake of each property.
fn harm_of_properties(metrics: &mut Metrics, each: &EachProperty<'_>) {
    metrics.counts(
        "property_dropped",
        "Messages dropped for its sake",
        each(|property| property.dropped),
    );
    metrics.counts(
        "property_reset",
        "Connections reset for its sake",
        each(|property| property.reset),
    );
    metrics.counts(
        "property_refused",
        "Calls refused for its sake",
        each(|property| property.refused),
    );
    metrics.counts(
        "property_delayed",
        "Events put off for its sake",
        each(|property| property.delayed),
    );
}

/// Writes what was predicted, installed and kept from handlers for the sake of each property.
fn steering_of_properties(metrics: &mut Metrics, each: &EachProperty<'_>) {
    metrics.level(
        "property_filters",
        "Its filters in force",
        levels(each(|property| property.filters)),
    );
    metrics.counts(
        "property_filters_installed",
        "Filters installed for its sake, renewals not counted",
        each(|property| property.counts.filters_installed),
    );
    metrics.counts(
        "property_predictions",
        "Violations of it that were predicted, each once a run",
        each(|property| property.counts.predictions),
    );
    metrics.counts(
        "property_violations",
        "Violations of it that a snapshot showed to have happened",
        each(|property| property.counts.violations),
    );
    metrics.counts(
        "property_vetoes",
        "Events kept from their handlers by the immediate check for its sake",
        each(|property| property.counts.vetoes),
    );
    metrics.counts(
        "property_audit_vetoes",
        "Events the immediate check would have kept from them",
        each(|property| property.counts.audit_vetoes),
    );
}

/// Writes how long things took.
fn durations(metrics: &mut Metrics, status: &Status) {
    let durations = &status.steering.durations;
    for (name, help, times) in [
        ("gather", "Gathering a snapshot", &durations.gather),
        (
            "search",
            "A search, from the job to its end",
            &durations.search,
        ),
        (
            "hold",
            "An event held while the neighbors were asked",
            &durations.hold,
        ),
        (
            "check",
            "An event that waited for its trial by the immediate check",
            &durations.check,
        ),
        (
            "prediction_to_filter",
            "From a complete snapshot to a filter because of it",
            &durations.prediction_to_filter,
        ),
    ] {
        metrics.times(name, help, times);
    }
}

fn levels(values: Vec<(Labels, u64)>) -> Vec<(Labels, i64)> {
    let values = values.into_iter();
    values
        .map(|(labels, value)| (labels, level(value)))
        .collect()
}
