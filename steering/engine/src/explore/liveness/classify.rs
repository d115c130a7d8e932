//! The classes of all states of an exhaustive search at rest, exactly.
//!
//! The search has kept the words of its states, and every state has a slot in the visited set, to which two bits for each
//! target are added: *alive*, and *open* if something cut off can be reached. Both are least fixed points, so the
//! states are gone through in reverse order of discovery, in which most steps lead to states that were gone through before, and
//! then, forth and back, those that are not alive yet, until nothing changes. What is neither alive nor open then is dead.
//!
//! A state that is alive needs no second look, and whether it is open does not matter to anybody: whoever reaches it
//! is alive too.

use crate::explore::breadth::Archive;
use crate::explore::liveness::Wanted;
use crate::explore::liveness::ahead::{Ahead, ahead};
use crate::explore::liveness::book::Book;
use crate::explore::liveness::cycles::{Lasso, Part, Trim};
use crate::explore::liveness::marks::Marks;
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
    changed: bool,
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
    /// Where the steps of a state lead.
    room: Vec<u64>,
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
            changed: false,
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
            room: Vec::new(),
        }
    }

    pub(in crate::explore) fn bytes(&self) -> usize {
        self.marks.bytes()
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
                for at in 0..batch.states.len() {
                    looked += self.visit(world, archive, wanted, &batch, at, first);
                }
                self.batch = batch;
            } else if self.changed && !self.left.is_empty() {
                // What was gone through last is the first of the next sweep: so directions alternate, and neither a long
                // chain of steps to older states nor one to newer states takes a sweep for each.
                std::mem::swap(&mut self.todo, &mut self.left);
                self.changed = false;
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
        for words in self.batch.words.chunks_exact_mut(width) {
            let number = if self.first > 0 {
                self.first -= 1;
                self.first as u32
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

    /// Looks at one state and where its steps lead, and returns how many it looked at.
    fn visit(
        &mut self,
        world: &mut Space,
        archive: &Archive<'_>,
        wanted: &mut Wanted,
        batch: &Batch,
        at: usize,
        first: bool,
    ) -> u64 {
        let (number, fingerprint, expanded) = batch.states[at];
        let width = archive.width();
        let words = &batch.words[at * width..(at + 1) * width];
        let slot = archive.slot(fingerprint).expect("a state was seen");
        let (all, half) = (u64::from(wanted.book.all()), self.marks.half());
        let before = self.marks.of(slot);
        let mut marks = before;
        if first {
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
            marks |= u64::from(judged.holds) | u64::from(judged.unknown) << half;
            if !expanded {
                marks |= all << half;
            }
        }
        let mut looked = 1;
        if expanded && marks & all != all {
            let state = (words, fingerprint);
            looked += self.follow(world, archive, wanted.faults, state, first, |found| {
                marks |= found.unwrap_or(all << half);
                marks & all == all
            });
        }
        if marks != before {
            self.marks.add(slot, marks);
            self.changed = true;
        }
        if marks & all != all {
            self.left.push(number);
        }
        looked
    }

    /// Shows the marks of the states that the steps of a state lead to, nothing for one that was cut off, until it is enough.
    /// Returns how many it has shown.
    #[inline]
    fn follow(
        &mut self,
        world: &mut Space,
        archive: &Archive<'_>,
        faults: bool,
        (words, fingerprint): (&[u32], u64),
        first: bool,
        mut enough: impl FnMut(Option<u64>) -> bool,
    ) -> u64 {
        let mut looked = 0;
        let mut later = std::mem::take(&mut self.room);
        later.clear();
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
                let Looked::Up(after) = after else { continue };
                looked += 1;
                // In the first sweep a step or two decide. What is left after it has to be looked at whole, and then at once, so
                // that the misses overlap.
                if !first {
                    archive.prefetch(after);
                    later.push(after);
                } else if enough(archive.slot(after).map(|slot| self.marks.of(slot))) {
                    self.room = later;
                    return looked;
                }
            }
        }
        for &after in &later {
            if enough(archive.slot(after).map(|slot| self.marks.of(slot))) {
                break;
            }
        }
        self.room = later;
        looked
    }

    /// Counts the classes, once nothing changes any more.
    fn count(&mut self, world: &mut Space, archive: &Archive<'_>, wanted: &mut Wanted) {
        self.left.sort_unstable();
        // A handler has outcomes that nobody looked at: where they lead may be where it recovers.
        let cut = world.transitions().is_truncated();
        let half = self.marks.half();
        let mut words = vec![0; archive.width()];
        for &number in &self.left {
            archive.load(number, &mut words);
            let slot = archive.slot(world.tables().fingerprint(&words));
            let marks = self.marks.of(slot.expect("a state was seen"));
            for (at, classes) in self.classes.iter_mut().enumerate() {
                if marks >> at & 1 != 0 {
                    continue;
                }
                if cut || marks >> (half + at as u32) & 1 != 0 {
                    classes.unknown += 1;
                    continue;
                }
                classes.dead += 1;
                if self.dead[at].is_none() {
                    let goals = wanted.book.targets()[at].goals.clone();
                    self.dead[at] = Some(FirstDead {
                        goals,
                        number,
                        critical: false,
                        live: None,
                    });
                }
            }
        }
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
