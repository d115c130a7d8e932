//! The search beside a running service: a snapshot in, violations and their remedies out.
//!
//! One [`Job`] is one run: restore the snapshot, replay past paths and say at once which still err, search for
//! consequences, prove a remedy for each violation as it is found, report. ARCHITECTURE.md has the way from the host to
//! here and back ("A run, from host to filter"). Nothing here reads a clock or a socket; the [`Shell`] does.
//!
//! | module | what it holds |
//! |---|---|
//! | [`start`] | from a snapshot to the state a search starts from |
//! | [`replay`] | past paths on a new state |
//! | [`remedy`] | filters, and the proof that one helps and does no harm |
//! | `liveness` | what must come true again and again: states ahead from which it never does |
//! | [`path`] | paths as bytes, and the names of violations |
//! | [`spell`] | a path spelled out as a trace |
//! | [`process`], [`sandbox`] | the process that does all this, and what it may not do |

mod liveness;
pub mod path;
pub mod process;
pub mod remedy;
pub mod replay;
pub mod sandbox;
pub mod spell;
pub mod start;

use std::collections::BTreeSet;

use scry_protocol::filter::Mode;
use scry_protocol::limit::{
    FILTERS_MAX, MEMBERS_MAX, NAME_BYTES_MAX, PROPERTIES_MAX, TEXT_BYTES_MAX,
};
use scry_protocol::link::checker::{
    CheckerToAgent, Ended, Found, How, Job, Lasting, LeftOut, PastPath, Progress, Replayed, Report,
    Unjudged, Violation as Told,
};
use scry_protocol::{NodeId, ViolationId};

use crate::blame;
use crate::checker::liveness::Beside;
use crate::checker::remedy::{ProofTime, Prover, Remedies};
use crate::checker::replay::Replay;
use crate::checker::start::Start;
use crate::trace;
use scry_engine::explore::strategy::UnknownStrategy;
use scry_engine::explore::{Counts, Limits, Options, Search, Stop, Strategy};
use scry_engine::model::event::Step;
use scry_engine::model::fault::Faults;
use scry_engine::model::simulation::Simulation;
use scry_engine::panics::{Panicked, caught};
use scry_engine::property::{Panics, Property, Scope};
use scry_engine::service::Service;
use scry_engine::timing::find::{Settled, settle};
use scry_engine::timing::{Clock, DRIFT_PPM_MAX, Layout, MS_MAX, Time};

/// How often a run says how far it is.
const PROGRESS_EVERY_MS: u64 = 250;
/// How long a slice of a search may take before clock and agent are looked at again.
const SLICE_MS: u64 = 10;
/// How many states are looked at for another path to a violation whose first path does not fit in time. A tenth of a
/// second or so, since nobody looks at the clock meanwhile.
const TRIES: u32 = 2_000;
/// Replays, and the proofs of one remedy, each get this part of the time a run has.
const SHARE_OF_TIME: u64 = 4;

/// What surrounds a run.
pub trait Shell {
    /// Returns the milliseconds since the run began.
    fn elapsed_ms(&mut self) -> u64;
    /// Tells whether the agent wants the run to end.
    fn is_cancelled(&mut self) -> bool;
    /// Passes a message to the agent.
    fn tell(&mut self, message: CheckerToAgent);
}

/// Runs jobs one after the other, and keeps what the next may need again.
#[derive(Debug)]
pub struct Checker<S: Service> {
    threads: usize,
    /// The property file that was compiled last.
    compiled: Option<Compiled<S>>,
}

/// A property file that was compiled.
#[derive(Clone, Debug)]
struct Compiled<S: Service> {
    text: String,
    properties: Vec<Property<S>>,
    /// What filters must not take out of reach.
    goals: Vec<Property<S>>,
    /// The same as it stands: what must come true again and again.
    eventually: Vec<Property<S>>,
}

impl<S: Service> Default for Checker<S> {
    fn default() -> Self {
        Self {
            threads: 1,
            compiled: None,
        }
    }
}

