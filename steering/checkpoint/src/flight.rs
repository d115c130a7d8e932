//! What a snapshot says about the messages between its members, and whether it contradicts itself.
//!
//! Checkpoints of one snapshot are consistent by construction. The contradiction looked for here has two causes only: a
//! node that restarted without remembering its number, and a peer that lies.

use scry_protocol::channel::{Receiving, Sending};
use scry_protocol::{CheckpointNumber, Content, NodeId, Transport};

use crate::channel::RECEIVING_PER_PEER_MAX;

/// A message between two members.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InFlight {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// How it travels. Messages of one connection are in order.
    pub transport: Transport,
    /// Which of the sender's channels to this receiver.
    pub serial: u32,
    /// Its place in the channel.
    pub sequence: u64,
    /// The sender's number when it was sent.
    pub number: CheckpointNumber,
    /// The message as the service encoded it.
    pub message: Vec<u8>,
    /// Whether an earlier incarnation of the receiver may have received it: it was sent before the present incarnation began.
    pub doubtful: bool,
}

/// All messages between the members.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Those that are known, by sender, receiver, transport, channel and sequence.
    pub messages: Vec<InFlight>,
    /// How many more there are whose content was not kept.
    pub unlisted: u64,
}

/// Two checkpoints that cannot belong together: one has received what the other has not sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Contradiction {
    /// The node that has not sent.
    pub sender: NodeId,
    /// The node that has received.
    pub receiver: NodeId,
}

/// Lists the messages in flight among members of a snapshot that keep channel state.
///
/// A lost message is in flight until its sender gives it up. What an earlier incarnation of a member sent is not known.
pub fn in_flight(members: &[(NodeId, &Content)]) -> Traffic {
    let mut traffic = Traffic::default();
    for &(from, sender) in members {
        for sending in sender.channels.iter().flat_map(|state| &state.sending) {
            let Some(&(to, receiver)) = members.iter().find(|(node, _)| *node == sending.peer)
            else {
                continue;
            };
            match opposite(from, sender, sending, receiver) {
                Opposite::Over => {}
                Opposite::Open(receiving) => {
                    collect(&mut traffic, from, to, sending, receiving, receiver.born);
                }
            }
        }
    }
    traffic
}

/// Finds two members that contradict each other.
pub fn contradiction(members: &[(NodeId, &Content)]) -> Option<Contradiction> {
    members.iter().find_map(|&(receiver, content)| {
        let channels = content.channels.as_ref()?;
        channels.receiving.iter().find_map(|receiving| {
            let &(sender, content) = members.iter().find(|(node, _)| *node == receiving.peer)?;
            unsent(receiver, receiving, content).then_some(Contradiction { sender, receiver })
        })
    })
}

/// What the receiver knows of a channel.
enum Opposite<'a> {
    /// Nothing more can arrive on it.
    Over,
    /// More may arrive, beside what has.
    Open(Option<&'a Receiving>),
}

fn opposite<'a>(
    from: NodeId,
    sender: &Content,
    sending: &Sending,
    receiver: &'a Content,
) -> Opposite<'a> {
    let Some(channels) = &receiver.channels else {
        return Opposite::Over;
    };
    let same_way = || {
        channels
            .receiving
            .iter()
            .filter(|receiving| receiving.peer == from && receiving.transport == sending.transport)
    };
    let key = (sender.incarnation, sending.serial);
    match same_way().find(|receiving| (receiving.incarnation, receiving.serial) == key) {
        Some(receiving) if receiving.ended => Opposite::Over,
        Some(receiving) => Opposite::Open(Some(receiving)),
        // The receiver remembers so many newer ones that this one, had it ever been used, would be forgotten.
        None if same_way()
            .filter(|receiving| match receiving.incarnation == key.0 {
                true => receiving.serial > key.1,
                false => receiving.incarnation.is_after(key.0),
            })
            .count()
            >= RECEIVING_PER_PEER_MAX =>
        {
            Opposite::Over
        }
        None => Opposite::Open(None),
    }
}

fn collect(
    traffic: &mut Traffic,
    from: NodeId,
    to: NodeId,
    sending: &Sending,
    receiving: Option<&Receiving>,
    born: CheckpointNumber,
) {
    let received = receiving
        .map(|receiving| receiving.received)
        .unwrap_or_default();
    let listed = sending
        .unacknowledged
        .iter()
        .filter(|kept| !received.contains(kept.sequence))
        .map(|kept| InFlight {
            from,
            to,
            transport: sending.transport,
            serial: sending.serial,
            sequence: kept.sequence,
            number: kept.number,
            message: kept.message.clone(),
            doubtful: kept.number < born,
        });
    traffic.messages.extend(listed);
    let first = received.up_to() + 1;
    let window_end = sending.forgotten.min(received.newest());
    let between = (first..=window_end)
        .filter(|&sequence| !received.contains(sequence))
        .count() as u64;
    let beyond = sending
        .forgotten
        .saturating_sub(received.newest().max(first - 1));
    traffic.unlisted = traffic
        .unlisted
        .saturating_add(between)
        .saturating_add(beyond);
}

