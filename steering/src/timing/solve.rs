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
