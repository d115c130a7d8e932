//! Events that the guard suspects: held until the neighbors have said what their states are now, and then run or refused.
//!
//! A network may be late, and so may a timer or the answer to a call: holding for a few milliseconds takes nothing from a
//! service that it could rely on. What is held on a connection keeps what follows it waiting; everything else goes on. An
//! event is never held beyond its deadline, and never lost: at the deadline it runs. What is refused and cannot be taken from
//! the service without breaking something stays on its connection ([`postponing`](super::postponing)).

use std::collections::VecDeque;
use std::time::Duration;

use scry_protocol::filter::Mode;
use scry_protocol::link::host::{Outcome, Suspicion, Veto};
use scry_protocol::{NodeId, Past, messagepack};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::capture;
use crate::hook::{Hook, Kept};
use crate::runtime::connection::Key;
use crate::runtime::guard::{Asked, Meanwhile, Refusal, Reviewed, Scene};
use crate::runtime::handle::CallError;
use crate::runtime::node::events::{Origin, encode};
use crate::runtime::node::steering::{capture_now, kept};
use crate::runtime::node::{End, Node};
use crate::runtime::report::{Kind, Ruling};
use crate::runtime::streams::{Hold, Streams, Waiting};
use scry_checkpoint::Time;
use scry_engine::context::Dice;
use scry_engine::model::event::{Input, InputOf};
use scry_engine::model::handler::Local;
use scry_engine::panics::caught;
use scry_engine::service::Service;

/// The past of a node without a hook: it hears of no neighbors' states either.
static NO_PAST: Past = Past::nothing();
/// How many events may be held at once. More run unchecked: something is wrong with the suspicions, not with the events.
const HELD_MAX: usize = 64;
/// An event is held for at most so many times as long as the slowest of the last answers took.
const ANSWERS_FACTOR: u32 = 4;
/// Answers whose time is remembered.
const ANSWERS_COUNT: usize = 32;
/// It is held for no more than this part of the time until the next timer fires.
const TIMER_PART: u32 = 4;
/// The news of a lost connection is held for so long, since the node it was with may have to come up before it can answer. A
/// network is often later than that with it.
const LOSS_WAIT: Duration = Duration::from_secs(1);
/// An event of which a search has predicted that it breaks something, or that breaks something with what neighbors answered though
/// perhaps not at one moment, is held for so long: neighbors that are silent are waited for before anybody answers, busy ones
/// have moved on, and on a busy machine an answer that is just too late would let it through.
const PREDICTED_WAIT: Duration = Duration::from_millis(500);
/// After an answer that clears nothing, since somebody is silent or has moved on, neighbors are asked again no sooner than so
/// long after they were asked the last time; the pause doubles from the first to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));
/// Less time than this is not enough to ask anybody.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Returns the past that decides which neighbors' states may stand beside the node's own.
pub(super) fn past_to_judge_by(hook: Option<&Hook>, now: Time) -> &Past {
    hook.map_or(&NO_PAST, |hook| hook.past_to_judge_by(now))
}

/// An event that no filter stops, before its handler runs.
#[derive(Debug)]
pub(super) struct Pending<S: Service> {
    /// What its handler is given.
    pub(super) input: InputOf<S>,
    pub(super) way: Way,
}

/// How an event came, and so what it means to keep it back.
#[derive(Debug)]
pub(super) enum Way {
    Message(Origin),
    /// A timer, and how long it ran. It counts as armed until it is handled.
    Timer(Duration),
    /// A call, and who waits for it.
    Call(oneshot::Sender<Result<(), CallError>>),
    /// The news that a connection is lost, and why.
    Loss(Key, String),
}

/// A held event with what was asked about it.
#[derive(Debug)]
struct HeldEvent<S: Service> {
    question: u64,
    pending: Pending<S>,
    property: String,
    /// What its dice are drawn from, whenever it runs.
    seed: u64,
    since: Instant,
    asked: Instant,
    /// When the neighbors are asked again, if no answer is awaited, and how long the pause before that is the next time.
    again: Option<Instant>,
    pause: Duration,
    deadline: Instant,
    /// How many events the node had handled when the neighbors were asked.
    handled_count: u64,
    /// The node at that moment, if a copy could be made, and its past.
    then: Option<Local<S>>,
    past: Past,
}

