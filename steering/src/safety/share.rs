//! How much of its time a host may spend on the check.
//!
//! Time is earned as it passes and spent by trials. A trial apart from the host takes a fraction of a millisecond, and several
//! on a machine that is busy; a chain of messages waits for one at every node. So trials apart have a purse of their own with
//! the smaller part of the time, and are made only while they are quick. While there is enough in it, an event is tried as the
//! configuration says; otherwise on a clone, which takes microseconds and comes out of the other purse; with none in either, it
//! runs untried, and is counted.
//!
//! What properties read of the node is compared after most events, in nanoseconds. That has a purse too, and since a look at the
//! clock takes longer than most comparisons, one in many is measured and stands for the others.
//!
//! On a machine that is busy, most of what a slow trial takes by the clock is waiting for a processor, which the event would have
//! waited for without the check. So a trial in this thread costs the thread's own processor time, unless trials are so quick that
//! reading that clock would cost more than they do.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use scry_protocol::Times;
use scry_protocol::link::host::Isolate;

use scry_checkpoint::Time;

/// Trials apart may take one part in so many of the whole share.
const APART_PART: i64 = 6;
/// And comparisons of what properties read.
const WATCHING_PART: i64 = 6;
/// No more than this is saved up, so that a quiet hour does not pay for a stall. Much less would not do: on a busy machine one trial
/// that loses its processor takes milliseconds, and what follows would run untried.
const SAVED_MAX: Duration = Duration::from_millis(20);
/// Whoever may spend all of the time is not limited.
const ALL: u32 = 1000;
/// What a trial on a clone is taken to cost before one has been measured.
const FIRST_GUESS: Duration = Duration::from_micros(1);
/// A trial apart that takes longer than this is not worth an event's time; one in so many is made all the same, to see whether
/// they have become quicker.
const APART_MAX: Duration = Duration::from_micros(200);
const LOOK_EVERY: u32 = 64;
/// A host that has just started is in a hurry, and nobody knows yet what a trial apart takes: the first is made after so many
/// on clones.
const FIRST_LOOK: u32 = 8;
/// One comparison in so many is measured, and all that are taken to be slow.
const MEASURE_EVERY: u32 = 64;
const SLOW_NS: i64 = 10_000;
/// A new measurement counts for one part in so many: a slow one may have been disturbed, a quick one was possible.
const SLOWER_PART: i64 = 8;
const QUICKER_PART: i64 = 2;

/// The time that may be spent now.
#[derive(Debug)]
pub(super) struct Share {
    per_mille: u32,
    at: Time,
    apart: Purse,
    clone: Purse,
    watching: Purse,
    /// How many comparisons there are until one is measured.
    unmeasured_count: u32,
    /// How many trials were made on clones since the last one apart.
    clones_count: u32,
    times: Times,
}

/// Whether what properties read of the node may be compared now, and whether somebody should look how long that takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Watch {
    Not,
    Unmeasured,
    Measured,
}

/// The begin of a trial, by the clocks that tell its cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    at: Instant,
    /// The thread's own processor time, if that is what counts.
    used: Option<Duration>,
}

/// What a trial or a comparison took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    /// By the clock: how long the event waited.
    waited: Duration,
    /// What it cost the host.
    cost: Duration,
}

impl Begun {
    /// Begins to measure, at a time the caller has just looked at.
    fn new(at: Instant, by_processor: bool) -> Self {
        let used = if by_processor { used_by_thread() } else { None };
        Self { at, used }
    }

    /// Begins to measure what runs in this thread.
    pub(super) fn now() -> Self {
        Self::new(Instant::now(), true)
    }

    /// Returns what it took.
    pub(super) fn took(self) -> Took {
        let waited = self.at.elapsed();
        let used = self
            .used
            .and_then(|from| used_by_thread()?.checked_sub(from));
        Took {
            waited,
            cost: used.unwrap_or(waited),
        }
    }
}

