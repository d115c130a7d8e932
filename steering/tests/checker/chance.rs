//! A service with chance of its own: what is found of it does not replay, and that is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use scry::{Context, Faults, NodeId, Property, Service, Simulation};
use serde::{Deserialize, Serialize};

use crate::support::{job, run};

/// A clock that no context knows of.
static CLOCK: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
struct Wilful(u64);

impl Service for Wilful {
    type Message = ();
    type Timer = ();
    type Call = ();
    type Setup = ();
    type Disk = ();

    fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
        Self(0)
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, (): ()) {}
    fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}

    fn on_call(&mut self, _: &mut Context<'_, Self>, (): ()) {
        self.0 = CLOCK.fetch_add(1, Ordering::Relaxed);
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, (): &()) -> Vec<()> {
        match self.0 {
            0 => vec![()],
            _ => Vec::new(),
        }
    }

    fn properties() -> Vec<Property<Self>> {
        vec![Property::node(
            "nobody reads a clock",
            |view: &scry::View<'_, Self>| view.state.0 == 0,
        )]
    }
}

#[test]
fn findings_of_a_service_with_a_clock_of_its_own_are_counted() {
    let setups = BTreeMap::from([(NodeId::new(0), ()), (NodeId::new(1), ())]);
    let start = Simulation::<Wilful>::boot(setups, Faults::NONE);
    let heard = run::<Wilful>(&job(&start, 0));
    assert!(heard.found().is_empty());
    let report = heard.report();
    assert_eq!(report.violations, 0);
    assert_eq!(report.unconfirmed, 2, "one at each node");
}
