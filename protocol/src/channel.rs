//! What a node knows of the messages between itself and its peers, and the stamp every service message carries.
//!
//! A *channel* leads one way from one incarnation of a sender to a receiver: all datagrams, or the messages of one connection.
//! Its messages are numbered from one. A checkpoint holds, for each channel, how many were sent with those not yet
//! acknowledged, and which were received; two checkpoints of one consistent snapshot then tell exactly which messages
//! were between the two nodes.

use serde::{Deserialize, Serialize};

use crate::id::{CheckpointNumber, Incarnation, NodeId};
use crate::limit::{self, CHANNELS_MAX, MESSAGE_BYTES_MAX, UNACKNOWLEDGED_MAX};
use crate::past::{Moment, Past};
use crate::varint;

/// No channel has more messages: places and counts from outside are checked against it, so that sums cannot overflow.
const SEQUENCE_MAX: u64 = 1 << 62;

/// How a channel's messages travel.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Transport {
    /// Each on its own (UDP).
    Datagram,
    /// In order, on a connection (TCP).
    Stream,
}

impl From<Transport> for u8 {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Datagram => 0,
            Transport::Stream => 1,
        }
    }
}

impl TryFrom<u8> for Transport {
    type Error = &'static str;

    fn try_from(byte: u8) -> Result<Self, Self::Error> {
        match byte {
            0 => Ok(Self::Datagram),
            1 => Ok(Self::Stream),
            _ => Err("an unknown transport"),
        }
    }
}

/// Both directions of all channels of a node, at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct ChannelState {
    /// What it sent, by peer, transport and serial.
    #[serde(with = "limit::List::<CHANNELS_MAX>")]
    pub sending: Vec<Sending>,
    /// What it received, by peer, transport, incarnation and serial.
    #[serde(with = "limit::List::<CHANNELS_MAX>")]
    pub receiving: Vec<Receiving>,
}

/// A channel as its sender knows it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Sending {
    /// The receiver.
    pub peer: NodeId,
    /// How the messages travel.
    pub transport: Transport,
    /// Counts the sender's channels to this peer by this transport; a reconnection opens the next.
    pub serial: u32,
    /// How many messages were sent.
    pub sent: u64,
    /// Messages up to this one may be in flight although they are not listed: there was no room to keep them.
    pub forgotten: u64,
    /// Messages not known to have arrived, in order.
    #[serde(with = "limit::List::<UNACKNOWLEDGED_MAX>")]
    pub unacknowledged: Vec<Unacknowledged>,
}

/// A message that its sender does not know to have arrived.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Unacknowledged {
    /// Its place in the channel.
    pub sequence: u64,
    /// The sender's checkpoint number when it was sent.
    pub number: CheckpointNumber,
    /// The message as the service encoded it.
    #[serde(with = "limit::Bytes::<MESSAGE_BYTES_MAX>")]
    pub message: Vec<u8>,
}

/// A channel as its receiver knows it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Receiving {
    /// The sender.
    pub peer: NodeId,
    /// How the messages travel.
    pub transport: Transport,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// Which of that incarnation's channels.
    pub serial: u32,
    /// Which messages arrived.
    pub received: Received,
    /// Whether nothing more can arrive: the connection is gone.
    pub ended: bool,
}

/// Which messages of a channel have arrived.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64)")]
pub struct Received {
    up_to: u64,
    /// Bit `k` is the message `up_to + 1 + k`; bit 0 is never set, or `up_to` would have moved.
    beyond: u64,
}

impl TryFrom<(u64, u64)> for Received {
    type Error = &'static str;

    fn try_from((up_to, beyond): (u64, u64)) -> Result<Self, Self::Error> {
        if up_to > SEQUENCE_MAX || beyond & 1 == 1 {
            return Err("no such set of messages");
        }
        Ok(Self { up_to, beyond })
    }
}

/// What an arriving message is to its channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// It had not arrived before.
    New,
    /// It had arrived before, or so long ago that this is not known any more.
    Old,
}

