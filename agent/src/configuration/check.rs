//! What a configuration must fulfil beyond the types of its values, and the files it names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use scry::Strategy;
use scry::checkpoint::neighborhood::NEIGHBORS_MAX;
use scry::interned::PANIC_PROPERTY;
use scry::properties::closest;
use scry::timing::{DRIFT_PPM_MAX, MS_MAX};
use scry_protocol::limit::NAME_BYTES_MAX;

use super::Properties;
use super::read::Reading;
use super::sections::{
    self, Admin, Checker, Checkpoint, Clock, Configuration, Host, Neighborhood, Node, Peers,
    Source, Steering,
};
use crate::certificate::{Files, Identity};

/// Where operators reach the agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum AdminAddress {
    /// Over TCP, on this machine only.
    Loopback(SocketAddr),
    /// Over a socket in the file system.
    Socket(std::path::PathBuf),
}

impl AdminAddress {
    /// Reads what `admin.listen` says.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.starts_with('/') {
            return Ok(Self::Socket(text.into()));
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Self::Loopback(address)),
            Ok(_) => Err("is not an address of this machine alone"),
            Err(_) => Err("is neither an address with port nor the path of a socket"),
        }
    }
}

/// Says what is wrong with the value at a dotted path, and what may help.
type Complain<'c> = dyn FnMut(&str, &str, Option<&str>) + 'c;

/// Checks values against each other and against what is possible.
pub(super) fn values(reading: &mut Reading<'_>, configuration: &Configuration) {
    let mut wrong = |path: &str, what: &str, help: Option<&str>| {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        reading.complain(&path, what, help);
    };
    let Configuration {
        node,
        host,
        peers,
        neighborhood,
        checkpoint,
        checker,
        clock,
        properties,
        steering,
        safety,
        log,
        admin,
    } = configuration;
    check_node_and_host(node, host, &mut wrong);
    check_peers(peers, &mut wrong);
    check_neighborhood(neighborhood, peers, &mut wrong);
    check_checkpoint(checkpoint, &mut wrong);
    check_checker(checker, &mut wrong);
    check_clock(clock, &mut wrong);
    check_properties(properties, &mut wrong);
    check_steering(steering, &mut wrong);
    check_not_zero(&[("safety.deadline_ms", safety.deadline_ms)], &mut wrong);
    check_not_zero(&[("log.rotate_bytes", log.rotate_bytes)], &mut wrong);
    check_admin(admin, &mut wrong);
}

fn check_node_and_host(node: &Node, host: &Host, wrong: &mut Complain<'_>) {
    if node.id.is_none() {
        wrong(
            "node.id",
            "is missing",
            Some("every node has a number of its own: `[node]` and `id = 1`"),
        );
    }
    if !host.socket.is_absolute() {
        wrong("host.socket", "is not an absolute path", None);
    }
    if host.user < -1 || host.user > i64::from(u32::MAX) {
        wrong("host.user", "is not the number of a user", None);
    }
}

fn check_peers(peers: &Peers, wrong: &mut Complain<'_>) {
    if !peers.listen.is_empty() && peers.listen.parse::<SocketAddr>().is_err() {
        wrong(
            "peers.listen",
            "is not an address with port",
            Some("write `0.0.0.0:7700`, `[::]:7700`, or nothing for an agent without peers"),
        );
    }
    let mut seen = BTreeSet::new();
    for (at, peer) in peers.known.iter().enumerate() {
        if !has_port(&peer.address) {
            wrong(
                &format!("peers.known.{at}.address"),
                "is not `host:port`",
                None,
            );
        }
        if !seen.insert(peer.id) {
            let what = format!("{} was named before", peer.id);
            wrong(&format!("peers.known.{at}.id"), &what, None);
        }
    }
    if peers.work_per_mille > 1000 {
        wrong(
            "peers.work_per_mille",
            "is more than everything (1000)",
            None,
        );
    }
}

fn check_neighborhood(neighborhood: &Neighborhood, peers: &Peers, wrong: &mut Complain<'_>) {
    if neighborhood.source == Source::List && neighborhood.members.is_empty() {
        wrong(
            "neighborhood.members",
            "is empty, and `source` is `list`",
            None,
        );
    }
    if !(1..=NEIGHBORS_MAX).contains(&neighborhood.neighbors_max) {
        let what = format!("is not between 1 and {NEIGHBORS_MAX}");
        wrong("neighborhood.neighbors_max", &what, None);
    }
    if neighborhood.members.len() > neighborhood.neighbors_max {
        let what = format!(
            "has {} nodes, more than `neighbors_max` allows ({})",
            neighborhood.members.len(),
            neighborhood.neighbors_max
        );
        wrong("neighborhood.members", &what, None);
    }
    for (at, member) in neighborhood.members.iter().enumerate() {
        if !peers.known.iter().any(|peer| peer.id == *member) {
            let what = format!("{member} is not among `peers.known`");
            wrong(&format!("neighborhood.members.{at}"), &what, None);
        }
    }
}

