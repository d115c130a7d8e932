//! What trials are made with, and the ways to make one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use scry_protocol::link::host::{CheckSettings, Failure, Isolate, Surroundings};
use scry_protocol::{NodeId, Past};

use crate::blame;
use crate::safety::child::{CheckError, Forker, unanswered};
use crate::safety::memory::Memory;
use crate::safety::speculator::{Ground, Question, Speculator, Told};
use crate::safety::trial::{How, Spot, Trial, Trouble, Verdict, What, looks_at_neighbors};
use crate::safety::vetting::{Neighbors, Troubles, Vetting, without};
use scry_checkpoint::cut::{Cut, Standing};
use scry_engine::context::Dice;
use scry_engine::model::event::InputOf;
use scry_engine::model::handler::Local;
use scry_engine::model::live::Performed;
use scry_engine::property::Property;
use scry_engine::service::Service;

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
    pub(super) rules: CheckSettings,
    properties: Vec<Property<S>>,
    known: Option<Known<S>>,
    speculator: Option<Speculator>,
    forker: Forker,
    memory: Memory,
    vetting: Vetting,
    /// What is left alone for a while.
    troubles: Troubles,
    /// What was not told yet.
    untold: Vec<Trouble>,
    /// How often neighbors' states came.
    known_count: u64,
    /// Whether trials by these rules were made on a clone.
    has_cloned: bool,
}

/// The neighbors' last known states.
struct Known<S: Service> {
    since: Instant,
    cut: Cut,
    raw: Surroundings,
    /// Whether they were tried where they can do no harm: not before then are they read here.
    vetted: bool,
    /// Whether a speculator was asked to try them.
    asked: bool,
    /// What was not tried, or is bad: it is not read here, also when it may be tried again.
    left_out: Vec<Spot>,
    /// As values, once a trial in this process needs them.
    neighbors: Option<Neighbors<S>>,
}

impl<S: Service> Known<S> {
    fn leave_out(&mut self, troubles: &[Trouble]) {
        self.left_out
            .extend(troubles.iter().map(|trouble| trouble.spot));
    }
}

