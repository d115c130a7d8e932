//! Simulated systems as snapshots: every node captured as a host would, with channel state that shows what is on its way.

use std::collections::BTreeMap;

use scry::capture::{self, StreamEnd};
use scry::model::Connection;
use scry::{NodeId, Service, Simulation};
use scry_protocol::channel::{ChannelState, Received, Receiving, Sending, Unacknowledged};
use scry_protocol::snapshot::Member;
use scry_protocol::{CheckpointNumber, Content, Incarnation, Past, Snapshot, Transport};

const LIFE: Incarnation = Incarnation::new(1);

/// Captures every node of a system.
pub(crate) fn snapshot<S: Service>(state: &Simulation<S>, by: NodeId) -> Snapshot {
    let members = state.nodes().keys().map(|&node| Member {
        node,
        number: CheckpointNumber::from(7),
        age_ms: 0,
        body: content(state, node).write().expect("small states"),
    });
    Snapshot {
        by,
        number: CheckpointNumber::from(7),
        rounds: 1,
        elapsed_ms: 0,
        members: members.collect(),
        missing: Vec::new(),
    }
}

/// Captures one node. Both channels of a connection are numbered by who opened it and how often: the same at both ends.
pub(crate) fn content<S: Service>(state: &Simulation<S>, me: NodeId) -> Content {
    let node = &state.nodes()[&me];
    let streams: Vec<StreamEnd> = node
        .links
        .open()
        .map(|(peer, connection)| StreamEnd {
            peer,
            connection,
            sending: serial(connection, me),
            // Something came on it if the peer has it as well.
            receiving: has(state, peer, me, connection).then(|| (LIFE, serial(connection, peer))),
        })
        .collect();
    let setup = &state.setups()[&me];
    let (bytes, timers) = capture::write(setup, &node.local, &streams).expect("states that encode");
    Content {
        incarnation: LIFE,
        born: CheckpointNumber::from(1),
        past: Past::default(),
        state: bytes,
        timers,
        channels: Some(ChannelState {
            sending: sending(state, me),
            receiving: receiving(state, me),
        }),
    }
}

fn has<S: Service>(
    state: &Simulation<S>,
    me: NodeId,
    peer: NodeId,
    connection: Connection,
) -> bool {
    let node = state.nodes().get(&me);
    node.is_some_and(|node| node.links.open().any(|end| end == (peer, connection)))
}

fn serial(connection: Connection, sender: NodeId) -> u32 {
    2 * connection.serial + u32::from(connection.opener == sender)
}

/// All that is on its way from one node to another, by channel.
fn waiting<S: Service>(
    state: &Simulation<S>,
    from: NodeId,
    to: NodeId,
) -> BTreeMap<(Transport, u32), Vec<Vec<u8>>> {
    let mut channels: BTreeMap<_, Vec<Vec<u8>>> = BTreeMap::new();
    let encode = |message: &S::Message| rmp_serde::to_vec(message).expect("messages encode");
    let inbox = &state.nodes()[&to].inbox;
    for (_, message, count) in inbox.datagrams().filter(|it| it.0 == from) {
        let key = (Transport::Datagram, 0);
        let copies = (0..count).map(|_| encode(message));
        channels.entry(key).or_default().extend(copies);
    }
    for (sender, connection, message) in inbox.segments() {
        if let (true, Some(message)) = (sender == from, message) {
            let key = (Transport::Stream, serial(connection, from));
            channels.entry(key).or_default().push(encode(message));
        }
    }
    channels
}

/// How many messages a channel is made out to have carried before those on their way. The first message of a connection
/// that the receiver does not have yet is really its first.
fn carried<S: Service>(
    state: &Simulation<S>,
    from: NodeId,
    to: NodeId,
    key: (Transport, u32),
) -> u64 {
    let known = state.nodes()[&to]
        .links
        .open()
        .any(|(peer, connection)| peer == from && serial(connection, from) == key.1);
    match key.0 {
        Transport::Stream if !known => 0,
        _ => 3,
    }
}

fn sending<S: Service>(state: &Simulation<S>, me: NodeId) -> Vec<Sending> {
    let mut all = Vec::new();
    for &peer in state.nodes().keys() {
        for (key, messages) in waiting(state, me, peer) {
            let before = carried(state, me, peer, key);
            let numbered = (before + 1..).zip(messages);
            let unacknowledged: Vec<Unacknowledged> = numbered
                .map(|(sequence, message)| Unacknowledged {
                    sequence,
                    number: CheckpointNumber::from(6),
                    message,
                })
                .collect();
            all.push(Sending {
                peer,
                transport: key.0,
                serial: key.1,
                sent: before + unacknowledged.len() as u64,
                forgotten: 0,
                unacknowledged,
            });
        }
    }
    all
}

fn receiving<S: Service>(state: &Simulation<S>, me: NodeId) -> Vec<Receiving> {
    let mut all = Vec::new();
    for &peer in state.nodes().keys() {
        for key in waiting(state, peer, me).into_keys() {
            let mut received = Received::default();
            (1..=carried(state, peer, me, key)).for_each(|sequence| {
                received.note(sequence);
            });
            if received.up_to() > 0 {
                all.push(Receiving {
                    peer,
                    transport: key.0,
                    incarnation: LIFE,
                    serial: key.1,
                    received,
                    ended: false,
                });
            }
        }
    }
    all
}
