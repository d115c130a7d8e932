//! How messages look on the wire between two nodes of a service.
//!
//! ```text
//! connection:  frame(hello)  frame(stamp message)  frame(stamp message) …      frame = length (4 bytes), content
//! datagram:    sender (4 bytes)  stamp  message
//! ```
//!
//! A stamp is an [`Envelope`], on a connection without what follows from the one before ([`Succession`]), a message is the
//! service's own in MessagePack. Nothing here authenticates anybody: a node believes who its peers say they are, as the
//! protocols that are steered do.

use scry_protocol::channel::{Envelope, ReadEnvelopeError, Succession};
use scry_protocol::{CheckpointNumber, Incarnation, NodeId, messagepack};
use serde::{Deserialize, Serialize};

use scry_engine::model::network::Connection;

/// The version a hello says. It rises with every change that an older node would misread.
pub const VERSION: u8 = 3;
/// The longest frame of a connection.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// The longest datagram.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// The longest hello.
pub const HELLO_BYTES_MAX: usize = 64;

const LENGTH_BYTES: usize = 4;
const SENDER_BYTES: usize = 4;

/// The stamp of a node that has no agent.
pub const NO_STAMP: Envelope = Envelope {
    number: CheckpointNumber::ZERO,
    place: None,
    acknowledged: None,
    past: None,
};

/// What whoever opens a connection says first, so that both ends name it alike.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u8,
    /// Who opens it.
    pub from: NodeId,
    /// Which incarnation of that node.
    pub incarnation: Incarnation,
    /// Whom it takes the other end for.
    pub to: NodeId,
    /// What the connection is called.
    pub connection: Connection,
}

/// Why bytes from the network are not what a node of this service sends.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A frame is longer than any may be.
    #[error("a frame of {0} bytes, at most {FRAME_BYTES_MAX} are allowed")]
    FrameTooLong(usize),
    /// The stamp is malformed.
    #[error(transparent)]
    Stamp(#[from] ReadEnvelopeError),
    /// The hello is malformed.
    #[error("the hello cannot be read: {0}")]
    Hello(String),
    /// The datagram does not say who sent it.
    #[error("a datagram without a sender")]
    NoSender,
}

/// Frames a stamped message for a connection, in place of what `out` held; tells whether it is not too long.
pub fn frame(
    out: &mut Vec<u8>,
    stamps: &mut Succession,
    envelope: &Envelope,
    message: &[u8],
) -> bool {
    out.clear();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    stamps.write(envelope, out);
    out.extend_from_slice(message);
    close(out)
}

/// As [`frame`], with the stamp that follows from the one before; tells whether there is one and it is not too long.
pub fn frame_next(out: &mut Vec<u8>, stamps: &mut Succession, message: &[u8]) -> bool {
    out.clear();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let follows = stamps.write_next(out);
    out.extend_from_slice(message);
    follows && close(out)
}

/// Frames a hello.
pub fn hello(hello: &Hello) -> Vec<u8> {
    let mut bytes = vec![0; LENGTH_BYTES];
    rmp_serde::encode::write(&mut bytes, hello).expect("a hello is plain numbers");
    assert!(close(&mut bytes), "a hello is short");
    bytes
}

/// Makes a datagram of a stamped message, in place of what `out` held; tells whether it is not too long.
pub fn datagram(out: &mut Vec<u8>, from: NodeId, envelope: &Envelope, message: &[u8]) -> bool {
    out.clear();
    out.extend_from_slice(&from.get().to_be_bytes());
    envelope.write(out);
    out.extend_from_slice(message);
    out.len() <= DATAGRAM_BYTES_MAX
}

/// Writes a frame's length before it.
fn close(frame: &mut [u8]) -> bool {
    let length = frame.len() - LENGTH_BYTES;
    frame[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    length <= FRAME_BYTES_MAX
}

/// Returns the content of the frame at the beginning and how many bytes it takes; `None` if it is not complete.
///
/// # Errors
///
/// When it is longer than `max`.
pub fn split(bytes: &[u8], max: usize) -> Result<Option<(&[u8], usize)>, WireError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > max {
        return Err(WireError::FrameTooLong(length));
    }
    Ok(rest
        .get(..length)
        .map(|content| (content, LENGTH_BYTES + length)))
}

