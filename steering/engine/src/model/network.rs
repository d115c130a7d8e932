//! What is between the nodes: connections as each end sees them, and messages on their way.
//!
//! Both live at a node, never between two, so that a reset, a lost notice or a stale connection is a step of one node.
//! The rules are TCP's and UDP's, as far as a service can tell:
//!
//! - A connection exists at its opener from the first send on, at the other end from the first receipt on.
//! - A message on a connection the receiver has no memory of is refused, and the refusal comes back as a notice; so a
//!   node that missed its peer's reset learns of it at its next send.
//! - A first message opens a connection wherever it arrives, even at a node that was reset meanwhile (F-8).
//! - A notice that is never delivered is a notice that was lost: no event of its own is needed.
//! - Whoever closes a connection goes on reading it, and ignores what comes: its peer hears all that was sent before, and
//!   then that it is closed. A refusal that would come back meanwhile says nothing new and is left out.
//! - A node that is down refuses every connection. Datagrams to it wait, and may be lost, as always.
//! - Datagrams are a multiset: two equal ones can both arrive.

use scry_protocol::NodeId;
use scry_protocol::filter::Action;
use serde::{Deserialize, Serialize};

use crate::context::Effect;
use crate::model::event::Event;
use crate::service::Transport;

/// Names a connection between two nodes: who opened it, and how often it had opened one to that peer before.
///
/// The count is per peer, so that opening connections to several peers in different orders ends in one state.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Connection {
    /// The node that opened it.
    pub opener: NodeId,
    /// Its number among the opener's connections to this peer.
    pub serial: u32,
}

/// One node's view of its connections.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Links {
    /// The connections that are open here, by peer and then by age. There are several to one peer after both opened
    /// one at the same time, or after the peer was reset and came back before this node learned of it.
    open: Vec<(NodeId, Connection)>,
    /// How many connections this node has opened to each peer. Outlives resets, as port numbers do in effect.
    opened: Vec<(NodeId, u32)>,
    /// Whether the node is down, so that every connection to it is refused.
    #[serde(default)]
    down: bool,
}

/// What one node leaves for another.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Parcel<M> {
    /// A message on its own.
    Datagram(M),
    /// The next message of a connection.
    Segment {
        /// Which connection.
        connection: Connection,
        /// Whether it is the first: then it opens the connection at the receiver.
        first: bool,
        /// What it says.
        message: M,
    },
    /// The sender has closed the connection.
    Close(Connection),
    /// The connection is dead at the sender's end.
    Notice(Connection),
}

/// What one event leaves, and for whom.
pub type Parcels<M> = Vec<(NodeId, Parcel<M>)>;

/// What is on its way to one node.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Inbox<M> {
    datagrams: Vec<(NodeId, M, u32)>,
    channels: Vec<(NodeId, Connection, Vec<Segment<M>>)>,
    notices: Vec<(NodeId, Connection)>,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Segment<M> {
    Message { first: bool, message: M },
    Close,
}

impl Links {
    /// Makes the view of a node that is running already: its open connections, by age for each peer, and how many it
    /// has opened to each peer.
    pub fn restore(
        mut open: Vec<(NodeId, Connection)>,
        opened: impl IntoIterator<Item = (NodeId, u32)>,
    ) -> Self {
        open.sort_by_key(|(peer, _)| *peer);
        let opened: std::collections::BTreeMap<NodeId, u32> = opened.into_iter().collect();
        Self {
            open,
            opened: opened.into_iter().collect(),
            down: false,
        }
    }

