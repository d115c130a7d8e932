//! Expanding some states of a level, read-only: every step looked up, its fingerprint sorted by shard.

use crate::engine::tables::{Looked, Nodes, Tables, Word};
use crate::explore::breadth::{SHARDS, Surroundings, shard_of};
use crate::explore::frontier::Rows;
use crate::explore::prune::Pruning;
use crate::explore::visited::nonzero;

/// What came of expanding some states.
#[derive(Debug)]
pub(super) struct Chunk {
    /// By shard, the states that may be new, in the order of their parents.
    pub(super) buckets: Box<[Vec<Candidate>; SHARDS]>,
    /// The steps that the tables did not know.
    pub(super) unknown: Vec<Unknown>,
    /// How many steps were not taken because their nodes are asleep.
    pub(super) skipped: u64,
}

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

impl Chunk {
    pub(super) fn new() -> Self {
        Self {
            buckets: Box::new([const { Vec::new() }; SHARDS]),
            unknown: Vec::new(),
            skipped: 0,
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
                (Rows::Narrow(words), Pruning::Off) => self.expand_all(around, first, words, asleep),
                (Rows::Wide(words), Pruning::Off) => self.expand_all(around, first, words, asleep),
                (Rows::Narrow(words), _) => self.expand_pruned(around, first, words),
                (Rows::Wide(words), _) => self.expand_pruned(around, first, words),
            }
        }
    }

    /// Expands states in which every node may do everything.
    fn expand_all<W: Word>(&mut self, around: &Surroundings<'_>, first: usize, rows: &[W], asleep: &[Nodes]) {
        for (offset, (words, &asleep)) in rows.chunks_exact(around.width).zip(asleep).enumerate() {
            self.expand_state(around.tables, words, (first + offset) as u32, asleep);
        }
    }

    // A function of its own, so that its few variables stay in registers.
    #[inline(never)]
    fn expand_state<W: Word>(&mut self, tables: &Tables, words: &[W], parent: u32, mut asleep: Nodes) {
        let fingerprint = tables.fingerprint(words);
        for (node, word) in words[..words.len() - 1].iter().enumerate() {
            let range = tables.ranges[word.get() as usize];
            let sleeps = asleep & 1 != 0;
            asleep >>= 1;
            if sleeps && range.plain {
                self.skipped += u64::from(range.all);
                continue;
            }
            if range.all == 0 {
                continue;
            }
            if range.is_unknown() {
                self.put_aside(
                    parent,
                    Missing::Successors {
                        node: node as u16,
                        internal: true,
                    },
                );
                continue;
            }
            let successors = range.start..range.start + range.all;
            let rest = fingerprint ^ tables.mixed[word.get() as usize];
            self.expand_node(tables, words, rest, parent, successors);
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