impl Received {
    /// How far messages may overtake each other and still be told apart.
    pub const WINDOW: u64 = 64;

    /// Notes an arrival. Messages more than [`WINDOW`](Self::WINDOW) behind the newest are given up for lost.
    pub fn note(&mut self, sequence: u64) -> Arrival {
        // Nearly always the next one comes, and none is missing.
        if sequence == self.up_to + 1 && self.beyond == 0 {
            self.up_to = sequence;
            return Arrival::New;
        }
        if self.contains(sequence) {
            return Arrival::Old;
        }
        let ahead = sequence - self.up_to - 1;
        if ahead >= Self::WINDOW {
            let shift = ahead - Self::WINDOW + 1;
            self.up_to += shift;
            self.beyond = self.beyond.checked_shr(shift.min(64) as u32).unwrap_or(0);
        }
        self.beyond |= 1 << (sequence - self.up_to - 1);
        let arrived = self.beyond.trailing_ones();
        self.up_to += u64::from(arrived);
        self.beyond = self.beyond.checked_shr(arrived).unwrap_or(0);
        Arrival::New
    }

    /// Notes the arrival of several in order, of which this is the last.
    pub fn note_run(&mut self, last: u64, count: u64) {
        let before = last.saturating_sub(count);
        if before == self.up_to && self.beyond == 0 {
            self.up_to = last;
            return;
        }
        for sequence in before + 1..=last {
            self.note(sequence);
        }
    }

    /// Tells whether a message has arrived or is given up.
    pub fn contains(&self, sequence: u64) -> bool {
        if sequence <= self.up_to {
            return true;
        }
        let ahead = sequence - self.up_to - 1;
        ahead < Self::WINDOW && self.beyond >> ahead & 1 == 1
    }

    /// Returns the newest message that has arrived, zero if none has.
    pub fn newest(&self) -> u64 {
        self.up_to + (64 - u64::from(self.beyond.leading_zeros()))
    }

    /// Returns the last message before the first gap.
    pub fn up_to(&self) -> u64 {
        self.up_to
    }

    /// Returns what arrived after the first gap, a bit each.
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }
}

/// What the framework adds to every service message, unseen by the service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Envelope {
    /// The sender's checkpoint number.
    pub number: CheckpointNumber,
    /// The message's place in its channel, if channel state is kept.
    pub place: Option<Place>,
    /// What the sender has received of the receiver's messages by the same transport.
    pub acknowledged: Option<Acknowledged>,
    /// What the receiver's past gains by the message, as far as the sender cannot be sure that it has it already.
    pub past: Option<Box<Past>>,
}

/// A message's place in a channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// Which of its channels to this receiver.
    pub serial: u32,
    /// Counted from one.
    pub sequence: u64,
}

/// Which messages of one channel have arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// The incarnation that sent them.
    pub incarnation: Incarnation,
    /// Which of its channels.
    pub serial: u32,
    /// Which messages.
    pub received: Received,
}

/// Why bytes are no envelope.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReadEnvelopeError {
    /// Of a version this program does not know.
    #[error("a stamp of unknown version {0}")]
    UnknownVersion(u8),
    /// They end too early.
    #[error("the stamp is cut off")]
    Truncated,
    /// A number in it is out of its range.
    #[error("a number in the stamp is out of range")]
    OutOfRange,
    /// They leave out what follows from an envelope before them, and there was none.
    #[error("the stamp follows from one that never came")]
    NothingBefore,
}

impl Envelope {
    /// The version written, in the upper half of the first byte.
    const VERSION: u8 = 2;
    const HAS_PLACE: u8 = 1;
    const HAS_ACKNOWLEDGED: u8 = 2;
    /// Number and place are as the envelope before lets expect, and left out.
    const FOLLOWS: u8 = 4;
    const HAS_PAST: u8 = 8;

    /// No envelope is longer, but for the past it may carry.
    pub const BYTES_MAX: usize = 1 + 8 * varint::BYTES_MAX;

