//! How long the checker may take before it counts as hung: to be ready, and to report on a run. One that could go on and gets
//! no processor is no more hung than the machine is, and is given more time, but not without end.

use super::*;

/// How long a checker may take to be ready.
const READY_MS: u64 = 30_000;
/// One that has had less than this part of its time waits for a processor, if it could go on.
const STARVING_PART: u64 = 2;
/// It is late so much after it was last seen waiting, at least: it is looked at more often than that.
const STARVING_MS: u64 = 2_000;
/// It is never given more than so many times what it may take.
const STARVING_FACTOR: u64 = 10;

/// What was seen of the checker's process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CheckerSeen {
    /// The run it is at work on; none while it starts.
    pub run: Option<RunId>,
    /// How much processor time it has had for that, in milliseconds.
    pub used_ms: u64,
    /// Whether it could go on if it had a processor, or has one.
    pub is_runnable: bool,
}

/// The time that something may take.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    since: Time,
    limit_ms: u64,
    /// When it is over, as far as is known by now.
    pub(super) until: Time,
    /// Whether it was said that the checker waits for a processor.
    told: bool,
}

impl Patience {
    pub(super) fn new(now: Time, limit_ms: u64) -> Self {
        Self {
            since: now,
            limit_ms,
            until: now.after_millis(limit_ms),
            told: false,
        }
    }

    /// Returns the time a checker has to be ready.
    pub(super) fn for_start(now: Time) -> Self {
        Self::new(now, READY_MS)
    }

    /// Takes in what was seen, and tells whether it is the first time that the checker waits for a processor.
    fn look(&mut self, now: Time, seen: CheckerSeen, grace_ms: u64) -> bool {
        let due_ms = now.millis_since(self.since).min(self.limit_ms);
        if !seen.is_runnable || seen.used_ms >= due_ms / STARVING_PART {
            return false;
        }
        let most_ms = self.limit_ms.saturating_mul(STARVING_FACTOR);
        let last = self.since.after_millis(most_ms);
        let until = now.after_millis(grace_ms.max(STARVING_MS)).min(last);
        self.until = self.until.max(until);
        !std::mem::replace(&mut self.told, true)
    }
}

impl Controller {
    /// Learns that a checker was started.
    pub fn handle_checker_started(&mut self, now: Time) {
        self.starting = Some(Patience::for_start(now));
    }

    /// Learns what was seen of the checker while it has something to do, and tells whether it is worth telling that it waits
    /// for a processor.
    pub fn handle_checker_seen(&mut self, now: Time, seen: CheckerSeen) -> bool {
        let grace_ms = self.options.grace_ms;
        let patience = match seen.run {
            None => self.starting.as_mut(),
            Some(id) => {
                let run = self.run.as_mut().filter(|run| run.id == id);
                run.map(|run| &mut run.patience)
            }
        };
        patience.is_some_and(|patience| patience.look(now, seen, grace_ms))
    }

    /// A checker that is not ready in time is given up. One beyond its budget is told to stop once; if it does not, it is given
    /// up too, and the run with it.
    pub(super) fn watch_checker(&mut self, now: Time) {
        let is_over = |patience: &Patience| patience.until <= now;
        if self.starting.as_ref().is_some_and(is_over) {
            self.starting = None;
            let why = "it was not ready in time".to_owned();
            self.outputs.push_back(Output::RestartChecker { why });
        }
        let Some(run) = self.run.as_ref().filter(|run| is_over(&run.patience)) else {
            return;
        };
        if !run.told_to_stop {
            self.cancel_run(now);
            return;
        }
        let why = format!("it did not end {} within its budget", run.id);
        self.checker_ready = false;
        self.counts.runs_hung += 1;
        self.fail_open("checker-hung", 1, why.clone());
        self.outputs
            .push_back(Output::RestartChecker { why: why.clone() });
        self.end_run(now, "hung", &why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_MS: u64 = 10_000;
    const GRACE_MS: u64 = 3_000;

    /// Looks once, and returns when patience is over.
    fn check(at_ms: u64, used_ms: u64, is_runnable: bool) -> u64 {
        let mut patience = Patience::new(Time::from_millis(0), LIMIT_MS);
        let seen = CheckerSeen {
            run: None,
            used_ms,
            is_runnable,
        };
        patience.look(Time::from_millis(at_ms), seen, GRACE_MS);
        patience.until.as_millis()
    }

    #[test]
    fn only_who_waits_for_a_processor_is_given_more_time() {
        assert_eq!(check(9_000, 4_499, true), 12_000);
        assert_eq!(check(9_000, 4_500, true), LIMIT_MS, "it has had its part");
        assert_eq!(check(9_000, 0, false), LIMIT_MS, "it waits for another");
        assert_eq!(check(1_000, 0, true), LIMIT_MS, "there is time");
        assert_eq!(check(50_000, 4_999, true), 53_000);
        assert_eq!(check(50_000, 5_000, true), LIMIT_MS, "it has had its time");
    }

    #[test]
    fn nobody_is_given_time_without_end() {
        assert_eq!(check(99_000, 0, true), LIMIT_MS * STARVING_FACTOR);
        assert_eq!(check(900_000, 0, true), LIMIT_MS * STARVING_FACTOR);
    }

    #[test]
    fn it_is_told_once() {
        let mut patience = Patience::new(Time::from_millis(0), LIMIT_MS);
        let seen = CheckerSeen {
            run: None,
            used_ms: 0,
            is_runnable: true,
        };
        let mut look = |at_ms| patience.look(Time::from_millis(at_ms), seen, GRACE_MS);
        assert!(look(500));
        assert!(!look(1_000));
    }
}
