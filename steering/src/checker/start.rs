//! From a snapshot to the state a search starts from.
//!
//! A member whose checkpoint cannot be read is left out and becomes part of the dummy, with a word in the report.
//! Connections come from what each end remembers of them:
//!
//! - An end that remembers a connection has it open, whether or not the other end does.
//! - If the other end, in the same life that used the connection, no longer has it, it has closed it, and the close is
//!   on its way.
//! - If the other end has begun another life since, the connection is stale: nobody has been told.
//!
//! Messages in flight come from the channel state. Left out are those that an earlier incarnation of the receiver may have
//! received (delivering a message twice would predict what cannot happen; missing one only predicts less), those whose
//! connection neither end remembers, and those behind a gap on their connection.
//!
//! Stamps in a restored state are taken as they are: they are compared by [`Context::expired`](crate::Context::expired)
//! only, which in a search answers both yes and no, whatever the stamp. Which answers there are times for is seen
//! when a path is laid out in time; for that, stamps and timers have the ages that the checkpoints show.

use std::collections::BTreeMap;

use scry_protocol::channel::Receiving;
use scry_protocol::snapshot::Member;
use scry_protocol::{Content, Incarnation, NodeId, Snapshot, Transport, messagepack};

use crate::blame::{self, Phase};
use crate::capture::{self, Captured, KEPT_MAX, Kept, Readings, StreamEnd};
use scry_checkpoint::flight::{self, InFlight};
use scry_engine::model::fault::Faults;
use scry_engine::model::network::{Connection, Inbox, Links, Parcel};
use scry_engine::model::simulation::{Node, Simulation};
use scry_engine::panics::caught;
use scry_engine::panics::in_silence;
use scry_engine::property::Scope;
use scry_engine::service::Service;
use scry_engine::stamp::{Origin, numbering, origins_in};
use scry_engine::timing::moments::Moments;
use scry_engine::timing::{Clock, MS_MAX};

/// A start state, and what could not be made part of it.
#[derive(Debug)]
pub struct Start<S: Service> {
    /// The state. Its scope is partial if a member had to be left out.
    pub state: Simulation<S>,
    /// What is missing, in words.
    pub remarks: Vec<String>,
    /// Members that could not be made part of it, and why.
    pub left_out: Vec<(NodeId, String)>,
}

/// Why there is no start state.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The gathering node is not among the members.
    #[error("the snapshot does not show {0}, which gathered it")]
    Absent(NodeId),
    /// The gathering node's own checkpoint cannot be read.
    #[error("{node}: {reason}")]
    Unreadable {
        /// The node.
        node: NodeId,
        /// What is wrong.
        reason: String,
    },
}

struct Read<S: Service> {
    content: Content,
    setup: S::Setup,
    captured: Captured<S>,
}

/// Makes the start state of a snapshot.
///
/// # Errors
///
/// When the node that gathered it cannot be restored. Other nodes are left out.
pub fn restore<S: Service>(
    snapshot: &Snapshot,
    faults: Faults,
    clock: &Clock,
) -> Result<Start<S>, StartError> {
    let (start, numbers) = numbering(BTreeMap::new(), || restore_nodes(snapshot, faults));
    let (mut start, readings) = start?;
    let moments = moments_of(snapshot, &start.state, &readings, &numbers, clock);
    start.state = start.state.with_moments(moments);
    Ok(start)
}

type ReadingsOf = BTreeMap<NodeId, Readings>;