    /// Appends the envelope; the message follows it.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.append(false, out);
    }

    /// Reads an envelope and returns what follows it.
    ///
    /// # Errors
    ///
    /// When the bytes do not begin with one.
    pub fn read(bytes: &[u8]) -> Result<(Self, &[u8]), ReadEnvelopeError> {
        Self::split(bytes, || None)
    }

    #[inline]
    fn append(&self, follows: bool, out: &mut Vec<u8>) {
        // Put together aside, so that `out` grows once.
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[0] = Self::VERSION << 4;
        let mut length = 1;
        if follows {
            bytes[0] |= Self::FOLLOWS;
        } else {
            length = varint::set(&mut bytes, length, self.number.get());
            if let Some(place) = &self.place {
                bytes[0] |= Self::HAS_PLACE;
                length = varint::set(&mut bytes, length, place.incarnation.get());
                length = varint::set(&mut bytes, length, place.serial.into());
                length = varint::set(&mut bytes, length, place.sequence);
            }
        }
        if let Some(acknowledged) = &self.acknowledged {
            bytes[0] |= Self::HAS_ACKNOWLEDGED;
            length = acknowledged.set(&mut bytes, length);
        }
        if self.past.is_some() {
            bytes[0] |= Self::HAS_PAST;
        }
        out.extend_from_slice(&bytes[..length]);
        if let Some(past) = &self.past {
            past.write(reference(self.number, self.place.as_ref()), out);
        }
    }

    #[inline]
    fn split(
        bytes: &[u8],
        expected: impl FnOnce() -> Option<(CheckpointNumber, Option<Place>)>,
    ) -> Result<(Self, &[u8]), ReadEnvelopeError> {
        let (&first, mut rest) = bytes.split_first().ok_or(ReadEnvelopeError::Truncated)?;
        if first >> 4 != Self::VERSION {
            return Err(ReadEnvelopeError::UnknownVersion(first));
        }
        let input = &mut rest;
        let (number, place) = match first & (Self::HAS_PLACE | Self::FOLLOWS) {
            Self::FOLLOWS => expected().ok_or(ReadEnvelopeError::NothingBefore)?,
            0 => (checkpoint_number(input)?, None),
            Self::HAS_PLACE => (checkpoint_number(input)?, Some(Place::read(input)?)),
            _ => return Err(ReadEnvelopeError::UnknownVersion(first)),
        };
        let acknowledged = match first & Self::HAS_ACKNOWLEDGED {
            0 => None,
            _ => Some(Acknowledged::read(input)?),
        };
        let past = match first & Self::HAS_PAST {
            0 => None,
            _ => {
                let past = Past::read(reference(number, place.as_ref()), input);
                Some(Box::new(past.ok_or(ReadEnvelopeError::OutOfRange)?))
            }
        };
        let envelope = Self {
            number,
            place,
            acknowledged,
            past,
        };
        Ok((envelope, rest))
    }
}

/// What the moments of an envelope's past are written by their distance to: they are mostly of late.
fn reference(number: CheckpointNumber, place: Option<&Place>) -> Moment {
    Moment {
        incarnation: place.map_or_else(Incarnation::default, |place| place.incarnation),
        number,
    }
}

/// One direction of a connection, as far as its stamps need it: a stamp that follows from the one before it is a byte.
///
/// Both ends keep one and put every message through it, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Succession {
    last: Option<Last>,
}

/// What the last envelope of a succession said, without what it acknowledged.
#[derive(Clone, Copy, Debug)]
struct Last {
    number: CheckpointNumber,
    place: Option<Place>,
}

impl Succession {
    /// A stamp of which everything follows from the one before.
    const NEXT: u8 = Envelope::VERSION << 4 | Envelope::FOLLOWS;

    /// Appends an envelope, as [`Envelope::write`] does, in as few bytes as its predecessor allows.
    #[inline]
    pub fn write(&mut self, envelope: &Envelope, out: &mut Vec<u8>) {
        let follows = match &mut self.last {
            Some(last) => last.is_followed_by(envelope) && last.go_on(),
            None => false,
        };
        if follows && envelope.acknowledged.is_none() && envelope.past.is_none() {
            return out.push(Self::NEXT);
        }
        if !follows {
            self.last = Some(Last::of(envelope));
        }
        envelope.append(follows, out);
    }