impl<S: Service> Checker<S> {
    /// Sets on how many threads to search. What is found is the same for any number.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Carries out a job: tells what it finds while it goes on, and ends with a report.
    pub fn run(&mut self, job: &Job, shell: &mut dyn Shell) {
        let panics = Panics::default();
        let restored = self.compiled(&job.properties).and_then(|mut compiled| {
            let start = start::restore::<S>(&job.snapshot, faults_of(job), &clock_of(job));
            let mut start = start.map_err(|error| error.to_string())?;
            if !job.whole {
                start.state = start.state.in_scope(Scope::Partial);
            }
            compiled.properties = judged(job, compiled.properties, &panics);
            compiled.goals = contained(compiled.goals, &panics);
            compiled.eventually = match job.liveness {
                Mode::Off => Vec::new(),
                Mode::Audit | Mode::Steer => judged(job, compiled.eventually, &panics),
            };
            Ok((compiled, start))
        });
        let mut counts = Counts::default();
        let mut lasting = Vec::new();
        let mut unjudged = Vec::new();
        let mut cut_off = Vec::new();
        let mut out = Vec::new();
        let (ended, violations, unconfirmed, detail) = match restored {
            Err(reason) => (Ended::Unreadable, 0, 0, reason),
            Ok((
                Compiled {
                    properties,
                    goals,
                    eventually,
                    ..
                },
                Start {
                    state,
                    remarks,
                    left_out,
                    all_mail,
                },
            )) => {
                out = left_out;
                let mut run = Run {
                    job,
                    threads: self.threads,
                    shell,
                    start: state,
                    all_mail,
                    properties,
                    goals,
                    eventually,
                    remarks,
                    told: BTreeSet::new(),
                    unconfirmed: 0,
                    proved: Vec::new(),
                    lasting: Vec::new(),
                    unjudged: Vec::new(),
                };
                let before: Vec<u64> = run.properties.iter().map(Property::cut_off).collect();
                let ended = run.all_contained(&mut counts, &mut out);
                cut_off = newly_cut_off(&run.properties, &before);
                lasting = std::mem::take(&mut run.lasting);
                unjudged = std::mem::take(&mut run.unjudged);
                let remarks = run.remarks.join("; ");
                (ended, run.told.len() as u32, run.unconfirmed, remarks)
            }
        };
        let progress = progress(job, counts, shell.elapsed_ms());
        shell.tell(CheckerToAgent::Report(Report {
            run: job.run,
            ended,
            progress,
            violations,
            unconfirmed,
            detail: cut(detail, TEXT_BYTES_MAX),
            lasting,
            unjudged,
            cut_off,
            left_out: left_out(out),
            panicked: panicked(&panics),
        }));
    }

    fn compiled(&mut self, text: &str) -> Result<Compiled<S>, String> {
        if let Some(compiled) = &self.compiled
            && compiled.text == text
        {
            return Ok(compiled.clone());
        }
        let compiled = Compiled {
            text: text.to_owned(),
            properties: scry_properties::from_text::<S>(text)?,
            goals: scry_properties::goals_from_text::<S>(text)?,
            eventually: scry_properties::eventually_from_text::<S>(text)?,
        };
        self.compiled = Some(compiled.clone());
        Ok(compiled)
    }
}

/// Finds the strategy a job names, among those that can run beside a service. The agent's list may be another, since the
/// checker is the service's own executable.
fn strategy_of(job: &Job) -> Result<Strategy, String> {
    let strategy: Strategy = job
        .strategy
        .parse()
        .map_err(|unknown: UnknownStrategy| unknown.to_string())?;
    match strategy.offline() {
        None => Ok(strategy),
        Some(why) => Err(format!("{strategy} cannot run beside a service: it {why}")),
    }
}

/// A violation with what is needed to tell of it.
struct Seen<S: Service> {
    id: ViolationId,
    how: How,
    /// The event after which it is too late, if that is known.
    critical: String,
    property: String,
    nodes: Vec<NodeId>,
    explanation: String,
    path: Vec<Step<S>>,
    layout: Layout,
    /// The strategy that found it, if several work together.
    found_by: &'static str,
}

struct Run<'a, S: Service> {
    job: &'a Job,
    threads: usize,
    shell: &'a mut dyn Shell,
    start: Simulation<S>,
    /// Whether all that is on its way is part of it.
    all_mail: bool,
    properties: Vec<Property<S>>,
    goals: Vec<Property<S>>,
    eventually: Vec<Property<S>>,
    remarks: Vec<String>,
    told: BTreeSet<ViolationId>,
    /// Findings whose paths did not replay.
    unconfirmed: u64,
    /// What replays have proved already.
    proved: Vec<(ViolationId, Remedies)>,
    /// What nothing changed in the search.
    lasting: Vec<Lasting>,
    /// Properties without an answer in any state of the search.
    unjudged: Vec<Unjudged>,
}

