//! Messages from and to the host's peers: what the recorder learns of them, and what is counted.
//!
//! Most messages of a busy connection have a stamp that follows from the one before, of which nothing can come: neither a
//! checkpoint nor news of the past. They are put into batches, and the recorder learns of a batch before anything else is
//! told or asked of it ([`Traffic::settle`]), but for the stamp of a datagram. The hook has no other way to change the
//! recorder, so that no checkpoint shows less than was handled, whatever the order of calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use scry_protocol::channel::{Envelope, Place};
use scry_protocol::checkpoint::WriteCheckpointError;
use scry_protocol::link::host::{Checkpoint, Contacts};
use scry_protocol::{Incarnation, NodeId, Transport};

use crate::hook::contact::Seen;
use crate::hook::disarm::Peer;
use crate::hook::shared::Shared;
use scry_checkpoint::channel::Lane;
use scry_checkpoint::recorder::{Capture, Recorder};
use scry_checkpoint::sorted::Sorted;
use scry_checkpoint::{Messages, Time};

/// Peers whose messages are counted one by one.
const PEERS_MAX: usize = 4096;

/// With so many messages or bytes in a batch, or after so long, the next message gets a stamp of its own: that may
/// acknowledge what came, and limits what is kept.
const SENT_MAX: usize = 64;
const SENT_BYTES: usize = 16 << 10;
const SENT_MS: u64 = 20;

/// The recorder, behind the messages that it has not been told of.
#[derive(Debug)]
pub(super) struct Traffic {
    shared: Arc<Shared>,
    recorder: Recorder,
    seen: Seen,
    peers: Sorted<NodeId, Arc<Peer>>,
    counts: Counts,
    received: Received,
    sending: Option<Sending>,
    /// What went out on the connection of `sending` since its last stamp.
    sent: Messages,
}

/// Messages so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sent_bytes: u64,
    pub(super) sent_messages: u64,
    pub(super) received_messages: u64,
}

/// Messages that came in order on one connection.
#[derive(Debug)]
struct Received {
    from: NodeId,
    /// The place of the last, if its sender keeps channel state.
    last: Option<Place>,
    count: u32,
    /// When the last came.
    at: Time,
}

/// The connection on which the next message may go out with the stamp that follows from the last.
#[derive(Clone, Copy, Debug)]
struct Sending {
    to: NodeId,
    serial: u32,
    until: Time,
    /// While the past is still this one, there is nothing to tell of it.
    past_version: u64,
    /// When the last went out.
    at: Time,
}

impl Traffic {
    pub(super) fn new(shared: Arc<Shared>, recorder: Recorder) -> Self {
        Self {
            peers: Sorted::default(),
            seen: Seen::default(),
            counts: Counts::default(),
            received: Received {
                from: shared.node,
                last: None,
                count: 0,
                at: Time::default(),
            },
            sending: None,
            sent: Messages::default(),
            shared,
            recorder,
        }
    }

    /// Returns the recorder for what no batch changes: numbers, the past, counts.
    #[inline]
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Tells the recorder of all messages it does not know of, and returns it.
    #[inline]
    pub(super) fn settle(&mut self) -> &mut Recorder {
        self.settle_received();
        self.settle_sent();
        &mut self.recorder
    }

    /// Tells the recorder, and who counts messages by their senders, of those that came.
    #[inline]
    pub(super) fn settle_received(&mut self) {
        if self.received.count > 0 {
            self.tell_received();
        }
    }

    #[inline(never)]
    fn tell_received(&mut self) {
        let count = std::mem::take(&mut self.received.count);
        let Received { from, last, at, .. } = self.received;
        self.counts.received_messages += u64::from(count);
        self.seen.note(at, from, Transport::Stream);
        self.count_from(from, count);
        self.recorder
            .handle_run(from, Transport::Stream, last, count);
    }

    #[inline]
    fn settle_sent(&mut self) {
        if let Some(sending) = self.sending.take()
            && !self.sent.is_empty()
        {
            self.tell_sent(sending);
        }
    }

    #[inline(never)]
    fn tell_sent(&mut self, sending: Sending) {
        let Sending { to, serial, at, .. } = sending;
        self.counts.sent_messages += self.sent.len() as u64;
        self.counts.sent_bytes += self.sent.bytes_len() as u64;
        self.seen.note(at, to, Transport::Stream);
        let lane = Lane::Stream(serial);
        self.recorder.handle_sent(at, to, lane, &self.sent);
        self.sent.clear();
    }

