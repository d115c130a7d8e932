//! What is known of some moments: how far each may lie after each other one, in whole milliseconds.
//!
//! A difference-bound matrix, always closed: every bound is the tightest that follows from all of them. Moments that
//! nothing refers to any more are dropped, and what they implied for the others stays.

/// No bound. A quarter of the range, so that two can be added.
pub(crate) const NEVER: i64 = i64::MAX / 4;

/// A set of moments and the bounds on their differences.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Zone {
    count: usize,
    /// `bounds[a * count + b]`: moment `a` is at most this much later than moment `b`.
    bounds: Vec<i64>,
    empty: bool,
}

impl Zone {
    /// Makes a zone of unrelated moments.
    pub(crate) fn new(count: usize) -> Self {
        let mut zone = Self {
            count: 0,
            bounds: Vec::new(),
            empty: false,
        };
        for _ in 0..count {
            zone.add();
        }
        zone
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Tells whether there are no such moments.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Returns the greatest difference of `a` after `b`.
    pub(crate) fn bound(&self, a: usize, b: usize) -> i64 {
        self.bounds[a * self.count + b]
    }

    /// Adds a moment of which nothing is known.
    pub(crate) fn add(&mut self) -> usize {
        let old = self.count;
        let mut bounds = vec![NEVER; (old + 1) * (old + 1)];
        for a in 0..old {
            bounds[a * (old + 1)..][..old].copy_from_slice(&self.bounds[a * old..][..old]);
        }
        bounds[old * (old + 1) + old] = 0;
        self.count += 1;
        self.bounds = bounds;
        old
    }

    /// Lets `a` be at most `most` later than `b`.
    pub(crate) fn limit(&mut self, a: usize, b: usize, most: i64) {
        if self.empty || most >= self.bound(a, b) {
            return;
        }
        if self.bound(b, a) < NEVER && self.bound(b, a) + most < 0 {
            self.empty = true;
            return;
        }
        for x in 0..self.count {
            let to_a = self.bound(x, a);
            if to_a >= NEVER {
                continue;
            }
            for y in 0..self.count {
                let from_b = self.bound(b, y);
                if from_b < NEVER {
                    let through = to_a + most + from_b;
                    let place = &mut self.bounds[x * self.count + y];
                    *place = through.min(*place);
                }
            }
        }
    }

    /// Lets `a` be at least `least` later than `b`.
    pub(crate) fn require(&mut self, a: usize, b: usize, least: i64) {
        self.limit(b, a, -least);
    }

    /// Keeps some moments, in this order; the others are forgotten. One may be kept twice.
    pub(crate) fn keep(&self, moments: &[usize]) -> Self {
        let bounds = moments
            .iter()
            .flat_map(|&a| moments.iter().map(move |&b| self.bound(a, b)));
        Self {
            count: moments.len(),
            bounds: bounds.collect(),
            empty: self.empty,
        }
    }

    /// Forgets how much longer ago than `most` a moment is, by the clock of moment 0: nothing is ever asked about that.
    /// The zone becomes larger, never smaller, and there are only so many such zones.
    pub(crate) fn forget_beyond(&mut self, most: i64) {
        if self.empty {
            return;
        }
        let ages: Vec<(i64, i64)> = (0..self.count)
            .map(|moment| (self.bound(0, moment), -self.bound(moment, 0)))
            .collect();
        let old = |moment: usize| moment != 0 && ages[moment].1 > most;
        let count = self.count;
        for a in 0..count {
            for b in (0..count).filter(|&b| b != a) {
                let place = &mut self.bounds[a * count + b];
                // The age of b less the age of a.
                if old(b) || b != 0 && (old(a) || *place > most) {
                    *place = NEVER;
                }
                if old(a) && b == 0 {
                    *place = -(most + 1);
                }
            }
        }
        self.close();
    }

    fn close(&mut self) {
        let count = self.count;
        for through in 0..count {
            for a in 0..count {
                let first = self.bound(a, through);
                if first >= NEVER {
                    continue;
                }
                for b in 0..count {
                    let second = self.bound(through, b);
                    if second < NEVER && first + second < self.bound(a, b) {
                        self.bounds[a * count + b] = first + second;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::handler::mix;

    /// Tries all moments within a small range.
    fn points(zone: &Zone, range: i64) -> Vec<Vec<i64>> {
        let mut points: Vec<Vec<i64>> = vec![Vec::new()];
        for _ in 0..zone.len() {
            let longer = points.iter().flat_map(|point| {
                (0..range).map(move |value| [point.as_slice(), &[value]].concat())
            });
            points = longer.collect();
        }
        let fits = |point: &Vec<i64>| {
            let pairs = (0..zone.len()).flat_map(|a| (0..zone.len()).map(move |b| (a, b)));
            let within = |(a, b): (usize, usize)| point[a] - point[b] <= zone.bound(a, b);
            !zone.is_empty() && pairs.into_iter().all(within)
        };
        points.retain(fits);
        points
    }

    /// The zone must hold just the points that meet the bounds it was given, and forget a moment without loss.
    #[test]
    fn a_zone_is_the_set_of_points_that_meet_its_bounds() {
        for seed in 0..400_u64 {
            let mut word = mix(seed);
            let mut draw = |of: u64| {
                word = mix(word);
                (word % of) as i64
            };
            let mut zone = Zone::new(3);
            let mut given = Vec::new();
            for _ in 0..4 {
                let (a, b, most) = (draw(3) as usize, draw(3) as usize, draw(7) - 3);
                if a != b {
                    zone.limit(a, b, most);
                    given.push((a, b, most));
                }
            }
            let range = 8;
            let free = points(&Zone::new(3), range);
            let meets = |point: &&Vec<i64>| {
                given
                    .iter()
                    .all(|&(a, b, most)| point[a] - point[b] <= most)
            };
            let expected: Vec<Vec<i64>> = free.iter().filter(meets).cloned().collect();
            assert_eq!(points(&zone, range), expected, "seed {seed}: {given:?}");
            assert_eq!(zone.is_empty(), expected.is_empty(), "seed {seed}");
            if zone.is_empty() {
                continue;
            }
            // Projections are compared by differences, since the range cuts points off.
            let fewer = zone.keep(&[2, 0]);
            for difference in -3..=3 {
                let there = expected
                    .iter()
                    .any(|point| point[2] - point[0] == difference);
                let allowed = difference <= fewer.bound(0, 1) && -difference <= fewer.bound(1, 0);
                assert!(allowed || !there, "seed {seed}");
            }
        }
    }

    #[test]
    fn what_is_older_than_anybody_asks_is_old_and_no_more() {
        let mut zone = Zone::new(3);
        zone.require(0, 1, 700);
        zone.limit(0, 1, 900);
        zone.require(0, 2, 5);
        zone.limit(0, 2, 10);
        let exact = zone.clone();
        zone.forget_beyond(1000);
        assert_eq!(zone, exact);
        zone.forget_beyond(500);
        assert_eq!((zone.bound(0, 1), zone.bound(1, 0)), (NEVER, -501));
        assert_eq!((zone.bound(0, 2), zone.bound(2, 0)), (10, -5));
    }
}
