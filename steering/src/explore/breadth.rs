//! Breadth-first search over a world's tables, on any number of threads, with one result.
//!
//! A level is worked off in blocks. For each block:
//!
//! 1. *Expand*, in parallel and read-only: look every step up, and sort the fingerprints it leads to by shard. What
//!    the tables do not know is put aside.
//! 2. *Learn*, alone: run the handlers and deliveries that were put aside.
//! 3. *Absorb*, in parallel, a shard at a time: insert the fingerprints; a new one becomes a state of the next level.
//! 4. *Judge*, alone: look at the new states whose step could have broken a property.
//!
//! Blocks, chunks and shards have fixed sizes, and every list is worked off in order; so which state is found first,
//! and from which parent, does not depend on the number of threads (I-15).

use std::sync::Mutex;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::engine::World;
use crate::engine::judge::Finding;
use crate::engine::tables::{Looked, Tables};
use crate::engine::transitions::Transitions;
use crate::explore::frontier::{Level, Vectors};
use crate::explore::limits::{Limits, Stop};
use crate::explore::lineage::{Lineage, Origin};
use crate::explore::prune::{Fresh, Pruning};
use crate::explore::visited::{BATCH, Fingerprints, nonzero};
use crate::explore::{Counts, Found, Trail};

const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;
/// How many states a thread expands at a time.
const CHUNK: usize = 2048;
/// How many chunks make a block.
const CHUNKS: usize = 16;
/// Below this many states in a block, starting threads costs more than it gains.
const PARALLEL_MIN: usize = 2 * CHUNK;

/// A breadth-first search at rest between two blocks.
#[derive(Debug)]
pub(crate) struct Breadth {
    width: usize,
    threads: usize,
    limits: Limits,
    shards: Vec<Shard>,
    level: Level,
    /// The states of `level` before this place are expanded.
    cursor: usize,
    depth: u32,
    states: u64,
    transitions: u64,
    /// Where each shard's part of each level stands: first number in the order of expansion, shard, first state.
    pieces: Vec<(u32, u8, u32)>,
    expanded_before: u32,
    chunks: Vec<Chunk>,
    pruning: Pruning,
    known: HashSet<Finding, FxBuildHasher>,
    found: Vec<(Finding, Place)>,
    stop: Option<Stop>,
}

/// Where a state is kept.
#[derive(Clone, Copy, Debug)]
struct Place {
    shard: usize,
    index: usize,
    depth: u32,
}

#[derive(Debug)]
struct Shard {
    seen: Fingerprints,
    lineage: Lineage,
    next: Vectors,
    /// New states to be judged: place in `next`, and the node that moved.
    noteworthy: Vec<(u32, u16)>,
    /// New states whose moved node may act by itself for the first time, by place in `next`.
    fresh: Vec<Fresh>,
}

/// A state that may be new.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    fingerprint: u64,
    /// The place of its parent in the level.
    parent: u32,
    successor: u32,
}

/// A step that the tables do not know yet.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    parent: u32,
    node: u16,
    /// Whether the node may act by itself.
    internal: bool,
    /// Which successor's deliveries are missing; `None` if the node's successors themselves are.
    successor: Option<u32>,
}

#[derive(Debug)]
struct Chunk {
    buckets: Vec<Vec<Candidate>>,
    unknown: Vec<Unknown>,
    scratch: Vec<u32>,
}

impl Breadth {
    pub(crate) fn new<T: Transitions>(
        world: &mut World<T>,
        start: &[u32],
        pruning: Pruning,
        threads: usize,
        limits: Limits,
    ) -> Self {
        let width = start.len();
        let mut search = Self {
            width,
            threads: threads.max(1),
            limits,
            shards: (0..SHARDS).map(|_| Shard::new(width)).collect(),
            level: Level::new(Vec::new()),
            cursor: 0,
            depth: 0,
            states: 1,
            transitions: 0,
            pieces: Vec::new(),
            expanded_before: 0,
            chunks: (0..=CHUNKS).map(|_| Chunk::new(width)).collect(),
            pruning,
            known: HashSet::default(),
            found: Vec::new(),
            stop: None,
        };
        let fingerprint = nonzero(world.tables().fingerprint(start));
        let shard = shard_of(fingerprint);
        search.shards[shard].root(fingerprint, start);
        for (node, &word) in start[..width - 1].iter().enumerate() {
            search.shards[shard]
                .fresh
                .push((0, node as u16, world.tables().agents[word as usize]));
        }
        for finding in world.findings(start, None) {
            search.record(
                finding,
                Place {
                    shard,
                    index: 0,
                    depth: 0,
                },
            );
        }
        search.begin_level();
        search.check_stop();
        search
    }