    /// Tells whether the node is down.
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// Returns the open connections with their peers, by peer and then by age.
    pub fn open(&self) -> impl Iterator<Item = (NodeId, Connection)> + '_ {
        self.open.iter().copied()
    }

    /// Returns the peers this node has a connection with, each once.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        let mut last = None;
        self.open
            .iter()
            .filter_map(move |&(peer, _)| (last.replace(peer) != Some(peer)).then_some(peer))
    }

    fn knows(&self, me: NodeId, peer: NodeId, connection: Connection) -> bool {
        // A node reaches itself without a connection that could break.
        peer == me || self.open.contains(&(peer, connection))
    }

    fn accept(&mut self, peer: NodeId, connection: Connection) {
        if !self.open.contains(&(peer, connection)) {
            let at = self.open.partition_point(|(other, _)| *other <= peer);
            self.open.insert(at, (peer, connection));
        }
    }

    /// Returns the connection to send on, and whether it had to be opened: the youngest is of no use if its end `is_known`.
    fn connect(
        &mut self,
        me: NodeId,
        peer: NodeId,
        is_known: impl Fn(Connection) -> bool,
    ) -> (Connection, bool) {
        if peer == me {
            return (
                Connection {
                    opener: me,
                    serial: 0,
                },
                true,
            );
        }
        // The youngest: if the peer forgot an older one, this is the one it knows.
        let youngest = self.open.iter().rfind(|(to, _)| *to == peer);
        if let Some(&(_, connection)) = youngest.filter(|(_, it)| !is_known(*it)) {
            return (connection, false);
        }
        let at = match self.opened.binary_search_by_key(&peer, |(to, _)| *to) {
            Ok(at) => at,
            Err(at) => {
                self.opened.insert(at, (peer, 0));
                at
            }
        };
        let connection = Connection {
            opener: me,
            serial: self.opened[at].1,
        };
        self.opened[at].1 += 1;
        self.accept(peer, connection);
        (connection, true)
    }

    /// Forgets the connections with a peer and returns them.
    fn forget(&mut self, peer: NodeId) -> Vec<Connection> {
        let gone = self
            .open
            .iter()
            .filter(|(to, _)| *to == peer)
            .map(|&(_, connection)| connection)
            .collect();
        self.open.retain(|(to, _)| *to != peer);
        gone
    }
}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        Self {
            datagrams: Vec::new(),
            channels: Vec::new(),
            notices: Vec::new(),
        }
    }
}

impl<M: Clone + Ord> Inbox<M> {
    /// Returns the datagrams on their way: sender, message, how many equal ones.
    pub fn datagrams(&self) -> impl Iterator<Item = (NodeId, &M, u32)> {
        self.datagrams
            .iter()
            .map(|(from, message, count)| (*from, message, *count))
    }

    /// Returns what waits on connections, in order for each connection: its sender, the connection, and the message or
    /// nothing for the end of it.
    pub fn segments(&self) -> impl Iterator<Item = (NodeId, Connection, Option<&M>)> {
        self.channels
            .iter()
            .flat_map(|(from, connection, segments)| {
                segments.iter().map(move |segment| match segment {
                    Segment::Message { message, .. } => (*from, *connection, Some(message)),
                    Segment::Close => (*from, *connection, None),
                })
            })
    }

    /// Returns the messages waiting on connections, in order for each connection.
    pub fn streams(&self) -> impl Iterator<Item = (NodeId, &M)> {
        self.channels.iter().flat_map(|(from, _, segments)| {
            segments.iter().filter_map(|segment| match segment {
                Segment::Message { message, .. } => Some((*from, message)),
                Segment::Close => None,
            })
        })
    }

    /// Translates the messages, from ids to values or back.
    pub fn map<N: Clone + Ord>(self, mut message: impl FnMut(M) -> N) -> Inbox<N> {
        let datagrams = self
            .datagrams
            .into_iter()
            .map(|(from, body, count)| (from, message(body), count));
        let mut datagrams: Vec<_> = datagrams.collect();
        // Ids are ordered by first sight, values by themselves.
        datagrams.sort();
        let channels = self
            .channels
            .into_iter()
            .map(|(from, connection, segments)| {
                let segments = segments.into_iter().map(|segment| match segment {
                    Segment::Message {
                        first,
                        message: body,
                    } => Segment::Message {
                        first,
                        message: message(body),
                    },
                    Segment::Close => Segment::Close,
                });
                (from, connection, segments.collect())
            });
        Inbox {
            datagrams,
            channels: channels.collect(),
            notices: self.notices,
        }
    }

    /// Lists what waits on connections as it was put there, in order for each connection.
    pub fn parcels(&self) -> Vec<(NodeId, Parcel<M>)> {
        let mut parcels = Vec::new();
        for (from, connection, segments) in &self.channels {
            let connection = *connection;
            parcels.extend(segments.iter().map(|segment| match segment {
                Segment::Message { first, message } => {
                    let (first, message) = (*first, message.clone());
                    let segment = Parcel::Segment {
                        connection,
                        first,
                        message,
                    };
                    (*from, segment)
                }
                Segment::Close => (*from, Parcel::Close(connection)),
            }));
        }
        let notices = self.notices.iter();
        parcels.extend(notices.map(|&(from, connection)| (from, Parcel::Notice(connection))));
        parcels
    }

    /// Takes the datagrams out: sender, message, how many equal ones.
    pub fn take_datagrams(&mut self) -> Vec<(NodeId, M, u32)> {
        std::mem::take(&mut self.datagrams)
    }

