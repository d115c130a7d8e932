//! One connection: who is at its other end, and the frames that come from there.

use std::sync::Arc;
use std::time::Instant;

use quinn::{Connection, ReadError, RecvStream};
use rustls::pki_types::CertificateDer;
use scry_protocol::NodeId;
use scry_protocol::frame::{self, DecodeError};
use scry_protocol::link::peer::PeerMessage;
use tracing::{debug, info, warn};

use super::{CLOSED_MALFORMED, CLOSED_REPLACED, PeerStanding, Shared, lock};
use crate::certificate::{self, CertificateError};
use crate::daemon::Fact;
use crate::link::shown;

/// How many bytes are taken from a stream at once.
const READ_BYTES: usize = 64 << 10;

/// Who opened a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Opener {
    /// This agent.
    Here,
    /// The peer.
    There,
}

/// The connections to one peer: at most one opened by each side, because both may dial at the same moment.
#[derive(Debug, Default)]
pub(super) struct Both {
    here: Option<Connection>,
    there: Option<Connection>,
    newest: Option<Opener>,
}

impl Both {
    fn side(&mut self, opener: Opener) -> &mut Option<Connection> {
        match opener {
            Opener::Here => &mut self.here,
            Opener::There => &mut self.there,
        }
    }

    fn live(&self) -> impl Iterator<Item = &Connection> {
        let (first, second) = match self.newest {
            Some(Opener::Here) => (&self.here, &self.there),
            _ => (&self.there, &self.here),
        };
        [first, second]
            .into_iter()
            .flatten()
            .filter(|connection| connection.close_reason().is_none())
    }

    /// Returns the connections that were not closed yet.
    pub(super) fn all(&self) -> impl Iterator<Item = &Connection> {
        self.live()
    }

    /// Returns what to send on.
    pub(super) fn best(&self) -> Option<Connection> {
        self.live().next().cloned()
    }

    /// Sums up what the connections say of themselves.
    pub(super) fn standing(&self) -> PeerStanding {
        let mut standing = PeerStanding::default();
        for connection in self.live() {
            let stats = connection.stats();
            standing.connected = true;
            standing.udp_sent_bytes += stats.udp_tx.bytes;
            standing.udp_received_bytes += stats.udp_rx.bytes;
        }
        standing
    }
}

/// Returns the node that the certificate at the other end names.
pub(super) fn peer_of(connection: &Connection) -> Result<NodeId, CertificateError> {
    let chain = chain_of(connection).ok_or(CertificateError::Malformed)?;
    certificate::node_of(chain.first().ok_or(CertificateError::Malformed)?)
}

/// Returns the certificates at the other end.
pub(super) fn chain_of(connection: &Connection) -> Option<Vec<CertificateDer<'static>>> {
    let identity = connection.peer_identity()?;
    let chain = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    Some(*chain)
}

/// Takes a connection into use and reads it until it ends.
pub(super) fn adopt(shared: &Arc<Shared>, peer: NodeId, opener: Opener, connection: &Connection) {
    let replaced = {
        let mut connections = lock(&shared.connections);
        let both = connections.entry(peer).or_default();
        both.newest = Some(opener);
        both.side(opener).replace(connection.clone())
    };
    if let Some(old) = replaced {
        old.close(CLOSED_REPLACED, b"replaced");
    }
    if shared.may_tell("connections", &peer.to_string()) {
        info!(%peer, address = %connection.remote_address(), "a peer is connected");
    }
    tokio::spawn(read(Arc::clone(shared), peer, connection.clone()));
}

async fn read(shared: Arc<Shared>, peer: NodeId, connection: Connection) {
    let up = Fact::PeerUp {
        peer,
        address: connection.remote_address().to_string(),
    };
    if shared.facts.send(up).await.is_err() {
        return;
    }
    while let Ok(stream) = connection.accept_uni().await {
        if let Err(error) = read_stream(&shared, peer, stream).await {
            shared.count_refused();
            if shared.may_tell("closed links", &peer.to_string()) {
                warn!(%peer, address = %connection.remote_address(), "closed the link to a peer: {}", shown(&error.to_string()));
            }
            connection.close(CLOSED_MALFORMED, b"malformed");
        }
    }
    let reason = connection.closed().await;
    let is_last = {
        let mut connections = lock(&shared.connections);
        let is_last = connections
            .get(&peer)
            .is_none_or(|both| both.best().is_none());
        if is_last {
            connections.remove(&peer);
        }
        is_last
    };
    debug!(%peer, reason = shown(&reason.to_string()), "a connection to a peer ended");
    if is_last {
        // If nobody listens any more, the agent ends.
        let why = shown(&reason.to_string());
        let _ = shared.facts.send(Fact::PeerLost { peer, why }).await;
    }
}

/// Reads frames, and returns an error only for what the peer did wrong.
async fn read_stream(
    shared: &Shared,
    peer: NodeId,
    mut stream: RecvStream,
) -> Result<(), DecodeError> {
    let meter = shared.meter(peer);
    let mut buffer: Vec<u8> = Vec::new();
    loop {
        match stream.read_chunk(READ_BYTES, true).await {
            Ok(Some(chunk)) => buffer.extend_from_slice(&chunk.bytes),
            Ok(None) if buffer.is_empty() => return Ok(()),
            Ok(None) => {
                return Err(DecodeError::Truncated { have: buffer.len() });
            }
            Err(ReadError::Reset(_)) if !buffer.is_empty() => {
                return Err(DecodeError::Truncated { have: buffer.len() });
            }
            // The connection is gone: that is nobody's fault.
            Err(_) => return Ok(()),
        }
        let mut used = 0;
        loop {
            let begun = Instant::now();
            let decoded = frame::decode::<PeerMessage>(&buffer[used..])?;
            meter.handle_work(begun.elapsed());
            let Some((message, length)) = decoded else {
                break;
            };
            // A peer that asks too much is not read from for a while, and waits.
            let place = meter.admit(length).await;
            let fact = Fact::Peer {
                from: peer,
                message: Box::new(message),
                frame_bytes: length,
                place,
            };
            used += length;
            if shared.facts.send(fact).await.is_err() {
                return Ok(());
            }
        }
        buffer.drain(..used);
    }
}
