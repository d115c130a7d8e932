//! Frames to one peer, over the connection that is there or a new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quinn::{Connection, SendStream};
use scry_protocol::NodeId;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::connection::{self, Opener};
use super::{CLOSED_IDENTITY, Shared, lock};
use crate::certificate;
use crate::daemon::Fact;
use crate::link::shown;

/// How long dialling may take.
const DIAL_WAIT: Duration = Duration::from_secs(3);
/// How long after a failure the next attempt comes at the earliest, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// How often it failed since it last worked, and what is known of why.
struct Failures {
    said: Option<String>,
    pause: Duration,
    next: Option<Instant>,
}

/// Writes frames until the agent ends.
pub(super) async fn run(
    shared: Arc<Shared>,
    peer: NodeId,
    mut queue: mpsc::Receiver<Vec<u8>>,
    queued_bytes: Arc<AtomicUsize>,
) {
    let mut stream: Option<(usize, SendStream)> = None;
    let mut failures = Failures {
        said: None,
        pause: PAUSE_MIN,
        next: None,
    };
    while let Some(frame) = queue.recv().await {
        let sent = write(&shared, peer, &mut stream, &mut failures, &frame).await;
        queued_bytes.fetch_sub(frame.len(), Ordering::Relaxed);
        match sent {
            Ok(()) => failures.said = None,
            Err(why) => {
                stream = None;
                failures.tell(peer, why.clone());
                // Whoever waits for an answer waits for nothing.
                let _ = shared.facts.send(Fact::PeerLost { peer, why }).await;
            }
        }
    }
}

impl Failures {
    fn tell(&mut self, peer: NodeId, why: String) {
        if self.said.as_ref() == Some(&why) {
            debug!(%peer, "still cannot reach a peer: {why}");
        } else {
            warn!(%peer, "cannot reach a peer: {why}");
            self.said = Some(why);
        }
    }
}

async fn write(
    shared: &Arc<Shared>,
    peer: NodeId,
    stream: &mut Option<(usize, SendStream)>,
    failures: &mut Failures,
    frame: &[u8],
) -> Result<(), String> {
    let connection = match best(shared, peer) {
        Some(connection) => connection,
        None => dial(shared, peer, failures).await?,
    };
    let id = connection.stable_id();
    let sending = match stream {
        Some((on, sending)) if *on == id => sending,
        _ => {
            let opened = tokio::time::timeout(DIAL_WAIT, connection.open_uni())
                .await
                .map_err(|_| "it lets no stream be opened".to_owned())?
                .map_err(|error| shown(&error.to_string()))?;
            &mut stream.insert((id, opened)).1
        }
    };
    // A peer that does not read holds up its own frames only, and not for ever.
    match tokio::time::timeout(Duration::from_secs(10), sending.write_all(frame)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(connection.close_reason().map_or_else(
            || shown(&error.to_string()),
            |reason| shown(&reason.to_string()),
        )),
        Err(_) => {
            connection.close(CLOSED_IDENTITY, b"does not read");
            Err("it does not read".to_owned())
        }
    }
}

fn best(shared: &Shared, peer: NodeId) -> Option<Connection> {
    lock(&shared.connections).get(&peer)?.best()
}

async fn dial(
    shared: &Arc<Shared>,
    peer: NodeId,
    failures: &mut Failures,
) -> Result<Connection, String> {
    let address = lock(&shared.addresses).get(&peer).cloned();
    let Some(address) = address else {
        return Err("its address is not known".to_owned());
    };
    if failures.next.is_some_and(|next| Instant::now() < next) {
        return Err(failures.said.clone().unwrap_or_default());
    }
    let attempt = attempt(shared, peer, &address);
    let outcome = tokio::time::timeout(DIAL_WAIT, attempt)
        .await
        .unwrap_or_else(|_| Err("it does not answer".to_owned()));
    match outcome {
        Ok(connection) => {
            failures.pause = PAUSE_MIN;
            failures.next = None;
            connection::adopt(shared, peer, Opener::Here, &connection);
            Ok(connection)
        }
        Err(why) => {
            failures.next = Some(Instant::now() + failures.pause);
            failures.pause = (failures.pause * 2).min(PAUSE_MAX);
            Err(why)
        }
    }
}

async fn attempt(shared: &Shared, peer: NodeId, address: &str) -> Result<Connection, String> {
    let mut addresses = tokio::net::lookup_host(address)
        .await
        .map_err(|error| format!("{address}: {error}"))?;
    let address = addresses
        .next()
        .ok_or_else(|| format!("{address} has no address"))?;
    // TLS holds the certificate against this name, so that no other node can stand in.
    let config = lock(&shared.identity).client.clone();
    let connection = shared
        .endpoint
        .connect_with(config, address, &certificate::name(peer))
        .map_err(|error| shown(&error.to_string()))?
        .await
        .map_err(|error| shown(&error.to_string()))?;
    match connection::peer_of(&connection) {
        Ok(named) if named == peer => Ok(connection),
        Ok(named) => {
            connection.close(CLOSED_IDENTITY, b"another node");
            Err(format!("its certificate names {named}"))
        }
        Err(error) => {
            connection.close(CLOSED_IDENTITY, b"no node");
            Err(format!("its certificate does not do: {error}"))
        }
    }
}