    /// Tells whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty() && self.channels.is_empty() && self.notices.is_empty()
    }

    /// Takes in what another node left.
    pub fn put(&mut self, me: NodeId, links: &Links, from: NodeId, parcel: Parcel<M>) {
        match parcel {
            Parcel::Datagram(message) => self.put_datagram(from, message),
            Parcel::Segment {
                connection,
                first,
                message,
            } => {
                self.channel(from, connection)
                    .push(Segment::Message { first, message });
            }
            Parcel::Close(connection) => self.channel(from, connection).push(Segment::Close),
            // The peer closed the connection in good order, and refuses what still comes on it: whoever closes goes on
            // reading, so that this does not destroy what it sent before (the runtime's `Standing::Closing`).
            Parcel::Notice(connection) if self.is_closing(from, connection) => {}
            Parcel::Notice(connection) => {
                if let Err(at) = self.notices.binary_search(&(from, connection)) {
                    self.notices.insert(at, (from, connection));
                }
            }
        }
        self.tidy(me, links);
    }

    fn put_datagram(&mut self, from: NodeId, message: M) {
        match self
            .datagrams
            .binary_search_by(|(f, m, _)| (*f, m).cmp(&(from, &message)))
        {
            Ok(at) => self.datagrams[at].2 += 1,
            Err(at) => self.datagrams.insert(at, (from, message, 1)),
        }
    }

    /// Takes a datagram out. `None` if there is none.
    fn take_datagram(&mut self, from: NodeId, message: &M) -> Option<()> {
        let at = self
            .datagrams
            .binary_search_by(|(f, m, _)| (*f, m).cmp(&(from, message)))
            .ok()?;
        self.datagrams[at].2 -= 1;
        if self.datagrams[at].2 == 0 {
            self.datagrams.remove(at);
        }
        Some(())
    }

    fn channel(&mut self, from: NodeId, connection: Connection) -> &mut Vec<Segment<M>> {
        let at = match self
            .channels
            .binary_search_by_key(&(from, connection), |(f, c, _)| (*f, *c))
        {
            Ok(at) => at,
            Err(at) => {
                self.channels.insert(at, (from, connection, Vec::new()));
                at
            }
        };
        &mut self.channels[at].2
    }

    /// Tells whether the end of a connection is on its way, behind what was sent on it before.
    fn is_closing(&self, from: NodeId, connection: Connection) -> bool {
        self.channels.iter().any(|(f, c, segments)| {
            (*f, *c) == (from, connection) && segments.last() == Some(&Segment::Close)
        })
    }

    /// Tells whether the news that a connection is lost is next on it.
    fn has_news(&self, from: NodeId, connection: Connection) -> bool {
        let closed = |(f, c, segments): &(NodeId, Connection, Vec<Segment<M>>)| {
            (*f, *c) == (from, connection) && segments.first() == Some(&Segment::Close)
        };
        self.notices.binary_search(&(from, connection)).is_ok() || self.channels.iter().any(closed)
    }

    /// Puts a second copy beside a datagram. `None` if there is none.
    fn duplicate(&mut self, from: NodeId, message: &M) -> Option<()> {
        let mut datagrams = self.datagrams.iter_mut();
        let (.., copies) = datagrams.find(|(f, m, _)| (*f, m) == (from, message))?;
        *copies += 1;
        Some(())
    }

    fn close_channel(&mut self, from: NodeId, connection: Connection) {
        self.channels
            .retain(|(f, c, _)| (*f, *c) != (from, connection));
    }

    /// Drops what can no longer have any effect, so that states which differ only in that are one state.
    fn tidy(&mut self, me: NodeId, links: &Links) {
        self.channels
            .retain(|(from, connection, segments)| match segments.first() {
                None => false,
                Some(Segment::Close) => links.knows(me, *from, *connection),
                Some(Segment::Message { .. }) => true,
            });
        let channels = &self.channels;
        self.notices.retain(|&(from, connection)| {
            links.knows(me, from, connection)
                // The message that opens the connection may still arrive first. It is the first of its channel: behind
                // any other, nothing opens it any more.
                || channels.iter().any(|(f, c, segments)| {
                    (*f, *c) == (from, connection)
                        && matches!(segments.first(), Some(Segment::Message { first: true, .. }))
                })
        });
    }
}

