//! Whether nodes can stand in some local states at once: a search forward from the start state on a trimmed graph.
//!
//! A place of the search is where every node stands, and which datagrams are on their way as far as they are still of use.
//! Three things keep it small, and none of them loses an answer:
//!
//! - Of two places with the same standing, the one with fewer datagrams is left out: what is on its way is never in the way.
//! - Where a node has one way on, and can take it, it does so before anything else happens: nobody but the receiver takes
//!   what was sent to it. Only if that leads farther away from the start: a node that turns in a circle would keep the
//!   others waiting for ever.
//! - Places nearer to the start come first, so that most are left with all that can be on its way there.
//!
//! Equal datagrams can pile up without end. So only some copies are counted. If that left something out and nothing was
//! found, the question is asked again with copies that are never used up: if that finds nothing either, there is nothing.
//! Else more copies are counted once, and if that does not help the answer is not known.
//!
//! What waits on connections is kept in order, as in the world itself, and neither trimmed nor compared.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::explore::local::graph::Graph;
use crate::explore::local::trim::{Kept, Trimmed};
use crate::interned::id::{Id, InboxId};
use crate::interned::world::{Posted, Space, StepIds};
use crate::model::event::Event;
use crate::model::fault::Fault;
use crate::model::network::Parcel;

/// What came of a question.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// They can, at the end of these steps.
    Yes(Vec<StepIds>),
    /// They cannot, as far as the graph goes.
    No,
    /// It took too long, or it depends on how many equal messages there are.
    Unknown,
}

/// Who is asked whether the nodes stand as the question says: told the class of each node that is asked about, by position.
pub(super) type Meets<'a> = dyn FnMut(&mut Space, &[u32]) -> bool + 'a;

/// How often equal datagrams count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Copies {
    /// So often; further ones are lost.
    UpTo(u8),
    /// From so many on they are never used up.
    Endless(u8),
}

/// So many places are looked at, at the most, for paths of any length where only short ones count.
const UNCOUNTED_MAX: u64 = 1_000;

const FEW: u8 = 4;
const MANY: u8 = 64;

/// Bounds of a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How many places it may look at.
    pub(super) visits: u64,
    /// How many steps a path may have.
    pub(super) depth: Option<u32>,
}

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Question {
    trimmed: Trimmed,
    bounds: Bounds,
    copies: Copies,
    /// Whether steps are counted: at first a path may have any length, and only if it is too long there is a search for one
    /// that is not.
    counted: bool,
    places: Places,
    /// By standing: the places with it.
    seen: HashMap<Vec<u32>, Vec<u32>, FxBuildHasher>,
    queue: BinaryHeap<(Reverse<u32>, u32, Reverse<u32>)>,
    /// What a node can do with what waits on its connections, by node, state and inbox.
    moves: HashMap<(u16, u32, InboxId), Vec<Move>, FxBuildHasher>,
    /// The classes that were judged and meet what is asked, or do not.
    judged: HashMap<Box<[u32]>, bool, FxBuildHasher>,
    /// Whether a copy was lost.
    piled_up: bool,
    /// Whether a path was too long.
    pub(super) is_cut: bool,
    /// Whether a step led where the graph does not know.
    strayed: bool,
    pub(super) visited: u64,
    pub(super) pushed: u64,
}

/// Places, in flat arrays.
#[derive(Debug, Default)]
struct Places {
    nodes: usize,
    datagrams: usize,
    /// Where each node stands, what waits on each one's connections, and the allowance.
    standings: Vec<u32>,
    /// How many of each datagram are on their way.
    counts: Vec<u8>,
    steps: Vec<Way>,
}

/// How a place was reached.
#[derive(Clone, Copy, Debug)]
struct Way {
    parent: u32,
    depth: u32,
    node: u16,
    edge: u32,
    /// Whether the datagram was doubled first.
    doubled: bool,
    /// Whether a place with the same standing has more.
    outdone: bool,
}

