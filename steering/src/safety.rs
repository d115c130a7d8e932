//! The immediate safety check: before a handler runs, a copy of the node tries it, and an event that would break a
//! property does not reach the handler (A-109…A-114).
//!
//! It is the second line behind prediction: it needs no search, only the node's own next state and what is known of its
//! neighbors. What is known is mostly out of date, and a correct service must not pay for that. So:
//!
//! - A neighbor's known state counts only if it may stand beside the node's own ([`cut`](scry_checkpoint::cut)).
//! - What breaks a property together with neighbors is a *suspicion*: the event is held, the neighbors are asked for their
//!   present states, and with those it is judged again and runs or is refused.
//! - A refusal needs states that were all there at one moment, and must itself lead to nothing worse.
//! - In audit nothing waits: a thread beside the event path looks at what it can. In steer the time that is waited is
//!   bounded as a share.
//!
//! | module | what it holds |
//! |---|---|
//! | `trial` | the handler on a copy, and the properties on what comes of it |
//! | `trials` | the ways to make one ([`Isolate`]), and what it is made with |
//! | `share`, `patience`, `limit` | how much time may be spent, how much held, how much refused |
//! | `auditor` | trials beside the event path |
//! | `memory` | verdicts that need not be asked for again |
//! | `vetting` | neighbors' states, tried where they can do no harm before they are worked with |
//! | `child` | a trial in a forked process, with a deadline |
//! | `speculator` | the small process that forks in the host's place, ahead of the question |
//!
//! Whatever fails, the event runs: a check that is late, gone or unreadable protects nothing, and harms nothing either.

mod auditor;
mod child;
mod limit;
mod memory;
mod patience;
mod share;
mod speculator;
mod trial;
mod trials;
mod vetting;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use scry_protocol::filter::Mode;
use scry_protocol::link::host::{CheckSettings, Failure, Isolate, Outcome, Surroundings, Veto};
use scry_protocol::{NodeId, Times, Transport};

use crate::hook::{Request, kind_of};
use crate::runtime::guard::{Asked, Examined, Guard, Meanwhile, Notice, Refusal, Reviewed, Scene};
use crate::safety::auditor::{Audited, Auditor, Copied, TRIAL_MAX};
use crate::safety::limit::{Allowance, VetoCounts};
use crate::safety::patience::Patience;
use crate::safety::share::{Begun, Share, Watch};
use crate::safety::trial::{Accusation, How, Trouble, Verdict, What};
use crate::safety::trials::{Case, Trials, Tried};
use scry_checkpoint::Time;
use scry_engine::model::event::Input;
use scry_engine::model::handler::Local;
use scry_engine::model::live::Performed;
use scry_engine::panics::caught;
use scry_engine::panics::in_silence;
use scry_engine::property::{Projection, Property, Shape, View};
use scry_engine::service::Service;

pub use limit::VetoLimits;
pub use speculator::serve;

/// How many notices wait for the agent before the oldest go.
const NOTICES_MAX: usize = 256;
/// That events are tried on a clone to save time is said after so many.
const CLONES_TOLD: u64 = 1_000;
/// That the share of time is used up is said again after so long.
const SHARE_TOLD_MS: u64 = 60_000;
/// So many connections are thought of whose end could make an event harmless.
const WAYS_OUT_MAX: usize = 16;
/// How many threads of the audit may be given up before there is no audit any more, and how long after one of them another is
/// started.
const STUCK_MAX: u32 = 3;
const STUCK_PAUSE: Duration = Duration::from_secs(60);

