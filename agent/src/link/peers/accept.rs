//! Connections that others open.

use std::sync::Arc;
use std::time::Duration;

use quinn::Incoming;
use tracing::warn;

use super::connection::{self, Opener};
use super::{CLOSED_IDENTITY, Shared};
use crate::link::shown;

/// How long a handshake may take.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(5);
/// How many connections may be open at once, half of them in their handshake at most.
const CONNECTIONS_MAX: usize = 2 * super::PEERS_MAX;

/// Accepts until the endpoint closes.
pub(super) async fn run(shared: Arc<Shared>) {
    while let Some(incoming) = shared.endpoint.accept().await {
        if shared.endpoint.open_connections() >= CONNECTIONS_MAX {
            incoming.ignore();
            continue;
        }
        tokio::spawn(let_in(Arc::clone(&shared), incoming));
    }
}

/// Finds out who it is, and says in one line why it is not let in.
async fn let_in(shared: Arc<Shared>, incoming: Incoming) {
    let address = incoming.remote_address();
    let refused = |why: String| {
        shared.count_refused();
        warn!(%address, "refused a peer: {why}");
    };
    let connection = match tokio::time::timeout(HANDSHAKE_WAIT, incoming).await {
        Err(_) => return refused("its handshake took too long".to_owned()),
        Ok(Err(error)) => return refused(shown(&error.to_string())),
        Ok(Ok(connection)) => connection,
    };
    match connection::peer_of(&connection) {
        Ok(peer) if peer == shared.me => {
            connection.close(CLOSED_IDENTITY, b"this node's own certificate");
            refused(format!("its certificate names {peer}, which is this node"));
        }
        Ok(peer) => connection::adopt(&shared, peer, Opener::There, &connection),
        Err(error) => {
            connection.close(CLOSED_IDENTITY, b"no node");
            refused(format!("its certificate does not do: {error}"));
        }
    }
}