/// The events a node holds.
#[derive(Debug)]
pub(super) struct Holding<S: Service> {
    events: VecDeque<HeldEvent<S>>,
    last_question: u64,
    /// How long the last answers took.
    answers: VecDeque<Duration>,
}

impl<S: Service> Default for Holding<S> {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            last_question: 0,
            answers: VecDeque::new(),
        }
    }
}

impl<S: Service> Holding<S> {
    /// Forgets what is held: the incarnation it was for is over, and its callers are told so by the end of their wait.
    pub(super) fn clear(&mut self) {
        self.events.clear();
    }

    /// Returns when the next event is to be decided, or asked about again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.events.iter().map(HeldEvent::due).min()
    }

    /// Adds the messages that are held, for a checkpoint: the channels count them as received. So does the news of a lost
    /// connection.
    pub(super) fn add_held(&self, streams: &Streams, kept: &mut Vec<capture::Kept>) {
        for event in &self.events {
            let (from, message) = match &event.pending.input {
                Input::Message { from, message } => match messagepack::to_vec(message) {
                    Ok(content) => (*from, Some(content)),
                    Err(_) => continue,
                },
                Input::Disconnect(peer) => (*peer, None),
                _ => continue,
            };
            let key = event.pending.way.stream();
            kept.push(capture::Kept {
                from,
                connection: key.and_then(|key| streams.connection(key)),
                message,
            });
        }
    }

    fn take(&mut self, question: u64) -> Option<HeldEvent<S>> {
        let at = self
            .events
            .iter()
            .position(|event| event.question == question)?;
        self.events.remove(at)
    }

    fn note_answer(&mut self, took: Duration) {
        if self.answers.len() == ANSWERS_COUNT {
            self.answers.pop_front();
        }
        self.answers.push_back(took);
    }
}

impl<S: Service> HeldEvent<S> {
    fn due(&self) -> Instant {
        self.again
            .map_or(self.deadline, |again| again.min(self.deadline))
    }

    /// Returns the node whose answer matters above all.
    fn about(&self) -> Option<NodeId> {
        match self.pending.input {
            Input::Disconnect(peer) => Some(peer),
            _ => None,
        }
    }
}

impl Way {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Message(_) => Kind::Message,
            Self::Timer(_) => Kind::Timer,
            Self::Call(_) => Kind::Call,
            Self::Loss(..) => Kind::Disconnect,
        }
    }

    /// Returns what a refusal takes from the service; one that `holds` leaves a message where it is.
    fn kept(&self, holds: bool) -> Kept {
        match self {
            Self::Message(Origin::Stream(_)) if holds => Kept::Delayed,
            Self::Message(_) => Kept::Dropped,
            Self::Timer(_) | Self::Loss(..) => Kept::Delayed,
            Self::Call(_) => Kept::Refused,
        }
    }

    /// Returns what its connection waits for while a question about it is open.
    fn hold(&self, question: u64) -> Hold {
        match self {
            Self::Loss(..) => Hold::NewsQuestion(question),
            _ => Hold::Question(question),
        }
    }

    /// Returns the connection it came on.
    pub(super) fn stream(&self) -> Option<Key> {
        match self {
            Self::Message(Origin::Stream(key)) | Self::Loss(key, _) => Some(*key),
            _ => None,
        }
    }
}

