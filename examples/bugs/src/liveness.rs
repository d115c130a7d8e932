//! The papers' liveness bugs: what each keeps from ever coming true, from which step on, and what would have come true instead.
//!
//! | module | what it holds |
//! |---|---|
//! | [`hunt`] | the searches for one of them |
//! | [`text`], [`json`] | the rows for people and for machines |

pub mod hunt;
pub mod json;
pub mod text;

use std::time::Duration;

use chord::Chord;
use mace_transport::MaceTransport;
use pastry::Pastry;
use randtree::RandTree;

use crate::hunt::HuntError;

/// One liveness bug.
#[derive(Clone, Copy, Debug)]
pub struct LivenessCase {
    /// The service that has it.
    pub service: &'static str,
    /// Its name on that service's command line.
    pub bug: &'static str,
    /// The scenario from whose start state it is looked for.
    pub scenario: &'static str,
    /// The `eventually` property that it keeps from coming true.
    pub property: &'static str,
    /// The service's property file.
    pub file: &'static str,
    /// How many states are looked at, with the bug and without.
    pub states_max: u64,
    /// Where the paper tells of it.
    pub source: &'static str,
    hunt: fn(&LivenessCase) -> Result<LivenessRow, HuntError>,
}

/// What came of hunting one liveness bug.
#[derive(Debug)]
pub struct LivenessRow {
    /// The bug.
    pub case: LivenessCase,
    /// How many steps lead from the initial state to the start state.
    pub start_steps: usize,
    /// What was found, if anything was.
    pub told: Option<ToldDeath>,
    /// How many states the exhaustive search found.
    pub states: u64,
    /// How long it took, conclusions included.
    pub elapsed: Duration,
    /// How many walks the strategy `walk` took to find it too, or in all.
    pub walks: u64,
    /// Whether it did.
    pub walks_found: bool,
    /// How long that took.
    pub walks_elapsed: Duration,
    /// The service without bugs.
    pub fixed: FixedLiveness,
}

/// How sure it is that a property never comes true again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is proved.
    Dead,
    /// It could, but there is a fair way round in which it never does.
    Lasso,
    /// Walks did not make it come true.
    Suspected,
}

/// A path from whose end on a property never comes true, without the service's types.
#[derive(Debug)]
pub struct ToldDeath {
    /// How sure that is.
    pub verdict: Verdict,
    /// The number of the step after which it is too late, counted from the initial state.
    pub critical_step: usize,
    /// What happens in that step.
    pub critical_event: String,
    /// What is wrong afterwards, in words.
    pub explanation: Option<String>,
    /// The steps from the start state, drawn.
    pub diagram: String,
    /// What would have come true instead, drawn: the steps after the two part.
    pub live: Option<String>,
}

/// What came of the service without bugs.
#[derive(Clone, Copy, Debug)]
pub struct FixedLiveness {
    /// How many states there are from which the property never comes true again.
    pub dead: u64,
    /// How many safety properties are violated.
    pub violations: u64,
    /// How many states were seen.
    pub states: u64,
    /// Whether these are all there are.
    pub complete: bool,
}

impl LivenessCase {
    /// Hunts the bug.
    ///
    /// # Errors
    ///
    /// When the scenario does not lead to a search.
    pub fn hunt(&self) -> Result<LivenessRow, HuntError> {
        (self.hunt)(self)
    }
}

impl LivenessRow {
    /// Tells whether the bug was found, with what would have come true instead, and the repaired service has no dead state.
    pub fn is_fine(&self) -> bool {
        let told = self.told.as_ref();
        told.is_some_and(|told| told.live.is_some())
            && self.fixed.dead == 0
            && self.fixed.violations == 0
    }
}

impl Verdict {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Lasso => "lasso",
            Self::Suspected => "suspected",
        }
    }
}

/// The liveness bugs of MaceMC that the example services have.
pub const ALL: &[LivenessCase] = &[
    LivenessCase {
        service: "randtree",
        bug: "ignored-reply",
        scenario: "late-reply",
        property: "parents and children agree",
        file: randtree::properties::FILE,
        states_max: 200_000,
        source: "MaceMC §6",
        hunt: hunt::hunt::<RandTree>,
    },
    LivenessCase {
        service: "randtree",
        bug: "two-trees",
        scenario: "torn",
        property: "there is exactly one root",
        file: randtree::properties::FILE,
        states_max: 200_000,
        source: "MaceMC §2",
        hunt: hunt::hunt::<RandTree>,
    },
    LivenessCase {
        service: "chord",
        bug: "stale-successor",
        scenario: "unheard",
        property: "every node is reached along successors from every node",
        file: chord::properties::FILE,
        states_max: 200_000,
        source: "MaceMC §6",
        hunt: hunt::hunt::<Chord>,
    },
    LivenessCase {
        service: "mace-transport",
        bug: "stale-syn",
        scenario: "two-messages",
        property: mace_transport::properties::ALL_ACKED,
        file: mace_transport::properties::FILE,
        states_max: 200_000,
        source: "MaceMC §5, figure 4",
        hunt: hunt::hunt::<MaceTransport>,
    },
    LivenessCase {
        service: "pastry",
        bug: "rejoin",
        scenario: "steady",
        property: pastry::properties::ALL_NODES,
        file: pastry::properties::FILE,
        states_max: 200_000,
        source: "MaceMC §1, §4.2",
        hunt: hunt::hunt::<Pastry>,
    },
];
