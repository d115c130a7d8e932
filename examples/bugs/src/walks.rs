//! How good MaceMC's walks are where the truth is known: how far its search for the critical transition is off (B-53), and within how
//! many steps walks come true (B-42).
//!
//! | module | what it holds |
//! |---|---|
//! | [`graph`] | all states of a small system, and which of them are dead |
//! | [`critical`] | the search as published, on such a graph |
//! | [`text`], [`json`] | the rows for people and for machines |

pub mod critical;
pub mod graph;
pub mod json;
pub mod text;

use chord::Chord;
use mace_transport::MaceTransport;
use pastry::Pastry;
use randtree::RandTree;
use scry::explore::{Settings, Standing, Walked};
use scry::properties::{PropertyFile, Schema};
use scry::property::Kind;
use scry::{Limits, Options, Program, Property, Search, Simulation, Strategy};

use crate::hunt::{HuntError, build};
use crate::walks::critical::Errors;
use crate::walks::graph::Graph;

/// Of how many failing executions the critical transition is searched.
const EXECUTIONS: usize = 1_000;
/// With how many walks it is searched. The paper has 20 to 60.
pub const PROBES: [u64; 4] = [1, 5, 20, 60];
/// A system of more states is not enumerated.
const STATES_MAX: usize = 100_000;
/// How many walks are made to see when they come true, and how long they may get.
const WALKS: u64 = 1_000;
const LENGTH: u64 = 100_000;

/// A scenario in which what can happen has an end, with a bug.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCase {
    /// The service.
    pub service: &'static str,
    /// The bug that is switched on.
    pub bug: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    /// The property.
    pub property: &'static str,
    /// The property file of the service.
    pub file: &'static str,
    run: fn(&ErrorCase) -> Result<ErrorRow, HuntError>,
}

/// How far the search for the critical transition is off, in one scenario.
#[derive(Debug)]
pub struct ErrorRow {
    /// The scenario.
    pub case: ErrorCase,
    /// How many states there are.
    pub states: usize,
    /// How many of them are dead.
    pub dead: u64,
    /// How many executions failed.
    pub executions: usize,
    /// What was answered, by how many walks it took for an answer.
    pub errors: Vec<Errors>,
}

/// A repaired service whose walks come true.
#[derive(Clone, Copy, Debug)]
pub struct StepsCase {
    /// The service.
    pub service: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    /// How many nodes it has, if that can be said.
    pub nodes: Option<u32>,
    /// The property file of the service.
    pub file: &'static str,
    run: fn(&StepsCase) -> Result<StepsRow, HuntError>,
}

/// Within how many steps walks come true, in one scenario.
#[derive(Debug)]
pub struct StepsRow {
    /// The scenario.
    pub case: StepsCase,
    /// How many nodes there are.
    pub nodes: usize,
    /// The walks by the strategy's weights.
    pub weighted: Walked,
    /// How many steps they took in all.
    pub weighted_steps: u64,
    /// The walks in which each step is as likely as another.
    pub even: Walked,
    /// How many steps they took in all.
    pub even_steps: u64,
}

/// The finite scenarios in which a liveness bug leaves dead states.
pub const ERROR_CASES: &[ErrorCase] = &[
    ErrorCase {
        service: "randtree",
        bug: "ignored-reply",
        scenario: "late-reply",
        property: "parents and children agree",
        file: randtree::properties::FILE,
        run: errors::<RandTree>,
    },
    ErrorCase {
        service: "randtree",
        bug: "two-trees",
        scenario: "torn",
        property: "there is exactly one root",
        file: randtree::properties::FILE,
        run: errors::<RandTree>,
    },
    ErrorCase {
        service: "chord",
        bug: "stale-successor",
        scenario: "unheard",
        property: "every node is reached along successors from every node",
        file: chord::properties::FILE,
        run: errors::<Chord>,
    },
    ErrorCase {
        service: "mace-transport",
        bug: "stale-syn",
        scenario: "two-messages",
        property: mace_transport::properties::ALL_ACKED,
        file: mace_transport::properties::FILE,
        run: errors::<MaceTransport>,
    },
    ErrorCase {
        service: "mace-transport",
        bug: "stale-syn",
        scenario: "both-ways",
        property: mace_transport::properties::ALL_ACKED,
        file: mace_transport::properties::FILE,
        run: errors::<MaceTransport>,
    },
    ErrorCase {
        service: "mace-transport",
        bug: "stale-syn",
        scenario: "reset",
        property: mace_transport::properties::ALL_ACKED,
        file: mace_transport::properties::FILE,
        run: errors::<MaceTransport>,
    },
    ErrorCase {
        service: "pastry",
        bug: "rejoin",
        scenario: "steady",
        property: pastry::properties::ALL_NODES,
        file: pastry::properties::FILE,
        run: errors::<Pastry>,
    },
    ErrorCase {
        service: "pastry",
        bug: "rejoin",
        scenario: "fresh",
        property: pastry::properties::ALL_NODES,
        file: pastry::properties::FILE,
        run: errors::<Pastry>,
    },
];

