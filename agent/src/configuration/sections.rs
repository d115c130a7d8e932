//! The sections of `scry.toml`. The comment of a field is its reference text; `deploy/scry.toml` lists them all.

use std::collections::BTreeMap;
use std::path::PathBuf;

use scry::Strategy;
use scry_protocol::NodeId;
use scry_protocol::link::host::Isolate;
use serde::{Deserialize, Serialize};

/// Declares sections whose every field has a default.
macro_rules! sections {
    ($($(#[$outer:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr,)* })*) => {$(
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    )*};
}

sections! {
    /// Everything an operator may set.
    Configuration {
        /// Which node this is.
        node: Node = Node::default(),
        /// The link to the service beside this agent.
        host: Host = Host::default(),
        /// The links to other agents.
        peers: Peers = Peers::default(),
        /// Whose states are looked at.
        neighborhood: Neighborhood = Neighborhood::default(),
        /// How states are taken and gathered.
        checkpoint: Checkpoint = Checkpoint::default(),
        /// How far the future is searched.
        checker: Checker = Checker::default(),
        /// How well clocks and timers are kept.
        clock: Clock = Clock::default(),
        /// What must hold.
        properties: Properties = Properties::default(),
        /// What is done about a predicted violation.
        steering: Steering = Steering::default(),
        /// The check before each handler.
        safety: Safety = Safety::default(),
        /// The steering log.
        log: Log = Log::default(),
        /// The local interface of operators.
        admin: Admin = Admin::default(),
    }

    /// `[node]`
    Node {
        /// The node's id, the same as in its certificate. It has no default.
        id: Option<NodeId> = None,
    }

    /// `[host]`
    Host {
        /// The socket on which the agent waits for the service. Made with mode 0600.
        socket: PathBuf = "/run/scry/host.sock".into(),
        /// The numeric id of the user the service runs as, who then owns the socket; -1 for the agent's own user.
        user: i64 = -1,
    }

    /// `[peers]`
    Peers {
        /// Where the agent waits for others, UDP; empty for an agent that has no peers.
        listen: String = "0.0.0.0:7700".to_owned(),
        /// This node's certificate, PEM. A relative path starts from this file's folder.
        certificate: PathBuf = "/etc/scry/node.pem".into(),
        /// Its key, PEM, readable by nobody else.
        key: PathBuf = "/etc/scry/node.key".into(),
        /// The cluster's authority, PEM: whoever it signed may be a peer.
        authority: PathBuf = "/etc/scry/authority.pem".into(),
        /// The certificates that count no longer, PEM, made by `scry cert revoke`; empty for no such list. These files are
        /// loaded anew when they change.
        revoked: PathBuf = PathBuf::new(),
        /// The nodes whose agents this one may ask, as { id = 2, address = "host:port" }. The node itself may be among them.
        /// If other nodes are named, these alone are peers; with none, whoever the authority signed. A snapshot that shows all
        /// of them counts as the whole service.
        known: Vec<Peer> = Vec::new(),
        /// Frames a second that are read from one peer, 0 for no limit. Beyond, it has to wait.
        frames_per_second: u64 = 500,
        /// Bytes of frames a second that are read from one peer, 0 for no limit.
        bytes_per_second: u64 = 64 << 20,
        /// Thousandths of its time that the agent spends on the frames of one peer, 0 for no limit.
        work_per_mille: u64 = 100,
        /// Handshakes a second that others may begin before they must show that they can be reached at their address, 0 for no
        /// limit.
        handshakes_per_second: u64 = 50,
    }

    /// `[neighborhood]`
    Neighborhood {
        /// `service`: the service is asked. `list`: `members` below. `observed`: whom the node speaks with.
        source: Source = Source::Service,
        /// The neighbors, for `list`.
        members: Vec<NodeId> = Vec::new(),
        /// How many neighbors are looked at, at most 511. Of more, the first that the service or `members` lists, or those seen
        /// last; how many are left out is told.
        neighbors_max: usize = 127,
        /// For `observed`: a silence of more than this separates clusters of contacts.
        gap_ms: u64 = 5_000,
        /// For `observed`: a cluster of fewer nodes is too small.
        size_min: usize = 2,
        /// For `observed`: older contacts do not count.
        age_max_ms: u64 = 60_000,
    }

    /// `[checkpoint]`
    Checkpoint {
        /// How often a snapshot is gathered; 0 for never by itself.
        period_ms: u64 = 10_000,
        /// Whether each period gathers a snapshot, or only takes a checkpoint for others.
        gather: bool = true,
        /// Bytes of own checkpoints that are kept.
        store_bytes: usize = 16 << 20,
        /// Bytes of other nodes' checkpoints that are kept, and as many of those sent to them, so that only what changed is
        /// sent. With less, whole states are sent more often.
        peers_bytes: usize = 64 << 20,
        /// Bits a second that may be sent to other agents; 0 for no limit.
        bits_per_second: u64 = 0,
        /// How many bytes of it may be sent at once after a quiet time.
        burst_bytes: u64 = 256 << 10,
        /// Thousandths of all that the node sends which checkpoints may be; 0 for no limit.
        share_per_mille: u32 = 0,
        /// Over the last so many milliseconds.
        share_window_ms: u64 = 10_000,
        /// The most rounds of asking in one snapshot.
        rounds_max: u32 = 4,
        /// The longest a round waits for answers.
        round_ms: u64 = 2_000,
        /// How often gathering starts anew because the neighborhood changed.
        restarts_max: u32 = 2,
        /// How many snapshots may be gathered at once.
        gathers_max: usize = 4,
        /// How long the service may take to give a checkpoint.
        host_wait_ms: u64 = 1_000,
        /// How many requests of peers may wait for the service.
        waiting_max: usize = 256,
    }

    /// `[checker]`
    Checker {
        /// What is started as the checker; empty for the executable of the service that is attached.
        command: Vec<String> = Vec::new(),
        /// How it searches: the name of a strategy, as `check --help` of the service lists them.
        strategy: String = Strategy::PORTFOLIO.name().to_owned(),
        /// What is done about properties that must come true again and again and, as is proved, soon never can. `off`: it is not
        /// looked for. `audit`: it is predicted and reported. `steer`: it is prevented, where the mode of the property allows it.
        /// Unless it is off, a filter that would lead there is refused, whatever it is for.
        liveness: Mode = Mode::Audit,
        /// How long one search may take.
        time_ms: u64 = 5_000,
        /// How much longer it may stay silent before it is killed.
        grace_ms: u64 = 5_000,
        /// How many states one search may visit.
        states: u64 = 10_000_000,
        /// How many events a path may have.
        depth: u32 = 64,
        /// How much memory it may use.
        memory_bytes: u64 = 1 << 30,
        /// How many violations one search may report.
        violations: u32 = 16,
        /// Whether it runs only while a processor has nothing else to do: then it takes no time from the service, and finds less on a machine that is busy.
        idle: bool = true,
        /// How far its priority is lowered if it is not `idle`, 0 to 19.
        nice: i32 = 10,
        /// With how many threads it searches.
        threads: usize = 1,
        /// The faults a path may contain.
        faults: Faults = Faults::default(),
    }

    /// `[checker.faults]`
    Faults {
        /// Resets of nodes that their peers are told of.
        resets: u8 = 1,
        /// Resets nobody is told of.
        silent_resets: u8 = 0,
        /// Connections that break.
        breaks: u8 = 0,
        /// Datagrams that are lost.
        losses: u8 = 0,
        /// Datagrams that arrive twice.
        duplicates: u8 = 0,
        /// Nodes that are down for a while: not up yet, or started late.
        late_starts: u8 = 0,
    }

    /// `[clock]`
    Clock {
        /// `fit`: a predicted path counts only if there are times for its events. `free`: timers fire in any order.
        time: Time = Time::Fit,
        /// How much later than it was set to a timer may fire.
        late_ms: u64 = 100,
        /// How far a node's clock may be from the true time.
        skew_ms: u64 = 0,
        /// How many millionths too fast or too slow a clock may run, at most 500000.
        drift_ppm: u32 = 0,
    }

    /// `[properties]`
    Properties {
        /// The property file; empty for the properties of the service itself.
        file: PathBuf = PathBuf::new(),
        /// Modes of single properties, by name. The lowest of this, the global mode, the property file's and what an operator
        /// sets counts. A name that no property has is an error.
        modes: BTreeMap<String, Mode> = BTreeMap::new(),
    }

    /// `[steering]`
    Steering {
        /// `off`: nothing. `audit`: predict and report. `steer`: prevent.
        mode: Mode = Mode::Audit,
        /// How long a filter lasts unless it is proved anew.
        ttl_ms: u64 = 30_000,
        /// How often a filter may act.
        hits_max: u64 = 1_000,
        /// Per cent of the node's actions that may be lost for the sake of one property. Beyond that, or if the service gets
        /// only half as much done, the property is in audit for a while; 0 for no limit.
        harm_max: u32 = 3,
        /// How long it then stays in audit; 0 until an operator sets a mode.
        harm_pause_ms: u64 = 600_000,
        /// Which filter is taken if several prevent a violation: `least-harm`, the one that takes the least from the service;
        /// `earliest`, the one that acts on the earliest event.
        order: Order = Order::LeastHarm,
        /// Whether the service is told of a prediction first, and may handle it itself instead of a filter.
        tell_service: bool = false,
        /// While this file is there and does not say `on`, nothing is steered: the service looks for it too. Empty for none.
        /// A relative path starts from this file's folder.
        kill_file: PathBuf = "/run/scry/off".into(),
        /// A second such file, for one that is mounted: a ConfigMap that says `off`. Empty for none.
        switch_file: PathBuf = PathBuf::new(),
    }

    /// `[safety]`
    Safety {
        /// How a handler is tried before it runs: `off`, `speculator`, `clone` or `fork`.
        isolate: Isolation = Isolation::Speculator,
        /// How long that may take before the event runs without a verdict.
        deadline_ms: u64 = 50,
        /// How old the neighbors' states may be to judge by.
        surroundings_age_ms: u64 = 30_000,
        /// How long an event that seems to break a property may be held until the neighbors have said what their states
        /// are now. With 0 nothing is held, and nothing is refused because of a neighbor's state.
        hold_ms: u64 = 20,
        /// How many thousandths of its time the service may wait for the check, and a sixth of that for `speculator` and `fork`;
        /// beyond, events are tried on a clone, or not at all.
        time_share_per_mille: u32 = 20,
    }

    /// `[log]`
    Log {
        /// Where the steering log and the traces of violations are written.
        directory: PathBuf = "/var/log/scry".into(),
        /// The size at which a new log file begins.
        rotate_bytes: u64 = 16 << 20,
        /// How many older files are kept.
        keep: u32 = 8,
        /// How many traces of violations are kept.
        traces: usize = 200,
    }

    /// `[admin]`
    Admin {
        /// A loopback address with port, or the path of a socket. Commands such as `scry status` use it.
        listen: String = "127.0.0.1:7701".to_owned(),
        /// A further address with port at which metrics and health can be read, and nothing be changed; empty for none. Anybody who reaches it may read.
        metrics_listen: String = String::new(),
    }
}

/// One of `peers.known`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    /// The node.
    pub(crate) id: NodeId,
    /// Where its agent waits, `host:port`.
    pub(crate) address: String,
}

