//! The classes of all states of an exhaustive search at rest, exactly.
//!
//! The search has kept the words of its states, and every state has a slot in the visited set, to which two bits for each
//! target are added: *alive*, and *open* if something cut off can be reached. Both are least fixed points, so the
//! states are gone through in reverse order of discovery, in which most steps lead to states that were gone through before, and
//! then, forth and back, those that are not alive yet, until nothing changes. What is neither alive nor open then is dead. If nobody
//! has looked at a state that was yet to be gone through, the first time is enough: that is so where every step leads farther from
//! the start.
//!
//! A state that is alive needs no second look, and whether it is open does not matter to anybody: whoever reaches it
//! is alive too.

use crate::explore::breadth::Archive;
use crate::explore::liveness::Wanted;
use crate::explore::liveness::ahead::{Ahead, ahead};
use crate::explore::liveness::book::Book;
use crate::explore::liveness::cycles::{Lasso, Part, Trim};
use crate::explore::liveness::marks::{Bits, Marks};
use crate::explore::report::{Classes, Cycles, GoalReport, Standing};
use crate::interned::tables::{Looked, Reach};
use crate::interned::world::Space;
use crate::property::Kind;

/// How many states are looked at to find another way to go on than into a dead state.
const AHEAD_MAX: usize = 200_000;

/// The classes of all states, or how far they are known.
#[derive(Debug)]
pub(in crate::explore) struct Classification {
    /// For each target whether it is alive, and in the second half whether it is open.
    marks: Marks,
    /// The states to go through in this sweep, last first; in the first sweep it is all of them.
    todo: Vec<u32>,
    /// Those of this sweep that are not alive for all targets yet.
    left: Vec<u32>,
    /// In the first sweep: how many states are still to be gone through.
    first: usize,
    /// In the first sweep: by slot, whether it was gone through.
    seen: Bits,
    /// Whether what was looked at in this sweep may have changed since.
    changed: bool,
    /// By target: what is known of the states that are not alive, as this sweep saw them.
    lost: Vec<Lost>,
    /// Whether the classes are counted, and of how many targets the cycles are known.
    counted: bool,
    cycles_known: usize,
    /// The states that may lie on cycles, while those are looked for, and the most that it took.
    trim: Option<Trim>,
    cycles_bytes: usize,
    done: bool,
    /// By target.
    classes: Vec<Classes>,
    /// By target: the first state found that is dead.
    dead: Vec<Option<FirstDead>>,
    /// By target: what is known of fair cycles.
    cycles: Vec<(Cycles, Option<Lasso>)>,
    /// By `sometimes` goal: the first state found in which it holds.
    reached: Vec<Option<u32>>,
    /// The `sometimes` goals that are unknown in some state, a bit each.
    perhaps: u32,
    batch: Batch,
    /// Where the steps of a batch's states lead, and the states that are not decided without them.
    room: (Vec<u64>, Vec<Visit>),
}

/// What became of the states that are not alive for a target.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    dead: u64,
    open: u64,
    /// The first dead state found.
    first: Option<u32>,
}

/// A look at one state.
#[derive(Debug)]
struct Visit {
    number: u32,
    slot: usize,
    /// Its marks before, and what is known of them now.
    before: u64,
    marks: u64,
    /// Whether it has looked at a state that is yet to be gone through.
    early: bool,
    /// Where in the room its steps end.
    until: usize,
}

/// How many states are loaded at a time.
const BATCH: usize = 32;

/// Some states to be looked at.
#[derive(Debug, Default)]
struct Batch {
    /// Their words, one after the other.
    words: Vec<u32>,
    /// The number of each, its fingerprint, and whether it is expanded.
    states: Vec<(u32, u64, bool)>,
}

/// The first dead state of a target.
#[derive(Clone, Debug)]
pub(in crate::explore) struct FirstDead {
    /// Which goals never hold at once.
    pub(in crate::explore) goals: Vec<usize>,
    /// The state.
    pub(in crate::explore) number: u32,
    /// Whether the state before it is alive.
    pub(in crate::explore) critical: bool,
    /// Another way to go on from there, to where the goals hold.
    pub(in crate::explore) live: Option<Vec<u32>>,
}

