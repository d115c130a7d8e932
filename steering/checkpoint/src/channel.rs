//! Which messages a node has sent, which of them are known to have arrived, and which it has received.
//!
//! An acknowledgement that arrives with a message may be acted on at once: the message's stamp sees to it that every
//! snapshot which shows the acknowledgement shows the receipt. So an acknowledged message is in flight in no snapshot
//! that this node's later checkpoints can be part of.

use scry_protocol::channel::{
    Acknowledged, Arrival, ChannelState, Place, Received, Receiving, Sending,
};
use scry_protocol::limit::{
    CHANNELS_MAX, MESSAGE_BYTES_MAX, UNACKNOWLEDGED_BYTES_MAX, UNACKNOWLEDGED_MAX,
};
use scry_protocol::{CheckpointNumber, Incarnation, NodeId, Transport};

use crate::Time;
use crate::kept::{Kept, Messages};
use crate::sorted::Sorted;

/// Channels from one peer that are remembered. Older ones are over: nothing on them counts as in flight.
pub const RECEIVING_PER_PEER_MAX: usize = 4;
/// An acknowledgement goes out with the next message, unless the last went out so lately and so few messages ago: where
/// messages are many, most need not carry one.
const ACKNOWLEDGED_MS: u64 = 100;
const ACKNOWLEDGED_MESSAGES: u32 = 64;

/// After so long a later incarnation that says nothing, while an earlier one speaks, is taken for one that never was.
const MADE_UP_SILENT_MS: u64 = 20_000;

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

/// Both directions of all channels of one incarnation of a node.
#[derive(Debug)]
pub struct Channels {
    options: Options,
    incarnation: Incarnation,
    links: Sorted<(NodeId, Transport), Link>,
    kept_bytes: usize,
    /// Counts uses, so that the channels of longest silence are left out first.
    uses: u64,
}

/// The channels between the node and one peer by one transport.
#[derive(Debug, Default)]
struct Link {
    /// How many connections this incarnation has opened.
    opened: u32,
    /// By rising serial.
    outgoing: Vec<Outgoing>,
    /// At most [`RECEIVING_PER_PEER_MAX`], earlier incarnations first, and by rising serial.
    incoming: Vec<Incoming>,
}

#[derive(Debug)]
struct Outgoing {
    serial: u32,
    sent: u64,
    forgotten: u64,
    kept: Kept,
    /// When the connection was found to be gone.
    ended: Option<Time>,
    used: u64,
}

#[derive(Debug)]
struct Incoming {
    incarnation: Incarnation,
    serial: u32,
    received: Received,
    ended: bool,
    used: u64,
    /// When it was last seen to be used, and how far it was then.
    seen: (Time, u64),
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
    /// Begins an incarnation without channels.
    pub fn new(incarnation: Incarnation, options: Options) -> Self {
        Self {
            options,
            incarnation,
            links: Sorted::default(),
            kept_bytes: 0,
            uses: 0,
        }
    }

    /// Goes on as another incarnation: connections keep their serials, everything else is forgotten.
    pub fn renew(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
        self.kept_bytes = 0;
        for (_, link) in self.links.iter_mut() {
            link.incoming.clear();
            for outgoing in &mut link.outgoing {
                outgoing.sent = 0;
                outgoing.forgotten = 0;
                outgoing.kept = Kept::default();
            }
        }
    }

    /// Tells whether something came from this incarnation of a peer.
    pub fn knows(&self, peer: NodeId, transport: Transport, incarnation: Incarnation) -> bool {
        let link = self.links.get(&(peer, transport));
        link.is_some_and(|link| {
            let mut known = link.incoming.iter().map(|incoming| incoming.incarnation);
            known.any(|known| known == incarnation)
        })
    }

    /// Opens the sending half of a connection, from either end.
    pub fn open(&mut self, peer: NodeId) -> u32 {
        let link = self.links.entry((peer, Transport::Stream), Link::default);
        link.opened += 1;
        link.outgoing(link.opened);
        link.opened
    }

