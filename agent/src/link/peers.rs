//! QUIC to other agents: mutual TLS, dialled when there is something to say, kept while both live.
//!
//! A connection carries frames in both directions, on one stream per direction, in order. What is read is decoded at once
//! and bounded; the first malformed frame closes its connection. Who a peer is says its certificate and nothing else.
//!
//! Refusals are told in one line each, of many the first few and their number, and a peer that cannot be reached in one line
//! until it is reached again. A peer that asks too much is read from more slowly, and strangers that come too often are not
//! answered.

mod accept;
mod connection;
mod dial;
mod gate;
mod limits;
mod meter;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Endpoint, IdleTimeout, TransportConfig, VarInt};
use scry_protocol::NodeId;
use scry_protocol::limit::CHECKPOINT_FRAME_BYTES_MAX;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::certificate::Identity;
use crate::configuration::Peer;
use crate::daemon::Fact;

use gate::Gate;
pub(crate) use limits::{Limit, Rates};
use meter::Meter;
pub(crate) use meter::Place;
use told::Lines;

/// What one frame costs beside its own bytes, as the manager is told: a packet of its own (20 IP, 8 UDP, 11 QUIC header,
/// 7 stream frame, 16 authentication tag) and half an acknowledgement (30 of 60; QUIC acknowledges every second packet).
/// Too much for frames that share a packet, too little for checkpoints of many packets, which add some 60 bytes for each
/// 1 200; `scry_peer_udp_bytes` counts exactly.
pub(crate) const FRAME_OVERHEAD_BYTES: u64 = 92;

/// How many frames may wait for a peer.
const QUEUE_MAX: usize = 256;
/// How many bytes of frames may wait for a peer.
const QUEUE_BYTES_MAX: usize = 2 * CHECKPOINT_FRAME_BYTES_MAX;
/// How many peers there may be; certificates bound this already, so it is only for clusters gone wrong.
const PEERS_MAX: usize = 1024;

/// Where a connection that broke the rules is closed with.
const CLOSED_MALFORMED: VarInt = VarInt::from_u32(1);
/// A connection that another one replaced.
const CLOSED_REPLACED: VarInt = VarInt::from_u32(2);
/// The agent ends.
const CLOSED_SHUTDOWN: VarInt = VarInt::from_u32(3);
/// The certificate does not name a node that may be a peer.
const CLOSED_IDENTITY: VarInt = VarInt::from_u32(4);

/// The certificate is of the cluster, but its node is not among those that are known.
const CLOSED_NOT_MEMBER: VarInt = VarInt::from_u32(5);
/// The certificate has ended or was revoked while the connection was up.
const CLOSED_CERTIFICATE: VarInt = VarInt::from_u32(6);

/// How others are limited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerOptions {
    /// What one peer may ask of this agent.
    pub(crate) rates: Rates,
    /// How many handshakes a second before addresses must be shown; 0 for no limit.
    pub(crate) handshakes_per_second: u64,
}

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    /// It cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// TLS as configured is not enough for QUIC.
    #[error("TLS without the cipher that QUIC begins with: {0}")]
    Cipher(#[from] quinn::crypto::rustls::NoInitialCipherSuite),
}

/// The links to all other agents.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    me: NodeId,
    started: Instant,
    endpoint: Endpoint,
    options: PeerOptions,
    identity: Mutex<Current>,
    facts: mpsc::Sender<Fact>,
    addresses: Mutex<BTreeMap<NodeId, String>>,
    links: Mutex<BTreeMap<NodeId, Link>>,
    /// The connection to use for each peer, the newest first dialled or accepted.
    connections: Mutex<BTreeMap<NodeId, connection::Both>>,
    meters: Mutex<BTreeMap<NodeId, Arc<Meter>>>,
    gate: Mutex<Gate>,
    handshaking: AtomicUsize,
    lines: Lines,
    refused: AtomicU64,
    not_members: AtomicU64,
    retried: AtomicU64,
    ignored: AtomicU64,
}

/// What is shown to others and who is believed, as it is now.
#[derive(Debug)]
struct Current {
    identity: Identity,
    client: quinn::ClientConfig,
}

impl Current {
    fn new(identity: &Identity) -> Result<Self, BindError> {
        let mut client = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(
            Arc::clone(&identity.client),
        )?));
        client.transport_config(Arc::new(transport()));
        Ok(Self {
            identity: identity.clone(),
            client,
        })
    }
}