fn check_checkpoint(checkpoint: &Checkpoint, wrong: &mut Complain<'_>) {
    if checkpoint.share_per_mille > 1000 {
        wrong(
            "checkpoint.share_per_mille",
            "is more than everything (1000)",
            None,
        );
    }
    // Beyond this, the bits of a burst no longer fit the account that is kept of them.
    if checkpoint.burst_bytes > BURST_BYTES_MAX {
        wrong("checkpoint.burst_bytes", "is more than a gigabyte", None);
    }
    let not_zero = [
        ("checkpoint.store_bytes", checkpoint.store_bytes as u64),
        ("checkpoint.burst_bytes", checkpoint.burst_bytes),
        ("checkpoint.share_window_ms", checkpoint.share_window_ms),
        ("checkpoint.rounds_max", checkpoint.rounds_max.into()),
        ("checkpoint.round_ms", checkpoint.round_ms),
        ("checkpoint.gathers_max", checkpoint.gathers_max as u64),
        ("checkpoint.host_wait_ms", checkpoint.host_wait_ms),
        ("checkpoint.waiting_max", checkpoint.waiting_max as u64),
    ];
    check_not_zero(&not_zero, wrong);
    let within_a_day = [
        ("checkpoint.period_ms", checkpoint.period_ms),
        ("checkpoint.round_ms", checkpoint.round_ms),
        ("checkpoint.host_wait_ms", checkpoint.host_wait_ms),
    ];
    check_within_a_day(&within_a_day, wrong);
}

fn check_clock(clock: &Clock, wrong: &mut Complain<'_>) {
    if clock.drift_ppm > DRIFT_PPM_MAX {
        let what = format!("is more than {DRIFT_PPM_MAX}, a clock at half the rate");
        wrong("clock.drift_ppm", &what, None);
    }
    for (path, ms) in [
        ("clock.late_ms", clock.late_ms),
        ("clock.skew_ms", clock.skew_ms),
    ] {
        if ms > MS_MAX {
            wrong(path, "is more than a year", None);
        }
    }
}

fn check_checker(checker: &Checker, wrong: &mut Complain<'_>) {
    if !(0..=19).contains(&checker.nice) {
        wrong("checker.nice", "is not between 0 and 19", None);
    }
    match checker.strategy.parse::<Strategy>() {
        Err(unknown) => {
            let names = Strategy::all().map(Strategy::name);
            let close = closest(&checker.strategy, names);
            let help = close.map(|close| format!("did you mean {close:?}?"));
            wrong("checker.strategy", &unknown.to_string(), help.as_deref());
        }
        Ok(strategy) => {
            if let Some(why) = strategy.offline() {
                let what = format!("{strategy} cannot run beside a service: it {why}");
                wrong("checker.strategy", &what, None);
            }
            if checker.threads > 1 && !strategy.uses_threads() {
                let what = format!("is {}, and {strategy} runs on one", checker.threads);
                wrong("checker.threads", &what, None);
            }
        }
    }
    if checker.threads > 1024 {
        wrong("checker.threads", "is more than 1024", None);
    }
    if checker.command.first().is_some_and(String::is_empty) {
        wrong("checker.command", "names no program", None);
    }
    let not_zero = [
        ("checker.time_ms", checker.time_ms),
        ("checker.states", checker.states),
        ("checker.depth", checker.depth.into()),
        ("checker.memory_bytes", checker.memory_bytes),
        ("checker.violations", checker.violations.into()),
        ("checker.threads", checker.threads as u64),
    ];
    check_not_zero(&not_zero, wrong);
    let within_a_day = [
        ("checker.time_ms", checker.time_ms),
        ("checker.grace_ms", checker.grace_ms),
    ];
    check_within_a_day(&within_a_day, wrong);
}

fn check_properties(properties: &sections::Properties, wrong: &mut Complain<'_>) {
    let mut names = properties.modes.keys();
    if names.any(|name| name.len() > NAME_BYTES_MAX) {
        wrong("properties.modes", "has a name of too many bytes", None);
    }
}

