//! The immediate safety check: before a handler runs, a copy of the node tries it, and an event that would break a
//! property does not reach the handler (A-109…A-114).
//!
//! It is the second line behind prediction: it needs no search and no time, only the node's own next state and what is
//! last known of its neighbors. How the copy is made is a setting ([`Isolate`]):
//!
//! | module | what it holds |
//! |---|---|
//! | `trial` | the handler on a copy, and the properties on what comes of it |
//! | `memory` | verdicts that need not be asked for again |
//! | `limit` | how often events may be refused |
//! | `child` | a trial in a forked process, with a deadline |
//! | `speculator` | the small process that forks in the host's place, ahead of the question |
//!
//! Whatever fails, the event runs: a check that is late, gone or unreadable protects nothing, and harms nothing either.

mod child;
mod limit;
mod memory;
mod speculator;
mod trial;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use scry_protocol::NodeId;
use scry_protocol::filter::Mode;
use scry_protocol::link::host::{Failure, Isolate, Rules, Surroundings, Veto};

use crate::context::Dice;
use crate::hook::Request;
use crate::model::event::InputOf;
use crate::model::handler::Local;
use crate::properties;
use crate::property::{Property, Scope};
use crate::runtime::guard::{Examined, Guard, Notice};
use crate::runtime::run::Performed;
use crate::safety::child::Forker;
use crate::safety::limit::{Allowance, VetoCounts};
use crate::safety::memory::Memory;
use crate::safety::speculator::Speculator;
use crate::safety::trial::{Trial, Verdict};
use crate::service::Service;

pub use limit::VetoLimits;
pub use speculator::serve;

/// How many notices wait for the agent before the oldest go.
const NOTICES_MAX: usize = 256;

/// Tries handlers before they run.
pub struct SafetyCheck<S: Service> {
    me: NodeId,
    executable: Option<PathBuf>,
    rules: Rules,
    properties: Vec<Property<S>>,
    surroundings: Option<Known<S>>,
    /// Whether it was said that the neighbors' states are too old.
    stale_told: bool,
    speculator: Option<Speculator>,
    forker: Forker,
    memory: Memory,
    vetoes: VetoCounts,
    notices: VecDeque<Notice>,
}

/// The neighbors' last known states, as they came and as they are judged.
struct Known<S: Service> {
    since: Instant,
    neighbors: Vec<(NodeId, Local<S>)>,
    raw: Surroundings,
}

/// How one attempt to get a verdict ended.
enum Attempt<S: Service> {
    Verdict(Verdict, Option<Performed<S>>),
    Failed(Failure, String),
}

impl<S: Service> SafetyCheck<S> {
    /// Makes a check that passes everything until it gets rules.
    ///
    /// `executable` is started as the speculator; this process's own by default.
    pub fn new(me: NodeId, executable: Option<PathBuf>) -> Self {
        Self {
            me,
            executable,
            rules: Rules {
                properties: String::new(),
                modes: Vec::new(),
                isolate: Isolate::Off,
                deadline_ms: 0,
                surroundings_age_ms_max: 0,
            },
            properties: Vec::new(),
            surroundings: None,
            stale_told: false,
            speculator: None,
            forker: Forker::default(),
            memory: Memory::default(),
            vetoes: VetoCounts::default(),
            notices: VecDeque::new(),
        }
    }

    /// Sets how often events may be refused.
    #[must_use]
    pub fn limited(mut self, limits: VetoLimits) -> Self {
        self.vetoes = VetoCounts::new(limits);
        self
    }

    /// Takes rules. If they do not fit the service, nothing is checked until better ones come.
    pub fn set_rules(&mut self, rules: Rules) {
        self.memory.clear();
        self.speculator = None;
        match properties::from_text::<S>(&rules.properties) {
            Ok(properties) => {
                self.properties = properties;
                self.rules = rules;
            }
            Err(error) => {
                self.properties = Vec::new();
                self.rules.isolate = Isolate::Off;
                self.fail(Failure::RulesUnfit, error);
            }
        }
    }

    /// Takes the neighbors' states. One that cannot be read is left out.
    pub fn set_surroundings(&mut self, surroundings: Surroundings) {
        let (neighbors, unreadable) = trial::neighbors::<S>(&surroundings);
        for error in unreadable {
            self.fail(Failure::SurroundingsUnreadable, error);
        }
        self.memory.clear();
        if let Some(speculator) = &mut self.speculator {
            speculator.set_surroundings(&surroundings);
        }
        self.stale_told = false;
        self.surroundings = Some(Known {
            since: Instant::now(),
            neighbors,
            raw: surroundings,
        });
    }

    /// Returns the process id of the speculator, if one runs.
    pub fn speculator_id(&self) -> Option<u32> {
        self.speculator.as_ref()?.process_id()
    }

