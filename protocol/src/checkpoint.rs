//! One node's state at one checkpoint number.

mod layout;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::channel::ChannelState;
use crate::digest::Digest;
use crate::id::{CheckpointNumber, Incarnation};
use crate::limit::{self, BODY_BYTES_MAX};
use crate::past::Past;

/// The content of a checkpoint, encoded once by the host and never touched again.
///
/// Copies share one allocation. What identifies a checkpoint (its node and number) is not in it, so that two checkpoints
/// of a node in which nothing happened are equal.
#[derive(Clone, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Body(#[serde(with = "limit::Bytes::<BODY_BYTES_MAX>")] Arc<[u8]>);

/// What a checkpoint says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Content {
    /// Which incarnation of the node.
    pub incarnation: Incarnation,
    /// The number of that incarnation's first checkpoint: no earlier incarnation of the node ever had a number as great.
    pub born: CheckpointNumber,
    /// What lies in the node's past.
    pub past: Past,
    /// The service's state, encoded by the service.
    pub state: Vec<u8>,
    /// The armed timers, encoded by the service.
    pub timers: Vec<u8>,
    /// Channel state, if the node keeps it.
    pub channels: Option<ChannelState>,
}

/// Why a checkpoint cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum WriteCheckpointError {
    /// A part is above its limit.
    #[error("a part of the checkpoint is too large: {0}")]
    Part(&'static str),
    /// All parts together are above the limit.
    #[error("a checkpoint of {length} bytes where at most {BODY_BYTES_MAX} are allowed")]
    TooLarge {
        /// How large it is.
        length: usize,
    },
}

/// Why bytes are no checkpoint.
#[derive(Debug, thiserror::Error)]
#[error(
    "not a checkpoint: it is cut off, or a number in it is out of range, or more bytes follow it"
)]
pub struct ReadCheckpointError;

impl Content {
    /// Encodes the content.
    ///
    /// # Errors
    ///
    /// When it is above a limit.
    pub fn write(&self) -> Result<Body, WriteCheckpointError> {
        let bytes = layout::write(self).map_err(WriteCheckpointError::Part)?;
        if bytes.len() > BODY_BYTES_MAX {
            return Err(WriteCheckpointError::TooLarge {
                length: bytes.len(),
            });
        }
        Ok(Body(bytes.into()))
    }
}

impl Body {
    /// Takes over bytes that were written elsewhere.
    ///
    /// # Errors
    ///
    /// When they are more than a checkpoint may be.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, WriteCheckpointError> {
        if bytes.len() > BODY_BYTES_MAX {
            return Err(WriteCheckpointError::TooLarge {
                length: bytes.len(),
            });
        }
        Ok(Self(bytes.into()))
    }

    /// Reads the content.
    ///
    /// # Errors
    ///
    /// When the bytes are no content or more than one.
    pub fn read(&self) -> Result<Content, ReadCheckpointError> {
        layout::read(&self.0).ok_or(ReadCheckpointError)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns how many bytes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names the content.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }

    /// Tells whether two bodies share one allocation.
    pub fn shares_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Received, Receiving, Sending, Transport, Unacknowledged};
    use crate::delta::Delta;
    use crate::id::NodeId;
    use crate::limit::STATE_BYTES_MAX;

    /// A node of a tree that has said a word a second to its parent and its two children, and has heard as many.
    fn chatty(words: u64) -> Content {
        let peers = [1, 12, 25].map(NodeId::new);
        let life = |peer: NodeId| Incarnation::new(1_790_000_000_000 + u64::from(peer.get()));
        let sending = peers.iter().map(|&peer| Sending {
            peer,
            transport: Transport::Stream,
            serial: 1,
            sent: words,
            forgotten: 0,
            unacknowledged: vec![Unacknowledged {
                sequence: words,
                number: CheckpointNumber::new(1_790_000_000_000 + words * 3).unwrap(),
                message: b"still here".to_vec(),
            }],
        });
        let mut received = Received::default();
        for sequence in 1..=words {
            received.note(sequence);
        }
        let receiving = peers.iter().map(|&peer| Receiving {
            peer,
            transport: Transport::Stream,
            incarnation: life(peer),
            serial: 1,
            received,
            ended: false,
        });
        Content {
            incarnation: Incarnation::new(1_790_000_000_000),
            born: CheckpointNumber::new(1_790_000_000_000).unwrap(),
            past: Past::default(),
            state: (0..120).collect(),
            timers: vec![1],
            channels: Some(ChannelState {
                sending: sending.collect(),
                receiving: receiving.collect(),
            }),
        }
    }

    #[test]
    fn counters_that_go_on_cost_little_more_than_themselves() {
        let (before, after) = (chatty(990), chatty(1000));
        let bodies = [&before, &after].map(|content| content.write().unwrap());
        assert_eq!(bodies[1].read().unwrap(), after);
        let delta = Delta::between(bodies[0].as_bytes(), bodies[1].as_bytes());
        // Six counters and three checkpoint numbers, of two bytes each.
        assert!(delta.len() <= 18 + 16, "{}", delta.len());
    }

    #[test]
    fn whatever_the_numbers_they_read_back() {
        let mut content = chatty(5);
        let sending = &mut content.channels.as_mut().unwrap().sending[1];
        sending.forgotten = u64::MAX;
        sending.sent = u64::MAX;
        for (sequence, number) in [(u64::MAX, 0), (0, 1 << 62), (7, 3)] {
            sending.unacknowledged.push(Unacknowledged {
                sequence,
                number: CheckpointNumber::new(number).unwrap(),
                message: Vec::new(),
            });
        }
        let received = &mut content.channels.as_mut().unwrap().receiving[2].received;
        received.note(60);
        assert_eq!(content.write().unwrap().read().unwrap(), content);
    }

    fn content(state: Vec<u8>) -> Content {
        Content {
            incarnation: Incarnation::new(3),
            born: CheckpointNumber::from(1),
            past: Past::up_to(CheckpointNumber::from(9)),
            state,
            timers: vec![1, 2],
            channels: Some(ChannelState::default()),
        }
    }

    #[test]
    fn a_content_reads_back_and_costs_few_bytes_beside_its_state() {
        let content = content(vec![9; 176]);
        let body = content.write().unwrap();
        assert_eq!(body.read().unwrap(), content);
        assert!(body.len() <= 176 + 16, "{}", body.len());
    }

    #[test]
    fn too_large_a_state_is_refused_where_it_is_written() {
        assert!(content(vec![0; STATE_BYTES_MAX]).write().is_ok());
        assert!(content(vec![0; STATE_BYTES_MAX + 1]).write().is_err());
        assert!(Body::from_bytes(vec![0; BODY_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn bytes_after_the_content_are_refused() {
        let mut bytes = content(vec![1]).write().unwrap().as_bytes().to_vec();
        bytes.push(0);
        assert!(Body::from_bytes(bytes).unwrap().read().is_err());
    }
}