fn restore_nodes<S: Service>(
    snapshot: &Snapshot,
    faults: Faults,
) -> Result<(Start<S>, ReadingsOf), StartError> {
    let mut remarks = Vec::new();
    let mut left_out = Vec::new();
    let mut members: BTreeMap<NodeId, Read<S>> = BTreeMap::new();
    let mut scope = Scope::Whole;
    for member in &snapshot.members {
        match read(member) {
            Ok(read) => drop(members.insert(member.node, read)),
            Err(reason) if member.node == snapshot.by => {
                let node = member.node;
                return Err(StartError::Unreadable { node, reason });
            }
            Err(reason) => {
                scope = Scope::Partial;
                remarks.push(format!("{} is left out: {reason}", member.node));
                left_out.push((member.node, reason));
            }
        }
    }
    if !members.contains_key(&snapshot.by) {
        return Err(StartError::Absent(snapshot.by));
    }
    let links: BTreeMap<NodeId, Links> = members
        .keys()
        .map(|&node| (node, links_of(&members, node)))
        .collect();
    let mut inboxes = traffic(&members, &links, &mut remarks);
    let setups = members
        .iter()
        .map(|(&node, read)| (node, read.setup.clone()))
        .collect();
    let readings = members
        .iter()
        .filter_map(|(&id, read)| Some((id, read.captured.readings.clone()?)))
        .collect();
    let nodes = members.into_iter().map(|(id, read)| {
        let node = Node {
            local: read.captured.local,
            links: links[&id].clone(),
            inbox: inboxes.remove(&id).unwrap_or_default(),
        };
        (id, node)
    });
    let start = Start {
        state: Simulation::from_nodes(setups, nodes.collect(), faults).in_scope(scope),
        remarks,
        left_out,
    };
    Ok((start, readings))
}

/// Lays out when what the checkpoints show happened; nothing if the clocks contradict each other.
fn moments_of<S: Service>(
    snapshot: &Snapshot,
    state: &Simulation<S>,
    readings: &ReadingsOf,
    numbers: &BTreeMap<u64, Origin>,
    clock: &Clock,
) -> Option<Moments<S::Timer>> {
    let mut moments = Moments::new();
    for (id, node) in state.nodes() {
        if let Some(readings) = readings.get(id) {
            let due = node.local.timers.iter().cloned();
            moments.restore(*id, due.zip(readings.due_ms.iter().copied()));
        }
    }
    let mut all = readings.iter();
    if let Some((first, at)) = all.next() {
        for (id, other) in all {
            moments.relate(
                *id,
                *first,
                difference(other.event_ms, at.event_ms),
                clock.apart(),
            );
        }
    }
    moments.begin();
    let values: BTreeMap<Origin, u64> = numbers.iter().map(|(value, at)| (*at, *value)).collect();
    for (&id, node) in state.nodes() {
        let Some(readings) = readings.get(&id) else {
            continue;
        };
        let mut restore = |origin: Origin, is_own: bool| {
            if let Some(&value) = values.get(&origin) {
                let older_ms = difference(readings.event_ms, value);
                moments.restore_stamp(origin, id, is_own, older_ms, clock.apart());
            }
        };
        // Whose clock read a stamp is not written on it; by far most are a node's own.
        origins_in(&node.local.service)
            .into_iter()
            .for_each(|origin| restore(origin, true));
        let messages = node.inbox.streams().map(|(_, message)| message);
        let messages = messages.chain(node.inbox.datagrams().map(|(_, message, _)| message));
        for message in messages {
            origins_in(message)
                .into_iter()
                .for_each(|origin| restore(origin, false));
        }
    }
    // Last, since stamps and timers are older than what last happened to a node, not than its state.
    let ages = snapshot.members.iter();
    moments.gathered(
        ages.map(|member| (member.node, member.age_ms)),
        snapshot.elapsed_ms,
    );
    moments.is_possible().then_some(moments)
}

fn difference(later: u64, earlier: u64) -> i64 {
    let most = i128::from(MS_MAX);
    (i128::from(later) - i128::from(earlier)).clamp(-most, most) as i64
}

fn read<S: Service>(member: &Member) -> Result<Read<S>, String> {
    let content = member.body.read().map_err(|error| error.to_string())?;
    // The states are other nodes' bytes: what the service's own code does about them is found out here, where it is known whose
    // state it is.
    let read = blame::on(Phase::Reading, Some(member.node), || {
        capture::vet::<S>(&content)
    });
    let (setup, captured) = read?;
    Ok(Read {
        content,
        setup,
        captured,
    })
}