    /// Gives a message its place, keeps a copy until it is known to have arrived, and returns what to tell the peer with
    /// it: what arrived on the channel that it used last, unless it was told just now.
    #[inline]
    pub fn send(
        &mut self,
        now: Time,
        number: CheckpointNumber,
        to: NodeId,
        lane: Lane,
        message: &[u8],
    ) -> (Place, Option<Acknowledged>) {
        self.uses += 1;
        let link = self.links.entry((to, lane.transport()), Link::default);
        let outgoing = link.outgoing(lane.serial());
        outgoing.used = self.uses;
        outgoing.sent += 1;
        let place = Place {
            incarnation: self.incarnation,
            serial: outgoing.serial,
            sequence: outgoing.sent,
        };
        if message.len() <= MESSAGE_BYTES_MAX {
            outgoing.kept.push(outgoing.sent, number, now, message);
            self.kept_bytes += message.len();
            if outgoing.kept.len() > UNACKNOWLEDGED_MAX {
                self.kept_bytes -= outgoing.forget_oldest();
            }
        } else {
            outgoing.forgotten = outgoing.sent;
        }
        let acknowledged = link.acknowledgement(now);
        if self.kept_bytes > self.options.kept_bytes_max {
            self.make_room();
        }
        (place, acknowledged)
    }

    /// Gives several messages their places, after that of the last one sent by this lane, and keeps copies.
    pub fn send_run(
        &mut self,
        now: Time,
        number: CheckpointNumber,
        to: NodeId,
        lane: Lane,
        messages: &Messages,
    ) {
        self.uses += 1;
        let link = self.links.entry((to, lane.transport()), Link::default);
        let outgoing = link.outgoing(lane.serial());
        outgoing.used = self.uses;
        let first = outgoing.sent + 1;
        outgoing.sent += messages.len() as u64;
        outgoing.kept.push_run(first, number, now, messages);
        self.kept_bytes += messages.bytes_len();
        while outgoing.kept.len() > UNACKNOWLEDGED_MAX {
            self.kept_bytes -= outgoing.forget_oldest();
        }
        if self.kept_bytes > self.options.kept_bytes_max {
            self.make_room();
        }
    }

    /// Forgets the contents of the channel used longest ago until the rest fits.
    #[cold]
    fn make_room(&mut self) {
        while self.kept_bytes > self.options.kept_bytes_max {
            let Some(outgoing) = self
                .links
                .iter_mut()
                .flat_map(|(_, link)| &mut link.outgoing)
                .filter(|outgoing| outgoing.kept.len() > 0)
                .min_by_key(|outgoing| outgoing.used)
            else {
                return;
            };
            self.kept_bytes -= outgoing.forget_oldest();
        }
    }

    /// Notes the arrival of a message.
    pub fn receive(&mut self, from: NodeId, transport: Transport, place: Place) -> Arrival {
        let Some(incoming) = self.incoming(from, transport, place) else {
            return Arrival::Old;
        };
        incoming.untold = incoming.untold.saturating_add(1);
        incoming.received.note(place.sequence)
    }

    /// Notes the arrival of several messages in order, of which this is the last.
    pub fn receive_run(&mut self, from: NodeId, transport: Transport, last: Place, count: u32) {
        let Some(incoming) = self.incoming(from, transport, last) else {
            return;
        };
        incoming.untold = incoming.untold.saturating_add(count);
        incoming.received.note_run(last.sequence, count.into());
    }

    fn incoming(
        &mut self,
        from: NodeId,
        transport: Transport,
        place: Place,
    ) -> Option<&mut Incoming> {
        self.uses += 1;
        let link = self.links.entry((from, transport), Link::default);
        let incoming = link.incoming(place.incarnation, place.serial)?;
        incoming.used = self.uses;
        Some(incoming)
    }

