//! Both ends of connections, and the application above: it hands in messages, and opens another connection for what a closed one
//! has left.

use scry::{Context, NodeId, Property, Service};
use serde::{Deserialize, Serialize};

use crate::properties;
use crate::setup::Setup;

/// The number of a packet. Numbers come round, so of two connections they do not tell which is the younger.
pub type Sequence = u16;

/// The number of the first packet of a node's first connection, and how far apart those of its connections are: so far that what is
/// left of one is not taken for a part of another.
const FIRST: Sequence = 2001;
const APART: Sequence = 4000;

/// What a node knows of its connections. Each goes one way.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct MaceTransport {
    /// What it sends, by rising receiver.
    pub outgoing: Vec<Outgoing>,
    /// What it receives, by rising sender.
    pub incoming: Vec<Incoming>,
}

/// What a node sends to another.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Outgoing {
    /// The receiver.
    pub peer: NodeId,
    /// Which connection it is: a younger one has a greater number, over resets too (MaceMC's `MonotoneTime`).
    pub connection: u64,
    /// Whether its first packet is acknowledged.
    pub established: bool,
    /// How many packets may be in flight.
    pub window: u32,
    /// The number of the next packet.
    pub next: Sequence,
    /// The packets that are not acknowledged, oldest first.
    pub inflight: Vec<InFlight>,
    /// The messages that wait for room in the window.
    pub waiting: Vec<String>,
    /// How many connections in a row were closed before anything was acknowledged.
    pub failures: u32,
}

/// A packet that is not acknowledged.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    /// Its number.
    pub sequence: Sequence,
    /// Whether it is the first of its connection.
    pub syn: bool,
    /// The message.
    pub text: String,
    /// How often it was sent again.
    pub retries: u32,
}

/// What a node receives from another.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Incoming {
    /// The sender.
    pub peer: NodeId,
    /// Which connection it is.
    pub connection: u64,
    /// The youngest connection it has ever had with this sender: with the bug not always the same.
    pub youngest: u64,
    /// The number of its first packet.
    pub first: Sequence,
    /// The number of the last packet that came in order.
    pub last: Sequence,
    /// How many messages it has handed to the application, of all connections of this sender.
    pub delivered: u32,
}

/// What nodes say to each other, all by datagram.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// A message of the application.
    Data(Packet),
    /// All packets up to this one have arrived.
    Ack(Sequence),
    /// The packet belongs to no connection: the receiver was reset.
    Unknown(Sequence),
}

/// A message of the application on its way.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Packet {
    /// Its number.
    pub sequence: Sequence,
    /// Whether it is the first of its connection.
    pub syn: bool,
    /// Which connection it belongs to.
    pub connection: u64,
    /// What it says.
    pub text: String,
}

/// The timers of a node: one for each packet in flight.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// A packet was not acknowledged in time.
    Retransmit {
        /// Its receiver.
        to: NodeId,
        /// Its number.
        sequence: Sequence,
    },
}

/// What the application may ask.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To send messages, in this order.
    Send {
        /// To whom.
        to: NodeId,
        /// What they say.
        texts: Vec<String>,
    },
}

type Cx<'a> = Context<'a, MaceTransport>;

impl Service for MaceTransport {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = ();

