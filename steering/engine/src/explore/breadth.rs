//! Breadth-first search over a world's tables, on any number of threads, with one result.
//!
//! A level is worked off in blocks. For each block:
//!
//! 1. *Expand*, in parallel and read-only: look every step up, but for those of sleepers (see
//!    [`sleep`](crate::interned::sleep)), and sort the fingerprints they lead to by shard. What the tables do not know is
//!    put aside.
//! 2. *Learn*, alone: run the handlers and deliveries that were put aside.
//! 3. *Absorb*, in parallel, a shard at a time: insert the fingerprints; a new one becomes a state of the next level.
//! 4. *Judge*, alone: look at the new states whose step could have broken a property.
//!
//! Blocks, chunks and shards have fixed sizes, and every list is worked off in order; so which state is found first,
//! and from which parent, does not depend on the number of threads (I-15).

mod archive;
mod chunk;
mod prune;
mod shard;

pub(super) use archive::Archive;
pub(super) use prune::Pruning;

use std::collections::VecDeque;
use std::sync::Mutex;

use hashbrown::HashSet;
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use rustc_hash::FxBuildHasher;

use crate::explore::Counts;
use crate::explore::breadth::chunk::{Candidate, Chunk, Missing};
use crate::explore::breadth::shard::Shard;
use crate::explore::frontier::{Level, Vectors};
use crate::explore::limits::{Limits, Stop};
use crate::explore::liveness::{Classification, Wanted};
use crate::explore::report::GoalReport;
use crate::explore::strategy::{Claim, Found, Plan, Walk, steps};
use crate::explore::visited::nonzero;
use crate::interned::judge::Finding;
use crate::interned::tables::{Looked, Tables};
use crate::interned::world::Space;

const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;
/// How many states a thread expands at a time.
const CHUNK: usize = 4096;
/// How many chunks make a block.
const CHUNKS: usize = 16;
/// Below this many states in a block, waking threads costs more than it gains.
const PARALLEL_MIN: usize = 2 * CHUNK;

/// A breadth-first search at rest between two blocks.
#[derive(Debug)]
pub(crate) struct Breadth {
    width: usize,
    /// The threads beside the caller's, if there are any. They stay for the whole search: started anew
    /// for each half of a block they last a few milliseconds, and beside other work two are hardly faster than one.
    crew: Option<ThreadPool>,
    limits: Limits,
    shards: Vec<Shard>,
    level: Level,
    /// The states of `level` before this place are expanded.
    cursor: usize,
    depth: u32,
    states: u64,
    transitions: u64,
    /// How many states were expanded in the levels before.
    expanded_before: u32,
    /// Where each shard's part of each level stands.
    pieces: Vec<Piece>,
    /// One more than a block has: the last is for what is learnt.
    chunks: Vec<Chunk>,
    pruning: Pruning,
    /// What the properties saw, summed up, in states in which nothing new was wrong.
    fine: HashSet<u64, FxBuildHasher>,
    known: HashSet<Finding, FxBuildHasher>,
    found: Vec<(Finding, Place)>,
    /// How many findings the search does not stop for.
    passed: usize,
    stop: Option<Stop>,
    /// What is asked about goals, if there are any.
    wanted: Option<Wanted>,
    /// The levels before, if there are goals: without, they are forgotten.
    kept: Vec<Level>,
    /// What is known of the goals.
    classified: Option<Classification>,
}

/// The states of one level in one shard.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The number of the first in the order of expansion.
    number: u32,
    shard: u8,
    /// The number of the first among the shard's states.
    index: u32,
}

/// Where a state is kept.
#[derive(Clone, Copy, Debug)]
struct Place {
    shard: usize,
    index: usize,
    depth: u32,
}

/// What a thread needs to know and may not change.
#[derive(Debug)]
struct Surroundings<'a> {
    tables: &'a Tables,
    level: &'a Level,
    pruning: &'a Pruning,
    width: usize,
    /// Whether 16 bits hold every id.
    narrow: bool,
    expanded_before: u32,
    fine: &'a HashSet<u64, FxBuildHasher>,
}

