//! Random executions on the tables, with weights by kind of event (B-14, B-37).

use crate::explore::liveness::book::{Book, Judged};
use crate::explore::strategy::{Kind, Setting, Settings};
use crate::interned::world::Space;
use crate::model::event::Event;
use crate::model::handler::mix;

pub(in crate::explore) const WEIGHT_CALL: Setting = Setting {
    name: "weight.call",
    about: "how likely a call is in a walk, beside other steps; with 0 only where nothing else can happen",
    kind: Kind::Amount(8),
};
pub(in crate::explore) const WEIGHT_MESSAGE: Setting = Setting {
    name: "weight.message",
    about: "how likely what the network brings is in a walk, each message by itself",
    kind: Kind::Amount(4),
};
pub(in crate::explore) const WEIGHT_TIMER: Setting = Setting {
    name: "weight.timer",
    about: "how likely a timer is in a walk",
    kind: Kind::Amount(2),
};
pub(in crate::explore) const WEIGHT_FAULT: Setting = Setting {
    name: "weight.fault",
    about: "how likely a fault is in a walk, if faults count as ways to recover",
    kind: Kind::Amount(1),
};

/// A weight is at most this, so that sums stay small.
const WEIGHT_MAX: u64 = 1 << 16;
const NOT_ASKED: u32 = u32::MAX;

/// How likely steps are, beside each other. What has no weight happens only where nothing else can: a walk that stands still
/// says nothing.
#[derive(Debug)]
pub(in crate::explore) struct Odds {
    /// Whether faults are steps of a walk.
    faults: bool,
    call: u32,
    message: u32,
    timer: u32,
    fault: u32,
    /// By node state: the weights of all its steps together.
    totals: Vec<u32>,
    /// By successor.
    weights: Vec<u32>,
}

impl Odds {
    /// Reads the settings. Faults have no weight unless they count as ways to recover.
    pub(in crate::explore) fn of(settings: &Settings, faults: bool) -> Self {
        let weight = |setting: &Setting| settings.count(setting).min(WEIGHT_MAX) as u32;
        Self {
            faults,
            call: weight(&WEIGHT_CALL),
            message: weight(&WEIGHT_MESSAGE),
            timer: weight(&WEIGHT_TIMER),
            fault: if faults { weight(&WEIGHT_FAULT) } else { 0 },
            totals: Vec::new(),
            weights: Vec::new(),
        }
    }

    pub(in crate::explore) fn bytes(&self) -> usize {
        (self.totals.capacity() + self.weights.capacity()) * size_of::<u32>()
    }

    #[cold]
    fn learn(&mut self, world: &mut Space, word: u32) {
        let range = world.successors_of(word);
        if self.weights.len() < range.end as usize {
            self.weights.resize(range.end as usize, 0);
        }
        if self.totals.len() <= word as usize {
            self.totals.resize(word as usize + 1, NOT_ASKED);
        }
        let mut total = 0;
        for at in range {
            let weight = match world.event_of(at) {
                event if event.fault().is_some() => self.fault,
                Event::Call(_) => self.call,
                Event::Timer(_) | Event::Start => self.timer,
                _ => self.message,
            };
            self.weights[at as usize] = weight;
            total += weight;
        }
        self.totals[word as usize] = total;
    }

    #[inline]
    fn total(&mut self, world: &mut Space, word: u32) -> u64 {
        match self.totals.get(word as usize) {
            Some(&total) if total != NOT_ASKED => u64::from(total),
            _ => {
                self.learn(world, word);
                u64::from(self.totals[word as usize])
            }
        }
    }

    /// Throws the dice: one of the steps that are possible in a state, each as likely as its weight says.
    #[inline]
    pub(in crate::explore) fn pick(
        &mut self,
        world: &mut Space,
        words: &[u32],
        thrown: u64,
    ) -> Option<u32> {
        let nodes = &words[..words.len() - 1];
        let mut total = 0;
        for &word in nodes {
            total += self.total(world, word);
        }
        if total == 0 {
            return self.pick_any(world, words, thrown);
        }
        let picked = self.nth(world, nodes, below(thrown, total));
        // Only a fault can be impossible, if the allowance is spent: then those that are possible are gone through.
        match world.tables().details[picked as usize].fault {
            None => Some(picked),
            Some(_) => self.pick_possible(world, words, thrown),
        }
    }

