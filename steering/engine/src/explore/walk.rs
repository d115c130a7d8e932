//! MaceMC's search (Alg. 1 to 3) on the tables: everything up to a depth, and from each state at that edge random walks that must
//! reach what `eventually` properties ask for.
//!
//! The exhaustive part grows by an increment at a time (B-9), as long as an execution has steps left for a walk. States are told apart by fingerprint with their least depth, found
//! level by level; so no state is begun from twice (B-31), none is lost because it was met deeper before (B-33), and what
//! walks visit prunes nothing (B-34). Handlers run once per local state and input, so nothing is executed again to get back
//! to a state (B-35). A goal that holds within the exhaustive part counts for nothing (B-12): it must hold in the walk.
//!
//! A walk that fails is a suspicion. Its critical transition is looked for by more walks (`liveness::critical`), and what
//! can follow the state after it is enumerated as far as a bound goes: if that is all, the state is proved dead, or the suspicion is
//! refuted. If the exhaustive part comes to an end, every state is classified, as by `exhaustive`. With `exact` off neither is done,
//! and walks are all there is, as published.

mod edge;
mod exact;
mod probe;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::explore::limits::{Limits, Stop};
use crate::explore::liveness::{
    Book, Case, FAULT_RECOVERY, Odds, Stroll, WEIGHT_CALL, WEIGHT_FAULT, WEIGHT_MESSAGE,
    WEIGHT_TIMER, take,
};
use crate::explore::report::{Cycles, GoalReport, STEPS_SHOWN, Standing, Walked};
use crate::explore::shortest::Shortest;
use crate::explore::strategy::{Claim, Entry, Found, Kind, Plan, Setting, Walk, steps};
use crate::explore::walk::edge::Edge;
use crate::explore::walk::exact::Exact;
use crate::explore::walk::probe::Probe;
use crate::explore::{Counts, Strategy};
use crate::interned::world::Space;
use crate::property::Kind as PropertyKind;

const WALKS: Setting = Setting {
    name: "walks",
    about: "how many walks begin in each state at the edge of the exhaustive part",
    kind: Kind::Count(1),
};
const LENGTH: Setting = Setting {
    name: "length",
    about: "how many steps an execution has, the exhaustive part included",
    kind: Kind::Count(10_000),
};
const INCREMENT: Setting = Setting {
    name: "increment",
    about: "by how many steps the exhaustive part grows",
    kind: Kind::Count(5),
};
const PREFIX: Setting = Setting {
    name: "prefix",
    about: "begin where all `eventually` properties hold after a walk of at least so many steps; 0 for the start state",
    kind: Kind::Amount(0),
};
const PROBES: Setting = Setting {
    name: "probes",
    about: "how many walks must fail before a state counts as one that does not recover",
    kind: Kind::Count(60),
};
const RAISE_LENGTH: Setting = Setting {
    name: "raise-length",
    about: "whether to double the length, three times at the most, where it does not suffice to decide",
    kind: Kind::Switch(false),
};

const EXACT: Setting = Setting {
    name: "exact",
    about: "whether what can be enumerated is told exactly; off: by walks alone",
    kind: Kind::Switch(true),
};

pub(super) static ENTRY: Entry = Entry {
    name: "walk",
    about: "everything up to a depth that grows, and random walks from there that must reach `eventually` properties",
    settings: &[
        WALKS,
        LENGTH,
        INCREMENT,
        PREFIX,
        PROBES,
        RAISE_LENGTH,
        EXACT,
        WEIGHT_CALL,
        WEIGHT_MESSAGE,
        WEIGHT_TIMER,
        WEIGHT_FAULT,
        FAULT_RECOVERY,
    ],
    threads: false,
    seeded: true,
    goals: true,
    offline: Some("suspects what it does not prove, which is nothing to act on"),
    start: |world, start, plan| Box::new(Walks::new(world, start, plan)),
};

impl Strategy {
    /// Everything up to a depth that grows, and random walks from there.
    pub const WALK: Self = Self::of(&ENTRY);
}

