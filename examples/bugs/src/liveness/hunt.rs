//! The searches for one liveness bug from its start state.

use std::time::{Duration, Instant};

use scry::cli::diagram;
use scry::explore::{GoalReport, How, SearchError, Settings, Standing, Suspicion};
use scry::properties::{PropertyFile, Schema};
use scry::timing::Layout;
use scry::{
    Limits, NodeId, Options, Program, Property, Report, Search, Simulation, Step, Strategy,
    Violation,
};

use crate::hunt::{HuntError, build};
use crate::liveness::{FixedLiveness, LivenessCase, LivenessRow, ToldDeath, Verdict};

/// How much memory a search may take.
const BYTES_MAX: u64 = 1 << 30;
/// How long walks may take, and how long each is.
const WALKS_MAX: Duration = Duration::from_secs(5);
const WALK_LENGTH: &str = "2000";
/// About how many steps are taken between two looks at the clock.
const STEPS: u64 = 20_000;

/// Hunts a liveness bug of a service.
///
/// # Errors
///
/// When the scenario does not lead to a search.
pub fn hunt<S: Program>(case: &LivenessCase) -> Result<LivenessRow, HuntError> {
    let script = |error| HuntError::Script(case.scenario, error);
    let system = build::<S>(case.service, case.scenario, Some(case.bug), None)?;
    let (start, steps) = system.start().map_err(script)?;
    let start_steps = steps.len();

    let mut goal = properties::<S>(case)?;
    goal.retain(|property| property.name() == case.property);
    let begun = Instant::now();
    let report = Search::new(&start, goal.clone(), exhaustive(case))?.run();
    let elapsed = begun.elapsed();
    let walked = walk(&start, goal)?;
    let fitting = |violation: &&Violation<S>| violation.property == case.property;
    let told = report.violations.iter().find(fitting);
    let told = told.map(|violation| ToldDeath::of(violation, start_steps));
    let told = told.or_else(|| walked.told(case, start_steps));

    let system = build::<S>(case.service, case.scenario, None, None)?;
    let (start, _) = system.start().map_err(script)?;
    Ok(LivenessRow {
        case: *case,
        start_steps,
        told,
        states: report.states,
        elapsed,
        walks: walked.walks(),
        walks_found: walked.has_found(),
        walks_elapsed: walked.elapsed,
        fixed: fixed(case, &start)?,
    })
}

/// All that the service's property file asks for in every state, and the case's own property.
fn properties<S: Program>(case: &LivenessCase) -> Result<Vec<Property<S>>, HuntError> {
    let (name, text) = ("properties.toml", case.file.as_bytes());
    let set = PropertyFile::load(name, text, &Schema::of::<S>(), S::properties())
        .map_err(|errors| HuntError::Properties(errors.to_string()))?;
    let mut all = set.properties_of_all_kinds();
    all.retain(|property| property.is_always() || property.name() == case.property);
    Ok(all)
}

fn exhaustive(case: &LivenessCase) -> Options {
    Options {
        limits: Limits {
            states: Some(case.states_max),
            bytes: Some(BYTES_MAX),
            ..Limits::default()
        },
        ..Options::default()
    }
}

fn fixed<S: Program>(
    case: &LivenessCase,
    start: &Simulation<S>,
) -> Result<FixedLiveness, HuntError> {
    let mut options = exhaustive(case);
    // Whether something may go round for ever is another question than whether it ever can come true.
    options.settings = options
        .strategy
        .set(options.settings, "cycles", "off")
        .map_err(SearchError::from)?;
    let report = Search::new(start, properties(case)?, options)?.run();
    let classified = report.goals.iter().map(|goal| match &goal.standing {
        Standing::Classified(classes) => classes.dead,
        _ => 0,
    });
    let broken = |violation: &&Violation<S>| violation.how == How::Broken;
    Ok(FixedLiveness {
        dead: classified.sum(),
        violations: report.violations.iter().filter(broken).count() as u64,
        states: report.states,
        complete: report.complete,
    })
}