/// Lists what the network can do at a node, in a fixed order.
pub fn arrivals<M: Clone + Ord, T, C>(
    me: NodeId,
    links: &Links,
    inbox: &Inbox<M>,
) -> Vec<Event<M, T, C>> {
    let mut events = Vec::new();
    for (from, message, _) in inbox.datagrams.iter().filter(|_| !links.down) {
        events.push(Event::Deliver {
            from: *from,
            message: message.clone(),
        });
    }
    for (from, connection, segments) in &inbox.channels {
        let (from, connection) = (*from, *connection);
        events.extend(segments.first().map(|segment| match segment {
            Segment::Message { first, message }
                if !links.down && (*first || links.knows(me, from, connection)) =>
            {
                Event::Receive {
                    from,
                    connection,
                    message: message.clone(),
                }
            }
            Segment::Message { .. } => Event::Refuse { from, connection },
            Segment::Close => Event::Hangup { from, connection },
        }));
    }
    for &(from, connection) in &inbox.notices {
        if links.knows(me, from, connection) {
            events.push(Event::Disconnect { from, connection });
        }
    }
    events
}

/// Lists the faults of connections and datagrams that can strike at a node, in a fixed order.
pub fn network_faults<M: Clone + Ord, T, C>(
    links: &Links,
    inbox: &Inbox<M>,
) -> Vec<Event<M, T, C>> {
    let mut events: Vec<_> = links.peers().map(|peer| Event::Break { peer }).collect();
    for (from, message, _) in &inbox.datagrams {
        events.push(Event::Lose {
            from: *from,
            message: message.clone(),
        });
        events.push(Event::Duplicate {
            from: *from,
            message: message.clone(),
        });
    }
    events
}

/// Does to a node's connections and inbox what an event does before the handler runs, and returns what it leaves for
/// others, or `None` if the event cannot happen here.
pub fn before_handler<M: Clone + Ord, T, C>(
    me: NodeId,
    links: &mut Links,
    inbox: &mut Inbox<M>,
    event: &Event<M, T, C>,
) -> Option<Vec<(NodeId, Parcel<M>)>> {
    let mut parcels = Vec::new();
    if links.down != matches!(event, Event::Start)
        && !(links.down && matches!(event, Event::Refuse { .. }))
    {
        return None;
    }
    match event {
        Event::Deliver { from, message } | Event::Lose { from, message } => {
            inbox.take_datagram(*from, message)?;
        }
        Event::Duplicate { from, message } => inbox.duplicate(*from, message)?,
        Event::Receive {
            from,
            connection,
            message,
        } => receive(me, links, inbox, *from, *connection, message)?,
        Event::Refuse { from, connection } => {
            refuse(me, links, inbox, *from, *connection)?;
            parcels.push((*from, Parcel::Notice(*connection)));
        }
        Event::Hangup { from, connection } => {
            let segments = inbox.channel(*from, *connection);
            if !matches!(segments.first(), Some(Segment::Close)) {
                return None;
            }
            hang_up_beside(links, inbox, *from, *connection, &mut parcels);
        }
        Event::Disconnect { from, connection } => {
            let at = inbox.notices.binary_search(&(*from, *connection)).ok()?;
            if !links.knows(me, *from, *connection) {
                return None;
            }
            inbox.notices.remove(at);
            hang_up_beside(links, inbox, *from, *connection, &mut parcels);
        }
        Event::Break { peer } => {
            let broken = hang_up(links, inbox, *peer);
            if broken.is_empty() {
                return None;
            }
            let notices = broken.into_iter().map(Parcel::Notice);
            parcels.extend(notices.map(|notice| (*peer, notice)));
        }
        Event::Start => links.down = false,
        Event::Reset { notice } => parcels = die(me, links, inbox, *notice),
        Event::Stop => {
            links.down = true;
            parcels = die(me, links, inbox, true);
        }
        Event::Timer(_) | Event::Call(_) => {}
    }
    inbox.tidy(me, links);
    Some(parcels)
}

/// Takes the first message of a connection, which opens it if it is the first of all. `None` if it is not there.
fn receive<M: Clone + Ord>(
    me: NodeId,
    links: &mut Links,
    inbox: &mut Inbox<M>,
    from: NodeId,
    connection: Connection,
    message: &M,
) -> Option<()> {
    let known = links.knows(me, from, connection);
    let segments = inbox.channel(from, connection);
    match segments.first() {
        Some(Segment::Message {
            first,
            message: head,
        }) if (known || *first) && head == message => {
            segments.remove(0);
        }
        _ => return None,
    }
    if from != me {
        links.accept(from, connection);
    }
    Some(())
}

/// Throws away what came on a connection that is not there. `None` if it is, or if its first message can open it.
fn refuse<M: Clone + Ord>(
    me: NodeId,
    links: &Links,
    inbox: &mut Inbox<M>,
    from: NodeId,
    connection: Connection,
) -> Option<()> {
    let refused = match inbox.channel(from, connection).first() {
        Some(Segment::Message { first, .. }) => links.down || !first,
        _ => false,
    };
    if !refused || links.knows(me, from, connection) {
        return None;
    }
    inbox.close_channel(from, connection);
    Some(())
}

