//! The connections of a node, by the rules of [`model::network`](scry_engine::model::network).
//!
//! - A connection is open at its opener from the first send on, at the other end from the first message that is handled.
//! - One that fails or is closed by the peer ends all others with that peer, which are reset.
//! - A node that was reset in silence keeps the sockets of its earlier incarnation and answers whatever comes on them with RST, so
//!   that peers find out at their next send, not earlier.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use scry_protocol::channel::Succession;
use scry_protocol::{FilterId, Incarnation, NodeId};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::capture::{Kept, StreamEnd};
use crate::runtime::connection::{self, Arrival, Key, Wiring};
use crate::runtime::outflow::{Inlet, outflow};
use crate::runtime::ports::{Admission, PortLimits};
use crate::runtime::wire::{self, Hello};
use scry_engine::model::network::Connection;

/// How many messages of a connection may wait for one that is held back.
const WAITING_MAX: usize = 1 << 16;
/// With one part in so many of what may wait, nothing is kept any longer that could run.
const CROWDED_PART: usize = 4;
/// How many sockets of earlier incarnations are kept. Beyond it the oldest is reset, as if something had come on it.
const FORGOTTEN_MAX: usize = 1024;

/// How far a connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    /// A peer opened it and nothing that came on it was handled.
    Fresh,
    /// Both ways.
    Open,
    /// The incarnation that had it is over. It is reset as soon as something comes.
    Forgotten,
    /// This end closed it, what was sent before is on its way, and nothing that comes matters.
    Closing,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) peer: NodeId,
    pub(super) connection: Connection,
    pub(super) standing: Standing,
    /// Whether the peer is one of those the node was told of: the stamps of others do not count.
    pub(super) member: bool,
    /// The serial of the channel that leads to the peer.
    pub(super) sending: u32,
    /// The channel that leads here, once something came on it.
    pub(super) receiving: Option<(Incarnation, u32)>,
    /// What the stamps on what was sent and on what came follow from.
    pub(super) sent: Succession,
    pub(super) came: Succession,
    /// What came while nothing may be handled: the peer is cut off, or an earlier message is held back.
    pub(super) waiting: VecDeque<Waiting>,
    /// How many bytes that are.
    waiting_bytes: usize,
    /// What holds an earlier message back; order must be kept.
    pub(super) held: Option<Hold>,
    outgoing: Option<Inlet>,
    reset: oneshot::Sender<()>,
    last_due: Option<Instant>,
}

/// What holds a message back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Hold {
    Filter(FilterId),
    /// The answer to this question is awaited.
    Question(u64),
    /// The same, and the question is about the news that the connection is lost.
    NewsQuestion(u64),
    /// It is offered again after a while.
    Postponed,
}

/// What came on a connection and waits.
#[derive(Debug)]
pub(super) enum Waiting<B = Vec<u8>> {
    /// The content of a frame.
    Frame(B),
    /// A message that was noted already and is held back.
    Offered(B),
    Ended(String),
}

impl<B: Into<Vec<u8>>> Waiting<B> {
    pub(super) fn into_owned(self) -> Waiting {
        match self {
            Self::Frame(content) => Waiting::Frame(content.into()),
            Self::Offered(content) => Waiting::Offered(content.into()),
            Self::Ended(reason) => Waiting::Ended(reason),
        }
    }
}

impl Waiting {
    fn bytes_len(&self) -> usize {
        match self {
            Self::Frame(content) | Self::Offered(content) => content.len(),
            Self::Ended(reason) => reason.len(),
        }
    }