impl<S: Service> Run<'_, S> {
    fn all(&mut self, counts: &mut Counts) -> Ended {
        self.replay_all();
        self.search(counts)
    }

    /// As [`all`](Self::all). A panic of the service's own code ends the run, and nothing else; on whose state it was is told.
    fn all_contained(&mut self, counts: &mut Counts, out: &mut Vec<(NodeId, String)>) -> Ended {
        match caught(|| self.all(counts)) {
            Ok(ended) => ended,
            Err(Panicked(said)) => {
                let node = blame::take().and_then(|blame| blame.node);
                let node = node.filter(|node| *node != self.me());
                out.extend(node.map(|node| (node, format!("the run panicked: {said}"))));
                self.remarks.push(format!("the run panicked: {said}"));
                Ended::Unreadable
            }
        }
    }

    fn me(&self) -> NodeId {
        self.job.snapshot.by
    }

    fn halted(&mut self) -> Option<Ended> {
        if self.shell.is_cancelled() {
            Some(Ended::Cancelled)
        } else if self.shell.elapsed_ms() >= self.job.budget.time_ms {
            Some(Ended::Budget)
        } else {
            None
        }
    }

    /// Replays every past path, and tells at once what came of it. What there is no time for is not told, and
    /// so counts as not proved.
    fn replay_all(&mut self) {
        let deadline = self.job.budget.time_ms / SHARE_OF_TIME;
        for (index, past) in self.job.past_paths.iter().enumerate() {
            if self.shell.is_cancelled() || self.shell.elapsed_ms() >= deadline {
                let rest = self.job.past_paths.len() - index;
                let remark = format!("there was no time to replay {rest} past paths");
                return self.remarks.push(remark);
            }
            let replayed = match path::read::<S>(&past.path) {
                Ok(old) => self.replay(past, &old),
                Err(error) => {
                    let remark = format!("the past path of {}: {error}", past.violation);
                    self.remarks.push(remark);
                    None
                }
            };
            let confirmed = replayed.is_some();
            let (how, remedies) = replayed.unwrap_or((How::Broken, Remedies::default()));
            if confirmed {
                self.proved.push((past.violation, remedies.clone()));
            }
            self.shell.tell(CheckerToAgent::Replayed(Replayed {
                run: self.job.run,
                violation: past.violation,
                confirmed,
                how,
                remedies: remedies.filters,
                elsewhere: remedies.elsewhere,
            }));
        }
    }

    /// Replays one past path. If it still leads to a violation, the remedies are returned, if there are any.
    fn replay(&mut self, past: &PastPath, old: &[Step<S>]) -> Option<(How, Remedies)> {
        let replayed = replay::replay(&self.start, old, &self.properties)
            .filter(|replayed| !is_off(self.job, &replayed.property))
            .filter(|replayed| self.fits_in_time(replayed));
        match replayed {
            Some(Replay {
                property,
                nodes,
                path,
            }) => {
                let remedies = self.remedy(past.violation, &property, &nodes, &path);
                Some((How::Broken, remedies))
            }
            None => Some((How::Dead, self.replay_dead(past, old)?)),
        }
    }

    /// Tells whether there are times for a replayed path, or for another one that breaks the same property.
    fn fits_in_time(&self, replayed: &Replay<S>) -> bool {
        let clock = clock_of(self.job);
        if clock.time == Time::Free {
            return true;
        }
        let violates = |state: &Simulation<S>| {
            replay::broken(state, &self.properties).any(|(name, _)| name == replayed.property)
        };
        let (settled, _) = settle(&self.start, &replayed.path, &violates, &clock);
        matches!(settled, Settled::Fits(..))
    }

    fn search(&mut self, counts: &mut Counts) -> Ended {
        let budget = self.job.budget;
        let strategy = match strategy_of(self.job) {
            Ok(strategy) => strategy,
            Err(remark) => {
                self.remarks.push(remark);
                return Ended::Unreadable;
            }
        };
        let mut beside = self.lookout();
        let options = Options {
            strategy,
            limits: Limits {
                states: Some(budget.states_max),
                depth: Some(budget.depth_max),
                bytes: Some(match &beside {
                    Some(_) => budget.memory_bytes_max - budget.memory_bytes_max / liveness::SHARE,
                    None => budget.memory_bytes_max,
                }),
                first_violation: false,
            },
            threads: self.threads,
            clock: clock_of(self.job),
            ..Options::default()
        };
        let mut search = match Search::new(&self.start, self.properties.clone(), options) {
            Ok(search) => search,
            Err(error) => {
                self.remarks.push(error.to_string());
                return Ended::Unreadable;
            }
        };
        let ended = self.follow(&mut search, counts, &mut beside);
        if beside.is_some() && matches!(ended, Ended::Exhausted | Ended::Covered) {
            // What comes now is welcome to make way for a newer snapshot.
            let elapsed = self.shell.elapsed_ms();
            let covered = Progress {
                covered: true,
                ..progress(self.job, *counts, elapsed)
            };
            self.shell.tell(CheckerToAgent::Progress(covered));
        }
        self.look_out_to_the_end(beside);
        let lasting = search.lasting().into_iter();
        self.lasting = lasting
            .map(|(node, properties)| Lasting { node, properties })
            .collect();
        let unjudged = search.unjudged().into_iter().take(PROPERTIES_MAX);
        let unjudged = unjudged.map(|unjudged| Unjudged {
            property: cut(unjudged.property, NAME_BYTES_MAX),
            why: cut(unjudged.why, NAME_BYTES_MAX),
        });
        self.unjudged.extend(unjudged);
        self.unjudged.truncate(PROPERTIES_MAX);
        ended
    }

    /// Continues a search to its end, and tells what it finds.
    fn follow(
        &mut self,
        search: &mut Search<S>,
        counts: &mut Counts,
        beside: &mut Option<Beside<S>>,
    ) -> Ended {
        let budget = self.job.budget;
        let mut pace = Pace::default();
        let mut known = 0;
        let mut progress_at = PROGRESS_EVERY_MS;
        let mut covered = false;
        loop {
            let begun = self.shell.elapsed_ms();
            let stop = search.advance(pace.steps());
            pace.note(self.shell.elapsed_ms().saturating_sub(begun));
            *counts = search.counts();
            let found = search.found(known);
            known = found.known;
            self.unconfirmed += found.unconfirmed;
            for violation in found.violations {
                if is_off(self.job, &violation.property) {
                    // Handlers that panic are found whether anybody wants to know or not.
                    continue;
                }
                if self.told.len() >= budget.violations_max as usize {
                    return Ended::Budget;
                }
                if self.shell.is_cancelled() {
                    return Ended::Cancelled;
                }
                let id = path::name(&violation.property, &violation.nodes, &violation.path);
                self.report(Seen {
                    id,
                    how: How::Broken,
                    critical: String::new(),
                    property: violation.property,
                    nodes: violation.nodes,
                    explanation: violation.explanation.unwrap_or_default(),
                    path: violation.path,
                    layout: violation.layout,
                    found_by: violation.found_by.first().copied().unwrap_or_default(),
                });
            }
            if stop.is_some() {
                self.tell_unfit(search);
            }
            match stop {
                Some(Stop::Exhausted) => return Ended::Exhausted,
                Some(_) if search.has_covered() => return Ended::Covered,
                Some(_) => return Ended::Budget,
                None => {}
            }
            self.look_out(beside, false);
            if let Some(ended) = self.halted() {
                self.tell_unfit(search);
                // Beyond what a strategy promises, a search is welcome to end at any time.
                return match search.has_covered() {
                    true => Ended::Covered,
                    false => ended,
                };
            }
            let elapsed = self.shell.elapsed_ms();
            let newly_covered = !covered && search.has_covered();
            if newly_covered || elapsed >= progress_at {
                covered |= newly_covered;
                progress_at = elapsed + PROGRESS_EVERY_MS;
                let progress = Progress {
                    covered,
                    ..progress(self.job, *counts, elapsed)
                };
                self.shell.tell(CheckerToAgent::Progress(progress));
            }
        }
    }

    /// Says what was found that does not replay or does not fit in time.
    fn tell_unfit(&mut self, search: &Search<S>) {
        let (unconfirmed, unfit) = search.unfit();
        if unconfirmed > 0 {
            self.remarks.push(format!(
                "{unconfirmed} findings did not replay: the service has chance or a clock of its own"
            ));
        }
        let impossible = unfit.iter().filter(|unfit| unfit.impossible).count();
        for (count, what) in [
            (impossible, "impossible in time"),
            (unfit.len() - impossible, "not decided in time"),
        ] {
            if count > 0 {
                self.remarks.push(format!("{count} findings {what}"));
            }
        }
        let needs: BTreeSet<String> = unfit
            .into_iter()
            .filter_map(|unfit| Some(format!("{}: {}", unfit.property, unfit.need?)))
            .collect();
        self.remarks.extend(needs);
    }

    /// Proves a remedy for a violation and tells of both, once for each name.
    fn report(&mut self, seen: Seen<S>) {
        if !is_first(&mut self.told, seen.id) {
            return;
        }
        let proved = self.proved.iter().find(|(id, _)| *id == seen.id);
        let remedies = match proved {
            Some((_, remedies)) if !remedies.filters.is_empty() => remedies.clone(),
            _ => match seen.how {
                How::Broken => self.remedy(seen.id, &seen.property, &seen.nodes, &seen.path),
                How::Dead => self.lifeline(seen.id, &seen.property, &seen.critical, &seen.path),
            },
        };
        let path = path::write(&seen.path).unwrap_or_else(|error| {
            self.remarks.push(format!("{}: {error}", seen.id));
            Vec::new()
        });
        let told = Told {
            id: seen.id,
            trace: self.trace(&seen, &remedies),
            property: cut(seen.property, NAME_BYTES_MAX),
            how: seen.how,
            critical: cut(seen.critical, NAME_BYTES_MAX),
            explanation: cut(seen.explanation, TEXT_BYTES_MAX),
            depth: seen.path.len() as u32,
            path,
            remedies: remedies.filters,
            unhelpful: cut(remedies.unhelpful, TEXT_BYTES_MAX),
            neighbor: remedies.neighbor,
            elsewhere: remedies.elsewhere,
            found_by: seen.found_by.to_owned(),
        };
        self.shell.tell(CheckerToAgent::Found(Box::new(Found {
            run: self.job.run,
            violation: told,
        })));
    }

    fn trace(&mut self, seen: &Seen<S>, remedies: &Remedies) -> Vec<u8> {
        let mut spelled = spell::spell(&self.start, &seen.path);
        spell::add_times(&mut spelled, &seen.layout);
        spelled.property.clone_from(&seen.property);
        spelled.explanation.clone_from(&seen.explanation);
        spelled.by = self.me();
        spelled.remedies.clone_from(&remedies.words);
        trace::write(&spelled).unwrap_or_else(|error| {
            self.remarks.push(format!("{}: {error}", seen.id));
            Vec::new()
        })
    }

    fn remedy(
        &mut self,
        id: ViolationId,
        property: &str,
        nodes: &[NodeId],
        path: &[Step<S>],
    ) -> Remedies {
        self.prove(property, nodes, path, false, |prover| prover.remedies(id))
    }

    /// Has remedies proved, as long as there is time for it. What can still come true is asked `at_length` or briefly.
    fn prove(
        &mut self,
        property: &str,
        nodes: &[NodeId],
        path: &[Step<S>],
        at_length: bool,
        seek: impl FnOnce(Prover<'_, S>) -> Remedies,
    ) -> Remedies {
        let me = self.me();
        let time_ms = self.job.budget.time_ms;
        let begun = self.shell.elapsed_ms();
        let deadline = (begun + time_ms / SHARE_OF_TIME).min(time_ms);
        let halfway = begun + deadline.saturating_sub(begun) / 2;
        let fates = liveness::fates(
            (self.job, &self.start, self.all_mail),
            (&self.eventually, &self.goals),
            at_length,
        );
        let shell = &mut *self.shell;
        let mut halted = |time| {
            let until = match time {
                ProofTime::Half => halfway,
                ProofTime::All => deadline,
            };
            shell.is_cancelled() || shell.elapsed_ms() >= until
        };
        let prover = Prover {
            start: &self.start,
            properties: &self.properties,
            goals: &self.goals,
            fates,
            me,
            property,
            nodes,
            path,
            order: self.job.order,
            checks: self.job.checks,
            clock: clock_of(self.job),
            bytes_max: self.job.budget.memory_bytes_max,
            halted: &mut halted,
            time: ProofTime::All,
            baseline: None,
        };
        let mut remedies = seek(prover);
        remedies.filters.truncate(FILTERS_MAX);
        remedies
    }
}

