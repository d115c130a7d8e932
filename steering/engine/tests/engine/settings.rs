//! A handler that does not ask on which node it runs is run once for all nodes with the same settings: the same in
//! everything a handler can read.

use std::collections::BTreeMap;

use scry_engine::{
    Context, Faults, NodeId, Options, Property, Search, Service, Simulation, Strategy,
};
use serde::{Deserialize, Serialize};

/// Takes its limit as its value.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
struct Obedient(u64);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Limits {
    shown: u64,
    /// Not for the wire, but for the handler.
    #[serde(skip)]
    hidden: u64,
}

impl Service for Obedient {
    type Message = ();
    type Timer = ();
    type Call = ();
    type Setup = Limits;
    type Disk = ();

    fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
        Self(0)
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, (): ()) {}
    fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}

    fn on_call(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        self.0 = cx.setup().shown + cx.setup().hidden;
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, _: &Limits) -> Vec<()> {
        match self.0 {
            0 => vec![()],
            _ => Vec::new(),
        }
    }
}

fn search(hidden: [u64; 2]) -> scry_engine::Report<Obedient> {
    let limits = hidden.map(|hidden| Limits { shown: 1, hidden });
    let setups: BTreeMap<NodeId, Limits> = (0..).map(NodeId::new).zip(limits).collect();
    let start = Simulation::boot(setups, Faults::NONE);
    let small = Property::node(
        "no value above 1",
        |view: &scry_engine::View<'_, Obedient>| view.state.0 <= 1,
    );
    let options = Options {
        strategy: Strategy::EXHAUSTIVE,
        ..Options::default()
    };
    Search::new(&start, vec![small], options)
        .expect("these options go together")
        .run()
}

#[test]
fn settings_that_differ_only_in_what_is_not_serialized_differ() {
    let report = search([0, 1]);
    assert!(report.complete);
    assert_eq!(report.handler_runs, 2);
    let [violation] = report.violations.as_slice() else {
        panic!("the second node goes too far: {:?}", report.violations);
    };
    assert_eq!(violation.nodes, [NodeId::new(1)]);
    assert_eq!(violation.path.len(), 1);
}

#[test]
fn for_equal_settings_a_handler_runs_once() {
    let report = search([0, 0]);
    assert_eq!(report.handler_runs, 1);
    assert!(report.violations.is_empty());
}
