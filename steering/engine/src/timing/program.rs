//! Times by clocks that drift or are off: a linear program.
//!
//! Beside its true time each moment has a reading by the clock of its node. From one moment to the next, a reading moves
//! on by what the drift allows; where stamps of one node are compared by another, readings are no farther from the true
//! time than the skew allows. Bounds that are merely widened would let one clock run fast for one constraint and slow
//! for the other.

use std::collections::BTreeMap;

use scry_protocol::NodeId;

use crate::timing::Clock;
use crate::timing::path::{Constraint, Constraints, Counted};

/// What counts as nothing, in milliseconds.
const NOTHING: f64 = 1e-7;
/// How often the simplex method moves on before it is given up.
const PIVOTS_MAX: usize = 20_000;

/// A sum of variables that is at most some value.
struct Row {
    parts: Vec<(usize, f64)>,
    most: f64,
}

struct Program<'a> {
    clock: &'a Clock,
    rows: Vec<Row>,
    variables: usize,
    /// The readings that moments have by clocks. `None` is a clock of which nothing is known.
    readings: BTreeMap<(Option<NodeId>, usize), usize>,
}

/// Tells whether there are times that meet constraints by clocks that drift or are off.
pub(crate) fn is_feasible(constraints: &Constraints, clock: &Clock) -> bool {
    let mut program = Program {
        clock,
        rows: Vec::new(),
        variables: constraints.moments,
        readings: BTreeMap::new(),
    };
    for constraint in &constraints.all {
        program.constrain(constraint);
    }
    let compared: Vec<Option<NodeId>> = constraints
        .all
        .iter()
        .flat_map(|constraint| match constraint.counted {
            Counted::Between(one, other) => vec![one, Some(other)],
            _ => Vec::new(),
        })
        .collect();
    program.relate(constraints, &compared);
    is_solvable(&program.rows, program.variables)
}

impl Program<'_> {
    fn reading(&mut self, clock: Option<NodeId>, moment: usize) -> usize {
        let next = self.variables;
        let reading = *self.readings.entry((clock, moment)).or_insert(next);
        self.variables = self.variables.max(reading + 1);
        reading
    }

    fn constrain(&mut self, constraint: &Constraint) {
        let Constraint {
            later,
            earlier,
            ms,
            at_most,
            counted,
            with_lateness,
        } = *constraint;
        let (later, earlier) = match counted {
            Counted::Truly => (later, earlier),
            Counted::By(node) => (
                self.reading(Some(node), later),
                self.reading(Some(node), earlier),
            ),
            Counted::Between(one, other) => {
                (self.reading(Some(other), later), self.reading(one, earlier))
            }
        };
        let late = if with_lateness { self.clock.late() } else { 0 };
        match at_most {
            true => self.differ(later, earlier, (ms + late) as f64),
            false => self.differ(earlier, later, -ms as f64),
        }
    }

    fn differ(&mut self, a: usize, b: usize, most: f64) {
        self.rows.push(Row {
            parts: vec![(a, 1.0), (b, -1.0)],
            most,
        });
    }

    /// Relates readings to times. Moments have the order of their numbers at a node, as far as they are on the path.
    fn relate(&mut self, constraints: &Constraints, compared: &[Option<NodeId>]) {
        let before = constraints.path_from;
        let readings: Vec<((Option<NodeId>, usize), usize)> =
            self.readings.iter().map(|(key, at)| (*key, *at)).collect();
        let drift = f64::from(self.clock.drift_ppm) / 1e6;
        for (index, &((clock, moment), reading)) in readings.iter().enumerate() {
            if compared.contains(&clock) {
                let skew = self.clock.skew_ms as f64;
                self.differ(reading, moment, skew);
                self.differ(moment, reading, skew);
            }
            if clock.is_none() {
                continue;
            }
            for &((other, next), later) in &readings[index + 1..] {
                if other != clock {
                    break;
                }
                // Moments from before the path have no order among themselves, and each precedes what is on it.
                if next < before {
                    continue;
                }
                for (rate, sign) in [(1.0 + drift, 1.0), (1.0 - drift, -1.0)] {
                    self.rows.push(Row {
                        parts: vec![
                            (later, sign),
                            (reading, -sign),
                            (next, -sign * rate),
                            (moment, sign * rate),
                        ],
                        most: 0.0,
                    });
                }
                if moment >= before {
                    break;
                }
            }
        }
    }
}

/// Tells whether there are values, none below zero, that meet all rows (the simplex method with Bland's rule). Times may
/// be counted from as long ago as one likes, so that none is below zero.
fn is_solvable(rows: &[Row], variables: usize) -> bool {
    let Some(worst) = (0..rows.len()).min_by(|&a, &b| rows[a].most.total_cmp(&rows[b].most)) else {
        return true;
    };
    if rows[worst].most >= -NOTHING {
        return true;
    }
    // One more variable says by how much a row may be missed at most; it is to become nothing.
    let (missed, width) = (variables, variables + 2 + rows.len());
    let mut table = vec![vec![0.0; width]; rows.len() + 1];
    let mut basis: Vec<usize> = (0..rows.len()).map(|row| variables + 1 + row).collect();
    for (at, row) in rows.iter().enumerate() {
        for &(variable, factor) in &row.parts {
            table[at][variable] += factor;
        }
        table[at][missed] = -1.0;
        table[at][variables + 1 + at] = 1.0;
        table[at][width - 1] = row.most;
    }
    let goal = rows.len();
    table[goal][missed] = 1.0;
    pivot(&mut table, &mut basis, worst, missed);
    for _ in 0..PIVOTS_MAX {
        let Some(column) = (0..width - 1).find(|&column| table[goal][column] < -NOTHING) else {
            break;
        };
        let mut best: Option<(usize, f64)> = None;
        for row in 0..goal {
            let factor = table[row][column];
            if factor <= NOTHING {
                continue;
            }
            let ratio = table[row][width - 1] / factor;
            let better = best.is_none_or(|(known, least)| {
                ratio < least - 1e-12 || (ratio < least + 1e-12 && basis[row] < basis[known])
            });
            if better {
                best = Some((row, ratio));
            }
        }
        let Some((row, _)) = best else { break };
        pivot(&mut table, &mut basis, row, column);
    }
    -table[goal][width - 1] < 1e-6
}

fn pivot(table: &mut [Vec<f64>], basis: &mut [usize], row: usize, column: usize) {
    let factor = table[row][column];
    for value in &mut table[row] {
        *value /= factor;
    }
    let chosen = table[row].clone();
    for (at, other) in table.iter_mut().enumerate() {
        let factor = other[column];
        if at != row && factor != 0.0 {
            for (value, chosen) in other.iter_mut().zip(&chosen) {
                *value -= factor * chosen;
            }
        }
    }
    basis[row] = column;
}