impl Classification {
    pub(in crate::explore) fn new(archive: &Archive<'_>, book: &Book) -> Self {
        let targets = book.targets().len();
        Self {
            marks: Marks::new(archive.slots(), 2 * targets),
            todo: Vec::new(),
            left: Vec::new(),
            first: archive.len(),
            seen: Bits::new(archive.slots()),
            changed: false,
            lost: vec![Lost::default(); targets],
            counted: false,
            cycles_known: 0,
            trim: None,
            cycles_bytes: 0,
            done: false,
            classes: vec![Classes::default(); targets],
            dead: vec![None; targets],
            cycles: vec![(Cycles::NotAsked, None); targets],
            reached: vec![None; book.sometimes().len()],
            perhaps: 0,
            batch: Batch::default(),
            room: Default::default(),
        }
    }

    pub(in crate::explore) fn bytes(&self) -> usize {
        self.marks.bytes()
            + self.seen.bytes()
            + self.cycles_bytes
            + (self.todo.capacity() + self.left.capacity()) * size_of::<u32>()
    }

    /// Goes on for about this many steps, and tells whether all is known.
    pub(in crate::explore) fn advance(
        &mut self,
        world: &mut Space,
        archive: &Archive<'_>,
        wanted: &mut Wanted,
        steps: u64,
    ) -> bool {
        let mut looked = 0;
        while !self.done && looked < steps {
            let first = self.first > 0;
            if self.next_batch(world, archive, wanted.faults) {
                let batch = std::mem::take(&mut self.batch);
                looked += self.visit(world, archive, wanted, &batch, first);
                self.batch = batch;
            } else if self.changed && !self.left.is_empty() {
                // What was gone through last is the first of the next sweep: so directions alternate, and neither a long
                // chain of steps to older states nor one to newer states takes a sweep for each.
                std::mem::swap(&mut self.todo, &mut self.left);
                self.changed = false;
                self.lost.fill(Lost::default());
            } else if !self.counted {
                self.count(world, archive, wanted);
                self.counted = true;
                self.done = !wanted.cycles || self.cycles.is_empty();
            } else {
                looked += self.look_for_cycles(world, archive, wanted, steps - looked);
                self.done = self.cycles_known == self.cycles.len();
            }
        }
        self.done
    }

    /// Loads the next states of this sweep, and starts to fetch the slots that will be looked at first, so that the misses
    /// overlap. Tells whether there are any.
    fn next_batch(&mut self, world: &Space, archive: &Archive<'_>, faults: bool) -> bool {
        let tables = world.tables();
        let width = archive.width();
        self.batch.states.clear();
        self.batch.words.resize(BATCH * width, 0);
        let mut hint = 0;
        let mut depth = None;
        for words in self.batch.words.chunks_exact_mut(width) {
            let number = if self.first > 0 {
                // Of one depth: where steps lead farther, none leads from one state of a batch to another.
                let next = self.first as u32 - 1;
                let its = archive.depth_near(next, &mut hint);
                if depth.is_some_and(|depth| depth != its) {
                    break;
                }
                depth = Some(its);
                self.first -= 1;
                next
            } else if let Some(number) = self.todo.pop() {
                number
            } else {
                break;
            };
            let expanded = archive.load_near(number, words, &mut hint);
            let fingerprint = tables.fingerprint(words);
            archive.prefetch(fingerprint);
            self.batch.states.push((number, fingerprint, expanded));
            // Mostly the first step leads to a state that is known to be alive, and no other is looked at.
            let mut ranges = words[..width - 1]
                .iter()
                .map(|&word| tables.ranges[word as usize]);
            if let Some(range) = ranges.find(|range| !range.is_unknown() && range.all > 0)
                && let successor = &tables.successors[range.start as usize]
                && (successor.reach != Reach::Further || faults)
                && let rest = fingerprint ^ range.mixed
                && let Looked::Up(after) = tables.look(words, rest, range.start, successor)
            {
                archive.prefetch(after);
            }
        }
        !self.batch.states.is_empty()
    }

