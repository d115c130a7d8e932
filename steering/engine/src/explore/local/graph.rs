//! What each node can do by itself, if any message that was ever sent may come at any time, any number of times.
//!
//! Per node the local states it can be in, and the steps between them; one set of everything that was ever sent, which only
//! grows (LMC §4, Fig. 9). No state of the whole system is kept. A local state is what the handlers see and the node's
//! connections; what a step takes from the network and what it leaves there stand on the step.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::interned::id::{EventId, InboxId, LinksId, LocalId, TossesId};
use crate::interned::transitions::EventIds;
use crate::interned::world::{Posted, Space};
use crate::model::event::Event;
use crate::model::fault::Fault;
use crate::model::network::Parcel;

/// So many rounds are explored before nodes may act by themselves once more, even if there is no end to what messages do.
const ROUNDS_PER_BOUND: u32 = 16;

/// The local states of all nodes, and what was sent between them.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Everything that was ever sent.
    pub(super) sent: Vec<Posted>,
    numbers: HashMap<Posted, u32, FxBuildHasher>,
    /// By number: the place of a node's datagram to itself among those, if it is among the first.
    own: Vec<Option<u8>>,
    /// The datagrams on their way in the start state, with their copies.
    pub(super) initial: Vec<u32>,
    /// What waits on connections in the start state, by node.
    pub(super) waiting: Vec<InboxId>,
    /// Whether anything travels on connections.
    pub(super) streams: bool,
    /// An inbox in which nothing waits.
    empty: InboxId,
    rules: Rules,
    round: Round,
    /// How many steps were tried.
    pub(super) tried: u64,
    /// Whether a local state was not explored because it is too far away.
    pub(super) is_cut: bool,
}

/// What is explored and what is not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// How many steps a node may take, at the most.
    pub(super) depth: u32,
    /// Whether a message is tried on a local state though it led there (LMC's history rule leaves it out), and what a node
    /// sends to itself is not tried before it can have been sent.
    pub(super) exact: bool,
    /// Whether local states in which a handler panicked are left out, with what the handler sent.
    pub(super) drop_panicked: bool,
}

/// So many different datagrams of a node to itself are known to be sent or not. Further ones are tried in any state.
const OWN_MAX: usize = u64::BITS as usize;

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) states: Vec<State>,
    pub(super) edges: Vec<Edge>,
    /// By local state.
    pub(super) outs: Vec<Vec<u32>>,
    numbers: HashMap<(LocalId, LinksId), u32, FxBuildHasher>,
    /// What was ever sent to it.
    inbox: Vec<u32>,
    /// What it ever sent to itself, as far as that is kept.
    own: Vec<u32>,
}

/// A local state of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) local: LocalId,
    pub(super) links: LinksId,
    /// The least number of steps to it, if the node gets whatever it needs.
    depth: u32,
    /// The least number of things the node does by itself on the way.
    own: u32,
    /// The step it was found by.
    found_by: Option<u32>,
    /// Whether what it does by itself is explored.
    acted: bool,
    /// How much of what was sent to the node was tried on it.
    tried: usize,
    /// Which of its datagrams to itself the node can have sent on the way, by bits.
    sent: u64,
    /// Which of them were not tried because it cannot.
    owed: u64,
}

/// A step of a node.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) event: EventId,
    pub(super) tosses: Option<TossesId>,
    /// What it takes from the network.
    pub(super) takes: Option<u32>,
    /// What it leaves there, with repetitions.
    pub(super) sends: Box<[u32]>,
    pub(super) fault: Option<Fault>,
    /// Whether datagrams of the node to itself are lost.
    pub(super) wipes: bool,
    /// Which of its datagrams to itself it sends, by bits.
    own: u64,
}

/// How far the round is: each takes the states and messages that there were when it began (E-6).
#[derive(Debug, Default)]
struct Round {
    number: u32,
    /// How often nodes may act by themselves on the way to a state in which they act again (E-32).
    bound: u32,
    /// How many rounds this bound has had.
    rounds: u32,
    /// Whether somebody did not act because of the bound.
    deferred: bool,
    grew: bool,
    node: usize,
    state: usize,
    states: Vec<usize>,
    sent: Vec<usize>,
}

/// What came of a bit of exploring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Explored {
    /// There is more in this round.
    More,
    /// The round is over, another follows.
    Round,
    /// There is nothing left.
    All,
}

