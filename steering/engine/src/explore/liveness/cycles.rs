//! Fair cycles: executions that never reach a goal although they could, and although whatever stays possible is done.
//!
//! A run is *fair* if no step (node, event, how the dice fell) is possible from some moment on for ever and never taken. Such a run
//! that never satisfies a target goes, in the end, round and round within a strongly connected part of the states in which the
//! target does not hold. Which steps are possible everywhere in such a part, and which are taken *within* it, is a question of
//! its edges, not of its states: a step that is possible everywhere and always leads out makes every run that stays unfair. If a
//! whole component is not fair, no part of it is, since what is possible everywhere in the whole is so in the part, and what the part
//! takes the whole takes. So components suffice.
//!
//! Dead states are left out: there no run reaches the target, fair or not, and that is said already. Faults are neither
//! needed to be fair nor part of a cycle: their allowance only shrinks. Steps that change nothing are no steps in the tables; to
//! take one changes nothing about a run, and where one is the only way to do an event, that event is not held against it.
//!
//! Most states lie on no cycle. They are sorted out first, for all targets at once, a bit per target and slot of the visited
//! set ([`Trim`]), so that only the rest is numbered and its edges kept.

mod trim;

pub(super) use trim::Trim;

use std::collections::VecDeque;
use std::ops::Range;

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use crate::explore::breadth::Archive;
use crate::explore::liveness::marks::Bits;
use crate::interned::tables::{Looked, Reach};
use crate::interned::world::{Space, StepName};

const OUTSIDE: u32 = u32::MAX;

/// A way round that never reaches a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::explore) struct Lasso {
    /// The state where it begins and ends.
    pub(in crate::explore) base: u32,
    /// The steps from there and back.
    pub(in crate::explore) round: Vec<u32>,
}

/// The part of the states in which there are cycles, numbered anew in order of discovery.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// By new number, the old one.
    numbers: Vec<u32>,
    /// By new number, the targets for which it may lie on a cycle, a bit each.
    targets: Vec<u32>,
    /// Where the edges of each state start, and at the end how many there are.
    starts: Vec<usize>,
    /// Where each leads, [`OUTSIDE`] if out of the part, and which step it is.
    edges: Vec<(u32, u32)>,
}

/// Steps by what they are, whatever state they are taken in.
#[derive(Debug, Default)]
struct Names {
    ids: HashMap<StepName, u32, FxBuildHasher>,
    /// By successor; 0 if not asked.
    of: Vec<u32>,
}

impl Names {
    fn of(&mut self, world: &Space, successor: u32) -> u32 {
        if self.of.len() <= successor as usize {
            self.of.resize(successor as usize + 1, 0);
        }
        if self.of[successor as usize] == 0 {
            let next = self.ids.len() as u32 + 1;
            let id = self.ids.entry(world.name_of(successor)).or_insert(next);
            self.of[successor as usize] = *id;
        }
        self.of[successor as usize]
    }
}

impl Part {
    /// Numbers what is left for some targets, and keeps its edges; nothing if that takes more bytes than it may.
    pub(super) fn of(
        world: &mut Space,
        archive: &Archive<'_>,
        trim: &Trim,
        group: &Range<usize>,
        bytes_max: Option<u64>,
    ) -> Option<Self> {
        let is_too_large = |part: &Self| bytes_max.is_some_and(|most| part.bytes() as u64 > most);
        let mut part = Self::default();
        let wanted = group.clone().filter(|&target| !trim.is_too_much(target));
        let wanted = wanted.fold(0, |wanted, target| wanted | 1_u32 << target);
        let mut ranks = Ranks::new(archive.slots());
        let mut slots = Vec::new();
        let mut words = vec![0; archive.width()];
        let mut hint = 0;
        if wanted != 0 {
            for number in trim.left() {
                archive.load_near(number, &mut words, &mut hint);
                let slot = archive.slot(world.tables().fingerprint(&words));
                let slot = slot.expect("a state was seen");
                let targets = trim.stays(slot) & wanted;
                if targets != 0 {
                    part.numbers.push(number);
                    part.targets.push(targets);
                    ranks.bits.set(slot);
                    slots.push(slot);
                }
            }
        }
        ranks.settle(&slots);
        let mut room: Vec<(u32, u64)> = Vec::new();
        for at in 0..part.numbers.len() {
            let number = part.numbers[at];
            part.starts.push(part.edges.len());
            if part.starts.len().is_multiple_of(1024) && is_too_large(&part) {
                return None;
            }
            archive.load_near(number, &mut words, &mut hint);
            let fingerprint = world.tables().fingerprint(&words);
            each_step(world, &words, fingerprint, |step, after| {
                archive.prefetch(after);
                room.push((step, after));
            });
            for (step, after) in room.drain(..) {
                let to = archive.slot(after).and_then(|slot| ranks.of(slot));
                part.edges.push((to.unwrap_or(OUTSIDE), step));
            }
        }
        part.starts.push(part.edges.len());
        (!is_too_large(&part)).then_some(part)
    }

