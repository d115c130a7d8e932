//! What trials are made with, and the ways to make one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use scry_protocol::link::host::{Failure, Isolate, Rules, Surroundings};
use scry_protocol::{NodeId, Past};

use crate::checkpoint::cut::{Cut, Standing};
use crate::context::Dice;
use crate::model::event::{Input, InputOf};
use crate::model::handler::Local;
use crate::properties;
use crate::property::{Property, Shape};
use crate::runtime::run::Performed;
use crate::safety::child::Forker;
use crate::safety::memory::Memory;
use crate::safety::speculator::{self, Speculator};
use crate::safety::trial::{self, Neighbor, Trial, Verdict};
use crate::service::Service;

/// An event to be tried.
pub(super) struct Case<'a, S: Service> {
    pub(super) setup: &'a S::Setup,
    pub(super) local: &'a Local<S>,
    pub(super) input: &'a InputOf<S>,
    pub(super) dice: Dice,
    pub(super) standing: Vec<Standing>,
}

/// A verdict, with the node after the event if it was made here; or why there is none.
pub(super) type Tried<S> = Result<(Verdict, Option<Performed<S>>), (Failure, String)>;

/// Makes trials by the rules and with the neighbors it was last told of.
pub(super) struct Trials<S: Service> {
    me: NodeId,
    executable: Option<PathBuf>,
    pub(super) rules: Rules,
    properties: Vec<Property<S>>,
    known: Option<Known<S>>,
    speculator: Option<Speculator>,
    forker: Forker,
    memory: Memory,
}

/// The neighbors' last known states.
struct Known<S: Service> {
    since: Instant,
    cut: Cut,
    raw: Surroundings,
    /// As values, once a trial in this process needs them.
    neighbors: Option<Vec<Neighbor<S>>>,
}

impl<S: Service> Trials<S> {
    /// Makes none until it gets rules.
    pub(super) fn new(me: NodeId, executable: Option<PathBuf>) -> Self {
        Self {
            me,
            executable,
            rules: Rules {
                properties: String::new(),
                modes: Vec::new(),
                isolate: Isolate::Off,
                deadline_ms: 0,
                surroundings_age_ms_max: 0,
                hold_ms_max: 0,
                time_share_per_mille: 0,
            },
            properties: Vec::new(),
            known: None,
            speculator: None,
            forker: Forker::default(),
            memory: Memory::default(),
        }
    }

    /// Takes rules. If they do not fit the service, nothing is tried until better ones come.
    pub(super) fn set_rules(&mut self, rules: Rules) -> Result<(), String> {
        self.memory.clear();
        self.speculator = None;
        match properties::from_text::<S>(&rules.properties) {
            Ok(properties) => {
                self.properties = properties;
                self.rules = rules;
                Ok(())
            }
            Err(error) => {
                self.properties = Vec::new();
                self.rules.isolate = Isolate::Off;
                Err(error)
            }
        }
    }

    /// Takes the neighbors' states. They are not read before they are needed.
    pub(super) fn set_surroundings(&mut self, surroundings: Surroundings) {
        self.memory.clear();
        if let Some(speculator) = &mut self.speculator {
            speculator.set_surroundings(&surroundings);
        }
        self.known = Some(Known {
            since: Instant::now(),
            cut: Cut::of(&surroundings),
            raw: surroundings,
            neighbors: None,
        });
    }

    /// Forgets neighbors' states that are too old to say anything, and tells whether there were any.
    pub(super) fn retire_stale(&mut self) -> bool {
        let max = Duration::from_millis(self.rules.surroundings_age_ms_max);
        let stale = self
            .known
            .as_ref()
            .is_some_and(|known| !known.raw.neighbors.is_empty() && known.since.elapsed() > max);
        if stale {
            let number = self.known.as_ref().map(|known| known.raw.number);
            self.set_surroundings(Surroundings {
                number: number.unwrap_or_default(),
                answers: None,
                neighbors: Vec::new(),
            });
        }
        stale
    }

    /// Tells whether there is anything to try events for.
    pub(super) fn is_idle(&self) -> bool {
        self.rules.isolate == Isolate::Off || self.properties.is_empty()
    }

    pub(super) fn properties(&self) -> &[Property<S>] {
        &self.properties
    }

    /// Tells whether any property looks at more than one node.
    pub(super) fn looks_at_neighbors(&self) -> bool {
        let several = |property: &Property<S>| !matches!(property.shape(), Shape::Node(_));
        self.properties.iter().any(several)
    }

    /// Says how far each neighbor's known state can be relied on beside a state with this past.
    pub(super) fn standing(&self, past: &Past) -> Vec<Standing> {
        let known = self.known.as_ref();
        known.map_or_else(Vec::new, |known| known.cut.standing(past))
    }

    /// Tells whether a neighbor's state was the same in what was known before and in `surroundings`.
    pub(super) fn is_unchanged(&self, node: NodeId, surroundings: &Surroundings) -> bool {
        let body = |surroundings: &Surroundings| {
            let found = surroundings.neighbors.iter().find(|n| n.node == node);
            found.and_then(|neighbor| neighbor.body.read().ok())
        };
        let before = self.known.as_ref().and_then(|known| body(&known.raw));
        match (before, body(surroundings)) {
            (Some(before), Some(after)) => {
                before.state == after.state && before.timers == after.timers
            }
            _ => false,
        }
    }

