//! Compression of what is left to send: LZ4 blocks where they help, plain bytes where they do not.
//!
//! Blocks are kept whole: with a state above 64 KiB the matcher's window is smaller than the state, which costs ratio but
//! never correctness; repetition *between* checkpoints is the business of [`delta`](crate::delta).

use serde::{Deserialize, Serialize};

use crate::limit::{self, BODY_BYTES_MAX};

/// Below this many bytes LZ4 has nothing to find.
const WORTH_TRYING_BYTES: usize = 48;

/// Bytes, compressed if that made them fewer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Packed {
    /// How many bytes they unpack to if they are an LZ4 block; zero if they are plain.
    unpacked: u32,
    #[serde(with = "limit::Bytes::<BODY_BYTES_MAX>")]
    bytes: Vec<u8>,
}

/// Why packed bytes cannot be unpacked.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnpackError {
    /// They claim to be more than the reader allows.
    #[error("{claimed} bytes where at most {max} are allowed")]
    TooLarge {
        /// What they claim.
        claimed: usize,
        /// What is allowed.
        max: usize,
    },
    /// They are no LZ4 block, or not of the claimed length.
    #[error("the compressed block is damaged")]
    Damaged,
}

impl Packed {
    /// Packs bytes.
    pub fn pack(bytes: Vec<u8>) -> Self {
        if bytes.len() >= WORTH_TRYING_BYTES
            && let Ok(unpacked) = u32::try_from(bytes.len())
        {
            let block = lz4_flex::block::compress(&bytes);
            // The length of the original takes up to five bytes more.
            if block.len() + 5 < bytes.len() {
                return Self {
                    unpacked,
                    bytes: block,
                };
            }
        }
        Self { unpacked: 0, bytes }
    }

    /// Unpacks to at most `max` bytes.
    ///
    /// # Errors
    ///
    /// When they are too many, or damaged.
    pub fn unpack(self, max: usize) -> Result<Vec<u8>, UnpackError> {
        let claimed = match self.unpacked {
            0 => self.bytes.len(),
            unpacked => unpacked as usize,
        };
        if claimed > max {
            return Err(UnpackError::TooLarge { claimed, max });
        }
        if self.unpacked == 0 {
            return Ok(self.bytes);
        }
        // An LZ4 block grows at most 255-fold, so that a few bytes cannot make us allocate megabytes.
        if claimed / 255 > self.bytes.len() {
            return Err(UnpackError::Damaged);
        }
        let mut out = vec![0; claimed];
        match lz4_flex::block::decompress_into(&self.bytes, &mut out) {
            Ok(length) if length == claimed => Ok(out),
            _ => Err(UnpackError::Damaged),
        }
    }

    pub(crate) fn parts(&self) -> (u32, &[u8]) {
        (self.unpacked, &self.bytes)
    }

    pub(crate) fn from_parts(unpacked: u32, bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= BODY_BYTES_MAX).then(|| Self {
            unpacked,
            bytes: bytes.to_vec(),
        })
    }

    /// Returns how many bytes are sent.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Tells whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_unpack_to_themselves(bytes in prop::collection::vec(0u8..4, 0..2000)) {
            let packed = Packed::pack(bytes.clone());
            prop_assert!(packed.len() <= bytes.len());
            prop_assert_eq!(packed.unpack(bytes.len()), Ok(bytes));
        }

        #[test]
        fn damage_never_panics(
            unpacked: u32, bytes: Vec<u8>, max in 0usize..100_000,
        ) {
            let packed = Packed { unpacked, bytes };
            if let Ok(out) = packed.unpack(max) {
                prop_assert!(out.len() <= max);
            }
        }
    }

    #[test]
    fn a_claim_above_the_limit_is_refused_before_anything_is_allocated() {
        let bomb = Packed {
            unpacked: u32::MAX,
            bytes: vec![0; 100],
        };
        assert_eq!(
            bomb.clone().unpack(1000),
            Err(UnpackError::TooLarge {
                claimed: u32::MAX as usize,
                max: 1000
            })
        );
        assert_eq!(bomb.unpack(usize::MAX), Err(UnpackError::Damaged));
    }

    #[test]
    fn repetition_is_found() {
        assert!(Packed::pack(vec![7; 10_000]).len() < 100);
    }
}
