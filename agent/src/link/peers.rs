//! QUIC to other agents: mutual TLS, dialled when there is something to say, kept while both live.
//!
//! A connection carries frames in both directions, on one stream per direction, in order. What is read is decoded at once
//! and bounded; the first malformed frame closes its connection. Who a peer is says its certificate and nothing else.
//!
//! Refusals are told in one line each, and a peer that cannot be reached in one line until it is reached again.

mod accept;
mod connection;
mod dial;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Endpoint, IdleTimeout, TransportConfig, VarInt};
use scry_protocol::NodeId;
use scry_protocol::limit::CHECKPOINT_FRAME_BYTES_MAX;
use tokio::sync::mpsc;
use tracing::warn;

use crate::certificate::Identity;
use crate::configuration::Peer;
use crate::daemon::Fact;

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
    endpoint: Endpoint,
    facts: mpsc::Sender<Fact>,
    addresses: Mutex<BTreeMap<NodeId, String>>,
    links: Mutex<BTreeMap<NodeId, Link>>,
    /// The connection to use for each peer, the newest first dialled or accepted.
    connections: Mutex<BTreeMap<NodeId, connection::Both>>,
    refused: std::sync::atomic::AtomicU64,
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
        facts: mpsc::Sender<Fact>,
    ) -> Result<Self, BindError> {
        let mut server = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(
            Arc::clone(&identity.server),
        )?));
        let mut client = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(
            Arc::clone(&identity.client),
        )?));
        let transport = Arc::new(transport());
        server.transport_config(Arc::clone(&transport));
        server.max_incoming(64);
        client.transport_config(transport);
        let mut endpoint = Endpoint::server(server, address)
            .map_err(|source| BindError::Bind { address, source })?;
        endpoint.set_default_client_config(client);
        let peers = Self {
            shared: Arc::new(Shared {
                me,
                endpoint,
                facts,
                addresses: Mutex::default(),
                links: Mutex::default(),
                connections: Mutex::default(),
                refused: std::sync::atomic::AtomicU64::new(0),
            }),
        };
        peers.set_known(known);
        tokio::spawn(accept::run(Arc::clone(&peers.shared)));
        Ok(peers)
    }

    /// Returns where the agent waits for others.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.shared.endpoint.local_addr().ok()
    }

    /// Learns where peers are from now on. Connections that are up stay.
    pub(crate) fn set_known(&self, known: &[Peer]) {
        *lock(&self.shared.addresses) = known
            .iter()
            .map(|peer| (peer.id, peer.address.clone()))
            .collect();
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
            warn!(peer = %to, bytes, "a frame was left out: too many wait for this peer");
            return false;
        }
        true
    }

    /// Returns how things stand with every peer that is known or connected.
    pub(crate) fn standing(&self) -> BTreeMap<NodeId, PeerStanding> {
        let known: Vec<NodeId> = lock(&self.shared.addresses).keys().copied().collect();
        let connections = lock(&self.shared.connections);
        known
            .into_iter()
            .chain(connections.keys().copied())
            .map(|node| {
                let standing = connections.get(&node).map(connection::Both::standing);
                (node, standing.unwrap_or_default())
            })
            .collect()
    }

    /// Returns how many connections were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
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
    fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
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