    /// Returns the step at a place in the sum of all weights.
    #[inline]
    fn nth(&self, world: &Space, nodes: &[u32], mut place: u64) -> u32 {
        for &word in nodes {
            let total = u64::from(self.totals[word as usize]);
            if place >= total {
                place -= total;
                continue;
            }
            let range = world.tables().ranges[word as usize];
            for at in range.start..range.start + range.all {
                let weight = u64::from(self.weights[at as usize]);
                if place < weight {
                    return at;
                }
                place -= weight;
            }
        }
        unreachable!("a place is below the sum of all weights")
    }

    #[cold]
    fn pick_possible(&self, world: &mut Space, words: &[u32], thrown: u64) -> Option<u32> {
        let mut possible = world.steps_from(words);
        possible.retain(|&at| self.weights[at as usize] > 0);
        let total: u64 = possible
            .iter()
            .map(|&at| u64::from(self.weights[at as usize]))
            .sum();
        let mut place = below(thrown, total.max(1));
        let found = possible.into_iter().find(|&at| {
            let weight = u64::from(self.weights[at as usize]);
            let is_it = place < weight;
            place = place.wrapping_sub(weight);
            is_it
        });
        found.or_else(|| self.pick_any(world, words, thrown))
    }

    /// Of steps without weight one is as likely as the other.
    #[cold]
    fn pick_any(&self, world: &mut Space, words: &[u32], thrown: u64) -> Option<u32> {
        let mut possible = world.steps_from(words);
        let details = &world.tables().details;
        possible.retain(|&at| self.faults || details[at as usize].fault.is_none());
        let count = possible.len() as u64;
        (count > 0).then(|| possible[below(thrown, count) as usize])
    }
}

/// Makes a number below a bound of a thrown word (B-14: never the bound itself).
#[inline]
fn below(thrown: u64, bound: u64) -> u64 {
    ((u128::from(thrown) * u128::from(bound)) >> u64::BITS) as u64
}

/// A random execution from some state on.
#[derive(Debug, Default)]
pub(in crate::explore) struct Stroll {
    pub(in crate::explore) words: Vec<u32>,
    /// The steps so far.
    pub(in crate::explore) path: Vec<u32>,
    /// The targets that held after some step, a bit each.
    pub(in crate::explore) held: u32,
    /// The targets of which it is not known whether they held after some step.
    pub(in crate::explore) unsure: u32,
    /// What the last state is to the goals.
    pub(in crate::explore) judged: Judged,
    dice: u64,
}

impl Stroll {
    /// Begins in a state. Walks of different numbers have different dice. What an earlier walk has allocated is used again.
    pub(in crate::explore) fn begin(
        mut self,
        words: &[u32],
        judged: Judged,
        seed: u64,
        number: u64,
    ) -> Self {
        self.words.clear();
        self.words.extend_from_slice(words);
        self.path.clear();
        self.held = 0;
        self.unsure = judged.unknown;
        self.judged = judged;
        self.dice = mix(mix(seed) ^ number);
        self
    }

    /// Takes a step, and returns it; nothing if none is possible.
    #[inline]
    pub(in crate::explore) fn step(
        &mut self,
        world: &mut Space,
        odds: &mut Odds,
        book: &mut Book,
    ) -> Option<u32> {
        let thrown = mix(self.dice ^ self.path.len() as u64);
        let step = odds.pick(world, &self.words, thrown)?;
        let node = usize::from(world.tables().details[step as usize].node);
        let before = self.words[node];
        take(world, &mut self.words, step);
        self.path.push(step);
        // Goals see local states only, and only one node's has changed.
        if !book.sees_the_same(world, before, self.words[node]) {
            self.judged = book.judge(world, &self.words);
        }
        self.held |= self.judged.holds;
        self.unsure |= self.judged.unknown;
        Some(step)
    }
}

/// Takes a step that is possible, computing what is not known yet.
#[inline]
pub(in crate::explore) fn take(world: &mut Space, words: &mut [u32], step: u32) {
    if !world.tables().take(words, step) {
        world.look(words, 0, step);
        world.tables().patch(words, step);
    }
}
