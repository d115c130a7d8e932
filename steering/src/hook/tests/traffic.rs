//! Batches of messages: whoever asks the hook anything finds them told, whatever the order of calls.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use scry_protocol::channel::{ChannelState, Envelope, Place, Received};
use scry_protocol::link::host::{Goodbye, HostToAgent, Renew};
use scry_protocol::{Incarnation, NodeId, Transport};

use super::rig::{ME, capture};
use crate::hook::{Hook, Occurrence, Options};
use scry_checkpoint::Time;
use scry_checkpoint::channel::Lane;

/// The incarnation of all peers.
const THEIRS: Incarnation = Incarnation::new(5);
const PEERS: [NodeId; 2] = [NodeId::new(2), NodeId::new(3)];
const STRANGER: NodeId = NodeId::new(9);
/// With each peer; as many as a checkpoint shows of each.
const CONNECTIONS_COUNT: usize = 4;

/// What a host may do next with its hook.
#[derive(Clone, Debug)]
enum Call {
    /// A message on a connection, with a stamp of its own and a number by so much higher, or one that follows.
    Receive(usize, Option<u64>),
    /// A message on a connection, without or with an attempt to do without a stamp of its own.
    Send(usize, bool),
    ReceiveDatagram(usize, u64),
    SendDatagram(usize),
    Stranger,
    End(usize),
    Admit,
    /// Filters come into force, or fall.
    Filter(bool),
    Change,
    LookAgain,
    Take,
    Renew,
    Wait(u64),
}

fn call() -> impl Strategy<Value = Call> {
    let connections = PEERS.len() * CONNECTIONS_COUNT;
    let connection = move || 0..connections;
    let peer = || 0..PEERS.len();
    prop_oneof![
        8 => connection().prop_map(|at| Call::Receive(at, None)),
        8 => Just(Call::Receive(0, None)),
        4 => (connection(), 0..2u64).prop_map(|(at, more)| Call::Receive(at, Some(more))),
        8 => connection().prop_map(|at| Call::Send(at, true)),
        8 => Just(Call::Send(0, true)),
        2 => connection().prop_map(|at| Call::Send(at, false)),
        2 => (peer(), 0..2u64).prop_map(|(at, more)| Call::ReceiveDatagram(at, more)),
        2 => peer().prop_map(Call::SendDatagram),
        1 => Just(Call::Stranger),
        1 => connection().prop_map(Call::End),
        2 => Just(Call::Admit),
        1 => any::<bool>().prop_map(Call::Filter),
        1 => Just(Call::Change),
        1 => Just(Call::LookAgain),
        2 => Just(Call::Take),
        1 => Just(Call::Renew),
        2 => (0..30u64).prop_map(Call::Wait),
    ]
}

/// One channel in each direction, as it really is.
#[derive(Clone, Debug, Default)]
struct Truth {
    /// The serial of what is sent.
    sending: u32,
    sent: u64,
    /// Where the next message goes in the order of what came, and which was the first since the last renewal.
    came: u64,
    came_since: Option<u64>,
    is_gone: bool,
}

struct Host {
    hook: Hook,
    now: Time,
    connections: Vec<Truth>,
    datagrams: Vec<Truth>,
    received: Vec<u64>,
    received_from_strangers: u64,
    sent: u64,
    questions: u64,
}

impl Host {
    fn new() -> Self {
        let mut options = Options::new(ME, "test", "1");
        options.born = 1u32.into();
        options.clock_ms = 1;
        let now = Time::from_millis(1);
        let mut hook = Hook::detached(options, now, capture);
        let connections = (0..PEERS.len() * CONNECTIONS_COUNT).map(|at| Truth {
            sending: hook.open(now, PEERS[at % PEERS.len()]),
            ..Truth::default()
        });
        let connections = connections.collect();
        let nobody = Goodbye { number: 0.into() };
        hook.shared.outbox().attach(nobody.into());
        while hook.shared.outbox().pop().is_some() {}
        Self {
            hook,
            now,
            connections,
            datagrams: vec![Truth::default(); PEERS.len()],
            received: vec![0; PEERS.len()],
            received_from_strangers: 0,
            sent: 0,
            questions: 0,
        }
    }

    /// Returns the stamp of the next message of a peer.
    fn envelope(&self, place: Place, more: u64) -> Envelope {
        Envelope {
            number: self.hook.number().ahead(more).expect("small"),
            place: Some(place),
            acknowledged: None,
            past: None,
        }
    }

