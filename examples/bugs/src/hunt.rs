//! The searches for one bug from its start state.

use std::collections::BTreeSet;
use std::time::Instant;

use clap::{Args, Command, FromArgMatches};
use scry::explore::{SearchError, Stop};
use scry::model::system::ScriptError;
use scry::{Limits, Options, Program, Request, Search, Simulation, Step, Strategy, System};

use crate::catalogue::Case;
use crate::initial::{self, Watch};
use crate::row::{Extent, Fixed, Found, Levels, Reach, Row, Told, told_violation};

/// No search from a start state needs as many states. It ends a search that has gone astray.
const STATES_MAX: u64 = 10_000_000;
/// How many states a search may look at to show how far it gets.
pub const REACH_STATES: u64 = 100_000;
/// How many times a search to a given depth is run. The shortest time counts: the others were disturbed.
const RUNS: usize = 5;

/// Why a bug cannot be hunted.
#[derive(Debug, thiserror::Error)]
pub enum HuntError {
    /// The service knows no such scenario.
    #[error("{service} has no scenario `{scenario}`")]
    NoScenario {
        /// The service.
        service: &'static str,
        /// The scenario.
        scenario: &'static str,
    },
    /// The service knows no such bug.
    #[error("{service} has no bug `{bug}`")]
    NoBug {
        /// The service.
        service: &'static str,
        /// The bug.
        bug: &'static str,
    },
    /// The scenario cannot be built.
    #[error("scenario {0}: {1}")]
    Scenario(&'static str, String),
    /// The scenario's script fails.
    #[error("scenario {0}: {1}")]
    Script(&'static str, ScriptError),
    /// The service's property file cannot be read.
    #[error("{0}")]
    Properties(String),
    /// What is to be enumerated has no end within reach.
    #[error("scenario {0} has more states than are enumerated")]
    Endless(&'static str),
    /// The search cannot start.
    #[error(transparent)]
    Search(#[from] SearchError),
}

/// Hunts a bug of a service.
///
/// # Errors
///
/// When the scenario does not lead to a search.
pub fn hunt<S: Program>(case: &Case, watch: Option<&mut dyn Watch>) -> Result<Row, HuntError> {
    let system = system::<S>(case, true)?;
    let script = |error| HuntError::Script(case.scenario, error);
    let (start, steps) = system.start().map_err(script)?;
    let (consequence, path) = first::<S>(case, &start, Strategy::CONSEQUENCE)?;
    let (start_bfs, _) = first::<S>(case, &start, Strategy::EXHAUSTIVE)?;
    let levels = match consequence.told {
        Some(_) => Some(Levels {
            depth: consequence.depth,
            consequence: extent::<S>(&start, Strategy::CONSEQUENCE, consequence.depth)?,
            exhaustive: extent::<S>(&start, Strategy::EXHAUSTIVE, consequence.depth)?,
        }),
        None => None,
    };
    let initial_bfs = match watch {
        Some(watch) => {
            let faults = initial::faults_of(steps.iter().chain(&path));
            let initial = Simulation::boot(system.setups.clone(), faults);
            let limit = initial::time_limit(consequence.elapsed);
            Some(initial::search::<S>(case, &initial, limit, watch)?)
        }
        None => None,
    };
    let (fixed_start, _) = self::system::<S>(case, false)?.start().map_err(script)?;
    Ok(Row {
        case: *case,
        start_steps: steps.len(),
        consequence,
        start_bfs,
        levels,
        consequence_reach: reach::<S>(&start, Strategy::CONSEQUENCE)?,
        exhaustive_reach: reach::<S>(&start, Strategy::EXHAUSTIVE)?,
        initial_bfs,
        fixed: fixed::<S>(case, &fixed_start)?,
    })
}

/// Builds the case's scenario as the service's command line does without further options.
///
/// # Errors
///
/// When there is no such scenario or bug, or the scenario cannot be built.
pub fn system<S: Program>(case: &Case, with_bug: bool) -> Result<System<S>, HuntError> {
    let bug = with_bug.then_some(case.bug);
    build(case.service, case.scenario, bug, None)
}

/// Builds a scenario as the service's command line does without further options, with a bug and a number of nodes if they are named.
pub(crate) fn build<S: Program>(
    service: &'static str,
    scenario: &'static str,
    bug: Option<&'static str>,
    nodes: Option<u32>,
) -> Result<System<S>, HuntError> {
    if let Some(bug) = bug
        && !S::bugs().iter().any(|known| known.name == bug)
    {
        return Err(HuntError::NoBug { service, bug });
    }
    let bugs = BTreeSet::from_iter(bug);
    let mut scenarios = S::scenarios().into_iter();
    let found = scenarios.find(|known| known.name == scenario);
    let found = found.ok_or(HuntError::NoScenario { service, scenario })?;
    let wrong = |error: String| HuntError::Scenario(scenario, error);
    let command = S::Options::augment_args(Command::new(service));
    let options = command
        .try_get_matches_from([service])
        .and_then(|matches| S::Options::from_arg_matches(&matches))
        .map_err(|error| wrong(error.to_string()))?;
    let request = Request {
        bugs: &bugs,
        nodes,
        options: &options,
    };
    (found.build)(&request).map_err(wrong)
}

/// A search for the first violation, and the path to it.
fn first<S: Program>(
    case: &Case,
    start: &Simulation<S>,
    strategy: Strategy,
) -> Result<(Found, Vec<Step<S>>), HuntError> {
    let options = Options {
        strategy,
        limits: Limits {
            states: Some(STATES_MAX),
            first_violation: true,
            ..Limits::default()
        },
        ..Options::default()
    };
    let begun = Instant::now();
    let report = Search::new(start, S::properties(), options)?.run();
    let found = Found::of(case, &report, begun.elapsed());
    let path = told_violation(case, &report).map(|violation| violation.path.clone());
    Ok((found, path.unwrap_or_default()))
}

/// A search to the end of a depth, whatever it finds.
fn extent<S: Program>(
    start: &Simulation<S>,
    strategy: Strategy,
    depth: u32,
) -> Result<Extent, HuntError> {
    let options = Options {
        strategy,
        limits: Limits {
            depth: Some(depth),
            ..Limits::default()
        },
        ..Options::default()
    };
    let mut best = None;
    for _ in 0..RUNS {
        let begun = Instant::now();
        let report = Search::new(start, S::properties(), options)?.run();
        let elapsed = begun.elapsed();
        let run = Extent {
            states: report.states,
            elapsed,
        };
        best = best
            .filter(|best: &Extent| best.elapsed <= elapsed)
            .or(Some(run));
    }
    Ok(best.expect("a search is run at least once"))
}

fn reach<S: Program>(start: &Simulation<S>, strategy: Strategy) -> Result<Reach, HuntError> {
    let options = Options {
        strategy,
        limits: Limits {
            states: Some(REACH_STATES),
            ..Limits::default()
        },
        ..Options::default()
    };
    let report = Search::new(start, S::properties(), options)?.run();
    Ok(Reach {
        depth: report.depth,
        states: report.states,
        exhausted: report.stop == Stop::Exhausted,
    })
}

fn fixed<S: Program>(case: &Case, start: &Simulation<S>) -> Result<Fixed, HuntError> {
    let options = Options {
        limits: Limits {
            depth: case.fixed_depth,
            states: case.fixed_depth.is_none().then_some(STATES_MAX),
            ..Limits::default()
        },
        ..Options::default()
    };
    let report = Search::new(start, S::properties(), options)?.run();
    let bound = match (report.complete, case.fixed_depth) {
        (true, _) => "the whole state space".to_owned(),
        (false, Some(depth)) => format!("depth {depth}"),
        (false, None) => format!("{STATES_MAX} states"),
    };
    let violations = report.violations.iter().map(|violation| {
        let Told { diagram, .. } = Told::of(violation);
        format!("{}\n{diagram}", violation.property)
    });
    Ok(Fixed {
        violations: violations.collect(),
        complete: report.complete,
        states: report.states,
        bound,
    })
}
