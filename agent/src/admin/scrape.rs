//! The listener for scraping: metrics and health, for whoever reaches the address, and nothing that changes anything.
//!
//! It is off unless `admin.metrics_listen` names an address. Everything else an operator may do stays on the machine.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::bounded::{Bounded, Bounds};
use super::{Admin, ServeError, live, metrics, ready};
use crate::daemon::Fact;

/// How many may ask at once, and how long each may take. Fewer and shorter than for operators: a scrape takes a moment.
const BOUNDS: Bounds = Bounds {
    connections_max: 16,
    silence_max: Duration::from_secs(5),
    life_max: Duration::from_secs(10),
};
/// How many bytes a request may have beside its headers, which hyper bounds.
const REQUEST_BYTES_MAX: usize = 0;

/// Starts to serve, and returns where.
///
/// # Errors
///
/// When the address cannot be used.
pub(crate) async fn serve(
    address: SocketAddr,
    facts: mpsc::Sender<Fact>,
    mut shutdown: watch::Receiver<bool>,
) -> Result<SocketAddr, ServeError> {
    let router = Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .layer(map_response(once))
        .layer(axum::extract::DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(Admin { facts });
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Bind { address, source })?;
    let bound = listener
        .local_addr()
        .map_err(|source| ServeError::Bind { address, source })?;
    let listener = Bounded::new(listener, BOUNDS);
    let stopped = async move {
        let _ = shutdown.wait_for(|stop| *stop).await;
    };
    tokio::spawn(async move {
        let _ = axum::serve(listener, router)
            .with_graceful_shutdown(stopped)
            .await;
    });
    Ok(bound)
}

/// One request for each connection: a place that is kept for the next scrape would be kept from others.
async fn once(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}