    fn call(&mut self, call: &Call) {
        let now = self.now;
        match *call {
            Call::Receive(at, more) => {
                let truth = &mut self.connections[at];
                if truth.is_gone {
                    return;
                }
                let place = truth.come(at as u32 + 1);
                let from = PEERS[at % PEERS.len()];
                self.received[at % PEERS.len()] += 1;
                match more {
                    Some(more) => {
                        let envelope = self.envelope(place, more);
                        let transport = Transport::Stream;
                        self.hook.receive(now, from, transport, &envelope, capture);
                    }
                    None => self.hook.receive_next(now, from, Some(place)),
                }
            }
            Call::Send(at, follows) => {
                let truth = &mut self.connections[at];
                if truth.is_gone {
                    return;
                }
                truth.sent += 1;
                self.sent += 1;
                let (to, lane) = (PEERS[at % PEERS.len()], Lane::Stream(truth.sending));
                let encode = |out: &mut Vec<u8>| -> Result<(), Infallible> {
                    out.push(7);
                    Ok(())
                };
                let next = match follows {
                    true => self.hook.send_next(now, to, lane, encode),
                    false => Ok(None),
                };
                if next.expect("it cannot fail").is_none() {
                    let place = self.hook.stamp(now, to, lane, &[7]).place;
                    assert_eq!(place.expect("channels are kept").sequence, truth.sent);
                }
            }
            Call::ReceiveDatagram(at, more) => {
                let place = self.datagrams[at].come(0);
                let envelope = self.envelope(place, more);
                self.received[at] += 1;
                let transport = Transport::Datagram;
                self.hook
                    .receive(now, PEERS[at], transport, &envelope, capture);
            }
            Call::SendDatagram(at) => {
                self.datagrams[at].sent += 1;
                self.sent += 1;
                let _ = self.hook.stamp(now, PEERS[at], Lane::Datagram, &[7]);
            }
            Call::Stranger => {
                self.received_from_strangers += 1;
                let place = Truth::default().come(1);
                let envelope = self.envelope(place, 0);
                self.hook.receive_from_stranger(STRANGER, &envelope);
            }
            Call::End(at) => {
                let truth = &mut self.connections[at];
                if truth.is_gone {
                    return;
                }
                truth.is_gone = true;
                let receiving = Some((THEIRS, at as u32 + 1));
                let peer = PEERS[at % PEERS.len()];
                self.hook.ended(now, peer, Some(truth.sending), receiving);
            }
            Call::Admit => {
                let content = || Vec::new();
                let _ = self.hook.admit(&Occurrence::Message {
                    kind: "Ping",
                    from: PEERS[0],
                    content: &content,
                });
                if !self.hook.is_unfiltered() {
                    self.check_counts_by_sender();
                }
            }
            Call::Filter(in_force) => {
                let count = usize::from(in_force);
                let filters = &self.hook.shared.filters_count;
                filters.store(count, Ordering::Release);
            }
            Call::Change => self.hook.note_change(),
            Call::LookAgain => {
                self.questions += 1;
                self.hook.look_again(now, self.questions, 10, None, capture);
            }
            Call::Take => {
                let number = self.hook.number().next();
                self.hook.shared.ask(|inbox| inbox.push_take(number));
                let _ = self.hook.turn(now, capture);
            }
            Call::Renew => {
                let renew = Renew {
                    after: self.hook.incarnation(),
                    number: None,
                };
                self.hook.shared.ask(|inbox| inbox.renew = Some(renew));
                // Another incarnation begins without channels.
                let all = self.connections.iter_mut().chain(&mut self.datagrams);
                for truth in all {
                    truth.sent = 0;
                    truth.came_since = None;
                }
                let _ = self.hook.turn(now, capture);
            }
            Call::Wait(ms) => self.now = now.after_millis(ms),
        }
    }

    /// What decides about filters that block too much knows of every message.
    fn check_counts_by_sender(&self) {
        for (peer, received) in PEERS.iter().zip(&self.received) {
            let counted = self.hook.shared.with_leases(|leases| leases.peer(*peer));
            assert_eq!(counted.received.load(Ordering::Relaxed), *received);
        }
    }

    /// Holds a checkpoint against the truth.
    fn check(shown: &ChannelState, connections: &[Truth], datagrams: &[Truth]) {
        for (at, truth) in connections.iter().enumerate() {
            let peer = PEERS[at % PEERS.len()];
            truth.check(shown, peer, Transport::Stream, at as u32 + 1);
        }
        for (at, truth) in datagrams.iter().enumerate() {
            truth.check(shown, PEERS[at], Transport::Datagram, 0);
        }
    }
}

impl Truth {
    /// A message comes, and this is its place.
    fn come(&mut self, serial: u32) -> Place {
        self.came += 1;
        self.came_since.get_or_insert(self.came);
        Place {
            incarnation: THEIRS,
            serial,
            sequence: self.came,
        }
    }