    pub(super) fn bytes(&self) -> usize {
        (self.numbers.capacity() + self.targets.capacity()) * size_of::<u32>()
            + self.starts.capacity() * size_of::<usize>()
            + self.edges.capacity() * size_of::<(u32, u32)>()
    }

    /// Looks for a fair cycle that avoids a target. Of several it returns the one that was discovered first.
    pub(super) fn fair_cycle(&self, world: &Space, target: usize) -> Option<Lasso> {
        let components = self.components(target);
        let mut names = Names::default();
        let mut best: Option<&Vec<u32>> = None;
        for component in &components {
            let is_earlier = best.is_none_or(|best| component[0] < best[0]);
            if is_earlier && self.is_fair(world, &mut names, component) {
                best = Some(component);
            }
        }
        best.map(|component| Lasso {
            base: self.numbers[component[0] as usize],
            round: self.round(world, &mut names, component),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    fn edges_of(&self, state: u32) -> &[(u32, u32)] {
        let state = state as usize;
        &self.edges[self.starts[state]..self.starts[state + 1]]
    }

    /// Lists the strongly connected components that avoid a target and have a cycle, the states of each in order of discovery
    /// (Tarjan, without recursion).
    fn components(&self, target: usize) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        let is_in = |state: u32| self.targets[state as usize] >> target & 1 != 0;
        let mut order = vec![UNSEEN; self.len()];
        let mut low = vec![0; self.len()];
        let mut open = vec![false; self.len()];
        let (mut stack, mut calls) = (Vec::new(), Vec::new());
        let mut count = 0;
        let mut found = Vec::new();
        for root in 0..self.len() as u32 {
            if !is_in(root) || order[root as usize] != UNSEEN {
                continue;
            }
            calls.push((root, 0));
            while let Some((state, at)) = calls.pop() {
                let here = state as usize;
                if at == 0 {
                    (order[here], low[here], open[here]) = (count, count, true);
                    count += 1;
                    stack.push(state);
                }
                let edges = self.edges_of(state);
                let mut at = at;
                let mut deeper = None;
                while at < edges.len() && deeper.is_none() {
                    let (to, _) = edges[at];
                    at += 1;
                    if to == OUTSIDE || !is_in(to) {
                        continue;
                    }
                    if order[to as usize] == UNSEEN {
                        deeper = Some(to);
                    } else if open[to as usize] {
                        low[here] = low[here].min(order[to as usize]);
                    }
                }
                if let Some(to) = deeper {
                    calls.push((state, at));
                    calls.push((to, 0));
                    continue;
                }
                if let Some(&(caller, _)) = calls.last() {
                    low[caller as usize] = low[caller as usize].min(low[here]);
                }
                if low[here] == order[here] {
                    let first = stack.iter().rposition(|&it| it == state);
                    let mut component = stack.split_off(first.expect("a root is on the stack"));
                    component.iter().for_each(|&it| open[it as usize] = false);
                    component.sort_unstable();
                    let alone = component.len() == 1;
                    if !alone || edges.iter().any(|&(to, _)| to == state) {
                        found.push(component);
                    }
                }
            }
        }
        found
    }

    /// Tells whether every step that is possible in all states of a component is taken within it.
    fn is_fair(&self, world: &Space, names: &mut Names, component: &[u32]) -> bool {
        let mut owed = self.possible(world, names, component[0]);
        for &state in &component[1..] {
            let possible = self.possible(world, names, state);
            owed.retain(|name| possible.contains(name));
        }
        for &state in component {
            if owed.is_empty() {
                return true;
            }
            for &(to, step) in self.edges_of(state) {
                if component.binary_search(&to).is_ok() {
                    owed.remove(&names.of(world, step));
                }
            }
        }
        owed.is_empty()
    }

    fn possible(
        &self,
        world: &Space,
        names: &mut Names,
        state: u32,
    ) -> HashSet<u32, FxBuildHasher> {
        let edges = self.edges_of(state).iter();
        edges.map(|&(_, step)| names.of(world, step)).collect()
    }

    /// Goes round in a fair component: from its first state on, until nothing is owed, and back.
    fn round(&self, world: &Space, names: &mut Names, component: &[u32]) -> Vec<u32> {
        let base = component[0];
        let mut here = base;
        let mut round = Vec::new();
        let mut taken: HashSet<u32, FxBuildHasher> = HashSet::default();
        let mut always = self.possible(world, names, base);
        loop {
            let owed = always.iter().filter(|name| !taken.contains(*name)).min();
            let owed = owed.copied();
            let inside = |to: u32| component.binary_search(&to).is_ok();
            let is_paid = |edge: &(u32, u32), names: &mut Names| {
                inside(edge.0) && Some(names.of(world, edge.1)) == owed
            };
            // Where to go: to where the step is taken, or else to where it is not possible.
            let (mut way, end) = match owed {
                None if here == base && !round.is_empty() => return round,
                None => self.way(component, here, &mut |state| state == base),
                Some(name) => {
                    let mut pays = |state: u32| {
                        let mut edges = self.edges_of(state).iter();
                        edges.any(|edge| is_paid(edge, names))
                    };
                    match component.iter().any(|&state| pays(state)) {
                        true => {
                            let (mut way, at) = self.way(component, here, &mut pays);
                            let mut edges = self.edges_of(at).iter();
                            let edge = edges.find(|edge| is_paid(edge, names));
                            let &(to, step) = edge.expect("it was just found");
                            way.push((to, step));
                            (way, to)
                        }
                        false => self.way(component, here, &mut |state| {
                            !self.possible(world, names, state).contains(&name)
                        }),
                    }
                }
            };
            for (to, step) in way.drain(..) {
                round.push(step);
                taken.insert(names.of(world, step));
                let possible = self.possible(world, names, to);
                always.retain(|name| possible.contains(name));
            }
            here = end;
        }
    }

    /// Finds the shortest way within a component, of none or more steps, to a state that is wanted.
    fn way(
        &self,
        component: &[u32],
        from: u32,
        wanted: &mut dyn FnMut(u32) -> bool,
    ) -> (Vec<(u32, u32)>, u32) {
        let mut came: HashMap<u32, (u32, u32), FxBuildHasher> = HashMap::default();
        let mut waiting = VecDeque::from([from]);
        came.insert(from, (from, 0));
        while let Some(state) = waiting.pop_front() {
            if wanted(state) {
                let mut way = Vec::new();
                let mut at = state;
                while at != from {
                    let (before, step) = came[&at];
                    way.push((at, step));
                    at = before;
                }
                way.reverse();
                return (way, state);
            }
            for &(to, step) in self.edges_of(state) {
                if component.binary_search(&to).is_ok() && !came.contains_key(&to) {
                    came.insert(to, (state, step));
                    waiting.push_back(to);
                }
            }
        }
        unreachable!("in a strongly connected component everything is reached")
    }
}

/// Shows every step that is no fault, and the fingerprint it leads to.
#[inline]
fn each_step(world: &mut Space, words: &[u32], fingerprint: u64, mut see: impl FnMut(u32, u64)) {
    for &word in &words[..words.len() - 1] {
        let rest = fingerprint ^ world.tables().mixed[word as usize];
        for step in world.successors_of(word) {
            let tables = world.tables();
            let successor = &tables.successors[step as usize];
            // Only steps that reach further can be faults.
            if successor.reach == Reach::Further && tables.details[step as usize].fault.is_some() {
                continue;
            }
            let looked = match tables.look(words, rest, step, successor) {
                Looked::Unknown => world.look(words, fingerprint, step),
                known => known,
            };
            if let Looked::Up(after) = looked {
                see(step, after);
            }
        }
    }
}

/// The numbers of some slots.
#[derive(Debug)]
struct Ranks {
    bits: Bits,
    /// By field of bits: how many are set before it.
    before: Vec<u32>,
    /// By how many are set before it, the number of a slot.
    numbers: Vec<u32>,
}

impl Ranks {
    fn new(count: usize) -> Self {
        Self {
            bits: Bits::new(count),
            before: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// Numbers the slots that are set, in the order in which they are given.
    fn settle(&mut self, slots: &[usize]) {
        let mut count = 0;
        for field in &self.bits.0 {
            self.before.push(count);
            count += field.count_ones();
        }
        self.numbers = vec![0; slots.len()];
        for (number, &slot) in slots.iter().enumerate() {
            let rank = self.rank(slot);
            self.numbers[rank] = number as u32;
        }
    }

    fn rank(&self, slot: usize) -> usize {
        let below = self.bits.0[slot >> 6] & ((1 << (slot & 63)) - 1);
        (self.before[slot >> 6] + below.count_ones()) as usize
    }

    fn of(&self, slot: usize) -> Option<u32> {
        let is_set = self.bits.is_set(slot);
        is_set.then(|| self.numbers[self.rank(slot)])
    }
}