    /// Appends the envelope that follows from the one before and acknowledges nothing; tells whether there is one.
    #[inline]
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        let follows = self.last.as_mut().is_some_and(Last::go_on);
        if follows {
            out.push(Self::NEXT);
        }
        follows
    }

    /// Reads an envelope and returns what follows it.
    ///
    /// # Errors
    ///
    /// When the bytes do not begin with one, or with one that refers to a predecessor there was not.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<(Envelope, &'a [u8]), ReadEnvelopeError> {
        let mut follows = false;
        let (envelope, rest) = Envelope::split(bytes, || {
            follows = true;
            let last = self.last.as_mut()?;
            last.go_on().then_some((last.number, last.place))
        })?;
        if !follows {
            self.last = Some(Last::of(&envelope));
        }
        Ok((envelope, rest))
    }

    /// Reads an envelope if all of it follows from the one before, as most do; else nothing has been read.
    #[inline]
    pub fn read_next<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (&first, rest) = bytes.split_first()?;
        let follows = first == Self::NEXT && self.last.as_mut()?.go_on();
        follows.then_some(rest)
    }

    /// Tells whether the last message said when it was sent, in its sender's numbers. What comes of a sender without any says
    /// something new each time, since nobody knows what it has heard meanwhile.
    #[inline]
    pub fn is_stamped(&self) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|last| last.number != CheckpointNumber::ZERO)
    }

    /// Returns the place of the last message.
    pub fn place(&self) -> Option<Place> {
        self.last?.place
    }
}

impl Last {
    fn of(envelope: &Envelope) -> Self {
        Self {
            number: envelope.number,
            place: envelope.place,
        }
    }

    #[inline]
    fn is_followed_by(&self, envelope: &Envelope) -> bool {
        self.number == envelope.number
            && match (&self.place, &envelope.place) {
                (None, None) => true,
                (Some(last), Some(this)) => last.is_followed_by(this),
                _ => false,
            }
    }

    /// Becomes what follows from it; tells whether anything does.
    #[inline]
    fn go_on(&mut self) -> bool {
        match &mut self.place {
            Some(place) if place.sequence >= SEQUENCE_MAX => false,
            Some(place) => {
                place.sequence += 1;
                true
            }
            None => true,
        }
    }
}

impl Place {
    /// Tells whether a place is the next of the same channel.
    #[inline]
    pub fn is_followed_by(&self, next: &Self) -> bool {
        self.sequence.wrapping_add(1) == next.sequence
            && self.serial == next.serial
            && self.incarnation == next.incarnation
    }

    fn read(input: &mut &[u8]) -> Result<Self, ReadEnvelopeError> {
        let (incarnation, serial) = channel(input)?;
        let sequence = number(input)?;
        if sequence == 0 || sequence > SEQUENCE_MAX {
            return Err(ReadEnvelopeError::OutOfRange);
        }
        Ok(Self {
            incarnation,
            serial,
            sequence,
        })
    }
}

impl Acknowledged {
    fn set(&self, bytes: &mut [u8], at: usize) -> usize {
        let at = varint::set(bytes, at, self.incarnation.get());
        let at = varint::set(bytes, at, self.serial.into());
        let at = varint::set(bytes, at, self.received.up_to);
        varint::set(bytes, at, self.received.beyond)
    }

    fn read(input: &mut &[u8]) -> Result<Self, ReadEnvelopeError> {
        let (incarnation, serial) = channel(input)?;
        let received = Received::try_from((number(input)?, number(input)?))
            .map_err(|_| ReadEnvelopeError::OutOfRange)?;
        Ok(Self {
            incarnation,
            serial,
            received,
        })
    }
}

fn number(input: &mut &[u8]) -> Result<u64, ReadEnvelopeError> {
    varint::take(input).ok_or(ReadEnvelopeError::Truncated)
}