/// What a step does where connections matter.
#[derive(Clone, Debug)]
struct Move {
    kept: u32,
    inbox: InboxId,
    /// What it leaves on connections for others.
    posts: Vec<Posted>,
}

impl Places {
    fn width(&self) -> usize {
        2 * self.nodes + 1
    }

    fn standing(&self, at: u32) -> &[u32] {
        let width = self.width();
        &self.standings[at as usize * width..][..width]
    }

    fn counts(&self, at: u32) -> &[u8] {
        &self.counts[at as usize * self.datagrams..][..self.datagrams]
    }

    fn push(&mut self, standing: &[u32], counts: &[u8], way: Way) -> u32 {
        self.standings.extend_from_slice(standing);
        self.counts.extend_from_slice(counts);
        self.steps.push(way);
        self.steps.len() as u32 - 1
    }

    fn bytes(&self) -> usize {
        self.standings.capacity() * 4
            + self.counts.capacity()
            + self.steps.capacity() * size_of::<Way>()
    }
}

impl Question {
    pub(super) fn new(graph: &Graph, trimmed: Trimmed, allowance: u32, bounds: Bounds) -> Self {
        let mut question = Self {
            trimmed,
            bounds,
            copies: Copies::UpTo(FEW),
            counted: false,
            places: Places::default(),
            seen: HashMap::default(),
            queue: BinaryHeap::new(),
            moves: HashMap::default(),
            judged: HashMap::default(),
            piled_up: false,
            is_cut: false,
            strayed: false,
            visited: 0,
            pushed: 0,
        };
        question.begin(graph, allowance);
        question
    }

    pub(super) fn bytes(&self) -> usize {
        let seen = self.seen.capacity() * (4 * self.places.width() + 48);
        self.places.bytes() + seen + self.queue.capacity() * 12
    }

    fn begin(&mut self, graph: &Graph, allowance: u32) {
        let nodes = self.trimmed.sides.len();
        self.places = Places {
            nodes,
            datagrams: self.trimmed.datagrams.len(),
            ..Places::default()
        };
        self.seen.clear();
        self.queue.clear();
        self.piled_up = false;
        let mut standing = vec![0; nodes];
        standing.extend(graph.waiting.iter().map(|inbox| inbox.index() as u32));
        standing.push(allowance);
        let mut counts = vec![0_u8; self.trimmed.datagrams.len()];
        for number in self.trimmed.initial.clone() {
            self.add(&mut counts, number as usize, &standing);
        }
        let way = Way {
            parent: u32::MAX,
            depth: 0,
            node: 0,
            edge: 0,
            doubled: false,
            outdone: false,
        };
        let first = self.places.push(&standing, &counts, way);
        self.seen.insert(standing, vec![first]);
        self.queue.push((Reverse(0), 0, Reverse(first)));
    }

    /// Looks at some more places.
    pub(super) fn advance(
        &mut self,
        world: &mut Space,
        graph: &Graph,
        visits: u64,
        meets: &mut Meets<'_>,
    ) -> Option<Answer> {
        // The start is the only place that is not looked at when it is pushed.
        if self.places.steps.len() == 1 && self.meets(world, 0, meets) {
            return Some(Answer::Yes(Vec::new()));
        }
        for _ in 0..visits {
            let Some((_, _, Reverse(at))) = self.queue.pop() else {
                return self.end(graph);
            };
            if self.places.steps[at as usize].outdone {
                continue;
            }
            self.visited += 1;
            if self.visited > self.bounds.visits {
                return Some(Answer::Unknown);
            }
            if !self.counted && self.bounds.depth.is_some() && self.visited > UNCOUNTED_MAX {
                self.counted = true;
                return self.ask_again(graph, Copies::UpTo(FEW));
            }
            if let Some(found) = self.expand(world, graph, at, meets) {
                return Some(match self.copies {
                    // It is a path only if copies are used up.
                    Copies::Endless(_) => return self.ask_again(graph, Copies::UpTo(MANY)),
                    Copies::UpTo(_) if self.is_too_long(found) => {
                        self.counted = true;
                        return self.ask_again(graph, Copies::UpTo(FEW));
                    }
                    Copies::UpTo(_) => Answer::Yes(self.path(world, graph, found)),
                });
            }
        }
        None
    }