    fn start(_: &mut Cx<'_>, _: Option<()>) -> Self {
        Self::default()
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, Call::Send { to, texts }: Call) {
        if texts.is_empty() {
            return;
        }
        match self.outgoing.iter().position(|known| known.peer == to) {
            // A connection that is closed has nothing in flight either, and is of no use.
            Some(at) if !self.outgoing[at].is_closed() => {
                self.outgoing[at].waiting.extend(texts);
                self.fill_window(cx, at);
            }
            _ => self.open(cx, to, texts, 0),
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        match message {
            Message::Data(packet) => self.on_packet(cx, from, &packet),
            Message::Ack(sequence) => self.on_ack(cx, from, sequence),
            Message::Unknown(sequence) => self.on_unknown(cx, from, sequence),
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, Timer::Retransmit { to, sequence }: Timer) {
        let Some((at, packet)) = self.find_inflight(to, sequence) else {
            return;
        };
        let Outgoing {
            connection,
            window,
            inflight,
            ..
        } = &mut self.outgoing[at];
        let waiting = &mut inflight[packet];
        let Setup {
            open_retries,
            retries,
            ..
        } = *cx.setup();
        if waiting.syn && waiting.retries >= open_retries {
            return self.close(cx, at);
        }
        if retries.is_some_and(|most| !waiting.syn && waiting.retries >= most) {
            return;
        }
        // What is lost is lost where there is too much.
        *window = (*window / 2).max(1);
        waiting.retries += 1;
        send(cx, to, *connection, waiting);
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, setup: &Setup) -> Vec<Call> {
        let begun = |peer: NodeId| self.outgoing.iter().any(|known| known.peer == peer);
        let workload = setup.workload.iter();
        workload
            .filter(|(peer, texts)| !begun(**peer) && !texts.is_empty())
            .map(|(&to, texts)| Call::Send {
                to,
                texts: texts.clone(),
            })
            .collect()
    }

    fn neighbors(&self, _: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        let sent = self.outgoing.iter().map(|outgoing| outgoing.peer);
        let received = self.incoming.iter().map(|incoming| incoming.peer);
        let mut all: Vec<NodeId> = sent.chain(received).collect();
        all.extend(setup.workload.keys());
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    fn properties() -> Vec<Property<Self>> {
        properties::all()
    }
}

impl Outgoing {
    /// Tells whether the connection was closed and no other was opened instead.
    pub fn is_closed(&self) -> bool {
        !self.established && self.inflight.is_empty()
    }
}

/// The sender's side.
impl MaceTransport {
    /// Opens a connection. Its first packet is alone in flight until it is acknowledged.
    fn open(&mut self, cx: &mut Cx<'_>, to: NodeId, texts: Vec<String>, failures: u32) {
        let connection = cx.tick();
        let outgoing = Outgoing {
            peer: to,
            connection,
            established: false,
            window: 1,
            next: first_of(connection),
            inflight: Vec::new(),
            waiting: texts,
            failures,
        };
        let at = self.outgoing.partition_point(|known| known.peer < to);
        match self.outgoing.get_mut(at).filter(|known| known.peer == to) {
            Some(known) => *known = outgoing,
            None => self.outgoing.insert(at, outgoing),
        }
        self.fill_window(cx, at);
    }

    /// Sends what there is room for.
    fn fill_window(&mut self, cx: &mut Cx<'_>, at: usize) {
        let outgoing = &mut self.outgoing[at];
        let room = (outgoing.window as usize).saturating_sub(outgoing.inflight.len());
        let count = room.min(outgoing.waiting.len());
        for text in outgoing.waiting.drain(..count) {
            let packet = InFlight {
                sequence: outgoing.next,
                syn: !outgoing.established && outgoing.inflight.is_empty(),
                text,
                retries: 0,
            };
            outgoing.next = outgoing.next.wrapping_add(1);
            send(cx, outgoing.peer, outgoing.connection, &packet);
            outgoing.inflight.push(packet);
        }
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, from: NodeId, sequence: Sequence) {
        // What acknowledges a connection that was closed, or nothing new, is not found.
        let Some((at, packet)) = self.find_inflight(from, sequence) else {
            return;
        };
        let window_max = cx.setup().window_max.max(1);
        let outgoing = &mut self.outgoing[at];
        for acknowledged in outgoing.inflight.drain(..=packet) {
            cx.cancel_timer(Timer::Retransmit {
                to: from,
                sequence: acknowledged.sequence,
            });
            outgoing.window = (outgoing.window + 1).min(window_max);
        }
        outgoing.established = true;
        outgoing.failures = 0;
        self.fill_window(cx, at);
    }

    fn on_unknown(&mut self, cx: &mut Cx<'_>, from: NodeId, sequence: Sequence) {
        if let Some((at, _)) = self.find_inflight(from, sequence) {
            self.close(cx, at);
        }
    }

    /// Closes a connection and tells the application, which tries what is left with another.
    fn close(&mut self, cx: &mut Cx<'_>, at: usize) {
        let outgoing = &mut self.outgoing[at];
        let to = outgoing.peer;
        outgoing.established = false;
        let mut left = Vec::new();
        for packet in outgoing.inflight.drain(..) {
            cx.cancel_timer(Timer::Retransmit {
                to,
                sequence: packet.sequence,
            });
            left.push(packet.text);
        }
        left.append(&mut outgoing.waiting);
        let failures = outgoing.failures + 1;
        outgoing.failures = failures;
        if failures <= cx.setup().reopens {
            self.open(cx, to, left, failures);
        }
    }

    fn find_inflight(&self, to: NodeId, sequence: Sequence) -> Option<(usize, usize)> {
        let at = self.outgoing.iter().position(|known| known.peer == to)?;
        let mut inflight = self.outgoing[at].inflight.iter();
        let packet = inflight.position(|packet| packet.sequence == sequence)?;
        Some((at, packet))
    }
}

/// The receiver's side.
impl MaceTransport {
    fn on_packet(&mut self, cx: &mut Cx<'_>, from: NodeId, packet: &Packet) {
        let known = self.incoming.iter().position(|known| known.peer == from);
        let Some(at) = known else {
            match packet.syn {
                true => self.accept(cx, from, packet),
                false => cx.send(from, Message::Unknown(packet.sequence)),
            }
            return;
        };
        let incoming = &mut self.incoming[at];
        if cx.setup().bugs.stale_syn {
            if packet.syn && packet.sequence != incoming.first {
                // Wrong: datagrams overtake each other, so this may be what is left of an older connection.
                return self.accept(cx, from, packet);
            }
        } else if packet.connection < incoming.connection {
            return;
        } else if packet.connection > incoming.connection {
            return match packet.syn {
                true => self.accept(cx, from, packet),
                false => cx.send(from, Message::Unknown(packet.sequence)),
            };
        }
        if packet.sequence == incoming.last.wrapping_add(1) {
            incoming.last = packet.sequence;
            incoming.delivered += 1;
        }
        // Also for what came before or too early: the sender learns what this node waits for.
        cx.send(from, Message::Ack(incoming.last));
    }

    /// Takes a connection for the sender's present one.
    fn accept(&mut self, cx: &mut Cx<'_>, from: NodeId, packet: &Packet) {
        let mut incoming = Incoming {
            peer: from,
            connection: packet.connection,
            youngest: packet.connection,
            first: packet.sequence,
            last: packet.sequence,
            delivered: 1,
        };
        let at = self.incoming.partition_point(|known| known.peer < from);
        match self.incoming.get_mut(at).filter(|known| known.peer == from) {
            Some(known) => {
                incoming.youngest = incoming.youngest.max(known.youngest);
                incoming.delivered += known.delivered;
                *known = incoming;
            }
            None => self.incoming.insert(at, incoming),
        }
        cx.send(from, Message::Ack(packet.sequence));
    }
}

/// Returns the number of a connection's first packet.
fn first_of(connection: u64) -> Sequence {
    let before = connection.saturating_sub(1) as Sequence;
    FIRST.wrapping_add(APART.wrapping_mul(before))
}

/// Sends a packet, for the first time or again, and waits for its acknowledgement.
fn send(cx: &mut Cx<'_>, to: NodeId, connection: u64, packet: &InFlight) {
    let &InFlight { sequence, syn, .. } = packet;
    cx.send(
        to,
        Message::Data(Packet {
            sequence,
            syn,
            connection,
            text: packet.text.clone(),
        }),
    );
    let after = cx.setup().retransmit_after();
    cx.set_timer(Timer::Retransmit { to, sequence }, after);
}
