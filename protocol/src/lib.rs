//! What crosses a wire in scry, and nothing that performs IO.
//!
//! | module | what it holds |
//! |---|---|
//! | [`id`] | the names of things: nodes, their incarnations, checkpoints, runs, violations, filters |
//! | [`limit`] | how large anything may be, and the checks that see to it while bytes are read |
//! | [`frame`] | versioned, length-framed messages, MessagePack but for the most frequent; the incremental decoder |
//! | [`messagepack`] | what is read of MessagePack |
//! | [`link`] | the messages of the three links: host and agent, agent and agent, agent and checker |
//! | [`checkpoint`], [`channel`] | one node's state with what it knows of the messages in flight |
//! | [`past`] | what lies in a node's past: which states may stand side by side |
//! | [`digest`], [`delta`], [`compress`] | naming contents, and sending less of them |
//! | [`snapshot`] | checkpoints of several nodes that belong together, and who is missing |
//! | [`filter`] | what a host is asked to block, for how long and why |
//! | [`record`] | what an agent did and why, a line of the steering log each |
//! | [`text`] | texts of others, made fit to be shown |
//! | [`times`] | how long something took, counted by length |

pub mod channel;
pub mod checkpoint;
mod compact;
pub mod compress;
pub mod delta;
pub mod digest;
pub mod filter;
pub mod frame;
pub mod id;
pub mod limit;
pub mod link;
pub mod messagepack;
pub mod past;
pub mod record;
pub mod snapshot;
pub mod text;
pub mod times;
mod varint;

pub use channel::Transport;
pub use checkpoint::{Body, Content};
pub use digest::Digest;
pub use id::{CheckpointNumber, FilterId, GatherId, Incarnation, NodeId, RunId, ViolationId};
pub use past::{Moment, Past};
pub use snapshot::Snapshot;
pub use times::Times;