    /// Takes in what a peer says has arrived.
    pub fn acknowledge(&mut self, peer: NodeId, transport: Transport, acknowledged: &Acknowledged) {
        if acknowledged.incarnation == self.incarnation
            && let Some(link) = self.links.get_mut(&(peer, transport))
            && let Some(outgoing) = link.find_outgoing(acknowledged.serial)
        {
            self.kept_bytes -= outgoing.kept.acknowledge(&acknowledged.received);
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
        let Some(link) = self.links.get_mut(&(peer, Transport::Stream)) else {
            return;
        };
        if let Some(serial) = sending
            && let Some(outgoing) = link.find_outgoing(serial)
        {
            outgoing.ended.get_or_insert(now);
        }
        if let Some(key) = receiving
            && let Some(incoming) = link.incoming.iter_mut().find(|it| it.key() == key)
        {
            incoming.ended = true;
        }
    }

    /// Describes all channels as they are now.
    pub fn state(&mut self, now: Time) -> ChannelState {
        self.tidy(now);
        let least_used = self.least_used();
        let mut state = ChannelState::default();
        for (&(peer, transport), link) in self.links.iter() {
            let used = |outgoing: &&Outgoing| outgoing.used >= least_used;
            let sending = link.outgoing.iter().filter(used).map(|outgoing| Sending {
                peer,
                transport,
                serial: outgoing.serial,
                sent: outgoing.sent,
                forgotten: outgoing.forgotten,
                unacknowledged: outgoing.kept.describe(),
            });
            let receiving = link.incoming.iter().map(|incoming| Receiving {
                peer,
                transport,
                incarnation: incoming.incarnation,
                serial: incoming.serial,
                received: incoming.received,
                ended: incoming.ended,
            });
            state.sending.extend(sending);
            state.receiving.extend(receiving);
        }
        state.sending.truncate(CHANNELS_MAX);
        state.receiving.truncate(CHANNELS_MAX);
        state
    }

    /// Returns how lately a channel must have been used to be among those that a checkpoint has room for.
    fn least_used(&self) -> u64 {
        let outgoing = self.links.iter().flat_map(|(_, link)| &link.outgoing);
        let mut uses: Vec<u64> = outgoing.map(|outgoing| outgoing.used).collect();
        uses.sort_unstable();
        match uses.len().checked_sub(CHANNELS_MAX) {
            Some(excess) if excess > 0 => uses[excess],
            _ => 0,
        }
    }

    /// Gives up messages that are too old to arrive, and forgets connections on which nothing is under way.
    fn tidy(&mut self, now: Time) {
        let lifetime_ms = self.options.lifetime_ms;
        let is_over = |since: Time| now.millis_since(since) > lifetime_ms;
        for (&(_, transport), link) in self.links.iter_mut() {
            link.forget_made_up(now);
            let opened = link.opened;
            link.outgoing.retain_mut(|outgoing| match transport {
                Transport::Datagram => {
                    self.kept_bytes -= outgoing.kept.pop_while(|kept| is_over(kept.at));
                    true
                }
                Transport::Stream if outgoing.ended.is_some_and(is_over) => {
                    self.kept_bytes -= outgoing.kept.pop_while(|_| true);
                    outgoing.forgotten = 0;
                    // The newest connection stays: its serial says how many there were.
                    outgoing.serial == opened
                }
                // An open one may be used again.
                Transport::Stream => true,
            });
        }
    }
}

impl Link {
    /// Returns the channel of a serial, and begins it if there is none. Mostly it is the newest.
    #[inline]
    fn outgoing(&mut self, serial: u32) -> &mut Outgoing {
        let at = match self.outgoing.last() {
            Some(newest) if newest.serial == serial => self.outgoing.len() - 1,
            _ => self.find_or_begin(serial),
        };
        &mut self.outgoing[at]
    }

    #[cold]
    fn find_or_begin(&mut self, serial: u32) -> usize {
        let found = self.outgoing.binary_search_by_key(&serial, |it| it.serial);
        found.unwrap_or_else(|at| {
            let outgoing = Outgoing {
                serial,
                sent: 0,
                forgotten: 0,
                kept: Kept::default(),
                ended: None,
                used: 0,
            };
            self.outgoing.insert(at, outgoing);
            at
        })
    }

    fn find_outgoing(&mut self, serial: u32) -> Option<&mut Outgoing> {
        let at = self.outgoing.binary_search_by_key(&serial, |it| it.serial);
        Some(&mut self.outgoing[at.ok()?])
    }