    /// Looks at the states of a batch and where their steps lead, and returns how many it looked at.
    fn visit(
        &mut self,
        world: &mut Space,
        archive: &Archive<'_>,
        wanted: &mut Wanted,
        batch: &Batch,
        first: bool,
    ) -> u64 {
        let (width, all) = (archive.width(), u64::from(wanted.book.all()));
        let (mut later, mut undecided) = std::mem::take(&mut self.room);
        later.clear();
        undecided.clear();
        let mut looked = batch.states.len() as u64;
        for (at, &(number, fingerprint, expanded)) in batch.states.iter().enumerate() {
            let words = &batch.words[at * width..(at + 1) * width];
            let slot = archive.slot(fingerprint).expect("a state was seen");
            let before = self.marks.of(slot);
            let mut visit = Visit {
                number,
                slot,
                before,
                marks: before,
                early: false,
                until: 0,
            };
            if first {
                visit.marks |= self.judge(world, wanted, words, (number, expanded));
            }
            // In the first sweep, the first step mostly decides. What is left after it is looked at whole, and that of all the batch at
            // once, so that the misses overlap.
            let mut alone = first;
            if expanded && visit.marks & all != all {
                follow(world, wanted.faults, (words, fingerprint), |after| {
                    looked += 1;
                    if std::mem::take(&mut alone) {
                        return !self.look(archive, after, &mut visit, all);
                    }
                    archive.prefetch(after);
                    later.push(after);
                    true
                });
            }
            visit.until = later.len();
            let from = undecided.last().map_or(0, |last: &Visit| last.until);
            match visit.until > from {
                true => undecided.push(visit),
                false => self.settle(&visit, first, all),
            }
        }
        let mut from = 0;
        for visit in &mut undecided {
            for &after in &later[from..visit.until] {
                if self.look(archive, after, visit, all) {
                    break;
                }
            }
            from = visit.until;
            self.settle(visit, first, all);
        }
        self.room = (later, undecided);
        looked
    }

    /// Judges a state, and returns its marks as far as they do not depend on others.
    fn judge(
        &mut self,
        world: &mut Space,
        wanted: &mut Wanted,
        words: &[u32],
        (number, expanded): (u32, bool),
    ) -> u64 {
        let half = self.marks.half();
        let judged = wanted.book.judge(world, words);
        for (at, reached) in self.reached.iter_mut().enumerate() {
            if judged.sometimes >> at & 1 != 0 {
                *reached = Some(number);
            }
        }
        self.perhaps |= judged.perhaps;
        for (at, classes) in self.classes.iter_mut().enumerate() {
            classes.live += u64::from(judged.holds >> at & 1);
        }
        let cut = match expanded {
            true => 0,
            false => u64::from(wanted.book.all()) << half,
        };
        u64::from(judged.holds) | u64::from(judged.unknown) << half | cut
    }

    /// Takes over the marks of a state to which a step leads, and tells whether that is enough.
    #[inline]
    fn look(&self, archive: &Archive<'_>, after: u64, visit: &mut Visit, all: u64) -> bool {
        match archive.slot(after) {
            Some(slot) => {
                visit.marks |= self.marks.of(slot);
                visit.early |= !self.seen.is_set(slot);
            }
            // It was cut off.
            None => visit.marks |= all << self.marks.half(),
        }
        visit.marks & all == all
    }