impl Graph {
    pub(super) fn new(world: &mut Space, start: &[u32], rules: Rules) -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            sent: Vec::new(),
            numbers: HashMap::default(),
            own: Vec::new(),
            initial: Vec::new(),
            waiting: Vec::new(),
            streams: false,
            empty: world.empty_inbox(),
            rules,
            round: Round {
                bound: 1,
                ..Round::default()
            },
            tried: 0,
            is_cut: false,
        };
        let count = world.members().len();
        graph.nodes.resize_with(count, Node::default);
        for (position, &word) in start[..count].iter().enumerate() {
            let apart = world.take_apart(word);
            graph.nodes[position].admit(apart.local, apart.links, None);
            for posted in apart.datagrams {
                let number = graph.number(posted);
                graph.initial.push(number);
                graph.nodes[position].states[0].sent |= graph.own_bit(number);
            }
            for posted in world.waiting(position, apart.inbox) {
                graph.number(posted);
            }
            graph.waiting.push(apart.inbox);
        }
        graph.begin_round();
        graph
    }

    pub(super) fn states(&self) -> u64 {
        self.nodes.iter().map(|node| node.states.len() as u64).sum()
    }

    pub(super) fn edges(&self) -> usize {
        self.nodes.iter().map(|node| node.edges.len()).sum()
    }

    /// Returns how long the longest of the shortest ways is, all nodes together.
    pub(super) fn depth(&self) -> u32 {
        let deepest = |node: &Node| node.states.iter().map(|state| state.depth).max();
        self.nodes.iter().filter_map(deepest).sum()
    }

    /// Returns how many local states wait to be explored further.
    pub(super) fn waiting_count(&self) -> u64 {
        let waits = |node: &Node| {
            let behind = |state: &&State| state.is_behind(node.inbox.len());
            node.states.iter().filter(behind).count() as u64
        };
        self.nodes.iter().map(waits).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        let node = |node: &Node| {
            let sends: usize = node.edges.iter().map(|edge| edge.sends.len() * 4).sum();
            node.states.capacity() * (size_of::<State>() + size_of::<Vec<u32>>() + 20)
                + node.edges.capacity() * (size_of::<Edge>() + 4)
                + sends
        };
        let sent = self.sent.capacity() * (2 * size_of::<Posted>() + size_of::<Option<u8>>());
        self.nodes.iter().map(node).sum::<usize>() + sent
    }

    /// Explores one local state, as far as this round goes.
    pub(super) fn explore(&mut self, world: &mut Space) -> Explored {
        let round = &mut self.round;
        if round.node == self.nodes.len() {
            return self.end_round();
        }
        let (node, at) = (round.node, round.state);
        if at >= round.states[node] {
            round.node += 1;
            round.state = 0;
            return Explored::More;
        }
        round.state += 1;
        self.expand(world, node, at as u32);
        Explored::More
    }

    fn begin_round(&mut self) {
        let round = &mut self.round;
        (round.node, round.state, round.grew) = (0, 0, false);
        round.states = self.nodes.iter().map(|node| node.states.len()).collect();
        round.sent = self.nodes.iter().map(|node| node.inbox.len()).collect();
    }

    fn end_round(&mut self) -> Explored {
        let round = &mut self.round;
        round.number += 1;
        round.rounds += 1;
        let stable = !round.grew;
        if stable && !round.deferred {
            return Explored::All;
        }
        if stable || round.rounds >= ROUNDS_PER_BOUND {
            round.bound += 1;
            round.rounds = 0;
        }
        round.deferred = false;
        self.begin_round();
        Explored::Round
    }

    fn expand(&mut self, world: &mut Space, node: usize, at: u32) {
        let state = self.nodes[node].states[at as usize];
        let until = self.round.sent[node];
        if state.is_behind(until) && state.depth >= self.rules.depth {
            self.is_cut = true;
            return;
        }
        if !state.acted {
            if state.own < self.round.bound {
                self.nodes[node].states[at as usize].acted = true;
                self.round.grew = true;
                self.act(world, node, at, state);
            } else {
                self.round.deferred = true;
            }
        }
        let now = state.owed & state.sent;
        let mut owed = state.owed & !now;
        for place in (0..OWN_MAX).filter(|place| now >> place & 1 == 1) {
            let sent = self.nodes[node].own[place];
            self.take(world, node, at, sent);
        }
        for number in state.tried..until {
            let sent = self.nodes[node].inbox[number];
            let own = self.own_bit(sent);
            if self.rules.exact && own & !state.sent != 0 {
                owed |= own;
            } else if self.rules.exact || !self.nodes[node].has_taken(at, sent) {
                self.take(world, node, at, sent);
            }
        }
        self.round.grew |= state.tried < until || now != 0;
        let state = &mut self.nodes[node].states[at as usize];
        state.tried = until.max(state.tried);
        state.owed = owed;
    }

    /// Lets a node do what it does by itself.
    fn act(&mut self, world: &mut Space, node: usize, at: u32, state: State) {
        for event in world.events_apart(node, state.local, state.links, self.empty) {
            self.add(world, node, at, self.empty, event, None);
        }
    }

    /// Lets a node take something that was sent to it at some time.
    fn take(&mut self, world: &mut Space, node: usize, at: u32, sent: u32) {
        let state = self.nodes[node].states[at as usize];
        let posted = self.sent[sent as usize].clone();
        if let Parcel::Datagram(_) = posted.parcel {
            if let Some(event) = world.arrival(state.local, state.links, &posted) {
                self.add(world, node, at, self.empty, event, Some(sent));
            }
            return;
        }
        // What a node sent to itself on a connection never left the process that died.
        if posted.from == posted.to && world.is_down(state.links) {
            return;
        }
        let inbox = world.post(state.links, self.empty, &posted);
        let events = world.events_apart(node, state.local, state.links, inbox);
        for event in events.into_iter().filter(is_of_connection) {
            self.add(world, node, at, inbox, event, Some(sent));
        }
    }

    /// Adds every way an event can end at a local state.
    fn add(
        &mut self,
        world: &mut Space,
        node: usize,
        from: u32,
        inbox: InboxId,
        event: EventIds,
        takes: Option<u32>,
    ) {
        let State { local, links, .. } = self.nodes[node].states[from as usize];
        let (fault, wipes) = (event.fault(), wipes(&event));
        let reactions = world.react(node, local, links, inbox, &event);
        self.tried += reactions.len().max(1) as u64;
        let ordered = is_of_connection(&event);
        let event = world.intern_event(event);
        let first = self.nodes[node].edges.len();
        for reaction in reactions {
            if self.rules.drop_panicked && world.is_panicked(reaction.local) {
                continue;
            }
            let mut posts = reaction.posts;
            posts.extend(world.waiting(node, reaction.inbox));
            let sends: Box<[u32]> = posts.into_iter().map(|it| self.number(it)).collect();
            let own = sends.iter().fold(0, |own, &it| own | self.own_bit(it));
            let number = self.nodes[node].edges.len() as u32;
            let to = self.nodes[node].admit(reaction.local, reaction.links, Some(number));
            // What comes on a connection must be taken for what is behind it to come, even if it has no effect.
            if to == from && sends.is_empty() && !ordered {
                continue;
            }
            let edge = Edge {
                from,
                to,
                event,
                tosses: reaction.tosses,
                takes,
                sends,
                fault,
                wipes,
                own,
            };
            let part = &mut self.nodes[node];
            let same = |known: &Edge| known.to == edge.to && known.sends == edge.sends;
            if !part.edges[first..].iter().any(same) {
                part.edges.push(edge);
                part.outs[from as usize].push(number);
                part.relax(number);
            }
        }
    }

    fn number(&mut self, posted: Posted) -> u32 {
        if let Some(&number) = self.numbers.get(&posted) {
            return number;
        }
        let number = self.sent.len() as u32;
        let is_datagram = matches!(posted.parcel, Parcel::Datagram(_));
        let node = &mut self.nodes[usize::from(posted.to)];
        node.inbox.push(number);
        let kept = is_datagram && posted.from == posted.to && node.own.len() < OWN_MAX;
        self.own.push(kept.then_some(node.own.len() as u8));
        node.own.extend(kept.then_some(number));
        self.streams |= !is_datagram;
        self.numbers.insert(posted.clone(), number);
        self.sent.push(posted);
        number
    }

    /// Returns the bit of something that was sent, if a node sent it to itself and that is kept.
    fn own_bit(&self, sent: u32) -> u64 {
        self.own[sent as usize].map_or(0, |place| 1 << place)
    }
}

