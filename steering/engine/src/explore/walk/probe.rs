//! What becomes of a walk that failed: more walks look for its critical transition, and what can follow is enumerated.

use crate::explore::liveness::{Ahead, Case, Critical, Next, Stroll, ahead, take};
use crate::explore::walk::{Suspect, Task, Walks};
use crate::interned::world::Space;

/// How many executions that come true are kept beside a suspicion.
const SIMILAR_MAX: usize = 3;
/// How many states are enumerated to prove or refute one suspicion.
const AHEAD_MAX: usize = 10_000;

/// The search for a critical transition.
#[derive(Debug)]
pub(super) struct Probe {
    target: usize,
    /// Which other targets the execution did not reach.
    others: u32,
    /// The steps from the start state.
    execution: Vec<u32>,
    /// Whether nothing can happen at its end.
    stuck: bool,
    /// Whether it is being made longer (B-41).
    raising: bool,
    /// Whether a walk came where it is not known whether the target holds.
    unsure: bool,
    length: usize,
    raises: u32,
    critical: Critical,
    /// How many walks have failed from the state that is asked about.
    failed: u64,
    stroll: Stroll,
    /// Executions that come true, with how many steps they share: the one that shares most first.
    live: Vec<(usize, Vec<u32>)>,
    /// Where to go on afterwards.
    place: usize,
    time: u64,
}

impl Probe {
    /// Returns how many steps it keeps.
    pub(super) fn steps(&self) -> usize {
        let live = self.live.iter().map(|(_, path)| path.capacity());
        self.execution.capacity() + self.stroll.path.capacity() + live.sum::<usize>()
    }
}

impl Walks {
    pub(super) fn begin_probe(
        &mut self,
        world: &mut Space,
        execution: Vec<u32>,
        stuck: bool,
        targets: u32,
        (place, time): (usize, u64),
    ) -> Task {
        let target = targets.trailing_zeros() as usize;
        let (init, after_live) = self.last_live(world, &execution, target);
        let critical = Critical::new(init, after_live, execution.len(), stuck);
        let mut probe = Box::new(Probe {
            target,
            others: targets & !(1 << target),
            length: self.length.saturating_add(self.prefix.len()),
            raising: false,
            unsure: false,
            raises: self.raises,
            stuck,
            critical,
            failed: 0,
            stroll: self.stroll_from_start(world),
            live: Vec::new(),
            execution,
            place,
            time,
        });
        self.ask(world, &mut probe);
        Task::Probe(probe)
    }

    /// Finds the state of an execution from which on it does not reach a target, and whether the one before does.
    fn last_live(&mut self, world: &mut Space, execution: &[u32], target: usize) -> (usize, bool) {
        let mut words = self.start.clone();
        let mut last = None;
        for at in 0..=execution.len() {
            if self.book.judge(world, &words).holds >> target & 1 != 0 {
                last = Some(at);
            }
            if let Some(&step) = execution.get(at) {
                take(world, &mut words, step);
            }
        }
        (last.map_or(0, |at| at + 1), last.is_some())
    }

    /// Sets the next walk out from the state that is asked about.
    fn ask(&mut self, world: &mut Space, probe: &mut Probe) {
        if let Next::Ask(at) = probe.critical.next() {
            let words = self.after(world, &probe.execution[..at.min(probe.execution.len())]);
            probe.stroll = self.stroll(world, &words);
        }
    }

    pub(super) fn advance_probe(&mut self, world: &mut Space, mut probe: Box<Probe>) -> Task {
        if probe.raising {
            return self.raise(world, probe);
        }
        let at = match probe.critical.next() {
            Next::Ask(at) => at,
            Next::Found(at, case) => return self.conclude_probe(world, *probe, at, case),
        };
        let bit = 1 << probe.target;
        let mut stroll = std::mem::take(&mut probe.stroll);
        let before = |_: &Self| probe.execution[..at].to_vec();
        let room = probe.length.saturating_sub(at);
        let went = stroll.path.len() < room && self.step(world, &mut stroll, at, before);
        if stroll.held & bit != 0 {
            let shared = probe.execution[at..].iter().zip(&stroll.path);
            let shared = at + shared.take_while(|(a, b)| a == b).count();
            let mut path = probe.execution[..at].to_vec();
            path.extend(&stroll.path);
            probe.live.push((shared, path));
            // Of those that share as much the first stays, so that the answer does not depend on how often it is asked.
            probe
                .live
                .sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
            probe.live.truncate(SIMILAR_MAX);
            probe.failed = 0;
            probe.critical.answer(true);
            self.ask(world, &mut probe);
        } else if went {
            probe.stroll = stroll;
        } else if stroll.unsure & bit != 0 {
            // It may have recovered.
            probe.unsure = true;
            probe.failed = 0;
            probe.critical.answer(true);
            self.ask(world, &mut probe);
        } else {
            probe.failed += 1;
            if probe.failed == self.probes {
                probe.failed = 0;
                probe.critical.answer(false);
            }
            self.ask(world, &mut probe);
        }
        Task::Probe(probe)
    }

