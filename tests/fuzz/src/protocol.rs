//! What the protocol's types read: frames of the three links, stamps, checkpoints, differences, and lines of the log.

use std::fmt::Debug;

use scry_protocol::channel::{Envelope, Received, Succession};
use scry_protocol::compress::Packed;
use scry_protocol::delta::Delta;
use scry_protocol::frame::{self, Decoder, Message};
use scry_protocol::limit::BODY_BYTES_MAX;
use scry_protocol::link::checker::{AgentToChecker, CheckerToAgent};
use scry_protocol::link::host::{AgentToHost, HostToAgent};
use scry_protocol::link::peer::{Changed, PeerMessage};
use scry_protocol::record::{Record, Timestamp};
use scry_protocol::{Body, FilterId, NodeId, RunId, ViolationId, messagepack};

use crate::Target;
use crate::memory::frugally;

/// The targets of this module.
pub const TARGETS: &[Target] = &[
    Target::new("host_to_agent", 1024, body::<HostToAgent>),
    Target::new("agent_to_host", 1024, body::<AgentToHost>),
    Target::new("peer", 1024, peer),
    Target::new("agent_to_checker", 2048, body::<AgentToChecker>),
    Target::new("checker_to_agent", 1024, body::<CheckerToAgent>),
    Target::new("stream", 512, stream),
    Target::new("envelope", 256, envelope),
    Target::new("succession", 256, succession),
    Target::new("content", 1024, content),
    Target::new("delta", 512, delta),
    Target::new("difference", 512, difference),
    Target::new("packed", 512, packed),
    Target::new("record", 1024, record),
    Target::new("names", 64, names),
];

/// The kind, then the body. The header is left to `stream`, so that a new version of it spoils no corpus.
fn body<M: Message + Debug + PartialEq>(input: &[u8]) {
    message::<M>(input);
}

fn message<M: Message + Debug + PartialEq>(input: &[u8]) -> Option<M> {
    let (&kind, body) = input.split_first()?;
    M::body_bytes_max(kind)?;
    let read = frugally(input, 0, || M::read_body(kind, body)).ok()?;
    let frame = frame::encode(&read).expect("what was read is within the limits");
    assert_eq!(frame::decode_one::<M>(&frame).as_ref(), Ok(&read));
    Some(read)
}

/// A peer's message, and the checkpoint that may be in it.
fn peer(input: &[u8]) {
    let Some(PeerMessage::Full(full)) = message(input) else {
        return;
    };
    let unpacked = frugally(input, 255 * input.len(), || {
        full.body.unpack(BODY_BYTES_MAX)
    });
    if let Ok(bytes) = unpacked {
        content(&bytes);
    }
}

/// The first byte says which link, the second where the rest is cut: pieces must come to the same end as the whole.
fn stream(input: &[u8]) {
    let [link, cut, bytes @ ..] = input else {
        return;
    };
    let cut = usize::from(*cut) * 2;
    match link % 5 {
        0 => pieces::<HostToAgent>(bytes, cut),
        1 => pieces::<AgentToHost>(bytes, cut),
        2 => pieces::<PeerMessage>(bytes, cut),
        3 => pieces::<AgentToChecker>(bytes, cut),
        _ => pieces::<CheckerToAgent>(bytes, cut),
    }
}

