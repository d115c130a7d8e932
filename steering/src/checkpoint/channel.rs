//! Which messages a node has sent, which of them are known to have arrived, and which it has received.
//!
//! An acknowledgement that arrives with a message may be acted on at once: the message's stamp sees to it that every
//! snapshot which shows the acknowledgement shows the receipt. So an acknowledged message is in flight in no snapshot
//! that this node's later checkpoints can be part of.

use std::collections::{BTreeMap, VecDeque};

use scry_protocol::channel::{
    Acknowledged, Arrival, ChannelState, Place, Received, Receiving, Sending, Unacknowledged,
};
use scry_protocol::limit::{
    CHANNELS_MAX, MESSAGE_BYTES_MAX, UNACKNOWLEDGED_BYTES_MAX, UNACKNOWLEDGED_MAX,
};
use scry_protocol::{CheckpointNumber, Incarnation, NodeId, Transport};

use crate::checkpoint::Time;
use crate::checkpoint::sorted::Sorted;

/// Channels from one peer that are remembered. Older ones are over: nothing on them counts as in flight.
pub const RECEIVING_PER_PEER_MAX: usize = 4;
/// An acknowledgement goes out with the next message, unless the last went out so lately and so few messages ago: where
/// messages are many, most need not carry one.
const ACKNOWLEDGED_MS: u64 = 100;
const ACKNOWLEDGED_MESSAGES: u32 = 16;

/// How a message is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lane {
    /// On its own.
    Datagram,
    /// On a connection, by the serial that [`Channels::open`] gave it.
    Stream(u32),
}

/// How much is remembered.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// After so long a datagram that was not acknowledged is lost, not late; and so is what was on a connection that is
    /// gone.
    pub lifetime_ms: u64,
    /// Bytes of unacknowledged messages that are kept, over all channels.
    pub kept_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lifetime_ms: 5_000,
            kept_bytes_max: UNACKNOWLEDGED_BYTES_MAX,
        }
    }
}

/// Both directions of all channels of one life of a node.
#[derive(Debug)]
pub struct Channels {
    options: Options,
    incarnation: Incarnation,
    /// By peer, transport and serial.
    sending: Sorted<(NodeId, Transport, u32), Outgoing>,
    /// How many connections this life has opened to each peer.
    opened: BTreeMap<NodeId, u32>,
    /// By peer and transport; at most [`RECEIVING_PER_PEER_MAX`] each, by rising (life, serial).
    receiving: Sorted<(NodeId, Transport), Vec<Incoming>>,
    kept_bytes: usize,
    /// Counts uses, so that the channels of longest silence are left out first.
    uses: u64,
}

#[derive(Debug, Default)]
struct Outgoing {
    sent: u64,
    forgotten: u64,
    /// What is kept, by rising place and time.
    kept: VecDeque<Kept>,
    /// The messages of `kept`, one after the other: they come and go in order, and need no memory of their own.
    bytes: VecDeque<u8>,
    /// When the connection was found to be gone.
    ended: Option<Time>,
    used: u64,
}

#[derive(Debug)]
struct Kept {
    sequence: u64,
    number: CheckpointNumber,
    at: Time,
    length: usize,
}

#[derive(Debug)]
struct Incoming {
    incarnation: Incarnation,
    serial: u32,
    received: Received,
    ended: bool,
    used: u64,
    /// When the sender was last told what arrived, and how many have since.
    told: Option<Time>,
    untold: u32,
}

impl Lane {
    /// Returns how messages on this lane travel.
    pub fn transport(self) -> Transport {
        match self {
            Self::Datagram => Transport::Datagram,
            Self::Stream(_) => Transport::Stream,
        }
    }

    fn serial(self) -> u32 {
        match self {
            Self::Datagram => 0,
            Self::Stream(serial) => serial,
        }
    }
}

