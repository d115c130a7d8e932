//! Trace files of `check`: the execution after which a search begins, and those that it found.

use std::fs;
use std::path::{Path, PathBuf};

use scry_protocol::NodeId;

use crate::checker::spell::{add_times, spell};
use crate::trace::{Trace, follow, json};
use scry_engine::explore::report::{How, Report};
use scry_engine::explore::{Case, Suspicion, Violation};
use scry_engine::model::event::Step;
use scry_engine::model::simulation::Simulation;
use scry_engine::service::Service;
use scry_engine::timing::Layout;

/// Reads the execution in a trace file, which has to begin in a state.
///
/// # Errors
///
/// When the file cannot be read, is no trace, or is one of something else.
pub(super) fn load<S: Service>(path: &Path, start: &Simulation<S>) -> Result<Vec<Step<S>>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("--prefix {}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| wrong(&error))?;
    let trace = json::parse(&bytes).map_err(|error| wrong(&error))?;
    let start = start.clone().with_moments(None);
    follow::follow(&start, &trace).map_err(|error| wrong(&error))
}

/// The files that hold what was found.
#[derive(Debug, Default)]
pub struct Stored {
    /// For each violation its path, and after it the execution that comes true, if one is known.
    pub violations: Vec<Vec<PathBuf>>,
    /// The same for each state that is suspected to be dead.
    pub suspected: Vec<Vec<PathBuf>>,
}

/// Makes sure that files can be written into a directory.
pub(super) fn prepare(directory: &Path) -> Result<(), String> {
    let wrong = |error| format!("--traces {}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(wrong)?;
    let probe = directory.join(".scry-probe");
    fs::write(&probe, b"").map_err(wrong)?;
    fs::remove_file(&probe).map_err(wrong)
}

/// Writes what was found, each execution into a file of its own.
///
/// # Errors
///
/// When a file cannot be written.
pub(super) fn write<S: Service>(
    directory: &Path,
    found_by: &str,
    start: &Simulation<S>,
    report: &Report<S>,
) -> Result<Stored, String> {
    let files = Files {
        directory,
        found_by,
        start,
    };
    let mut stored = Stored::default();
    for (at, violation) in report.violations.iter().enumerate() {
        let name = format!("violation-{}", at + 1);
        let live: Vec<&[Step<S>]> = violation.live.iter().map(Vec::as_slice).collect();
        let said = (violation.property.as_str(), said_of(violation));
        let path = (violation.path.as_slice(), &violation.layout);
        stored
            .violations
            .push(files.write(&name, said, path, &live)?);
    }
    for (at, suspicion) in report.suspected.iter().enumerate() {
        let name = format!("suspected-{}", at + 1);
        let live: Vec<&[Step<S>]> = suspicion.live.iter().map(Vec::as_slice).collect();
        let said = (suspicion.property.as_str(), suspected(suspicion));
        let path = (suspicion.path.as_slice(), &suspicion.layout);
        stored
            .suspected
            .push(files.write(&name, said, path, &live)?);
    }
    Ok(stored)
}

fn said_of<S: Service>(violation: &Violation<S>) -> String {
    let said = violation.explanation.as_deref().unwrap_or_default();
    let how = match violation.how {
        How::Broken => return said.to_owned(),
        How::Dead(dead) if dead.critical => {
            "dead: after the last step it never comes true again".to_owned()
        }
        How::Dead(_) => "dead: from the last state on it never comes true".to_owned(),
        How::Lasso { round } => format!("the last {round} steps can be repeated for ever"),
    };
    joined(&how, said)
}

fn suspected<S: Service>(suspicion: &Suspicion<S>) -> String {
    let case = match suspicion.case {
        Case::C1 => "C1",
        Case::C2 => "C2",
    };
    let how = format!(
        "suspected to be dead (case {case}): {} walks from the last state did not make it come true",
        suspicion.walks
    );
    joined(&how, suspicion.explanation.as_deref().unwrap_or_default())
}

fn joined(how: &str, said: &str) -> String {
    match said {
        "" => how.to_owned(),
        said => format!("{how}; {said}"),
    }
}

struct Files<'a, S: Service> {
    directory: &'a Path,
    found_by: &'a str,
    start: &'a Simulation<S>,
}

impl<S: Service> Files<'_, S> {
    /// Writes a path, and beside it the executions that share its beginning and come true.
    fn write(
        &self,
        name: &str,
        (property, said): (&str, String),
        (path, layout): (&[Step<S>], &Layout),
        live: &[&[Step<S>]],
    ) -> Result<Vec<PathBuf>, String> {
        let mut trace = spell(self.start, path);
        add_times(&mut trace, layout);
        let timed = trace.steps.clone();
        let mut written = vec![self.store(name, property, said, trace)?];
        for (at, &live) in live.iter().enumerate() {
            let shared = live.iter().zip(path).take_while(|(a, b)| a == b).count();
            let said = format!("comes true; the first {shared} steps are those of {name}.json");
            let mut trace = spell(self.start, live);
            // What they share happens at the same times; nothing was laid out beyond that.
            for (step, timed) in trace.steps.iter_mut().zip(timed.iter().take(shared)) {
                step.clone_from(timed);
            }
            let name = format!("{name}-live-{}", at + 1);
            written.push(self.store(&name, property, said, trace)?);
        }
        Ok(written)
    }

    fn store(
        &self,
        name: &str,
        property: &str,
        said: String,
        trace: Trace,
    ) -> Result<PathBuf, String> {
        let by = trace.steps.last().map_or(NodeId::new(0), |step| step.node);
        let trace = Trace {
            property: property.to_owned(),
            explanation: said,
            by,
            found_by: Some(self.found_by.to_owned()),
            ..trace
        };
        let file = self.directory.join(format!("{name}.json"));
        let written = fs::write(&file, json::render(&trace));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }
}
