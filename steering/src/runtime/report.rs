//! What happened at a node, one event at a time, for whoever watches it.

use scry_protocol::{FilterId, NodeId};
use serde::{Serialize, Serializer};

use scry_engine::service::Service;

/// What kind of event a report is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The node started.
    Start,
    /// A message arrived.
    Message,
    /// A timer fired.
    Timer,
    /// The application called.
    Call,
    /// A connection failed, or was closed by the peer.
    Disconnect,
    /// The node was reset and started again.
    Reset,
    /// Something came on a connection of an earlier incarnation, and the sender was told that it is dead.
    Refuse,
    /// A predicted violation was told to the service.
    Prediction,
    /// A handler panicked; the node is gone.
    Panic,
    /// The node could not go on: its disk failed, say.
    Failed,
    /// The node ended in good order.
    Shutdown,
}

/// What was done about an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ruling {
    /// It was handled.
    Run,
    /// The message was dropped.
    Drop,
    /// The message was dropped and the connection reset.
    Reset,
    /// The timer was put off.
    Postpone,
    /// The call was refused.
    Refuse,
    /// The message is kept until the filter is gone.
    Hold,
    /// The check before the handler stopped it.
    Veto,
}

/// One event at a node and what came of it.
#[derive(Clone, Debug, Serialize)]
#[serde(bound = "")]
pub struct Report<S: Service> {
    /// The node.
    pub node: NodeId,
    /// When, in milliseconds since the epoch.
    pub at_ms: u64,
    /// What kind of event.
    pub kind: Kind,
    /// The event, for people.
    pub event: String,
    /// What was done about it.
    pub verdict: Ruling,
    /// The filter that decided so.
    pub filter: Option<FilterId>,
    /// The property that would have been broken.
    pub property: Option<String>,
    /// The state afterwards.
    #[serde(serialize_with = "readable")]
    pub state: S,
    /// The timers that are armed afterwards.
    pub timers: Vec<S::Timer>,
    /// Reports before this one that the watcher was too slow for.
    pub missed: u64,
}

/// Writes a state as it is, or as people read it if its maps have keys that JSON has not.
fn readable<S: Service, Z: Serializer>(state: &S, serializer: Z) -> Result<Z::Ok, Z::Error> {
    json_of(state).serialize(serializer)
}

/// Turns a value into JSON; into text if JSON cannot hold it.
pub fn json_of<T: Serialize + std::fmt::Debug>(value: &T) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_else(|_| format!("{value:?}").into())
}