    /// Keeps what a look at a state has shown.
    #[inline]
    fn settle(&mut self, visit: &Visit, first: bool, all: u64) {
        if visit.marks != visit.before {
            self.marks.add(visit.slot, visit.marks);
            self.changed |= !first;
        }
        if first {
            self.seen.set(visit.slot);
        }
        if visit.marks & all == all {
            return;
        }
        // What it has looked at too early may be alive.
        self.changed |= first && visit.early;
        self.left.push(visit.number);
        let half = self.marks.half();
        for (at, lost) in self.lost.iter_mut().enumerate() {
            if visit.marks >> at & 1 != 0 {
                continue;
            }
            if visit.marks >> (half + at as u32) & 1 != 0 {
                lost.open += 1;
            } else {
                lost.dead += 1;
                let nearest = lost.first.map_or(u32::MAX, |known| known);
                lost.first = Some(nearest.min(visit.number));
            }
        }
    }

    /// Counts the classes, once nothing changes any more.
    fn count(&mut self, world: &mut Space, archive: &Archive<'_>, wanted: &mut Wanted) {
        // A handler has outcomes that nobody looked at: where they lead may be where it recovers.
        let cut = world.transitions().is_truncated();
        for (at, lost) in self.lost.iter().enumerate() {
            let classes = &mut self.classes[at];
            if cut {
                classes.unknown = lost.open + lost.dead;
                continue;
            }
            (classes.unknown, classes.dead) = (lost.open, lost.dead);
            self.dead[at] = lost.first.map(|number| FirstDead {
                goals: wanted.book.targets()[at].goals.clone(),
                number,
                critical: false,
                live: None,
            });
        }
        let mut words = vec![0; archive.width()];
        for at in 0..self.dead.len() {
            let Some(dead) = &mut self.dead[at] else {
                continue;
            };
            let Some(parent) = archive.parent(dead.number) else {
                continue;
            };
            archive.load(parent, &mut words);
            let slot = archive.slot(world.tables().fingerprint(&words));
            let marks = self.marks.of(slot.expect("a state was seen"));
            dead.critical = marks >> at & 1 != 0;
            if dead.critical {
                let how = (wanted.faults, false);
                let book = &mut wanted.book;
                dead.live = match ahead(world, book, &words, at, how, AHEAD_MAX).0 {
                    Ahead::Reached(path) => Some(path),
                    Ahead::Never | Ahead::Undecided => None,
                };
            }
        }
        for classes in &mut self.classes {
            let known = classes.live + classes.dead + classes.unknown;
            classes.recoverable = archive.len() as u64 - known;
        }
        self.left = Vec::new();
        self.todo = Vec::new();
    }

    /// Goes on for about this many steps, and returns how many it took. What is numbered and searched for components is done
    /// at once.
    fn look_for_cycles(
        &mut self,
        world: &mut Space,
        archive: &Archive<'_>,
        wanted: &mut Wanted,
        steps: u64,
    ) -> u64 {
        // A handler has outcomes that nobody looked at: what is possible all the way round is not known.
        if world.transitions().is_truncated() {
            self.cycles.fill((Cycles::Undecided, None));
            self.cycles_known = self.cycles.len();
            return 1;
        }
        let half = self.marks.half();
        let (marks, book) = (&self.marks, &mut wanted.book);
        let all = book.all();
        let may = |world: &mut Space, words: &[u32], slot: usize| {
            let judged = book.judge(world, words);
            let marks = marks.of(slot);
            // Not live for certain, and not dead: alive, or open.
            !(judged.holds | judged.unknown) & (marks | marks >> half) as u32 & all
        };
        let trim = self.trim.get_or_insert_with(|| Trim::new(archive, all));
        let (looked, trimmed) = trim.advance(world, archive, may, steps);
        self.cycles_bytes = self.cycles_bytes.max(trim.bytes());
        if !trimmed {
            return looked;
        }
        let group = trim.group(self.cycles_known);
        let part = Part::of(world, archive, trim, &group, wanted.bytes_max);
        let (numbered, bytes) = match &part {
            Some(part) => (part.len() as u64, part.bytes()),
            None => (0, 0),
        };
        self.cycles_bytes = self.cycles_bytes.max(trim.bytes() + bytes);
        for target in group {
            self.cycles[target] = match &part {
                Some(part) if !trim.is_too_much(target) => match part.fair_cycle(world, target) {
                    Some(lasso) => (Cycles::Found, Some(lasso)),
                    None => (Cycles::None, None),
                },
                _ => (Cycles::Undecided, None),
            };
            self.cycles_known += 1;
        }
        if self.cycles_known == self.cycles.len() {
            self.trim = None;
        }
        looked + numbered + 1
    }

