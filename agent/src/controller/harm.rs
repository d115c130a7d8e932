//! What steering costs the service, by property, and when that is too much.
//!
//! The host counts what filters and vetoes did for the sake of each property: messages dropped, connections reset, calls
//! refused, events put off. It also counts its actions and the calls it answered. From these a [`Ledger`] decides that a
//! property does more harm than it may; the property is then in audit until a pause is over or an operator sets a mode.
//!
//! # What counts how much
//!
//! A refused call and a reset connection count as one action lost. A dropped message counts as half of one, since networks
//! lose messages and services send them again; an event that is put off, as a quarter, since it happens after all.
//!
//! # When it is too much
//!
//! Over the last five minutes, whichever comes first:
//!
//! - **share**: what was lost is more than `share_percent_max` of the node's actions, and at least thirty;
//! - **calls**: more calls were refused than answered, and at least sixteen were refused;
//! - **pace**: while filters were in force the node handled less than half as many events a second, or answered less than
//!   half as many calls, as it did without, and at least five were lost.
//!
//! The least numbers keep a single prevented violation in a quiet service from switching steering off. Both together bound
//! what a wrong property can cost between two pauses: thirty actions or the allowed share of five minutes, whichever is
//! more, and what happens until the host's next report.
//!
//! Without IO: moments and counts come in, decisions go out.

use std::collections::{BTreeMap, VecDeque};

use scry::checkpoint::Time;
use scry_protocol::link::host::{Harm, Stats};

/// Quarters of an action.
const QUARTERS: u64 = 4;
/// Actions lost before a share of them means anything.
const LOST_MIN: u64 = 30;
/// Calls refused before their comparison with those answered means anything.
const REFUSED_MIN: u64 = 16;
/// Actions lost before a slower service is blamed on steering.
const LOST_AT_PACE_MIN: u64 = 5;
/// How far back is looked.
const WINDOW_MS: u64 = 300_000;
/// How long a pace must have been watched, with and without filters.
const PACE_MS_MIN: u64 = 30_000;
/// How many events or calls a pace must be made of.
const PACE_COUNT_MIN: u64 = 60;
/// How many reports are kept: more than the window has seconds.
const SAMPLES_MAX: usize = 512;

/// How much harm is too much.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HarmLimits {
    /// Per cent of a node's actions that may be lost for the sake of one property; 0 for no limit at all.
    pub share_percent_max: u32,
    /// How long a property stays in audit; 0 until an operator sets a mode.
    pub pause_ms: u64,
}

impl Default for HarmLimits {
    fn default() -> Self {
        Self {
            share_percent_max: 3,
            pause_ms: 600_000,
        }
    }
}

/// A property that falls back to audit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fallen {
    /// The property.
    pub property: String,
    /// Why, for people.
    pub why: String,
    /// When it comes back by itself, if ever.
    pub until: Option<Time>,
}

/// How much a node got done in some time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Pace {
    /// For how long it was watched, in milliseconds.
    pub elapsed_ms: u64,
    /// Events that were handled.
    pub events: u64,
    /// Calls that were answered.
    pub calls: u64,
}

/// What was counted between two reports.
#[derive(Clone, Debug)]
struct Sample {
    at: Time,
    elapsed_ms: u64,
    actions: u64,
    calls: u64,
    /// Whether filters that act were in force.
    steered: bool,
    harm: Vec<Harm>,
}

/// Keeps account of harm.
#[derive(Debug, Default)]
pub struct Ledger {
    limits: HarmLimits,
    /// The host's last report.
    last: Option<(Time, Stats)>,
    samples: VecDeque<Sample>,
    /// Without filters that act.
    free: Pace,
    fallen: Vec<Fallen>,
    /// All that was done since the agent started.
    total: BTreeMap<String, Harm>,
}