    /// Forgets channels of incarnations that are later than the one that speaks, and silent: nobody has had them.
    fn forget_made_up(&mut self, now: Time) {
        for incoming in &mut self.incoming {
            if incoming.seen.1 != incoming.used {
                incoming.seen = (now, incoming.used);
            }
        }
        let speaks = self.incoming.iter().max_by_key(|incoming| incoming.used);
        let Some(speaks) = speaks.map(|incoming| incoming.incarnation) else {
            return;
        };
        self.incoming.retain(|incoming| {
            !incoming.incarnation.is_after(speaks)
                || now.millis_since(incoming.seen.0) <= MADE_UP_SILENT_MS
        });
    }

    /// Returns what to tell the peer with the next message.
    #[inline]
    fn acknowledgement(&mut self, now: Time) -> Option<Acknowledged> {
        let incoming = match self.incoming.as_mut_slice() {
            [only] => only,
            several => several.iter_mut().max_by_key(|incoming| incoming.used)?,
        };
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

    /// Returns the channel from an incarnation of the peer, and begins it if there is none; `None` if it is older than all that
    /// are remembered. Mostly it is the newest.
    #[inline]
    fn incoming(&mut self, incarnation: Incarnation, serial: u32) -> Option<&mut Incoming> {
        let at = match self.incoming.last() {
            Some(newest) if newest.key() == (incarnation, serial) => self.incoming.len() - 1,
            _ => self.find_or_learn(incarnation, serial)?,
        };
        Some(&mut self.incoming[at])
    }

    #[cold]
    fn find_or_learn(&mut self, incarnation: Incarnation, serial: u32) -> Option<usize> {
        let known = |incoming: &Incoming| incoming.key() == (incarnation, serial);
        if let Some(at) = self.incoming.iter().position(known) {
            return Some(at);
        }
        let later = |incoming: &Incoming| incoming.is_after(incarnation, serial);
        let later = self.incoming.iter().position(later);
        let mut at = later.unwrap_or(self.incoming.len());
        if self.incoming.len() == RECEIVING_PER_PEER_MAX {
            if at == 0 {
                return None;
            }
            // Whoever speaks is not forgotten for the sake of incarnations that somebody may have made up.
            let silent = self.incoming.iter().enumerate();
            let (silent, _) = silent.min_by_key(|(_, incoming)| incoming.used)?;
            self.incoming.remove(silent);
            at -= usize::from(silent < at);
        }
        let incoming = Incoming {
            incarnation,
            serial,
            received: Received::default(),
            ended: false,
            used: 0,
            seen: (Time::default(), 0),
            told: None,
            untold: 0,
        };
        self.incoming.insert(at, incoming);
        Some(at)
    }
}

impl Outgoing {
    /// Forgets the oldest message, which may be in flight all the same, and returns its length.
    fn forget_oldest(&mut self) -> usize {
        let oldest = self.kept.oldest().unwrap_or(0);
        self.forgotten = self.forgotten.max(oldest);
        self.kept.pop_while(|kept| kept.sequence == oldest)
    }
}

impl Incoming {
    fn key(&self) -> (Incarnation, u32) {
        (self.incarnation, self.serial)
    }

    fn is_after(&self, incarnation: Incarnation, serial: u32) -> bool {
        match self.incarnation == incarnation {
            true => self.serial > serial,
            false => self.incarnation.is_after(incarnation),
        }
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
        let number = CheckpointNumber::from(1);
        channels.send(NOW, number, PEER, lane, message).0
    }

    /// Returns what goes out with a datagram to the peer.
    fn tells(channels: &mut Channels, now: Time) -> Option<Acknowledged> {
        let number = CheckpointNumber::from(1);
        channels.send(now, number, PEER, Lane::Datagram, b"").1
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
        let news = tells(&mut there, NOW);
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
        let news = tells(&mut there, NOW);
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
            let news = tells(&mut there, now);
            news.map(|news| news.received.up_to())
        };
        assert_eq!(told(0, 1), Some(1), "the first is told at once");
        assert_eq!(told(0, 1), None, "so soon after it nothing is");
        let many = ACKNOWLEDGED_MESSAGES;
        let all = Some(2 + u64::from(many));
        assert_eq!(told(0, many), all, "unless many came");
        assert_eq!(told(ACKNOWLEDGED_MS - 1, 0), None);
        assert_eq!(told(ACKNOWLEDGED_MS, 0), all, "what was told may be lost");
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