    /// Goes on until about this many more steps are looked up, or the search ends.
    pub(crate) fn advance<T: Transitions + Sync>(
        &mut self,
        world: &mut World<T>,
        steps: u64,
    ) -> Option<Stop> {
        let target = self.transitions.saturating_add(steps);
        while self.stop.is_none() && self.transitions < target {
            self.block(world);
        }
        self.stop
    }

    pub(crate) fn counts(&self) -> Counts {
        let next: usize = self.shards.iter().map(|shard| shard.next.len()).sum();
        Counts {
            states: self.states,
            transitions: self.transitions,
            depth: if next > 0 { self.depth + 1 } else { self.depth },
            frontier: (self.level.len() - self.cursor + next) as u64,
        }
    }

    fn block<T: Transitions + Sync>(&mut self, world: &mut World<T>) {
        let block = self.cursor..(self.cursor + CHUNK * CHUNKS).min(self.level.len());
        let threads = if block.len() < PARALLEL_MIN {
            1
        } else {
            self.threads
        };
        self.expand(world.tables(), block.clone(), threads);
        self.learn(world);
        if self.would_exceed_bytes(world) {
            self.stop = Some(Stop::Bytes);
            return;
        }
        self.absorb(world.tables(), threads);
        self.judge(world);
        self.cursor = block.end;
        if self.stop.is_none() && self.cursor == self.level.len() {
            self.expanded_before += self.level.len() as u32;
            self.depth += 1;
            self.begin_level();
        }
        self.check_stop();
    }

    fn expand(&mut self, tables: &Tables, block: std::ops::Range<usize>, threads: usize) {
        let (level, pruning) = (&self.level, &self.pruning);
        let ranges = block
            .clone()
            .step_by(CHUNK)
            .map(|start| start..(start + CHUNK).min(block.end));
        let work = Mutex::new(ranges.zip(&mut self.chunks));
        run(threads, || {
            loop {
                let Some((range, chunk)) = work.lock().expect("no thread panics here").next()
                else {
                    return;
                };
                chunk.expand(tables, level, pruning, range);
            }
        });
    }

    /// Computes what the threads did not find, and looks those steps up again.
    fn learn<T: Transitions>(&mut self, world: &mut World<T>) {
        let (last, chunks) = self
            .chunks
            .split_last_mut()
            .expect("there is one more chunk than a block has");
        for chunk in chunks {
            for unknown in chunk.unknown.drain(..) {
                self.level.load(unknown.parent as usize, &mut last.scratch);
                let words = last.scratch.clone();
                let successors = match unknown.successor {
                    Some(successor) => successor..successor + 1,
                    None => {
                        let word = words[usize::from(unknown.node)];
                        world.expand(word);
                        let range = world.tables().ranges[word as usize];
                        range.start
                            ..range.start
                                + if unknown.internal {
                                    range.all
                                } else {
                                    range.arrivals
                                }
                    }
                };
                let fingerprint = world.tables().fingerprint(&words);
                for at in successors {
                    let successor = world.tables().successors[at as usize];
                    let mut looked = world.tables().look(&words, fingerprint, &successor);
                    if looked == Looked::Unknown {
                        world.deliver(&words, successor);
                        looked = world.tables().look(&words, fingerprint, &successor);
                    }
                    if let Looked::Up(fingerprint) = looked {
                        last.put(fingerprint, unknown.parent, at);
                    }
                }
            }
        }
    }

    fn absorb(&mut self, tables: &Tables, threads: usize) {
        let candidates: usize = self.chunks.iter().map(Chunk::len).sum();
        self.transitions += candidates as u64;
        let before: usize = self.shards.iter().map(|shard| shard.seen.len()).sum();
        let room = self
            .limits
            .states
            .map(|limit| limit.saturating_sub(self.states));
        let (level, chunks, pruning) = (&self.level, &self.chunks, &self.pruning);
        let base = self.expanded_before;
        match room {
            // Near the limit one thread goes shard by shard, so that it ends exactly there.
            Some(room) if candidates as u64 > room => {
                let mut room = room as usize;
                for (at, shard) in self.shards.iter_mut().enumerate() {
                    room -= shard.absorb(at, chunks, tables, level, pruning, base, room);
                }
            }
            _ => {
                let work = Mutex::new(self.shards.iter_mut().enumerate());
                run(threads, || {
                    loop {
                        let Some((at, shard)) = work.lock().expect("no thread panics here").next()
                        else {
                            return;
                        };
                        shard.absorb(at, chunks, tables, level, pruning, base, usize::MAX);
                    }
                });
            }
        }
        for chunk in &mut self.chunks {
            chunk.buckets.iter_mut().for_each(Vec::clear);
        }
        let after: usize = self.shards.iter().map(|shard| shard.seen.len()).sum();
        self.states += (after - before) as u64;
    }