/// Gathers a node's view of its connections. What it has opened is counted from all that is remembered of it, here and
/// by its peers.
fn links_of<S: Service>(members: &BTreeMap<NodeId, Read<S>>, me: NodeId) -> Links {
    let mut opened: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut count = |peer: NodeId, connection: Connection| {
        if connection.opener == me {
            let most = opened.entry(peer).or_default();
            *most = (*most).max(connection.serial.saturating_add(1));
        }
    };
    for end in &members[&me].captured.streams {
        count(end.peer, end.connection);
    }
    for (&peer, read) in members {
        let ends = read.captured.streams.iter().filter(|end| end.peer == me);
        ends.for_each(|end| count(peer, end.connection));
    }
    let mut open = Vec::new();
    for end in &members[&me].captured.streams {
        // Checkpoints come from other nodes: one that names a connection of strangers, or twice, is not believed there.
        let between = end.connection.opener == me || end.connection.opener == end.peer;
        if between && end.peer != me && !open.contains(&(end.peer, end.connection)) {
            open.push((end.peer, end.connection));
        }
    }
    Links::restore(open, opened)
}

type Inboxes<S> = BTreeMap<NodeId, Inbox<<S as Service>::Message>>;

fn traffic<S: Service>(
    members: &BTreeMap<NodeId, Read<S>>,
    links: &BTreeMap<NodeId, Links>,
    remarks: &mut Vec<String>,
) -> Inboxes<S> {
    let contents: Vec<(NodeId, &Content)> = members
        .iter()
        .map(|(&node, read)| (node, &read.content))
        .collect();
    let flying = flight::in_flight(&contents);
    let mut inboxes: Inboxes<S> = BTreeMap::new();
    let mut put = |from: NodeId, to: NodeId, parcel: Parcel<S::Message>| {
        let inbox = inboxes.entry(to).or_default();
        inbox.put(to, &links[&to], from, parcel);
    };
    let (mut doubtful, mut unreadable, mut astray) = (0_u64, 0_u64, 0_u64);
    // What is kept back came before all that is still on its way.
    for (&node, read) in members {
        for kept in read.captured.kept.iter().take(KEPT_MAX) {
            match parcel_of::<S>(node, kept) {
                Some(parcel) => put(kept.from, node, parcel),
                None => unreadable += 1,
            }
        }
    }
    // Per channel, the place of the next message that can be delivered.
    let mut next: BTreeMap<(NodeId, NodeId, u32), u64> = BTreeMap::new();
    for message in &flying.messages {
        let Some(body) = read_message::<S>(message.from, &message.message) else {
            unreadable += 1;
            continue;
        };
        let parcel = match message.transport {
            _ if message.doubtful => {
                doubtful += 1;
                continue;
            }
            Transport::Datagram => Parcel::Datagram(body),
            Transport::Stream => {
                let key = (message.from, message.to, message.serial);
                let due = *next
                    .entry(key)
                    .or_insert_with(|| first_due(members, message));
                let connection = connection_of(members, message);
                let Some(connection) = connection.filter(|_| due == message.sequence) else {
                    astray += 1;
                    continue;
                };
                next.insert(key, message.sequence + 1);
                Parcel::Segment {
                    connection,
                    first: message.from == message.to
                        || (message.sequence == 1 && connection.opener == message.from),
                    message: body,
                }
            }
        };
        put(message.from, message.to, parcel);
    }
    for (&node, read) in members {
        for end in &read.captured.streams {
            if is_closed_by_peer(members, node, end) {
                put(end.peer, node, Parcel::Close(end.connection));
            }
        }
    }
    let mut say = |count: u64, what: &str| {
        if count > 0 {
            remarks.push(format!(
                "{count} messages on their way are not known: {what}"
            ));
        }
    };
    say(flying.unlisted, "their sender did not keep them");
    say(unreadable, "they cannot be read");
    say(
        doubtful,
        "an earlier incarnation of the receiver may have received them",
    );
    say(
        astray,
        "their connection is gone, or what came before them is missing",
    );
    inboxes
}