    /// Decides when every place was looked at.
    fn end(&mut self, graph: &Graph) -> Option<Answer> {
        let unsure = self.strayed;
        match self.copies {
            _ if unsure => Some(Answer::Unknown),
            Copies::UpTo(FEW) if self.piled_up => self.ask_again(graph, Copies::Endless(FEW)),
            Copies::UpTo(FEW) | Copies::Endless(_) => Some(Answer::No),
            // Endless copies have found something that these have not.
            Copies::UpTo(_) if self.piled_up => Some(Answer::Unknown),
            Copies::UpTo(_) => Some(Answer::No),
        }
    }

    fn ask_again(&mut self, graph: &Graph, copies: Copies) -> Option<Answer> {
        self.copies = copies;
        let allowance = self.places.standing(0)[2 * self.places.nodes];
        self.begin(graph, allowance);
        None
    }

    fn is_too_long(&self, at: u32) -> bool {
        let depth = self.places.steps[at as usize].depth;
        self.bounds.depth.is_some_and(|limit| depth > limit)
    }

    fn meets(&mut self, world: &mut Space, at: u32, meets: &mut Meets<'_>) -> bool {
        let standing = self.places.standing(at);
        let sides = self.trimmed.sides.iter().zip(standing);
        let classes = sides.filter_map(|(side, &state)| {
            let classes = side.classes.as_ref()?;
            Some(classes[state as usize])
        });
        let classes: Vec<u32> = classes.collect();
        if let Some(&known) = self.judged.get(classes.as_slice()) {
            return known;
        }
        let judged = meets(world, &classes);
        self.judged.insert(classes.into(), judged);
        judged
    }

    /// Takes every step from a place, and returns where one meets what is asked.
    fn expand(
        &mut self,
        world: &mut Space,
        graph: &Graph,
        at: u32,
        meets: &mut Meets<'_>,
    ) -> Option<u32> {
        let nodes = self.places.nodes;
        let standing: Vec<u32> = self.places.standing(at).to_vec();
        let counts: Vec<u8> = self.places.counts(at).to_vec();
        let only = self.only(world, &standing, &counts);
        for node in only.map_or(0..nodes, |node| node..node + 1) {
            if graph.streams {
                self.learn_moves(world, graph, node, &standing);
            }
            let ways = self.ways(node, &standing);
            for way in 0..ways {
                for doubled in [false, true] {
                    let pushed =
                        self.take(world, graph, at, &standing, &counts, node, way, doubled);
                    if let Some(pushed) = pushed
                        && self.meets(world, pushed, meets)
                    {
                        return Some(pushed);
                    }
                }
            }
        }
        None
    }

    /// Finds a node that goes first, because it has one way on and can take it.
    fn only(&self, world: &Space, standing: &[u32], counts: &[u8]) -> Option<usize> {
        let allowances = &world.tables().allowances;
        let allowance = standing[2 * self.places.nodes];
        let may_double = allowances.after(allowance, Fault::Duplicate).is_some();
        let sides = self.trimmed.sides.iter().enumerate();
        let mut first = sides.filter(|(node, side)| {
            let state = standing[*node];
            let [kept] = side.outs[state as usize].as_slice() else {
                return false;
            };
            let farther = side.depth[kept.to as usize] > side.depth[state as usize];
            let free = kept.fault.is_none() && !kept.wipes;
            let enabled = match kept.takes {
                Some(number) => counts[number as usize] > 0 && !may_double,
                None => true,
            };
            // Who stands where it is asked for may stay; who is not asked about need not move if steps are counted.
            let moves = match &side.classes {
                Some(classes) => classes[state as usize] == 0,
                None => !self.counted,
            };
            farther && free && enabled && moves && !side.ordered
        });
        first.next().map(|(node, _)| node)
    }