    fn judge<T: Transitions>(&mut self, world: &mut World<T>) {
        let mut words = vec![0; self.width];
        for at in 0..SHARDS {
            for (index, node) in std::mem::take(&mut self.shards[at].noteworthy) {
                let shard = &self.shards[at];
                shard.next.load(index as usize, &mut words);
                let first = shard.lineage.len() - shard.next.len();
                let place = Place {
                    shard: at,
                    index: first + index as usize,
                    depth: self.depth + 1,
                };
                for finding in world.findings(&words, Some(usize::from(node))) {
                    self.record(finding, place);
                }
            }
        }
    }

    fn record(&mut self, finding: Finding, place: Place) {
        if self.known.insert(finding.clone()) {
            self.found.push((finding, place));
        }
    }

    /// Makes the states found last the level to be expanded next.
    fn begin_level(&mut self) {
        let mut number = self.expanded_before;
        for (at, shard) in self.shards.iter().enumerate() {
            let first = (shard.lineage.len() - shard.next.len()) as u32;
            if shard.next.len() > 0 {
                self.pieces.push((number, at as u8, first));
                number += shard.next.len() as u32;
            }
        }
        let width = self.width;
        let vectors = self
            .shards
            .iter_mut()
            .map(|shard| std::mem::replace(&mut shard.next, Vectors::new(width)));
        self.level = Level::new(vectors.collect());
        self.cursor = 0;
        let level = &self.level;
        self.pruning
            .begin_level(self.shards.iter_mut().enumerate().flat_map(|(at, shard)| {
                let start = level.start_of(at) as u32;
                shard
                    .fresh
                    .drain(..)
                    .map(move |(place, node, agent)| (start + place, node, agent))
            }));
    }

    fn check_stop(&mut self) {
        let limits = &self.limits;
        self.stop = if limits.first_violation && !self.found.is_empty() {
            Some(Stop::Violation)
        } else if self.cursor == self.level.len() {
            Some(Stop::Exhausted)
        } else if limits.states.is_some_and(|limit| self.states >= limit) {
            Some(Stop::States)
        } else if limits.depth.is_some_and(|limit| self.depth >= limit) {
            Some(Stop::Depth)
        } else {
            None
        };
    }

    fn would_exceed_bytes<T: Transitions>(&self, world: &World<T>) -> bool {
        let Some(limit) = self.limits.bytes else {
            return false;
        };
        let mut bytes = world.bytes() + self.level.bytes();
        for (at, shard) in self.shards.iter().enumerate() {
            let more: usize = self
                .chunks
                .iter()
                .map(|chunk| chunk.buckets[at].len())
                .sum();
            // While a shard moves to a larger table, it has both; the others are not moving then.
            bytes += shard.bytes()
                + shard.seen.growth(more)
                + more * (self.width * 4 + size_of::<Candidate>() + 4);
        }
        bytes as u64 > limit
    }

    /// Lists what was found, in order of discovery, each with the steps that lead there.
    pub(crate) fn found(&self, tables: &Tables, start: &[u32]) -> Vec<Found> {
        let path = |place: &Place| {
            let mut steps = Vec::new();
            let (mut shard, mut index) = (place.shard, place.index);
            for _ in 0..place.depth {
                let origin = self.shards[shard].lineage.origin(index);
                steps.push(origin.step);
                (shard, index) = self.place_of(origin.parent);
            }
            steps.reverse();
            self.follow(tables, start, &steps)
        };
        self.found
            .iter()
            .map(|(finding, place)| path(place).into_found(finding.clone()))
            .collect()
    }

    /// Finds a state by its number in the order of expansion.
    fn place_of(&self, number: u32) -> (usize, usize) {
        let piece = self.pieces.partition_point(|&(first, ..)| first <= number) - 1;
        let (first, shard, index) = self.pieces[piece];
        (usize::from(shard), (index + (number - first)) as usize)
    }

    fn follow(&self, tables: &Tables, start: &[u32], steps: &[u32]) -> Trail {
        let mut words = start.to_vec();
        let mut successors = Vec::new();
        for &step in steps {
            let (node, number) = (step as usize % self.width, step / self.width as u32);
            let successor = tables.ranges[words[node] as usize].start + number;
            tables.patch(&mut words, &tables.successors[successor as usize]);
            successors.push(successor);
        }
        Trail { successors, words }
    }
}

impl Shard {
    fn new(width: usize) -> Self {
        Self {
            seen: Fingerprints::default(),
            lineage: Lineage::default(),
            next: Vectors::new(width),
            noteworthy: Vec::new(),
            fresh: Vec::new(),
        }
    }