/// Tries handlers before they run.
pub struct SafetyCheck<S: Service> {
    me: NodeId,
    executable: Option<PathBuf>,
    trials: Trials<S>,
    auditor: Option<Auditor<S>>,
    /// How many of its threads were given up, and before when there is no other.
    stuck_count: u32,
    stuck_until: Option<Instant>,
    /// Whether any property may stop an event, if the mode allows it: known before each event.
    acts: bool,
    share: Share,
    patience: Patience,
    vetoes: VetoCounts,
    /// Since when neighbors are known to be in the states they were last told in.
    unchanged: BTreeMap<NodeId, Instant>,
    /// Those of them that were heard the last time.
    present: BTreeSet<NodeId>,
    unchecked_count: u64,
    /// Whether it was said that the neighbors' states are too old.
    stale_told: bool,
    /// How many events were tried on a clone to save time.
    clones_count: u64,
    /// When it was last said that the share of time is used up.
    share_told: Option<Time>,
    /// The properties of which it was said that a judgement was cut off.
    cut_off_told: BTreeSet<String>,
    notices: VecDeque<Notice>,
}

impl<S: Service> SafetyCheck<S> {
    /// Makes a check that passes everything until it gets rules.
    ///
    /// `executable` is started as the speculator; this process's own by default.
    pub fn new(me: NodeId, executable: Option<PathBuf>) -> Self {
        Self {
            me,
            trials: Trials::new(me, executable.clone()),
            executable,
            auditor: None,
            stuck_count: 0,
            stuck_until: None,
            acts: false,
            share: Share::default(),
            patience: Patience::default(),
            vetoes: VetoCounts::default(),
            unchanged: BTreeMap::new(),
            present: BTreeSet::new(),
            unchecked_count: 0,
            stale_told: false,
            clones_count: 0,
            share_told: None,
            cut_off_told: BTreeSet::new(),
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
    pub fn set_rules(&mut self, rules: CheckSettings) {
        self.share.set(rules.time_share_per_mille);
        self.cut_off_told.clear();
        if let Some(auditor) = &self.auditor {
            auditor.set_rules(rules.clone());
        }
        if let Err(error) = self.trials.set_rules(rules) {
            self.fail(Failure::RulesUnfit, error);
        }
        let mut properties = self.trials.properties().iter();
        self.acts = properties.any(|p| self.mode_of(p.name(), Mode::Steer) == Mode::Steer);
    }

    /// Takes the neighbors' states.
    pub fn set_surroundings(&mut self, surroundings: Surroundings) {
        self.stale_told = false;
        let now = Instant::now();
        let present = surroundings.neighbors.iter().filter(|it| it.present);
        self.present = present.map(|neighbor| neighbor.node).collect();
        let neighbors = surroundings.neighbors.iter().map(|neighbor| neighbor.node);
        self.unchanged = neighbors
            .map(|node| {
                let before = self.unchanged.get(&node).copied();
                let same = self.trials.is_unchanged(node, &surroundings);
                (node, before.filter(|_| same).unwrap_or(now))
            })
            .collect();
        if let Some(auditor) = &self.auditor {
            auditor.set_surroundings(surroundings.clone());
        }
        self.trials.set_surroundings(surroundings);
    }

    /// Returns the process id of the speculator, if one runs.
    pub fn speculator_id(&self) -> Option<u32> {
        self.trials.speculator_id()
    }

    /// Has an event looked at beside its way to the handler, if there is time for it.
    fn look_on(&mut self, scene: &Scene<'_, S>) {
        if self.auditor.is_none() {
            self.start_auditor();
        }
        self.give_up_stuck();
        match &self.auditor {
            Some(auditor) if auditor.is_free() => auditor.attempt(Copied {
                passed_over: self.unchecked_count,
                setup: scene.setup.clone(),
                local: scene.local.clone(),
                input: scene.input.clone(),
                dice: scene.dice,
                standing: self.trials.standing(scene.past),
            }),
            _ => self.unchecked_count += 1,
        }
    }

    /// Gives up an audit that does not come back from an event.
    fn give_up_stuck(&mut self) {
        let Some(auditor) = self.auditor.take_if(|auditor| auditor.is_stuck(TRIAL_MAX)) else {
            return;
        };
        auditor.give_up();
        self.stuck_count += 1;
        self.stuck_until = Some(Instant::now() + STUCK_PAUSE * self.stuck_count);
        let rest = match self.stuck_count < STUCK_MAX {
            true => "another is started later",
            false => "there is no more audit until the service is started anew",
        };
        let detail = format!("a thread of the audit did not come back from an event; {rest}");
        self.fail(Failure::CheckLate, detail);
    }

    #[cold]
    fn start_auditor(&mut self) {
        let resting = self.stuck_until.is_some_and(|until| Instant::now() < until);
        if resting || self.stuck_count >= STUCK_MAX {
            return;
        }
        match Auditor::start(self.me, self.executable.clone()) {
            Ok(auditor) => {
                auditor.set_rules(self.trials.rules.clone());
                if let Some(surroundings) = self.trials.surroundings() {
                    auditor.set_surroundings(surroundings.clone());
                }
                self.auditor = Some(auditor);
            }
            Err(error) => self.fail(Failure::ForkFailed, format!("no thread: {error}")),
        }
    }

    fn note_audited(&mut self, audited: Audited) {
        self.tell_troubles(audited.troubles);
        match audited.verdict {
            Err((failure, detail)) => self.fail(failure, detail),
            Ok(verdict) => {
                for accusation in verdict.accusations {
                    if accusation.firm
                        && self.mode_of(&accusation.property, Mode::Audit) > Mode::Off
                    {
                        self.would_veto(accusation, audited.event.clone(), audited.elapsed_us);
                    }
                }
            }
        }
    }

    /// Tries an event in its way, within the share of time; `None` if it may not be tried, or could not be.
    fn attempt(&mut self, scene: &Scene<'_, S>, decisive: bool) -> Option<Tried<S>> {
        if self.trials.retire_stale(scene.at) && !std::mem::replace(&mut self.stale_told, true) {
            let detail = "nothing was heard of them for too long".to_owned();
            self.fail(Failure::SurroundingsStale, detail);
        }
        let wanted = self.trials.rules.isolate;
        self.share.earn(scene.now);
        let how = self.share.allows(wanted);
        match how {
            Some(how) if how == wanted => {}
            Some(_) => self.tell_clones(),
            None => self.tell_share(scene.now),
        }
        // What is decided must be tried, has been held long enough, and needs the neighbors' newest states. These may not be read
        // here before they were tried elsewhere, so one event after they came is tried there too.
        let apart = decisive || self.trials.awaits_vetting();
        // What was found guilty before does not run because time is short.
        let again = scene.again.then_some(Isolate::Clone);
        let how = if apart { Some(wanted) } else { how.or(again) };
        let Some(how) = how else {
            self.unchecked_count += 1;
            return None;
        };
        let case = Case {
            setup: scene.setup,
            local: scene.local,
            input: scene.input,
            dice: scene.dice,
            standing: self.trials.standing(scene.past),
        };
        let begun = self.share.begin_trial(how, scene.at);
        let tried = self.trials.attempt(how, &case, scene.at);
        self.share.spend_on_trial(how, begun.took());
        let troubles = self.trials.take_troubles();
        self.tell_troubles(troubles);
        Some(tried)
    }

    /// Looks at the node with those properties that look at several, within the time there is for that.
    #[inline]
    fn watch<R>(
        &mut self,
        now: Time,
        look: impl FnOnce(&mut dyn Iterator<Item = &Property<S>>, NodeId) -> R,
    ) -> Option<R> {
        self.share.earn(now);
        let begun = match self.share.watch() {
            Watch::Not => return None,
            Watch::Unmeasured => None,
            Watch::Measured => Some(Begun::now()),
        };
        let all = self.trials.properties().iter();
        let mut properties = all.filter(|it| !matches!(it.shape(), Shape::Node(_)));
        let read = in_silence(|| caught(|| look(&mut properties, self.me)));
        if let Some(begun) = begun {
            self.share.learn_watch(begun.took());
        }
        read.ok()
    }

    /// Tells whether the neighbors could say more about a suspected event that is not proved guilty.
    fn is_worth_asking_again(&self, scene: &Scene<'_, S>, accused: &[Accusation]) -> bool {
        // Neighbors that answered and have moved on since can be asked again. Silent ones are not, unless nobody waits: the
        // news of a lost connection often concerns a node that is about to come up. As long as that one is silent, what
        // others say clears nothing: with its last known state, the same may be wrong before the event as after it.
        if let Input::Disconnect(peer) = scene.input {
            let silent = self.unchanged.contains_key(peer) && !self.present.contains(peer);
            return silent || !accused.is_empty();
        }
        let present = |it: &Accusation| it.witnesses.iter().all(|it| self.present.contains(it));
        accused.iter().any(present)
    }

    /// Decides what a verdict means for an event that has not run.
    fn weigh(&mut self, scene: &Scene<'_, S>, verdict: Verdict, began: Instant) -> Weighed {
        let mut weighed = Weighed::Nothing;
        for accusation in verdict.accusations {
            match self.mode_of(&accusation.property, scene.mode) {
                Mode::Off => {}
                Mode::Audit if accusation.firm => {
                    let elapsed_us = began.elapsed().as_micros() as u64;
                    self.would_veto(accusation, format!("{:?}", scene.input), elapsed_us);
                }
                Mode::Audit => {}
                // It is stopped for the first property that it breaks by itself; that it breaks others is told.
                Mode::Steer if matches!(weighed, Weighed::Guilty(_)) => {
                    if accusation.firm {
                        let elapsed_us = began.elapsed().as_micros() as u64;
                        self.would_veto(accusation, format!("{:?}", scene.input), elapsed_us);
                    }
                }
                Mode::Steer if accusation.witnesses.is_empty() => {
                    weighed = Weighed::Guilty(accusation);
                }
                Mode::Steer => {
                    let credible = accusation.firm
                        || self
                            .patience
                            .follows_up(&accusation.property, &kind(scene.input));
                    if credible && matches!(weighed, Weighed::Nothing) {
                        weighed = Weighed::Suspect(accusation.property);
                    }
                }
            }
        }
        match weighed {
            Weighed::Nothing => self.look_where_one_was_guilty(scene),
            weighed => weighed,
        }
    }

    /// Suspects an event that seems harmless if one of its kind was refused lately.
    fn look_where_one_was_guilty(&self, scene: &Scene<'_, S>) -> Weighed {
        if self.patience.knows_none_guilty() {
            return Weighed::Nothing;
        }
        let guilty = self.patience.was_guilty(scene.at, &kind(scene.input));
        let steered = guilty.filter(|it| self.mode_of(it, scene.mode) == Mode::Steer);
        steered.map_or(Weighed::Nothing, |it| Weighed::Suspect(it.to_owned()))
    }

    /// Tries an event that was held, and returns what it may be stopped for, with what comes of it if that was found out here.
    fn retry(&mut self, scene: &Scene<'_, S>) -> Result<Retried<S>, (Failure, String)> {
        let Some(tried) = self.attempt(scene, true) else {
            return Ok((Vec::new(), None));
        };
        let (verdict, performed) = tried?;
        let steered = |it: &Accusation| self.mode_of(&it.property, scene.mode) == Mode::Steer;
        let accused = verdict.accusations.into_iter().filter(steered).collect();
        Ok((accused, performed))
    }

    /// Tells whether there was a moment at which the node, with the event handled, and all witnesses were as they were judged.
    ///
    /// A node that did nothing since it asked is as it was when a single witness answered. Otherwise each witness must have
    /// been the same before it was asked as in its answer: it then was so at the moment of asking, too.
    fn were_together(&self, accusation: &Accusation, asked: &Asked<'_, S>) -> bool {
        let idle = matches!(asked.meanwhile, Meanwhile::Idle);
        let mut witnesses = accusation.witnesses.iter();
        let since = |node| self.unchanged.get(node);
        (idle && witnesses.len() <= 1)
            || witnesses.all(|node| since(node).is_some_and(|since| *since <= asked.at))
    }

    /// Tells whether to keep the event from its handler would break something at once: on a connection that means to
    /// break it, which both ends are told of.
    fn refusal_breaks(&mut self, scene: &Scene<'_, S>) -> bool {
        let Input::Message { from, message } = scene.input else {
            return false;
        };
        if S::transport(message) != Transport::Stream {
            return false;
        }
        // If nobody knows what it would do, it is not done.
        !self.is_harmless(scene, What::Refusal(*from))
    }

    /// Tells whether something else than to handle the event is known to break nothing.
    fn is_harmless(&mut self, scene: &Scene<'_, S>, what: What) -> bool {
        let case = Case {
            setup: scene.setup,
            local: scene.local,
            input: scene.input,
            dice: scene.dice,
            standing: self.trials.standing(scene.past),
        };
        match self.trials.consider(&case, what) {
            Ok(verdict) => !verdict.accusations.iter().any(|accusation| accusation.firm),
            Err((failure, detail)) => {
                self.fail(failure, detail);
                false
            }
        }
    }

    fn mode_of(&self, property: &str, mode: Mode) -> Mode {
        let own = self.trials.rules.modes.iter();
        let own = own.into_iter().find(|own| own.property == property);
        own.map_or(mode, |own| own.mode.min(mode))
    }

    /// Counts a veto that is about to happen, unless there were too many.
    fn may_veto(&mut self, scene: &Scene<'_, S>, property: &str) -> bool {
        let allowed = match scene.again {
            true => self.vetoes.allow_again(Instant::now(), property),
            false => self.vetoes.allow(Instant::now(), property),
        };
        if allowed == Allowance::Disarmed {
            self.fail(Failure::VetoesDisarmed, property.to_owned());
        }
        allowed == Allowance::Veto
    }

    fn would_veto(&mut self, accusation: Accusation, event: String, elapsed_us: u64) {
        self.notice(Notice::WouldVeto(Veto {
            property: accusation.property,
            event,
            explanation: accusation.explanation,
            acted: false,
            elapsed_us,
        }));
    }

    /// Tells what cannot be judged or read, and is left alone for a while.
    fn tell_troubles(&mut self, troubles: Vec<Trouble>) {
        for Trouble { spot, how, said } in troubles {
            let whose = match spot.node {
                None => "the states of several nodes".to_owned(),
                Some(node) => format!("the state of {node}"),
            };
            let property = spot.property.map(|property| {
                let properties = self.trials.properties();
                let property = usize::try_from(property)
                    .ok()
                    .and_then(|at| properties.get(at));
                property.map_or("a property", Property::name).to_owned()
            });
            let (failure, detail) = match (property, how) {
                (None, _) => (Failure::SurroundingsUnreadable, format!("{whose}: {said}")),
                (Some(name), How::CutOff) => {
                    // Once for each: most events would say it again.
                    if !self.cut_off_told.insert(name.clone()) {
                        continue;
                    }
                    (Failure::JudgementCutOff, format!("{name}: {said}"))
                }
                (Some(name), How::Late) => {
                    (Failure::PropertyLate, format!("{name}: on {whose}: {said}"))
                }
                (Some(name), How::Panics | How::Dies) => (
                    Failure::PropertyPanicked,
                    format!("{name}: on {whose}: {said}"),
                ),
            };
            self.fail(failure, detail);
        }
    }

    /// Says once that events are tried on a clone, when that is no passing thing: it goes on for as long as the service or the
    /// machine is busy, and nothing runs untried.
    fn tell_clones(&mut self) {
        self.clones_count += 1;
        if self.clones_count == CLONES_TOLD {
            let share = self.trials.rules.time_share_per_mille;
            let detail = format!(
                "trials in another process are slow, or take more than a sixth of {share} thousandths of the time: \
                 many events are tried on a clone instead"
            );
            self.fail(Failure::CheckOverShare, detail);
        }
    }

    fn tell_share(&mut self, now: Time) {
        let recently = |told: Time| now.millis_since(told) < SHARE_TOLD_MS;
        if !self.share_told.is_some_and(recently) {
            self.share_told = Some(now);
            let share = self.trials.rules.time_share_per_mille;
            let detail =
                format!("{share} thousandths of the time are used up: some events run untried");
            self.fail(Failure::CheckOverShare, detail);
        }
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

/// What a held event is accused of, and what comes of it.
type Retried<S> = (Vec<Accusation>, Option<Performed<S>>);

/// What a verdict means for an event.
enum Weighed {
    Nothing,
    /// The node breaks a property by itself: no neighbor could say anything to its defence.
    Guilty(Accusation),
    /// It may break this property.
    Suspect(String),
}

impl<S: Service> Guard<S> for SafetyCheck<S> {
    fn examine(&mut self, scene: &Scene<'_, S>) -> Examined<S> {
        if scene.mode == Mode::Off || self.trials.is_idle() {
            return Examined::Pass(None);
        }
        if scene.mode < Mode::Steer || !self.acts {
            self.look_on(scene);
            return Examined::Pass(None);
        }
        let (verdict, performed) = match self.attempt(scene, false) {
            Some(Ok(tried)) => tried,
            Some(Err((failure, detail))) => {
                self.fail(failure, detail);
                return match scene.again {
                    // What was found guilty is kept until somebody can say that it breaks nothing, or its time is up.
                    true => Examined::Veto(Refusal::kept_on()),
                    false => Examined::Pass(None),
                };
            }
            None => return Examined::Pass(None),
        };
        match self.weigh(scene, verdict, scene.at) {
            Weighed::Nothing => Examined::Pass(performed),
            Weighed::Suspect(property) => Examined::Suspect { property },
            Weighed::Guilty(accusation) => {
                if self.may_veto(scene, &accusation.property) {
                    let hold = self.refusal_breaks(scene);
                    return Examined::Veto(accusation.refusal(hold));
                }
                self.would_veto(accusation, format!("{:?}", scene.input), 0);
                Examined::Pass(performed)
            }
        }
    }

    fn review(
        &mut self,
        scene: &Scene<'_, S>,
        property: &str,
        asked: &Asked<'_, S>,
    ) -> Reviewed<S> {
        let begun = Instant::now();
        let idle = matches!(asked.meanwhile, Meanwhile::Idle);
        // Messages that came since and are held as well have not happened to the node.
        let past = if idle { asked.past } else { scene.past };
        let tried = self.retry(&Scene { past, ..*scene });
        let tried = tried.and_then(|(accused, performed)| {
            let before = match asked.meanwhile {
                Meanwhile::Busy(Some(local)) if !accused.is_empty() => {
                    let past = asked.past;
                    let scene = Scene {
                        local,
                        past,
                        ..*scene
                    };
                    self.retry(&scene)?.0
                }
                _ => Vec::new(),
            };
            Ok((accused, before, performed))
        });
        let (accused, before, performed) = match tried {
            Ok(tried) => tried,
            Err((failure, detail)) => {
                self.fail(failure, detail);
                return Reviewed::Run(Outcome::Late, None);
            }
        };
        let still = |it: &Accusation| accused.iter().any(|now| now.property == it.property);
        let guilty = match idle {
            true => accused.iter().find(|it| it.firm).cloned(),
            false => before.into_iter().find(|it| it.firm && still(it)),
        };
        let Some(accusation) = guilty else {
            self.patience.learn(property, &kind(scene.input), false);
            return match self.is_worth_asking_again(scene, &accused) {
                true => Reviewed::AskAgain { guilty: false },
                false => Reviewed::Run(Outcome::Cleared, performed),
            };
        };
        let event = kind(scene.input);
        self.patience.learn(property, &event, true);
        self.patience
            .note_guilty(begun, &accusation.property, &event);
        if !self.were_together(&accusation, asked) {
            return Reviewed::AskAgain { guilty: true };
        }
        if self.may_veto(scene, &accusation.property) {
            let hold = self.refusal_breaks(scene);
            return Reviewed::Refuse(accusation.refusal(hold));
        }
        let elapsed_us = begun.elapsed().as_micros() as u64;
        self.would_veto(accusation, format!("{:?}", scene.input), elapsed_us);
        Reviewed::Run(Outcome::Limited, performed)
    }

    fn reset_breaks(&mut self, scene: &Scene<'_, S>) -> bool {
        scene.mode == Mode::Steer && !self.trials.is_idle() && self.refusal_breaks(scene)
    }

    fn way_out(&mut self, scene: &Scene<'_, S>, peers: &[NodeId]) -> Option<NodeId> {
        let mut peers = peers.iter().copied().take(WAYS_OUT_MAX);
        peers.find(|&peer| self.is_harmless(scene, What::AfterBreak(peer)))
    }

    fn projections(&mut self, now: Time, local: &Local<S>) -> Option<Vec<Option<Projection>>> {
        if self.trials.is_idle() {
            return None;
        }
        if !self.trials.looks_at_neighbors() {
            return Some(Vec::new());
        }
        self.watch(now, |properties, me| {
            let view = view_of(me, local);
            properties.map(|it| it.read(&view)).collect()
        })
    }

    #[inline]
    fn is_unchanged(&mut self, now: Time, local: &Local<S>, before: &[Option<Projection>]) -> bool {
        if self.trials.is_idle() {
            return false;
        }
        if !self.trials.looks_at_neighbors() {
            return true;
        }
        let same = self.watch(now, |properties, me| {
            let view = view_of(me, local);
            let mut before = before.iter();
            let mut same = properties.map(|it| {
                let before = before.next();
                before.is_some_and(|before| it.reads_same(&view, before.as_ref()))
            });
            same.all(|same| same)
        });
        same.unwrap_or(false)
    }

    fn is_shared(&self, property: &str) -> bool {
        let mut properties = self.trials.properties().iter();
        properties.any(|it| it.name() == property && !matches!(it.shape(), Shape::Node(_)))
    }

    fn hold_ms_max(&self) -> u64 {
        self.trials.rules.hold_ms_max
    }

    fn inform(&mut self, request: Request) {
        match request {
            Request::CheckSettings(rules) => self.set_rules(*rules),
            Request::Surroundings(surroundings) => self.set_surroundings(surroundings),
            Request::Predicted(_) | Request::Ended(_) => {}
        }
    }

    fn has_notice(&self) -> bool {
        let found = |auditor: &Auditor<S>| auditor.has_found();
        !self.notices.is_empty() || self.auditor.as_ref().is_some_and(found)
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        while let Some(audited) = self.auditor.as_ref().and_then(Auditor::poll) {
            self.note_audited(audited);
        }
        self.notices.pop_front()
    }

    fn unchecked_count(&self) -> u64 {
        self.unchecked_count
    }

    fn check_times(&self) -> Option<&Times> {
        Some(self.share.times())
    }
}

impl Accusation {
    fn refusal(self, hold: bool) -> Refusal {
        Refusal {
            property: self.property,
            explanation: self.explanation,
            hold,
        }
    }
}

fn view_of<S: Service>(id: NodeId, local: &Local<S>) -> View<'_, S> {
    View {
        id,
        state: &local.service,
        timers: &local.timers,
    }
}

/// What an event is called, to tell suspicions apart.
fn kind<M: serde::Serialize, T: serde::Serialize, C: serde::Serialize>(
    input: &Input<M, T, C>,
) -> Cow<'static, str> {
    match input {
        Input::Message { message, .. } => kind_of(message),
        Input::Timer(timer) => kind_of(timer),
        Input::Call(call) => kind_of(call),
        Input::Disconnect(_) => "disconnect".into(),
        Input::Restart => "restart".into(),
        Input::Stop => "stop".into(),
    }
}

impl<S: Service> std::fmt::Debug for SafetyCheck<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafetyCheck")
            .field("isolate", &self.trials.rules.isolate)
            .finish_non_exhaustive()
    }
}