/// Where the neighborhood comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// The service is asked.
    Service,
    /// It is written down.
    List,
    /// It is read off the traffic.
    Observed,
}

/// Whether paths must fit in time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Time {
    /// They must.
    Fit,
    /// Every order of timers and every answer about time is possible.
    Free,
}

/// How much may be done.
#[derive(
    Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Nothing.
    Off,
    /// Predict and report.
    Audit,
    /// Prevent.
    Steer,
}

/// Which filter is taken if several prevent a violation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// The one that takes the least from the service.
    LeastHarm,
    /// The one that acts on the earliest event.
    Earliest,
}

/// How a handler is tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Isolation {
    /// It is not.
    Off,
    /// In a small process that forks.
    Speculator,
    /// On a clone of the state.
    Clone,
    /// In a fork of the service.
    Fork,
}

impl From<Mode> for scry_protocol::filter::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Off => Self::Off,
            Mode::Audit => Self::Audit,
            Mode::Steer => Self::Steer,
        }
    }
}

impl From<scry::properties::Mode> for Mode {
    fn from(mode: scry::properties::Mode) -> Self {
        match mode {
            scry::properties::Mode::Off => Self::Off,
            scry::properties::Mode::Audit => Self::Audit,
            scry::properties::Mode::Steer => Self::Steer,
        }
    }
}

impl From<Order> for scry_protocol::link::checker::Order {
    fn from(order: Order) -> Self {
        match order {
            Order::LeastHarm => Self::LeastHarm,
            Order::Earliest => Self::Earliest,
        }
    }
}

impl From<Isolation> for Isolate {
    fn from(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Off => Self::Off,
            Isolation::Speculator => Self::Speculator,
            Isolation::Clone => Self::Clone,
            Isolation::Fork => Self::Fork,
        }
    }
}
