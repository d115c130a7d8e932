//! Breadth-first search from where nothing has happened yet: the papers' other way to look for the same bug.
//!
//! Everything is as in the search from the start state, except that no script runs: the same nodes, just booted, the
//! same bug, and as many faults of each kind as the script and the path took together. Lost datagrams are not counted.
//! One that stays on its way for ever does the same, so the search needs no losses, and is faster without them.

use std::time::{Duration, Instant};

use scry::explore::{Counts, SearchError};
use scry::{Event, Faults, Limits, Options, Program, Search, Simulation, Step, Strategy};

use crate::catalogue::Case;
use crate::row::Found;

/// How much longer than consequence prediction it may take.
const TIMES: u32 = 100;
/// The least and the most time it gets, whatever consequence prediction took.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(30);
/// How much memory its tables may take.
const BYTES_MAX: u64 = 4 << 30;
/// About how many steps are taken between two looks at the clock.
const STEPS: u64 = 20_000;

/// Sees how far a search is while it runs.
pub trait Watch {
    /// Is told now and then.
    fn see(&mut self, case: &Case, elapsed: Duration, limit: Duration, counts: &Counts);
}

/// Counts the faults that some steps need when they start from the initial state.
pub fn faults_of<'a, S: Program>(steps: impl IntoIterator<Item = &'a Step<S>>) -> Faults {
    let mut faults = Faults::NONE;
    for step in steps {
        match step.event {
            Event::Reset { notice: true } => faults.resets += 1,
            Event::Reset { notice: false } => faults.silent_resets += 1,
            Event::Break { .. } => faults.breaks += 1,
            Event::Duplicate { .. } => faults.duplicates += 1,
            _ => {}
        }
    }
    faults
}

/// Returns how long to search for what consequence prediction found in a given time.
pub fn time_limit(consequence: Duration) -> Duration {
    (consequence * TIMES).clamp(LEAST, MOST)
}

/// Searches until the bug is found, or the time is up.
pub(crate) fn search<S: Program>(
    case: &Case,
    initial: &Simulation<S>,
    limit: Duration,
    watch: &mut dyn Watch,
) -> Result<Found, SearchError> {
    let options = Options {
        strategy: Strategy::EXHAUSTIVE,
        limits: Limits {
            bytes: Some(BYTES_MAX),
            first_violation: true,
            ..Limits::default()
        },
        ..Options::default()
    };
    // Only the bug's own property is looked at, so that nothing else ends the search before.
    let mut properties = S::properties();
    properties.retain(|property| property.name() == case.property);
    let begun = Instant::now();
    let mut search = Search::new(initial, properties, options)?;
    while search.advance(STEPS).is_none() && begun.elapsed() < limit {
        watch.see(case, begun.elapsed(), limit, &search.counts());
    }
    let report = search.finish();
    Ok(Found::of(case, &report, begun.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_a_hundredfold_within_bounds() {
        let limit = |ms| time_limit(Duration::from_millis(ms));
        assert_eq!(limit(0), Duration::from_secs(1));
        assert_eq!(limit(40), Duration::from_secs(4));
        assert_eq!(limit(5_000), Duration::from_secs(30));
    }
}
