//! How a checkpoint's content is laid out in bytes: what seldom changes first, what always changes together at the end.
//!
//! ```text
//! incarnation, born, state, timers │ past │ channels: whose, which │ counters │ unacknowledged: places │ their contents
//! ```
//!
//! Between two checkpoints of a quiet service only its counters differ. Side by side they are one insert of a difference
//! ([`delta`](crate::delta)), where among the names of their channels each would be one. Numbers are varints; places and
//! checkpoint numbers of unacknowledged messages are written by their distance to what was written before, so that they are
//! short and mostly stay the same.

use crate::channel::{ChannelState, Received, Receiving, Sending, Transport, Unacknowledged};
use crate::checkpoint::Content;
use crate::id::{CheckpointNumber, Incarnation, NodeId};
use crate::limit::{
    CHANNELS_MAX, MESSAGE_BYTES_MAX, PAST_ENTRIES_MAX, STATE_BYTES_MAX, TIMERS_BYTES_MAX,
    UNACKNOWLEDGED_MAX,
};
use crate::past::{Moment, Past};
use crate::varint;

/// A part of a checkpoint is above its limit: which.
pub(super) type Excess = &'static str;

const STREAM: u8 = 1;
/// Of what was sent: some was forgotten.
const FORGOTTEN: u8 = 2;
/// Of what was received: nothing more can come.
const ENDED: u8 = 2;
/// Of what was received: something came after a gap.
const GAPS: u8 = 4;

/// Writes a content.
pub(super) fn write(content: &Content) -> Result<Vec<u8>, Excess> {
    let channels = content.channels.as_ref();
    check(content, channels)?;
    let mut out = Vec::with_capacity(content.state.len() + content.timers.len() + 64);
    varint::put(&mut out, content.incarnation.get());
    varint::put(&mut out, content.born.get());
    put_bytes(&mut out, &content.state);
    put_bytes(&mut out, &content.timers);
    content
        .past
        .write(reference(content.incarnation, content.born), &mut out);
    if let Some(channels) = channels {
        put_names(&mut out, channels);
        put_counters(&mut out, channels);
        let mut number = content.born;
        for sending in &channels.sending {
            put_places(&mut out, sending, &mut number);
        }
        for kept in channels.sending.iter().flat_map(|s| &s.unacknowledged) {
            put_bytes(&mut out, &kept.message);
        }
    }
    Ok(out)
}

/// Reads a content that fills its bytes exactly; `None` if they are none.
pub(super) fn read(mut bytes: &[u8]) -> Option<Content> {
    let input = &mut bytes;
    let incarnation = Incarnation::new(varint::take(input)?);
    let born = CheckpointNumber::new(varint::take(input)?).ok()?;
    let state = take_bytes(input, STATE_BYTES_MAX)?.to_vec();
    let timers = take_bytes(input, TIMERS_BYTES_MAX)?.to_vec();
    let past = Past::read(reference(incarnation, born), input)?;
    let channels = if input.is_empty() {
        None
    } else {
        Some(take_channels(input, born)?)
    };
    input.is_empty().then_some(Content {
        incarnation,
        born,
        past,
        state,
        timers,
        channels,
    })
}

/// What the moments of the past are written by their distance to: it stays the same for an incarnation.
fn reference(incarnation: Incarnation, number: CheckpointNumber) -> Moment {
    Moment {
        incarnation,
        number,
    }
}

fn check(content: &Content, channels: Option<&ChannelState>) -> Result<(), Excess> {
    let within = |length: usize, max: usize, what: Excess| match length <= max {
        true => Ok(()),
        false => Err(what),
    };
    within(content.state.len(), STATE_BYTES_MAX, "the state")?;
    within(content.timers.len(), TIMERS_BYTES_MAX, "the timers")?;
    within(content.past.entries().len(), PAST_ENTRIES_MAX, "the past")?;
    let Some(channels) = channels else {
        return Ok(());
    };
    within(channels.sending.len(), CHANNELS_MAX, "the channels")?;
    within(channels.receiving.len(), CHANNELS_MAX, "the channels")?;
    for sending in &channels.sending {
        let kept = &sending.unacknowledged;
        within(kept.len(), UNACKNOWLEDGED_MAX, "the messages of a channel")?;
        for kept in kept {
            within(kept.message.len(), MESSAGE_BYTES_MAX, "a message")?;
        }
    }
    Ok(())
}

fn put_names(out: &mut Vec<u8>, channels: &ChannelState) {
    varint::put(out, channels.sending.len() as u64);
    for sending in &channels.sending {
        let mut flags = stream(sending.transport);
        if sending.forgotten > 0 {
            flags |= FORGOTTEN;
        }
        out.push(flags);
        varint::put(out, sending.peer.get().into());
        varint::put(out, sending.serial.into());
        if sending.forgotten > 0 {
            varint::put(out, sending.forgotten);
        }
    }
    varint::put(out, channels.receiving.len() as u64);
    for receiving in &channels.receiving {
        let mut flags = stream(receiving.transport);
        if receiving.ended {
            flags |= ENDED;
        }
        if receiving.received.beyond() > 0 {
            flags |= GAPS;
        }
        out.push(flags);
        varint::put(out, receiving.peer.get().into());
        varint::put(out, receiving.incarnation.get());
        varint::put(out, receiving.serial.into());
    }
}