/// What came of walks.
struct Walked<S: Program> {
    report: Report<S>,
    elapsed: Duration,
}

/// Walks until a state is suspected or proved to be dead, or for as long as there is time.
fn walk<S: Program>(start: &Simulation<S>, goal: Vec<Property<S>>) -> Result<Walked<S>, HuntError> {
    let strategy = Strategy::WALK;
    let settings = strategy
        .set(Settings::default(), "length", WALK_LENGTH)
        .map_err(SearchError::from)?;
    let options = Options {
        strategy,
        settings,
        limits: Limits {
            bytes: Some(BYTES_MAX),
            first_violation: true,
            ..Limits::default()
        },
        ..Options::default()
    };
    let begun = Instant::now();
    let mut search = Search::new(start, goal, options)?;
    let mut stop = None;
    while stop.is_none() && begun.elapsed() < WALKS_MAX {
        stop = search.advance(STEPS);
    }
    let report = search.finish();
    Ok(Walked {
        report,
        elapsed: begun.elapsed(),
    })
}

impl<S: Program> Walked<S> {
    fn walks(&self) -> u64 {
        let of = |goal: &GoalReport| match &goal.standing {
            Standing::Walked(walked) => walked.walks,
            _ => 0,
        };
        self.report.goals.iter().map(of).max().unwrap_or(0)
    }

    fn has_found(&self) -> bool {
        !self.report.violations.is_empty() || !self.report.suspected.is_empty()
    }

    fn told(&self, case: &LivenessCase, start_steps: usize) -> Option<ToldDeath> {
        let mut proved = self.report.violations.iter();
        let proved = proved.find(|violation| violation.property == case.property);
        if let Some(violation) = proved {
            return Some(ToldDeath::of(violation, start_steps));
        }
        let mut suspected = self.report.suspected.iter();
        let suspicion = suspected.find(|suspicion| suspicion.property == case.property)?;
        Some(ToldDeath::suspected(suspicion, start_steps))
    }
}

impl ToldDeath {
    fn of<S: Program>(violation: &Violation<S>, start_steps: usize) -> Self {
        let verdict = match violation.how {
            How::Lasso { .. } => Verdict::Lasso,
            How::Dead(_) | How::Broken => Verdict::Dead,
        };
        let nodes: Vec<NodeId> = violation.state.nodes().keys().copied().collect();
        Self {
            explanation: violation.explanation.clone(),
            ..Self::told(
                verdict,
                start_steps,
                &nodes,
                (&violation.path, &violation.layout),
                violation.live.as_deref(),
            )
        }
    }

    fn suspected<S: Program>(suspicion: &Suspicion<S>, start_steps: usize) -> Self {
        let nodes: Vec<NodeId> = suspicion.state.nodes().keys().copied().collect();
        Self {
            explanation: suspicion.explanation.clone(),
            ..Self::told(
                Verdict::Suspected,
                start_steps,
                &nodes,
                (&suspicion.path, &suspicion.layout),
                suspicion.live.first().map(Vec::as_slice),
            )
        }
    }

    fn told<S: Program>(
        verdict: Verdict,
        start_steps: usize,
        nodes: &[NodeId],
        (path, layout): (&[Step<S>], &Layout),
        live: Option<&[Step<S>]>,
    ) -> Self {
        let event = |step: &Step<S>| format!("{}: {}", step.node, step.event);
        Self {
            verdict,
            critical_step: start_steps + path.len(),
            critical_event: path.last().map_or_else(|| "none".to_owned(), event),
            explanation: None,
            diagram: diagram::sequence(nodes, path, layout),
            live: live.map(|live| {
                let same = |(a, b): &(&Step<S>, &Step<S>)| a == b;
                let shared = live.iter().zip(path).take_while(same).count();
                diagram::sequence(nodes, &live[shared..], &Layout::default())
            }),
        }
    }
}