    /// Decides what became of a suspicion, and goes on.
    fn conclude_probe(
        &mut self,
        world: &mut Space,
        mut probe: Probe,
        at: usize,
        case: Case,
    ) -> Task {
        let (place, time) = (probe.place, probe.time);
        if case == Case::C2 && probe.raises > 0 && !probe.stuck {
            probe.raises -= 1;
            probe.length = probe.length.saturating_mul(2);
            probe.raising = true;
            let words = self.after(world, &probe.execution);
            probe.stroll = self.stroll(world, &words);
            return Task::Probe(Box::new(probe));
        }
        let case = if probe.unsure { Case::C2 } else { case };
        let path = probe.execution[..at].to_vec();
        let words = self.after(world, &path);
        let lies = self.look_ahead(world, &words, probe.target, true);
        if let Ahead::Reached(_) = lies {
            self.refuted += 1;
        } else if lies == Ahead::Never || !probe.unsure {
            self.suspected |= 1 << probe.target;
            let live = std::mem::take(&mut probe.live).into_iter();
            let mut live: Vec<Vec<u32>> = live.map(|(_, path)| path).collect();
            if live.is_empty() && case == Case::C1 {
                live.push(self.live_beside(world, &path, probe.target));
            }
            self.suspects.push(Suspect {
                target: probe.target,
                after: self.found.len(),
                path,
                room: probe.length.saturating_sub(at) as u64,
                case,
                proved: lies == Ahead::Never,
                live,
            });
        }
        match probe.others {
            0 => self.next_walk(world, place, time),
            others => {
                let execution = std::mem::take(&mut probe.execution);
                self.begin_probe(world, execution, probe.stuck, others, (place, time))
            }
        }
    }

    fn look_ahead(&mut self, world: &mut Space, words: &[u32], target: usize, now: bool) -> Ahead {
        let states_max = match self.exactly {
            true => AHEAD_MAX.min(self.ahead_left),
            // Where nothing can happen any more there is nothing to enumerate (B-16).
            false => 1,
        };
        let how = (self.faults, now);
        let (lies, states) = ahead(world, &mut self.book, words, target, how, states_max);
        self.ahead_left = self.ahead_left.saturating_sub(states);
        lies
    }

    /// Returns an execution that parts from a path before its last step and comes true. No walk was made from there, since the
    /// target holds there itself: if nothing better is near, that is where it ends.
    fn live_beside(&mut self, world: &mut Space, path: &[u32], target: usize) -> Vec<u32> {
        let mut live = path[..path.len() - 1].to_vec();
        let words = self.after(world, &live);
        if let Ahead::Reached(more) = self.look_ahead(world, &words, target, false) {
            live.extend(more);
        }
        live
    }

    /// Goes on with an execution that was too short to decide (B-41).
    fn raise(&mut self, world: &mut Space, mut probe: Box<Probe>) -> Task {
        let bit = 1 << probe.target;
        let steps = probe.execution.len();
        let has_room = steps + probe.stroll.path.len() < probe.length;
        if has_room && probe.stroll.held & bit == 0 {
            let mut stroll = std::mem::take(&mut probe.stroll);
            let went = self.step(world, &mut stroll, steps, |_| probe.execution.clone());
            probe.stroll = stroll;
            probe.stuck = !went;
            if went {
                return Task::Probe(probe);
            }
        }
        probe.raising = false;
        if probe.stroll.held & bit != 0 {
            // It comes true after all: nothing is owed.
            self.refuted += 1;
            return match probe.others {
                0 => self.next_walk(world, probe.place, probe.time),
                others => {
                    let (execution, at) = (probe.execution, (probe.place, probe.time));
                    self.begin_probe(world, execution, false, others, at)
                }
            };
        }
        let more = std::mem::take(&mut probe.stroll.path);
        probe.execution.extend(more);
        let (init, after_live) = self.last_live(world, &probe.execution, probe.target);
        let end = probe.execution.len();
        probe.critical = Critical::new(init, after_live, end, probe.stuck);
        probe.failed = 0;
        self.ask(world, &mut probe);
        Task::Probe(probe)
    }
}
