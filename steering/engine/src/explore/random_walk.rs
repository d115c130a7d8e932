//! Uniform random walks for safety: from the start, one of all possible steps at a time, whichever chance says.
//!
//! It finds what is far away and what there are many ways to. What it does not find may be there.

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::explore::limits::Stop;
use crate::explore::shortest::Shortest;
use crate::explore::strategy::{Entry, Found, Kind, Plan, Setting, Walk};
use crate::explore::{Counts, Strategy};
use crate::interned::world::Space;
use crate::model::handler::mix;

const WALKS: Setting = Setting {
    name: "walks",
    about: "how many walks begin in the start state",
    kind: Kind::Count(1_000),
};
const STEPS: Setting = Setting {
    name: "steps",
    about: "how many steps a walk has, at the most",
    kind: Kind::Count(1_000),
};

pub(super) static ENTRY: Entry = Entry {
    name: "random-walk",
    about: "one of all possible steps at a time, whichever chance says, from the start again and again",
    settings: &[WALKS, STEPS],
    threads: false,
    seeded: true,
    goals: false,
    offline: None,
    start: |world, start, plan| Box::new(RandomWalk::new(world, start, plan)),
};

impl Strategy {
    /// One of all possible steps at a time, whichever chance says.
    pub const RANDOM_WALK: Self = Self::of(&ENTRY);
}

#[derive(Debug)]
struct RandomWalk {
    plan: Plan,
    start: Vec<u32>,
    /// Where the walk is, and the successors that led there.
    words: Vec<u32>,
    path: Vec<u32>,
    walks: u64,
    /// How often the dice were thrown.
    thrown: u64,
    seen: HashSet<u64, FxBuildHasher>,
    transitions: u64,
    depth: u32,
    found: Shortest,
}

impl RandomWalk {
    fn new(world: &mut Space, start: &[u32], plan: Plan) -> Self {
        let mut walk = Self {
            plan,
            start: start.to_vec(),
            words: start.to_vec(),
            path: Vec::new(),
            walks: 0,
            thrown: 0,
            seen: HashSet::default(),
            transitions: 0,
            depth: 0,
            found: Shortest::default(),
        };
        walk.seen.insert(world.tables().fingerprint(start));
        for finding in world.findings(start, None) {
            walk.found.record(finding, Vec::new());
        }
        walk
    }

    /// Takes one step, or begins anew where there is none.
    fn step(&mut self, world: &mut Space) {
        let possible = world.steps_from(&self.words);
        let depth = self.path.len() as u64;
        let limit = self.plan.limits.depth.map_or(u64::MAX, u64::from);
        if possible.is_empty() || depth >= limit.min(self.plan.settings.count(&STEPS)) {
            self.words.clone_from(&self.start);
            self.path.clear();
            self.walks += 1;
            return;
        }
        self.thrown += 1;
        let thrown = mix(mix(self.plan.seed) ^ self.thrown);
        let successor = possible[(thrown % possible.len() as u64) as usize];
        let details = world.tables().details[successor as usize];
        world.tables().patch(&mut self.words, successor);
        self.path.push(successor);
        self.transitions += 1;
        self.depth = self.depth.max(self.path.len() as u32);
        self.seen.insert(world.tables().fingerprint(&self.words));
        if details.noteworthy {
            for finding in world.findings(&self.words, Some(usize::from(details.node))) {
                self.found.record(finding, self.path.clone());
            }
        }
    }

    fn stop(&self, world: &Space) -> Option<Stop> {
        let limits = &self.plan.limits;
        let bytes = || self.seen.capacity() * (size_of::<u64>() + 1) + world.bytes();
        if limits.first_violation && self.found.has_new() {
            Some(Stop::Violation)
        } else if self.walks >= self.plan.settings.count(&WALKS) {
            Some(Stop::Enough)
        } else if limits
            .states
            .is_some_and(|limit| self.seen.len() as u64 >= limit)
        {
            Some(Stop::States)
        } else if limits.bytes.is_some_and(|limit| bytes() as u64 > limit) {
            Some(Stop::Bytes)
        } else {
            None
        }
    }
}

impl Walk for RandomWalk {
    fn advance(&mut self, world: &mut Space, steps: u64) -> Option<Stop> {
        for _ in 0..steps {
            let stop = self.stop(world);
            if stop.is_some() {
                return stop;
            }
            self.step(world);
        }
        self.stop(world)
    }

    fn counts(&self) -> Counts {
        Counts {
            states: self.seen.len() as u64,
            transitions: self.transitions,
            depth: self.depth,
            frontier: 1,
        }
    }

    fn for_each_waiting(&self, see: &mut dyn FnMut(&[u32])) {
        see(&self.words);
    }

    fn found_count(&self) -> usize {
        self.found.len()
    }

    fn found(&self, world: &Space, start: &[u32]) -> Vec<Found> {
        self.found.list(world, start)
    }

    fn pass_over_found(&mut self, _: &Space) {
        self.found.pass_over();
    }
}