fn put_counters(out: &mut Vec<u8>, channels: &ChannelState) {
    for sending in &channels.sending {
        varint::put(out, sending.sent);
    }
    for Receiving { received, .. } in &channels.receiving {
        varint::put(out, received.up_to());
        if received.beyond() > 0 {
            varint::put(out, received.beyond());
        }
    }
}

/// Writes where the unacknowledged messages of a channel are, the newest first, each by its distance to the one before,
/// and its checkpoint number by the distance to the last one written, of whatever channel: mostly zeros.
fn put_places(out: &mut Vec<u8>, sending: &Sending, number: &mut CheckpointNumber) {
    varint::put(out, sending.unacknowledged.len() as u64);
    let mut after = sending.sent.wrapping_add(1);
    for kept in sending.unacknowledged.iter().rev() {
        let gap = after.wrapping_sub(kept.sequence).wrapping_sub(1);
        varint::put(out, varint::fold_sign(gap as i64));
        let later = kept.number.get().wrapping_sub(number.get());
        varint::put(out, varint::fold_sign(later as i64));
        (after, *number) = (kept.sequence, kept.number);
    }
}

fn take_channels(input: &mut &[u8], born: CheckpointNumber) -> Option<ChannelState> {
    let mut sending = Vec::new();
    for _ in 0..take_count(input, CHANNELS_MAX)? {
        let flags = take_byte(input, STREAM | FORGOTTEN)?;
        sending.push(Sending {
            transport: transport(flags),
            peer: NodeId::new(take_u32(input)?),
            serial: take_u32(input)?,
            forgotten: match flags & FORGOTTEN {
                0 => 0,
                _ => varint::take(input)?,
            },
            sent: 0,
            unacknowledged: Vec::new(),
        });
    }
    let mut receiving = Vec::new();
    let mut gaps = Vec::new();
    for _ in 0..take_count(input, CHANNELS_MAX)? {
        let flags = take_byte(input, STREAM | ENDED | GAPS)?;
        gaps.push(flags & GAPS != 0);
        receiving.push(Receiving {
            transport: transport(flags),
            ended: flags & ENDED != 0,
            peer: NodeId::new(take_u32(input)?),
            incarnation: Incarnation::new(varint::take(input)?),
            serial: take_u32(input)?,
            received: Received::default(),
        });
    }
    for sending in &mut sending {
        sending.sent = varint::take(input)?;
    }
    for (receiving, gaps) in receiving.iter_mut().zip(gaps) {
        let up_to = varint::take(input)?;
        let beyond = if gaps { varint::take(input)? } else { 0 };
        receiving.received = Received::try_from((up_to, beyond)).ok()?;
    }
    let mut number = born;
    for sending in &mut sending {
        take_places(input, sending, &mut number)?;
    }
    for kept in sending.iter_mut().flat_map(|s| &mut s.unacknowledged) {
        kept.message = take_bytes(input, MESSAGE_BYTES_MAX)?.to_vec();
    }
    Some(ChannelState { sending, receiving })
}

fn take_places(
    input: &mut &[u8],
    sending: &mut Sending,
    number: &mut CheckpointNumber,
) -> Option<()> {
    let mut after = sending.sent.wrapping_add(1);
    for _ in 0..take_count(input, UNACKNOWLEDGED_MAX)? {
        let gap = varint::unfold_sign(varint::take(input)?) as u64;
        let later = varint::unfold_sign(varint::take(input)?) as u64;
        after = after.wrapping_sub(gap).wrapping_sub(1);
        *number = CheckpointNumber::new(number.get().wrapping_add(later)).ok()?;
        sending.unacknowledged.push(Unacknowledged {
            sequence: after,
            number: *number,
            message: Vec::new(),
        });
    }
    sending.unacknowledged.reverse();
    Some(())
}

fn stream(transport: Transport) -> u8 {
    match transport {
        Transport::Datagram => 0,
        Transport::Stream => STREAM,
    }
}

fn transport(flags: u8) -> Transport {
    match flags & STREAM {
        0 => Transport::Datagram,
        _ => Transport::Stream,
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(input: &mut &'a [u8], max: usize) -> Option<&'a [u8]> {
    let length = take_count(input, max)?;
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes)
}

fn take_count(input: &mut &[u8], max: usize) -> Option<usize> {
    let count = usize::try_from(varint::take(input)?).ok()?;
    (count <= max).then_some(count)
}

fn take_byte(input: &mut &[u8], known: u8) -> Option<u8> {
    let (&byte, rest) = input.split_first()?;
    *input = rest;
    (byte & !known == 0).then_some(byte)
}

fn take_u32(input: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::take(input)?).ok()
}
