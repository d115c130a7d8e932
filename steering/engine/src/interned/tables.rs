//! The flat arrays a search reads in its inner loop. Integers only; filled by [`World`](crate::interned::World).

use crate::interned::allowance::Allowances;
use crate::interned::id::{BundleId, Id, NodeStateId};
use crate::interned::sleep::Nodes;
use crate::model::fault::Fault;
use crate::model::handler::mix;

/// One word of a global state, in the size it is kept in.
pub(crate) trait Word: Copy {
    fn get(self) -> u32;
    /// Keeps an id that is known to fit.
    fn of(id: u32) -> Self;
}

impl Word for u16 {
    #[inline]
    fn get(self) -> u32 {
        u32::from(self)
    }

    #[inline]
    fn of(id: u32) -> Self {
        debug_assert!(
            id <= u32::from(Self::MAX),
            "the caller made sure that ids fit"
        );
        id as Self
    }
}

impl Word for u32 {
    #[inline]
    fn get(self) -> u32 {
        self
    }

    #[inline]
    fn of(id: u32) -> Self {
        id
    }
}

/// One thing that can happen at a node state, as far as the inner loop reads it. Small, so that all of them stay in
/// the processor's cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successor {
    /// The node's next word.
    pub(crate) next: u32,
    /// What is left for whom, if it is for one node only.
    pub(crate) bundle: BundleId,
    pub(crate) to: u16,
    /// Whom it touches beside its own node.
    pub(crate) reach: Reach,
    /// Whether it deals in datagrams only.
    pub(crate) plain: bool,
}

/// The rest of a successor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Details {
    /// Where in `sends` its parcels stand.
    pub(crate) sends_start: u32,
    pub(crate) sends_count: u16,
    /// The position of the node.
    pub(crate) node: u16,
    /// Its number among the steps of its node state.
    pub(crate) number: u32,
    /// The fault it is, if any.
    pub(crate) fault: Option<Fault>,
    /// Whether the state after it must be judged.
    pub(crate) noteworthy: bool,
    /// Who is asleep in the state after it.
    pub(crate) asleep: Nodes,
}

/// How much of a state a step touches beside the word of its node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reach {
    /// Nothing.
    Nobody,
    /// One other node.
    One,
    /// Several nodes, or the allowance.
    Further,
}

/// What a step leaves for one other node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    /// The position of the receiver.
    pub(crate) to: u16,
    /// What it gets.
    pub(crate) bundle: BundleId,
}

/// Where a node state's successors stand: first those the network brings, then the internal ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The node state's spread word, once more: who reads the one reads the other.
    pub(crate) mixed: u64,
    pub(crate) start: u32,
    pub(crate) arrivals: u32,
    pub(crate) all: u32,
    /// Whether all of them are plain.
    pub(crate) plain: bool,
}

/// What is known so far, by node state.
#[derive(Debug)]
pub(crate) struct Tables {
    /// One spread word per node state: a fingerprint is their exclusive or. Of the id, not of the content, so that no two
    /// are equal, and that which state is found first does not depend on contents.
    pub(crate) mixed: Vec<u64>,
    /// What the properties see of this node state, spread.
    pub(crate) stances: Vec<u64>,
    /// What internal actions at this node state depend on.
    pub(crate) agents: Vec<u32>,
    pub(crate) ranges: Vec<Range>,
    pub(crate) successors: Vec<Successor>,
    pub(crate) details: Vec<Details>,
    pub(crate) sends: Vec<Send>,
    pub(crate) deliveries: Deliveries,
    pub(crate) allowances: Allowances,
}

/// What came of looking a step up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Looked {
    /// The fingerprint of the state it leads to.
    Up(u64),
    /// The fault allowance does not allow it.
    Spent,
    /// A delivery it causes was never computed.
    Unknown,
}

impl Range {
    /// Looks busy, so that the inner loop needs to tell it apart only where something can happen.
    fn unknown(mixed: u64) -> Self {
        Self {
            mixed,
            start: u32::MAX,
            arrivals: u32::MAX,
            all: u32::MAX,
            plain: false,
        }
    }

    #[inline]
    pub(crate) fn is_unknown(self) -> bool {
        self.start == u32::MAX
    }
}

impl Tables {
    pub(crate) fn new(allowances: Allowances) -> Self {
        Self {
            mixed: Vec::new(),
            stances: Vec::new(),
            agents: Vec::new(),
            ranges: Vec::new(),
            successors: Vec::new(),
            details: Vec::new(),
            sends: Vec::new(),
            deliveries: Deliveries::default(),
            allowances,
        }
    }