impl<S: Service> Node<S> {
    /// Holds an event and asks for the neighbors' present states; gives it back if it cannot be held. One of which a search
    /// has `predicted` that it breaks something is held whatever else is due soon.
    pub(super) fn hold_suspected(
        &mut self,
        pending: Pending<S>,
        property: String,
        seed: u64,
        predicted: bool,
    ) -> Result<(), Pending<S>> {
        let now = self.look_at_clock();
        let Some(wait) = self.wait_for_answer(now, predicted, &pending.way) else {
            return Err(pending);
        };
        if matches!(pending.way, Way::Message(Origin::Own)) {
            // No checkpoint may fall between what a node says to itself and its handling.
            return Err(pending);
        }
        if let Some(key) = pending.way.stream() {
            let hold = pending.way.hold(self.holding.last_question + 1);
            if !self.streams.question(key, hold) {
                return Err(pending);
            }
        }
        // It is held before the checkpoint is taken that the question is about, so that this shows it.
        let event = HeldEvent {
            question: self.holding.last_question + 1,
            pending,
            property,
            seed,
            since: now,
            asked: now,
            again: None,
            pause: PAUSE.0,
            deadline: now + wait,
            handled_count: self.handled_count,
            then: self.copy(),
            past: past_to_judge_by(self.hook.as_ref(), self.clock).clone(),
        };
        let about = event.about();
        self.holding.events.push_back(event);
        self.ask_neighbors(wait, about);
        Ok(())
    }

    fn copy(&self) -> Option<Local<S>> {
        caught(|| self.local.clone()).ok()
    }

    /// Returns how long an event may be held from now, if that is long enough to ask anybody.
    fn wait_for_answer(&self, now: Instant, predicted: bool, way: &Way) -> Option<Duration> {
        let guard = self.guard.as_ref()?;
        if self.holding.events.len() >= HELD_MAX {
            return None;
        }
        let mut wait = Duration::from_millis(guard.hold_ms_max());
        if wait < WAIT_MIN {
            return None;
        }
        if let Way::Loss(..) = way {
            return Some(LOSS_WAIT);
        }
        if predicted {
            return Some(wait.max(PREDICTED_WAIT));
        }
        if self.holding.answers.len() == ANSWERS_COUNT
            && let Some(slowest) = self.holding.answers.iter().max()
        {
            wait = wait.min((*slowest * ANSWERS_FACTOR).max(WAIT_MIN));
        }
        if let Some(due) = self.timers.due() {
            wait = wait.min(due.saturating_duration_since(now) / TIMER_PART);
        }
        (wait >= WAIT_MIN).then_some(wait)
    }

    fn ask_neighbors(&mut self, wait: Duration, about: Option<NodeId>) {
        self.holding.last_question += 1;
        let question = self.holding.last_question;
        let (me, setup, local, streams) = (self.me, &self.setup, &self.local, &self.streams);
        let (held, holding) = (&self.held, &self.holding);
        let (stamps, timers) = (&self.stamps, &self.timers);
        let hold_ms_max = self.guard.as_ref().map_or(0, |guard| guard.hold_ms_max());
        let wait_ms = hold_ms_max.min(wait.as_millis() as u64);
        if let Some(hook) = &mut self.hook {
            hook.look_again(self.clock, question, wait_ms, about, || {
                let kept = kept(held, holding, streams);
                let readings = stamps.readings(timers, &local.timers);
                capture_now(me, setup, local, &streams.describe(), &kept, &readings)
            });
        }
    }

    /// Decides about an event now that the neighbors' states are known.
    pub(super) fn answered(&mut self, question: u64) -> Result<(), End> {
        let Some(event) = self.holding.take(question) else {
            return Ok(());
        };
        self.holding.note_answer(event.asked.elapsed());
        self.decide(event, true)
    }

    /// Lets events run that were held long enough, and asks again about those whose pause is over.
    pub(super) fn release_overdue(&mut self, now: Instant) -> Result<(), End> {
        while let Some(at) = self
            .holding
            .events
            .iter()
            .position(|event| event.due() <= now)
        {
            let event = self.holding.events.remove(at).expect("it was just found");
            match event.deadline <= now {
                true => self.decide(event, false)?,
                false => self.ask_once_more(event, now),
            }
        }
        Ok(())
    }