    /// Finds out what a node can do with what waits on its connections.
    fn learn_moves(&mut self, world: &mut Space, graph: &Graph, node: usize, standing: &[u32]) {
        let nodes = self.places.nodes;
        let inbox = InboxId::from_index(standing[nodes + node] as usize);
        let at = standing[node];
        let key = (node as u16, at, inbox);
        if self.moves.contains_key(&key) {
            return;
        }
        let part = &graph.nodes[node];
        let state = part.states[at as usize];
        let possible = world.events_apart(node, state.local, state.links, inbox);
        let mut moves = Vec::new();
        for (number, kept) in self.trimmed.sides[node].outs[at as usize]
            .iter()
            .enumerate()
        {
            let edge = &part.edges[kept.edge as usize];
            let event = world.event(edge.event).clone();
            if kept.of_connection && !possible.contains(&event) {
                continue;
            }
            let reactions = world.react(node, state.local, state.links, inbox, &event);
            let end = part.states[kept.to as usize];
            let same = reactions.into_iter().find(|it| it.tosses == edge.tosses);
            match same {
                Some(it) if (it.local, it.links) == (end.local, end.links) => {
                    let posts = it.posts.into_iter();
                    moves.push(Move {
                        kept: number as u32,
                        inbox: it.inbox,
                        posts: posts
                            .filter(|it| !matches!(it.parcel, Parcel::Datagram(_)))
                            .collect(),
                    });
                }
                // What waits elsewhere made a difference that the graph does not show.
                _ => self.strayed = true,
            }
        }
        self.moves.insert(key, moves);
    }

    fn ways(&self, node: usize, standing: &[u32]) -> usize {
        let side = &self.trimmed.sides[node];
        match side.ordered {
            true => self.moves[&self.move_key(node, standing)].len(),
            false => side.outs[standing[node] as usize].len(),
        }
    }

    fn move_key(&self, node: usize, standing: &[u32]) -> (u16, u32, InboxId) {
        let inbox = standing[self.places.nodes + node];
        (
            node as u16,
            standing[node],
            InboxId::from_index(inbox as usize),
        )
    }