impl Ledger {
    /// Begins with these limits.
    pub fn new(limits: HarmLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Takes other limits. What has fallen stays so.
    pub fn set_limits(&mut self, limits: HarmLimits) {
        self.limits = limits;
    }

    /// Learns that the host is gone: the next one counts from zero.
    pub fn handle_host_gone(&mut self) {
        self.last = None;
        self.samples.clear();
        self.free = Pace::default();
    }

    /// Takes in what a host has counted since it started, and returns the properties that fall back now.
    pub fn handle_stats(&mut self, now: Time, stats: &Stats, steered: bool) -> Vec<Fallen> {
        let Some((before, last)) = self.last.replace((now, stats.clone())) else {
            // What was counted before this agent attached is not blamed on anybody.
            return Vec::new();
        };
        let harm: Vec<Harm> = stats
            .harm
            .iter()
            .map(|harm| {
                let old = last.harm.iter().find(|old| old.property == harm.property);
                since(harm, old)
            })
            .filter(|harm| lost(harm) > 0)
            .collect();
        for harm in &harm {
            add(self.total.entry(harm.property.clone()).or_default(), harm);
        }
        let sample = Sample {
            at: now,
            elapsed_ms: now.millis_since(before),
            actions: stats.events.saturating_sub(last.events),
            calls: stats.answered_calls.saturating_sub(last.answered_calls),
            steered: steered || !harm.is_empty(),
            harm,
        };
        if !sample.steered {
            self.free.add(&sample);
        }
        self.samples.push_back(sample);
        while self.samples.len() > SAMPLES_MAX
            || self
                .samples
                .front()
                .is_some_and(|oldest| now.millis_since(oldest.at) > WINDOW_MS)
        {
            self.samples.pop_front();
        }
        self.judge(now)
    }

    /// Returns the properties whose pause is over, which are back from now on.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<Fallen> {
        let over = |fallen: &mut Fallen| fallen.until.is_some_and(|until| until <= now);
        self.fallen.extract_if(.., over).collect()
    }

    /// Returns when a pause is over.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.fallen.iter().filter_map(|fallen| fallen.until).min()
    }

    /// Takes properties back that have fallen: one, or all. An operator wants it so.
    pub fn forgive(&mut self, property: Option<&str>) {
        self.fallen
            .retain(|fallen| property.is_some_and(|property| fallen.property != property));
    }

    /// Returns why a property is in audit, if it has fallen back.
    pub fn fallen(&self, property: &str) -> Option<&Fallen> {
        let mut fallen = self.fallen.iter();
        fallen.find(|fallen| fallen.property == property)
    }

    /// Lists the properties that have fallen back.
    pub fn all_fallen(&self) -> &[Fallen] {
        &self.fallen
    }

    /// Returns what was done to the service since the agent started, by property.
    pub fn total(&self) -> &BTreeMap<String, Harm> {
        &self.total
    }

    /// Returns the thousandths of the node's actions that a property cost lately.
    pub fn lost_per_mille(&self, property: &str) -> u64 {
        let (harm, actions) = (self.lately(property), self.actions());
        (lost(&harm) * 1_000)
            .checked_div(QUARTERS * actions)
            .unwrap_or(0)
    }

    /// Returns how much the node gets done without filters, and with filters in force.
    pub fn paces(&self) -> (Pace, Pace) {
        let mut steered = Pace::default();
        for sample in self.samples.iter().filter(|sample| sample.steered) {
            steered.add(sample);
        }
        (self.free, steered)
    }

    fn judge(&mut self, now: Time) -> Vec<Fallen> {
        if self.limits.share_percent_max == 0 {
            return Vec::new();
        }
        let mut names: Vec<String> = Vec::new();
        for harm in self.samples.iter().flat_map(|sample| &sample.harm) {
            if !names.contains(&harm.property) && self.fallen(&harm.property).is_none() {
                names.push(harm.property.clone());
            }
        }
        let mut falling = Vec::new();
        for property in names {
            let Some(why) = self.objection(&property) else {
                continue;
            };
            let pause_ms = self.limits.pause_ms;
            falling.push(Fallen {
                property,
                why,
                until: (pause_ms > 0).then(|| now.after_millis(pause_ms)),
            });
        }
        for fallen in &falling {
            // After the pause it begins with a clean sheet.
            for sample in &mut self.samples {
                sample.harm.retain(|harm| harm.property != fallen.property);
            }
        }
        self.fallen.extend(falling.iter().cloned());
        falling
    }

    /// Says what is too much about a property's harm, if something is.
    fn objection(&self, property: &str) -> Option<String> {
        let (harm, actions) = (self.lately(property), self.actions());
        let lost = lost(&harm);
        let percent_max = u64::from(self.limits.share_percent_max);
        let did = describe(&harm);
        if lost >= QUARTERS * LOST_MIN && lost * 100 > QUARTERS * percent_max * actions {
            return Some(format!(
                "{did} of {actions} actions, more than {percent_max} % lost"
            ));
        }
        let calls: u64 = self.samples.iter().map(|sample| sample.calls).sum();
        if harm.refused >= REFUSED_MIN && harm.refused > calls {
            return Some(format!("{did}, and {calls} calls answered"));
        }
        let (free, steered) = self.paces();
        if lost >= QUARTERS * LOST_AT_PACE_MIN && steered.is_half_of(&free) {
            return Some(format!(
                "{did}, and less than half as much done: {} instead of {}",
                steered.describe(),
                free.describe()
            ));
        }
        None
    }

    fn lately(&self, property: &str) -> Harm {
        let mut sum = Harm::default();
        let all = self.samples.iter().flat_map(|sample| &sample.harm);
        for harm in all.filter(|harm| harm.property == property) {
            add(&mut sum, harm);
        }
        sum
    }

    fn actions(&self) -> u64 {
        self.samples.iter().map(|sample| sample.actions).sum()
    }
}