/// How many steps of a walk are taken between two looks at the limits.
const STRETCH: u64 = 64;
/// How often a length can be doubled.
const RAISES_MAX: u32 = 3;
/// How many states are enumerated to prove or refute all suspicions together.
const AHEAD_ALL_MAX: usize = 200_000;
/// How many walks are tried to find a prefix.
const PREFIX_TRIES: u64 = 100;

#[derive(Debug)]
struct Walks {
    limits: Limits,
    seed: u64,
    per_state: u64,
    length: usize,
    increment: u32,
    probes: u64,
    raises: u32,
    faults: bool,
    book: Book,
    odds: Odds,
    start: Vec<u32>,
    /// What leads to where the exhaustive part begins, and how many steps that is at the least.
    prefix: Vec<u32>,
    prefix_min: usize,
    edge: Edge,
    task: Task,
    /// A walk that is over: the next one has its room.
    spare: Stroll,
    /// How many walks were begun, of all kinds: each has dice of its own.
    begun: u64,
    transitions: u64,
    depth: u32,
    /// What the properties saw, summed up, in states in which nothing was wrong.
    fine: HashSet<u64, FxBuildHasher>,
    found: Shortest,
    suspects: Vec<Suspect>,
    /// The targets of `suspects`, a bit each.
    suspected: u32,
    refuted: u64,
    /// Whether to enumerate, and how many states may still be.
    exactly: bool,
    ahead_left: usize,
    /// The classes of all states, once nothing is left to explore.
    exact: Exact,
    /// How many suspects the search does not stop for.
    passed: usize,
    /// By target.
    walked: Vec<Walked>,
    /// By `sometimes` goal: the least number of steps seen.
    reached: Vec<Option<u32>>,
    perhaps: u32,
}

#[derive(Debug)]
enum Task {
    /// A walk to where the exhaustive part is to begin.
    Prefix(Stroll),
    /// A walk from a state at the edge, the how manieth of that state.
    Walk {
        place: usize,
        time: u64,
        stroll: Stroll,
    },
    /// The exhaustive part grows up to a depth; so many states of its edge are expanded.
    Grow {
        place: usize,
        until: u32,
    },
    /// The critical transition of an execution.
    Probe(Box<Probe>),
    Over(Stop),
}

/// A state that walks did not get out of.
#[derive(Debug)]
struct Suspect {
    target: usize,
    /// How many violations of safety were found before.
    after: usize,
    path: Vec<u32>,
    case: Case,
    /// How many steps walks from it had.
    room: u64,
    proved: bool,
    live: Vec<Vec<u32>>,
}

impl Walks {
    fn new(world: &mut Space, start: &[u32], plan: Plan) -> Self {
        let settings = &plan.settings;
        let count = |setting: &Setting| settings.count(setting);
        let faults = settings.is_on(&FAULT_RECOVERY);
        let book = Book::new(world.goals());
        let mut walks = Self {
            limits: plan.limits,
            seed: plan.seed,
            per_state: count(&WALKS),
            length: usize::try_from(count(&LENGTH)).unwrap_or(usize::MAX),
            increment: count(&INCREMENT).min(u64::from(u32::MAX)) as u32,
            probes: count(&PROBES),
            raises: match settings.is_on(&RAISE_LENGTH) {
                true => RAISES_MAX,
                false => 0,
            },
            faults,
            odds: Odds::of(settings, faults),
            start: start.to_vec(),
            prefix: Vec::new(),
            prefix_min: usize::try_from(count(&PREFIX)).unwrap_or(usize::MAX),
            edge: Edge::at(world, start),
            task: Task::Over(Stop::Enough),
            spare: Stroll::default(),
            begun: 0,
            transitions: 0,
            depth: 0,
            fine: HashSet::default(),
            found: Shortest::default(),
            suspects: Vec::new(),
            suspected: 0,
            refuted: 0,
            exactly: settings.is_on(&EXACT),
            ahead_left: AHEAD_ALL_MAX,
            exact: Exact::NotYet,
            passed: 0,
            walked: vec![Walked::default(); book.targets().len()],
            reached: vec![None; book.sometimes().len()],
            perhaps: 0,
            book,
        };
        for finding in world.findings(start, None) {
            walks.found.record(finding, Vec::new());
        }
        walks.see(world, start, 0);
        walks.task = match walks.prefix_min {
            0 => walks.walk_from(world, 0, 0),
            _ => Task::Prefix(walks.stroll_from_start(world)),
        };
        walks
    }

