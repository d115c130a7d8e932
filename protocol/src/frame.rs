//! Frames: version, kind, length, and one value: MessagePack, or without its marks where every byte counts.
//!
//! ```text
//! ┌─────────┬──────┬────────────────┬───────────┐
//! │ version │ kind │ length (varint)│ body      │
//! │ 1 byte  │ 1    │ 1–4            │ length    │
//! └─────────┴──────┴────────────────┴───────────┘
//! ```
//!
//! Both ends of a link speak one version; a frame of any other is refused. Every error ends the link: after one, nothing
//! says where the next frame would begin.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::messagepack::Reader;
use crate::varint;

/// The version of all links. It rises with every change that an older reader would misread.
pub const VERSION: u8 = 3;

/// The header's most bytes.
const HEADER_BYTES_MAX: usize = 2 + 4;

/// What can be framed: one direction of one link.
pub trait Message: Sized {
    /// Returns the kind of this message.
    fn kind(&self) -> u8;

    /// Appends the encoded body.
    ///
    /// # Errors
    ///
    /// When a field is above its limit.
    fn write_body(&self, out: &mut Vec<u8>) -> Result<(), rmp_serde::encode::Error>;

    /// Returns how many bytes a body of this kind may have, or `None` if there is no such kind.
    fn body_bytes_max(kind: u8) -> Option<usize>;

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// When it is malformed. The kind is known to exist.
    fn read_body(kind: u8, body: &[u8]) -> Result<Self, String>;
}

/// Why a message cannot be framed.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// A field is above its limit.
    #[error("cannot encode a frame of kind {kind:#04x}: {source}")]
    Field {
        /// The kind.
        kind: u8,
        /// What was wrong.
        source: rmp_serde::encode::Error,
    },
    /// The body is above its limit.
    #[error("a frame of kind {kind:#04x} with {length} bytes where at most {max} are allowed")]
    Oversized {
        /// The kind.
        kind: u8,
        /// How long it is.
        length: usize,
        /// How long it may be.
        max: usize,
    },
}

/// Why bytes are no frame.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// Of a version this program does not speak.
    #[error("a frame of version {version}, this program speaks {VERSION}")]
    UnknownVersion {
        /// Which.
        version: u8,
    },
    /// Of a kind that does not exist on this link.
    #[error("a frame of unknown kind {kind:#04x}")]
    UnknownKind {
        /// Which.
        kind: u8,
    },
    /// The length is not a number this protocol writes.
    #[error("a frame of kind {kind:#04x} whose length is malformed")]
    BadLength {
        /// The kind.
        kind: u8,
    },
    /// It announces more than its kind may have.
    #[error("a frame of kind {kind:#04x} announces {length} bytes where at most {max} are allowed")]
    Oversized {
        /// The kind.
        kind: u8,
        /// What it announces.
        length: u64,
        /// What is allowed.
        max: usize,
    },
    /// The bytes end inside it.
    #[error("a frame is cut off after {have} bytes")]
    Truncated {
        /// How many bytes there were.
        have: usize,
    },
    /// The body is not what its kind demands.
    #[error("a frame of kind {kind:#04x} is malformed: {reason}")]
    Malformed {
        /// The kind.
        kind: u8,
        /// What was wrong.
        reason: String,
    },
}

/// Frames a message.
///
/// # Errors
///
/// When it is above a limit.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, EncodeError> {
    let kind = message.kind();
    // The header's length is known only after the body: leave the most room and close the gap.
    let mut frame = vec![0; HEADER_BYTES_MAX];
    message
        .write_body(&mut frame)
        .map_err(|source| EncodeError::Field { kind, source })?;
    let length = frame.len() - HEADER_BYTES_MAX;
    let max = M::body_bytes_max(kind).expect("a message has a kind of its own link");
    if length > max {
        return Err(EncodeError::Oversized { kind, length, max });
    }
    let mut header = vec![VERSION, kind];
    varint::put(&mut header, length as u64);
    let gap = HEADER_BYTES_MAX - header.len();
    frame.drain(..gap);
    frame[..header.len()].copy_from_slice(&header);
    Ok(frame)
}

/// Reads the first frame of `bytes` and tells how many bytes it took; `None` if it is not complete yet.
///
/// # Errors
///
/// When the bytes cannot become a frame, as soon as that is certain.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<Option<(M, usize)>, DecodeError> {
    let Some(&version) = bytes.first() else {
        return Ok(None);
    };
    if version != VERSION {
        return Err(DecodeError::UnknownVersion { version });
    }
    let Some(&kind) = bytes.get(1) else {
        return Ok(None);
    };
    let max = M::body_bytes_max(kind).ok_or(DecodeError::UnknownKind { kind })?;
    // Four bytes hold every length a frame may have. No more are looked at, so that the same stream has the same error
    // however it is cut.
    let header = &bytes[2..bytes.len().min(HEADER_BYTES_MAX)];
    let mut after = header;
    let Some(length) = varint::take(&mut after) else {
        return if bytes.len() >= HEADER_BYTES_MAX {
            Err(DecodeError::BadLength { kind })
        } else {
            Ok(None)
        };
    };
    let rest = &bytes[2 + header.len() - after.len()..];
    if length > max as u64 {
        return Err(DecodeError::Oversized { kind, length, max });
    }
    let Some(body) = rest.get(..length as usize) else {
        return Ok(None);
    };
    let message =
        M::read_body(kind, body).map_err(|reason| DecodeError::Malformed { kind, reason })?;
    Ok(Some((message, bytes.len() - rest.len() + body.len())))
}

