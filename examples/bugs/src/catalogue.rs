//! The bugs, and where each is to be found: service, scenario, property, and the nodes the paper sees it at.

use chord::Chord;
use one_paxos::OnePaxos;
use paxos::Paxos;
use randtree::RandTree;
use scry::NodeId;

use crate::hunt::{self, HuntError};
use crate::initial::Watch;
use crate::row::Row;

/// One bug.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The service that has it.
    pub service: &'static str,
    /// Its name on that service's command line.
    pub bug: &'static str,
    /// The scenario whose start state is the paper's.
    pub scenario: &'static str,
    /// The property it breaks.
    pub property: &'static str,
    /// The nodes between which the paper sees it broken. Where a search finds several at once, this one is told.
    pub nodes: &'static [NodeId],
    /// How deep the repaired service is explored; `None` if its state space has an end.
    pub fixed_depth: Option<u32>,
    /// Where the paper tells of it.
    pub source: &'static str,
    hunt: Hunt,
}

type Hunt = fn(&Case, Option<&mut dyn Watch>) -> Result<Row, HuntError>;

impl Case {
    /// Hunts the bug. Only with a watch is it also looked for from the initial state, which is a matter of time.
    ///
    /// # Errors
    ///
    /// When the scenario does not lead to a search.
    pub fn hunt(&self, watch: Option<&mut dyn Watch>) -> Result<Row, HuntError> {
        (self.hunt)(self, watch)
    }
}

/// The safety bugs of the papers that the example services have.
pub const ALL: &[Case] = &[
    Case {
        service: "randtree",
        bug: "update-sibling",
        scenario: "r1",
        property: randtree::properties::DISJOINT,
        nodes: &[NodeId::new(9)],
        fixed_depth: Some(22),
        source: "CrystalBall §1.2, figure 2",
        hunt: hunt::hunt::<RandTree>,
    },
    Case {
        service: "randtree",
        bug: "new-root",
        scenario: "r2",
        property: randtree::properties::ROOT_APART,
        nodes: &[NodeId::new(69)],
        fixed_depth: Some(12),
        source: "CrystalBall §5.2.1, figure 9",
        hunt: hunt::hunt::<RandTree>,
    },
    Case {
        service: "randtree",
        bug: "promote",
        scenario: "r3",
        property: randtree::properties::ROOT_ALONE,
        nodes: &[NodeId::new(3)],
        fixed_depth: Some(9),
        source: "CrystalBall §5.2.1",
        hunt: hunt::hunt::<RandTree>,
    },
    Case {
        service: "randtree",
        bug: "timer",
        scenario: "r4",
        property: randtree::properties::TIMER_RUNS,
        nodes: &[NodeId::new(2)],
        fixed_depth: Some(30),
        source: "CrystalBall §5.2.1",
        hunt: hunt::hunt::<RandTree>,
    },
    Case {
        service: "chord",
        bug: "self-predecessor",
        scenario: "c1",
        property: chord::properties::SELF_PREDECESSOR,
        nodes: &[NodeId::new(3)],
        fixed_depth: Some(8),
        source: "CrystalBall §5.2.2, figure 10",
        hunt: hunt::hunt::<Chord>,
    },
    Case {
        service: "chord",
        bug: "ordering",
        scenario: "c2",
        property: chord::properties::ORDER,
        nodes: &[NodeId::new(2)],
        fixed_depth: Some(13),
        source: "CrystalBall §5.2.2, figure 11",
        hunt: hunt::hunt::<Chord>,
    },
    Case {
        service: "paxos",
        bug: "last-promise",
        scenario: "bug1",
        property: "at most one value is chosen",
        nodes: &[NodeId::new(0), NodeId::new(1)],
        fixed_depth: None,
        source: "CrystalBall §5.4.2, figure 13",
        hunt: hunt::hunt::<Paxos>,
    },
    Case {
        service: "paxos",
        bug: "volatile-promise",
        scenario: "reset",
        property: "at most one value is chosen",
        nodes: &[NodeId::new(0), NodeId::new(1)],
        fixed_depth: None,
        source: "CrystalBall §5.4.2",
        hunt: hunt::hunt::<Paxos>,
    },
    Case {
        service: "one-paxos",
        bug: one_paxos::scenarios::INCREMENT,
        scenario: "taken-over",
        property: one_paxos::properties::ONE_VALUE,
        nodes: &[NodeId::new(1), NodeId::new(2)],
        fixed_depth: None,
        source: "LMC §5.6",
        hunt: hunt::hunt::<OnePaxos>,
    },
];
