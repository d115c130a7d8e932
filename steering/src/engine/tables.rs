//! The flat arrays a search reads in its inner loop. Integers only; filled by [`World`](crate::engine::World).

use crate::engine::budget::{Budgets, budget_mix};
use crate::engine::id::{BundleId, Id, NodeStateId};
use crate::model::fault::Fault;
use crate::model::handler::mix;

/// One thing that can happen at a node state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successor {
    /// What the step does to the fingerprint through the node's own word.
    pub(crate) delta: u64,
    /// The node's next word.
    pub(crate) next: u32,
    /// Where in `sends` its parcels stand.
    pub(crate) sends_start: u32,
    pub(crate) sends_count: u16,
    /// The position of the node.
    pub(crate) node: u16,
    /// The fault it is, if any.
    pub(crate) fault: Option<Fault>,
    /// Whether the state after it must be judged.
    pub(crate) noteworthy: bool,
}

/// What a step leaves for one other node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    /// The position of the receiver.
    pub(crate) to: u32,
    /// What it gets.
    pub(crate) bundle: BundleId,
}

/// Where a node state's successors stand: first those the network brings, then the internal ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: u32,
    pub(crate) arrivals: u32,
    pub(crate) all: u32,
}

/// What is known so far, by node state.
#[derive(Debug)]
pub(crate) struct Tables {
    /// One spread word per node state: a fingerprint is their exclusive or.
    pub(crate) mixed: Vec<u64>,
    /// What internal actions at this node state depend on.
    pub(crate) agents: Vec<u32>,
    pub(crate) ranges: Vec<Range>,
    pub(crate) successors: Vec<Successor>,
    pub(crate) sends: Vec<Send>,
    pub(crate) deliveries: Deliveries,
    pub(crate) budgets: Budgets,
}

/// What came of looking a step up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Looked {
    /// The fingerprint of the state it leads to.
    Up(u64),
    /// The fault budget does not allow it.
    Spent,
    /// A delivery it causes was never computed.
    Unknown,
}

impl Range {
    pub(crate) const UNKNOWN: Self = Self {
        start: u32::MAX,
        arrivals: 0,
        all: 0,
    };

    #[inline]
    pub(crate) fn is_unknown(self) -> bool {
        self.start == u32::MAX
    }
}

impl Tables {
    pub(crate) fn new(budgets: Budgets) -> Self {
        Self {
            mixed: Vec::new(),
            agents: Vec::new(),
            ranges: Vec::new(),
            successors: Vec::new(),
            sends: Vec::new(),
            deliveries: Deliveries::default(),
            budgets,
        }
    }

    /// Makes room for one more node state.
    pub(crate) fn push(&mut self, agent: u32) {
        self.mixed.push(mix(self.mixed.len() as u64));
        self.agents.push(agent);
        self.ranges.push(Range::UNKNOWN);
        self.deliveries.rows.push(Row::EMPTY);
    }

    /// Computes a state's fingerprint from scratch. The last word is the budget's.
    #[inline]
    pub(crate) fn fingerprint(&self, words: &[u32]) -> u64 {
        let (budget, nodes) = words
            .split_last()
            .expect("a state has at least its budget word");
        nodes.iter().fold(budget_mix(*budget), |sum, &word| {
            sum ^ self.mixed[word as usize]
        })
    }

    /// Looks up where a step leads, by fingerprint only.
    #[inline]
    pub(crate) fn look(&self, words: &[u32], fingerprint: u64, successor: &Successor) -> Looked {
        let mut fingerprint = fingerprint ^ successor.delta;
        for send in self.sends_of(successor) {
            let word = words[send.to as usize];
            let Some(next) = self.deliveries.look(word, send.bundle) else {
                return Looked::Unknown;
            };
            fingerprint ^= self.mixed[word as usize] ^ self.mixed[next as usize];
        }
        if let Some(fault) = successor.fault {
            let before = words[words.len() - 1];
            let Some(after) = self.budgets.after(before, fault) else {
                return Looked::Spent;
            };
            fingerprint ^= budget_mix(before) ^ budget_mix(after);
        }
        Looked::Up(fingerprint)
    }