fn is_first(told: &mut BTreeSet<ViolationId>, id: ViolationId) -> bool {
    told.insert(id)
}

/// Lists the properties that a job is about.
fn judged<S: Service>(
    job: &Job,
    mut properties: Vec<Property<S>>,
    panics: &Panics,
) -> Vec<Property<S>> {
    properties.retain(|property| !is_off(job, property.name()));
    contained(properties, panics)
}

fn contained<S: Service>(properties: Vec<Property<S>>, panics: &Panics) -> Vec<Property<S>> {
    let properties = properties.into_iter();
    properties
        .map(|property| property.contained(panics))
        .collect()
}

fn left_out(mut members: Vec<(NodeId, String)>) -> Vec<LeftOut> {
    members.truncate(MEMBERS_MAX);
    let members = members.into_iter();
    members
        .map(|(node, why)| LeftOut {
            node,
            why: cut(why, NAME_BYTES_MAX),
        })
        .collect()
}

fn panicked(panics: &Panics) -> Vec<Unjudged> {
    let all = panics.take().into_iter().take(PROPERTIES_MAX);
    all.map(|(property, said)| Unjudged {
        property: cut(property, NAME_BYTES_MAX),
        why: cut(said, NAME_BYTES_MAX),
    })
    .collect()
}

fn is_off(job: &Job, property: &str) -> bool {
    let own = job.modes.iter().find(|own| own.property == property);
    own.is_some_and(|own| own.mode == Mode::Off)
}

