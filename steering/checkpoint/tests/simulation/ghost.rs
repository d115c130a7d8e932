//! What really happened: every message, when it was sent, when and by which life it was received, whether it was lost.
//!
//! The nodes' states carry counters of what they sent and received, kept by the simulation and not by the code under
//! test. A snapshot is judged by these counters and by the record of messages alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use scry_checkpoint::flight::{self, InFlight};
use scry_protocol::NodeId;
use scry_protocol::{Content, Snapshot, Transport};

/// What a simulated service keeps as its state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) life: u64,
    /// Counts all events of this life.
    pub(crate) events: u64,
    /// How many messages this life has sent, by receiver and transport.
    pub(crate) sent: BTreeMap<(NodeId, Transport), u64>,
    /// The newest message received, as (life of the sender, its count), by sender and transport.
    pub(crate) received: BTreeMap<(NodeId, Transport), (u64, u64)>,
}

/// One message of one life of a sender.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Name {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) transport: Transport,
    pub(crate) life: u64,
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Fate {
    count: u64,
    /// The life that received it, and the number of that event in that life.
    received: Option<(u64, u64)>,
    lost: bool,
    at: u64,
}

/// All messages of the recent past.
#[derive(Debug, Default)]
pub(crate) struct Ghost {
    messages: BTreeMap<(NodeId, NodeId, Transport, u64), VecDeque<Fate>>,
    /// By node and life: what happened there, one event after the other, beginning with the start.
    histories: BTreeMap<(NodeId, u64), Vec<Moment>>,
}

/// The last event of each node that lies in the past of something, as (life, its number in that life).
pub(crate) type Clock = BTreeMap<NodeId, (u64, u64)>;

/// A node after one of its events.
#[derive(Clone, Debug)]
struct Moment {
    at: u64,
    /// What properties would read of it.
    shown: u64,
    clock: Clock,
}

/// No snapshot shows anything this old.
const HORIZON_MS: u64 = 60_000;

impl State {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut words = vec![self.life, self.events, self.sent.len() as u64];
        for (&(node, transport), &count) in &self.sent {
            words.extend([node.get().into(), u8::from(transport).into(), count]);
        }
        for (&(node, transport), &(life, count)) in &self.received {
            words.extend([node.get().into(), u8::from(transport).into(), life, count]);
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let mut state = Self {
            life: words.next()?,
            events: words.next()?,
            ..Self::default()
        };
        let key = |node: u64, transport: u64| {
            let transport = Transport::try_from(transport as u8).ok()?;
            Some((NodeId::new(node as u32), transport))
        };
        for _ in 0..words.next()? {
            let key = key(words.next()?, words.next()?)?;
            state.sent.insert(key, words.next()?);
        }
        while let Some(node) = words.next() {
            let key = key(node, words.next()?)?;
            state.received.insert(key, (words.next()?, words.next()?));
        }
        Some(state)
    }
}