/// The services of the paper's figure 2, from where nothing has happened yet.
pub const STEPS_CASES: &[StepsCase] = &[
    StepsCase {
        service: "mace-transport",
        scenario: "both-ways",
        nodes: None,
        file: mace_transport::properties::FILE,
        run: steps::<MaceTransport>,
    },
    StepsCase {
        service: "randtree",
        scenario: "fresh",
        nodes: Some(5),
        file: randtree::properties::FILE,
        run: steps::<RandTree>,
    },
    StepsCase {
        service: "chord",
        scenario: "fresh",
        nodes: Some(5),
        file: chord::properties::FILE,
        run: steps::<Chord>,
    },
    StepsCase {
        service: "pastry",
        scenario: "fresh",
        nodes: None,
        file: pastry::properties::FILE,
        run: steps::<Pastry>,
    },
];

impl ErrorCase {
    /// Searches critical transitions by walks, and compares them with the true ones.
    ///
    /// # Errors
    ///
    /// When the scenario does not lead to a start state.
    pub fn run(&self) -> Result<ErrorRow, HuntError> {
        (self.run)(self)
    }
}

impl StepsCase {
    /// Walks.
    ///
    /// # Errors
    ///
    /// When the scenario does not lead to a search.
    pub fn run(&self) -> Result<StepsRow, HuntError> {
        (self.run)(self)
    }
}

impl StepsRow {
    /// Returns how many steps a walk took on average: by the weights, and without.
    pub fn means(&self) -> (f64, f64) {
        let mean = |steps: u64, walked: &Walked| steps as f64 / walked.walks.max(1) as f64;
        (
            mean(self.weighted_steps, &self.weighted),
            mean(self.even_steps, &self.even),
        )
    }
}

fn errors<S: Program>(case: &ErrorCase) -> Result<ErrorRow, HuntError> {
    let start = start::<S>(case.service, case.scenario, Some(case.bug), None)?;
    let mut goal = goals::<S>(case.file)?;
    // A property of a file may come in parts, all of one name.
    goal.retain(|part| part.name() == case.property);
    let graph = Graph::of(&start, &goal, STATES_MAX);
    let graph = graph.ok_or(HuntError::Endless(case.scenario))?;
    let executions = critical::failing(&graph, EXECUTIONS);
    let probes = PROBES.iter();
    Ok(ErrorRow {
        case: *case,
        states: graph.len(),
        dead: graph.dead(),
        executions: executions.len(),
        errors: probes
            .map(|&probes| critical::errors(&graph, &executions, probes))
            .collect(),
    })
}

fn steps<S: Program>(case: &StepsCase) -> Result<StepsRow, HuntError> {
    let start = start::<S>(case.service, case.scenario, None, case.nodes)?;
    let goals = goals::<S>(case.file)?;
    let even = [
        ("weight.call", 1),
        ("weight.message", 1),
        ("weight.timer", 1),
    ];
    let (weighted, weighted_steps) = walk(&start, &goals, &[])?;
    let (even, even_steps) = walk(&start, &goals, &even)?;
    Ok(StepsRow {
        case: *case,
        nodes: start.nodes().len(),
        weighted,
        weighted_steps,
        even,
        even_steps,
    })
}

/// Walks from a state until all goals hold at once, and returns how it went and how many steps it took.
fn walk<S: Program>(
    start: &Simulation<S>,
    goals: &[Property<S>],
    weights: &[(&'static str, u64)],
) -> Result<(Walked, u64), HuntError> {
    let settings = [&[("walks", WALKS), ("length", LENGTH)], weights].concat();
    let options = Options {
        strategy: Strategy::WALK,
        settings: Settings::of(&settings),
        limits: Limits {
            depth: Some(0),
            ..Limits::default()
        },
        ..Options::default()
    };
    let report = Search::new(start, goals.to_vec(), options)?.run();
    // Of several goals the last is that all hold at once.
    let last = report.goals.last().map(|goal| goal.standing.clone());
    let walked = match last {
        Some(Standing::Walked(walked)) => walked,
        _ => Walked::default(),
    };
    Ok((walked, report.transitions))
}

/// Leads a service to the start state of a scenario.
///
/// # Errors
///
/// When the scenario does not lead to one.
pub fn start<S: Program>(
    service: &'static str,
    scenario: &'static str,
    bug: Option<&'static str>,
    nodes: Option<u32>,
) -> Result<Simulation<S>, HuntError> {
    let system = build::<S>(service, scenario, bug, nodes)?;
    let script = |error| HuntError::Script(scenario, error);
    Ok(system.start().map_err(script)?.0)
}

/// Reads the `eventually` properties of a property file.
///
/// # Errors
///
/// When it cannot be read.
pub fn goals<S: Program>(file: &str) -> Result<Vec<Property<S>>, HuntError> {
    let (name, text) = ("properties.toml", file.as_bytes());
    let set = PropertyFile::load(name, text, &Schema::of::<S>(), S::properties())
        .map_err(|errors| HuntError::Properties(errors.to_string()))?;
    let mut all = set.properties_of_all_kinds();
    all.retain(|property| property.kind() == Kind::Eventually);
    Ok(all)
}
