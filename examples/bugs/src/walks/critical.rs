//! MaceMC's search for the critical transition as published (Alg. 3), on a graph of which the answer is known, and how far it is off
//! (B-53). The strategy `walk` has its own; this one shows what the method does to whoever has nothing but walks.

use crate::walks::graph::{Graph, StepKind};

/// How many steps an execution has.
const LENGTH: usize = 10_000;
/// Up to which depth everything is looked at before walks begin, as in the paper's figure 2.
const DEPTH: u32 = 15;
/// How many walks are tried to get executions that fail.
const TRIES: u64 = 20_000;

/// How far the answers of the search are before the true step.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Errors {
    /// How many walks must fail before a state counts as one that does not recover.
    pub probes: u64,
    /// By number of steps: how many answers were so many steps too early.
    pub early: Vec<u64>,
    /// How many answers were too late, which none can be.
    pub late: u64,
    /// How many executions got no answer (C2).
    pub undecided: u64,
}

/// What Alg. 3 answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    Step(usize),
    Undecided,
}

/// Executions that fail: each a way to some state near the start, and a walk from there.
///
/// Of each only the steps up to the first dead state are kept, since after it all is dead.
pub fn failing(graph: &Graph, count: usize) -> Vec<Vec<u32>> {
    let near: Vec<u32> = (0..graph.len() as u32)
        .filter(|&state| graph.depth(state) <= DEPTH)
        .collect();
    let mut failing = Vec::new();
    for number in 0..TRIES {
        let mut dice = Dice::new(number);
        let from = near[dice.below(near.len() as u64) as usize];
        let mut execution = graph.path(from);
        let mut at = from;
        while !graph.is_dead(at) && execution.len() < LENGTH {
            let Some(next) = step(graph, at, &mut dice) else {
                break;
            };
            at = next;
            execution.push(at);
            if graph.is_live(at) {
                break;
            }
        }
        if graph.is_dead(at) {
            let first = execution.iter().position(|&state| graph.is_dead(state));
            execution.truncate(first.map_or(0, |first| first + 1));
            failing.push(execution);
        }
        if failing.len() == count {
            break;
        }
    }
    failing
}

/// Searches the critical transition of each execution, and compares it with the true one.
pub fn errors(graph: &Graph, executions: &[Vec<u32>], probes: u64) -> Errors {
    let mut errors = Errors {
        probes,
        early: vec![0],
        ..Errors::default()
    };
    for (number, execution) in executions.iter().enumerate() {
        let exact = execution.len() - 1;
        let mut dice = Dice::new(u64::MAX - number as u64);
        match critical(graph, execution, probes, &mut dice) {
            Answer::Undecided => errors.undecided += 1,
            Answer::Step(at) if at > exact => errors.late += 1,
            Answer::Step(at) => {
                let off = exact - at;
                errors.early.resize(errors.early.len().max(off + 1), 0);
                errors.early[off] += 1;
            }
        }
    }
    errors
}

/// Alg. 3. It doubles from 0 too (B-47), and where the state before the first one asked about is live, that one is an answer.
fn critical(graph: &Graph, execution: &[u32], probes: u64, dice: &mut Dice) -> Answer {
    let mut recovers = |at: usize| match execution.get(at) {
        Some(&state) => (0..probes).any(|_| reaches_live(graph, state, LENGTH - at, dice)),
        // What is left out is dead, and no walk ever gets out of that.
        None => false,
    };
    let last_live = execution.iter().rposition(|&state| graph.is_live(state));
    let init = last_live.map_or(0, |at| at + 1);
    if !recovers(init) {
        return match last_live {
            Some(_) => Answer::Step(init),
            None => Answer::Undecided,
        };
    }
    let (mut low, mut high) = (init, (2 * init).max(1));
    while recovers(high) {
        low = high;
        high = 2 * low;
        if high > LENGTH / 2 {
            return Answer::Undecided;
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match recovers(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    Answer::Step(high)
}

/// Walks from a state, and tells whether the property holds after some step.
fn reaches_live(graph: &Graph, from: u32, steps: usize, dice: &mut Dice) -> bool {
    let mut at = from;
    for _ in 0..steps {
        // From there no walk would, however long it is.
        if graph.is_dead(at) {
            return false;
        }
        let Some(next) = step(graph, at, dice) else {
            return graph.is_live(at);
        };
        at = next;
        if graph.is_live(at) {
            return true;
        }
    }
    false
}

/// Takes a step, each as likely as its kind's weight says, which are those of the strategy `walk`.
fn step(graph: &Graph, at: u32, dice: &mut Dice) -> Option<u32> {
    let weight = |kind: StepKind| match kind {
        StepKind::Call => 8,
        StepKind::Message => 4,
        StepKind::Timer => 2,
        StepKind::Fault => 0,
    };
    let steps = graph.steps(at);
    let total: u64 = steps.iter().map(|edge| weight(edge.kind)).sum();
    if total == 0 {
        return None;
    }
    let mut place = dice.below(total);
    for edge in steps {
        if place < weight(edge.kind) {
            return Some(edge.to);
        }
        place -= weight(edge.kind);
    }
    unreachable!("a place is below the sum of all weights")
}

/// Numbers that look random, and are the same in every run.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn new(number: u64) -> Self {
        Self(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Returns a number below a bound (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        ((u128::from(word) * u128::from(bound)) >> u64::BITS) as u64
    }
}