    fn stroll(&mut self, world: &mut Space, words: &[u32]) -> Stroll {
        self.begun += 1;
        let judged = self.book.judge(world, words);
        let spare = std::mem::take(&mut self.spare);
        spare.begin(words, judged, self.seed, self.begun)
    }

    fn stroll_from_start(&mut self, world: &mut Space) -> Stroll {
        let start = self.start.clone();
        self.stroll(world, &start)
    }

    fn walk_from(&mut self, world: &mut Space, place: usize, time: u64) -> Task {
        self.begun += 1;
        let words = self.edge.start(place);
        let judged = self.book.judge(world, words);
        let spare = std::mem::take(&mut self.spare);
        Task::Walk {
            place,
            time,
            stroll: spare.begin(words, judged, self.seed, self.begun),
        }
    }

    /// Notes what a state is to `sometimes` goals.
    fn see(&mut self, world: &mut Space, words: &[u32], steps: usize) {
        if !self.reached.is_empty() {
            let judged = self.book.judge(world, words);
            self.note(judged.sometimes, judged.perhaps, steps);
        }
    }

    fn note(&mut self, sometimes: u32, perhaps: u32, steps: usize) {
        self.perhaps |= perhaps;
        for (at, reached) in self.reached.iter_mut().enumerate() {
            if sometimes >> at & 1 != 0 {
                let least = reached.map_or(u32::MAX, |known| known);
                *reached = Some(least.min(steps as u32));
            }
        }
    }

    /// Takes a step of a walk, and judges where it leads. `before` is what leads to where the walk began, in `steps` steps.
    fn step(
        &mut self,
        world: &mut Space,
        stroll: &mut Stroll,
        steps: usize,
        before: impl Fn(&Self) -> Vec<u32>,
    ) -> bool {
        let Some(step) = stroll.step(world, &mut self.odds, &mut self.book) else {
            return false;
        };
        self.transitions += 1;
        let details = &world.tables().details[step as usize];
        let (noteworthy, node) = (details.noteworthy, usize::from(details.node));
        // Safety holds in walks too (B-11).
        if noteworthy && self.fine.insert(world.tables().stance(&stroll.words)) {
            let findings = world.findings(&stroll.words, Some(node));
            if !findings.is_empty() {
                // Another node may be what is wrong next time.
                self.fine.remove(&world.tables().stance(&stroll.words));
            }
            for finding in findings {
                let mut path = before(self);
                path.extend(&stroll.path);
                self.found.record(finding, path);
            }
        }
        if !self.reached.is_empty() && stroll.judged.sometimes != 0 {
            self.note(stroll.judged.sometimes, 0, steps + stroll.path.len());
        }
        true
    }

    /// Returns the steps from the start to a state in which walks begin.
    fn trail(&self, place: usize) -> Vec<u32> {
        let mut path = self.edge.trail(place);
        path.splice(0..0, self.prefix.iter().copied());
        path
    }

    /// Returns the words of the state that an execution reaches after some steps.
    fn after(&self, world: &mut Space, execution: &[u32]) -> Vec<u32> {
        let mut words = self.start.clone();
        for &step in execution {
            take(world, &mut words, step);
        }
        words
    }

