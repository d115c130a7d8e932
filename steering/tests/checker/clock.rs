//! Moments of the live clock in restored states: no time passes in the checker, so nothing there may depend on which
//! moment it was.

use std::collections::BTreeMap;
use std::time::Duration;

use scry::{Context, Faults, NodeId, Property, Service, Simulation, Stamp, View};
use serde::{Deserialize, Serialize};

use crate::support::{job, run};

/// How many numbers a node took before it was captured.
const TICKS: u64 = 3;

/// A node that got a lease at some moment, and looks once whether it has run out.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
struct Lease {
    since: Stamp,
    has_run_out: Option<bool>,
    /// What the same question said a moment later, after another stamp was taken.
    again: Option<bool>,
    tick: u64,
}

impl Service for Lease {
    type Message = ();
    type Timer = ();
    type Call = ();
    type Setup = u64;
    type Disk = ();

    fn start(cx: &mut Context<'_, Self>, _: Option<()>) -> Self {
        cx.set_timer((), Duration::from_secs(1));
        let tick = (0..TICKS).map(|_| cx.tick()).last();
        Self {
            since: Stamp::from_millis(*cx.setup()),
            has_run_out: None,
            again: None,
            tick: tick.unwrap_or(0),
        }
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, (): ()) {}

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        let after = Duration::from_secs(10);
        self.has_run_out = Some(cx.expired(self.since, after));
        self.again = Some(cx.expired(self.since, after));
        self.since = cx.now();
        self.tick = cx.tick();
    }

    fn on_call(&mut self, _: &mut Context<'_, Self>, (): ()) {}

    fn disk(&self) {}

    fn properties() -> Vec<Property<Self>> {
        let property = |name: &'static str, holds: fn(&Self) -> bool| {
            Property::node(name, move |view: &View<'_, Self>| holds(view.state))
        };
        vec![
            property("never run out", |lease| lease.has_run_out != Some(true)),
            property("never fresh", |lease| lease.has_run_out != Some(false)),
            property("one answer", |lease| lease.has_run_out == lease.again),
            property("ticks grow", |lease| {
                lease.has_run_out.is_none() || lease.tick > TICKS
            }),
        ]
    }
}

#[test]
fn a_82_a_restored_moment_compares_both_ways_whatever_it_is() {
    let year_2026 = 1_794_000_000_000;
    for since in [0, 1, year_2026, u64::MAX] {
        let setups = BTreeMap::from([(NodeId::new(1), since)]);
        let mut job = job(&Simulation::<Lease>::boot(setups, Faults::NONE), 1);
        job.clock.free = true;
        assert_eq!(
            run::<Lease>(&job).broken(),
            ["never fresh", "never run out"],
            "since {since}"
        );
    }
}

#[test]
fn a_stamp_from_before_all_services_is_over_unless_time_is_free() {
    let setups = BTreeMap::from([(NodeId::new(1), 0)]);
    let job = job(&Simulation::<Lease>::boot(setups, Faults::NONE), 1);
    let heard = run::<Lease>(&job);
    assert_eq!(heard.broken(), ["never run out"]);
    assert_eq!(heard.report().detail, "1 findings impossible in time");
}

#[test]
fn a_82_the_moment_before_does_not_tell_states_apart_that_are_alike_afterwards() {
    let after = |since: u64| {
        let setups = BTreeMap::from([(NodeId::new(1), since)]);
        let start = Simulation::<Lease>::boot(setups, Faults::NONE);
        let successors = start.successors().into_iter();
        let states = successors.map(|(_, after)| after.nodes()[&NodeId::new(1)].local.clone());
        states.collect::<Vec<_>>()
    };
    assert_eq!(after(5).len(), 2);
    assert_eq!(after(5), after(1_794_000_000_000));
}
