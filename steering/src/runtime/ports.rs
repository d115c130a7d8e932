//! What strangers may cost a node at its own ports: limits, who is within them, and what was refused.
//!
//! Nothing here authenticates anybody. The limits see to it that whoever reaches the ports can make the node neither
//! remember nor wait for more than is said here; what is open goes on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::runtime::wire::FRAME_BYTES_MAX;

/// What is allowed at a node's own ports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PortLimits {
    /// How many connections that others opened may exist at once.
    pub connections_max: usize,
    /// How many of them may come from one address.
    pub connections_per_address_max: usize,
    /// How many of them may be of nodes that are not among the peers.
    pub stranger_connections_max: usize,
    /// How many may not have said who they are. Beyond it, the one that has been silent longest is closed.
    pub silent_max: usize,
    /// How long one may take to say who it is, and as long again for its first message.
    pub silent_timeout: Duration,
    /// The longest frame, and so the bytes of an incomplete one that are kept for each connection.
    pub frame_bytes_max: usize,
    /// The longest frame of a node that is not among the peers.
    pub stranger_frame_bytes_max: usize,
    /// The bytes that may wait on one connection while its next message is held.
    pub waiting_bytes_max: usize,
}

impl Default for PortLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            connections_per_address_max: 512,
            stranger_connections_max: 64,
            silent_max: 256,
            silent_timeout: Duration::from_secs(10),
            frame_bytes_max: FRAME_BYTES_MAX,
            stranger_frame_bytes_max: 64 << 10,
            waiting_bytes_max: 64 << 20,
        }
    }
}

/// What was refused at the ports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct PortCounts {
    /// Connections that were one too many.
    pub(super) crowded: u64,
    /// Connections that did not say in time who they are, or nothing after that.
    pub(super) silent: u64,
}

/// The connections that others opened.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) limits: PortLimits,
    open: Mutex<Open>,
    crowded: AtomicU64,
    silent: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// A connection's place among those that are allowed; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Admission {
    ports: Arc<Ports>,
    address: IpAddr,
}

impl Ports {
    pub(super) fn new(limits: PortLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            open: Mutex::default(),
            crowded: AtomicU64::new(0),
            silent: AtomicU64::new(0),
        })
    }

    /// Tells whether there is room for one more connection from an address.
    pub(super) fn has_room(&self, address: IpAddr) -> bool {
        let open = self.lock();
        let here = open.by_address.get(&address).copied().unwrap_or(0);
        open.total < self.limits.connections_max && here < self.limits.connections_per_address_max
    }

    /// Gives a connection a place. Whoever has just closed another may do so without asking for room.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Admission {
        let mut open = self.lock();
        open.total += 1;
        *open.by_address.entry(address).or_default() += 1;
        Admission {
            ports: Arc::clone(self),
            address,
        }
    }

    pub(super) fn count_crowded(&self) {
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_silent(&self) {
        self.silent.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> PortCounts {
        PortCounts {
            crowded: self.crowded.load(Ordering::Relaxed),
            silent: self.silent.load(Ordering::Relaxed),
        }
    }

    /// Locks even after a panic elsewhere: every change here is complete or did not happen.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admission {
    pub(super) fn ports(&self) -> &Ports {
        &self.ports
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut open = self.ports.lock();
        open.total -= 1;
        if let Some(count) = open.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_address_and_free_again() {
        let ports = Ports::new(PortLimits {
            connections_max: 3,
            connections_per_address_max: 2,
            ..PortLimits::default()
        });
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = ports.admit(a);
        let _second = ports.admit(a);
        assert!(!ports.has_room(a) && ports.has_room(b));
        let _third = ports.admit(b);
        assert!(!ports.has_room(b), "there are three");
        drop(first);
        assert!(ports.has_room(a) && ports.has_room(b));
    }
}