impl Pace {
    fn add(&mut self, sample: &Sample) {
        if self.elapsed_ms >= WINDOW_MS {
            // What was long ago counts less and less.
            self.elapsed_ms /= 2;
            self.events /= 2;
            self.calls /= 2;
        }
        let kept = sample.harm.iter().map(|harm| {
            // A reset goes with a message that counts already.
            harm.dropped + harm.refused + harm.delayed
        });
        self.elapsed_ms += sample.elapsed_ms;
        self.events += sample.actions.saturating_sub(kept.sum());
        self.calls += sample.calls;
    }

    fn is_half_of(&self, free: &Self) -> bool {
        if self.elapsed_ms < PACE_MS_MIN || free.elapsed_ms < PACE_MS_MIN {
            return false;
        }
        let is_half = |slow: u64, fast: u64| {
            let (slow, fast) = (u128::from(slow), u128::from(fast));
            fast >= u128::from(PACE_COUNT_MIN)
                && 2 * slow * u128::from(free.elapsed_ms) < fast * u128::from(self.elapsed_ms)
        };
        is_half(self.events, free.events) || is_half(self.calls, free.calls)
    }

    fn describe(&self) -> String {
        let a_second = |count: u64| count as f64 * 1e3 / self.elapsed_ms.max(1) as f64;
        format!(
            "{:.1} events and {:.1} calls a second",
            a_second(self.events),
            a_second(self.calls)
        )
    }
}

/// What is lost to the service, in quarters of an action.
fn lost(harm: &Harm) -> u64 {
    QUARTERS * (harm.refused + harm.reset) + 2 * harm.dropped + harm.delayed
}

fn since(now: &Harm, before: Option<&Harm>) -> Harm {
    let Some(before) = before else {
        return now.clone();
    };
    Harm {
        property: now.property.clone(),
        dropped: now.dropped.saturating_sub(before.dropped),
        reset: now.reset.saturating_sub(before.reset),
        refused: now.refused.saturating_sub(before.refused),
        delayed: now.delayed.saturating_sub(before.delayed),
    }
}

fn add(sum: &mut Harm, harm: &Harm) {
    sum.dropped += harm.dropped;
    sum.reset += harm.reset;
    sum.refused += harm.refused;
    sum.delayed += harm.delayed;
}

