//! Connections that others open.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quinn::Incoming;
use tracing::warn;

use super::connection::{self, Opener};
use super::gate::Admission;
use super::{CLOSED_IDENTITY, CLOSED_NOT_MEMBER, Shared, lock};
use crate::link::shown;

/// How long a handshake may take.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(5);
/// How many connections may be open at once.
const CONNECTIONS_MAX: usize = 2 * super::PEERS_MAX;
/// How many of them may be in their handshake.
const HANDSHAKES_MAX: usize = 128;

/// Accepts until the endpoint closes.
pub(super) async fn run(shared: Arc<Shared>) {
    while let Some(incoming) = shared.endpoint.accept().await {
        let is_full = shared.endpoint.open_connections() >= CONNECTIONS_MAX
            || shared.handshaking.load(Ordering::Relaxed) >= HANDSHAKES_MAX;
        let address = incoming.remote_address().ip();
        let is_reached = incoming.remote_address_validated();
        let admission = match is_full {
            true => Admission::Ignore,
            false => {
                let now_ms = shared.now_ms();
                lock(&shared.gate).handle_attempt(now_ms, address, is_reached)
            }
        };
        match admission {
            Admission::Admit => {
                shared.handshaking.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(accept(Arc::clone(&shared), incoming));
            }
            Admission::Retry => {
                shared.retried.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = incoming.retry() {
                    error.into_incoming().ignore();
                }
            }
            Admission::Ignore => {
                shared.ignored.fetch_add(1, Ordering::Relaxed);
                incoming.ignore();
            }
        }
    }
}

/// Finds out who it is, and says in one line why it is not let in.
async fn accept(shared: Arc<Shared>, incoming: Incoming) {
    let address = incoming.remote_address();
    let refused = |why: String| {
        shared.count_refused();
        if shared.may_tell("refused connections", &address.ip().to_string()) {
            warn!(%address, "refused a peer: {why}");
        }
    };
    let handshake = tokio::time::timeout(HANDSHAKE_WAIT, incoming).await;
    shared.handshaking.fetch_sub(1, Ordering::Relaxed);
    let connection = match handshake {
        Err(_) => return refused("its handshake took too long".to_owned()),
        Ok(Err(error)) => return refused(shown(&error.to_string())),
        Ok(Ok(connection)) => connection,
    };
    match connection::peer_of(&connection) {
        Ok(peer) if peer == shared.me => {
            connection.close(CLOSED_IDENTITY, b"this node's own certificate");
            refused(format!("its certificate names {peer}, which is this node"));
        }
        Ok(peer) if !shared.is_member(peer) => {
            connection.close(CLOSED_NOT_MEMBER, b"not a member");
            shared.not_members.fetch_add(1, Ordering::Relaxed);
            refused(format!("{peer} is not among `peers.known`"));
        }
        Ok(peer) => connection::adopt(&shared, peer, Opener::There, &connection),
        Err(error) => {
            connection.close(CLOSED_IDENTITY, b"no node");
            refused(format!("its certificate does not do: {error}"));
        }
    }
}