/// How many steps a slice has: as many as fit into [`SLICE_MS`], by what the last slices took.
#[derive(Debug)]
pub(crate) struct Pace(u64);

impl Default for Pace {
    fn default() -> Self {
        Self(256)
    }
}

impl Pace {
    pub(crate) fn steps(&self) -> u64 {
        self.0
    }

    pub(crate) fn note(&mut self, took_ms: u64) {
        if took_ms < SLICE_MS / 2 {
            self.0 = (self.0 * 2).min(1 << 20);
        } else if took_ms > SLICE_MS * 2 {
            self.0 = (self.0 / 2).max(256);
        }
    }
}

/// Lists the properties of which judgements were cut off since they were counted last.
fn newly_cut_off<S: Service>(properties: &[Property<S>], before: &[u64]) -> Vec<String> {
    let mut names: Vec<String> = properties
        .iter()
        .zip(before)
        .filter(|(property, before)| property.cut_off() > **before)
        .map(|(property, _)| cut(property.name().to_owned(), NAME_BYTES_MAX))
        .collect();
    // Parts of one property bear the same name.
    names.dedup();
    names.truncate(PROPERTIES_MAX);
    names
}

fn progress(job: &Job, counts: Counts, elapsed_ms: u64) -> Progress {
    Progress {
        run: job.run,
        states: counts.states,
        depth: counts.depth,
        elapsed_ms,
        covered: false,
    }
}

fn faults_of(job: &Job) -> Faults {
    let faults = job.faults;
    Faults {
        resets: faults.resets,
        silent_resets: faults.silent_resets,
        breaks: faults.breaks,
        losses: faults.losses,
        duplicates: faults.duplicates,
        late_starts: faults.late_starts,
    }
}

fn clock_of(job: &Job) -> Clock {
    let clock = job.clock;
    Clock {
        time: match clock.free {
            true => Time::Free,
            false => Time::Fit,
        },
        late_ms: clock.late_ms.min(MS_MAX),
        skew_ms: clock.skew_ms.min(MS_MAX),
        drift_ppm: clock.drift_ppm.min(DRIFT_PPM_MAX),
        tries: TRIES,
    }
}

/// Shortens a text to what a frame takes.
fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = (0..=max - '…'.len_utf8())
            .rev()
            .find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}