/// Reads a hello from the content of its frame.
///
/// # Errors
///
/// When it is none, or of another version.
pub fn read_hello(content: &[u8]) -> Result<Hello, WireError> {
    let hello: Hello =
        messagepack::from_slice(content).map_err(|error| WireError::Hello(error.to_string()))?;
    if hello.version != VERSION {
        return Err(WireError::Hello(format!(
            "it is of version {}, this program speaks {VERSION}",
            hello.version
        )));
    }
    Ok(hello)
}

/// Reads a datagram: the sender, the stamp, and the message's bytes.
///
/// # Errors
///
/// When it is cut off or its stamp is malformed.
pub fn read_datagram(bytes: &[u8]) -> Result<(NodeId, Envelope, &[u8]), WireError> {
    let (sender, rest) = bytes
        .split_first_chunk::<SENDER_BYTES>()
        .ok_or(WireError::NoSender)?;
    let (envelope, message) = Envelope::read(rest)?;
    Ok((NodeId::new(u32::from_be_bytes(*sender)), envelope, message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HELLO: Hello = Hello {
        version: VERSION,
        from: NodeId::new(u32::MAX),
        incarnation: Incarnation::new(u64::MAX),
        to: NodeId::new(u32::MAX),
        connection: Connection {
            opener: NodeId::new(u32::MAX),
            serial: u32::MAX,
        },
    };

    proptest! {
        #[test]
        fn messages_read_back(message: Vec<u8>, sender: u32, number in 0u32..) {
            let envelope = Envelope { number: CheckpointNumber::from(number), ..NO_STAMP };
            let mut bytes = vec![1, 2, 3];
            prop_assert!(frame(&mut bytes, &mut Succession::default(), &envelope, &message));
            let (content, used) = split(&bytes, FRAME_BYTES_MAX).expect("short").expect("complete");
            prop_assert_eq!(used, bytes.len());
            let read = Succession::default().read(content);
            prop_assert_eq!(read.expect("ours"), (envelope.clone(), message.as_slice()));
            for end in 0..bytes.len() {
                prop_assert!(split(&bytes[..end], FRAME_BYTES_MAX).expect("short").is_none());
            }
            let from = NodeId::new(sender);
            prop_assert!(datagram(&mut bytes, from, &envelope, &message));
            prop_assert_eq!(read_datagram(&bytes).expect("ours"), (from, envelope, message.as_slice()));
        }

        #[test]
        fn bytes_from_outside_never_panic(bytes: Vec<u8>) {
            let _ = split(&bytes, 100);
            let _ = read_hello(&bytes);
            let _ = read_datagram(&bytes);
        }
    }

    #[test]
    fn the_longest_hello_fits_its_limit() {
        let bytes = hello(&HELLO);
        let (content, _) = split(&bytes, HELLO_BYTES_MAX)
            .expect("within the limit")
            .expect("complete");
        assert_eq!(read_hello(content).expect("ours"), HELLO);
    }

    #[test]
    fn too_much_is_refused_in_both_directions() {
        let mut out = Vec::new();
        let datagram = datagram(&mut out, HELLO.from, &NO_STAMP, &[0; DATAGRAM_BYTES_MAX]);
        let stamps = &mut Succession::default();
        let frame = frame(&mut out, stamps, &NO_STAMP, &vec![0; FRAME_BYTES_MAX]);
        assert_eq!((datagram, frame), (false, false));
        assert!(matches!(
            split(&[0xff; 8], FRAME_BYTES_MAX),
            Err(WireError::FrameTooLong(_))
        ));
        let other = Hello {
            version: 9,
            ..HELLO
        };
        let bytes = hello(&other);
        assert!(matches!(read_hello(&bytes[4..]), Err(WireError::Hello(_))));
    }
}
