//! Lines of JSON that say what a running node shall do, each answered by one line.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::mpsc as lines;
use std::thread;

use scry_protocol::NodeId;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cli::node::say;
use crate::program::Program;
use crate::runtime::report::json_of;
use crate::runtime::{Emulation, Handle};

/// How many lines may wait.
const LINES_MAX: usize = 64;

/// What a line says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Order<C> {
    /// Call the service.
    Call(C),
    /// Reset the node.
    Reset {
        /// Whether its peers are told.
        notice: bool,
    },
    /// Let nothing pass to or from these peers.
    Cut(Vec<NodeId>),
    /// Let everything pass again.
    Heal(bool),
    /// Change what is done to links.
    Emulate(Links),
    /// Say where peers are.
    Peers(BTreeMap<NodeId, SocketAddr>),
    /// Show the node.
    State(bool),
    /// End in good order.
    Shutdown(bool),
}

/// What is done to some links, or to all if none are named.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Links {
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    jitter_ms: u64,
    #[serde(default)]
    loss: f64,
    #[serde(default)]
    rate_kbps: u64,
    #[serde(default)]
    peers: Vec<NodeId>,
}

/// Does what the lines on standard input say, and returns when they end or the node shall.
pub(super) async fn obey<S: Program>(handle: &Handle<S>, lines: &lines::Sender<String>) {
    let (sender, mut orders) = mpsc::channel(LINES_MAX);
    // Standard input cannot be waited for otherwise; the thread ends with it or with the process.
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if !line.trim().is_empty() && sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = orders.recv().await {
        let order = match serde_json::from_str::<Order<S::Call>>(&line) {
            Ok(Order::Shutdown(true)) => {
                say(lines, &json!({ "done": "shutdown" }));
                return;
            }
            Ok(order) => order,
            Err(error) => {
                say(lines, &json!({ "error": error.to_string() }));
                continue;
            }
        };
        match perform(handle, order).await {
            Ok(done) => say(lines, &json!({ "done": done })),
            Err(error) => say(lines, &json!({ "error": error })),
        }
    }
}

async fn perform<S: Program>(handle: &Handle<S>, order: Order<S::Call>) -> Result<Value, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    match order {
        Order::Call(call) => handle.call(call).await.map_err(|it| text(&it))?,
        Order::Reset { notice } => {
            handle.reset(notice).await.map_err(|it| text(&it))?;
            return Ok("reset".into());
        }
        Order::Cut(peers) => {
            handle.cut(peers).await.map_err(|it| text(&it))?;
            return Ok("cut".into());
        }
        Order::Heal(_) => {
            handle.heal().await.map_err(|it| text(&it))?;
            return Ok("heal".into());
        }
        Order::Emulate(links) => {
            if !(0.0..=1.0).contains(&links.loss) {
                return Err("loss: a share is a number from 0 to 1".to_owned());
            }
            let emulation = Emulation {
                delay_ms: links.delay_ms,
                jitter_ms: links.jitter_ms,
                loss: links.loss,
                rate_kbps: links.rate_kbps,
            };
            let changed = handle.emulate(emulation, links.peers).await;
            changed.map_err(|it| text(&it))?;
            return Ok("emulate".into());
        }
        Order::Peers(peers) => {
            handle.add_peers(peers).await.map_err(|it| text(&it))?;
            return Ok("peers".into());
        }
        Order::State(_) => {
            let snapshot = handle.state().await.map_err(|it| text(&it))?;
            return Ok(json!({
                "state": json_of(&snapshot.state),
                "timers": json_of(&snapshot.timers),
                "connected": snapshot.connected,
                "counts": snapshot.counts,
            }));
        }
        Order::Shutdown(_) => return Err("shutdown: only true is understood".to_owned()),
    }
    Ok("call".into())
}