    fn advance_prefix(&mut self, world: &mut Space, mut stroll: Stroll) -> Task {
        let all = self.book.all();
        if stroll.path.len() >= self.prefix_min && stroll.judged.holds & all == all {
            self.prefix = stroll.path;
            self.edge = Edge::at(world, &stroll.words);
            return self.walk_from(world, 0, 0);
        }
        let room = self.length.max(self.prefix_min);
        if stroll.path.len() < room && self.step(world, &mut stroll, 0, |_| Vec::new()) {
            return Task::Prefix(stroll);
        }
        if self.begun >= PREFIX_TRIES {
            return Task::Over(Stop::Enough);
        }
        Task::Prefix(self.stroll_from_start(world))
    }

    /// Goes on with a walk for so many steps at the most, and returns how many it took.
    fn advance_walk(
        &mut self,
        world: &mut Space,
        (place, time): (usize, u64),
        mut stroll: Stroll,
        steps_max: u64,
    ) -> (Task, u64) {
        let all = self.book.all();
        let depth = self.edge.depth_of(place) as usize;
        let room = self.length.saturating_sub(depth);
        let steps = self.prefix.len() + depth;
        let from_edge = place < self.edge.len();
        let mut taken = 0;
        let stuck = loop {
            let held = stroll.held;
            if all != 0 && held == all || stroll.path.len() >= room {
                break false;
            }
            if taken == steps_max || self.limits.first_violation && self.found.has_new() {
                let task = Task::Walk {
                    place,
                    time,
                    stroll,
                };
                return (task, taken);
            }
            if !self.step(world, &mut stroll, steps, |walks| walks.trail(place)) {
                break true;
            }
            taken += 1;
            if stroll.held != held && from_edge {
                self.count_held(&stroll, stroll.held & !held);
            }
        };
        (self.end_walk(world, (place, time), stroll, stuck), taken)
    }

    /// Draws the conclusions from a walk that is over, and begins the next one.
    fn end_walk(
        &mut self,
        world: &mut Space,
        (place, time): (usize, u64),
        mut stroll: Stroll,
        stuck: bool,
    ) -> Task {
        let all = self.book.all();
        let held = stroll.held;
        let from_edge = place < self.edge.len();
        if stuck {
            // Where nothing happens any more, what holds goes on to hold (B-16).
            if from_edge {
                self.count_held(&stroll, stroll.judged.holds & !held);
            }
            stroll.held |= stroll.judged.holds;
        }
        // The leaves lie nearer: when walks from there are live is another question (B-42).
        for walked in self.walked.iter_mut().filter(|_| from_edge) {
            walked.walks += 1;
        }
        // A walk that came where it is not known whether a goal holds proves nothing, and is no reason for suspicion.
        let missed = all & !stroll.held & !stroll.unsure;
        let suspicious = missed & !self.suspected;
        if suspicious != 0 {
            let mut execution = self.trail(place);
            execution.extend(&stroll.path);
            return self.begin_probe(world, execution, stuck, suspicious, (place, time));
        }
        self.spare = stroll;
        self.next_walk(world, place, time)
    }

    fn count_held(&mut self, stroll: &Stroll, new: u32) {
        for (at, walked) in self.walked.iter_mut().enumerate() {
            if new >> at & 1 != 0 {
                walked.count(stroll.path.len() as u64);
            }
        }
    }

    fn next_walk(&mut self, world: &mut Space, place: usize, time: u64) -> Task {
        if time + 1 < self.per_state {
            return self.walk_from(world, place, time + 1);
        }
        if place + 1 < self.edge.starts() {
            return self.walk_from(world, place + 1, 0);
        }
        if self.edge.len() == 0 {
            return Task::Over(Stop::Exhausted);
        }
        let depth = self.edge.depth;
        if self.limits.depth.is_some_and(|limit| depth >= limit) {
            return Task::Over(Stop::Depth);
        }
        // Where the edge is as far as executions are long, no step would be left for a walk.
        let farthest = u32::try_from(self.length - 1).unwrap_or(u32::MAX);
        if depth >= farthest {
            return Task::Over(Stop::Enough);
        }
        let until = depth.saturating_add(self.increment).min(farthest);
        let until = until.min(self.limits.depth.unwrap_or(u32::MAX));
        self.edge.forget_leaves();
        Task::Grow { place: 0, until }
    }

