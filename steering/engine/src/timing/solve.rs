//! Times that meet constraints, or how much more lateness, skew or drift it would take.
//!
//! Difference constraints are a graph whose longest ways from the start are the earliest times (Bellman and Ford); there
//! are none if going round some circle takes longer than no time.

use crate::timing::path::{Constraint, Constraints, Counted};
use crate::timing::program;
use crate::timing::{Clock, DRIFT_PPM_MAX, MS_MAX};

/// The moment from which times are counted: when a path begins.
const START: usize = 0;

/// `later` is at least `gap` after `earlier`.
#[derive(Clone, Copy, Debug)]
struct Edge {
    later: usize,
    earlier: usize,
    gap: i64,
}

/// What a path that does not fit would take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// Timers that are late by so many milliseconds.
    Late(u64),
    /// Clocks that are off by so many milliseconds.
    Skew(u64),
    /// Clocks that run so many parts in a million too fast or too slow.
    Drift(u32),
}

/// Finds the earliest times that meet constraints. With clocks that drift or are off, the times are those of clocks that
/// go as far as their limits wherever it helps, which no single clock may; whether there are times at all is exact.
pub(crate) fn times(constraints: &Constraints, clock: &Clock) -> Option<Vec<i64>> {
    if constraints.never {
        return None;
    }
    let earliest = earliest(constraints.moments, &edges(constraints, clock), START)?;
    if is_program(constraints, clock) && !program::is_feasible(constraints, clock) {
        return None;
    }
    // A moment before the path that nothing holds is as long ago as anybody likes.
    Some(
        earliest
            .into_iter()
            .map(|time| time.unwrap_or(i64::MIN / 4))
            .collect(),
    )
}

