//! Numbers about samples: percentiles, and the two-sample Kolmogorov–Smirnov test for "are these join times alike?".

use serde::Serialize;

/// A sample in a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// How many values.
    pub(crate) count: usize,
    /// Their mean.
    pub(crate) mean: f64,
    /// Their standard deviation.
    pub(crate) deviation: f64,
    /// Half of them are not above this.
    pub(crate) median: f64,
    /// Nine of ten are not above this.
    pub(crate) p90: f64,
    /// Ninety-nine of a hundred are not above this.
    pub(crate) p99: f64,
    /// The greatest.
    pub(crate) greatest: f64,
}

/// What a comparison of two samples says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Likeness {
    /// The greatest distance between the two distribution functions.
    pub(crate) distance: f64,
    /// How likely a distance at least as great is if both samples come from one distribution.
    pub(crate) p_value: f64,
}

impl Summary {
    /// Describes a sample.
    pub(crate) fn of(values: &[f64]) -> Self {
        let sorted = sorted(values);
        let count = sorted.len();
        if count == 0 {
            return Self::default();
        }
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let freedom = (count - 1).max(1) as f64;
        Self {
            count,
            mean,
            deviation: (squares / freedom).sqrt(),
            median: percentile(&sorted, 50),
            p90: percentile(&sorted, 90),
            p99: percentile(&sorted, 99),
            greatest: percentile(&sorted, 100),
        }
    }
}

/// Returns the values by size.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the smallest of some sorted values that is not below `per_cent` of them (nearest rank).
fn percentile(sorted: &[f64], per_cent: usize) -> f64 {
    let rank = (sorted.len() * per_cent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Returns the time within which `per_cent` of some sorted times in whole milliseconds lie. Each stands for any time that
/// is rounded to it, so that the answer is not in whole milliseconds: half of 9, 10, 10, 11 lie within 10.
pub(crate) fn within(sorted: &[f64], per_cent: f64) -> f64 {
    let rank = sorted.len() as f64 * per_cent / 100.0;
    let at = (rank.ceil() as usize).max(1) - 1;
    let Some(&value) = sorted.get(at) else {
        return 0.0;
    };
    let below = sorted.partition_point(|&it| it < value) as f64;
    let equal = sorted.partition_point(|&it| it <= value) as f64 - below;
    (value - 0.5 + (rank - below) / equal).max(0.0)
}

/// Returns the middle one of some values, or the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let half = sorted.len() / 2;
    match (sorted.get(half), sorted.len() % 2) {
        (None, _) => 0.0,
        (Some(&middle), 1) => middle,
        (Some(&upper), _) => (sorted[half - 1] + upper) / 2.0,
    }
}

/// Compares two samples; there is nothing to say if one is empty.
pub(crate) fn compare(left: &[f64], right: &[f64]) -> Option<Likeness> {
    let (left, right) = (sorted(left), sorted(right));
    if left.is_empty() || right.is_empty() {
        return None;
    }
    let (n, m) = (left.len() as f64, right.len() as f64);
    let (mut i, mut j, mut distance) = (0, 0, 0.0f64);
    while i < left.len() && j < right.len() {
        // Equal values are passed on both sides before the functions are compared.
        let at = left[i].min(right[j]);
        while i < left.len() && left[i] <= at {
            i += 1;
        }
        while j < right.len() && right[j] <= at {
            j += 1;
        }
        distance = distance.max((i as f64 / n - j as f64 / m).abs());
    }
    let effective = (n * m / (n + m)).sqrt();
    // Stephens' correction makes the limit distribution usable for samples this small.
    let p_value = tail((effective + 0.12 + 0.11 / effective) * distance);
    Some(Likeness { distance, p_value })
}

/// The upper tail of the Kolmogorov distribution.
fn tail(at: f64) -> f64 {
    if at < 0.2 {
        // The alternating series converges too slowly here, and what is missing to 1 is below 1e-12.
        return 1.0;
    }
    let mut sum = 0.0;
    for term in 1..=100 {
        let k = f64::from(term);
        let sign = if term % 2 == 1 { 1.0 } else { -1.0 };
        let value = (-2.0 * k * k * at * at).exp();
        sum += sign * value;
        if value < 1e-12 {
            break;
        }
    }
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(from: u32, to: u32) -> Vec<f64> {
        (from..=to).map(f64::from).collect()
    }

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let summary = Summary::of(&numbers(1, 100));
        assert_eq!(summary.count, 100);
        assert_eq!(summary.mean, 50.5);
        assert_eq!((summary.median, summary.p90), (50.0, 90.0));
        assert_eq!((summary.p99, summary.greatest), (99.0, 100.0));
        assert!((summary.deviation - 29.011_491).abs() < 1e-6);
        assert_eq!(Summary::of(&[]), Summary::default());
        assert_eq!(Summary::of(&[7.0]).p99, 7.0);
    }

    #[test]
    fn times_in_whole_milliseconds_have_percentiles_in_between() {
        assert_eq!(within(&[9.0, 10.0, 10.0, 11.0], 50.0), 10.0);
        assert_eq!(within(&[10.0; 4], 50.0), 10.0);
        assert_eq!(
            within(&[10.0, 10.0, 10.0, 11.0], 50.0),
            10.0 - 0.5 + 2.0 / 3.0
        );
        assert_eq!(within(&[3.0, 8.0], 100.0), 8.5);
        assert_eq!((within(&[0.0], 1.0), within(&[], 50.0)), (0.0, 0.0));
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn equal_samples_are_alike_and_disjoint_ones_are_not() {
        let likeness = compare(&numbers(1, 50), &numbers(1, 50)).unwrap();
        assert_eq!((likeness.distance, likeness.p_value), (0.0, 1.0));
        let likeness = compare(&numbers(1, 50), &numbers(51, 100)).unwrap();
        assert_eq!(likeness.distance, 1.0);
        assert!(likeness.p_value < 1e-9);
        assert_eq!(compare(&[], &numbers(1, 3)), None);
    }

    #[test]
    fn the_tail_has_its_tabulated_values() {
        // Critical values of the limit distribution at 10, 5 and 1 per cent.
        for (at, expect) in [(1.2238, 0.10), (1.3581, 0.05), (1.6276, 0.01)] {
            assert!((tail(at) - expect).abs() < 1e-4, "{at}: {}", tail(at));
        }
        assert_eq!(tail(0.0), 1.0);
        assert!(tail(0.2) > 0.999_999);
    }

    #[test]
    fn ties_do_not_look_like_a_distance() {
        let likeness = compare(&[1.0, 1.0, 1.0, 2.0], &[1.0, 2.0]).unwrap();
        assert!((likeness.distance - 0.25).abs() < 1e-12);
    }
}
