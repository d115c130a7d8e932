//! Expanding some states of a level, read-only: every step looked up, its fingerprint sorted by shard.

use std::ops::{Deref, DerefMut};

use crate::explore::breadth::prune::Pruning;
use crate::explore::breadth::{SHARDS, Surroundings, shard_of};
use crate::explore::frontier::Rows;
use crate::explore::visited::nonzero;
use crate::interned::sleep::Nodes;
use crate::interned::tables::{Looked, Tables, Word};

/// What came of expanding some states.
///
/// One thread writes a chunk while another writes its neighbor, so what is written for every state stands in cache lines of its
/// own: a line that two threads write goes back and forth between their processors. Two lines, since they are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Chunk {
    /// By shard, the states that may be new, in the order of their parents.
    pub(super) buckets: Box<Buckets>,
    /// The steps that the tables did not know.
    pub(super) unknown: Vec<Unknown>,
    /// How many steps were not taken because their nodes are asleep.
    pub(super) slept: u64,
    /// Room for the nodes of one state that can move, and padding behind it.
    movers: Vec<u16>,
}

/// Lists of candidates, by shard.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Buckets([Vec<Candidate>; SHARDS]);

/// How many numbers of nodes fill two cache lines.
const PADDING: usize = 64;

/// A state that may be new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) fingerprint: u64,
    /// The place of its parent in the level.
    pub(super) parent: u32,
    pub(super) successor: u32,
}

/// A step that the tables do not know yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unknown {
    pub(super) parent: u32,
    pub(super) missing: Missing,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Missing {
    /// What can happen at a node, which may act by itself or not.
    Successors { node: u16, internal: bool },
    /// What a step's parcels do to their receivers.
    Deliveries { successor: u32 },
}

