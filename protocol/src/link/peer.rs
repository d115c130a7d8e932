//! Agent and agent: requests for checkpoints, the four answers, and paths worth a neighbor's look.

use serde::{Deserialize, Serialize};

use crate::compact::{Compact, array};
use crate::compress::Packed;
use crate::delta::Delta;
use crate::digest::ShortDigest;
use crate::id::{CheckpointNumber, NodeId, ViolationId};
use crate::limit::{
    self, CHECKPOINT_FRAME_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, SMALL_FRAME_BYTES_MAX,
};
use crate::link::messages;
use crate::snapshot::{Refusal, coded};
use crate::varint;

messages! {
    /// What agents tell each other.
    pub enum PeerMessage {
        /// Asks for a checkpoint.
        0x21 Request(Request) [compact] up to SMALL_FRAME_BYTES_MAX,
        /// The checkpoint, whole.
        0x22 Full(Full) [compact] up to CHECKPOINT_FRAME_BYTES_MAX,
        /// The checkpoint, as what differs from one the asker has.
        0x23 Changed(Changed) [compact] up to CHECKPOINT_FRAME_BYTES_MAX,
        /// The checkpoint equals one the asker has.
        0x24 Same(Same) [compact] up to SMALL_FRAME_BYTES_MAX,
        /// No checkpoint.
        0x25 Refused(Refused) [compact] up to SMALL_FRAME_BYTES_MAX,
        /// The asker has a checkpoint now.
        0x26 Confirm(Confirm) [compact] up to SMALL_FRAME_BYTES_MAX,
        /// A path whose first event that can be steered happens at the receiver.
        0x27 SharePath(SharePath) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// What became of a shared path.
        0x28 PathAnswer(PathAnswer) up to SMALL_FRAME_BYTES_MAX,
    }
}

/// Names a request at the agent that made it.
///
/// It need only tell apart what one agent may have asked before and after it was started again: answers come over a
/// connection of the asker's present incarnation, and are compared with what was asked.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(u16);

impl RequestId {
    /// Wraps a number.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Names a checkpoint that both ends have, from which a difference can lead to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Base {
    /// Its number at the node it shows.
    pub number: CheckpointNumber,
    /// What it contains. A node that lost its memory may use a number twice.
    pub digest: ShortDigest,
}

/// Asks for the earliest checkpoint that is not older than a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Full {
    /// The request.
    pub id: RequestId,
    /// How far the checkpoint's number is above the one asked for.
    pub ahead: u64,
    /// How long ago the agent got it, in milliseconds.
    pub age_ms: u64,
    /// Its content.
    pub body: Packed,
}

/// A checkpoint as a difference.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed {
    /// The request.
    pub id: RequestId,
    /// How far the checkpoint's number is above the one asked for.
    pub ahead: u64,
    /// How long ago the agent got it, in milliseconds.
    pub age_ms: u64,
    /// What differs from the checkpoint that the asker named.
    pub delta: Delta,
}

/// A checkpoint that equals the one that the asker named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Same {
    /// The request.
    pub id: RequestId,
    /// How far the checkpoint's number is above the one asked for.
    pub ahead: u64,
    /// How long ago the agent got it, in milliseconds.
    pub age_ms: u64,
}

/// A refusal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// The request.
    pub id: RequestId,
    /// Why.
    pub reason: Refusal,
    /// The refusing node's present number (the papers' `R.cn`, A-41).
    pub number: CheckpointNumber,
}

/// Says that a checkpoint arrived whole, so that its sender need not keep older ones for this peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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

impl Compact for RequestId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        array(input).map(|bytes| Self(u16::from_le_bytes(bytes)))
    }
}

impl Compact for Base {
    fn put(&self, out: &mut Vec<u8>) {
        self.number.put(out);
        self.digest.put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Some(Self {
            number: CheckpointNumber::take(input)?,
            digest: ShortDigest::take(input)?,
        })
    }
}