    /// Expands one state at the edge.
    fn grow(&mut self, world: &mut Space, place: usize, until: u32) -> Task {
        let width = self.edge.width;
        if place == self.edge.len() {
            self.edge.step_out();
            if self.edge.len() == 0 {
                return match self.edge.starts() {
                    0 => Task::Over(Stop::Exhausted),
                    _ => self.walk_from(world, 0, 0),
                };
            }
            self.depth = self.depth.max(self.edge.depth);
            if self.edge.depth < until {
                return Task::Grow { place: 0, until };
            }
            // What is known of walks is about those from the edge as it is now (B-42).
            self.walked.fill(Walked {
                depth: self.edge.depth,
                ..Walked::default()
            });
            return self.walk_from(world, 0, 0);
        }
        let words = self.edge.words[place * width..(place + 1) * width].to_vec();
        let mut leads_on = self.book.targets().is_empty();
        for step in world.steps_from(&words) {
            self.transitions += 1;
            let mut after = words.clone();
            world.tables().patch(&mut after, step);
            if !self.edge.add(world, place, step, &after) {
                continue;
            }
            let details = world.tables().details[step as usize];
            leads_on |= self.faults || details.fault.is_none();
            let steps = self.prefix.len() + self.edge.depth as usize + 1;
            self.see(world, &after, steps);
            if details.noteworthy {
                for finding in world.findings(&after, Some(usize::from(details.node))) {
                    let mut path = self.trail(place);
                    path.push(step);
                    self.found.record(finding, path);
                }
            }
        }
        if !leads_on {
            self.edge.add_leaf(place);
        }
        Task::Grow {
            place: place + 1,
            until,
        }
    }

    fn stop(&self, world: &Space) -> Option<Stop> {
        let limits = &self.limits;
        let states = self.edge.origins.len() as u64;
        if let Task::Over(stop) = self.task {
            Some(stop)
        } else if limits.first_violation
            && (self.found.has_new() || self.suspects.len() > self.passed)
        {
            Some(Stop::Violation)
        } else if limits.states.is_some_and(|limit| states >= limit) {
            Some(Stop::States)
        } else if limits
            .bytes
            .is_some_and(|limit| (self.bytes() + world.bytes()) as u64 > limit)
        {
            Some(Stop::Bytes)
        } else {
            None
        }
    }

    fn bytes(&self) -> usize {
        let steps = match &self.task {
            Task::Prefix(stroll) | Task::Walk { stroll, .. } => stroll.path.capacity(),
            Task::Probe(probe) => probe.steps(),
            Task::Grow { .. } | Task::Over(_) => 0,
        };
        let steps = steps + self.prefix.capacity() + self.spare.path.capacity();
        self.edge.bytes() + self.book.bytes() + self.odds.bytes() + steps * size_of::<u32>()
    }
}

impl Walk for Walks {
    fn advance(&mut self, world: &mut Space, steps: u64) -> Option<Stop> {
        let mut left = steps;
        let mut unasked = STRETCH;
        while left > 0 {
            // What limits look at grows slowly: it need not be asked at every step of a walk.
            let in_walk = matches!(&self.task, Task::Walk { .. } | Task::Probe(_));
            if !in_walk || unasked >= STRETCH || self.limits.first_violation {
                unasked = 0;
                if let Some(stop) = self.stop(world) {
                    return Some(stop);
                }
            }
            let mut taken = 1;
            let task = std::mem::replace(&mut self.task, Task::Over(Stop::Enough));
            self.task = match task {
                Task::Prefix(stroll) => self.advance_prefix(world, stroll),
                Task::Walk {
                    place,
                    time,
                    stroll,
                } => {
                    let stretch = left.min(STRETCH);
                    let (task, steps) = self.advance_walk(world, (place, time), stroll, stretch);
                    taken = steps.max(1);
                    task
                }
                Task::Grow { place, until } => self.grow(world, place, until),
                Task::Probe(probe) => self.advance_probe(world, probe),
                over @ Task::Over(_) => over,
            };
            left -= taken;
            unasked += taken;
        }
        self.stop(world)
    }