    fn root(&mut self, fingerprint: u64, start: &[u32]) {
        self.seen.insert(fingerprint);
        self.lineage.push(Origin { parent: 0, step: 0 });
        self.next.push(start);
    }

    fn bytes(&self) -> usize {
        self.seen.bytes() + self.lineage.bytes() + self.next.bytes()
    }

    /// Takes in the candidates of this shard, chunk by chunk, and returns how many were new.
    #[expect(
        clippy::too_many_arguments,
        reason = "the read-only surroundings of one shard's work"
    )]
    fn absorb(
        &mut self,
        at: usize,
        chunks: &[Chunk],
        tables: &Tables,
        level: &Level,
        pruning: &Pruning,
        base: u32,
        room: usize,
    ) -> usize {
        let before = self.seen.len();
        let mut words = vec![0; self.next.width()];
        for chunk in chunks {
            for batch in chunk.buckets[at].chunks(BATCH) {
                self.seen.reserve(BATCH);
                let mut glances = [0; BATCH];
                for (glance, candidate) in glances.iter_mut().zip(batch) {
                    *glance = self.seen.glance(candidate.fingerprint);
                }
                for (glance, candidate) in glances.iter().zip(batch) {
                    if *glance == candidate.fingerprint {
                        continue;
                    }
                    if self.seen.len() - before == room {
                        return room;
                    }
                    if self.seen.insert(candidate.fingerprint) {
                        level.load(candidate.parent as usize, &mut words);
                        self.welcome(tables, pruning, base, candidate, &mut words);
                    }
                }
            }
        }
        self.seen.len() - before
    }

    /// Turns a parent's words into those of its new child, and keeps them.
    #[inline]
    fn welcome(
        &mut self,
        tables: &Tables,
        pruning: &Pruning,
        base: u32,
        candidate: &Candidate,
        words: &mut [u32],
    ) {
        let successor = &tables.successors[candidate.successor as usize];
        let node = usize::from(successor.node);
        let number = candidate.successor - tables.ranges[words[node] as usize].start;
        let step = number * words.len() as u32 + node as u32;
        self.lineage.push(Origin {
            parent: base + candidate.parent,
            step,
        });
        let index = self.next.len() as u32;
        if successor.noteworthy {
            self.noteworthy.push((index, successor.node));
        }
        let agent = tables.agents[successor.next as usize];
        if pruning.is_fresh(agent) {
            self.fresh.push((index, successor.node, agent));
        }
        tables.patch(words, successor);
        self.next.push(words);
    }
}

impl Chunk {
    fn new(width: usize) -> Self {
        Self {
            buckets: vec![Vec::new(); SHARDS],
            unknown: Vec::new(),
            scratch: vec![0; width],
        }
    }

    fn len(&self) -> usize {
        self.buckets.iter().map(Vec::len).sum()
    }

    #[inline]
    fn put(&mut self, fingerprint: u64, parent: u32, successor: u32) {
        let fingerprint = nonzero(fingerprint);
        self.buckets[shard_of(fingerprint)].push(Candidate {
            fingerprint,
            parent,
            successor,
        });
    }

    fn expand(
        &mut self,
        tables: &Tables,
        level: &Level,
        pruning: &Pruning,
        range: std::ops::Range<usize>,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        level.for_each(range, &mut scratch, |at, words| {
            let at = at as u32;
            let fingerprint = tables.fingerprint(words);
            let acting = pruning.acting(at);
            for (node, &word) in words[..words.len() - 1].iter().enumerate() {
                let internal = acting.contains(node as u16);
                let range = tables.ranges[word as usize];
                if range.is_unknown() {
                    self.unknown.push(Unknown {
                        parent: at,
                        node: node as u16,
                        internal,
                        successor: None,
                    });
                    continue;
                }
                let count = if internal { range.all } else { range.arrivals };
                let successors = range.start..range.start + count;
                let known = &tables.successors[successors.start as usize..successors.end as usize];
                for (number, successor) in successors.zip(known) {
                    match tables.look(words, fingerprint, successor) {
                        Looked::Up(fingerprint) => self.put(fingerprint, at, number),
                        Looked::Spent => {}
                        Looked::Unknown => {
                            let (node, successor) = (node as u16, Some(number));
                            self.unknown.push(Unknown {
                                parent: at,
                                node,
                                internal,
                                successor,
                            });
                        }
                    }
                }
            }
        });
        self.scratch = scratch;
    }
}

#[inline]
fn shard_of(fingerprint: u64) -> usize {
    (fingerprint >> (u64::BITS - SHARD_BITS)) as usize
}

/// Runs the same work on some threads, this one among them.
fn run(threads: usize, work: impl Fn() + Sync) {
    if threads <= 1 {
        return work();
    }
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(&work);
        }
        work();
    });
}