    /// Makes room for one more node state.
    pub(crate) fn push(&mut self, agent: u32, stance: u64) {
        self.stances.push(stance);
        let mixed = mix(self.mixed.len() as u64);
        self.mixed.push(mixed);
        self.agents.push(agent);
        self.ranges.push(Range::unknown(mixed));
        self.deliveries.push();
    }

    /// Computes a state's fingerprint from scratch. The last word is the allowance's.
    // Not inlined, so that the sum stays in a register.
    #[inline(never)]
    pub(crate) fn fingerprint<W: Word>(&self, words: &[W]) -> u64 {
        let (allowance, nodes) = words
            .split_last()
            .expect("a state has at least its allowance word");
        let allowance = self.allowances.mixed(allowance.get());
        nodes
            .iter()
            .fold(allowance, |sum, word| sum ^ self.mixed[word.get() as usize])
    }

    /// Looks up where a step leads, by fingerprint only. `rest` is the fingerprint without the word of the step's node.
    ///
    /// Most steps leave at most one parcel and are no fault; the others are kept out of the way of the inner loop.
    #[inline(always)]
    pub(crate) fn look<W: Word>(
        &self,
        words: &[W],
        rest: u64,
        number: u32,
        successor: &Successor,
    ) -> Looked {
        let fingerprint = rest ^ self.mixed[successor.next as usize];
        match successor.reach {
            Reach::Nobody => Looked::Up(fingerprint),
            Reach::One => {
                let word = words[usize::from(successor.to)].get();
                match self.deliveries.look(word, successor.bundle) {
                    Some(next) => Looked::Up(
                        fingerprint ^ self.mixed[word as usize] ^ self.mixed[next as usize],
                    ),
                    None => Looked::Unknown,
                }
            }
            Reach::Further => self.look_further(words, fingerprint, number),
        }
    }

    #[inline(never)]
    fn look_further<W: Word>(&self, words: &[W], mut fingerprint: u64, number: u32) -> Looked {
        let details = &self.details[number as usize];
        if let Some(fault) = details.fault {
            let before = words[words.len() - 1].get();
            let Some(after) = self.allowances.after(before, fault) else {
                return Looked::Spent;
            };
            fingerprint ^= self.allowances.mixed(before) ^ self.allowances.mixed(after);
        }
        for send in self.sends_of(details) {
            let word = words[send.to as usize].get();
            let Some(next) = self.deliveries.look(word, send.bundle) else {
                return Looked::Unknown;
            };
            fingerprint ^= self.mixed[word as usize] ^ self.mixed[next as usize];
        }
        Looked::Up(fingerprint)
    }

    /// Takes a step whose deliveries are known. The words must be wide enough for every id there is.
    #[inline]
    pub(crate) fn patch<W: Word>(&self, words: &mut [W], number: u32) {
        let details = &self.details[number as usize];
        words[details.node as usize] = W::of(self.successors[number as usize].next);
        for send in self.sends_of(details) {
            let word = &mut words[send.to as usize];
            let next = self.deliveries.look(word.get(), send.bundle);
            *word = W::of(next.expect("the delivery was looked up before"));
        }
        if let (Some(fault), Some(allowance)) = (details.fault, words.last_mut()) {
            let after = self.allowances.after(allowance.get(), fault);
            *allowance = W::of(after.expect("the allowance was looked up before"));
        }
    }

    /// Takes a step if its deliveries are known, and tells whether they are: as [`look`](Self::look) and then
    /// [`patch`](Self::patch), in one go.
    #[inline]
    pub(crate) fn take(&self, words: &mut [u32], number: u32) -> bool {
        let successor = &self.successors[number as usize];
        match successor.reach {
            Reach::Nobody => {}
            Reach::One => {
                let word = &mut words[usize::from(successor.to)];
                match self.deliveries.look(*word, successor.bundle) {
                    Some(next) => *word = next,
                    None => return false,
                }
            }
            Reach::Further => {
                let is_known = self.look(words, 0, number, successor) != Looked::Unknown;
                if is_known {
                    self.patch(words, number);
                }
                return is_known;
            }
        }
        words[usize::from(self.details[number as usize].node)] = successor.next;
        true
    }

    /// Sums up what the properties see of a state. It is exact up to the collisions that bound every verdict.
    #[inline]
    pub(crate) fn stance<W: Word>(&self, words: &[W]) -> u64 {
        let nodes = &words[..words.len() - 1];
        nodes
            .iter()
            .fold(0, |sum, word| sum ^ self.stances[word.get() as usize])
    }

