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
//! | `child` | a trial in a forked process, with a deadline |
//! | `speculator` | the small process that forks in the host's place |
//!
//! Whatever fails, the event runs: a check that is late, gone or unreadable protects nothing, and harms nothing either.

mod child;
mod memory;
mod speculator;
mod trial;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use scry_protocol::NodeId;
use scry_protocol::filter::Mode;
use scry_protocol::limit::{NAME_BYTES_MAX, TEXT_BYTES_MAX};
use scry_protocol::link::host::{
    FailedOpen, Failure, HostToAgent, Isolate, Rules, Surroundings, Veto,
};

use crate::context::Dice;
use crate::model::event::InputOf;
use crate::model::handler::{Local, Performed};
use crate::property::Property;
use crate::safety::memory::Memory;
use crate::safety::speculator::Speculator;
use crate::safety::trial::{Trial, Verdict};
use crate::service::Service;

pub use speculator::serve;

/// How many notes wait for the agent before the oldest go.
const NOTES_MAX: usize = 256;

/// What may become of an event.
#[derive(Debug)]
pub enum Examined<S: Service> {
    /// The handler may run. If the copy was made in this process, its result is here and can be taken for the handler's.
    Pass(Option<Performed<S>>),
    /// The handler must not run.
    Veto {
        /// The property it would break.
        property: String,
        /// What would be wrong, in words.
        explanation: String,
    },
}

/// Tries handlers before they run.
pub struct SafetyCheck<S: Service> {
    me: NodeId,
    executable: Option<PathBuf>,
    rules: Rules,
    mode: Mode,
    properties: Vec<Property<S>>,
    surroundings: Option<Known<S>>,
    /// Whether it was said that the neighbors' states are too old.
    stale_told: bool,
    speculator: Option<Speculator>,
    memory: Memory,
    failures: [u64; FAILURES],
    notes: VecDeque<HostToAgent>,
}

/// The neighbors' last known states, as they came and as they are judged.
struct Known<S: Service> {
    since: Instant,
    neighbors: Vec<(NodeId, Local<S>)>,
    raw: Surroundings,
}

const FAILURES: usize = 7;

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
            mode: Mode::Off,
            properties: Vec::new(),
            surroundings: None,
            stale_told: false,
            speculator: None,
            memory: Memory::default(),
            failures: [0; FAILURES],
            notes: VecDeque::new(),
        }
    }

    /// Takes rules. If they do not fit the service, nothing is checked until better ones come.
    pub fn set_rules(&mut self, rules: Rules) {
        self.memory.clear();
        self.speculator = None;
        match trial::properties::<S>(&rules.properties) {
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

    /// Sets how much it may do. The lower of this and a property's own mode counts.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Sets how long a verdict may take.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.rules.deadline_ms = deadline.as_millis() as u64;
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

    /// Tells whether events are checked at all.
    pub fn is_on(&self) -> bool {
        self.rules.isolate != Isolate::Off && self.mode != Mode::Off && !self.properties.is_empty()
    }

    /// Returns the process id of the speculator, if one runs.
    pub fn speculator_id(&self) -> Option<u32> {
        self.speculator.as_ref()?.process_id()
    }

    /// Returns what the agent should hear: vetoes and failures.
    pub fn poll_note(&mut self) -> Option<HostToAgent> {
        self.notes.pop_front()
    }

    /// Tries the handler of an event. `describe` says what the event is, for people, if there is something to say.
    pub fn examine(
        &mut self,
        setup: &S::Setup,
        local: &Local<S>,
        input: &InputOf<S>,
        dice: Dice,
        describe: impl FnOnce() -> String,
    ) -> Examined<S> {
        if !self.is_on() {
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
        let Some(broken) = verdict.broken else {
            return Examined::Pass(performed);
        };
        let acted = self.mode_of(&broken.property) == Mode::Steer;
        self.note(Veto {
            property: cut(broken.property.clone(), NAME_BYTES_MAX),
            event: cut(describe(), TEXT_BYTES_MAX),
            explanation: cut(broken.explanation.clone(), TEXT_BYTES_MAX),
            acted,
            elapsed_us: begun.elapsed().as_micros() as u64,
        });
        if !acted {
            return Examined::Pass(performed);
        }
        Examined::Veto {
            property: broken.property,
            explanation: broken.explanation,
        }
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
            Isolate::Fork => child::run(deadline, || trial.run(local, input, dice).0),
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

    fn mode_of(&self, property: &str) -> Mode {
        let own = self.rules.modes.iter().find(|own| own.property == property);
        own.map_or(self.mode, |own| own.mode.min(self.mode))
    }

    fn fail(&mut self, failure: Failure, detail: String) {
        let count = &mut self.failures[usize::from(u8::from(failure)) % FAILURES];
        *count += 1;
        let count = *count;
        self.note(FailedOpen {
            failure,
            count,
            detail: cut(detail, TEXT_BYTES_MAX),
        });
    }

    fn note(&mut self, note: impl Into<HostToAgent>) {
        if self.notes.len() == NOTES_MAX {
            self.notes.pop_front();
        }
        self.notes.push_back(note.into());
    }
}

/// Cuts a text to what a frame takes, at a whole character.
fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    text
}

impl<S: Service> std::fmt::Debug for SafetyCheck<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafetyCheck")
            .field("isolate", &self.rules.isolate)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
