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

/// Channels from one peer that are remembered. Older ones are over: nothing on them counts as in flight.
pub const RECEIVING_PER_PEER_MAX: usize = 4;

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
    sending: BTreeMap<(NodeId, Transport, u32), Outgoing>,
    /// How many connections this life has opened to each peer.
    opened: BTreeMap<NodeId, u32>,
    /// By peer and transport; at most [`RECEIVING_PER_PEER_MAX`] each, by rising (life, serial).
    receiving: BTreeMap<(NodeId, Transport), Vec<Incoming>>,
    kept_bytes: usize,
    /// Counts uses, so that the channels of longest silence are left out first.
    uses: u64,
}

#[derive(Debug, Default)]
struct Outgoing {
    sent: u64,
    forgotten: u64,
    kept: VecDeque<Kept>,
    /// When the connection was found to be gone.
    ended: Option<Time>,
    used: u64,
}

#[derive(Debug)]
struct Kept {
    sequence: u64,
    number: CheckpointNumber,
    at: Time,
    message: Vec<u8>,
}

#[derive(Debug)]
struct Incoming {
    incarnation: Incarnation,
    serial: u32,
    received: Received,
    ended: bool,
    used: u64,
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
            sending: BTreeMap::new(),
            opened: BTreeMap::new(),
            receiving: BTreeMap::new(),
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
            .insert((peer, Transport::Stream, serial), Outgoing::default());
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
        let outgoing = self
            .sending
            .entry((to, lane.transport(), lane.serial()))
            .or_default();
        outgoing.used = self.uses;
        outgoing.sent += 1;
        let sequence = outgoing.sent;
        if message.len() <= MESSAGE_BYTES_MAX {
            outgoing.kept.push_back(Kept {
                sequence,
                number,
                at: now,
                message: message.to_vec(),
            });
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
        let incoming = self.receiving.entry((from, transport)).or_default();
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
                    },
                );
                at
            }
        };
        incoming[at].used = self.uses;
        incoming[at].received.note(place.sequence)
    }

    /// Returns what to tell a peer with the next message to it: what arrived on the channel it used last.
    pub fn acknowledgement(&self, peer: NodeId, transport: Transport) -> Option<Acknowledged> {
        let incoming = self
            .receiving
            .get(&(peer, transport))?
            .iter()
            .max_by_key(|incoming| incoming.used)?;
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
            self.kept_bytes -=
                outgoing.release(|kept| acknowledged.received.contains(kept.sequence));
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
                    unacknowledged: outgoing.kept.iter().map(Kept::describe).collect(),
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
                *kept_bytes -= outgoing.release(|kept| now.millis_since(kept.at) > lifetime_ms);
                return true;
            }
            let over = outgoing
                .ended
                .is_some_and(|ended| now.millis_since(ended) > lifetime_ms);
            if over {
                *kept_bytes -= outgoing.release(|_| true);
                outgoing.forgotten = 0;
            }
            // The newest connection stays: its serial says how many there were. An open one may be used again.
            !over || newest_serial.get(peer) == Some(serial)
        });
    }
}

/// Returns the entries in order, without those used longest ago if there are too many.
fn newest<K: Ord, V>(
    map: &BTreeMap<K, V>,
    used: impl Fn(&V) -> u64,
) -> impl Iterator<Item = (&K, &V)> {
    let mut uses: Vec<u64> = map.values().map(&used).collect();
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
    fn forget_oldest(&mut self) -> usize {
        self.kept.pop_front().map_or(0, |kept| {
            self.forgotten = kept.sequence;
            kept.message.len()
        })
    }

    /// Drops the kept messages that match, and returns how many bytes that freed.
    fn release(&mut self, matches: impl Fn(&Kept) -> bool) -> usize {
        let mut freed = 0;
        self.kept.retain(|kept| {
            let gone = matches(kept);
            if gone {
                freed += kept.message.len();
            }
            !gone
        });
        freed
    }
}

impl Kept {
    fn describe(&self) -> Unacknowledged {
        Unacknowledged {
            sequence: self.sequence,
            number: self.number,
            message: self.message.clone(),
        }
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
        let news = there.acknowledgement(PEER, Transport::Datagram);
        here.acknowledge(PEER, Transport::Datagram, &news.expect("two have arrived"));
        assert_eq!(kept(&mut here, NOW), [2, 4]);
        assert_eq!(here.kept_bytes, 2);
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