    fn is_end(&self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

/// All connections of a node, also those of its earlier incarnations.
#[derive(Debug)]
pub(super) struct Streams {
    me: NodeId,
    pub(super) incarnation: Incarnation,
    next: Key,
    ends: BTreeMap<Key, End>,
    /// The open ones of each peer, by age.
    open: BTreeMap<NodeId, Vec<Key>>,
    /// The next serial for each peer. Outlives resets.
    serials: BTreeMap<NodeId, u32>,
    /// Where serials begin: by chance, so that a peer that has not heard of the end of an earlier process does not take a
    /// new connection for one of that.
    first_serial: u32,
    forgotten: VecDeque<Key>,
    /// Whether the news of a lost connection was ever kept from the service: mostly not, and then nobody need look.
    keeps_news: bool,
    passable: BTreeMap<NodeId, watch::Sender<bool>>,
    tasks: JoinSet<()>,
    arrivals: mpsc::Sender<Arrival>,
    connect_timeout: Duration,
    queue_bytes_max: usize,
    limits: PortLimits,
}

impl Streams {
    pub(super) fn new(
        me: NodeId,
        first_serial: u32,
        arrivals: mpsc::Sender<Arrival>,
        connect_timeout: Duration,
        queue_bytes_max: usize,
        limits: PortLimits,
    ) -> Self {
        Self {
            me,
            incarnation: Incarnation::default(),
            next: 0,
            ends: BTreeMap::new(),
            open: BTreeMap::new(),
            serials: BTreeMap::new(),
            first_serial,
            forgotten: VecDeque::new(),
            keeps_news: false,
            passable: BTreeMap::new(),
            tasks: JoinSet::new(),
            arrivals,
            connect_timeout,
            queue_bytes_max,
            limits,
        }
    }

    pub(super) fn end(&mut self, key: Key) -> Option<&mut End> {
        self.ends.get_mut(&key)
    }

    /// Returns the connection to send on: the youngest, since a peer that forgot an older one knows this one; none if that is
    /// lost, and the news of it is kept from the service.
    pub(super) fn to_send_on(&self, peer: NodeId) -> Option<Key> {
        let key = self.open.get(&peer)?.last().copied()?;
        let is_lost = self.keeps_news && self.ends.get(&key).is_some_and(End::keeps_news);
        (!is_lost).then_some(key)
    }

    /// Keeps what came first on a connection, with all that follows it, until it may run.
    pub(super) fn hold_back(&mut self, key: Key, what: Waiting, hold: Hold) {
        if let Some(end) = self.ends.get_mut(&key) {
            end.put_back(what);
            end.held = Some(hold);
            self.keeps_news |= end.keeps_news();
        }
    }

    /// Keeps what comes on a connection waiting while a question about what came before is open. Tells whether there is such a
    /// connection.
    pub(super) fn question(&mut self, key: Key, hold: Hold) -> bool {
        let Some(end) = self.ends.get_mut(&key) else {
            return false;
        };
        end.held = Some(hold);
        self.keeps_news |= end.keeps_news();
        true
    }

    /// Opens a connection. `sending` is the serial its messages are stamped with.
    pub(super) fn connect(
        &mut self,
        peer: NodeId,
        address: Option<SocketAddr>,
        sending: u32,
    ) -> Key {
        let mut serial = self.first_serial;
        // Without an address it comes to nothing, and needs no name of its own.
        if address.is_some() {
            let next = self.serials.entry(peer).or_insert(serial);
            serial = *next;
            *next = next.wrapping_add(1);
        }
        let connection = Connection {
            opener: self.me,
            serial,
        };
        let hello = Hello {
            version: wire::VERSION,
            from: self.me,
            incarnation: self.incarnation,
            to: peer,
            connection,
        };
        let member = address.is_some();
        let (key, wiring) = self.register(peer, connection, Standing::Open, sending, member);
        self.open.entry(peer).or_default().push(key);
        let opening = connection::open(address, hello, self.connect_timeout, wiring);
        self.tasks.spawn(opening);
        key
    }

    /// Takes in a connection that a peer opened, unless it is not meant for this node, its name is taken, or there are too
    /// many of nodes that are not members.
    pub(super) fn accept(
        &mut self,
        stream: TcpStream,
        hello: &Hello,
        member: bool,
        admission: Admission,
    ) {
        let Hello {
            from,
            to,
            connection,
            ..
        } = *hello;
        let taken = self.ends.values().any(|end| {
            end.peer == from
                && end.connection == connection
                && matches!(end.standing, Standing::Fresh | Standing::Open)
        });
        let strangers = self.ends.values().filter(|end| !end.member);
        let crowded = !member && strangers.count() >= self.limits.stranger_connections_max;
        if crowded {
            admission.ports().count_crowded();
        }
        if to != self.me || from == self.me || connection.opener != from || taken || crowded {
            let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            return;
        }
        let (_, wiring) = self.register(from, connection, Standing::Fresh, 0, member);
        let serving = connection::serve(stream, wiring, Some(admission));
        self.tasks.spawn(serving);
    }

    /// Notes that the first message of a connection is about to be handled.
    pub(super) fn mark_open(&mut self, key: Key, sending: u32) {
        let end = self.ends.get_mut(&key).expect("the caller has seen it");
        end.standing = Standing::Open;
        end.sending = sending;
        self.open.entry(end.peer).or_default().push(key);
    }

    /// Learns that nodes have become members.
    pub(super) fn add_members(&mut self, peers: &BTreeMap<NodeId, SocketAddr>) {
        for end in self.ends.values_mut() {
            end.member |= peers.contains_key(&end.peer);
        }
    }

    /// Keeps what came on a connection for later, and tells whether that is within the limits.
    pub(super) fn keep(&mut self, key: Key, what: Waiting) -> bool {
        let Some(end) = self.ends.get_mut(&key) else {
            return true;
        };
        end.waiting_bytes += what.bytes_len();
        end.waiting.push_back(what);
        end.waiting.len() <= WAITING_MAX && end.waiting_bytes <= self.limits.waiting_bytes_max
    }

    /// Tells whether a good part of what may wait on a connection does.
    pub(super) fn is_crowded(&self, key: Key) -> bool {
        let bytes_max = self.limits.waiting_bytes_max / CROWDED_PART;
        self.ends.get(&key).is_some_and(|end| {
            end.waiting.len() > WAITING_MAX / CROWDED_PART || end.waiting_bytes > bytes_max
        })
    }

    /// Queues a frame, and tells whether there was room: if not, the peer must have stopped reading.
    pub(super) fn send(&mut self, key: Key, frame: &[u8], due: Option<Instant>) -> bool {
        let end = self.ends.get_mut(&key).expect("the caller has seen it");
        // Messages of a connection never overtake each other.
        end.last_due = due.max(end.last_due);
        let outgoing = end.outgoing.as_ref();
        outgoing.is_none_or(|outgoing| outgoing.add(frame, end.last_due))
    }

    /// Forgets an end, as it is over. Returns what it was.
    pub(super) fn remove(&mut self, key: Key) -> Option<End> {
        let end = self.ends.remove(&key)?;
        if let Some(keys) = self.open.get_mut(&end.peer) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.open.remove(&end.peer);
            }
        }
        self.forget_peer(end.peer);
        Some(end)
    }