    /// Returns the process id of the speculator, if one runs.
    pub(super) fn speculator_id(&self) -> Option<u32> {
        self.speculator.as_ref()?.process_id()
    }

    /// Tries an event. What could not be read of the neighbors is added to `unreadable`.
    pub(super) fn attempt(
        &mut self,
        how: Isolate,
        case: &Case<'_, S>,
        unreadable: &mut Vec<String>,
    ) -> Tried<S> {
        let key = Memory::key(case.local, case.input, &case.standing);
        if how != Isolate::Clone
            && let Some(verdict) = self.memory.recall(key)
        {
            return Ok((verdict, None));
        }
        let deadline = Duration::from_millis(self.rules.deadline_ms);
        let answer = match how {
            Isolate::Clone => return Ok(self.on_clone(case, unreadable)),
            Isolate::Fork => {
                self.read_neighbors(unreadable);
                let mut forker = std::mem::take(&mut self.forker);
                let trial = self.trial(case);
                let answer =
                    forker.run(deadline, || trial.run(case.local, case.input, case.dice).0);
                self.forker = forker;
                answer
            }
            _ => self.ask_speculator(deadline, case),
        };
        match answer {
            Ok(verdict) => {
                if verdict.asked == 0 {
                    self.memory.remember(key, verdict.clone());
                }
                Ok((verdict, None))
            }
            Err(error) => Err(error.into_parts()),
        }
    }

    fn on_clone(
        &mut self,
        case: &Case<'_, S>,
        unreadable: &mut Vec<String>,
    ) -> (Verdict, Option<Performed<S>>) {
        self.read_neighbors(unreadable);
        self.trial(case).run(case.local, case.input, case.dice)
    }

    /// Judges what a step that is not tried here would break, by the neighbors' states as they are read in this process.
    pub(super) fn judge(
        &mut self,
        case: &Case<'_, S>,
        after: &Local<S>,
        unreadable: &mut Vec<String>,
    ) -> Verdict {
        self.read_neighbors(unreadable);
        self.trial(case).judge(case.local, after)
    }

    /// Judges what a peer breaks when it learns that its connection with this node is gone; `None` if it fails at it.
    pub(super) fn judge_at_peer(&mut self, peer: NodeId, case: &Case<'_, S>) -> Option<Verdict> {
        self.read_neighbors(&mut Vec::new());
        let neighbors = self
            .known
            .as_mut()
            .and_then(|known| known.neighbors.as_mut());
        let Some(neighbors) = neighbors else {
            return Some(Verdict::default());
        };
        let Some(at) = neighbors.iter().position(|neighbor| neighbor.node == peer) else {
            return Some(Verdict::default());
        };
        // For the time of the question the peer is the node, and this node one of its neighbors.
        let mine = Neighbor {
            node: self.me,
            setup: case.setup.clone(),
            local: case.local.clone(),
        };
        let theirs = std::mem::replace(&mut neighbors[at], mine);
        let mut standing = case.standing.clone();
        for standing in standing.iter_mut().filter(|standing| standing.node == peer) {
            standing.node = self.me;
        }
        let trial = Trial {
            me: peer,
            setup: &theirs.setup,
            properties: &self.properties,
            neighbors,
            standing: &standing,
        };
        let input = Input::Disconnect(self.me);
        let (verdict, performed) = trial.run(&theirs.local, &input, case.dice);
        neighbors[at] = theirs;
        performed.map(|_| verdict)
    }

    /// Returns the neighbors' states as they were told.
    pub(super) fn surroundings(&self) -> Option<&Surroundings> {
        self.known.as_ref().map(|known| &known.raw)
    }

    fn trial<'a>(&'a self, case: &'a Case<'a, S>) -> Trial<'a, S> {
        let neighbors = self
            .known
            .as_ref()
            .and_then(|known| known.neighbors.as_deref());
        Trial {
            me: self.me,
            setup: case.setup,
            properties: &self.properties,
            neighbors: neighbors.unwrap_or_default(),
            standing: &case.standing,
        }
    }

    fn read_neighbors(&mut self, unreadable: &mut Vec<String>) {
        let Some(known) = self
            .known
            .as_mut()
            .filter(|known| known.neighbors.is_none())
        else {
            return;
        };
        let (neighbors, errors) = trial::neighbors(&known.raw);
        known.neighbors = Some(neighbors);
        unreadable.extend(errors);
    }

    fn ask_speculator(
        &mut self,
        deadline: Duration,
        case: &Case<'_, S>,
    ) -> Result<Verdict, crate::safety::child::CheckError> {
        let raw = self.known.as_ref().map(|known| &known.raw);
        let executable = &self.executable;
        let speculator = self
            .speculator
            .get_or_insert_with(|| Speculator::new(executable.clone()));
        let question = speculator::Question {
            me: self.me,
            setup: case.setup,
            local: case.local,
            input: case.input,
            dice: case.dice,
            standing: &case.standing,
        };
        speculator.ask(deadline, &question, &self.rules.properties, raw)
    }
}
