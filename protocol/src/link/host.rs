//! Host and agent: the hook streams checkpoints and counts, the agent asks for checkpoints and installs filters.

use serde::{Deserialize, Serialize};

use crate::channel::{Acknowledged, Transport};
use crate::checkpoint::Body;
use crate::filter::{Filter, Mode};
use crate::id::{CheckpointNumber, FilterId, Incarnation, NodeId, RunId};
use crate::limit::{
    self, CHANNELS_MAX, CHECKPOINT_FRAME_BYTES_MAX, CONTACTS_MAX, FILTERS_MAX, MEMBERS_MAX,
    NAME_BYTES_MAX, SMALL_FRAME_BYTES_MAX, TEXT_BYTES_MAX,
};
use crate::link::messages;

messages! {
    /// What a host tells its agent.
    pub enum HostToAgent {
        /// Who it is; the first frame of every connection.
        0x01 Hello(Hello) up to SMALL_FRAME_BYTES_MAX,
        /// A checkpoint it took.
        0x02 Checkpoint(Checkpoint) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// Whom the service counts as its neighbors.
        0x03 Neighbors(Neighbors) up to SMALL_FRAME_BYTES_MAX,
        /// With whom it spoke lately.
        0x04 Contacts(Contacts) up to SMALL_FRAME_BYTES_MAX,
        /// What it has counted.
        0x05 Stats(Stats) up to SMALL_FRAME_BYTES_MAX,
        /// A filter acted.
        0x06 FilterHit(FilterHit) up to SMALL_FRAME_BYTES_MAX,
        /// It ends in good order.
        0x07 Goodbye(Goodbye) up to SMALL_FRAME_BYTES_MAX,
    }
}

messages! {
    /// What an agent tells its host.
    pub enum AgentToHost {
        /// The answer to the first frame.
        0x11 Welcome(Welcome) up to SMALL_FRAME_BYTES_MAX,
        /// Reach a checkpoint number.
        0x12 TakeCheckpoint(TakeCheckpoint) up to SMALL_FRAME_BYTES_MAX,
        /// Say whom the service counts as its neighbors.
        0x13 AskNeighbors(AskNeighbors) up to SMALL_FRAME_BYTES_MAX,
        /// Messages of yours have arrived.
        0x14 Arrived(Arrived) up to SMALL_FRAME_BYTES_MAX,
        /// Act on these from now on.
        0x15 InstallFilters(InstallFilters) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// Act on these no longer.
        0x16 WithdrawFilters(WithdrawFilters) up to SMALL_FRAME_BYTES_MAX,
        /// How much filters may do.
        0x17 Mode(SetMode) up to SMALL_FRAME_BYTES_MAX,
    }
}

/// Who a host is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The node.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The number this life began with.
    pub born: CheckpointNumber,
    /// The number it has now.
    pub number: CheckpointNumber,
    /// The service's name.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub service: String,
    /// The service's version: agents share paths only between equal ones.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub version: String,
}

/// A checkpoint on its way from the host that took it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its number.
    pub number: CheckpointNumber,
    /// The number of the checkpoint before it. This one shows the node at every logical time above that, up to its own
    /// number; so an agent that missed checkpoints knows which times it cannot answer for.
    pub after: CheckpointNumber,
    /// Its content.
    pub body: Body,
    /// The service's neighbors at the same moment, if it knows them.
    #[serde(with = "limit::OptionalList::<MEMBERS_MAX>")]
    pub neighbors: Option<Vec<NodeId>>,
}

/// The service's neighbors, if it knows them.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Neighbors {
    /// The nodes.
    #[serde(with = "limit::OptionalList::<MEMBERS_MAX>")]
    pub neighbors: Option<Vec<NodeId>>,
}

/// Endpoints the host spoke with since its last report.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Contacts {
    /// Which.
    #[serde(with = "limit::List::<CONTACTS_MAX>")]
    pub contacts: Vec<Contact>,
}

/// One endpoint the host spoke with.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    /// Whose endpoint.
    pub peer: NodeId,
    /// How.
    pub transport: Transport,
    /// Tells several endpoints of one peer apart: its port, say.
    pub port: u32,
    /// How long before this report, in milliseconds.
    pub ago_ms: u64,
    /// Whether this is a connection that was closed.
    pub closed: bool,
}

/// Counts of a host since it started.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Bytes of service messages sent, stamps included.
    pub sent_bytes: u64,
    /// Service messages sent.
    pub sent_messages: u64,
    /// Service messages received.
    pub received_messages: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Checkpoints taken because a message came from a later logical time.
    pub forced_checkpoints: u64,
    /// Frames to the agent that were dropped rather than waited for.
    pub dropped_frames: u64,
}

/// A filter matched an event.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct FilterHit {
    /// Which filter.
    pub filter: FilterId,
    /// How often it matched so far.
    pub hits: u64,
    /// Whether it acted, or only would have (audit).
    pub acted: bool,
    /// The event, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub event: String,
}

/// The host ends in good order.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Goodbye {
    /// The number it ended with.
    pub number: CheckpointNumber,
}

/// The agent accepts a host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The agent's version.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub version: String,
    /// How much filters may do.
    pub mode: Mode,
}

/// A request to reach a checkpoint number.
///
/// A host below it takes a checkpoint and has that number then; a host at or above it does nothing, since the checkpoint
/// that answers is in its stream already.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct TakeCheckpoint {
    /// Which.
    pub number: CheckpointNumber,
}

/// A request for the service's neighbors.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct AskNeighbors {}

/// What a peer's checkpoint says it has received from this host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Arrived {
    /// The peer.
    pub peer: NodeId,
    /// A number at which its checkpoint shows it: the host may act on this only from that logical time on.
    pub number: CheckpointNumber,
    /// Which messages of which channels.
    #[serde(with = "limit::List::<CHANNELS_MAX>")]
    pub channels: Vec<(Transport, Acknowledged)>,
}

/// Filters to act on.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct InstallFilters {
    /// The run that found them.
    pub run: RunId,
    /// The filters.
    #[serde(with = "limit::List::<FILTERS_MAX>")]
    pub filters: Vec<Filter>,
}

/// Filters to act on no longer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct WithdrawFilters {
    /// Which; all if absent.
    #[serde(with = "limit::OptionalList::<FILTERS_MAX>")]
    pub filters: Option<Vec<FilterId>>,
}

/// How much filters may do from now on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct SetMode {
    /// The mode.
    pub mode: Mode,
}
