//! From a snapshot to the state a search starts from.
//!
//! A member whose checkpoint cannot be read is left out and becomes part of the dummy, with a word in the report.
//! Connections come from what each end remembers of them:
//!
//! - An end that remembers a connection has it open, whether or not the other end does.
//! - If the other end, in the same incarnation that used the connection, no longer has it, it has closed it, and the close is
//!   on its way.
//! - If the other end has begun another incarnation since, the connection is stale: nobody has been told.
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
use scry_engine::model::handler::Local;
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
    /// Whether all messages on their way are known, and it is known that they are.
    pub all_mail: bool,
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

/// What a checkpoint shows of a node beside its state. What is made of that is compiled once, and not for every service.
struct Shown {
    content: Content,
    streams: Vec<StreamEnd>,
    kept: Vec<Kept>,
    readings: Option<Readings>,
}

type Members = BTreeMap<NodeId, Shown>;

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
    let mut members = Members::new();
    let mut states: BTreeMap<NodeId, (S::Setup, Local<S>)> = BTreeMap::new();
    let mut scope = Scope::Whole;
    for member in &snapshot.members {
        match read::<S>(member) {
            Ok((shown, setup, local)) => {
                add(&mut members, member.node, shown);
                states.insert(member.node, (setup, local));
            }
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
    let mut links = links_of_all(&members);
    let mut mail = Mail::<S>::default();
    let all_mail = traffic(&members, &links, &mut remarks, &mut mail);
    let (mut setups, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    for (id, (setup, local)) in states {
        let node = Node {
            local,
            links: take_links(&mut links, id),
            inbox: mail.inboxes.remove(&id).unwrap_or_default(),
        };
        setups.insert(id, setup);
        nodes.insert(id, node);
    }
    let start = Start {
        state: Simulation::from_nodes(setups, nodes, faults).in_scope(scope),
        remarks,
        left_out,
        all_mail,
    };
    Ok((start, readings_of_all(members)))
}

fn add(members: &mut Members, node: NodeId, shown: Shown) {
    members.insert(node, shown);
}

fn take_links(links: &mut BTreeMap<NodeId, Links>, node: NodeId) -> Links {
    links.remove(&node).unwrap_or_default()
}

fn readings_of_all(members: Members) -> ReadingsOf {
    let members = members.into_iter();
    members
        .filter_map(|(id, shown)| Some((id, shown.readings?)))
        .collect()
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
    let values = values_of(numbers);
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

fn values_of(numbers: &BTreeMap<u64, Origin>) -> BTreeMap<Origin, u64> {
    numbers.iter().map(|(value, at)| (*at, *value)).collect()
}

fn difference(later: u64, earlier: u64) -> i64 {
    let most = i128::from(MS_MAX);
    (i128::from(later) - i128::from(earlier)).clamp(-most, most) as i64
}

fn read<S: Service>(member: &Member) -> Result<(Shown, S::Setup, Local<S>), String> {
    let content = member.body.read().map_err(|error| error.to_string())?;
    // The states are other nodes' bytes: what the service's own code does about them is found out here, where it is known whose
    // state it is.
    let read = blame::on(Phase::Reading, Some(member.node), || {
        capture::vet::<S>(&content)
    });
    let (setup, captured) = read?;
    let Captured {
        local,
        streams,
        kept,
        readings,
    } = captured;
    let shown = Shown {
        content,
        streams,
        kept,
        readings,
    };
    Ok((shown, setup, local))
}

fn links_of_all(members: &Members) -> BTreeMap<NodeId, Links> {
    let nodes = members.keys();
    nodes.map(|&node| (node, links_of(members, node))).collect()
}

/// Gathers a node's view of its connections. What it has opened is counted from all that is remembered of it, here and
/// by its peers.
fn links_of(members: &Members, me: NodeId) -> Links {
    let mut opened: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut count = |peer: NodeId, connection: Connection| {
        if connection.opener == me {
            let most = opened.entry(peer).or_default();
            *most = (*most).max(connection.serial.saturating_add(1));
        }
    };
    for end in &members[&me].streams {
        count(end.peer, end.connection);
    }
    for (&peer, read) in members {
        let ends = read.streams.iter().filter(|end| end.peer == me);
        ends.for_each(|end| count(peer, end.connection));
    }
    let mut open = Vec::new();
    for end in &members[&me].streams {
        // Checkpoints come from other nodes: one that names a connection of strangers, or twice, is not believed there.
        let between = end.connection.opener == me || end.connection.opener == end.peer;
        if between && end.peer != me && !open.contains(&(end.peer, end.connection)) {
            open.push((end.peer, end.connection));
        }
    }
    Links::restore(open, opened)
}

/// Puts messages on their way, whatever they are.
trait Post {
    /// Reads a message that a node's checkpoint shows, and has it at hand. Tells whether it can be read.
    fn read(&mut self, node: NodeId, bytes: &[u8]) -> bool;

    /// Returns how the message at hand is sent.
    fn transport(&self) -> Option<Transport>;

    /// Puts a parcel on its way to a node with these links, and into it the message at hand.
    fn put(&mut self, from: NodeId, to: NodeId, links: &Links, parcel: Parcel<()>);
}

/// What is on its way.
struct Mail<S: Service> {
    inboxes: BTreeMap<NodeId, Inbox<S::Message>>,
    at_hand: Option<S::Message>,
}

impl<S: Service> Default for Mail<S> {
    fn default() -> Self {
        Self {
            inboxes: BTreeMap::new(),
            at_hand: None,
        }
    }
}

impl<S: Service> Post for Mail<S> {
    fn read(&mut self, node: NodeId, bytes: &[u8]) -> bool {
        let read = || in_silence(|| caught(|| messagepack::from_slice(bytes)));
        let read = blame::on(Phase::Reading, Some(node), read);
        self.at_hand = read.ok().and_then(Result::ok);
        self.at_hand.is_some()
    }

    fn transport(&self) -> Option<Transport> {
        self.at_hand.as_ref().map(S::transport)
    }

    fn put(&mut self, from: NodeId, to: NodeId, links: &Links, parcel: Parcel<()>) {
        let message = self.at_hand.take();
        let parcel = match (parcel, message) {
            (Parcel::Close(connection), _) => Parcel::Close(connection),
            (Parcel::Notice(connection), _) => Parcel::Notice(connection),
            (Parcel::Datagram(()), Some(message)) => Parcel::Datagram(message),
            (
                Parcel::Segment {
                    connection, first, ..
                },
                Some(message),
            ) => Parcel::Segment {
                connection,
                first,
                message,
            },
            (_, None) => return,
        };
        let inbox = self.inboxes.entry(to).or_default();
        inbox.put(to, links, from, parcel);
    }
}

/// Messages that cannot be put back on their way, by why.
#[derive(Default)]
struct Lost {
    unlisted: u64,
    unreadable: u64,
    doubtful: u64,
    astray: u64,
}

impl Lost {
    fn is_none(&self) -> bool {
        self.unlisted + self.unreadable + self.doubtful + self.astray == 0
    }

    fn remarks(&self) -> impl Iterator<Item = String> {
        let said = [
            (self.unlisted, "their sender did not keep them"),
            (self.unreadable, "they cannot be read"),
            (
                self.doubtful,
                "an earlier incarnation of the receiver may have received them",
            ),
            (
                self.astray,
                "their connection is gone, or what came before them is missing",
            ),
        ];
        let said = said.into_iter().filter(|(count, _)| *count > 0);
        said.map(|(count, what)| format!("{count} messages on their way are not known: {what}"))
    }
}

/// Puts all messages on their way, says of which that cannot be done, and tells whether none may still come of which nothing is
/// known.
fn traffic(
    members: &Members,
    links: &BTreeMap<NodeId, Links>,
    remarks: &mut Vec<String>,
    post: &mut dyn Post,
) -> bool {
    let mut lost = Lost::default();
    // What is kept back came before all that is still on its way.
    put_kept(members, links, post, &mut lost);
    put_flying(members, links, post, &mut lost);
    put_closes(members, links, post);
    remarks.extend(lost.remarks());
    let recorded = |read: &Shown| read.content.channels.is_some();
    (members.len() < 2 || members.values().all(recorded)) && lost.is_none()
}

/// Puts back on its way what nodes keep from their handlers.
fn put_kept(
    members: &Members,
    links: &BTreeMap<NodeId, Links>,
    post: &mut dyn Post,
    lost: &mut Lost,
) {
    for (&node, read) in members {
        for kept in read.kept.iter().take(KEPT_MAX) {
            match parcel_of(node, kept, post) {
                Some(parcel) => post.put(kept.from, node, &links[&node], parcel),
                None => lost.unreadable += 1,
            }
        }
    }
}

/// Puts back on its way what was sent and not yet received.
fn put_flying(
    members: &Members,
    links: &BTreeMap<NodeId, Links>,
    post: &mut dyn Post,
    lost: &mut Lost,
) {
    let contents: Vec<(NodeId, &Content)> = members
        .iter()
        .map(|(&node, read)| (node, &read.content))
        .collect();
    let flying = flight::in_flight(&contents);
    lost.unlisted = flying.unlisted;
    // Per channel, the place of the next message that can be delivered.
    let mut next: BTreeMap<(NodeId, NodeId, u32), u64> = BTreeMap::new();
    for message in &flying.messages {
        if !post.read(message.from, &message.message) {
            lost.unreadable += 1;
            continue;
        }
        let parcel = match message.transport {
            _ if message.doubtful => {
                lost.doubtful += 1;
                continue;
            }
            Transport::Datagram => Parcel::Datagram(()),
            Transport::Stream => {
                let key = (message.from, message.to, message.serial);
                let due = *next
                    .entry(key)
                    .or_insert_with(|| first_due(members, message));
                let connection = connection_of(members, message);
                let Some(connection) = connection.filter(|_| due == message.sequence) else {
                    lost.astray += 1;
                    continue;
                };
                next.insert(key, message.sequence + 1);
                Parcel::Segment {
                    connection,
                    first: message.from == message.to
                        || (message.sequence == 1 && connection.opener == message.from),
                    message: (),
                }
            }
        };
        post.put(message.from, message.to, &links[&message.to], parcel);
    }
}

/// Puts on its way the close of every connection whose other end has closed it.
fn put_closes(members: &Members, links: &BTreeMap<NodeId, Links>, post: &mut dyn Post) {
    for (&node, read) in members {
        for end in &read.streams {
            if is_closed_by_peer(members, node, end) {
                let parcel = Parcel::Close(end.connection);
                post.put(end.peer, node, &links[&node], parcel);
            }
        }
    }
}

/// Puts back on its way what a node keeps from its handler.
fn parcel_of(me: NodeId, kept: &Kept, post: &mut dyn Post) -> Option<Parcel<()>> {
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
    if !post.read(me, bytes) {
        return None;
    }
    let own = kept.from == me && post.transport() == Some(Transport::Stream);
    let message = ();
    Some(match connection {
        None if own => Parcel::Segment {
            connection: Connection {
                opener: me,
                serial: 0,
            },
            first: true,
            message,
        },
        None => Parcel::Datagram(()),
        Some(connection) => Parcel::Segment {
            connection,
            first: false,
            message,
        },
    })
}

/// Finds the connection of a message by what the sender remembers, or else the receiver.
fn connection_of(members: &Members, message: &InFlight) -> Option<Connection> {
    let InFlight {
        from, to, serial, ..
    } = *message;
    if from == to {
        // A node reaches itself by one connection that is always there.
        let opener = from;
        return Some(Connection { opener, serial: 0 });
    }
    let incarnation = members[&from].content.incarnation;
    let sent = members[&from].streams.iter();
    let received = members[&to].streams.iter();
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
fn first_due(members: &Members, message: &InFlight) -> u64 {
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

/// Tells whether the other end of a connection had it in its present incarnation, and has it no more.
fn is_closed_by_peer(members: &Members, me: NodeId, end: &StreamEnd) -> bool {
    let Some(peer) = members.get(&end.peer) else {
        return false;
    };
    let remembers = peer
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