/// Tells whether a sender's checkpoint does not show a send whose receipt the receiver's shows.
fn unsent(receiver: NodeId, receiving: &Receiving, sender: &Content) -> bool {
    let Some(channels) = &sender.channels else {
        return false;
    };
    if receiving.incarnation != sender.incarnation {
        // What an earlier incarnation sent was sent before this checkpoint; what a later incarnation sent was not.
        return receiving.incarnation.is_after(sender.incarnation);
    }
    let mut newest = None;
    for sending in &channels.sending {
        if sending.peer == receiver && sending.transport == receiving.transport {
            if sending.serial == receiving.serial {
                return receiving.received.newest() > sending.sent;
            }
            newest = newest.max(Some(sending.serial));
        }
    }
    // A connection that is not listed is over if there was a later one, and not begun otherwise; unless the list is full,
    // when nothing can be said.
    let full = channels.sending.len() >= scry_protocol::limit::CHANNELS_MAX;
    !full && newest.is_none_or(|newest| newest < receiving.serial)
}

#[cfg(test)]
mod tests {
    use scry_protocol::Incarnation;
    use scry_protocol::channel::Place;

    use super::*;
    use crate::Time;
    use crate::channel::{Channels, Lane, Options};

    const NOW: Time = Time::from_millis(0);
    const A: NodeId = NodeId::new(1);
    const B: NodeId = NodeId::new(2);

    struct Node(u64, u32, Channels);

    impl Node {
        fn new(life: u64, born: u32) -> Self {
            let channels = Channels::new(Incarnation::new(life), Options::default());
            Self(life, born, channels)
        }

        fn send(&mut self, to: NodeId, lane: Lane, message: &[u8]) -> Place {
            self.2.send(NOW, self.1.into(), to, lane, message).0
        }

        fn content(&mut self) -> Content {
            Content {
                incarnation: Incarnation::new(self.0),
                born: self.1.into(),
                past: scry_protocol::Past::default(),
                state: Vec::new(),
                timers: Vec::new(),
                channels: Some(self.2.state(NOW)),
            }
        }
    }

    #[track_caller]
    fn check(a: &Content, b: &Content, expect: &[(u64, bool)]) {
        let members = [(A, a), (B, b)];
        assert_eq!(contradiction(&members), None);
        let traffic = in_flight(&members);
        let seen: Vec<(u64, bool)> = traffic
            .messages
            .iter()
            .map(|message| (message.sequence, message.doubtful))
            .collect();
        assert_eq!(seen, expect);
        assert_eq!(traffic.unlisted, 0);
    }

    #[test]
    fn a_25_what_is_sent_and_not_received_is_in_flight() {
        let (mut a, mut b) = (Node::new(1, 1), Node::new(1, 1));
        let places: Vec<Place> = (0..3).map(|_| a.send(B, Lane::Datagram, b"x")).collect();
        check(
            &a.content(),
            &b.content(),
            &[(1, false), (2, false), (3, false)],
        );
        b.2.receive(A, Transport::Datagram, places[1]);
        check(&a.content(), &b.content(), &[(1, false), (3, false)]);
    }

    #[test]
    fn a_stream_that_ended_has_nothing_in_flight() {
        let (mut a, mut b) = (Node::new(1, 1), Node::new(1, 1));
        let serial = a.2.open(B);
        let place = a.send(B, Lane::Stream(serial), b"x");
        a.send(B, Lane::Stream(serial), b"y");
        b.2.receive(A, Transport::Stream, place);
        check(&a.content(), &b.content(), &[(2, false)]);
        b.2.end(NOW, A, None, Some((Incarnation::new(1), serial)));
        check(&a.content(), &b.content(), &[]);
    }

    #[test]
    fn what_an_earlier_incarnation_may_have_received_is_doubtful() {
        let mut a = Node::new(1, 4);
        a.send(B, Lane::Datagram, b"x");
        check(&a.content(), &Node::new(2, 5).content(), &[(1, true)]);
        check(&a.content(), &Node::new(2, 4).content(), &[(1, false)]);
    }

    #[test]
    fn a_receipt_without_its_send_is_found() {
        let (mut a, mut b) = (Node::new(1, 1), Node::new(1, 1));
        let before = a.content();
        let place = a.send(B, Lane::Datagram, b"x");
        b.2.receive(A, Transport::Datagram, place);
        let (after, b) = (a.content(), b.content());
        let found = Some(Contradiction {
            sender: A,
            receiver: B,
        });
        assert_eq!(contradiction(&[(A, &before), (B, &b)]), found);
        assert_eq!(contradiction(&[(A, &after), (B, &b)]), None);
        assert_eq!(
            contradiction(&[(A, &Node::new(2, 1).content()), (B, &b)]),
            None
        );
        assert_eq!(
            contradiction(&[(A, &Node::new(0, 1).content()), (B, &b)]),
            found
        );
    }

    #[test]
    fn forgotten_messages_are_counted() {
        let (mut a, mut b) = (Node::new(1, 1), Node::new(1, 1));
        let limit = scry_protocol::limit::UNACKNOWLEDGED_MAX as u64;
        let places: Vec<Place> = (0..limit + 5)
            .map(|_| a.send(B, Lane::Datagram, b"x"))
            .collect();
        let (a, none) = (a.content(), b.content());
        assert_eq!(in_flight(&[(A, &a), (B, &none)]).unlisted, 5);
        b.2.receive(A, Transport::Datagram, places[2]);
        assert_eq!(in_flight(&[(A, &a), (B, &b.content())]).unlisted, 4);
    }
}