fn check_steering(steering: &Steering, wrong: &mut Complain<'_>) {
    if steering.harm_max > 100 {
        wrong("steering.harm_max", "is more than everything (100)", None);
    }
    let not_zero = [
        ("steering.ttl_ms", steering.ttl_ms),
        ("steering.hits_max", steering.hits_max),
    ];
    check_not_zero(&not_zero, wrong);
    let within_a_day = [
        ("steering.ttl_ms", steering.ttl_ms),
        ("steering.harm_pause_ms", steering.harm_pause_ms),
    ];
    check_within_a_day(&within_a_day, wrong);
}

fn check_admin(admin: &Admin, wrong: &mut Complain<'_>) {
    if let Err(what) = AdminAddress::parse(&admin.listen) {
        wrong(
            "admin.listen",
            what,
            Some("write `127.0.0.1:7701` or `/run/scry/admin.sock`"),
        );
    }
    if !admin.metrics_listen.is_empty() && admin.metrics_listen.parse::<SocketAddr>().is_err() {
        wrong(
            "admin.metrics_listen",
            "is not an address with port",
            Some("write `0.0.0.0:7702`, `[::]:7702`, or nothing"),
        );
    }
}

fn check_not_zero(values: &[(&str, u64)], wrong: &mut Complain<'_>) {
    for (path, _) in values.iter().filter(|(_, value)| *value == 0) {
        wrong(path, "is 0, which leaves nothing to be done", None);
    }
}

fn check_within_a_day(values: &[(&str, u64)], wrong: &mut Complain<'_>) {
    for (path, _) in values.iter().filter(|(_, value)| *value > DAY_MS) {
        wrong(path, "is more than a day", None);
    }
}

/// Checks that every mode is of a property in the file. Without a file the service has to tell which there are.
pub(super) fn modes(
    reading: &mut Reading<'_>,
    configuration: &Configuration,
    properties: &Properties,
) {
    let Some(names) = &properties.names else {
        return;
    };
    let names: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .chain([PANIC_PROPERTY])
        .collect();
    for name in configuration.properties.modes.keys() {
        if names.contains(&name.as_str()) {
            continue;
        }
        let path = ["properties".to_owned(), "modes".to_owned(), name.clone()];
        let help = match closest(name, names.iter().copied()) {
            Some(close) => format!("did you mean {close:?}?"),
            None => format!("the file has {}", quoted(&names)),
        };
        let what = "is not a property of the property file";
        reading.complain(&path, what, Some(&help));
    }
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    quoted.join(", ")
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const BURST_BYTES_MAX: u64 = 1 << 30;

/// Reads the certificates a configuration names.
pub(super) fn identity(
    reading: &mut Reading<'_>,
    configuration: &Configuration,
    folder: &Path,
) -> Option<Identity> {
    let node = configuration.node.id?;
    let peers = &configuration.peers;
    if peers.listen.is_empty() {
        return None;
    }
    match Identity::load(node, &certificate_files(configuration, folder)) {
        Ok(identity) => Some(identity),
        Err(wrong) => {
            // A value is complained of once, so all that is wrong with a file is one complaint.
            let mut complaints: BTreeMap<&str, (String, Option<&str>)> = BTreeMap::new();
            for error in &wrong {
                complaints
                    .entry(error.field)
                    .and_modify(|(said, _)| *said = format!("{said}; {}", error.reason))
                    .or_insert_with(|| (error.to_string(), error.help));
            }
            for (field, (said, help)) in complaints {
                reading.complain(&["peers".to_owned(), field.to_owned()], &said, help);
            }
            None
        }
    }
}

/// Returns where the certificates are. A relative path starts from the configuration's folder.
pub(super) fn certificate_files(configuration: &Configuration, folder: &Path) -> Files {
    let peers = &configuration.peers;
    let revoked = &peers.revoked;
    Files {
        certificate: folder.join(&peers.certificate),
        key: folder.join(&peers.key),
        authority: folder.join(&peers.authority),
        revoked: (!revoked.as_os_str().is_empty()).then(|| folder.join(revoked)),
    }
}

/// Tells whether a text is `host:port`, without asking any name server.
fn has_port(address: &str) -> bool {
    if address.parse::<SocketAddr>().is_ok() {
        return true;
    }
    match address.rsplit_once(':') {
        Some((host, port)) => {
            let is_name = !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
            is_name && port.parse::<u16>().is_ok_and(|port| port > 0)
        }
        None => false,
    }
}