/// Reads exactly one frame.
///
/// # Errors
///
/// When the bytes are less or more than one frame, or none.
pub fn decode_one<M: Message>(bytes: &[u8]) -> Result<M, DecodeError> {
    match decode(bytes)? {
        Some((message, used)) if used == bytes.len() => Ok(message),
        Some((message, used)) => Err(DecodeError::Malformed {
            kind: message.kind(),
            reason: format!("{} bytes follow it", bytes.len() - used),
        }),
        None => Err(DecodeError::Truncated { have: bytes.len() }),
    }
}

/// Cuts a stream of bytes into frames.
///
/// Feed it what arrives, then ask for messages until there is none. It holds at most one incomplete frame and what was
/// fed last: an announced length alone allocates nothing.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// Takes in bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next message if it is complete.
    ///
    /// # Errors
    ///
    /// When the stream is not one of frames; nothing more can be read from it then.
    pub fn poll<M: Message>(&mut self) -> Result<Option<M>, DecodeError> {
        let Some((message, used)) = decode(&self.buffer[self.read..])? else {
            return Ok(None);
        };
        self.read += used;
        Ok(Some(message))
    }

    /// Says that the stream has ended.
    ///
    /// # Errors
    ///
    /// When it ended inside a frame.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.buffer.len() - self.read {
            0 => Ok(()),
            have => Err(DecodeError::Truncated { have }),
        }
    }
}

/// Writes a value, fields in order and without their names.
pub(crate) fn write<T: Serialize>(
    value: &T,
    out: &mut Vec<u8>,
) -> Result<(), rmp_serde::encode::Error> {
    rmp_serde::encode::write(out, value)
}

/// Reads a value that fills its bytes exactly.
pub(crate) fn read_exactly<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = Reader::new(bytes);
    let value = T::deserialize(&mut reader).map_err(|error| error.to_string())?;
    match reader.is_at_end() {
        true => Ok(value),
        false => Err("more bytes follow it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CheckpointNumber, NodeId};
    use crate::limit::SMALL_FRAME_BYTES_MAX;
    use crate::link::host::{AgentToHost, HostToAgent, Neighbors, TakeCheckpoint};

    fn take(number: u32) -> AgentToHost {
        AgentToHost::TakeCheckpoint(TakeCheckpoint {
            number: CheckpointNumber::from(number),
        })
    }

    fn check(bytes: &[u8], expect: &DecodeError) {
        assert_eq!(decode_one::<AgentToHost>(bytes).as_ref(), Err(expect));
        if !matches!(expect, DecodeError::Truncated { .. }) {
            let mut decoder = Decoder::default();
            decoder.feed(bytes);
            assert_eq!(decoder.poll::<AgentToHost>().as_ref(), Err(expect));
        }
    }

    #[test]
    fn a_small_message_takes_few_bytes() {
        assert_eq!(encode(&take(5)).unwrap().len(), 5);
    }

    #[test]
    fn frames_are_cut_out_of_any_stream_of_pieces() {
        let messages: Vec<AgentToHost> = (0..50).map(|n| take(n * 1000)).collect();
        let stream: Vec<u8> = messages.iter().flat_map(|m| encode(m).unwrap()).collect();
        for size in [1, 2, 3, 7, 64, stream.len()] {
            let mut decoder = Decoder::default();
            let mut seen: Vec<AgentToHost> = Vec::new();
            for piece in stream.chunks(size) {
                decoder.feed(piece);
                while let Some(message) = decoder.poll().unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, messages);
            assert_eq!(decoder.finish(), Ok(()));
        }
    }

    #[test]
    fn each_kind_of_damage_has_its_own_error() {
        let good = encode(&take(5)).unwrap();
        let kind = good[1];
        check(
            &[9, kind, 2, 0x91, 5],
            &DecodeError::UnknownVersion { version: 9 },
        );
        check(
            &[VERSION, 0xee, 0],
            &DecodeError::UnknownKind { kind: 0xee },
        );
        check(&good[..4], &DecodeError::Truncated { have: 4 });
        check(
            &[VERSION, kind, 0xff, 0xff, 0xff, 0xff, 0xff],
            &DecodeError::BadLength { kind },
        );
        // As soon as four bytes of it are there, and no matter what follows.
        check(
            &[VERSION, kind, 0xff, 0xff, 0xff, 0xff, 0x01],
            &DecodeError::BadLength { kind },
        );
        check(
            &[VERSION, kind, 0xff, 0xff, 0x7f],
            &DecodeError::Oversized {
                kind,
                length: 0x1f_ffff,
                max: SMALL_FRAME_BYTES_MAX,
            },
        );
        assert!(matches!(
            decode_one::<AgentToHost>(&[VERSION, kind, 1, 0xc1]),
            Err(DecodeError::Malformed { .. })
        ));
        let mut long = good.clone();
        long.push(0);
        assert!(matches!(
            decode_one::<AgentToHost>(&long),
            Err(DecodeError::Malformed { .. })
        ));
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_says_so() {
        let good = encode(&take(5)).unwrap();
        let mut decoder = Decoder::default();
        decoder.feed(&good[..3]);
        assert_eq!(decoder.poll::<AgentToHost>(), Ok(None));
        assert_eq!(decoder.finish(), Err(DecodeError::Truncated { have: 3 }));
    }

    #[test]
    fn a_field_above_its_limit_is_not_sent() {
        let message = HostToAgent::Neighbors(Neighbors {
            neighbors: Some(vec![NodeId::new(1); 10_000]),
        });
        assert!(matches!(encode(&message), Err(EncodeError::Field { .. })));
    }
}