    fn decide(&mut self, mut event: HeldEvent<S>, answered: bool) -> Result<(), End> {
        if !self.is_still_due(&event) {
            return Ok(());
        }
        let at = Instant::now();
        let dice = Dice::new(event.seed, self.stamps.stamp(at), self.local.ticks);
        let mode = self.mode();
        let again = self.was_refused(&event.pending.way);
        let reviewed = match (answered && mode > Mode::Off, &mut self.guard) {
            (true, Some(guard)) => {
                let scene = Scene {
                    mode,
                    now: self.clock,
                    at: at.into_std(),
                    setup: &self.setup,
                    local: &self.local,
                    input: &event.pending.input,
                    dice,
                    past: past_to_judge_by(self.hook.as_ref(), self.clock),
                    again,
                };
                let asked = Asked {
                    at: event.asked.into_std(),
                    past: &event.past,
                    meanwhile: match event.handled_count == self.handled_count {
                        true => Meanwhile::Idle,
                        false => Meanwhile::Busy(event.then.as_ref()),
                    },
                };
                guard.review(&scene, &event.property, &asked)
            }
            (true, None) => Reviewed::Run(Outcome::Late, None),
            (false, _) => self.without_certainty(&event, Outcome::Late),
        };
        self.pass_on_notices();
        let Reviewed::AskAgain { guilty } = reviewed else {
            return self.conclude(event, dice, reviewed);
        };
        if guilty {
            event.deadline = event.deadline.max(event.since + PREDICTED_WAIT);
            // Whatever was not at one moment may be at the next.
            event.pause = PAUSE.0;
        }
        let again = event.asked + event.pause;
        let soonest = again.max(self.look_at_clock());
        if event.deadline.saturating_duration_since(soonest) < WAIT_MIN {
            let reviewed = self.without_certainty(&event, Outcome::NotTogether);
            return self.conclude(event, dice, reviewed);
        }
        event.pause = (event.pause * 2).min(PAUSE.1);
        event.again = Some(again);
        self.holding.events.push_back(event);
        Ok(())
    }

    /// Something happened while the neighbors answered, here or there: they are asked again. Who has not changed from one
    /// answer to the next was so in between.
    fn ask_once_more(&mut self, mut event: HeldEvent<S>, now: Instant) {
        if !self.is_still_due(&event) {
            return;
        }
        let question = self.holding.last_question + 1;
        if let Some(key) = event.pending.way.stream() {
            self.streams.question(key, event.pending.way.hold(question));
        }
        event.question = question;
        event.asked = now;
        event.again = None;
        event.handled_count = self.handled_count;
        event.then = self.copy();
        event.past = past_to_judge_by(self.hook.as_ref(), self.clock).clone();
        let (left, about) = (event.deadline.saturating_duration_since(now), event.about());
        self.holding.events.push_back(event);
        self.ask_neighbors(left, about);
    }

    /// Decides about an event of which nothing is certain when its time is over: it runs. What was refused once and is offered
    /// again stays where it is until an answer clears it: that a node was busy, or an answer late, has not shown that its event
    /// does no harm any more.
    fn without_certainty(&self, event: &HeldEvent<S>, outcome: Outcome) -> Reviewed<S> {
        let way = &event.pending.way;
        match self.mode() == Mode::Steer && self.was_refused(way) && self.may_postpone(way) {
            true => Reviewed::Refuse(Refusal::kept_on()),
            false => Reviewed::Run(outcome, None),
        }
    }

    /// Tells whether a held event still can happen: its connection is there, its timer was not moved or cancelled.
    fn is_still_due(&mut self, event: &HeldEvent<S>) -> bool {
        if let Some(key) = event.pending.way.stream() {
            let held = Some(event.pending.way.hold(event.question));
            return self.streams.end(key).is_some_and(|end| end.held == held);
        }
        match &event.pending.input {
            Input::Timer(timer) => {
                self.local.timers.contains(timer) && !self.timers.is_armed(timer)
            }
            _ => true,
        }
    }

    /// Runs or refuses an event, and goes on with what waited behind it.
    fn conclude(
        &mut self,
        event: HeldEvent<S>,
        dice: Dice,
        reviewed: Reviewed<S>,
    ) -> Result<(), End> {
        let shown = format!("{:?}", event.pending.input);
        let outcome = match &reviewed {
            Reviewed::Run(outcome, _) => *outcome,
            Reviewed::Refuse(_) => Outcome::Refused,
            Reviewed::AskAgain { .. } => Outcome::NotTogether,
        };
        if let Some(hook) = &mut self.hook {
            hook.suspicion(Suspicion {
                property: event.property.clone(),
                event: shown.clone(),
                outcome,
                held_us: event.since.elapsed().as_micros() as u64,
            });
        }
        let stream = event.pending.way.stream();
        if let Some(end) = stream.and_then(|key| self.streams.end(key)) {
            end.held = None;
        }
        match reviewed {
            Reviewed::Run(_, performed) => {
                self.handle(event.pending, dice, performed, || shown)?;
            }
            Reviewed::AskAgain { .. } => self.handle(event.pending, dice, None, || shown)?,
            Reviewed::Refuse(refusal) => {
                self.refuse(event.pending, refusal, dice, event.since, || shown)?;
            }
        }
        self.handle_own()?;
        match stream {
            Some(key) => self.resume(key),
            None => Ok(()),
        }
    }