/// Tells what a path that does not fit would take, if there is anything that it would take. Where several would do,
/// lateness comes before skew, and skew before drift.
pub(crate) fn need(constraints: &Constraints, clock: &Clock) -> Option<Need> {
    if constraints.never {
        return None;
    }
    let least = |from: u64, to: u64, with: &dyn Fn(u64) -> Clock| {
        let fits = |value: u64| times(constraints, &with(value)).is_some();
        if !fits(to) {
            return None;
        }
        let (mut low, mut high) = (from, to);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            match fits(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(high)
    };
    let late = |late_ms| Clock { late_ms, ..*clock };
    if let Some(ms) = least(clock.late_ms, MS_MAX, &late) {
        return Some(Need::Late(ms));
    }
    let skew = |skew_ms| Clock { skew_ms, ..*clock };
    let across = |constraint: &Constraint| matches!(constraint.counted, Counted::Between(..));
    if constraints.all.iter().any(across)
        && let Some(ms) = least(clock.skew_ms, MS_MAX, &skew)
    {
        return Some(Need::Skew(ms));
    }
    let drift = |ppm: u64| Clock {
        drift_ppm: ppm as u32,
        ..*clock
    };
    let (from, to) = (u64::from(clock.drift_ppm), u64::from(DRIFT_PPM_MAX));
    least(from, to, &drift).map(|ppm| Need::Drift(ppm as u32))
}

/// Returns how long after one moment another one is at least.
pub(crate) fn distances(
    constraints: &Constraints,
    clock: &Clock,
    from: usize,
) -> Option<Vec<Option<i64>>> {
    earliest(constraints.moments, &edges(constraints, clock), from)
}

/// Tells whether difference constraints do not say it all.
fn is_program(constraints: &Constraints, clock: &Clock) -> bool {
    constraints
        .all
        .iter()
        .any(|constraint| match constraint.counted {
            Counted::Truly => false,
            Counted::By(_) => clock.drift_ppm > 0,
            Counted::Between(..) => clock.drift_ppm > 0 || clock.skew_ms > 0,
        })
}

fn edges(constraints: &Constraints, clock: &Clock) -> Vec<Edge> {
    let edge = |constraint: &Constraint| {
        let Constraint {
            later,
            earlier,
            ms,
            at_most,
            counted,
            with_lateness,
        } = *constraint;
        let (least, most) = match counted {
            Counted::Truly => (ms, ms),
            Counted::By(_) => (clock.least(ms), clock.most(ms)),
            Counted::Between(..) => (
                clock.least(ms) - clock.apart(),
                clock.most(ms) + clock.apart(),
            ),
        };
        let late = if with_lateness { clock.late() } else { 0 };
        match at_most {
            true => Edge {
                later: earlier,
                earlier: later,
                gap: -(most + late),
            },
            false => Edge {
                later,
                earlier,
                gap: least,
            },
        }
    };
    constraints.all.iter().map(edge).collect()
}

/// Finds the longest ways from a moment, or nothing if there is no longest.
fn earliest(moments: usize, edges: &[Edge], from: usize) -> Option<Vec<Option<i64>>> {
    let mut times: Vec<Option<i64>> = vec![None; moments];
    times[from] = Some(0);
    for _ in 0..=moments {
        let mut changed = false;
        for edge in edges {
            let Some(time) = times[edge.earlier] else {
                continue;
            };
            if times[edge.later].is_none_or(|known| known < time + edge.gap) {
                times[edge.later] = Some(time + edge.gap);
                changed = true;
            }
        }
        if !changed {
            return Some(times);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use scry_protocol::NodeId;

    use super::*;
    use crate::model::handler::mix;

    const MOMENTS: usize = 4;
    const NODES: [NodeId; 2] = [NodeId::new(0), NodeId::new(1)];

    struct Draws(u64);

    impl Draws {
        fn below(&mut self, of: u64) -> i64 {
            self.0 = mix(self.0);
            (self.0 % of) as i64
        }
    }

    /// Moments 0 and 2 are of one node, 1 and 3 of the other.
    fn node_of(moment: usize) -> NodeId {
        NODES[moment % 2]
    }

    fn generate(draws: &mut Draws) -> Constraints {
        let mut all = Vec::new();
        let mut put = |later: usize, earlier: usize, ms: i64, at_most: bool, counted: Counted| {
            all.push(Constraint {
                later,
                earlier,
                ms,
                at_most,
                counted,
                with_lateness: at_most && counted == Counted::By(node_of(later)),
            });
        };
        for moment in 1..MOMENTS {
            put(moment, 0, 0, false, Counted::Truly);
        }
        for moment in 2..MOMENTS {
            put(moment, moment - 2, 0, false, Counted::Truly);
        }
        for _ in 0..4 {
            let later = 1 + draws.below(MOMENTS as u64 - 1) as usize;
            let earlier = draws.below(later as u64) as usize;
            let (ms, at_most) = (draws.below(5), draws.below(2) == 1);
            let counted = match node_of(later) == node_of(earlier) {
                true => Counted::By(node_of(later)),
                false if draws.below(2) == 1 => {
                    Counted::Between(Some(node_of(earlier)), node_of(later))
                }
                false => Counted::Truly,
            };
            put(later, earlier, ms, at_most, counted);
        }
        Constraints {
            moments: MOMENTS,
            path_from: 0,
            all,
            placed: Vec::new(),
            never: false,
            looked: false,
        }
    }

    /// Tries all times within a range, counted in parts of a millisecond, and all such offsets of clocks.
    fn is_possible(constraints: &Constraints, clock: &Clock, parts: i64) -> bool {
        let skew = clock.skew_ms as i64 * parts;
        let range = 12 * parts;
        let meets = |times: &[i64; MOMENTS], offset: i64| {
            constraints.all.iter().all(|constraint| {
                let apart = match constraint.counted {
                    Counted::Between(_, other) if other == NODES[0] => -offset,
                    Counted::Between(..) => offset,
                    _ => 0,
                };
                let passed = times[constraint.later] - times[constraint.earlier] + apart;
                let late = if constraint.with_lateness {
                    clock.late()
                } else {
                    0
                };
                match constraint.at_most {
                    true => passed <= (constraint.ms + late) * parts,
                    false => passed >= constraint.ms * parts,
                }
            })
        };
        // Each clock is off by the skew at most: the second is off from the first by twice that.
        (-2 * skew..=2 * skew).any(|offset| {
            (0..range).any(|a| (0..range).any(|b| (0..range).any(|c| meets(&[0, a, b, c], offset))))
        })
    }

    fn check(clock: Clock, seeds: u64, parts: i64) {
        let mut possible = 0;
        for seed in 0..seeds {
            let constraints = generate(&mut Draws(mix(seed)));
            let expected = is_possible(&constraints, &clock, parts);
            let found = times(&constraints, &clock);
            assert_eq!(found.is_some(), expected, "seed {seed}: {constraints:?}");
            possible += u64::from(expected);
        }
        assert!(
            possible > seeds / 10 && possible < seeds * 9 / 10,
            "{possible}"
        );
    }

    #[test]
    fn there_are_times_where_enumeration_finds_some() {
        for late_ms in [0, 1] {
            let clock = Clock {
                late_ms,
                ..Clock::default()
            };
            check(clock, 2_000, 1);
        }
    }

    /// Clocks that are off make times of half a millisecond possible.
    #[test]
    fn clocks_that_are_off_are_solved_as_enumeration_does() {
        let clock = Clock {
            late_ms: 0,
            skew_ms: 1,
            ..Clock::default()
        };
        check(clock, 150, 2);
    }

    #[test]
    fn one_clock_cannot_be_fast_and_slow_at_once() {
        // By the clock of a node 1000 ms pass between two moments, and by another's at least 1009; then, between two
        // others, the same the other way round. Bounds that are widened alone would allow it at 1 in 200.
        let one = |later, earlier, ms, at_most, node: usize| Constraint {
            later,
            earlier,
            ms,
            at_most,
            counted: Counted::By(NODES[node]),
            with_lateness: false,
        };
        let order = |later, earlier| Constraint {
            later,
            earlier,
            ms: 0,
            at_most: false,
            counted: Counted::Truly,
            with_lateness: false,
        };
        let constraints = Constraints {
            moments: 2,
            path_from: 0,
            all: vec![
                order(1, 0),
                one(1, 0, 1000, true, 0),
                one(1, 0, 1009, false, 1),
            ],
            placed: Vec::new(),
            never: false,
            looked: false,
        };
        let drift = |drift_ppm| Clock {
            drift_ppm,
            ..Clock::default()
        };
        assert_eq!(times(&constraints, &drift(4_000)), None);
        assert!(times(&constraints, &drift(4_500)).is_some());
        assert_eq!(need(&constraints, &drift(0)), Some(Need::Drift(4_480)));
    }
}