impl Name {
    pub(crate) fn write(&self) -> Vec<u8> {
        let parts = [
            self.from.get().into(),
            self.to.get().into(),
            u8::from(self.transport).into(),
            self.life,
            self.count,
        ];
        parts
            .iter()
            .flat_map(|part: &u64| part.to_le_bytes())
            .collect()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let part = |at: usize| {
            let bytes = bytes.get(at * 8..at * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        Some(Self {
            from: NodeId::new(part(0)? as u32),
            to: NodeId::new(part(1)? as u32),
            transport: Transport::try_from(part(2)? as u8).ok()?,
            life: part(3)?,
            count: part(4)?,
        })
    }
}

impl Ghost {
    /// Notes an event of a node: what it shows then, and what lies in its past beside what did before.
    pub(crate) fn happened(
        &mut self,
        now: u64,
        node: NodeId,
        life: u64,
        shown: u64,
        heard: &Clock,
    ) {
        let history = self.histories.entry((node, life)).or_default();
        let mut clock = history
            .last()
            .map(|last| last.clock.clone())
            .unwrap_or_default();
        join(&mut clock, heard);
        clock.insert(node, (life, history.len() as u64));
        let at = now;
        history.push(Moment { at, shown, clock });
    }

    /// Returns what lies in the past of a node's present.
    pub(crate) fn clock(&self, node: NodeId, life: u64) -> Clock {
        let last = self
            .histories
            .get(&(node, life))
            .and_then(|history| history.last());
        last.map(|last| last.clock.clone()).unwrap_or_default()
    }

    fn moment(&self, node: NodeId, (life, event): (u64, u64)) -> Option<&Moment> {
        self.histories.get(&(node, life))?.get(event as usize)
    }

    /// Judges whether states of others may stand beside a node's present state: the least cut that holds all of them and
    /// their pasts must show of each what its checkpoint shows.
    pub(crate) fn judge_cut(
        &self,
        past: &Clock,
        chosen: &[(NodeId, Content)],
    ) -> Result<(), String> {
        let mut cut = past.clone();
        let mut shown = Vec::new();
        for (node, content) in chosen {
            let state = State::read(&content.state).ok_or("a state cannot be read")?;
            let place = (state.life, state.events);
            let moment = self.moment(*node, place).ok_or("a state that never was")?;
            join(&mut cut, &moment.clock);
            shown.push((*node, place, moment.shown));
        }
        for (node, place, value) in shown {
            let reached = cut[&node];
            let now = self
                .moment(node, reached)
                .ok_or("an event that never was")?
                .shown;
            if now != value || reached.0 != place.0 {
                return Err(format!(
                    "{node} is judged as it was at {place:?}, and has shown something else at {reached:?}, which lies in \
                     the past"
                ));
            }
        }
        Ok(())
    }

    /// Tells whether a node was in the state of a checkpoint at some moment from `since` on.
    pub(crate) fn was_there(&self, node: NodeId, content: &Content, since: u64) -> bool {
        let Some(state) = State::read(&content.state) else {
            return false;
        };
        let place = (state.life, state.events);
        let Some(moment) = self.moment(node, place) else {
            return false;
        };
        let next = self.histories[&(node, state.life)]
            .iter()
            .skip(state.events as usize + 1)
            .find(|later| later.shown != moment.shown);
        next.is_none_or(|next| next.at >= since)
    }

    pub(crate) fn sent(&mut self, now: u64, name: Name) {
        let fates = self
            .messages
            .entry((name.from, name.to, name.transport, name.life))
            .or_default();
        while fates.front().is_some_and(|fate| fate.at + HORIZON_MS < now) {
            fates.pop_front();
        }
        fates.push_back(Fate {
            count: name.count,
            received: None,
            lost: false,
            at: now,
        });
    }

    pub(crate) fn lost(&mut self, name: Name) {
        if let Some(fate) = self.fate(name) {
            fate.lost = fate.received.is_none();
        }
    }

    pub(crate) fn received(&mut self, name: Name, life: u64, event: u64) {
        if let Some(fate) = self.fate(name) {
            // The first copy counts; one that the network doubled may arrive after a crash.
            fate.received.get_or_insert((life, event));
            fate.lost = false;
        }
    }

    fn fate(&mut self, name: Name) -> Option<&mut Fate> {
        let key = (name.from, name.to, name.transport, name.life);
        let fates = self.messages.get_mut(&key)?;
        let first = fates.front()?.count;
        fates.get_mut(name.count.checked_sub(first)? as usize)
    }

    /// Judges a snapshot, and returns how many messages in flight it shows.
    pub(crate) fn judge(&self, snapshot: &Snapshot, channels: bool) -> Result<u64, String> {
        let mut members = Vec::new();
        for member in &snapshot.members {
            let content = member.body.read().map_err(|error| error.to_string())?;
            let state = State::read(&content.state).ok_or("a state cannot be read")?;
            if member.number < snapshot.number {
                return Err(format!("{} is older than asked for", member.node));
            }
            members.push((member.node, content, state));
        }
        let show = || {
            let numbers: Vec<String> = snapshot
                .members
                .iter()
                .map(|member| format!("{} at {}", member.node, member.number))
                .collect();
            format!(
                "snapshot {} by {}: {}",
                snapshot.number,
                snapshot.by,
                numbers.join(", ")
            )
        };
        for (receiver, _, there) in &members {
            for (sender, _, here) in &members {
                for transport in [Transport::Datagram, Transport::Stream] {
                    orphan(*sender, here, *receiver, there, transport)
                        .map_err(|what| format!("{what}\n{}", show()))?;
                }
            }
        }
        if !channels {
            return Ok(0);
        }
        self.compare(&members)
            .map_err(|what| format!("{what}\n{}", show()))
    }

    fn compare(&self, members: &[(NodeId, Content, State)]) -> Result<u64, String> {
        let contents: Vec<(NodeId, &Content)> = members
            .iter()
            .map(|(node, content, _)| (*node, content))
            .collect();
        let traffic = flight::in_flight(&contents);
        if traffic.unlisted > 0 {
            return Err(format!(
                "{} messages in flight are not listed",
                traffic.unlisted
            ));
        }
        let mut shown: BTreeMap<Name, &InFlight> = BTreeMap::new();
        for message in &traffic.messages {
            let name = Name::read(&message.message).ok_or("a message cannot be read")?;
            if shown.insert(name, message).is_some() {
                return Err(format!("{name:?} is in flight twice"));
            }
        }
        let mut true_ones = BTreeSet::new();
        let mut underway_count = 0;
        for (from, _, here) in members {
            for (to, _, there) in members {
                for transport in [Transport::Datagram, Transport::Stream] {
                    self.pending((*from, here), (*to, there), transport, |name, lost| {
                        true_ones.insert(name);
                        underway_count += u64::from(!lost);
                        if lost || shown.contains_key(&name) {
                            return Ok(());
                        }
                        Err(format!("{name:?} is in flight and not shown"))
                    })?;
                }
            }
        }
        for (name, message) in &shown {
            if !message.doubtful && !true_ones.contains(name) {
                return Err(format!("{name:?} is shown in flight and was received"));
            }
        }
        Ok(underway_count)
    }

    /// Visits what the sender's state has sent and neither the receiver's state nor an earlier incarnation of it has received.
    fn pending(
        &self,
        (from, here): (NodeId, &State),
        (to, there): (NodeId, &State),
        transport: Transport,
        mut visit: impl FnMut(Name, bool) -> Result<(), String>,
    ) -> Result<(), String> {
        let sent = here.sent.get(&(to, transport)).copied().unwrap_or(0);
        let Some(fates) = self.messages.get(&(from, to, transport, here.life)) else {
            return Ok(());
        };
        for fate in fates.iter().take_while(|fate| fate.count <= sent) {
            let before = fate
                .received
                .is_some_and(|received| received <= (there.life, there.events));
            if !before {
                let name = Name {
                    from,
                    to,
                    transport,
                    life: here.life,
                    count: fate.count,
                };
                visit(name, fate.lost)?;
            }
        }
        Ok(())
    }
}

fn join(clock: &mut Clock, other: &Clock) {
    for (&node, &place) in other {
        let known = clock.entry(node).or_default();
        *known = (*known).max(place);
    }
}

fn orphan(
    sender: NodeId,
    here: &State,
    receiver: NodeId,
    there: &State,
    transport: Transport,
) -> Result<(), String> {
    let Some(&(life, count)) = there.received.get(&(sender, transport)) else {
        return Ok(());
    };
    let sent = here.sent.get(&(receiver, transport)).copied().unwrap_or(0);
    if life > here.life || life == here.life && count > sent {
        return Err(format!(
            "{receiver} shows the receipt of {transport:?} {count} of life {life} of {sender} without its send: {sender} \
             shows {sent} of life {}",
            here.life
        ));
    }
    Ok(())
}