impl<S: Service> Trials<S> {
    /// Makes none until it gets rules.
    pub(super) fn new(me: NodeId, executable: Option<PathBuf>) -> Self {
        Self {
            me,
            executable,
            rules: CheckSettings {
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
            vetting: Vetting::default(),
            troubles: Troubles::default(),
            untold: Vec::new(),
            known_count: 0,
            has_cloned: false,
        }
    }

    /// Takes rules. If they do not fit the service, nothing is tried until better ones come.
    pub(super) fn set_rules(&mut self, rules: CheckSettings) -> Result<(), String> {
        self.memory.clear();
        self.has_cloned = false;
        self.speculator = None;
        // What is wrong is known by the positions of properties, which may be others now.
        self.troubles.clear();
        self.vetting.clear();
        if let Some(known) = &mut self.known {
            (known.vetted, known.asked, known.neighbors) = (false, false, None);
        }
        if rules.isolate != Isolate::Off {
            // Without it, whatever a trial's process dies of counts as the handler's doing.
            let _ = blame::share_with_children();
        }
        match scry_properties::from_text::<S>(&rules.properties) {
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
            // What it found wrong with the last ones is not to cost it the same time again.
            speculator.listen();
        }
        self.note_vetted();
        self.known_count += 1;
        let left_out = self.troubles.present(Instant::now());
        if let Some(speculator) = &mut self.speculator {
            speculator.set_surroundings(told(self.known_count, &surroundings, &left_out));
        }
        self.known = Some(Known {
            since: Instant::now(),
            cut: Cut::of(&surroundings),
            raw: surroundings,
            vetted: false,
            asked: false,
            left_out,
            neighbors: None,
        });
    }

    /// Tells, once for each time that neighbors' states came, whether nobody has tried them yet who is to.
    pub(super) fn awaits_vetting(&mut self) -> bool {
        let by_speculator = self.rules.isolate == Isolate::Speculator && self.looks_at_neighbors();
        self.known.as_mut().is_some_and(|known| {
            by_speculator
                && !known.raw.neighbors.is_empty()
                && !known.vetted
                && !std::mem::replace(&mut known.asked, true)
        })
    }

    /// Returns what went wrong with a state, each time until it is left alone.
    pub(super) fn take_troubles(&mut self) -> Vec<Trouble> {
        std::mem::take(&mut self.untold)
    }

    fn note_troubles(&mut self, troubles: Vec<Trouble>) {
        for trouble in troubles {
            // What ended by itself on the node's own state costs little and says nothing about the next.
            let foreign = trouble.spot.node.is_some_and(|node| node != self.me);
            let untouched = foreign || matches!(trouble.how, How::Dies | How::Late);
            if self.troubles.note(Instant::now(), trouble.spot, untouched) {
                self.memory.clear();
                self.untold.push(trouble);
            }
        }
    }

    /// Forgets neighbors' states that are too old to say anything, and tells whether there were any.
    pub(super) fn retire_stale(&mut self, now: Instant) -> bool {
        let max = Duration::from_millis(self.rules.surroundings_age_ms_max);
        let stale = self.known.as_ref().is_some_and(|known| {
            !known.raw.neighbors.is_empty() && now.saturating_duration_since(known.since) > max
        });
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
        looks_at_neighbors(&self.properties)
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

    /// Tries an event.
    pub(super) fn attempt(&mut self, how: Isolate, case: &Case<'_, S>, now: Instant) -> Tried<S> {
        let mut how = how;
        // A clone is tried in less time than it takes to remember it.
        let apart = how != Isolate::Clone;
        let key = apart.then(|| Memory::key(case.local, case.input, &case.standing));
        if let Some(verdict) = key.and_then(|key| self.memory.recall(key)) {
            return Ok((verdict, None));
        }
        let (answer, performed) = match how {
            Isolate::Clone => self.run_on_clone(case, now),
            Isolate::Fork => {
                self.read_neighbors();
                let run = |trial: &Trial<'_, S>| trial.run(case.local, case.input, case.dice).0;
                (self.fork(case, run), None)
            }
            _ => match self.ask_speculator(case, What::Event) {
                // Nobody has said anything against the event, which is about to run here anyhow, and by the same properties
                // others were tried here.
                Err(CheckError::Unheard(_)) if self.has_cloned => {
                    how = Isolate::Clone;
                    self.run_on_clone(case, now)
                }
                answer => (answer, None),
            },
        };
        match answer {
            Ok(mut verdict) => {
                let unjudged = std::mem::take(&mut verdict.unjudged);
                if let Some(key) = key.filter(|_| how != Isolate::Clone)
                    && verdict.asked == 0
                    && unjudged.is_empty()
                {
                    self.memory.remember(key, verdict.clone());
                }
                self.note_troubles(unjudged);
                Ok((verdict, performed))
            }
            Err(error) => Err(error.into_parts()),
        }
    }

    /// Says what would break at once if something else were done than to handle the event. Neither this node's handlers nor
    /// another's states run in this process for that.
    pub(super) fn consider(
        &mut self,
        case: &Case<'_, S>,
        what: What,
    ) -> Result<Verdict, (Failure, String)> {
        let answer = match self.rules.isolate {
            Isolate::Speculator => self.ask_speculator(case, what),
            _ => {
                self.read_neighbors();
                self.fork(case, |trial| {
                    trial.answer(what, case.local, case.input, case.dice)
                })
            }
        };
        answer.map_err(CheckError::into_parts)
    }

    fn run_on_clone(
        &mut self,
        case: &Case<'_, S>,
        now: Instant,
    ) -> (Result<Verdict, CheckError>, Option<Performed<S>>) {
        self.hear_vetted();
        self.read_neighbors();
        let bad = self.untouchable(now);
        let trial = self.trial(case, &bad);
        let (verdict, performed) = trial.run(case.local, case.input, case.dice);
        self.has_cloned = true;
        (Ok(verdict), performed)
    }

    /// Runs a trial in a process forked off this one.
    fn fork(
        &mut self,
        case: &Case<'_, S>,
        run: impl Fn(&Trial<'_, S>) -> Verdict,
    ) -> Result<Verdict, CheckError> {
        let deadline = Duration::from_millis(self.rules.deadline_ms);
        let mut forker = std::mem::take(&mut self.forker);
        let bad = self.untouchable(Instant::now());
        let trial = self.trial(case, &bad);
        let answer = forker.run_trial(deadline, &mut || run(&trial));
        drop(trial);
        self.forker = forker;
        let blamed = blame::take();
        answer.or_else(|error| unanswered(error, blamed))
    }

    /// Returns the neighbors' states as they were told.
    pub(super) fn surroundings(&self) -> Option<&Surroundings> {
        self.known.as_ref().map(|known| &known.raw)
    }

    /// Lists what must not be touched: what is left alone now, and of the neighbors' states everything that was not tried, also
    /// when it may be tried again. That is for a process of its own, with the next states.
    fn untouchable(&self, now: Instant) -> Vec<Spot> {
        let mut bad = self.troubles.present(now);
        if let Some(known) = &self.known {
            bad.extend(&known.left_out);
        }
        bad
    }

    fn trial<'a>(&'a self, case: &'a Case<'a, S>, bad: &'a [Spot]) -> Trial<'a, S> {
        let known = self.known.as_ref();
        let neighbors = known.and_then(|known| known.neighbors.as_ref());
        Trial {
            me: self.me,
            setup: case.setup,
            properties: &self.properties,
            neighbors: neighbors.map_or_else(Vec::new, Neighbors::all),
            standing: &case.standing,
            bad,
        }
    }

    /// Makes values of the neighbors' states, if a property needs them and they were tried elsewhere before.
    fn read_neighbors(&mut self) {
        let looks = self.looks_at_neighbors();
        let Some(known) = self
            .known
            .as_mut()
            .filter(|known| looks && known.neighbors.is_none())
        else {
            return;
        };
        let mut found = Vec::new();
        if !known.vetted && self.rules.isolate != Isolate::Speculator {
            let limit = Duration::from_millis(self.rules.deadline_ms);
            let wanted = without(&known.raw, &known.left_out);
            found = self
                .vetting
                .vet(&wanted, &self.properties, limit, &known.left_out);
            known.leave_out(&found);
            known.vetted = true;
        }
        if known.vetted {
            let wanted = without(&known.raw, &known.left_out);
            known.neighbors = Some(Neighbors::read(&wanted));
        }
        self.note_troubles(found);
    }

    fn ask_speculator(&mut self, case: &Case<'_, S>, what: What) -> Result<Verdict, CheckError> {
        let bad = self.troubles.present(Instant::now());
        let count = self.known_count;
        let known = self.known.as_ref();
        let rules = &self.rules.properties;
        let ground = || Ground {
            rules,
            surroundings: known.map(|known| told(count, &known.raw, &known.left_out)),
        };
        let executable = &self.executable;
        let speculator = self
            .speculator
            .get_or_insert_with(|| Speculator::new(executable.clone()));
        let question = Question {
            me: self.me,
            setup: case.setup,
            local: case.local,
            input: case.input,
            dice: case.dice,
            standing: &case.standing,
            bad,
            what,
        };
        let deadline = Duration::from_millis(self.rules.deadline_ms);
        let answer = speculator.ask(deadline, &question, ground);
        self.note_vetted();
        answer
    }

    /// Hears whether the speculator has tried the neighbors' states meanwhile, if that is awaited.
    fn hear_vetted(&mut self) {
        let awaited = self.known.as_ref().is_some_and(|known| !known.vetted);
        if awaited
            && self.looks_at_neighbors()
            && let Some(speculator) = &mut self.speculator
        {
            speculator.listen();
            self.note_vetted();
        }
    }

    /// Takes note of what the speculator found in the neighbors' states.
    fn note_vetted(&mut self) {
        let Some(speculator) = &mut self.speculator else {
            return;
        };
        let (vetted, troubles) = speculator.take_troubles();
        if let Some(known) = &mut self.known {
            // Of states before these it says what to be careful with, too.
            known.leave_out(&troubles);
            known.vetted |= vetted == self.known_count;
        }
        self.note_troubles(troubles);
    }
}

fn told(count: u64, surroundings: &Surroundings, left_out: &[Spot]) -> Told {
    Told {
        count,
        surroundings: without(surroundings, left_out),
        left_out: left_out.to_vec(),
    }
}