/// Returns the processor time that this thread has used, if the system tells.
fn used_by_thread() -> Option<Duration> {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
    Some(used.into())
}

/// What is left for one kind of trial.
#[derive(Debug)]
struct Purse {
    saved_ns: i64,
    saved_ns_max: i64,
    /// What a trial costs.
    cost_ns: i64,
    /// Whether that was measured, or is a guess.
    is_measured: bool,
}

impl Default for Share {
    fn default() -> Self {
        let saved = SAVED_MAX.as_nanos() as i64;
        Self {
            per_mille: 0,
            at: Time::default(),
            apart: Purse::of(saved / APART_PART, 2 * APART_MAX),
            clone: Purse::of(
                saved - saved / APART_PART - saved / WATCHING_PART,
                FIRST_GUESS,
            ),
            watching: Purse::of(saved / WATCHING_PART, FIRST_GUESS),
            unmeasured_count: 0,
            clones_count: LOOK_EVERY - FIRST_LOOK,
            times: Times::default(),
        }
    }
}

impl Purse {
    fn of(saved_ns_max: i64, cost: Duration) -> Self {
        Self {
            saved_ns: saved_ns_max,
            saved_ns_max,
            cost_ns: cost.as_nanos() as i64,
            is_measured: false,
        }
    }

    fn earn(&mut self, earned_ns: i64) {
        self.saved_ns = (self.saved_ns + earned_ns).min(self.saved_ns_max);
    }

    /// Learns what the next will cost from what one has taken.
    fn learn(&mut self, took_ns: i64) {
        let part = match took_ns > self.cost_ns {
            _ if !std::mem::replace(&mut self.is_measured, true) => 1,
            true => SLOWER_PART,
            false => QUICKER_PART,
        };
        self.cost_ns += (took_ns - self.cost_ns) / part;
    }

    /// Tells whether a trial may be made. A full purse is enough for any, or nobody would learn that they have become cheaper.
    fn is_enough(&self) -> bool {
        self.saved_ns >= self.cost_ns.min(self.saved_ns_max)
    }
}

impl Share {
    pub(super) fn set(&mut self, per_mille: u32) {
        self.per_mille = per_mille.min(ALL);
    }

    /// Earns what has passed since it was last asked.
    #[inline]
    pub(super) fn earn(&mut self, now: Time) {
        let passed_ms = now.millis_since(self.at);
        if passed_ms == 0 {
            return;
        }
        self.at = now;
        let earned_ns =
            i64::from(self.per_mille).saturating_mul(1_000 * passed_ms.min(60_000) as i64);
        self.apart.earn(earned_ns / APART_PART);
        self.watching.earn(earned_ns / WATCHING_PART);
        self.clone
            .earn(earned_ns - earned_ns / APART_PART - earned_ns / WATCHING_PART);
    }

    /// Returns how a trial may be made, if one may.
    #[inline]
    pub(super) fn allows(&self, wanted: Isolate) -> Option<Isolate> {
        let quick = self.apart.cost_ns <= APART_MAX.as_nanos() as i64;
        let apart = (quick || self.clones_count >= LOOK_EVERY) && self.apart.is_enough();
        if self.per_mille == ALL || (wanted != Isolate::Clone && apart) {
            return Some(wanted);
        }
        self.clone.is_enough().then_some(Isolate::Clone)
    }

    /// Spends the time of one comparison, if it may be made, and says whether it is to be measured.
    #[inline]
    pub(super) fn watch(&mut self) -> Watch {
        if !self.watching.is_enough() && self.per_mille != ALL {
            return Watch::Not;
        }
        self.watching.saved_ns -= self.watching.cost_ns;
        match self.unmeasured_count.checked_sub(1) {
            Some(rest) => {
                self.unmeasured_count = rest;
                Watch::Unmeasured
            }
            None => Watch::Measured,
        }
    }