    fn attempt(
        &mut self,
        setup: &S::Setup,
        local: &Local<S>,
        input: &InputOf<S>,
        dice: Dice,
    ) -> Attempt<S> {
        let neighbors = self.surroundings.as_ref();
        let trial = Trial {
            me: self.me,
            setup,
            properties: &self.properties,
            neighbors: neighbors.map_or(&[], |known| &known.neighbors),
            scope: Scope::Partial,
        };
        if self.rules.isolate == Isolate::Clone {
            let (verdict, performed) = trial.run(local, input, dice);
            return Attempt::Verdict(verdict, performed);
        }
        let key = Memory::key(local, input);
        if let Some(verdict) = self.memory.recall(key) {
            return Attempt::Verdict(verdict, None);
        }
        let deadline = Duration::from_millis(self.rules.deadline_ms);
        let answer = match self.rules.isolate {
            Isolate::Fork => {
                let trial = || trial.run(local, input, dice).0;
                self.forker.run(deadline, trial)
            }
            _ => {
                let raw = neighbors.map(|known| &known.raw);
                let speculator = self
                    .speculator
                    .get_or_insert_with(|| Speculator::new(self.executable.clone()));
                speculator.ask(
                    deadline,
                    &speculator::Question {
                        me: self.me,
                        setup,
                        local,
                        input,
                        dice,
                    },
                    &self.rules.properties,
                    raw,
                )
            }
        };
        match answer {
            Ok(verdict) => {
                if verdict.asked == 0 {
                    self.memory.remember(key, verdict.clone());
                }
                Attempt::Verdict(verdict, None)
            }
            Err(error) => {
                let (failure, detail) = error.into_parts();
                Attempt::Failed(failure, detail)
            }
        }
    }

    /// Neighbors' states that are too old say nothing: the node is judged by itself until newer ones come.
    fn retire_stale(&mut self) {
        let max = Duration::from_millis(self.rules.surroundings_age_ms_max);
        let Some(known) = &mut self.surroundings else {
            return;
        };
        if known.since.elapsed() <= max || known.neighbors.is_empty() {
            return;
        }
        known.neighbors.clear();
        known.raw.neighbors.clear();
        let raw = known.raw.clone();
        self.memory.clear();
        if let Some(speculator) = &mut self.speculator {
            speculator.set_surroundings(&raw);
        }
        if !std::mem::replace(&mut self.stale_told, true) {
            let detail = format!("nothing was heard of them for {} ms", max.as_millis());
            self.fail(Failure::SurroundingsStale, detail);
        }
    }

    fn mode_of(&self, property: &str, mode: Mode) -> Mode {
        let own = self.rules.modes.iter().find(|own| own.property == property);
        own.map_or(mode, |own| own.mode.min(mode))
    }

    /// Counts a veto that is about to happen, unless there were too many.
    fn may_veto(&mut self, property: &str) -> bool {
        let allowed = self.vetoes.allow(Instant::now(), property);
        if allowed == Allowance::Disarmed {
            self.fail(Failure::VetoesDisarmed, property.to_owned());
        }
        allowed == Allowance::Veto
    }

    fn fail(&mut self, failure: Failure, detail: String) {
        self.notice(Notice::Failed(failure, detail));
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() == NOTICES_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }
}

impl<S: Service> Guard<S> for SafetyCheck<S> {
    fn examine(
        &mut self,
        mode: Mode,
        setup: &S::Setup,
        local: &Local<S>,
        input: &InputOf<S>,
        dice: Dice,
    ) -> Examined<S> {
        let off = self.rules.isolate == Isolate::Off || mode == Mode::Off;
        if off || self.properties.is_empty() {
            return Examined::Pass(None);
        }
        self.retire_stale();
        let begun = Instant::now();
        let (verdict, performed) = match self.attempt(setup, local, input, dice) {
            Attempt::Verdict(verdict, performed) => (verdict, performed),
            Attempt::Failed(failure, detail) => {
                self.fail(failure, detail);
                return Examined::Pass(None);
            }
        };
        // The event is stopped for the first property that may stop it; that it breaks others is told.
        let mut veto = None;
        for broken in verdict.broken {
            match self.mode_of(&broken.property, mode) {
                Mode::Off => {}
                Mode::Steer if veto.is_none() && self.may_veto(&broken.property) => {
                    veto = Some(broken);
                }
                Mode::Steer | Mode::Audit => self.notice(Notice::WouldVeto(Veto {
                    property: broken.property,
                    event: format!("{input:?}"),
                    explanation: broken.explanation,
                    acted: false,
                    elapsed_us: begun.elapsed().as_micros() as u64,
                })),
            }
        }
        match veto {
            Some(broken) => Examined::Veto {
                property: broken.property,
                explanation: broken.explanation,
            },
            None => Examined::Pass(performed),
        }
    }

    fn inform(&mut self, request: Request) {
        match request {
            Request::Rules(rules) => self.set_rules(*rules),
            Request::Surroundings(surroundings) => self.set_surroundings(surroundings),
            Request::Predicted(_) | Request::Ended(_) => {}
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl<S: Service> std::fmt::Debug for SafetyCheck<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafetyCheck")
            .field("isolate", &self.rules.isolate)
            .finish_non_exhaustive()
    }
}