impl Channels {
    /// Begins a life without channels.
    pub fn new(incarnation: Incarnation, options: Options) -> Self {
        Self {
            options,
            incarnation,
            sending: Sorted::default(),
            opened: BTreeMap::new(),
            receiving: Sorted::default(),
            kept_bytes: 0,
            uses: 0,
        }
    }

    /// Opens the sending half of a connection, from either end.
    pub fn open(&mut self, peer: NodeId) -> u32 {
        let opened = self.opened.entry(peer).or_default();
        *opened += 1;
        let serial = *opened;
        self.sending
            .entry((peer, Transport::Stream, serial), Outgoing::default);
        serial
    }

    /// Gives a message its place, and keeps a copy until it is known to have arrived.
    pub fn send(
        &mut self,
        now: Time,
        number: CheckpointNumber,
        to: NodeId,
        lane: Lane,
        message: &[u8],
    ) -> Place {
        self.uses += 1;
        let channel = (to, lane.transport(), lane.serial());
        let outgoing = self.sending.entry(channel, Outgoing::default);
        outgoing.used = self.uses;
        outgoing.sent += 1;
        let sequence = outgoing.sent;
        if message.len() <= MESSAGE_BYTES_MAX {
            outgoing.kept.push_back(Kept {
                sequence,
                number,
                at: now,
                length: message.len(),
            });
            outgoing.bytes.extend(message);
            self.kept_bytes += message.len();
            if outgoing.kept.len() > UNACKNOWLEDGED_MAX {
                self.kept_bytes -= outgoing.forget_oldest();
            }
        } else {
            outgoing.forgotten = sequence;
        }
        self.make_room();
        Place {
            incarnation: self.incarnation,
            serial: lane.serial(),
            sequence,
        }
    }

    /// Forgets the contents of the channel used longest ago until the rest fits.
    fn make_room(&mut self) {
        while self.kept_bytes > self.options.kept_bytes_max {
            let Some(outgoing) = self
                .sending
                .values_mut()
                .filter(|outgoing| !outgoing.kept.is_empty())
                .min_by_key(|outgoing| outgoing.used)
            else {
                return;
            };
            self.kept_bytes -= outgoing.forget_oldest();
        }
    }

    /// Notes the arrival of a message.
    pub fn receive(&mut self, from: NodeId, transport: Transport, place: Place) -> Arrival {
        self.uses += 1;
        let incoming = self.receiving.entry((from, transport), Vec::new);
        let key = (place.incarnation, place.serial);
        let at = match incoming.binary_search_by_key(&key, Incoming::key) {
            Ok(at) => at,
            Err(0) if incoming.len() == RECEIVING_PER_PEER_MAX => return Arrival::Old,
            Err(mut at) => {
                if incoming.len() == RECEIVING_PER_PEER_MAX {
                    incoming.remove(0);
                    at -= 1;
                }
                incoming.insert(
                    at,
                    Incoming {
                        incarnation: place.incarnation,
                        serial: place.serial,
                        received: Received::default(),
                        ended: false,
                        used: 0,
                        told: None,
                        untold: 0,
                    },
                );
                at
            }
        };
        let incoming = &mut incoming[at];
        incoming.used = self.uses;
        incoming.untold = incoming.untold.saturating_add(1);
        incoming.received.note(place.sequence)
    }

    /// Returns what to tell a peer with the next message to it: what arrived on the channel it used last, unless it was
    /// told just now.
    pub fn acknowledgement(
        &mut self,
        now: Time,
        peer: NodeId,
        transport: Transport,
    ) -> Option<Acknowledged> {
        let incoming = self
            .receiving
            .get_mut(&(peer, transport))?
            .iter_mut()
            .max_by_key(|incoming| incoming.used)?;
        let lately = incoming
            .told
            .is_some_and(|told| now.millis_since(told) < ACKNOWLEDGED_MS);
        if lately && incoming.untold < ACKNOWLEDGED_MESSAGES {
            return None;
        }
        incoming.told = Some(now);
        incoming.untold = 0;
        Some(Acknowledged {
            incarnation: incoming.incarnation,
            serial: incoming.serial,
            received: incoming.received,
        })
    }

