//! A predicted path spelled out: what happened where, what was said, and every state along the way.
//!
//! A trace is complete by itself, so that it can be looked at on a machine that has neither the service nor the cluster.
//! It is written as JSON, packed where it travels.
//!
//! | module | what it makes of a trace |
//! |---|---|
//! | [`json`] | the text of a trace file, and back |
//! | [`text`] | a drawing for a terminal, with what changed at each step |
//! | [`mermaid`] | a sequence diagram for documents |
//! | [`shiviz`] | a log with vector clocks, for a space-time diagram |
//! | [`follow`] | its steps again, in the service that it is of |
//! | `draw`, `difference` | lifelines and arrows; what changed from one state to the next |

mod difference;
pub(crate) mod draw;
pub mod follow;
pub mod json;
pub mod mermaid;
pub mod shiviz;
pub mod text;

use std::collections::BTreeMap;

use scry_protocol::NodeId;
use scry_protocol::compress::{Packed, UnpackError};
use scry_protocol::limit::TRACE_BYTES_MAX;
use scry_protocol::messagepack;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of what is written. Readers refuse a greater one.
pub const VERSION: u32 = 1;

/// How many bytes of JSON a trace may be.
pub const JSON_BYTES_MAX: usize = 64 << 20;

/// Why a trace cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteTraceError {
    /// It cannot be encoded, or is above a limit.
    #[error("the trace cannot be encoded: {0}")]
    Encode(String),
    /// It is too large even when packed.
    #[error("a trace of {length} bytes where at most {TRACE_BYTES_MAX} are allowed")]
    TooLarge {
        /// How large it is.
        length: usize,
    },
}

/// Why bytes are no trace.
#[derive(Debug, thiserror::Error)]
pub enum ReadTraceError {
    /// They are not packed.
    #[error("not a trace: {0}")]
    Packing(rmp_serde::decode::Error),
    /// They do not unpack.
    #[error("not a trace: {0}")]
    Unpack(#[from] UnpackError),
    /// They are not the JSON of a trace.
    #[error("not a trace: {0}")]
    Json(#[from] serde_json::Error),
    /// A newer program wrote them.
    #[error("a trace of version {0}, this program reads {VERSION}")]
    Version(u32),
}

/// Unpacks the JSON of a trace that came from elsewhere, without reading it.
///
/// # Errors
///
/// When the bytes are not packed as [`write()`] packs.
pub fn unpack(bytes: &[u8]) -> Result<Vec<u8>, ReadTraceError> {
    let packed: Packed = messagepack::from_slice(bytes).map_err(ReadTraceError::Packing)?;
    Ok(packed.unpack(JSON_BYTES_MAX)?)
}

/// Writes a trace in as few bytes as is quickly done.
///
/// # Errors
///
/// When it is too large.
pub fn write(trace: &Trace) -> Result<Vec<u8>, WriteTraceError> {
    let encode = |error: &dyn std::fmt::Display| WriteTraceError::Encode(error.to_string());
    let json = serde_json::to_vec(trace).map_err(|error| encode(&error))?;
    let bytes = rmp_serde::to_vec(&Packed::pack(json)).map_err(|error| encode(&error))?;
    match bytes.len() {
        length if length > TRACE_BYTES_MAX => Err(WriteTraceError::TooLarge { length }),
        _ => Ok(bytes),
    }
}

/// Reads a trace.
///
/// # Errors
///
/// When the bytes are none.
pub fn read(bytes: &[u8]) -> Result<Trace, ReadTraceError> {
    let trace: Trace = serde_json::from_slice(&unpack(bytes)?)?;
    match trace.version {
        VERSION => Ok(trace),
        version => Err(ReadTraceError::Version(version)),
    }
}

/// A path to a violation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// [`VERSION`] when it was written.
    pub version: u32,
    /// The property that is broken at the end.
    pub property: String,
    /// What is wrong there, in words; empty if the property cannot say.
    pub explanation: String,
    /// The node that predicts it.
    pub by: NodeId,
    /// The state of every node at the start.
    pub start: BTreeMap<NodeId, Value>,
    /// What happens, in order.
    pub steps: Vec<TraceStep>,
    /// What would prevent it, in words.
    pub remedies: Vec<String>,
    /// What the path takes, in words: how long messages are on their way, and how late timers are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Who found it, in words, where that was no node beside the service: a command that looks for nothing that would prevent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
}

/// One event of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStep {
    /// Where it happens.
    pub node: NodeId,
    /// What kind of event it is.
    pub kind: Kind,
    /// The sender, where something arrives; the peer, where a connection is concerned.
    pub from: Option<NodeId>,
    /// The step that sent what arrives here, counting from 0; `None` if it was on its way from the start.
    pub sent_by: Option<usize>,
    /// What happens, in words.
    pub label: String,
    /// What the handler chose, where it had a choice: of how many, and which.
    pub picks: Vec<(u32, u32)>,
    /// The choices that were answers about time, by their number, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decided: Vec<(usize, String)>,
    /// How many milliseconds after the start it happens at the earliest, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// What is sent.
    pub sends: Vec<TraceSend>,
    /// The node's state afterwards.
    pub state: Value,
}

/// A message that a step sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceSend {
    /// To whom.
    pub to: NodeId,
    /// What it says, in words.
    pub label: String,
}

/// What kind of event a step is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A message arrives.
    Message,
    /// A connection ends, or its end is noticed.
    Disconnect,
    /// A timer fires.
    Timer,
    /// The application calls.
    Call,
    /// A node is reset.
    Reset,
    /// Something else goes wrong on the network.
    Fault,
}
