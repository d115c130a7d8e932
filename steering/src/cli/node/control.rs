//! Lines of JSON that say what a running node shall do, each answered by one line.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::net::SocketAddr;
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use scry_protocol::NodeId;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cli::node::printer::Printer;
use crate::program::Program;
use crate::runtime::handle::Counts;
use crate::runtime::report::json_of;
use crate::runtime::{Emulation, End, Gone, Handle};

/// How many lines may wait.
const LINES_MAX: usize = 64;
/// How long to wait for room for an answer, each time.
const ROOM_WAIT: Duration = Duration::from_millis(20);

/// What a line says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Order {
    /// Call the service, as the line says to whoever knows the service.
    Call(IgnoredAny),
    /// Reset the node.
    Reset {
        /// Whether its peers are told.
        notice: bool,
    },
    /// Let nothing pass to or from these peers.
    Cut(Vec<NodeId>),
    /// Let everything pass again.
    Heal(Yes),
    /// Change what is done to links.
    Emulate(Links),
    /// Say where peers are.
    Peers(BTreeMap<NodeId, SocketAddr>),
    /// Show the node.
    State(Yes),
    /// End in good order.
    Shutdown(Yes),
}

/// The same line, to whoever knows the service.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Calling<C> {
    Call(C),
}

/// `true`, and nothing else.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "bool")]
pub(super) struct Yes;

impl TryFrom<bool> for Yes {
    type Error = &'static str;

    fn try_from(yes: bool) -> Result<Self, Self::Error> {
        if yes {
            Ok(Self)
        } else {
            Err("only true is understood")
        }
    }
}

/// What is done to some links, or to all if none are named.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Links {
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

/// Something that comes later.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A running node, whatever its service.
pub(super) trait Controlled {
    /// Does what a line says.
    fn perform<'a>(&'a self, order: Order, line: &'a str) -> Boxed<'a, Result<Value, String>>;

    /// As [`Handle::ended`].
    fn ended(&self) -> Boxed<'_, End>;

    /// As [`Handle::shutdown`].
    fn shutdown(&self) -> Boxed<'_, End>;
}

impl<S: Program> Controlled for Handle<S> {
    fn perform<'a>(&'a self, order: Order, line: &'a str) -> Boxed<'a, Result<Value, String>> {
        Box::pin(perform(self, order, line))
    }

    fn ended(&self) -> Boxed<'_, End> {
        Box::pin(self.ended())
    }

    fn shutdown(&self) -> Boxed<'_, End> {
        Box::pin(self.shutdown())
    }
}

/// Does what the lines on standard input say, and returns when they end or the node shall.
pub(super) async fn obey(node: &dyn Controlled, printer: &Printer) {
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
        let order = serde_json::from_str::<Order>(&line);
        let last = matches!(order, Ok(Order::Shutdown(Yes)));
        let answer = match order {
            Ok(order) => node.perform(order, &line).await,
            Err(error) => Err(error.to_string()),
        };
        let answer = match answer {
            Ok(done) => json!({ "done": done }),
            Err(error) => json!({ "error": error }),
        };
        // Whoever gives orders gets every answer, and gives the next one when he reads; the node goes on meanwhile.
        while !printer.say_answer(&answer) {
            tokio::time::sleep(ROOM_WAIT).await;
        }
        if last {
            return;
        }
    }
}

async fn perform<S: Program>(
    handle: &Handle<S>,
    order: Order,
    line: &str,
) -> Result<Value, String> {
    let gone = |gone: Gone| gone.to_string();
    let done = match order {
        Order::Call(IgnoredAny) => {
            let calling = serde_json::from_str(line).map_err(|error| error.to_string());
            let Calling::Call(call) = calling?;
            let called = handle.call(call).await;
            called.map(|()| "call").map_err(|error| error.to_string())?
        }
        Order::Reset { notice } => {
            let reset = handle.reset(notice).await;
            reset.map(|()| "reset").map_err(gone)?
        }
        Order::Cut(peers) => handle.cut(peers).await.map(|()| "cut").map_err(gone)?,
        Order::Heal(Yes) => handle.heal().await.map(|()| "heal").map_err(gone)?,
        Order::Emulate(Links {
            delay_ms,
            jitter_ms,
            loss,
            rate_kbps,
            peers,
        }) => {
            if !(0.0..=1.0).contains(&loss) {
                return Err("loss: a share is a number from 0 to 1".to_owned());
            }
            let emulation = Emulation {
                delay_ms,
                jitter_ms,
                loss,
                rate_kbps,
            };
            let changed = handle.emulate(emulation, peers).await;
            changed.map(|()| "emulate").map_err(gone)?
        }
        Order::Peers(peers) => {
            let added = handle.add_peers(peers).await;
            added.map(|()| "peers").map_err(gone)?
        }
        Order::State(Yes) => {
            let snapshot = handle.state().await.map_err(gone)?;
            let (state, timers) = (json_of(&snapshot.state), json_of(&snapshot.timers));
            return Ok(shown(state, timers, &snapshot.connected, &snapshot.counts));
        }
        // The caller ends the node, after it has answered.
        Order::Shutdown(Yes) => "shutdown",
    };
    Ok(done.into())
}

fn shown(state: Value, timers: Value, connected: &[NodeId], counts: &Counts) -> Value {
    json!({ "state": state, "timers": timers, "connected": connected, "counts": counts })
}