fn checkpoint_number(input: &mut &[u8]) -> Result<CheckpointNumber, ReadEnvelopeError> {
    CheckpointNumber::new(number(input)?).map_err(|_| ReadEnvelopeError::OutOfRange)
}

fn channel(input: &mut &[u8]) -> Result<(Incarnation, u32), ReadEnvelopeError> {
    let incarnation = Incarnation::new(number(input)?);
    let serial = u32::try_from(number(input)?).map_err(|_| ReadEnvelopeError::OutOfRange)?;
    Ok((incarnation, serial))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn past_of(seed: u8) -> Box<Past> {
        let mut past = Past::up_to(CheckpointNumber::from(u32::from(seed)));
        let number = CheckpointNumber::from(u32::from(seed) + 7);
        let incarnation = Incarnation::new(1 << 41);
        past.note(
            NodeId::new(seed.into()),
            Moment {
                incarnation,
                number,
            },
        );
        Box::new(past)
    }

    proptest! {
        #[test]
        fn arrivals_within_the_window_are_told_apart(
            jumbled in prop::collection::vec(0u64..30, 1..200)
        ) {
            let mut received = Received::default();
            let mut seen = BTreeSet::new();
            for (at, jitter) in jumbled.into_iter().enumerate() {
                let sequence = (at as u64 + 30).saturating_sub(jitter).max(1);
                let fresh = seen.insert(sequence);
                let arrival = received.note(sequence);
                prop_assert_eq!(arrival == Arrival::New, fresh || sequence + 64 <= received.newest());
                prop_assert_eq!(received.newest(), *seen.last().unwrap());
                for sequence in received.newest().saturating_sub(63)..received.newest() + 70 {
                    if sequence > 0 && sequence > received.up_to() {
                        prop_assert_eq!(received.contains(sequence), seen.contains(&sequence));
                    }
                }
            }
        }

        #[test]
        fn an_envelope_reads_back(
            number in 0u64..1 << 62, place: Option<(u64, u32)>, sequence in 1u64..1 << 62,
            acknowledged: Option<(u64, u32)>, up_to in 0u64..1 << 62, beyond: u32, past: Option<u8>, message: Vec<u8>,
        ) {
            let envelope = Envelope {
                number: CheckpointNumber::new(number).unwrap(),
                place: place.map(|(life, serial)| Place {
                    incarnation: Incarnation::new(life), serial, sequence,
                }),
                acknowledged: acknowledged.map(|(life, serial)| Acknowledged {
                    incarnation: Incarnation::new(life), serial, received: Received { up_to, beyond: u64::from(beyond) << 1 },
                }),
                past: past.map(past_of),
            };
            let mut bytes = Vec::new();
            envelope.write(&mut bytes);
            bytes.extend(&message);
            prop_assert_eq!(Envelope::read(&bytes), Ok((envelope, message.as_slice())));
        }

        #[test]
        fn a_run_is_its_messages(before in prop::collection::vec(1u64..30, 0..20), last in 0u64..60, count in 0u64..40) {
            let mut singly = Received::default();
            for sequence in before {
                singly.note(sequence);
            }
            let mut together = singly;
            together.note_run(last, count.min(last));
            for sequence in last - count.min(last) + 1..=last {
                singly.note(sequence);
            }
            prop_assert_eq!(together, singly);
        }

        #[test]
        fn a_succession_of_envelopes_reads_back(
            steps in prop::collection::vec((0u64..3, 0u8..8, prop::option::of(0u64..9), any::<u8>()), 0..40),
        ) {
            let (mut there, mut here) = (Succession::default(), Succession::default());
            let mut sequence = 0;
            for (number, leap, acknowledged, message) in steps {
                // Mostly the next one, now and then another, or none.
                sequence += 1 + u64::from(leap == 7);
                let envelope = Envelope {
                    number: CheckpointNumber::from(number as u32 / 2),
                    place: (leap > 0).then_some(Place { incarnation: Incarnation::new(7), serial: 3, sequence }),
                    acknowledged: acknowledged.map(|up_to| Acknowledged {
                        incarnation: Incarnation::new(8), serial: 4, received: Received { up_to, beyond: 0 },
                    }),
                    past: (message > 200).then(|| past_of(message)),
                };
                let (mut bytes, mut next, mut quickly) = (Vec::new(), Vec::new(), there);
                there.write(&envelope, &mut bytes);
                prop_assert!(bytes.len() > 1 || quickly.write_next(&mut next) && next == bytes);
                bytes.push(message);
                let mut quickly = here;
                let next = quickly.read_next(&bytes);
                prop_assert_eq!(next.is_some(), bytes.len() == 2, "all others are longer");
                prop_assert_eq!(here.read(&bytes), Ok((envelope.clone(), &[message][..])));
                if let Some(rest) = next {
                    prop_assert_eq!(rest, &[message][..]);
                    prop_assert_eq!(quickly.place(), envelope.place);
                    prop_assert_eq!(&envelope.acknowledged, &None);
                    prop_assert_eq!(&envelope.past, &None);
                }
            }
        }
    }

    #[test]
    fn what_follows_from_the_stamp_before_is_one_byte() {
        let mut envelope = Envelope {
            number: CheckpointNumber::from(u32::MAX),
            place: Some(Place {
                incarnation: Incarnation::new(1 << 41),
                serial: 1,
                sequence: 1,
            }),
            acknowledged: None,
            past: None,
        };
        let mut stamps = Succession::default();
        let mut lengths = Vec::new();
        for sequence in [1, 2, 3, 5, 6] {
            envelope.place = envelope.place.map(|place| Place { sequence, ..place });
            let mut bytes = Vec::new();
            stamps.write(&envelope, &mut bytes);
            lengths.push(bytes.len());
        }
        assert_eq!(lengths, [14, 1, 1, 14, 1]);
    }

    #[test]
    fn a_stamp_that_follows_from_nothing_is_refused() {
        let follows = [Envelope::VERSION << 4 | Envelope::FOLLOWS];
        let refused = Err(ReadEnvelopeError::NothingBefore);
        assert_eq!(Succession::default().read(&follows), refused);
        assert_eq!(Envelope::read(&follows), refused);
        // With a place of its own it would not follow.
        let both = follows[0] | Envelope::HAS_PLACE;
        let refused = Err(ReadEnvelopeError::UnknownVersion(both));
        assert_eq!(Envelope::read(&[both, 1, 1, 1, 1]), refused);
    }

    #[test]
    fn far_jumps_give_up_what_lies_between() {
        let mut received = Received::default();
        assert_eq!(received.note(1), Arrival::New);
        assert_eq!(received.note(3), Arrival::New);
        assert!(!received.contains(2));
        assert_eq!(received.note(1000), Arrival::New);
        assert!(received.contains(2) && received.contains(936));
        assert!(!received.contains(937) && received.contains(1000));
        assert_eq!(received.note(2), Arrival::Old);
        assert_eq!(received.newest(), 1000);
        assert_eq!(received.note(1 << 62), Arrival::New);
        assert_eq!(received.newest(), 1 << 62);
    }

    #[test]
    fn a_stamp_without_channel_state_takes_few_bytes() {
        let mut bytes = Vec::new();
        Envelope {
            number: CheckpointNumber::from(100),
            place: None,
            acknowledged: None,
            past: None,
        }
        .write(&mut bytes);
        assert_eq!(bytes.len(), 2);
    }

    #[test]
    fn unknown_versions_and_cut_off_stamps_are_refused() {
        assert_eq!(Envelope::read(&[]), Err(ReadEnvelopeError::Truncated));
        assert_eq!(
            Envelope::read(&[0x10, 1]),
            Err(ReadEnvelopeError::UnknownVersion(0x10))
        );
        assert_eq!(
            Envelope::read(&[0x21, 1, 1]),
            Err(ReadEnvelopeError::Truncated)
        );
        assert_eq!(
            Envelope::read(&[0x21, 1, 1, 1, 0]),
            Err(ReadEnvelopeError::OutOfRange)
        );
    }
}
