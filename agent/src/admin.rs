//! The local interface of operators: HTTP on a socket of the file system or on this machine's own address.
//!
//! | path | what it does |
//! |---|---|
//! | `GET /livez` | 200 for as long as the agent answers itself and gets to what it has to do in time |
//! | `GET /readyz` | 200 if it can protect the service; 503 and what is missing otherwise |
//! | `GET /metrics` | counts and levels for Prometheus |
//! | `GET /status` | everything, as JSON |
//! | `POST /mode` | `{"mode": "audit", "property": "…"}`, all properties without one; answers with the mode that counts now |
//! | `POST /reload` | reads the configuration again; the old one stays if the new one is bad |
//! | `POST /snapshot` | gathers a snapshot now and tells what is in it |
//!
//! A page in a browser on this machine can send requests too. So a request that names another host, that comes from a
//! page, or that changes something without being JSON is refused. Connections are bounded in number and time.

mod bounded;
mod metrics;
pub(crate) mod scrape;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use bounded::{Bounded, Bounds};

use crate::configuration::{AdminAddress, Mode};
use crate::daemon::{ANSWER_WAIT, Ask, Fact, Status};
use crate::link::host::{self, ListenError};

/// How long an operator waits for a snapshot at most.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(60);
/// How late the agent may be with what it has to do.
const LATE_MS_MAX: u64 = 5_000;
/// How many bytes a request may have.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Why operators have no interface.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Which.
        address: std::net::SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

#[derive(Clone)]
struct Admin {
    facts: mpsc::Sender<Fact>,
}

/// What `POST /mode` is told.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetMode {
    mode: Mode,
    property: Option<String>,
}

/// Starts to serve.
///
/// # Errors
///
/// When the address or the path cannot be used.
pub(crate) async fn serve(
    address: &AdminAddress,
    facts: mpsc::Sender<Fact>,
    mut shutdown: watch::Receiver<bool>,
) -> Result<JoinHandle<()>, ServeError> {
    let router = Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/mode", post(mode))
        .route("/reload", post(reload))
        .route("/snapshot", post(snapshot))
        .layer(middleware::from_fn(only_operators))
        .layer(axum::extract::DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(Admin { facts });
    let stopped = async move {
        let _ = shutdown.wait_for(|stop| *stop).await;
    };
    Ok(match address {
        AdminAddress::Loopback(address) => {
            let listener = TcpListener::bind(address)
                .await
                .map_err(|source| ServeError::Bind {
                    address: *address,
                    source,
                })?;
            tokio::spawn(async move {
                let _ = axum::serve(Bounded::new(listener, Bounds::default()), router)
                    .with_graceful_shutdown(stopped)
                    .await;
            })
        }
        AdminAddress::Socket(path) => {
            let listener = host::listen(&PathBuf::from(path), None)?;
            tokio::spawn(async move {
                let _ = axum::serve(Bounded::new(listener, Bounds::default()), router)
                    .with_graceful_shutdown(stopped)
                    .await;
            })
        }
    })
}

/// Refuses what a page in a browser could send.
async fn only_operators(request: Request, next: Next) -> Response {
    let refused =
        |why: &str| (StatusCode::FORBIDDEN, Json(json!({ "error": why }))).into_response();
    let headers = request.headers();
    if headers.contains_key(header::ORIGIN) {
        return refused("requests of web pages are not served");
    }
    // A request in absolute form names its host there, too.
    let named = request.uri().host().is_none_or(is_local_name);
    if !named || !is_local(headers) {
        return refused("the request names another host");
    }
    if request.method() == Method::POST
        && headers
            .get(header::CONTENT_TYPE)
            .is_none_or(|kind| kind != "application/json")
    {
        return refused("what changes something must be application/json");
    }
    next.run(request).await
}

fn is_local(headers: &HeaderMap) -> bool {
    // With a second one, who is named depends on who reads it.
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    is_local_name(name)
}

fn is_local_name(name: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

impl Admin {
    /// Asks the task that decides, and gives up when it does not answer.
    async fn ask<T>(
        &self,
        wait: Duration,
        ask: impl FnOnce(oneshot::Sender<T>) -> Ask,
    ) -> Result<T, Response> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.facts.send(Fact::Ask(ask(answer))).await.ok()?;
            answered.await.ok()
        };
        match tokio::time::timeout(wait, asked).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(unavailable("the agent is shutting down")),
            Err(_) => Err(unavailable("the agent does not answer")),
        }
    }

    async fn status(&self) -> Result<Box<Status>, Response> {
        self.ask(ANSWER_WAIT, Ask::Status).await
    }
}

fn unavailable(why: &str) -> Response {
    let body = Json(json!({ "error": why }));
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

async fn live(State(admin): State<Admin>) -> Response {
    match admin.status().await {
        // It answers, but does not get to what it has to do: to those who rely on it that is the same as not answering.
        Ok(status) if status.late_ms > LATE_MS_MAX => {
            unavailable("the agent is late with what it has to do")
        }
        Ok(status) => {
            Json(json!({ "host_attached": status.steering.host.is_some() })).into_response()
        }
        Err(response) => response,
    }
}

/// Answers whether the agent can do its work, and what it waits for if not.
async fn ready(State(admin): State<Admin>) -> Response {
    match admin.status().await {
        Ok(status) if status.late_ms > LATE_MS_MAX => {
            unavailable("the agent is late with what it has to do")
        }
        Ok(status) if status.waits_for.is_empty() => Json(json!({ "ready": true })).into_response(),
        Ok(status) => unavailable(&format!("not ready: {}", status.waits_for.join(", "))),
        Err(response) => response,
    }
}

async fn status(State(admin): State<Admin>) -> Response {
    match admin.status().await {
        Ok(status) => Json(status).into_response(),
        Err(response) => response,
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match admin.status().await {
        Ok(status) => ([(header::CONTENT_TYPE, KIND)], metrics::encode(&status)).into_response(),
        Err(response) => response,
    }
}

async fn mode(State(admin): State<Admin>, body: Bytes) -> Response {
    let wanted: SetMode = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(error) => {
            let body = Json(json!({ "error": error.to_string() }));
            return (StatusCode::BAD_REQUEST, body).into_response();
        }
    };
    let SetMode { mode, property } = wanted;
    let ask = |done| Ask::Mode {
        mode,
        property,
        done,
    };
    match admin.ask(ANSWER_WAIT, ask).await {
        Ok(Ok(set)) => Json(set).into_response(),
        Ok(Err(wrong)) => {
            let body = Json(json!({ "error": wrong }));
            (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
        }
        Err(response) => response,
    }
}

async fn reload(State(admin): State<Admin>) -> Response {
    match admin.ask(ANSWER_WAIT, Ask::Reload).await {
        Ok(Ok(reloaded)) => Json(reloaded).into_response(),
        Ok(Err(wrong)) => {
            let body = Json(json!({ "error": wrong }));
            (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
        }
        Err(response) => response,
    }
}

async fn snapshot(State(admin): State<Admin>) -> Response {
    match admin.ask(SNAPSHOT_WAIT, Ask::Snapshot).await {
        Ok(Ok(summary)) => Json(summary).into_response(),
        Ok(Err(why)) => {
            let body = Json(json!({ "error": why }));
            (StatusCode::CONFLICT, body).into_response()
        }
        Err(response) => response,
    }
}
