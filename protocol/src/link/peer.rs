//! Agent and agent: requests for checkpoints, the four answers, and paths worth a neighbor's look.

use serde::{Deserialize, Serialize};

use crate::compress::Packed;
use crate::delta::Delta;
use crate::digest::ShortDigest;
use crate::id::{CheckpointNumber, NodeId, ViolationId};
use crate::limit::{
    self, CHECKPOINT_FRAME_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, SMALL_FRAME_BYTES_MAX,
};
use crate::link::messages;
use crate::snapshot::{Refusal, coded};

messages! {
    /// What agents tell each other.
    pub enum PeerMessage {
        /// Asks for a checkpoint.
        0x21 Request(Request) up to SMALL_FRAME_BYTES_MAX,
        /// The checkpoint, whole.
        0x22 Full(Full) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// The checkpoint, as what differs from one the asker has.
        0x23 Changed(Changed) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// The checkpoint equals one the asker has.
        0x24 Same(Same) up to SMALL_FRAME_BYTES_MAX,
        /// No checkpoint.
        0x25 Refused(Refused) up to SMALL_FRAME_BYTES_MAX,
        /// The asker has a checkpoint now.
        0x26 Confirm(Confirm) up to SMALL_FRAME_BYTES_MAX,
        /// A path whose first event that can be steered happens at the receiver.
        0x27 SharePath(SharePath) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// What became of a shared path.
        0x28 PathAnswer(PathAnswer) up to SMALL_FRAME_BYTES_MAX,
    }
}

/// Names a request at the agent that made it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(u32);

impl RequestId {
    /// Wraps a number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Names a checkpoint that both ends have, from which a difference can lead to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Base {
    /// Its number at the node it shows.
    pub number: CheckpointNumber,
    /// What it contains. A node that lost its memory may use a number twice.
    pub digest: ShortDigest,
}

/// Asks for the earliest checkpoint that is not older than a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// For the answer to name.
    pub id: RequestId,
    /// The logical time asked for (the papers' `cr`).
    pub number: CheckpointNumber,
    /// The last checkpoint of the receiver that the asker has: the confirmation of that answer, and the base for this
    /// one.
    pub known: Option<Base>,
}

/// A whole checkpoint.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Full {
    /// The request.
    pub id: RequestId,
    /// The checkpoint's number.
    pub number: CheckpointNumber,
    /// How long ago the agent got it, in milliseconds.
    pub age_ms: u64,
    /// Its content.
    pub body: Packed,
}

/// A checkpoint as a difference.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// The request.
    pub id: RequestId,
    /// The checkpoint's number.
    pub number: CheckpointNumber,
    /// How long ago the agent got it, in milliseconds.
    pub age_ms: u64,
    /// The number of the checkpoint it differs from, one that the asker named.
    pub base: CheckpointNumber,
    /// What differs.
    pub delta: Delta,
}

/// A checkpoint with nothing new in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Same {
    /// The request.
    pub id: RequestId,
    /// The checkpoint's number.
    pub number: CheckpointNumber,
    /// How long ago the agent got it, in milliseconds.
    pub age_ms: u64,
    /// The number of the checkpoint it equals, one that the asker named.
    pub base: CheckpointNumber,
}

/// A refusal.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// The request.
    pub id: RequestId,
    /// Why.
    pub reason: Refusal,
    /// The refusing node's present number (the papers' `R.cn`, A-41).
    pub number: CheckpointNumber,
}

/// Says that a checkpoint arrived whole, so that its sender need not keep older ones for this peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Confirm {
    /// Which.
    pub base: Base,
}

/// A path to a violation that the receiver could prevent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct SharePath {
    /// The node that predicts it.
    pub by: NodeId,
    /// Its name there.
    pub violation: ViolationId,
    /// The service's name and version: a path of another version's events means nothing.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub service: String,
    /// See `service`.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub version: String,
    /// The property that would be broken.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// The events, encoded by the service.
    #[serde(with = "limit::Bytes::<PATH_BYTES_MAX>")]
    pub path: Vec<u8>,
}

/// What became of a shared path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct PathAnswer {
    /// The path's violation, as its finder names it.
    pub violation: ViolationId,
    /// What became of it.
    pub outcome: PathOutcome,
}

coded! {
    /// What became of a shared path.
    pub enum PathOutcome {
        /// Its own checker agrees, and a filter is installed.
        Prevented = 0 "prevented",
        /// It does not lead to a violation from its own snapshot.
        NotConfirmed = 1 "not confirmed by its own snapshot",
        /// It does, but nothing safe prevents it.
        NoRemedy = 2 "nothing safe prevents it",
        /// It does not look at shared paths, or cannot read this one.
        NotConsidered = 3 "not considered",
    }
}