    /// Tells whether every id fits into 16 bits.
    pub(crate) fn is_narrow(&self) -> bool {
        self.mixed.len() <= 1 << 16
    }

    #[inline]
    pub(crate) fn sends_of(&self, details: &Details) -> &[Send] {
        let start = details.sends_start as usize;
        &self.sends[start..start + usize::from(details.sends_count)]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.mixed.capacity() * (8 + 8 + 4 + 4 + size_of::<Range>() + size_of::<Row>())
            + self.successors.capacity() * (size_of::<Successor>() + size_of::<Details>())
            + self.sends.capacity() * size_of::<Send>()
            + self.deliveries.cells.capacity() * size_of::<Cell>()
    }
}

/// What a bundle makes of a node state: for each node state a small table of its own, addressed by the bundle's
/// number. Bundles are numbered per receiver, so consecutive numbers rarely collide.
#[derive(Debug)]
pub(crate) struct Deliveries {
    rows: Vec<Row>,
    /// The first cell is free for ever: it is what a row without cells of its own points to.
    cells: Vec<Cell>,
    used: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    start: u32,
    /// Capacity minus one; capacities are powers of two.
    mask: u32,
}

/// A bundle and the word it leads to.
type Cell = (u32, u32);

const EMPTY: Row = Row { start: 0, mask: 0 };
const FREE: Cell = (u32::MAX, 0);
const ROW_MIN: u32 = 4;

impl Default for Deliveries {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            cells: vec![FREE],
            used: Vec::new(),
        }
    }
}

impl Deliveries {
    fn push(&mut self) {
        self.rows.push(EMPTY);
        self.used.push(0);
    }

    #[inline(always)]
    pub(crate) fn look(&self, word: u32, bundle: BundleId) -> Option<u32> {
        let row = self.rows[word as usize];
        let key = bundle.index() as u32;
        let (found, next) = self.cells[(row.start + (key & row.mask)) as usize];
        if found == key {
            Some(next)
        } else {
            self.look_beyond(row, key)
        }
    }

    #[inline(never)]
    fn look_beyond(&self, row: Row, key: u32) -> Option<u32> {
        let mut at = key & row.mask;
        loop {
            let (found, next) = self.cells[(row.start + at) as usize];
            if found == key {
                return Some(next);
            }
            if found == FREE.0 {
                return None;
            }
            at = (at + 1) & row.mask;
        }
    }

    pub(crate) fn insert(&mut self, word: u32, bundle: BundleId, next: NodeStateId) {
        let capacity = self.rows[word as usize].mask + 1;
        if (self.used[word as usize] + 1) * 2 > capacity {
            self.grow(word);
        }
        self.used[word as usize] += 1;
        self.place(word, (bundle.index() as u32, next.index() as u32));
    }

    fn grow(&mut self, word: u32) {
        let old = self.rows[word as usize];
        let start =
            u32::try_from(self.cells.len()).expect("fewer than four billion delivery cells");
        let capacity = (2 * (old.mask + 1)).max(ROW_MIN);
        self.cells
            .resize(self.cells.len() + capacity as usize, FREE);
        self.rows[word as usize] = Row {
            start,
            mask: capacity - 1,
        };
        for at in old.start..=old.start + old.mask {
            let cell = self.cells[at as usize];
            if cell.0 != FREE.0 {
                self.place(word, cell);
            }
        }
    }

    fn place(&mut self, word: u32, cell: Cell) {
        let row = self.rows[word as usize];
        let mut at = cell.0 & row.mask;
        while self.cells[(row.start + at) as usize].0 != FREE.0 {
            at = (at + 1) & row.mask;
        }
        self.cells[(row.start + at) as usize] = cell;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_found_however_their_rows_grow() {
        let mut deliveries = Deliveries::default();
        let id = BundleId::from_index;
        (0..3).for_each(|_| deliveries.push());
        for bundle in 0..200 {
            for word in 0..3 {
                assert_eq!(deliveries.look(word, id(bundle * 7)), None);
                let next = NodeStateId::from_index(bundle + word as usize);
                deliveries.insert(word, id(bundle * 7), next);
            }
        }
        for bundle in 0..200 {
            for word in 0..3 {
                let expected = (bundle + word as usize) as u32;
                assert_eq!(deliveries.look(word, id(bundle * 7)), Some(expected));
                assert_eq!(deliveries.look(word, id(bundle * 7 + 1)), None);
            }
        }
    }
}
