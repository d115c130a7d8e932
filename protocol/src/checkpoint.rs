//! One node's state at one checkpoint number.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::channel::ChannelState;
use crate::digest::Digest;
use crate::id::{CheckpointNumber, Incarnation};
use crate::limit::{self, BODY_BYTES_MAX, STATE_BYTES_MAX, TIMERS_BYTES_MAX};

/// The content of a checkpoint, encoded once by the host and never touched again.
///
/// Copies share one allocation. What identifies a checkpoint (its node and number) is not in it, so that two checkpoints
/// of a node in which nothing happened are equal.
#[derive(Clone, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Body(#[serde(with = "limit::Bytes::<BODY_BYTES_MAX>")] Arc<[u8]>);

/// What a checkpoint says.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Which life of the node.
    pub incarnation: Incarnation,
    /// The number of that life's first checkpoint: no former life of the node ever had a number as great.
    pub born: CheckpointNumber,
    /// The service's state, encoded by the service.
    #[serde(with = "limit::Bytes::<STATE_BYTES_MAX>")]
    pub state: Vec<u8>,
    /// The armed timers, encoded by the service.
    #[serde(with = "limit::Bytes::<TIMERS_BYTES_MAX>")]
    pub timers: Vec<u8>,
    /// Channel state, if the node keeps it.
    pub channels: Option<ChannelState>,
}

/// Why a checkpoint cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum WriteCheckpointError {
    /// A part is above its limit.
    #[error("a part of the checkpoint is too large: {0}")]
    Part(#[from] rmp_serde::encode::Error),
    /// All parts together are above the limit.
    #[error("a checkpoint of {length} bytes where at most {BODY_BYTES_MAX} are allowed")]
    TooLarge {
        /// How large it is.
        length: usize,
    },
}

/// Why bytes are no checkpoint.
#[derive(Debug, thiserror::Error)]
#[error("not a checkpoint: {0}")]
pub struct ReadCheckpointError(String);

impl Content {
    /// Encodes the content.
    ///
    /// # Errors
    ///
    /// When it is above a limit.
    pub fn write(&self) -> Result<Body, WriteCheckpointError> {
        let bytes = rmp_serde::to_vec(self)?;
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
        crate::frame::read_exactly(&self.0).map_err(ReadCheckpointError)
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

    fn content(state: Vec<u8>) -> Content {
        Content {
            incarnation: Incarnation::new(3),
            born: CheckpointNumber::from(1),
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