    /// Takes in what a peer says has arrived.
    pub fn acknowledge(&mut self, peer: NodeId, transport: Transport, acknowledged: &Acknowledged) {
        if acknowledged.incarnation != self.incarnation {
            return;
        }
        let key = (peer, transport, acknowledged.serial);
        if let Some(outgoing) = self.sending.get_mut(&key) {
            self.kept_bytes -= outgoing.acknowledge(&acknowledged.received);
        }
    }

    /// Learns that a connection is gone, and nothing more comes on it.
    ///
    /// What was sent on it and not acknowledged may still be read by a peer that has not learnt of it yet: it stays in
    /// flight for its lifetime, or until the peer's checkpoint says that the connection is gone there too.
    pub fn end(
        &mut self,
        now: Time,
        peer: NodeId,
        sending: Option<u32>,
        receiving: Option<(Incarnation, u32)>,
    ) {
        if let Some(serial) = sending
            && let Some(outgoing) = self.sending.get_mut(&(peer, Transport::Stream, serial))
        {
            outgoing.ended.get_or_insert(now);
        }
        if let Some(key) = receiving
            && let Some(incoming) = self.receiving.get_mut(&(peer, Transport::Stream))
            && let Ok(at) = incoming.binary_search_by_key(&key, Incoming::key)
        {
            incoming[at].ended = true;
        }
    }

    /// Describes all channels as they are now.
    pub fn state(&mut self, now: Time) -> ChannelState {
        self.tidy(now);
        ChannelState {
            sending: newest(&self.sending, |outgoing| outgoing.used)
                .map(|(&(peer, transport, serial), outgoing)| Sending {
                    peer,
                    transport,
                    serial,
                    sent: outgoing.sent,
                    forgotten: outgoing.forgotten,
                    unacknowledged: outgoing.describe(),
                })
                .collect(),
            receiving: self
                .receiving
                .iter()
                .flat_map(|(&(peer, transport), incoming)| {
                    incoming.iter().map(move |incoming| Receiving {
                        peer,
                        transport,
                        incarnation: incoming.incarnation,
                        serial: incoming.serial,
                        received: incoming.received,
                        ended: incoming.ended,
                    })
                })
                .take(CHANNELS_MAX)
                .collect(),
        }
    }

    /// Gives up messages that are too old to arrive, and forgets connections on which nothing is under way.
    fn tidy(&mut self, now: Time) {
        let lifetime_ms = self.options.lifetime_ms;
        let newest_serial = &self.opened;
        let kept_bytes = &mut self.kept_bytes;
        self.sending.retain(|(peer, transport, serial), outgoing| {
            if *transport == Transport::Datagram {
                *kept_bytes -= outgoing.pop_while(|kept| now.millis_since(kept.at) > lifetime_ms);
                return true;
            }
            let over = outgoing
                .ended
                .is_some_and(|ended| now.millis_since(ended) > lifetime_ms);
            if over {
                *kept_bytes -= outgoing.pop_while(|_| true);
                outgoing.forgotten = 0;
            }
            // The newest connection stays: its serial says how many there were. An open one may be used again.
            !over || newest_serial.get(peer) == Some(serial)
        });
    }
}

/// Returns the entries in order, without those used longest ago if there are too many.
fn newest<K: Ord, V>(
    map: &Sorted<K, V>,
    used: impl Fn(&V) -> u64,
) -> impl Iterator<Item = (&K, &V)> {
    let mut uses: Vec<u64> = map.iter().map(|(_, value)| used(value)).collect();
    uses.sort_unstable();
    let least = match uses.len().checked_sub(CHANNELS_MAX) {
        Some(excess) if excess > 0 => uses[excess],
        _ => 0,
    };
    map.iter()
        .filter(move |(_, value)| used(value) >= least)
        .take(CHANNELS_MAX)
}

