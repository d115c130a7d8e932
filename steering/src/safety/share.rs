//! How much of its time a host may spend on the check.
//!
//! Time is earned as it passes and spent by trials. While there is enough, an event is tried as the configuration says; with
//! less, on a clone; with none, it runs untried, and is counted.

use std::time::Duration;

use scry_protocol::link::host::Isolate;

use crate::checkpoint::Time;

/// No more than this is saved up, so that a quiet hour does not pay for a stall.
const SAVED_MAX: Duration = Duration::from_millis(20);
/// Whoever may spend all of the time is not limited.
const ALL: u32 = 1000;
/// What a trial is taken to cost before one has been measured.
const FIRST_GUESS: Duration = Duration::from_micros(1);
/// A new measurement counts for one part in so many.
const SMOOTHING: i64 = 8;

/// The time that may be spent now.
#[derive(Debug)]
pub(super) struct Share {
    per_mille: u32,
    saved_ns: i64,
    at: Time,
    /// What a trial costs, apart and on a clone.
    apart_ns: i64,
    clone_ns: i64,
}

impl Default for Share {
    fn default() -> Self {
        let guess = FIRST_GUESS.as_nanos() as i64;
        Self {
            per_mille: 0,
            saved_ns: SAVED_MAX.as_nanos() as i64,
            at: Time::default(),
            apart_ns: guess,
            clone_ns: guess,
        }
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
        self.saved_ns = (self.saved_ns + earned_ns).min(SAVED_MAX.as_nanos() as i64);
    }

    /// Returns how a trial may be made, if one may.
    #[inline]
    pub(super) fn allows(&self, wanted: Isolate) -> Option<Isolate> {
        if self.saved_ns >= self.cost_ns(wanted) || self.per_mille == ALL {
            return Some(wanted);
        }
        (self.saved_ns >= self.clone_ns).then_some(Isolate::Clone)
    }

    /// Tells whether anything may be spent at all.
    #[inline]
    pub(super) fn is_left(&self) -> bool {
        self.saved_ns > 0 || self.per_mille == ALL
    }

    /// Spends time on something else than a trial.
    pub(super) fn spend(&mut self, took: Duration) {
        self.saved_ns -= took.as_nanos() as i64;
    }

    /// Spends what a trial took, and learns from it what the next will.
    pub(super) fn spend_on_trial(&mut self, how: Isolate, took: Duration) {
        let took_ns = took.as_nanos() as i64;
        self.saved_ns -= took_ns;
        let cost = match how {
            Isolate::Clone => &mut self.clone_ns,
            _ => &mut self.apart_ns,
        };
        *cost += (took_ns - *cost) / SMOOTHING;
    }

    fn cost_ns(&self, how: Isolate) -> i64 {
        match how {
            Isolate::Clone => self.clone_ns,
            _ => self.apart_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    share.spend_on_trial(Isolate::Clone, clone);
                    clone_spent += clone;
                }
                Some(how) => {
                    share.spend_on_trial(how, apart);
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
            // Thirty thousandths of ten seconds, what was saved at first, and the last trial begun.
            assert!(apart + clone <= 300 + 20 + 5, "{apart} + {clone} ms");
            assert!(apart + clone >= 200, "{apart} + {clone} ms");
        }
    }

    #[test]
    fn a_quiet_service_is_tried_as_configured() {
        let mut share = Share::default();
        share.set(30);
        for event in 0..100 {
            share.earn(Time::from_millis(event * 10));
            assert_eq!(share.allows(Isolate::Speculator), Some(Isolate::Speculator));
            share.spend_on_trial(Isolate::Speculator, Duration::from_micros(180));
        }
    }
}