    /// Tells whether an event is offered again after it was refused.
    pub(super) fn was_refused(&self, way: &Way) -> bool {
        way.stream().is_some_and(|key| self.postponed.contains(key))
    }

    /// Keeps an event from its handler, and says so.
    pub(super) fn refuse(
        &mut self,
        pending: Pending<S>,
        refusal: Refusal,
        dice: Dice,
        since: Instant,
        shown: impl FnOnce() -> String,
    ) -> Result<(), End> {
        let holds = refusal.hold || matches!(pending.way, Way::Loss(..));
        if holds && !self.may_postpone(&pending.way) {
            if let Some(key) = pending.way.stream() {
                self.end_postponing(key, Outcome::RefusalBreaks);
            }
            return self.handle(pending, dice, None, shown);
        }
        // What is refused once more was told and counted before; that it now costs more is counted.
        match self.was_refused(&pending.way) {
            false => self.tell_refusal(&pending, &refusal, since, shown),
            true if holds => {}
            true => self.count_refusal(&pending.way, &refusal),
        }
        let told = |input: &InputOf<S>| (refusal.property.clone(), format!("{input:?}"));
        // What is done to it is what a network, a clock or an application might have done.
        match (pending.input, pending.way) {
            (input, Way::Message(Origin::Stream(key))) if holds => {
                if let Input::Message { message, .. } = &input {
                    let mut content = Vec::new();
                    encode(message, &mut content)?;
                    self.postpone(key, Waiting::Offered(content), || told(&input));
                    self.seek_way_out(key, &input)?;
                }
            }
            (Input::Message { from, .. }, Way::Message(Origin::Stream(key))) => {
                self.end_postponing(key, Outcome::Refused);
                self.break_off(from, "a message on it was stopped")?;
            }
            (Input::Timer(timer), Way::Timer(after)) => {
                self.timers.postpone(timer, after, Instant::now());
            }
            (input, Way::Loss(key, reason)) => {
                self.postpone(key, Waiting::Ended(reason), || told(&input));
                self.seek_way_out(key, &input)?;
            }
            (_, Way::Call(done)) => {
                // Whoever called may not wait any more.
                let _ = done.send(Err(CallError::Vetoed {
                    property: refusal.property,
                    explanation: refusal.explanation,
                }));
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells whether an event may be kept where it is. What a node says to itself comes before anything else.
    fn may_postpone(&self, way: &Way) -> bool {
        let room = |key| self.postponed.has_room(key, Instant::now());
        way.stream().is_some_and(room)
    }

    /// Tells of a refusal, and counts what it takes from the service.
    fn tell_refusal(
        &mut self,
        pending: &Pending<S>,
        refusal: &Refusal,
        since: Instant,
        shown: impl FnOnce() -> String,
    ) {
        self.note_veto(Veto {
            property: refusal.property.clone(),
            event: format!("{:?}", pending.input),
            explanation: refusal.explanation.clone(),
            acted: true,
            elapsed_us: since.elapsed().as_micros() as u64,
        });
        self.count_refusal(&pending.way, refusal);
        let property = Some(refusal.property.clone());
        self.report_ruling(pending.way.kind(), shown, Ruling::Veto, None, property);
    }

    fn count_refusal(&mut self, way: &Way, refusal: &Refusal) {
        self.count_harm(&refusal.property, way.kept(refusal.hold));
        if matches!(way, Way::Message(Origin::Stream(_))) && !refusal.hold {
            self.count_harm(&refusal.property, Kept::Reset);
        }
    }
}