impl Outgoing {
    /// Forgets the oldest message, which may be in flight all the same, and returns its length.
    fn forget_oldest(&mut self) -> usize {
        let oldest = self.kept.front().map_or(0, |kept| kept.sequence);
        self.forgotten = self.forgotten.max(oldest);
        self.pop_while(|kept| kept.sequence == oldest)
    }

    /// Lets go of what has arrived, and returns how many bytes that freed.
    fn acknowledge(&mut self, received: &Received) -> usize {
        let freed = self.pop_while(|kept| received.contains(kept.sequence));
        if received.newest() == received.up_to() {
            return freed;
        }
        // Some have overtaken others: what is left is put together anew.
        let bytes_before = self.bytes.len();
        let (mut bytes, mut rest) = (VecDeque::new(), std::mem::take(&mut self.bytes));
        self.kept.retain(|kept| {
            let message = rest.drain(..kept.length);
            let gone = received.contains(kept.sequence);
            if !gone {
                bytes.extend(message);
            }
            !gone
        });
        self.bytes = bytes;
        freed + bytes_before - self.bytes.len()
    }

    /// Drops messages from the oldest on while they match, and returns how many bytes that freed.
    fn pop_while(&mut self, matches: impl Fn(&Kept) -> bool) -> usize {
        let mut freed = 0;
        while let Some(kept) = self.kept.pop_front_if(|kept| matches(kept)) {
            freed += kept.length;
        }
        self.bytes.drain(..freed);
        freed
    }

    fn describe(&self) -> Vec<Unacknowledged> {
        let mut bytes = self.bytes.iter().copied();
        self.kept
            .iter()
            .map(|kept| Unacknowledged {
                sequence: kept.sequence,
                number: kept.number,
                message: bytes.by_ref().take(kept.length).collect(),
            })
            .collect()
    }
}