/// The base's number is written by its distance to the number asked for, which is mostly a little greater; without a base
/// the body ends before it.
impl Compact for Request {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.number.put(out);
        if let Some(known) = &self.known {
            // Both are below 2^62, so that neither the difference nor the sum of the reader overflows.
            let behind = self.number.get() as i64 - known.number.get() as i64;
            varint::put(out, varint::fold_sign(behind));
            known.digest.put(out);
        }
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        let id = RequestId::take(input)?;
        let number = CheckpointNumber::take(input)?;
        let known = if input.is_empty() {
            None
        } else {
            let behind = varint::unfold_sign(varint::take(input)?);
            let base = (number.get() as i64).checked_sub(behind)?;
            Some(Base {
                number: CheckpointNumber::new(u64::try_from(base).ok()?).ok()?,
                digest: ShortDigest::take(input)?,
            })
        };
        Some(Self { id, number, known })
    }
}

impl Compact for Full {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.ahead.put(out);
        self.age_ms.put(out);
        self.body.put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Some(Self {
            id: RequestId::take(input)?,
            ahead: u64::take(input)?,
            age_ms: u64::take(input)?,
            body: Packed::take(input)?,
        })
    }
}

impl Compact for Changed {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.ahead.put(out);
        self.age_ms.put(out);
        self.delta.put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Some(Self {
            id: RequestId::take(input)?,
            ahead: u64::take(input)?,
            age_ms: u64::take(input)?,
            delta: Delta::take(input)?,
        })
    }
}

impl Compact for Same {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.ahead.put(out);
        self.age_ms.put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Some(Self {
            id: RequestId::take(input)?,
            ahead: u64::take(input)?,
            age_ms: u64::take(input)?,
        })
    }
}

impl Compact for Refused {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        out.push(self.reason.into());
        self.number.put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        let id = RequestId::take(input)?;
        let [reason] = array(input)?;
        Some(Self {
            id,
            reason: Refusal::try_from(reason).ok()?,
            number: CheckpointNumber::take(input)?,
        })
    }
}

impl Compact for Confirm {
    fn put(&self, out: &mut Vec<u8>) {
        self.base.put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Base::take(input).map(|base| Self { base })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;
    use crate::frame;

    /// Numbers of hosts without a disk begin with the milliseconds since the epoch.
    fn number(after: u64) -> CheckpointNumber {
        CheckpointNumber::new(1_790_000_000_000 + after).unwrap()
    }

    fn check(message: impl Into<PeerMessage>, bytes_max: usize) {
        let message = message.into();
        let frame = frame::encode(&message).unwrap();
        assert!(frame.len() <= bytes_max, "{message:?}: {}", frame.len());
        assert_eq!(frame::decode_one(&frame), Ok(message));
    }

    #[test]
    fn what_is_said_in_every_period_takes_few_bytes() {
        let digest = Digest::of(b"a state").short();
        let id = RequestId::new(60_000);
        for base in [0, 40, 120] {
            let known = Some(Base {
                number: number(base),
                digest,
            });
            let number = number(60);
            check(Request { id, number, known }, 16);
        }
        let known = None;
        check(
            Request {
                id,
                number: number(0),
                known,
            },
            11,
        );
        let (ahead, age_ms) = (0, 900);
        check(Same { id, ahead, age_ms }, 8);
        let delta = Delta::between(&[3; 300], &[3; 300]);
        check(
            Changed {
                id,
                ahead,
                age_ms,
                delta,
            },
            18,
        );
    }

    #[test]
    fn the_ends_of_the_range_of_numbers_read_back() {
        let digest = Digest::of(b"").short();
        let (zero, max) = (CheckpointNumber::ZERO, CheckpointNumber::MAX);
        for (number, base) in [(zero, max), (max, zero), (max, max)] {
            let known = Some(Base {
                number: base,
                digest,
            });
            let id = RequestId::new(0);
            check(Request { id, number, known }, 40);
        }
    }
}