    /// Lists the fair cycles that were found, each with its goals. That all goals never hold at once is said only if each of
    /// them has none.
    pub(in crate::explore) fn lassos<'a>(
        &'a self,
        book: &'a Book,
    ) -> impl Iterator<Item = (&'a [usize], &'a Lasso)> {
        let targets = book.targets().iter().zip(&self.cycles);
        let single = book.targets().iter().zip(&self.cycles);
        let mut single = single.filter(|(target, _)| target.goals.len() == 1);
        let any = single.any(|(_, (_, lasso))| lasso.is_some());
        let told = targets.filter(move |(target, _)| target.goals.len() == 1 || !any);
        told.filter_map(|(target, (_, lasso))| Some((target.goals.as_slice(), lasso.as_ref()?)))
    }

    /// Lists the first dead states. That all goals never hold at once is said only where it comes before that one of them
    /// never holds.
    pub(in crate::explore) fn dead(&self, book: &Book) -> Vec<&FirstDead> {
        let mut found = Vec::new();
        let mut nearest = u32::MAX;
        for (target, dead) in book.targets().iter().zip(&self.dead) {
            let Some(dead) = dead else {
                continue;
            };
            if target.goals.len() == 1 || dead.number < nearest {
                found.push(dead);
            }
            nearest = nearest.min(dead.number);
        }
        found
    }

    /// Says what came of every goal.
    pub(in crate::explore) fn report(
        &self,
        world: &Space,
        archive: &Archive<'_>,
        book: &Book,
        complete: bool,
    ) -> Vec<GoalReport> {
        if !self.counted {
            return Vec::new();
        }
        let mut all: Vec<GoalReport> = Vec::new();
        let classes = self.classes.iter().zip(&self.cycles);
        for (at, (target, (&classes, &(cycles, _)))) in
            book.targets().iter().zip(classes).enumerate()
        {
            // Somebody had no time for it.
            let cycles = match self.done || at < self.cycles_known {
                true => cycles,
                false => Cycles::Undecided,
            };
            all.push(GoalReport {
                property: target.name.clone(),
                kind: Kind::Eventually,
                standing: Standing::Classified(classes),
                cycles,
            });
        }
        for (at, (&goal, reached)) in book.sometimes().iter().zip(&self.reached).enumerate() {
            let standing = match reached {
                Some(number) => Standing::Reached {
                    steps: archive.depth(*number),
                },
                None if complete && self.perhaps >> at & 1 == 0 => Standing::Vacuous,
                None => Standing::NotReached,
            };
            all.push(GoalReport {
                property: world.goals()[goal].name.clone(),
                kind: Kind::Sometimes,
                standing,
                cycles: Cycles::NotAsked,
            });
        }
        all
    }
}

/// Shows where the steps of a state lead, until it is enough. Faults are steps only if they count as ways to recover.
#[inline]
fn follow(
    world: &mut Space,
    faults: bool,
    (words, fingerprint): (&[u32], u64),
    mut more: impl FnMut(u64) -> bool,
) {
    for &word in &words[..words.len() - 1] {
        let range = world.successors_of(word);
        let rest = fingerprint ^ world.tables().mixed[word as usize];
        for at in range {
            let tables = world.tables();
            let successor = &tables.successors[at as usize];
            // Only steps that reach further can be faults.
            if successor.reach == Reach::Further
                && !faults
                && tables.details[at as usize].fault.is_some()
            {
                continue;
            }
            let after = match tables.look(words, rest, at, successor) {
                Looked::Unknown => world.look(words, fingerprint, at),
                known => known,
            };
            if let Looked::Up(after) = after
                && !more(after)
            {
                return;
            }
        }
    }
}