impl Incoming {
    fn key(&self) -> (Incarnation, u32) {
        (self.incarnation, self.serial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId::new(2);
    const NOW: Time = Time::from_millis(0);

    fn channels() -> Channels {
        Channels::new(Incarnation::new(1), Options::default())
    }

    fn send(channels: &mut Channels, lane: Lane, message: &[u8]) -> Place {
        channels.send(NOW, CheckpointNumber::from(1), PEER, lane, message)
    }

    fn kept(channels: &mut Channels, now: Time) -> Vec<u64> {
        channels
            .state(now)
            .sending
            .iter()
            .flat_map(|sending| sending.unacknowledged.iter().map(|kept| kept.sequence))
            .collect()
    }

    #[test]
    fn acknowledged_messages_are_let_go_even_out_of_order() {
        let (mut here, mut there) = (channels(), channels());
        let places: Vec<Place> = (0..4)
            .map(|_| send(&mut here, Lane::Datagram, b"x"))
            .collect();
        there.receive(PEER, Transport::Datagram, places[0]);
        there.receive(PEER, Transport::Datagram, places[2]);
        let news = there.acknowledgement(NOW, PEER, Transport::Datagram);
        here.acknowledge(PEER, Transport::Datagram, &news.expect("two have arrived"));
        assert_eq!(kept(&mut here, NOW), [2, 4]);
        assert_eq!(here.kept_bytes, 2);
    }

    #[test]
    fn what_stays_behind_is_still_itself() {
        let (mut here, mut there) = (channels(), channels());
        for (at, message) in [b"one".as_slice(), b"second", b"3", b"the fourth"]
            .iter()
            .enumerate()
        {
            let place = send(&mut here, Lane::Datagram, message);
            if at % 2 == 0 {
                there.receive(PEER, Transport::Datagram, place);
            }
        }
        let news = there.acknowledgement(NOW, PEER, Transport::Datagram);
        here.acknowledge(PEER, Transport::Datagram, &news.expect("two have arrived"));
        let state = here.state(NOW);
        let left = state.sending[0].unacknowledged.iter();
        let left: Vec<&[u8]> = left.map(|kept| kept.message.as_slice()).collect();
        assert_eq!(left, [b"second".as_slice(), b"the fourth"]);
    }

    #[test]
    fn the_acknowledgement_is_left_out_only_for_a_while() {
        let (mut here, mut there) = (channels(), channels());
        let mut told = |ms: u64, messages: u32| {
            for _ in 0..messages {
                let place = send(&mut here, Lane::Datagram, b"x");
                there.receive(PEER, Transport::Datagram, place);
            }
            let now = Time::from_millis(ms);
            let news = there.acknowledgement(now, PEER, Transport::Datagram);
            news.map(|news| news.received.up_to())
        };
        assert_eq!(told(0, 1), Some(1), "the first is told at once");
        assert_eq!(told(0, 1), None, "so soon after it nothing is");
        assert_eq!(told(0, ACKNOWLEDGED_MESSAGES), Some(18), "unless many came");
        assert_eq!(told(ACKNOWLEDGED_MS - 1, 0), None);
        assert_eq!(
            told(ACKNOWLEDGED_MS, 0),
            Some(18),
            "what was told may be lost"
        );
    }

    #[test]
    fn a_datagram_that_is_too_old_is_lost_and_a_stream_message_never_is() {
        let mut here = channels();
        send(&mut here, Lane::Datagram, b"x");
        let serial = here.open(PEER);
        send(&mut here, Lane::Stream(serial), b"y");
        assert_eq!(kept(&mut here, Time::from_millis(5_000)), [1, 1]);
        assert_eq!(kept(&mut here, Time::from_millis(5_001)), [1]);
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let mut here = channels();
        for _ in 0..UNACKNOWLEDGED_MAX + 3 {
            send(&mut here, Lane::Datagram, b"x");
        }
        send(&mut here, Lane::Datagram, &[0; MESSAGE_BYTES_MAX + 1]);
        let state = here.state(NOW);
        assert_eq!(state.sending[0].sent, UNACKNOWLEDGED_MAX as u64 + 4);
        assert_eq!(state.sending[0].unacknowledged.len(), UNACKNOWLEDGED_MAX);
        assert_eq!(state.sending[0].forgotten, UNACKNOWLEDGED_MAX as u64 + 4);
    }

    #[test]
    fn the_bytes_kept_stay_below_their_limit() {
        let mut here = Channels::new(
            Incarnation::new(1),
            Options {
                kept_bytes_max: 100,
                ..Options::default()
            },
        );
        for _ in 0..30 {
            send(&mut here, Lane::Datagram, &[0; 9]);
        }
        assert!(here.kept_bytes <= 100);
        assert_eq!(kept(&mut here, NOW).len(), 11);
    }

    #[test]
    fn what_was_on_a_broken_connection_is_given_up_after_its_lifetime() {
        let mut here = channels();
        let first = here.open(PEER);
        send(&mut here, Lane::Stream(first), b"x");
        let second = here.open(PEER);
        send(&mut here, Lane::Stream(second), b"y");
        here.end(NOW, PEER, Some(first), None);
        assert_eq!(here.state(Time::from_millis(5_000)).sending.len(), 2);
        let state = here.state(Time::from_millis(5_001));
        assert_eq!(state.sending.len(), 1);
        assert_eq!(state.sending[0].serial, second);
        assert_eq!(state.sending[0].unacknowledged.len(), 1);
    }

    #[test]
    fn old_lives_of_a_peer_are_forgotten_first() {
        let mut here = channels();
        let place = |life| Place {
            incarnation: Incarnation::new(life),
            serial: 0,
            sequence: 1,
        };
        for life in 1..=6 {
            assert_eq!(
                here.receive(PEER, Transport::Datagram, place(life)),
                Arrival::New
            );
        }
        assert_eq!(
            here.receive(PEER, Transport::Datagram, place(1)),
            Arrival::Old
        );
        assert_eq!(here.state(NOW).receiving.len(), RECEIVING_PER_PEER_MAX);
    }
}