impl Breadth {
    pub(super) fn new(
        world: &mut Space,
        start: &[u32],
        pruning: Pruning,
        wanted: Option<Wanted>,
        plan: Plan,
    ) -> Self {
        let width = start.len();
        let Plan {
            threads, limits, ..
        } = plan;
        let mut search = Self {
            width,
            crew: crew(threads.saturating_sub(1)),
            limits,
            shards: (0..SHARDS).map(|_| Shard::new(width)).collect(),
            level: Level::new(Vec::new()),
            cursor: 0,
            depth: 0,
            states: 1,
            transitions: 0,
            expanded_before: 0,
            pieces: Vec::new(),
            chunks: (0..=CHUNKS).map(|_| Chunk::new(width)).collect(),
            pruning,
            fine: HashSet::default(),
            known: HashSet::default(),
            found: Vec::new(),
            passed: 0,
            stop: None,
            wanted,
            kept: Vec::new(),
            classified: None,
        };
        let fingerprint = nonzero(world.tables().fingerprint(start));
        let shard = shard_of(fingerprint);
        search.shards[shard].root(fingerprint, start);
        for (node, &word) in start[..width - 1].iter().enumerate() {
            let agent = world.tables().agents[word as usize];
            search.shards[shard].fresh.push((0, node as u16, agent));
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

    fn block(&mut self, world: &mut Space) {
        // States move to other slots.
        self.classified = None;
        let block = self.cursor..(self.cursor + CHUNK * CHUNKS).min(self.level.len());
        let together = block.len() >= PARALLEL_MIN;
        self.expand(world.tables(), block.clone(), together);
        self.learn(world);
        if self.would_exceed_bytes(world) {
            self.stop = Some(Stop::Bytes);
            return;
        }
        self.absorb(world.tables(), together);
        self.judge(world);
        self.cursor = block.end;
        if self.cursor == self.level.len() {
            self.expanded_before += self.level.len() as u32;
            self.depth += 1;
            self.begin_level();
        }
        self.check_stop();
    }

    fn expand(&mut self, tables: &Tables, block: std::ops::Range<usize>, together: bool) {
        let around = Surroundings {
            tables,
            level: &self.level,
            pruning: &self.pruning,
            width: self.width,
            narrow: tables.is_narrow(),
            expanded_before: self.expanded_before,
            fine: &self.fine,
        };
        let ranges = block
            .clone()
            .step_by(CHUNK)
            .map(|start| start..(start + CHUNK).min(block.end));
        let crew = self.crew.as_ref().filter(|_| together);
        for_all(crew, ranges.zip(&mut self.chunks), |(range, chunk)| {
            chunk.expand(&around, range)
        });
    }

    /// Computes what the threads did not find, and looks those steps up again.
    fn learn(&mut self, world: &mut Space) {
        let (last, chunks) = self
            .chunks
            .split_last_mut()
            .expect("there is one chunk more than a block has");
        let mut words = vec![0; self.width];
        let mut hint = 0;
        for unknown in chunks.iter_mut().flat_map(|chunk| chunk.unknown.drain(..)) {
            self.level
                .row(unknown.parent as usize, &mut hint)
                .load(&mut words);
            let successors = match unknown.missing {
                Missing::Deliveries { successor } => successor..successor + 1,
                Missing::Successors { node, internal } => {
                    let word = words[usize::from(node)];
                    world.expand(word);
                    let range = world.tables().ranges[word as usize];
                    range.start..range.start + if internal { range.all } else { range.arrivals }
                }
            };
            let fingerprint = world.tables().fingerprint(&words);
            for number in successors {
                if let Looked::Up(fingerprint) = world.look(&words, fingerprint, number) {
                    last.put(fingerprint, unknown.parent, number);
                }
            }
        }
    }

    fn absorb(&mut self, tables: &Tables, together: bool) {
        let candidates: usize = self.chunks.iter().map(Chunk::len).sum();
        let slept = self
            .chunks
            .iter_mut()
            .map(|chunk| std::mem::take(&mut chunk.slept));
        self.transitions += candidates as u64 + slept.sum::<u64>();
        let before: usize = self.shards.iter().map(|shard| shard.seen.len()).sum();
        let around = Surroundings {
            tables,
            level: &self.level,
            pruning: &self.pruning,
            width: self.width,
            narrow: tables.is_narrow(),
            expanded_before: self.expanded_before,
            fine: &self.fine,
        };
        let (chunks, shards) = (&self.chunks, self.shards.iter_mut().enumerate());
        match self
            .limits
            .states
            .map(|limit| limit.saturating_sub(self.states))
        {
            // Near the limit one thread goes shard by shard, so that it ends exactly there.
            Some(mut room) if candidates as u64 > room => {
                for (at, shard) in shards {
                    room -= shard.absorb(at, chunks, &around, room as usize) as u64;
                }
            }
            _ => for_all(
                self.crew.as_ref().filter(|_| together),
                shards,
                |(at, shard)| {
                    shard.absorb(at, chunks, &around, usize::MAX);
                },
            ),
        }
        for chunk in &mut self.chunks {
            chunk.buckets.iter_mut().for_each(Vec::clear);
        }
        let after: usize = self.shards.iter().map(|shard| shard.seen.len()).sum();
        self.states += (after - before) as u64;
    }

    fn judge(&mut self, world: &mut Space) {
        let mut words = vec![0; self.width];
        for at in 0..SHARDS {
            for (index, node) in std::mem::take(&mut self.shards[at].noteworthy) {
                let shard = &self.shards[at];
                shard.next.load(index as usize, &mut words);
                let place = Place {
                    shard: at,
                    index: shard.next_start() + index as usize,
                    depth: self.depth + 1,
                };
                let findings = world.findings(&words, Some(usize::from(node)));
                if findings.is_empty() {
                    self.fine.insert(world.tables().stance(&words));
                }
                for finding in findings {
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
            if shard.next.len() > 0 {
                self.pieces.push(Piece {
                    number,
                    shard: at as u8,
                    index: shard.next_start() as u32,
                });
                number += shard.next.len() as u32;
            }
        }
        let done = std::mem::replace(&mut self.level, Level::new(Vec::new()));
        let done = match self.wanted {
            None => done.recycle(),
            Some(_) if done.len() == 0 => Vec::new(),
            Some(_) => {
                self.kept.push(done);
                Vec::new()
            }
        };
        let room = done
            .into_iter()
            .chain(std::iter::repeat_with(|| Vectors::new(self.width)));
        let vectors = self
            .shards
            .iter_mut()
            .zip(room)
            .map(|(shard, room)| std::mem::replace(&mut shard.next, room));
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
        self.stop = if limits.first_violation && self.found.len() > self.passed {
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

    fn would_exceed_bytes(&self, world: &Space) -> bool {
        let Some(limit) = self.limits.bytes else {
            return false;
        };
        let mut bytes = world.bytes() + self.level.bytes() + self.kept_bytes();
        for (at, shard) in self.shards.iter().enumerate() {
            let more: usize = self
                .chunks
                .iter()
                .map(|chunk| chunk.buckets[at].len())
                .sum();
            // Each candidate is kept until it is absorbed, and may become a state with its words and its origin.
            let each = size_of::<Candidate>() + self.width * size_of::<u32>() + 4;
            bytes += shard.bytes() + shard.seen.growth(more) + more * each;
        }
        bytes as u64 > limit
    }

    fn kept_bytes(&self) -> usize {
        self.kept.iter().map(Level::bytes).sum()
    }

    /// Returns for how many goals a dead state was found.
    pub(super) fn dead_count(&self) -> usize {
        match (&self.classified, &self.wanted) {
            (Some(classified), Some(wanted)) => classified.dead(&wanted.book).len(),
            _ => 0,
        }
    }

    /// Tells whether every state there is was expanded.
    fn is_complete(&self, world: &Space) -> bool {
        self.stop == Some(Stop::Exhausted)
            && !self.pruning.is_on()
            && !world.transitions().is_truncated()
    }

    /// Returns the successors that lead to a state.
    fn trail(&self, tables: &Tables, start: &[u32], place: &Place) -> Vec<u32> {
        let mut steps = Vec::new();
        let (mut shard, mut index) = (place.shard, place.index);
        for _ in 0..place.depth {
            let origin = self.shards[shard].lineage.origin(index);
            steps.push(origin.step);
            (shard, index) = self.place_of(origin.parent);
        }
        let mut words = start.to_vec();
        let successors = steps.into_iter().rev().map(|step| {
            let (node, number) = (step as usize % self.width, step / self.width as u32);
            let successor = tables.ranges[words[node] as usize].start + number;
            tables.patch(&mut words, successor);
            successor
        });
        successors.collect()
    }

    /// Finds a state by its number in the order of expansion.
    fn place_of(&self, number: u32) -> (usize, usize) {
        let at = self.pieces.partition_point(|piece| piece.number <= number) - 1;
        let piece = self.pieces[at];
        (
            usize::from(piece.shard),
            (piece.index + (number - piece.number)) as usize,
        )
    }
}

impl Walk for Breadth {
    fn advance(&mut self, world: &mut Space, steps: u64) -> Option<Stop> {
        let target = self.transitions.saturating_add(steps);
        while self.stop.is_none() && self.transitions < target {
            self.block(world);
        }
        self.stop
    }

    fn counts(&self) -> Counts {
        let next: usize = self.shards.iter().map(|shard| shard.next.len()).sum();
        // A level that turned out to be empty is not one step farther.
        let depth = if next > 0 { self.depth + 1 } else { self.depth };
        let depth = if self.level.len() == 0 {
            depth.saturating_sub(1)
        } else {
            depth
        };
        Counts {
            states: self.states,
            transitions: self.transitions,
            depth,
            frontier: (self.level.len() - self.cursor + next) as u64,
        }
    }

    fn for_each_waiting(&self, see: &mut dyn FnMut(&[u32])) {
        let mut words = vec![0; self.width];
        let mut hint = 0;
        for at in self.cursor..self.level.len() {
            self.level.row(at, &mut hint).load(&mut words);
            see(&words);
        }
        for shard in &self.shards {
            for index in 0..shard.next.len() {
                shard.next.load(index, &mut words);
                see(&words);
            }
        }
    }

    fn found_count(&self) -> usize {
        let dead = match (&self.classified, &self.wanted) {
            (Some(classified), Some(wanted)) => {
                classified.dead(&wanted.book).len() + classified.lassos(&wanted.book).count()
            }
            _ => 0,
        };
        self.found.len() + dead
    }

    fn found(&self, world: &Space, start: &[u32]) -> Vec<Found> {
        let found = self.found.iter();
        let found = found.map(|(finding, place)| {
            let path = self.trail(world.tables(), start, place);
            Found::at(world, start, &path, Claim::Breaks(finding.clone()))
        });
        let mut found: Vec<Found> = found.collect();
        if let (Some(classified), Some(wanted)) = (&self.classified, &self.wanted) {
            let archive = Archive::of(self);
            for dead in classified.dead(&wanted.book) {
                let path = self.trail(world.tables(), start, &archive.place(dead.number));
                let live = dead.live.as_ref().map(|from_parent| {
                    let mut live = path[..path.len() - 1].to_vec();
                    live.extend(from_parent);
                    steps(world, &live)
                });
                let claim = Claim::Dead {
                    goals: dead.goals.clone(),
                    critical: dead.critical,
                    faults: wanted.faults,
                    live,
                };
                found.push(Found::at(world, start, &path, claim));
            }
            for (goals, lasso) in classified.lassos(&wanted.book) {
                let base = archive.place(lasso.base);
                let mut path = self.trail(world.tables(), start, &base);
                path.extend(&lasso.round);
                let claim = Claim::Lasso {
                    goals: goals.to_vec(),
                    round: lasso.round.len(),
                };
                found.push(Found::at(world, start, &path, claim));
            }
        }
        found
    }

    fn conclude(&mut self, world: &mut Space, steps: u64) -> bool {
        let Some(mut wanted) = self.wanted.take() else {
            return true;
        };
        let mut classified = self.classified.take();
        let archive = Archive::of(self);
        let known = classified
            .get_or_insert_with(|| Classification::new(&archive, &wanted.book))
            .advance(world, &archive, &mut wanted, steps);
        self.classified = classified;
        self.wanted = Some(wanted);
        known
    }

    fn goals(&self, world: &Space) -> Vec<GoalReport> {
        match (&self.classified, &self.wanted) {
            (Some(classified), Some(wanted)) => {
                let archive = Archive::of(self);
                classified.report(world, &archive, &wanted.book, self.is_complete(world))
            }
            _ => Vec::new(),
        }
    }

    fn goal_bytes(&self) -> u64 {
        let (Some(classified), Some(wanted)) = (&self.classified, &self.wanted) else {
            return 0;
        };
        (self.kept_bytes() + classified.bytes() + wanted.book.bytes()) as u64
    }

    fn pass_over_found(&mut self, _: &Space) {
        self.passed = self.found.len();
        self.check_stop();
    }

    fn extent(&self) -> Option<&'static str> {
        self.pruning.extent()
    }
}

#[inline]
fn shard_of(fingerprint: u64) -> usize {
    (fingerprint >> (u64::BITS - SHARD_BITS)) as usize
}

/// Assembles threads. A system that gives none has the search go on with one: what it finds is the same.
fn crew(count: usize) -> Option<ThreadPool> {
    if count == 0 {
        return None;
    }
    ThreadPoolBuilder::new().num_threads(count).build().ok()
}

/// Does something with every item, on this thread and on those of the crew.
///
/// Each thread has a part of its own, the same each time, so that what it wrote there before is still in its processor's cache; then
/// it helps the others, from the end of their parts.
fn for_all<I: Send>(
    crew: Option<&ThreadPool>,
    items: impl Iterator<Item = I>,
    work: impl Fn(I) + Sync,
) {
    let Some(crew) = crew else {
        return items.for_each(work);
    };
    let threads = crew.current_num_threads() + 1;
    let mut items: Vec<I> = items.collect();
    let each = items.len().div_ceil(threads);
    let parts: Vec<Mutex<VecDeque<I>>> = (0..threads)
        .map(|_| Mutex::new(items.drain(..each.min(items.len())).collect()))
        .collect();
    let next = |part: usize, is_own: bool| {
        let mut part = parts[part]
            .lock()
            .expect("no thread panics while it holds the lock");
        match is_own {
            true => part.pop_front(),
            false => part.pop_back(),
        }
    };
    let until_none_is_left = |own: usize| {
        for distance in 0..threads {
            while let Some(item) = next((own + distance) % threads, distance == 0) {
                work(item);
            }
        }
    };
    crew.in_place_scope(|scope| {
        scope.spawn_broadcast(|_, thread| until_none_is_left(thread.index() + 1));
        until_none_is_left(0);
    });
}