    /// Learns from a comparison what the next will take.
    pub(super) fn learn_watch(&mut self, took: Took) {
        self.watching.learn(took.cost.as_nanos() as i64);
        self.unmeasured_count = match self.watching.cost_ns > SLOW_NS {
            true => 0,
            false => MEASURE_EVERY - 1,
        };
    }

    /// Returns how long trials took.
    pub(super) fn times(&self) -> &Times {
        &self.times
    }

    /// Begins to measure a trial, at a time the caller has just looked at. While nobody knows how quick trials on clones are, or
    /// if they are slow, their processor time is what counts.
    #[inline]
    pub(super) fn begin_trial(&self, how: Isolate, at: Instant) -> Begun {
        let clone = &self.clone;
        let slow = !clone.is_measured || clone.cost_ns > SLOW_NS;
        Begun::new(at, how == Isolate::Clone && slow)
    }

    /// Spends what a trial took, and learns from it what the next will.
    pub(super) fn spend_on_trial(&mut self, how: Isolate, took: Took) {
        let took_ns = took.cost.as_nanos() as i64;
        self.times.note_us(took.waited.as_micros() as u64);
        let purse = match how {
            Isolate::Clone => {
                self.clones_count = self.clones_count.saturating_add(1);
                &mut self.clone
            }
            _ => {
                self.clones_count = 0;
                &mut self.apart
            }
        };
        purse.saved_ns -= took_ns;
        purse.learn(took_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something that waited for nothing.
    fn exactly(cost: Duration) -> Took {
        Took { waited: cost, cost }
    }

    /// Tries one event after the other for ten seconds, each trial taking so long, and returns how much was spent on trials
    /// of each kind, in milliseconds.
    fn spent(events_per_ms: u64, apart: Duration, clone: Duration) -> (u128, u128) {
        let mut share = Share::default();
        share.set(30);
        let (mut apart_spent, mut clone_spent) = (Duration::ZERO, Duration::ZERO);
        for event in 0..10_000 * events_per_ms {
            share.earn(Time::from_millis(event / events_per_ms));
            match share.allows(Isolate::Speculator) {
                Some(Isolate::Clone) => {
                    share.spend_on_trial(Isolate::Clone, exactly(clone));
                    clone_spent += clone;
                }
                Some(how) => {
                    share.spend_on_trial(how, exactly(apart));
                    apart_spent += apart;
                }
                None => {}
            }
        }
        (apart_spent.as_millis(), clone_spent.as_millis())
    }

    #[test]
    fn no_more_than_the_share_is_spent_however_many_events_there_are() {
        let micros = Duration::from_micros;
        for (events_per_ms, apart, clone) in
            [(1, 180, 2), (20, 180, 2), (20, 5_000, 500), (400, 180, 1)]
        {
            let (apart, clone) = spent(events_per_ms, micros(apart), micros(clone));
            // Twenty-five thousandths of ten seconds, what was saved at first, and the last trial begun.
            assert!(apart + clone <= 250 + 20 + 5, "{apart} + {clone} ms");
            assert!(apart <= 50 + 4 + 5, "{apart} ms");
            assert!(apart + clone >= 40, "{apart} + {clone} ms");
        }
    }

    #[test]
    fn a_quiet_service_is_tried_as_configured_once_that_is_known_to_be_quick() {
        let mut share = Share::default();
        share.set(30);
        for event in 0..500 {
            share.earn(Time::from_millis(event * 50));
            let how = share
                .allows(Isolate::Speculator)
                .expect("none runs untried");
            let is_first = event < u64::from(FIRST_LOOK);
            assert_eq!(how == Isolate::Clone, is_first, "{event}");
            let took = if is_first { 2 } else { 150 };
            share.spend_on_trial(how, exactly(Duration::from_micros(took)));
        }
    }

    #[test]
    fn comparisons_keep_to_their_part_of_the_share_whatever_they_take() {
        for took_ns in [15, 400, 30_000, 2_000_000] {
            let mut share = Share::default();
            share.set(30);
            let (mut made, mut measured) = (0u64, 0u64);
            for event in 0..1_000_000 {
                share.earn(Time::from_millis(event / 100));
                match share.watch() {
                    Watch::Not => continue,
                    Watch::Unmeasured => {}
                    Watch::Measured => {
                        measured += 1;
                        share.learn_watch(exactly(Duration::from_nanos(took_ns)));
                    }
                }
                made += 1;
            }
            let spent_ms = made * took_ns / 1_000_000;
            // Five thousandths of ten seconds, what was saved at first, and the last one.
            assert!(spent_ms <= 50 + 4 + 2, "{took_ns} ns: {spent_ms} ms");
            match took_ns {
                15 => assert_eq!(
                    made, 1_000_000,
                    "all are made while they cost next to nothing"
                ),
                400 => assert!(made > 100_000, "{made}"),
                _ => assert_eq!(made, measured, "those that are slow are all measured"),
            }
        }
    }

    #[test]
    fn trials_that_are_slow_apart_are_made_on_clones_until_they_are_quick_again() {
        let mut share = Share::default();
        share.set(30);
        // A message each 80 ms. How many of the next thousand are tried apart, if that takes so long?
        let mut event = 0;
        let mut apart_of_1000 = |apart: Duration| {
            let mut count = 0u64;
            for _ in 0..1000 {
                event += 1;
                share.earn(Time::from_millis(event * 80));
                let how = share
                    .allows(Isolate::Speculator)
                    .expect("none runs untried");
                match how {
                    Isolate::Clone => share.spend_on_trial(how, exactly(Duration::from_micros(20))),
                    _ => {
                        count += 1;
                        share.spend_on_trial(how, exactly(apart));
                    }
                }
            }
            count
        };
        let first = apart_of_1000(Duration::from_micros(180));
        assert_eq!(first, 1000 - u64::from(FIRST_LOOK));
        // A machine that is busy.
        let busy = apart_of_1000(Duration::from_millis(5));
        assert!((10..=40).contains(&busy), "{busy}");
        let quiet = apart_of_1000(Duration::from_micros(180));
        assert!(quiet > 500, "{quiet}");
    }

    #[test]
    fn waiting_for_a_processor_costs_nothing() {
        let mut share = Share::default();
        share.set(20);
        // Trials that take a millisecond of the processor, and a hundred by the clock: a few each second.
        for event in 0..50 {
            share.earn(Time::from_millis(event * 300));
            let how = share.allows(Isolate::Clone).expect("none runs untried");
            let took = Took {
                waited: Duration::from_millis(100),
                cost: Duration::from_millis(1),
            };
            share.spend_on_trial(how, took);
        }
        assert_eq!(share.times().sum_us(), 50 * 100_000, "but it is told");
    }

    #[test]
    fn slow_trials_on_clones_are_measured_by_processor_time_and_quick_ones_by_the_clock() {
        let mut share = Share::default();
        share.set(20);
        let by_processor =
            |share: &Share, how| share.begin_trial(how, Instant::now()).used.is_some();
        assert!(by_processor(&share, Isolate::Clone), "nobody knows yet");
        share.spend_on_trial(Isolate::Clone, exactly(Duration::from_micros(2)));
        assert!(!by_processor(&share, Isolate::Clone));
        share.spend_on_trial(Isolate::Clone, exactly(Duration::from_millis(5)));
        assert!(by_processor(&share, Isolate::Clone));
        // What another process does does not show in this thread's time.
        assert!(!by_processor(&share, Isolate::Fork));
        let begun = share.begin_trial(Isolate::Clone, Instant::now());
        std::thread::yield_now();
        let took = begun.took();
        assert!(
            took.cost <= took.waited + Duration::from_millis(1),
            "{took:?}"
        );
    }
}