/// Reads a message that a node's checkpoint shows.
fn read_message<S: Service>(node: NodeId, bytes: &[u8]) -> Option<S::Message> {
    let read = || in_silence(|| caught(|| messagepack::from_slice(bytes)));
    blame::on(Phase::Reading, Some(node), read).ok()?.ok()
}

/// Puts back on its way what a node keeps from its handler.
fn parcel_of<S: Service>(me: NodeId, kept: &Kept) -> Option<Parcel<S::Message>> {
    let connection = match (kept.connection, kept.from == me) {
        (Some(connection), false) if connection.opener == me || connection.opener == kept.from => {
            Some(connection)
        }
        (None, _) => None,
        // Checkpoints come from other nodes: one that names a connection of strangers is not believed there.
        _ => return None,
    };
    let Some(bytes) = &kept.message else {
        return connection.map(Parcel::Notice);
    };
    let message = read_message::<S>(me, bytes)?;
    let own = kept.from == me && S::transport(&message) == Transport::Stream;
    Some(match connection {
        None if own => Parcel::Segment {
            connection: Connection {
                opener: me,
                serial: 0,
            },
            first: true,
            message,
        },
        None => Parcel::Datagram(message),
        Some(connection) => Parcel::Segment {
            connection,
            first: false,
            message,
        },
    })
}

/// Finds the connection of a message by what the sender remembers, or else the receiver.
fn connection_of<S: Service>(
    members: &BTreeMap<NodeId, Read<S>>,
    message: &InFlight,
) -> Option<Connection> {
    let InFlight {
        from, to, serial, ..
    } = *message;
    if from == to {
        // A node reaches itself by one connection that is always there.
        let opener = from;
        return Some(Connection { opener, serial: 0 });
    }
    let incarnation = members[&from].content.incarnation;
    let sent = members[&from].captured.streams.iter();
    let received = members[&to].captured.streams.iter();
    let end = sent
        .filter(|end| end.peer == to)
        .find(|end| end.sending == serial)
        .or_else(|| {
            received
                .filter(|end| end.peer == from)
                .find(|end| end.receiving == Some((incarnation, serial)))
        })?;
    let connection = end.connection;
    (connection.opener == from || connection.opener == to).then_some(connection)
}

/// Returns the place of the message a receiver waits for next on a connection. One it knows nothing of it will refuse,
/// whatever the place.
fn first_due<S: Service>(members: &BTreeMap<NodeId, Read<S>>, message: &InFlight) -> u64 {
    let incarnation = members[&message.from].content.incarnation;
    let content = &members[&message.to].content;
    match receiving(content, message.from, (incarnation, message.serial)) {
        Some(receiving) => receiving.received.up_to() + 1,
        None => message.sequence,
    }
}

fn receiving(
    content: &Content,
    peer: NodeId,
    (incarnation, serial): (Incarnation, u32),
) -> Option<&Receiving> {
    content
        .channels
        .as_ref()?
        .receiving
        .iter()
        .find(|receiving| {
            receiving.peer == peer
                && receiving.transport == Transport::Stream
                && (receiving.incarnation, receiving.serial) == (incarnation, serial)
        })
}

/// Tells whether the other end of a connection had it in its present life, and has it no more.
fn is_closed_by_peer<S: Service>(
    members: &BTreeMap<NodeId, Read<S>>,
    me: NodeId,
    end: &StreamEnd,
) -> bool {
    let Some(peer) = members.get(&end.peer) else {
        return false;
    };
    let remembers = peer
        .captured
        .streams
        .iter()
        .any(|other| other.peer == me && other.connection == end.connection);
    if remembers || end.peer == me {
        return false;
    }
    let used = match end.receiving {
        Some((incarnation, _)) => incarnation == peer.content.incarnation,
        // Nothing came back yet: the peer had it if something arrived there.
        None => {
            let key = (members[&me].content.incarnation, end.sending);
            receiving(&peer.content, me, key).is_some()
        }
    };
    let between = end.connection.opener == me || end.connection.opener == end.peer;
    used && between
}