#[derive(Debug)]
struct Link {
    frames: mpsc::Sender<Vec<u8>>,
    queued_bytes: Arc<AtomicUsize>,
}

/// How things stand with one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerStanding {
    /// Whether a connection is up.
    pub(crate) connected: bool,
    /// Bytes of datagrams sent on the present connections, as QUIC counts them.
    pub(crate) udp_sent_bytes: u64,
    /// And received.
    pub(crate) udp_received_bytes: u64,
    /// How often it was not read from for a while because it was over a limit.
    pub(crate) slowed: u64,
    /// For how long in all.
    pub(crate) slowed_ms: u64,
}

/// How many were kept out, since the agent started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptOut {
    /// Connections that were refused, for whatever reason.
    pub(crate) refused: u64,
    /// Those of nodes of the cluster that are not known.
    pub(crate) not_members: u64,
    /// Handshakes that had to show their address first.
    pub(crate) retried: u64,
    /// Handshakes that were not answered.
    pub(crate) ignored: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peers {
    /// Binds the socket and starts to accept.
    ///
    /// # Errors
    ///
    /// When the address is in use.
    pub(crate) fn bind(
        me: NodeId,
        address: SocketAddr,
        identity: &Identity,
        known: &[Peer],
        options: PeerOptions,
        facts: mpsc::Sender<Fact>,
    ) -> Result<Self, BindError> {
        let endpoint = Endpoint::server(server(identity)?, address)
            .map_err(|source| BindError::Bind { address, source })?;
        let peers = Self {
            shared: Arc::new(Shared {
                me,
                started: Instant::now(),
                endpoint,
                options,
                identity: Mutex::new(Current::new(identity)?),
                facts,
                addresses: Mutex::default(),
                links: Mutex::default(),
                connections: Mutex::default(),
                meters: Mutex::default(),
                gate: Mutex::new(Gate::new(options.handshakes_per_second)),
                handshaking: AtomicUsize::new(0),
                lines: Lines::default(),
                refused: AtomicU64::new(0),
                not_members: AtomicU64::new(0),
                retried: AtomicU64::new(0),
                ignored: AtomicU64::new(0),
            }),
        };
        peers.set_known(known);
        tokio::spawn(accept::run(Arc::clone(&peers.shared)));
        tokio::spawn(told::run(Arc::clone(&peers.shared)));
        Ok(peers)
    }

    /// Returns where the agent waits for others.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.shared.endpoint.local_addr().ok()
    }

    /// Learns who the peers are and where. Connections that are up stay, unless their node is no longer one of them.
    pub(crate) fn set_known(&self, known: &[Peer]) {
        *lock(&self.shared.addresses) = known
            .iter()
            .map(|peer| (peer.id, peer.address.clone()))
            .collect();
        let connected: BTreeSet<NodeId> = lock(&self.shared.connections).keys().copied().collect();
        for peer in connected {
            if !self.shared.is_member(peer) {
                info!(%peer, "closed the link to a node that is no longer among `peers.known`");
                self.shared
                    .close(peer, CLOSED_NOT_MEMBER, b"not a member any longer");
            }
        }
    }

    /// Shows other certificates and believes others from now on. Connections of peers that are not believed any more are
    /// closed; returns how many.
    ///
    /// # Errors
    ///
    /// When TLS as configured is not enough for QUIC.
    pub(crate) fn set_identity(&self, identity: &Identity) -> Result<usize, BindError> {
        let current = Current::new(identity)?;
        self.shared
            .endpoint
            .set_server_config(Some(server(identity)?));
        *lock(&self.shared.identity) = current;
        Ok(self.close_unaccepted())
    }

    /// Closes connections of peers whose certificates have ended or were revoked, and returns how many.
    pub(crate) fn close_unaccepted(&self) -> usize {
        let identity = lock(&self.shared.identity).identity.clone();
        let mut unaccepted = Vec::new();
        for (peer, both) in lock(&self.shared.connections).iter() {
            for connection in both.all() {
                let chain = connection::chain_of(connection).unwrap_or_default();
                if let Err(why) = identity.accepts(&chain) {
                    unaccepted.push((*peer, connection.clone(), why));
                }
            }
        }
        for (peer, connection, why) in &unaccepted {
            warn!(%peer, "closed the link to a peer: its certificate counts no longer: {why}");
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            connection.close(CLOSED_CERTIFICATE, b"certificate");
        }
        unaccepted.len()
    }

    /// Counts time that the task that decides spent on a peer's frame.
    pub(crate) fn handle_work(&self, from: NodeId, elapsed: Duration) {
        self.shared.meter(from).handle_work(elapsed);
    }

    /// Queues a frame without waiting, and tells whether there was room.
    pub(crate) fn send(&self, to: NodeId, frame: Vec<u8>) -> bool {
        let mut links = lock(&self.shared.links);
        if !links.contains_key(&to) {
            if links.len() >= PEERS_MAX {
                return false;
            }
            let (frames, queue) = mpsc::channel(QUEUE_MAX);
            let queued_bytes = Arc::new(AtomicUsize::new(0));
            tokio::spawn(dial::run(
                Arc::clone(&self.shared),
                to,
                queue,
                Arc::clone(&queued_bytes),
            ));
            links.insert(
                to,
                Link {
                    frames,
                    queued_bytes,
                },
            );
        }
        let link = &links[&to];
        let bytes = frame.len();
        if link.queued_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > QUEUE_BYTES_MAX
            || link.frames.try_send(frame).is_err()
        {
            link.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if self.shared.may_tell("frames left out", &to.to_string()) {
                warn!(peer = %to, bytes, "a frame was left out: too many wait for this peer");
            }
            return false;
        }
        true
    }

    /// Returns how things stand with every peer that is known or connected.
    pub(crate) fn standing(&self) -> BTreeMap<NodeId, PeerStanding> {
        let known: Vec<NodeId> = lock(&self.shared.addresses).keys().copied().collect();
        let connections = lock(&self.shared.connections);
        let meters = lock(&self.shared.meters);
        known
            .into_iter()
            .chain(connections.keys().copied())
            .map(|node| {
                let standing = connections.get(&node).map(connection::Both::standing);
                let mut standing = standing.unwrap_or_default();
                if let Some(meter) = meters.get(&node) {
                    (standing.slowed, standing.slowed_ms) = meter.slowed();
                }
                (node, standing)
            })
            .collect()
    }

    /// Returns how many were kept out.
    pub(crate) fn kept_out(&self) -> KeptOut {
        let shared = &self.shared;
        KeptOut {
            refused: shared.refused.load(Ordering::Relaxed),
            not_members: shared.not_members.load(Ordering::Relaxed),
            retried: shared.retried.load(Ordering::Relaxed),
            ignored: shared.ignored.load(Ordering::Relaxed),
        }
    }

    /// Waits until what is queued is on its way, but not for long, and closes everything.
    pub(crate) async fn close(&self) {
        const WAIT: Duration = Duration::from_millis(500);
        let drained = async {
            while lock(&self.shared.links)
                .values()
                .any(|link| link.queued_bytes.load(Ordering::Relaxed) > 0)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(WAIT, drained).await;
        self.shared
            .endpoint
            .close(CLOSED_SHUTDOWN, b"shutting down");
        let _ = tokio::time::timeout(WAIT, self.shared.endpoint.wait_idle()).await;
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells whether a node may be a peer: if any are named, only these are.
    fn is_member(&self, node: NodeId) -> bool {
        let known = lock(&self.addresses);
        known.is_empty() || known.contains_key(&node)
    }

    /// Returns a peer's account. There are as many as there are certificates.
    fn meter(&self, peer: NodeId) -> Arc<Meter> {
        let mut meters = lock(&self.meters);
        let fresh = || Arc::new(Meter::new(self.options.rates));
        Arc::clone(meters.entry(peer).or_insert_with(fresh))
    }

    /// Tells whether a line about something is to be written, or there were many like it just before.
    fn may_tell(&self, what: &'static str, about: &str) -> bool {
        self.lines.note(self.now_ms(), what, about)
    }

    fn close(&self, peer: NodeId, code: VarInt, why: &[u8]) {
        if let Some(both) = lock(&self.connections).get(&peer) {
            for connection in both.all() {
                connection.close(code, why);
            }
        }
    }
}

fn server(identity: &Identity) -> Result<quinn::ServerConfig, BindError> {
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(
        Arc::clone(&identity.server),
    )?));
    server.transport_config(Arc::new(transport()));
    server.max_incoming(64);
    Ok(server)
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(1))
        .stream_receive_window(VarInt::from_u32(1 << 20))
        .receive_window(VarInt::from_u32(2 << 20))
        .datagram_receive_buffer_size(None)
        // Longer than the usual period: the frames of agents that ask each other every ten seconds keep their connection,
        // and nothing else need be sent.
        .keep_alive_interval(Some(Duration::from_secs(12)))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(20_000))));
    transport
}
