//! What a node is started with.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use scry_protocol::NodeId;

use crate::hook;
use crate::runtime::clock::TimeOfDay;
use crate::runtime::disk::DiskOptions;
use crate::runtime::emulation::Emulation;
use crate::runtime::guard::Guard;
use crate::runtime::ports::PortLimits;
use scry_engine::service::Service;

/// How late a network may be: TCP gives up on what is not acknowledged after as long by default (RFC 9293, the user timeout),
/// so that whoever uses connections has to bear with it.
pub const LATE_MAX: Duration = Duration::from_secs(300);

/// What a node is started with.
pub struct Options<S: Service> {
    /// Which node it is.
    pub me: NodeId,
    /// The service's own settings.
    pub setup: S::Setup,
    /// Where it listens, by TCP and UDP alike; port 0 for any that is free.
    pub listen: SocketAddr,
    /// The members of the service, and where they are. More can be named later.
    ///
    /// The stamps of others do not count: what they send is handled, and they are not judged with.
    pub peers: BTreeMap<NodeId, SocketAddr>,
    /// Where it keeps what survives its process; without, that survives resets only.
    pub disk: Option<DiskOptions>,
    /// What its dice and emulated links are drawn from; without, from the machine's own randomness.
    pub seed: Option<u64>,
    /// What is done to all its links on purpose.
    pub emulation: Emulation,
    /// How it speaks with its agent, and stamps its messages; without, it does neither.
    pub hook: Option<hook::Options>,
    /// What looks at every event before its handler does.
    pub guard: Option<Box<dyn Guard<S>>>,
    /// For how long at most a guard may have something kept on its connection because all else would break something: a
    /// message, or the news that the connection is lost.
    pub late_max: Duration,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// How many bytes may wait to be sent on one connection before it counts as failed.
    pub queue_bytes_max: usize,
    /// What strangers may cost it at its ports.
    pub limits: PortLimits,
    /// Where the time of day comes from.
    pub time_of_day: TimeOfDay,
    /// How many reports may wait for a watcher before it misses some.
    pub reports_max: usize,
}

impl<S: Service> Options<S> {
    /// Makes options for a node that listens on the loopback and knows nobody yet.
    pub fn new(me: NodeId, setup: S::Setup) -> Self {
        Self {
            me,
            setup,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            peers: BTreeMap::new(),
            disk: None,
            seed: None,
            emulation: Emulation::default(),
            hook: None,
            guard: None,
            late_max: LATE_MAX,
            connect_timeout: Duration::from_secs(5),
            queue_bytes_max: 64 << 20,
            limits: PortLimits::default(),
            time_of_day: TimeOfDay::of_machine(),
            reports_max: 1 << 16,
        }
    }
}

impl<S: Service> fmt::Debug for Options<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("me", &self.me)
            .field("listen", &self.listen)
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}