    /// Drops what is kept for a node that is not a member and has no connection any more.
    fn forget_peer(&mut self, peer: NodeId) {
        let unused = |passable: &watch::Sender<bool>| passable.receiver_count() == 0;
        if self
            .passable
            .get(&peer)
            .is_some_and(|passable| *passable.borrow() && unused(passable))
        {
            self.passable.remove(&peer);
        }
    }

    /// Resets one connection.
    pub(super) fn reset(&mut self, key: Key) {
        if let Some(end) = self.remove(key) {
            // A task that is gone needs no order.
            let _ = end.reset.send(());
        }
    }

    /// Breaks all connections with a peer: it is told by RST, or finds out at its next send if it is cut off. Returns
    /// those that were open.
    pub(super) fn break_with(&mut self, peer: NodeId, cut: bool) -> Vec<StreamEnd> {
        let keys = self.open.remove(&peer).unwrap_or_default();
        let mut gone = Vec::new();
        for key in keys {
            gone.extend(self.ends.get(&key).map(End::describe));
            match cut {
                true => self.forget(key),
                false => self.reset(key),
            }
        }
        gone
    }

    /// Closes all connections with a peer, after what was sent on them. Returns those that were open.
    pub(super) fn finish(&mut self, peer: NodeId) -> Vec<StreamEnd> {
        let keys = self.open.remove(&peer).unwrap_or_default();
        let mut gone = Vec::new();
        for key in keys {
            if let Some(end) = self.ends.get_mut(&key) {
                gone.push(end.describe());
                if end.is_lost() {
                    // Its task has ended and will not say so again.
                    self.ends.remove(&key);
                    continue;
                }
                end.standing = Standing::Closing;
                end.outgoing = None;
                end.waiting.clear();
                end.held = None;
            }
        }
        gone
    }

    /// Ends an incarnation: its open connections are reset, or kept without memory of them if nobody is to be told. Returns
    /// those of the latter on which something waits.
    pub(super) fn end_incarnation(
        &mut self,
        notice: bool,
        is_cut: impl Fn(NodeId) -> bool,
    ) -> Vec<Key> {
        let peers: Vec<NodeId> = self.open.keys().copied().collect();
        for peer in peers {
            self.break_with(peer, !notice || is_cut(peer));
        }
        let waits = |key: &Key| {
            let end = self.ends.get(key);
            end.is_some_and(|end| !end.waiting.is_empty())
        };
        self.forgotten.iter().copied().filter(waits).collect()
    }

