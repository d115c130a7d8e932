//! Bounded depth-first search over a world's tables: little memory for the frontier, no shortest paths.
//!
//! With each fingerprint it keeps the least depth at which the state was met, and whether it was expanded; a state met
//! again nearer to the start is expanded again. So with the same depth bound it visits exactly the states that the
//! breadth-first search visits (B-33).

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;
use rustc_hash::FxBuildHasher;

use crate::explore::limits::{Limits, Stop};
use crate::explore::shortest::Shortest;
use crate::explore::strategy::{Entry, Found, Walk};
use crate::explore::{Counts, Strategy};
use crate::interned::judge::Finding;
use crate::interned::tables::Looked;
use crate::interned::world::Space;

pub(super) static ENTRY: Entry = Entry {
    name: "depth-first",
    about: "every state within the depth bound, along one path at a time",
    settings: &[],
    threads: false,
    seeded: false,
    goals: false,
    offline: None,
    start: |world, start, plan| Box::new(Depth::new(world, start, plan.limits)),
};

impl Strategy {
    /// Every state within the depth bound, along one path at a time.
    pub const DEPTH_FIRST: Self = Self::of(&ENTRY);
}

/// A depth-first search at rest.
#[derive(Debug)]
struct Depth {
    limits: Limits,
    seen: HashMap<u64, Met, FxBuildHasher>,
    /// The states from the start to where the search is.
    stack: Vec<Visit>,
    transitions: u64,
    /// By least depth, how many states were met there.
    met_at: Vec<u64>,
    /// How many states are met but, for the depth bound, not expanded.
    unexpanded: u64,
    found: Shortest,
    stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug)]
struct Met {
    depth: u32,
    expanded: bool,
}

#[derive(Debug)]
struct Visit {
    words: Vec<u32>,
    fingerprint: u64,
    /// The step that led here; meaningless at the start.
    by: u32,
    node: usize,
    /// The next successor of `node` to be tried, and the end of its range.
    successors: std::ops::Range<u32>,
    /// Whether this is the first expansion, whose steps count as transitions.
    first: bool,
}

impl Depth {
    fn new(world: &mut Space, start: &[u32], limits: Limits) -> Self {
        let mut search = Self {
            limits,
            seen: HashMap::default(),
            stack: Vec::new(),
            transitions: 0,
            met_at: Vec::new(),
            unexpanded: 0,
            found: Shortest::default(),
            stop: None,
        };
        let fingerprint = world.tables().fingerprint(start);
        for finding in world.findings(start, None) {
            search.record(finding, None);
        }
        search.meet(world, start.to_vec(), fingerprint, 0);
        search.check_stop(world);
        search
    }

    fn step(&mut self, world: &mut Space) {
        let Some(visit) = self.stack.last_mut() else {
            return;
        };
        let Some(number) = visit.successors.next() else {
            let nodes = visit.words.len() - 1;
            if visit.node + 1 < nodes {
                visit.node += 1;
                visit.successors = world.successors_of(visit.words[visit.node]);
            } else {
                self.stack.pop();
            }
            return;
        };
        let looked = world.look(&visit.words, visit.fingerprint, number);
        let Looked::Up(fingerprint) = looked else {
            return;
        };
        self.transitions += u64::from(visit.first);
        let mut words = visit.words.clone();
        world.tables().patch(&mut words, number);
        let details = world.tables().details[number as usize];
        if details.noteworthy {
            for finding in world.findings(&words, Some(usize::from(details.node))) {
                self.record(finding, Some(number));
            }
        }
        self.meet(world, words, fingerprint, number);
    }

    /// Goes into a state, unless it was met at this depth or nearer before.
    fn meet(&mut self, world: &mut Space, words: Vec<u32>, fingerprint: u64, by: u32) {
        let depth = self.stack.len() as u32;
        let expand = self.limits.depth.is_none_or(|limit| depth < limit);
        let expanded_before = match self.seen.entry(fingerprint) {
            Slot::Vacant(vacant) => {
                vacant.insert(Met {
                    depth,
                    expanded: expand,
                });
                self.unexpanded += u64::from(!expand);
                false
            }
            Slot::Occupied(mut met) => {
                let met = met.get_mut();
                if met.depth <= depth {
                    return;
                }
                self.met_at[met.depth as usize] -= 1;
                met.depth = depth;
                let expanded_before = met.expanded;
                met.expanded |= expand;
                self.unexpanded -= u64::from(expand && !expanded_before);
                expanded_before
            }
        };
        if self.met_at.len() <= depth as usize {
            self.met_at.resize(depth as usize + 1, 0);
        }
        self.met_at[depth as usize] += 1;
        if expand {
            let successors = world.successors_of(words[0]);
            self.stack.push(Visit {
                words,
                fingerprint,
                by,
                node: 0,
                successors,
                first: !expanded_before,
            });
        }
    }

    /// Keeps what was found where the search is, or a step further.
    fn record(&mut self, finding: Finding, by: Option<u32>) {
        let path: Vec<u32> = self
            .stack
            .iter()
            .skip(1)
            .map(|visit| visit.by)
            .chain(by)
            .collect();
        self.found.record(finding, path);
    }

    fn check_stop(&mut self, world: &Space) {
        let limits = &self.limits;
        self.stop = if limits.first_violation && self.found.has_new() {
            Some(Stop::Violation)
        } else if self.stack.is_empty() {
            Some(if self.unexpanded > 0 {
                Stop::Depth
            } else {
                Stop::Exhausted
            })
        } else if limits
            .states
            .is_some_and(|limit| self.seen.len() as u64 >= limit)
        {
            Some(Stop::States)
        } else if limits
            .bytes
            .is_some_and(|limit| (self.bytes() + world.bytes()) as u64 > limit)
        {
            Some(Stop::Bytes)
        } else {
            None
        };
    }

    fn bytes(&self) -> usize {
        let visit = self
            .stack
            .first()
            .map_or(0, |visit| visit.words.len() * 4 + size_of::<Visit>());
        // A table that is full doubles with the next state, so it counts as doubled before it is.
        let full = self.seen.len() == self.seen.capacity();
        let capacity = if full {
            2 * self.seen.capacity()
        } else {
            self.seen.capacity()
        };
        capacity * (size_of::<(u64, Met)>() + 1) + self.stack.len() * visit
    }
}

impl Walk for Depth {
    fn advance(&mut self, world: &mut Space, steps: u64) -> Option<Stop> {
        for _ in 0..steps {
            if self.stop.is_some() {
                break;
            }
            self.step(world);
            self.check_stop(world);
        }
        self.stop
    }

    fn counts(&self) -> Counts {
        Counts {
            states: self.seen.len() as u64,
            transitions: self.transitions,
            depth: self
                .met_at
                .iter()
                .rposition(|&count| count > 0)
                .unwrap_or(0) as u32,
            frontier: self.stack.len() as u64,
        }
    }

    /// The states on the way to where the search is.
    fn for_each_waiting(&self, see: &mut dyn FnMut(&[u32])) {
        self.stack.iter().for_each(|visit| see(&visit.words));
    }

    fn found_count(&self) -> usize {
        self.found.len()
    }

    fn found(&self, world: &Space, start: &[u32]) -> Vec<Found> {
        self.found.list(world, start)
    }

    fn pass_over_found(&mut self, world: &Space) {
        self.found.pass_over();
        self.check_stop(world);
    }
}