impl State {
    /// Tells whether there is something to be tried on it.
    fn is_behind(&self, inbox: usize) -> bool {
        !self.acted || self.tried < inbox || self.owed & self.sent != 0
    }
}

impl Node {
    fn admit(&mut self, local: LocalId, links: LinksId, found_by: Option<u32>) -> u32 {
        let number = self.states.len() as u32;
        let number = *self.numbers.entry((local, links)).or_insert(number);
        if number as usize == self.states.len() {
            let far = if found_by.is_some() { u32::MAX } else { 0 };
            self.states.push(State {
                local,
                links,
                depth: far,
                own: far,
                found_by,
                acted: false,
                tried: 0,
                sent: 0,
                owed: 0,
            });
            self.outs.push(Vec::new());
        }
        number
    }

    /// Takes a new step into account where it makes ways shorter, or where more can have been sent.
    fn relax(&mut self, edge: u32) {
        let mut waiting = vec![edge];
        while let Some(edge) = waiting.pop() {
            let edge = &self.edges[edge as usize];
            let (from, to) = (edge.from as usize, edge.to as usize);
            let own = edge.takes.is_none();
            let depth = self.states[from].depth.saturating_add(1);
            let acts = self.states[from].own.saturating_add(u32::from(own));
            let sent = self.states[from].sent | edge.own;
            let state = &mut self.states[to];
            if depth >= state.depth && acts >= state.own && sent & !state.sent == 0 {
                continue;
            }
            state.sent |= sent;
            state.depth = state.depth.min(depth);
            state.own = state.own.min(acts);
            waiting.extend(&self.outs[to]);
        }
    }

    /// Tells whether something was taken on the way on which a state was found.
    fn has_taken(&self, at: u32, sent: u32) -> bool {
        let mut at = at;
        while let Some(edge) = self.states[at as usize].found_by {
            let edge = &self.edges[edge as usize];
            if edge.takes == Some(sent) {
                return true;
            }
            at = edge.from;
        }
        false
    }
}

fn wipes(event: &EventIds) -> bool {
    matches!(event, Event::Reset { .. } | Event::Stop)
}

/// Tells whether an event is the arrival of something on a connection.
fn is_of_connection(event: &EventIds) -> bool {
    matches!(
        event,
        Event::Receive { .. }
            | Event::Refuse { .. }
            | Event::Hangup { .. }
            | Event::Disconnect { .. }
    )
}