    fn counts(&self) -> Counts {
        Counts {
            states: self.edge.origins.len() as u64,
            transitions: self.transitions,
            depth: self.depth,
            frontier: self.edge.len() as u64,
        }
    }

    fn for_each_waiting(&self, see: &mut dyn FnMut(&[u32])) {
        self.edge.words.chunks_exact(self.edge.width).for_each(see);
    }

    fn found_count(&self) -> usize {
        let dead = self.exact.dead_count();
        self.found.len() + dead.unwrap_or(self.suspects.len())
    }

    fn found(&self, world: &Space, start: &[u32]) -> Vec<Found> {
        let mut all = self.found.list(world, start);
        if let Some(dead) = self.exact.dead(world, &self.prefix) {
            all.extend(dead);
            return all;
        }
        for (at, suspect) in self.suspects.iter().enumerate() {
            let goals = self.book.targets()[suspect.target].goals.clone();
            let mut live = suspect.live.iter().map(|path| steps(world, path));
            let claim = match suspect.proved {
                true => Claim::Dead {
                    goals,
                    critical: suspect.case == Case::C1,
                    faults: self.faults,
                    live: live.next(),
                },
                false => Claim::Suspected {
                    goals,
                    case: suspect.case,
                    walks: self.probes,
                    steps: suspect.room,
                    live: live.collect(),
                },
            };
            let found = Found::at(world, start, &suspect.path, claim);
            all.insert(suspect.after + at, found);
        }
        all
    }

    fn pass_over_found(&mut self, _: &Space) {
        self.found.pass_over();
        self.passed = self.suspects.len();
    }

    fn conclude(&mut self, world: &mut Space, steps: u64) -> bool {
        self.classify(world, steps)
    }

    fn goals(&self, world: &Space) -> Vec<GoalReport> {
        let targets = self.book.targets().iter().zip(&self.walked);
        let walked = targets.map(|(target, walked)| GoalReport {
            property: target.name.clone(),
            kind: PropertyKind::Eventually,
            standing: Standing::Walked(Walked {
                refuted: self.refuted,
                ..walked.clone()
            }),
            cycles: Cycles::NotAsked,
        });
        let mut all = match self.exact.goals(world) {
            Some(classified) => classified,
            None => walked.collect(),
        };
        let complete = matches!(self.task, Task::Over(Stop::Exhausted))
            && self.prefix.is_empty()
            && !world.transitions().is_truncated();
        for (at, (&goal, reached)) in self.book.sometimes().iter().zip(&self.reached).enumerate() {
            let standing = match reached {
                Some(steps) => Standing::Reached { steps: *steps },
                None if complete && self.perhaps >> at & 1 == 0 => Standing::Vacuous,
                None => Standing::NotReached,
            };
            all.push(GoalReport {
                property: world.goals()[goal].name.clone(),
                kind: PropertyKind::Sometimes,
                standing,
                cycles: Cycles::NotAsked,
            });
        }
        all
    }

    fn goal_bytes(&self) -> u64 {
        (self.book.bytes() + self.odds.bytes()) as u64 + self.exact.goal_bytes()
    }

    fn extent(&self) -> Option<&'static str> {
        let all_exact = self.book.targets().is_empty() || self.exact.dead_count().is_some();
        match (self.prefix.is_empty(), all_exact) {
            (true, true) => None,
            (true, false) => Some("in the whole state space, `eventually` by walks"),
            (false, true) => Some("in all that can follow the prefix"),
            (false, false) => Some("in all that can follow the prefix, `eventually` by walks"),
        }
    }
}

impl Walked {
    fn count(&mut self, steps: u64) {
        self.live += 1;
        for (within, count) in STEPS_SHOWN.iter().zip(&mut self.within) {
            *count += u64::from(steps <= *within);
        }
    }
}