fn describe(harm: &Harm) -> String {
    let parts = [
        (harm.refused, "calls refused"),
        (harm.reset, "connections reset"),
        (harm.dropped, "messages dropped"),
        (harm.delayed, "events put off"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that reports every second.
    #[derive(Default)]
    struct Bench {
        ledger: Ledger,
        seconds: u64,
        stats: Stats,
        fallen: Vec<Fallen>,
    }

    impl Bench {
        fn new() -> Self {
            let mut bench = Self::default();
            bench.report(false);
            bench
        }

        fn report(&mut self, steered: bool) {
            self.seconds += 1;
            let now = Time::from_millis(self.seconds * 1_000);
            let fallen = self.ledger.handle_stats(now, &self.stats, steered);
            self.fallen.extend(fallen);
        }

        /// One second with so many events and answered calls.
        fn second(&mut self, events: u64, calls: u64) {
            self.stats.events += events;
            self.stats.answered_calls += calls;
            self.report(false);
        }

        fn harm(&mut self, property: &str) -> &mut Harm {
            let all = &mut self.stats.harm;
            if let Some(at) = all.iter().position(|harm| harm.property == property) {
                return &mut all[at];
            }
            all.push(Harm {
                property: property.to_owned(),
                ..Harm::default()
            });
            all.last_mut().expect("it was just put there")
        }
    }

    #[test]
    fn one_prevented_violation_in_a_quiet_service_is_no_harm() {
        let mut bench = Bench::new();
        for _ in 0..10 {
            bench.second(1, 0);
        }
        bench.harm("p").refused += 1;
        bench.second(1, 0);
        for _ in 0..300 {
            bench.second(1, 0);
        }
        assert_eq!(bench.fallen, []);
        assert!(bench.ledger.lost_per_mille("p") < 10);
    }

    #[test]
    fn four_refused_calls_a_second_are_too_much_within_seconds() {
        let mut bench = Bench::new();
        let mut refused = 0;
        while bench.fallen.is_empty() && refused < 120 {
            bench.harm("p").refused += 4;
            refused += 4;
            bench.second(8, 0);
        }
        assert_eq!(refused, 16, "more calls are refused than answered");
        assert_eq!(bench.fallen[0].property, "p");
        assert!(bench.fallen[0].why.contains("16 calls refused"));
        assert!(bench.ledger.fallen("p").is_some());
        assert!(bench.ledger.fallen("q").is_none());
    }

    #[test]
    fn a_share_of_many_actions_may_be_lost_and_no_more() {
        // Three per cent of 200 a second are 6; dropped messages count half.
        for (dropped, falls) in [(11, false), (13, true)] {
            let mut bench = Bench::new();
            for _ in 0..120 {
                bench.harm("p").dropped += dropped;
                bench.second(200, 0);
            }
            assert_eq!(!bench.fallen.is_empty(), falls, "{dropped}");
        }
    }

    /// A correct service under a wrong property that refuses every call: what it loses in an hour is bounded.
    #[test]
    fn a_wrong_property_costs_little_in_an_hour() {
        let mut bench = Bench::new();
        let (mut lost, mut answered) = (0, 0);
        for _ in 0..3600 {
            let now = Time::from_millis(bench.seconds * 1_000);
            bench.ledger.handle_timeout(now);
            if bench.ledger.fallen("p").is_some() {
                bench.second(10, 5);
                answered += 5;
            } else {
                bench.harm("p").refused += 5;
                bench.second(10, 0);
                lost += 5;
            }
        }
        assert_eq!(bench.fallen.len(), 6, "once in every ten minutes");
        // The first time at once; after a pause of undisturbed work, three per cent of five minutes.
        assert!(lost <= 20 + 5 * 95, "{lost} calls lost");
        assert!(answered >= 17_500, "{answered} calls answered");
    }

    #[test]
    fn a_service_at_half_its_pace_is_told_by_comparison() {
        let mut bench = Bench::new();
        for _ in 0..60 {
            bench.second(100, 10);
        }
        // A filter puts a timer off now and then, and hardly anything happens any more.
        for _ in 0..40 {
            bench.harm("p").delayed += 1;
            bench.second(30, 3);
        }
        assert_eq!(bench.fallen.len(), 1);
        assert!(
            bench.fallen[0].why.contains("less than half"),
            "{:?}",
            bench.fallen
        );
        // The same load with a filter that did nothing proves nothing.
        let mut bench = Bench::new();
        for _ in 0..60 {
            bench.second(100, 10);
        }
        for _ in 0..40 {
            bench.stats.events += 30;
            bench.report(true);
        }
        assert_eq!(bench.fallen, []);
    }

    #[test]
    fn it_comes_back_after_the_pause_or_when_an_operator_says_so() {
        let mut bench = Bench::new();
        bench.harm("p").refused += 40;
        bench.harm("q").refused += 40;
        bench.second(80, 0);
        assert_eq!(bench.ledger.all_fallen().len(), 2);
        bench.ledger.forgive(Some("q"));
        assert!(bench.ledger.fallen("q").is_none());
        let due = bench.ledger.poll_timeout().expect("a pause");
        assert_eq!(due, Time::from_millis(2_000 + 600_000));
        assert_eq!(bench.ledger.handle_timeout(due).len(), 1);
        assert_eq!(bench.ledger.all_fallen(), []);
        // What it cost before does not count again.
        bench.second(10, 1);
        assert_eq!(bench.ledger.all_fallen(), []);
    }

    #[test]
    fn a_restarted_host_counts_from_zero_and_without_a_limit_nothing_falls() {
        let mut bench = Bench::new();
        bench.harm("p").refused += 10;
        bench.second(20, 0);
        bench.ledger.handle_host_gone();
        bench.stats = Stats::default();
        bench.harm("p").refused += 12;
        bench.second(12, 0);
        bench.harm("p").refused += 12;
        bench.second(12, 0);
        assert_eq!(
            bench.fallen,
            [],
            "22 since it attached, of which 12 are known"
        );

        let mut bench = Bench::new();
        bench.ledger.set_limits(HarmLimits {
            share_percent_max: 0,
            ..HarmLimits::default()
        });
        bench.harm("p").refused += 400;
        bench.second(400, 0);
        assert_eq!(bench.fallen, []);
        assert_eq!(bench.ledger.total()["p"].refused, 400);
    }
}