    fn check(&self, shown: &ChannelState, peer: NodeId, transport: Transport, theirs: u32) {
        let mut sending = shown.sending.iter();
        let sending = sending.find(|sending| {
            let channel = (sending.peer, sending.transport, sending.serial);
            channel == (peer, transport, self.sending)
        });
        let (sent, kept) = sending.map_or((0, 0), |sending| {
            (sending.sent, sending.unacknowledged.len())
        });
        assert_eq!(
            (sent, kept as u64),
            (self.sent, self.sent),
            "sent to {peer}"
        );
        let mut receiving = shown.receiving.iter();
        let receiving = receiving.find(|receiving| {
            let channel = (receiving.peer, receiving.transport, receiving.serial);
            channel == (peer, transport, theirs)
        });
        let received = receiving.map_or_else(Received::default, |receiving| receiving.received);
        for sequence in self.came_since.unwrap_or(self.came + 1)..=self.came {
            assert!(received.contains(sequence), "{sequence} came from {peer}");
        }
        assert!(!received.contains(self.came + 1), "nothing more came");
    }
}

proptest! {
    #[test]
    fn no_checkpoint_shows_less_than_was_handled_whatever_the_order_of_calls(
        calls in prop::collection::vec(call(), 1..120),
    ) {
        let mut host = Host::new();
        let mut shown_count = 0;
        // The last one shows what all before it have left.
        for call in calls.iter().chain([&Call::Take]) {
            let (connections, datagrams) = (host.connections.clone(), host.datagrams.clone());
            host.call(call);
            let stats = host.hook.stats();
            let received: u64 = host.received.iter().sum();
            prop_assert_eq!(stats.received_messages, received + host.received_from_strangers);
            prop_assert_eq!(stats.sent_messages, host.sent);
            while let Some(frame) = { let mut outbox = host.hook.shared.outbox(); outbox.pop() } {
                let HostToAgent::Checkpoint(checkpoint) = frame else {
                    continue;
                };
                shown_count += 1;
                let content = checkpoint.body.read().expect("a checkpoint");
                let shown = content.channels.expect("channels are kept");
                // What is taken during a call precedes what the call tells of; a new incarnation begins anew.
                match call {
                    Call::Renew => Host::check(&shown, &host.connections, &host.datagrams),
                    _ => Host::check(&shown, &connections, &datagrams),
                }
            }
        }
        prop_assert!(shown_count > 0);
    }
}

#[test]
fn a_batch_whose_connection_is_gone_is_told_all_the_same() {
    let mut host = Host::new();
    for call in [
        Call::Send(0, false),
        Call::Send(0, true),
        Call::Send(0, true),
        Call::Receive(0, Some(0)),
        Call::Receive(0, None),
        Call::Send(0, false),
        Call::Send(0, true),
        Call::Receive(0, None),
        Call::End(0),
    ] {
        host.call(&call);
    }
    let (connections, datagrams) = (host.connections.clone(), host.datagrams.clone());
    host.call(&Call::Take);
    let checkpoint = std::iter::from_fn(|| host.hook.shared.outbox().pop())
        .find_map(|frame| match frame {
            HostToAgent::Checkpoint(checkpoint) => Some(checkpoint),
            _ => None,
        })
        .expect("it was asked for");
    let shown = checkpoint.body.read().expect("a checkpoint").channels;
    let shown = shown.expect("channels are kept");
    Host::check(&shown, &connections, &datagrams);
    assert!(shown.receiving.iter().all(|receiving| receiving.ended));
}

#[test]
fn a_batch_goes_on_until_there_is_something_to_tell_the_peer() {
    let mut host = Host::new();
    let lane = Lane::Stream(host.connections[0].sending);
    let other = Lane::Stream(host.connections[PEERS.len()].sending);
    let encode = |out: &mut Vec<u8>| -> Result<(), Infallible> {
        out.push(7);
        Ok(())
    };
    let follows = |host: &mut Host, lane| {
        let next = host.hook.send_next(host.now, PEERS[0], lane, encode);
        next.expect("it cannot fail").is_some()
    };
    assert!(!follows(&mut host, lane), "nothing was stamped yet");
    host.call(&Call::Send(0, false));
    assert!(follows(&mut host, lane));
    assert!(!follows(&mut host, other), "it is another connection");
    host.call(&Call::SendDatagram(0));
    host.call(&Call::Receive(0, None));
    assert!(follows(&mut host, lane), "neither has to do with it");
    host.call(&Call::Take);
    assert!(!follows(&mut host, lane), "the number is another");
}