impl Deref for Buckets {
    type Target = [Vec<Candidate>; SHARDS];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Buckets {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Chunk {
    pub(super) fn new(width: usize) -> Self {
        Self {
            buckets: Box::new(Buckets([const { Vec::new() }; SHARDS])),
            unknown: Vec::new(),
            slept: 0,
            movers: vec![0; width + PADDING],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.buckets.iter().map(Vec::len).sum()
    }

    #[inline]
    pub(super) fn put(&mut self, fingerprint: u64, parent: u32, successor: u32) {
        let fingerprint = nonzero(fingerprint);
        self.buckets[shard_of(fingerprint)].push(Candidate {
            fingerprint,
            parent,
            successor,
        });
    }

    #[cold]
    fn put_aside(&mut self, parent: u32, missing: Missing) {
        self.unknown.push(Unknown { parent, missing });
    }

    pub(super) fn expand(&mut self, around: &Surroundings<'_>, range: std::ops::Range<usize>) {
        for (first, rows, asleep) in around.level.runs(range) {
            match (rows, around.pruning) {
                (Rows::Narrow(words), Pruning::Off) => {
                    self.expand_all(around, first, words, asleep)
                }
                (Rows::Wide(words), Pruning::Off) => self.expand_all(around, first, words, asleep),
                (Rows::Narrow(words), _) => self.expand_pruned(around, first, words),
                (Rows::Wide(words), _) => self.expand_pruned(around, first, words),
            }
        }
    }

    /// Expands states in which every node may do everything.
    fn expand_all<W: Word>(
        &mut self,
        around: &Surroundings<'_>,
        first: usize,
        rows: &[W],
        asleep: &[Nodes],
    ) {
        let states = rows.chunks_exact(around.width).zip(asleep);
        for (offset, (words, &asleep)) in states.enumerate() {
            self.expand_state(around.tables, words, (first + offset) as u32, asleep);
        }
    }

    // A function of its own, so that its few variables stay in registers.
    #[inline(never)]
    fn expand_state<W: Word>(&mut self, tables: &Tables, words: &[W], parent: u32, asleep: Nodes) {
        let (fingerprint, movers) = self.survey(tables, words, asleep);
        for at in 0..movers {
            let node = self.movers[at];
            let range = tables.ranges[words[usize::from(node)].get() as usize];
            if range.is_unknown() {
                self.put_aside(
                    parent,
                    Missing::Successors {
                        node,
                        internal: true,
                    },
                );
                continue;
            }
            let successors = range.start..range.start + range.all;
            let rest = fingerprint ^ range.mixed;
            if is_in(asleep, node) {
                self.expand_sleeper(tables, words, rest, parent, successors);
            } else {
                self.expand_node(tables, words, rest, parent, successors);
            }
        }
    }

    /// Computes the fingerprint of a state, lists in `movers` the nodes at which steps are to be taken, and returns
    /// how many. In one pass without branches that are hard to guess, since most nodes are asleep or idle.
    #[inline(always)]
    fn survey<W: Word>(&mut self, tables: &Tables, words: &[W], asleep: Nodes) -> (u64, usize) {
        let (allowance, nodes) = words
            .split_last()
            .expect("a state has at least its allowance word");
        let mut fingerprint = tables.allowances.mixed(allowance.get());
        let (mut asleep, mut slept, mut movers) = (u32::from(asleep), 0, 0);
        for (node, word) in nodes.iter().enumerate() {
            let range = &tables.ranges[word.get() as usize];
            fingerprint ^= range.mixed;
            let sleeps = range.plain & (asleep & 1 != 0);
            asleep >>= 1;
            slept += if sleeps { range.all } else { 0 };
            self.movers[movers] = node as u16;
            movers += usize::from(!sleeps & (range.all != 0));
        }
        self.slept += u64::from(slept);
        (fingerprint, movers)
    }

    /// Takes the steps of a node that is asleep for all but those that are not plain.
    fn expand_sleeper<W: Word>(
        &mut self,
        tables: &Tables,
        words: &[W],
        rest: u64,
        parent: u32,
        successors: std::ops::Range<u32>,
    ) {
        for number in successors {
            if tables.successors[number as usize].plain {
                self.slept += 1;
            } else {
                self.expand_node(tables, words, rest, parent, number..number + 1);
            }
        }
    }

    /// Expands states in which only some nodes may act by themselves.
    fn expand_pruned<W: Word>(&mut self, around: &Surroundings<'_>, first: usize, rows: &[W]) {
        let tables = around.tables;
        for (offset, words) in rows.chunks_exact(around.width).enumerate() {
            let parent = (first + offset) as u32;
            let fingerprint = tables.fingerprint(words);
            let acting = around.pruning.acting(parent);
            for (node, word) in words[..words.len() - 1].iter().enumerate() {
                let internal = acting.contains(node as u16);
                let range = tables.ranges[word.get() as usize];
                if range.is_unknown() {
                    self.put_aside(
                        parent,
                        Missing::Successors {
                            node: node as u16,
                            internal,
                        },
                    );
                    continue;
                }
                let count = if internal { range.all } else { range.arrivals };
                let rest = fingerprint ^ tables.mixed[word.get() as usize];
                self.expand_node(
                    tables,
                    words,
                    rest,
                    parent,
                    range.start..range.start + count,
                );
            }
        }
    }

    #[inline(always)]
    fn expand_node<W: Word>(
        &mut self,
        tables: &Tables,
        words: &[W],
        rest: u64,
        parent: u32,
        successors: std::ops::Range<u32>,
    ) {
        let known = &tables.successors[successors.start as usize..successors.end as usize];
        for (offset, successor) in known.iter().enumerate() {
            let number = successors.start + offset as u32;
            match tables.look(words, rest, number, successor) {
                Looked::Up(fingerprint) => self.put(fingerprint, parent, number),
                Looked::Spent => {}
                Looked::Unknown => {
                    self.put_aside(parent, Missing::Deliveries { successor: number })
                }
            }
        }
    }
}

#[inline]
fn is_in(nodes: Nodes, node: u16) -> bool {
    u32::from(node) < Nodes::BITS && nodes >> node & 1 != 0
}