    /// Takes a step whose deliveries are known.
    #[inline]
    pub(crate) fn patch(&self, words: &mut [u32], successor: &Successor) {
        words[successor.node as usize] = successor.next;
        for send in self.sends_of(successor) {
            let word = &mut words[send.to as usize];
            *word = self
                .deliveries
                .look(*word, send.bundle)
                .expect("the delivery was looked up before");
        }
        if let (Some(fault), Some(budget)) = (successor.fault, words.last_mut()) {
            *budget = self
                .budgets
                .after(*budget, fault)
                .expect("the budget was looked up before");
        }
    }

    #[inline]
    pub(crate) fn sends_of(&self, successor: &Successor) -> &[Send] {
        let start = successor.sends_start as usize;
        &self.sends[start..start + usize::from(successor.sends_count)]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.mixed.capacity() * (8 + 4 + size_of::<Range>() + size_of::<Row>())
            + self.successors.capacity() * size_of::<Successor>()
            + self.sends.capacity() * size_of::<Send>()
            + self.deliveries.cells.capacity() * size_of::<(u32, u32)>()
    }
}

/// What a bundle makes of a node state: for each node state a small table of its own, addressed by the bundle's
/// number. Bundles are numbered per receiver, so consecutive numbers rarely collide.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    rows: Vec<Row>,
    cells: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    start: u32,
    /// Capacity minus one; capacities are powers of two. Zero for a row without cells, whose `start` is a sentinel.
    mask: u32,
    used: u32,
}

impl Row {
    const EMPTY: Self = Self {
        start: u32::MAX,
        mask: 0,
        used: 0,
    };
}

const FREE: u32 = u32::MAX;

impl Deliveries {
    #[inline]
    pub(crate) fn look(&self, word: u32, bundle: BundleId) -> Option<u32> {
        let row = self.rows[word as usize];
        if row.start == u32::MAX {
            return None;
        }
        let key = bundle.index() as u32;
        let mut at = key & row.mask;
        loop {
            let (found, next) = self.cells[(row.start + at) as usize];
            if found == key {
                return Some(next);
            }
            if found == FREE {
                return None;
            }
            at = (at + 1) & row.mask;
        }
    }

    pub(crate) fn insert(&mut self, word: u32, bundle: BundleId, next: NodeStateId) {
        let row = self.rows[word as usize];
        if row.start == u32::MAX || (row.used + 1) * 4 > (row.mask + 1) * 3 {
            self.grow(word);
        }
        self.place(word, bundle.index() as u32, next.index() as u32);
    }

    fn grow(&mut self, word: u32) {
        let old = self.rows[word as usize];
        let capacity = if old.start == u32::MAX {
            4
        } else {
            (old.mask + 1) * 2
        };
        let start =
            u32::try_from(self.cells.len()).expect("fewer than four billion delivery cells");
        self.cells
            .resize(self.cells.len() + capacity as usize, (FREE, 0));
        self.rows[word as usize] = Row {
            start,
            mask: capacity - 1,
            used: 0,
        };
        if old.start != u32::MAX {
            for at in old.start..=old.start + old.mask {
                let (bundle, next) = self.cells[at as usize];
                if bundle != FREE {
                    self.place(word, bundle, next);
                }
            }
        }
    }

    fn place(&mut self, word: u32, bundle: u32, next: u32) {
        let row = &mut self.rows[word as usize];
        let mut at = bundle & row.mask;
        while self.cells[(row.start + at) as usize].0 != FREE {
            at = (at + 1) & row.mask;
        }
        self.cells[(row.start + at) as usize] = (bundle, next);
        row.used += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_found_however_their_rows_grow() {
        let mut deliveries = Deliveries {
            rows: vec![Row::EMPTY; 3],
            cells: Vec::new(),
        };
        let id = |n| BundleId::from_index(n);
        for bundle in 0..200 {
            for word in 0..3 {
                assert_eq!(deliveries.look(word, id(bundle * 7)), None);
                deliveries.insert(
                    word,
                    id(bundle * 7),
                    NodeStateId::from_index(bundle + word as usize),
                );
            }
        }
        for bundle in 0..200 {
            for word in 0..3 {
                assert_eq!(
                    deliveries.look(word, id(bundle * 7)),
                    Some((bundle + word as usize) as u32)
                );
                assert_eq!(deliveries.look(word, id(bundle * 7 + 1)), None);
            }
        }
    }
}