    /// Takes a step from a place, if it can be taken and leads to a place that no known one outdoes.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one step, named by the caller"
    )]
    fn take(
        &mut self,
        world: &mut Space,
        graph: &Graph,
        parent: u32,
        standing: &[u32],
        counts: &[u8],
        node: usize,
        way: usize,
        doubled: bool,
    ) -> Option<u32> {
        let nodes = self.places.nodes;
        let (kept, step) = {
            let outs = &self.trimmed.sides[node].outs[standing[node] as usize];
            match self.trimmed.sides[node].ordered {
                true => {
                    let step = self.moves[&self.move_key(node, standing)][way].clone();
                    (outs[step.kept as usize].clone(), Some(step))
                }
                false => (outs[way].clone(), None),
            }
        };
        if kept.takes.is_some_and(|it| counts[it as usize] == 0) {
            return None;
        }
        let fault = match (kept.fault, doubled) {
            (fault, false) => fault,
            (None, true) if kept.takes.is_some() => Some(Fault::Duplicate),
            (_, true) => return None,
        };
        let mut standing = standing.to_vec();
        if let Some(fault) = fault {
            let left = world
                .tables()
                .allowances
                .after(standing[2 * nodes], fault)?;
            standing[2 * nodes] = left;
        }
        let depth = self.places.steps[parent as usize].depth + 1 + u32::from(doubled);
        if self.counted && self.bounds.depth.is_some_and(|limit| depth > limit) {
            self.is_cut = true;
            return None;
        }
        standing[node] = kept.to;
        if let Some(step) = step {
            standing[nodes + node] = step.inbox.index() as u32;
            for posted in &step.posts {
                let to = usize::from(posted.to);
                let links = graph.nodes[to].states[standing[to] as usize].links;
                let inbox = InboxId::from_index(standing[nodes + to] as usize);
                standing[nodes + to] = world.post(links, inbox, posted).index() as u32;
            }
        }
        let counts = self.counts_after(counts, node, &kept, doubled, &standing);
        self.pushed += 1;
        let way = Way {
            parent,
            depth,
            node: node as u16,
            edge: kept.edge,
            doubled,
            outdone: false,
        };
        self.push(standing, counts, way)
    }

    /// Returns what is on its way after a step and can still be used.
    fn counts_after(
        &mut self,
        counts: &[u8],
        node: usize,
        kept: &Kept,
        doubled: bool,
        standing: &[u32],
    ) -> Vec<u8> {
        let mut counts = counts.to_vec();
        if let Some(number) = kept.takes
            && !doubled
        {
            let number = number as usize;
            let endless = matches!(self.copies, Copies::Endless(from) if counts[number] >= from);
            if !endless {
                counts[number] -= 1;
            }
        }
        let side = &self.trimmed.sides[node];
        for number in 0..side.count {
            let own = usize::from(self.trimmed.datagrams[side.first + number].from) == node;
            if (kept.wipes && own) || !side.is_useful(kept.to, number) {
                counts[side.first + number] = 0;
            }
        }
        for &number in &kept.sends {
            self.add(&mut counts, number as usize, standing);
        }
        counts
    }

    /// Puts a datagram on its way, unless it is of no use.
    fn add(&mut self, counts: &mut [u8], number: usize, standing: &[u32]) {
        let to = usize::from(self.trimmed.datagrams[number].to);
        let side = &self.trimmed.sides[to];
        if !side.is_useful(standing[to], number - side.first) {
            return;
        }
        let (Copies::UpTo(most) | Copies::Endless(most)) = self.copies;
        match counts[number] < most {
            true => counts[number] += 1,
            false => self.piled_up = true,
        }
    }

    /// Keeps a place, unless one is known with the same standing and at least as much on its way.
    fn push(&mut self, standing: Vec<u32>, counts: Vec<u8>, way: Way) -> Option<u32> {
        let counted = self.counted;
        let places = &mut self.places;
        let same = self.seen.entry_ref(standing.as_slice()).or_default();
        let outdoes =
            |more: &[u8], less: &[u8]| more.iter().zip(less).all(|(more, less)| more >= less);
        let is_outdone = same.iter().any(|&known| {
            let nearer = !counted || places.steps[known as usize].depth <= way.depth;
            nearer && outdoes(places.counts(known), &counts)
        });
        if is_outdone {
            return None;
        }
        same.retain(|&known| {
            let nearer = !counted || way.depth <= places.steps[known as usize].depth;
            let worse = nearer && outdoes(&counts, places.counts(known));
            if worse {
                places.steps[known as usize].outdone = true;
            }
            !worse
        });
        let number = places.push(&standing, &counts, way);
        same.push(number);
        let sides = self.trimmed.sides.iter().zip(&standing);
        let far: u32 = sides.map(|(side, &state)| side.depth[state as usize]).sum();
        let size = counts.iter().map(|&count| u32::from(count)).sum();
        self.queue.push((Reverse(far), size, Reverse(number)));
        Some(number)
    }

    /// Spells out how a place was reached.
    fn path(&self, world: &Space, graph: &Graph, end: u32) -> Vec<StepIds> {
        let mut path = Vec::new();
        let mut at = end;
        while self.places.steps[at as usize].parent != u32::MAX {
            let way = self.places.steps[at as usize];
            let node = usize::from(way.node);
            let edge = &graph.nodes[node].edges[way.edge as usize];
            let event = world.event(edge.event).clone();
            let doubling = match (&event, way.doubled) {
                (Event::Deliver { from, message }, true) => Some(Event::Duplicate {
                    from: *from,
                    message: *message,
                }),
                _ => None,
            };
            // A node that takes its own datagram and sends the like again has done nothing, whatever its copies are for.
            let nothing = edge.from == edge.to && edge.takes.is_some_and(|it| *edge.sends == [it]);
            if !nothing {
                path.push(world.step(node, event, edge.tosses));
            }
            path.extend(doubling.map(|event| world.step(node, event, None)));
            at = way.parent;
        }
        path.reverse();
        path
    }
}
