//! Bounded depth-first search over a world's tables: little memory for the frontier, no shortest paths.
//!
//! With each fingerprint it keeps the least depth at which the state was met, and whether it was expanded; a state met
//! again nearer to the start is expanded again. So with the same depth bound it visits exactly the states that the
//! breadth-first search visits (B-33).

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rustc_hash::FxBuildHasher;

use crate::explore::limits::{Limits, Stop};
use crate::explore::{Counts, Found, Trail};
use crate::interned::World;
use crate::interned::judge::Finding;
use crate::interned::tables::Looked;
use crate::interned::transitions::Transitions;

/// A depth-first search at rest.
#[derive(Debug)]
pub(crate) struct Depth {
    limits: Limits,
    seen: HashMap<u64, Met, FxBuildHasher>,
    /// The states from the start to where the search is.
    stack: Vec<Visit>,
    transitions: u64,
    /// By least depth, how many states were met there.
    met_at: Vec<u64>,
    /// How many states are met but, for the depth bound, not expanded.
    unexpanded: u64,
    found: Vec<(Finding, Vec<u32>)>,
    /// How many findings the search does not stop for.
    passed: usize,
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
    pub(crate) fn new<T: Transitions>(world: &mut World<T>, start: &[u32], limits: Limits) -> Self {
        let mut search = Self {
            limits,
            seen: HashMap::default(),
            stack: Vec::new(),
            transitions: 0,
            met_at: Vec::new(),
            unexpanded: 0,
            found: Vec::new(),
            passed: 0,
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

    /// Goes on until about this many more steps are looked up, or the search ends.
    pub(crate) fn advance<T: Transitions>(
        &mut self,
        world: &mut World<T>,
        steps: u64,
    ) -> Option<Stop> {
        for _ in 0..steps {
            if self.stop.is_some() {
                break;
            }
            self.step(world);
            self.check_stop(world);
        }
        self.stop
    }

    pub(crate) fn counts(&self) -> Counts {
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

    /// Shows the words of every state on the way to where the search is.
    pub(crate) fn for_each_waiting(&self, see: impl FnMut(&[u32])) {
        let words = self.stack.iter().map(|visit| visit.words.as_slice());
        words.for_each(see);
    }

    fn step<T: Transitions>(&mut self, world: &mut World<T>) {
        let Some(visit) = self.stack.last_mut() else {
            return;
        };
        let Some(number) = visit.successors.next() else {
            let nodes = visit.words.len() - 1;
            if visit.node + 1 < nodes {
                visit.node += 1;
                visit.successors = successors_of(world, visit.words[visit.node]);
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
    fn meet<T: Transitions>(
        &mut self,
        world: &mut World<T>,
        words: Vec<u32>,
        fingerprint: u64,
        by: u32,
    ) {
        let depth = self.stack.len() as u32;
        let expand = self.limits.depth.is_none_or(|limit| depth < limit);
        let expanded_before = match self.seen.entry(fingerprint) {
            Entry::Vacant(vacant) => {
                vacant.insert(Met {
                    depth,
                    expanded: expand,
                });
                self.unexpanded += u64::from(!expand);
                false
            }
            Entry::Occupied(mut met) => {
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
            let successors = successors_of(world, words[0]);
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

    /// Keeps what was found, with the shortest path seen for it.
    fn record(&mut self, finding: Finding, by: Option<u32>) {
        let path: Vec<u32> = self
            .stack
            .iter()
            .skip(1)
            .map(|visit| visit.by)
            .chain(by)
            .collect();
        match self.found.iter_mut().find(|(known, _)| *known == finding) {
            Some((_, known)) if known.len() <= path.len() => {}
            Some((_, known)) => *known = path,
            None => self.found.push((finding, path)),
        }
    }

    fn check_stop<T: Transitions>(&mut self, world: &World<T>) {
        let limits = &self.limits;
        self.stop = if limits.first_violation && self.found.len() > self.passed {
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

    /// Goes on after what was found so far.
    pub(crate) fn pass_over_found<T: Transitions>(&mut self, world: &World<T>) {
        self.passed = self.found.len();
        self.check_stop(world);
    }

    pub(crate) fn found_count(&self) -> usize {
        self.found.len()
    }

    /// Lists what was found, in order of discovery, each with the steps that lead there.
    pub(crate) fn found<T: Transitions>(&self, world: &World<T>, start: &[u32]) -> Vec<Found> {
        let trail = |path: &[u32]| {
            let mut words = start.to_vec();
            for &step in path {
                world.tables().patch(&mut words, step);
            }
            Trail {
                successors: path.to_vec(),
                words,
            }
        };
        self.found
            .iter()
            .map(|(finding, path)| trail(path).into_found(finding.clone()))
            .collect()
    }
}

fn successors_of<T: Transitions>(world: &mut World<T>, word: u32) -> std::ops::Range<u32> {
    world.expand(word);
    let range = world.tables().ranges[word as usize];
    range.start..range.start + range.all
}