    /// Learns of a message before anything is decided about it, and returns the checkpoint that must precede it.
    pub(super) fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        transport: Transport,
        envelope: &Envelope,
        capture: impl FnOnce() -> Capture,
    ) -> Result<Option<Checkpoint>, WriteCheckpointError> {
        self.counts.received_messages += 1;
        let recorder = self.settle();
        let taken = recorder.handle_message(now, from, transport, envelope, capture);
        self.seen.note(now, from, transport);
        self.count_from(from, 1);
        taken
    }

    /// Puts a message that came on a connection into the batch, if its place follows; else another batch begins.
    #[inline]
    pub(super) fn receive_next(&mut self, now: Time, from: NodeId, place: Option<Place>) {
        let received = &self.received;
        let follows = received.from == from
            && match (&received.last, &place) {
                (None, None) => true,
                (Some(last), Some(place)) => last.is_followed_by(place),
                _ => false,
            };
        if !follows {
            self.settle_received();
        }
        self.received = Received {
            from,
            last: place,
            count: self.received.count + 1,
            at: now,
        };
    }

    /// Learns of a message of somebody who is not a member.
    pub(super) fn receive_from_stranger(&mut self, from: NodeId, envelope: &Envelope) {
        self.counts.received_messages += 1;
        self.settle().handle_stranger(from, envelope.number);
    }

    /// Returns what goes out with a message. On a connection, a batch may follow it.
    #[inline]
    pub(super) fn stamp(&mut self, now: Time, to: NodeId, lane: Lane, message: &[u8]) -> Envelope {
        // A datagram has its own channel, and no checkpoint comes of it: batches on connections go on.
        if let Lane::Stream(_) = lane {
            self.settle();
        }
        let envelope = self.recorder.stamp(now, to, lane, message);
        self.counts.sent_messages += 1;
        self.counts.sent_bytes += message.len() as u64;
        self.seen.note(now, to, lane.transport());
        // Serials of connections that were opened here begin with one, and are never the same twice.
        if let Lane::Stream(serial) = lane
            && serial > 0
        {
            self.sending = Some(Sending {
                to,
                serial,
                until: now.after_millis(SENT_MS),
                past_version: self.recorder.past_version(),
                at: now,
            });
        }
        envelope
    }

    /// Puts a message that goes out on a connection into the batch, and returns it; `None` if it needs a stamp of its own.
    #[inline]
    pub(super) fn send_next<E>(
        &mut self,
        now: Time,
        to: NodeId,
        lane: Lane,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Option<&[u8]>, E> {
        let past_version = self.recorder.past_version();
        let Some(sending) = &mut self.sending else {
            return Ok(None);
        };
        let goes_on = lane == Lane::Stream(sending.serial)
            && to == sending.to
            && now < sending.until
            && past_version == sending.past_version
            && self.sent.len() < SENT_MAX
            && self.sent.bytes_len() < SENT_BYTES;
        if !goes_on {
            return Ok(None);
        }
        sending.at = now;
        self.sent.push_with(encode)
    }

    /// Opens a connection to a peer, from either end, and returns the serial its messages are sent under.
    pub(super) fn open(&mut self, now: Time, peer: NodeId) -> u32 {
        let serial = self.settle().open(peer);
        self.seen.note_open(now, peer);
        serial
    }

    /// Learns that a connection is gone.
    pub(super) fn handle_ended(
        &mut self,
        now: Time,
        peer: NodeId,
        sending: Option<u32>,
        receiving: Option<(Incarnation, u32)>,
    ) {
        let recorder = self.settle();
        recorder.handle_ended(now, peer, sending, receiving);
        self.seen.note_ended(now, peer);
    }

    /// Returns with whom the host spoke since this was last asked, if with anybody.
    pub(super) fn take_contacts(&mut self, now: Time) -> Option<Contacts> {
        self.settle();
        self.seen.take(now)
    }

    /// Returns how many messages there were, with those in batches.
    pub(super) fn counts(&self) -> Counts {
        let Counts {
            sent_bytes,
            sent_messages,
            received_messages,
        } = self.counts;
        Counts {
            sent_bytes: sent_bytes + self.sent.bytes_len() as u64,
            sent_messages: sent_messages + self.sent.len() as u64,
            received_messages: received_messages + u64::from(self.received.count),
        }
    }

    /// Counts messages by their sender, for the disarmer.
    #[inline]
    fn count_from(&mut self, from: NodeId, count: u32) {
        let Some(peer) = self.peers.get_mut(&from) else {
            return self.count_first(from, count);
        };
        // Nobody else writes this counter, so a load and a store do not lose anything.
        let received = peer.received.load(Ordering::Relaxed);
        let received = received + u64::from(count);
        peer.received.store(received, Ordering::Relaxed);
    }

    #[cold]
    fn count_first(&mut self, from: NodeId, count: u32) {
        if self.peers.len() < PEERS_MAX {
            let peer = self.shared.with_leases(|leases| leases.peer(from));
            peer.received.fetch_add(count.into(), Ordering::Relaxed);
            self.peers.entry(from, || peer);
        }
    }
}