    /// Returns the peers this node has open connections with.
    pub(super) fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.open.keys().copied()
    }

    /// Describes the open connections, by peer and then by age.
    pub(super) fn describe(&self) -> Vec<StreamEnd> {
        let keys = self.open.values().flatten();
        keys.filter_map(|key| Some(self.ends.get(key)?.describe()))
            .collect()
    }

    /// Returns what a connection is called at both ends.
    pub(super) fn connection(&self, key: Key) -> Option<Connection> {
        self.ends.get(&key).map(|end| end.connection)
    }

    /// Adds what a filter holds back on open connections: a message, or the news that one is lost.
    pub(super) fn add_held(&self, kept: &mut Vec<Kept>) {
        let open = self.open.values().flatten();
        let held = open
            .filter_map(|key| self.ends.get(key))
            .filter(|end| end.held.is_some());
        for end in held {
            let message = match end.waiting.front() {
                Some(Waiting::Offered(content)) => Some(content.clone()),
                Some(Waiting::Ended(_)) => None,
                // It has not been received as far as the channels know, and is on its way.
                Some(Waiting::Frame(_)) | None => continue,
            };
            kept.push(Kept {
                from: end.peer,
                connection: Some(end.connection),
                message,
            });
        }
    }

    /// Stops or resumes all connections with a peer. Returns those with something to go on with.
    pub(super) fn set_passable(&mut self, peer: NodeId, passable: bool) -> Vec<Key> {
        self.passable
            .entry(peer)
            .or_insert_with(|| watch::Sender::new(true))
            .send_replace(passable);
        let mut keys: Vec<Key> = self
            .ends
            .iter()
            .filter(|(_, end)| passable && end.peer == peer && !end.waiting.is_empty())
            .map(|(key, _)| *key)
            .collect();
        keys.sort_unstable();
        keys
    }

    /// Lets connections go on on which a filter held a message back, and returns them.
    pub(super) fn release(&mut self, filter: FilterId) -> Vec<Key> {
        let mut keys = Vec::new();
        for (key, end) in &mut self.ends {
            if end.held == Some(Hold::Filter(filter)) {
                end.held = None;
                keys.push(*key);
            }
        }
        keys.sort_unstable();
        keys
    }

    /// Closes everything in good order, and waits until it is done.
    pub(super) async fn shut_down(
        &mut self,
        limit: Duration,
        arrivals: &mut mpsc::Receiver<Arrival>,
    ) {
        for end in self.ends.values_mut() {
            end.outgoing = None;
        }
        let all = async {
            loop {
                tokio::select! {
                    ended = self.tasks.join_next() => if ended.is_none() { return },
                    // Nobody handles what comes now, but a task that cannot hand it over would not end.
                    _ = arrivals.recv() => {}
                }
            }
        };
        // What is not done by then is cut short.
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Ends all tasks at once, as the end of a process would.
    pub(super) async fn abort(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Lets go of tasks that have ended.
    pub(super) fn tidy(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    fn forget(&mut self, key: Key) {
        self.forgotten.retain(|key| self.ends.contains_key(key));
        let Some(end) = self.ends.get_mut(&key) else {
            return;
        };
        end.standing = Standing::Forgotten;
        end.held = None;
        self.forgotten.push_back(key);
        if self.forgotten.len() > FORGOTTEN_MAX
            && let Some(oldest) = self.forgotten.pop_front()
        {
            self.reset(oldest);
        }
    }

    fn register(
        &mut self,
        peer: NodeId,
        connection: Connection,
        standing: Standing,
        sending: u32,
        member: bool,
    ) -> (Key, Wiring) {
        let key = self.next;
        self.next += 1;
        let (outgoing, outlet) = outflow(self.queue_bytes_max);
        let (reset, reset_ordered) = oneshot::channel();
        let passable = self
            .passable
            .entry(peer)
            .or_insert_with(|| watch::Sender::new(true));
        let wiring = Wiring {
            key,
            outgoing: outlet,
            passable: passable.subscribe(),
            reset: reset_ordered,
            frame_bytes_max: match member {
                true => self.limits.frame_bytes_max,
                false => self.limits.stranger_frame_bytes_max,
            },
            arrivals: self.arrivals.clone(),
        };
        let end = End {
            peer,
            connection,
            standing,
            member,
            sending,
            receiving: None,
            sent: Succession::default(),
            came: Succession::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            held: None,
            outgoing: Some(outgoing),
            reset,
            last_due: None,
        };
        self.ends.insert(key, end);
        (key, wiring)
    }
}

impl End {
    /// Tells whether it is lost, and the service is not to know yet.
    fn keeps_news(&self) -> bool {
        match self.held {
            Some(Hold::NewsQuestion(_)) => true,
            Some(Hold::Filter(_) | Hold::Postponed) => {
                self.waiting.front().is_some_and(Waiting::is_end)
            }
            Some(Hold::Question(_)) | None => false,
        }
    }

    /// Tells whether nothing comes on it any more but what waits already.
    fn is_lost(&self) -> bool {
        self.keeps_news() || self.waiting.iter().any(Waiting::is_end)
    }

    /// Puts something before all that waits.
    fn put_back(&mut self, what: Waiting) {
        self.waiting_bytes += what.bytes_len();
        self.waiting.push_front(what);
    }

    /// Takes the next that waits.
    pub(super) fn next_waiting(&mut self) -> Option<Waiting> {
        let next = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(next.bytes_len());
        Some(next)
    }

    pub(super) fn describe(&self) -> StreamEnd {
        StreamEnd {
            peer: self.peer,
            connection: self.connection,
            sending: self.sending,
            receiving: self.receiving,
        }
    }
}
