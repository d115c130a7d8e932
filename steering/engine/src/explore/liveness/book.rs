//! Which goals hold in a state, judged once per what they see of it.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::explore::report::ALL_AT_ONCE;
use crate::interned::judge::Goal;
use crate::interned::world::Space;
use crate::property::{Judgement, Kind};

/// How many `eventually` properties a search can judge, and how many `sometimes`: a bit each, and one for all at once.
pub(in crate::explore) const GOALS_MAX: usize = 31;

/// Goals that are to hold at once, again and again.
#[derive(Clone, Debug)]
pub(in crate::explore) struct Target {
    pub(in crate::explore) name: String,
    /// By position.
    pub(in crate::explore) goals: Vec<usize>,
}

/// What a state is to the goals: a bit each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::explore) struct Judged {
    /// The targets that hold.
    pub(in crate::explore) holds: u32,
    /// The targets of which that is not known.
    pub(in crate::explore) unknown: u32,
    /// The `sometimes` goals that hold.
    pub(in crate::explore) sometimes: u32,
    /// The `sometimes` goals of which that is not known.
    pub(in crate::explore) perhaps: u32,
}

/// The goals of a search, with what was judged so far.
#[derive(Debug)]
pub(in crate::explore) struct Book {
    /// Each `eventually` by itself, and where there are several, all at once (B-7).
    targets: Vec<Target>,
    /// The `sometimes` goals, by position.
    sometimes: Vec<usize>,
    /// By node state: what the goals see of it.
    stances: Vec<u64>,
    /// By the sum of stances.
    seen: HashMap<u64, Judged, FxBuildHasher>,
}

impl Book {
    pub(in crate::explore) fn new(goals: &[Goal]) -> Self {
        let of = |kind: Kind| {
            let all = goals.iter().enumerate();
            let fitting = all.filter(move |(_, goal)| goal.kind == kind);
            fitting.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let again = of(Kind::Eventually);
        let mut targets: Vec<Target> = again
            .iter()
            .map(|&at| Target {
                name: goals[at].name.clone(),
                goals: vec![at],
            })
            .collect();
        if again.len() > 1 {
            targets.push(Target {
                name: ALL_AT_ONCE.to_owned(),
                goals: again,
            });
        }
        Self {
            targets,
            sometimes: of(Kind::Sometimes),
            stances: Vec::new(),
            seen: HashMap::default(),
        }
    }

    pub(in crate::explore) fn targets(&self) -> &[Target] {
        &self.targets
    }

    pub(in crate::explore) fn sometimes(&self) -> &[usize] {
        &self.sometimes
    }

    /// Returns a bit for every target.
    pub(in crate::explore) fn all(&self) -> u32 {
        (1_u64 << self.targets.len()).wrapping_sub(1) as u32
    }

    pub(in crate::explore) fn bytes(&self) -> usize {
        self.stances.capacity() * size_of::<u64>()
            + self.seen.capacity() * (size_of::<(u64, Judged)>() + 1)
    }

    /// Judges a state. Like the search itself it goes by sums of spread words, whose collisions bound every verdict.
    #[inline]
    pub(in crate::explore) fn judge(&mut self, world: &mut Space, words: &[u32]) -> Judged {
        let nodes = &words[..words.len() - 1];
        let mut sum = 0;
        for &word in nodes {
            if word as usize >= self.stances.len() {
                self.learn(world, word);
            }
            sum ^= self.stances[word as usize];
        }
        match self.seen.get(&sum) {
            Some(&judged) => judged,
            None => self.judge_anew(world, words, sum),
        }
    }

    /// Tells whether the goals cannot tell two node states apart.
    #[inline]
    pub(in crate::explore) fn sees_the_same(&mut self, world: &mut Space, a: u32, b: u32) -> bool {
        let later = a.max(b);
        if later as usize >= self.stances.len() {
            self.learn(world, later);
        }
        self.stances[a as usize] == self.stances[b as usize]
    }

    #[cold]
    fn learn(&mut self, world: &mut Space, word: u32) {
        for next in self.stances.len() as u32..=word {
            self.stances.push(world.goal_stance(next));
        }
    }

    #[cold]
    fn judge_anew(&mut self, world: &mut Space, words: &[u32], sum: u64) -> Judged {
        let all = world.judge_goals(words);
        let mut judged = Judged::default();
        for (at, target) in self.targets.iter().enumerate() {
            let mut parts = target.goals.iter().map(|&goal| all[goal]);
            let bit = 1 << at;
            if parts.clone().all(|part| part == Judgement::Holds) {
                judged.holds |= bit;
            } else if parts.all(|part| part != Judgement::Violated) {
                judged.unknown |= bit;
            }
        }
        for (at, &goal) in self.sometimes.iter().enumerate() {
            judged.sometimes |= u32::from(all[goal] == Judgement::Holds) << at;
            judged.perhaps |= u32::from(all[goal] == Judgement::Unknown) << at;
        }
        self.seen.insert(sum, judged);
        judged
    }
}