/// Ends all connections of a process that dies, and returns the news of it for its peers, if there are any.
fn die<M: Clone + Ord>(
    me: NodeId,
    links: &mut Links,
    inbox: &mut Inbox<M>,
    notice: bool,
) -> Vec<(NodeId, Parcel<M>)> {
    let ended = std::mem::take(&mut links.open);
    // What a node sent to itself never left the process that died.
    inbox.datagrams.retain(|(from, ..)| *from != me);
    inbox.channels.retain(|(from, ..)| *from != me);
    let notices = ended.into_iter().filter(|_| notice);
    notices
        .map(|(peer, connection)| (peer, Parcel::Notice(connection)))
        .collect()
}

/// Does what a filter makes of an event: to connections and inbox, and for others. The handler of the event does not
/// run; the node learns of the peer that is returned that its connection is gone. `None` if nothing happens at all.
pub fn under_filter<M: Clone + Ord, T, C>(
    me: NodeId,
    links: &mut Links,
    inbox: &mut Inbox<M>,
    event: &Event<M, T, C>,
    action: Action,
) -> Option<(Parcels<M>, Option<NodeId>)> {
    let mut parcels = match action {
        Action::Drop | Action::Reset => before_handler(me, links, inbox, event)?,
        Action::Postpone | Action::Refuse | Action::Hold | Action::Check => return None,
    };
    let peer = match (action, event) {
        (Action::Reset, Event::Receive { from, .. }) if *from != me => *from,
        // A datagram has no connection that could be reset.
        _ => return Some((parcels, None)),
    };
    let gone = hang_up(links, inbox, peer);
    parcels.extend(
        gone.into_iter()
            .map(|connection| (peer, Parcel::Notice(connection))),
    );
    inbox.tidy(me, links);
    Some((parcels, Some(peer)))
}

/// Forgets a peer because one connection with it is dead, which ends the others as well.
fn hang_up_beside<M: Clone + Ord>(
    links: &mut Links,
    inbox: &mut Inbox<M>,
    peer: NodeId,
    dead: Connection,
    parcels: &mut Vec<(NodeId, Parcel<M>)>,
) {
    let others = hang_up(links, inbox, peer)
        .into_iter()
        .filter(|&connection| connection != dead);
    parcels.extend(others.map(|connection| (peer, Parcel::Notice(connection))));
}

fn hang_up<M: Clone + Ord>(
    links: &mut Links,
    inbox: &mut Inbox<M>,
    peer: NodeId,
) -> Vec<Connection> {
    let gone = links.forget(peer);
    for &connection in &gone {
        inbox.close_channel(peer, connection);
    }
    gone
}

/// Turns what a handler asked of the network into parcels. Nothing is left for nodes that are not `members`.
///
/// `is_late` tells whether the news of a lost connection with a peer is kept from this node: it then sends on a new one.
pub fn after_handler<M: Clone + Ord, T>(
    me: NodeId,
    links: &mut Links,
    inbox: &mut Inbox<M>,
    effects: impl IntoIterator<Item = Effect<M, T>>,
    transport: impl Fn(&M) -> Transport,
    is_member: impl Fn(NodeId) -> bool,
    is_late: impl Fn(NodeId) -> bool,
) -> Vec<(NodeId, Parcel<M>)> {
    let mut parcels = Vec::new();
    for effect in effects {
        match effect {
            Effect::Send { to, message } if is_member(to) => {
                let parcel = match transport(&message) {
                    Transport::Datagram => Parcel::Datagram(message),
                    Transport::Stream => {
                        let is_known = |connection| inbox.has_news(to, connection) && is_late(to);
                        let (connection, first) = links.connect(me, to, is_known);
                        Parcel::Segment {
                            connection,
                            first,
                            message,
                        }
                    }
                };
                if to == me {
                    inbox.put(me, links, me, parcel);
                } else {
                    parcels.push((to, parcel));
                }
            }
            Effect::Disconnect { peer } => {
                let gone = hang_up(links, inbox, peer);
                parcels.extend(
                    gone.into_iter()
                        .map(|connection| (peer, Parcel::Close(connection))),
                );
            }
            Effect::Send { .. } | Effect::Arm { .. } | Effect::Cancel { .. } => {}
        }
    }
    inbox.tidy(me, links);
    parcels
}