fn pieces<M: Message + Debug + PartialEq>(bytes: &[u8], cut: usize) {
    let mut rest = bytes;
    let mut whole = Vec::new();
    let end = loop {
        match frugally(bytes, 0, || frame::decode::<M>(rest)) {
            Ok(Some((message, used))) => {
                assert!((2..=rest.len()).contains(&used));
                rest = &rest[used..];
                whole.push(message);
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    let mut decoder = Decoder::default();
    let mut seen = whole.iter();
    let mut failed = None;
    for piece in [first, second] {
        decoder.feed(piece);
        while failed.is_none() {
            match decoder.poll::<M>() {
                Ok(Some(message)) => assert_eq!(Some(&message), seen.next()),
                Ok(None) => break,
                Err(error) => failed = Some(error),
            }
        }
    }
    assert_eq!(seen.next(), None);
    assert_eq!(failed, end);
}

fn envelope(input: &[u8]) {
    let Ok((read, rest)) = frugally(input, 0, || Envelope::read(input)) else {
        return;
    };
    let mut again = Vec::new();
    read.write(&mut again);
    assert!(again.len() <= input.len() - rest.len(), "the shortest form");
    assert_eq!(Envelope::read(&again), Ok((read, &[][..])));
}

/// Stamps one after the other, as on a connection, with a byte of message after each.
fn succession(input: &[u8]) {
    let (mut there, mut here, mut again) = (
        Succession::default(),
        Succession::default(),
        Succession::default(),
    );
    let mut received = Received::default();
    let mut rest = input;
    while let Ok((envelope, after)) = frugally(input, 0, || here.read(rest)) {
        let mut bytes = Vec::new();
        there.write(&envelope, &mut bytes);
        assert!(bytes.len() <= rest.len() - after.len(), "the shortest form");
        let place = envelope.place;
        assert_eq!(again.read(&bytes), Ok((envelope, &[][..])));
        assert_eq!(here.place(), place);
        if let Some(place) = place {
            received.note(place.sequence);
            assert!(received.newest() >= place.sequence);
        }
        rest = after.get(1..).unwrap_or_default();
    }
}

/// A checkpoint as its node encoded it.
fn content(input: &[u8]) {
    let Ok(body) = Body::from_bytes(input.to_vec()) else {
        return;
    };
    let Ok(read) = frugally(input, 0, || body.read()) else {
        return;
    };
    let again = read.write().expect("what was read is within the limits");
    assert_eq!(again.read().expect("what was written can be read"), read);
}

/// A base, and a difference of somebody else's making: its length, the base, the body of the message it comes in.
fn delta(input: &[u8]) {
    const CHANGED: u8 = 0x23;
    let Some((&length, rest)) = input.split_first() else {
        return;
    };
    let (base, body) = rest.split_at(usize::from(length).min(rest.len()));
    let Ok(PeerMessage::Changed(Changed { delta, .. })) = PeerMessage::read_body(CHANGED, body)
    else {
        return;
    };
    // Each copy of a few bytes may be as long as the base.
    let most = BODY_BYTES_MAX.min(255 * input.len() * (base.len() + 2));
    if let Ok(result) = frugally(input, 2 * most, || delta.apply(base)) {
        assert!(result.len() <= BODY_BYTES_MAX);
    }
}

/// A base and a target of any bytes: what leads from one to the other does.
fn difference(input: &[u8]) {
    let Some((&length, rest)) = input.split_first() else {
        return;
    };
    let (base, target) = rest.split_at(usize::from(length).min(rest.len()));
    let delta = Delta::between(base, target);
    assert_eq!(delta.apply(base).as_deref(), Ok(target));
}

fn packed(input: &[u8]) {
    let Some((&max, bytes)) = input.split_first() else {
        return;
    };
    let max = usize::from(max) * 64;
    if let Ok(read) = frugally(input, 0, || messagepack::from_slice::<Packed>(bytes))
        && let Ok(unpacked) = frugally(input, max, || read.unpack(max))
    {
        assert!(unpacked.len() <= max);
        assert_eq!(Packed::pack(unpacked.clone()).unpack(max), Ok(unpacked));
    }
    assert_eq!(
        Packed::pack(bytes.to_vec()).unpack(bytes.len()).as_deref(),
        Ok(bytes)
    );
}

/// A line of the steering log.
fn record(input: &[u8]) {
    let Ok(read) = frugally(input, 0, || serde_json::from_slice::<Record>(input)) else {
        return;
    };
    let again = serde_json::to_string(&read).expect("a record can be written");
    let again: Record = serde_json::from_str(&again).expect("what was written can be read");
    assert_eq!(again, read);
}

/// Names and moments as people write them.
fn names(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    fn back<T: std::str::FromStr<Err: Debug> + std::fmt::Display + PartialEq + Debug>(text: &str) {
        if let Ok(read) = text.parse::<T>() {
            assert_eq!(read.to_string().parse::<T>().expect("its own name"), read);
        }
    }
    back::<NodeId>(text);
    back::<RunId>(text);
    back::<ViolationId>(text);
    back::<FilterId>(text);
    back::<Timestamp>(text);
}
