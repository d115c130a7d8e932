//! What happens to an event, from its arrival to what its handler asked for.
//!
//! | step | what it does with a message |
//! |---|---|
//! | `arrive` | splits what a connection's task has read into frames |
//! | `take` | keeps order: what comes behind something that is held waits, and what comes on a connection that is over is refused |
//! | `receive` | decodes stamp and message, and tells the hook what came; datagrams come by `receive_datagram` |
//! | `admit` | asks the gate: a filter may drop it, hold it or reset its connection |
//! | `attempt` | asks the guard, which tries the handler on a copy: it may refuse it, or have the neighbors asked (`holding`) |
//! | `handle` | has the handler run, and tells who waits for it |
//! | `run` | runs the handler, or takes over what came of it on the copy |
//! | `perform` | does what the handler asked for (`effects`) |
//!
//! Timers (`fire`), calls (`call`) and the end of a connection (`lose`) ask the gate themselves, and go on with `attempt`. What
//! was held comes back where it was kept: by `resume` on a connection, else by `offer_again`.

use std::time::Duration;

use scry_protocol::link::host::Outcome;
use scry_protocol::{FilterId, NodeId, Transport, messagepack};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::hook::Hook;
use crate::runtime::connection::{Arrival, Key};
use crate::runtime::guard::{Examined, Scene};
use crate::runtime::handle::CallError;
use crate::runtime::node::holding::{Pending, Way, past_to_judge_by};
use crate::runtime::node::{BATCH_MAX, End, Node};
use crate::runtime::report::{Kind, Ruling};
use crate::runtime::streams::{Hold, Standing, Waiting};
use crate::runtime::wire::{self, FRAME_BYTES_MAX};
use scry_engine::context::Dice;
use scry_engine::model::event::{Event, Input, InputOf};
use scry_engine::model::live::{self, Performed};
use scry_engine::panics::caught;
use scry_engine::service::Service;

/// How a message came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Origin {
    Datagram,
    Stream(Key),
    /// From the node itself.
    Own,
}

/// What the hook says about an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) ruling: Ruling,
    pub(super) filter: Option<FilterId>,
}

impl<S: Service> Node<S> {
    /// Takes in what a connection's task has to say, and returns how many events that were.
    pub(super) fn arrive(&mut self, arrival: Arrival) -> Result<usize, End> {
        match arrival {
            Arrival::Accepted {
                stream,
                hello,
                admission,
            } => {
                let member = self.peers.contains_key(&hello.from);
                self.streams.accept(stream, &hello, member, admission);
                Ok(1)
            }
            Arrival::Frames { key, frames } => {
                let mut rest = frames.as_slice();
                let mut count = 0;
                while let Ok(Some((content, length))) = wire::split(rest, FRAME_BYTES_MAX) {
                    self.take(key, Waiting::Frame(content))?;
                    self.handle_own()?;
                    rest = &rest[length..];
                    count += 1;
                }
                Ok(count)
            }
            Arrival::Ended { key, reason } => {
                self.take(key, Waiting::<&[u8]>::Ended(reason))?;
                Ok(1)
            }
        }
    }

    /// Goes on with what waits on a connection, as far as that is possible.
    pub(super) fn resume(&mut self, key: Key) -> Result<(), End> {
        while let Some(end) = self.streams.end(key)
            && end.held.is_none()
            && !self.emulator.is_cut(end.peer)
            && let Some(what) = end.next_waiting()
        {
            self.take(key, what)?;
            self.handle_own()?;
        }
        Ok(())
    }

    /// Deals with what came on a connection, unless it has to wait behind something else.
    fn take<B>(&mut self, key: Key, what: Waiting<B>) -> Result<(), End>
    where
        B: AsRef<[u8]> + Into<Vec<u8>>,
    {
        let Some(end) = self.streams.end(key) else {
            return Ok(());
        };
        let (peer, connection, standing) = (end.peer, end.connection, end.standing);
        if end.held.is_some() || self.emulator.is_cut(peer) {
            return self.keep(key, peer, what.into_owned());
        }
        match (what, standing) {
            (Waiting::Frame(frame), Standing::Fresh | Standing::Open) => {
                self.receive(key, frame.as_ref())
            }
            (Waiting::Offered(content), Standing::Fresh | Standing::Open) => {
                self.offer_again(Origin::Stream(key), peer, content.as_ref())
            }
            (Waiting::Ended(reason), Standing::Open) => self.lose(key, peer, reason),
            (Waiting::Ended(_), _) => {
                self.streams.remove(key);
                Ok(())
            }
            (_, Standing::Closing) => Ok(()),
            (_, Standing::Forgotten) => {
                self.streams.reset(key);
                let event: Event<(), (), ()> = Event::Refuse {
                    from: peer,
                    connection,
                };
                self.report(Kind::Refuse, || event.to_string());
                Ok(())
            }
        }
    }

    /// Keeps what came on a connection until something before it may go on.
    #[inline(never)]
    fn keep(&mut self, key: Key, peer: NodeId, what: Waiting) -> Result<(), End> {
        let held = self.streams.end(key).and_then(|end| end.held);
        if !self.streams.keep(key, what) {
            self.counts.over_limit += 1;
            return self.break_off(peer, "too much waits on it");
        }
        if held == Some(Hold::Postponed) && self.streams.is_crowded(key) {
            // A delay is no loss, and a full queue is.
            self.postponed.give_up(key);
        }
        Ok(())
    }

    /// Takes in that an open connection is lost.
    fn lose(&mut self, key: Key, peer: NodeId, reason: String) -> Result<(), End> {
        let again = self.postponed.contains(key);
        let decision = self.rule_on_disconnect(peer, again);
        if let (Ruling::Postpone, Some(filter)) = (decision.ruling, decision.filter) {
            self.postpone_end(filter, key, peer, reason);
            return Ok(());
        }
        let shown = (!self.watchers.is_empty()).then(|| lost(peer, &reason));
        let shown = || shown.unwrap_or_default();
        let pending = Pending {
            input: Input::Disconnect(peer),
            way: Way::Loss(key, reason),
        };
        self.attempt(pending, decision, shown)
    }

    /// Decodes what came on a connection, and tells the hook of it before anything is decided about it.
    fn receive(&mut self, key: Key, frame: &[u8]) -> Result<(), End> {
        let origin = Origin::Stream(key);
        let end = self.streams.end(key).expect("the caller has seen it");
        let peer = end.peer;
        // While filters are in force, messages are judged one by one, and so they are noted. So are those of a sender without a
        // hook: whatever it has heard up to now lies in the past with each of them.
        let is_plain = |hook: &Hook| hook.is_unfiltered() && end.came.is_stamped();
        let follows =
            end.standing == Standing::Open && end.member && self.hook.as_ref().is_none_or(is_plain);
        if follows && let Some(content) = end.came.read_next(frame) {
            let place = end.came.place();
            self.counts.segments_received += 1;
            let Some(message) = read_message::<S>(content) else {
                return self.reject_malformed(origin);
            };
            if let Some(hook) = &mut self.hook {
                hook.receive_next(self.clock, peer, place);
            }
            return self.admit(origin, peer, message, Some(content));
        }
        match self.receive_stamped(key, frame) {
            Some((message, content)) => self.admit(origin, peer, message, Some(content)),
            None => self.reject_malformed(origin),
        }
    }

    /// Decodes and notes a message whose stamp says something new, if it is one. Apart from what most messages take, which
    /// is to stay small (ARCHITECTURE.md).
    #[inline(never)]
    fn receive_stamped<'a>(&mut self, key: Key, frame: &'a [u8]) -> Option<(S::Message, &'a [u8])> {
        let end = self.streams.end(key).expect("the caller has seen it");
        let (peer, standing, member) = (end.peer, end.standing, end.member);
        let (envelope, content) = end.came.read(frame).ok()?;
        // What is not understood changes nothing: it may be anybody's.
        let message = read_message::<S>(content)?;
        if let Some(place) = &envelope.place {
            end.receiving = Some((place.incarnation, place.serial));
        }
        if standing == Standing::Fresh {
            let sending = match member {
                true => self.open_channel(peer),
                false => 0,
            };
            self.streams.mark_open(key, sending);
        }
        self.counts.segments_received += 1;
        self.note_receipt(Transport::Stream, peer, member, &envelope);
        Some((message, content))
    }

    /// Takes in a datagram. One that is not of this service is dropped.
    pub(super) fn receive_datagram(&mut self, bytes: &[u8]) -> Result<(), End> {
        let Ok((from, envelope, content)) = wire::read_datagram(bytes) else {
            self.counts.malformed += 1;
            return Ok(());
        };
        if self.emulator.is_cut(from) {
            self.counts.datagrams_cut += 1;
            return Ok(());
        }
        self.counts.datagrams_received += 1;
        let Some(message) = read_message::<S>(content) else {
            return self.reject_malformed(Origin::Datagram);
        };
        let member = self.peers.contains_key(&from);
        self.note_receipt(Transport::Datagram, from, member, &envelope);
        self.admit(Origin::Datagram, from, message, Some(content))
    }

    /// Offers a message again that was noted when it came, and then held.
    pub(super) fn offer_again(
        &mut self,
        origin: Origin,
        from: NodeId,
        content: &[u8],
    ) -> Result<(), End> {
        match read_message::<S>(content) {
            Some(message) => self.admit(origin, from, message, Some(content)),
            None => self.reject_malformed(origin),
        }
    }

    /// Drops what no node of this service sends, and the connection it came on.
    #[cold]
    fn reject_malformed(&mut self, origin: Origin) -> Result<(), End> {
        self.counts.malformed += 1;
        match origin {
            Origin::Stream(key) => self.reject(key, "what came on it is malformed"),
            Origin::Datagram | Origin::Own => Ok(()),
        }
    }

    /// Asks the gate about a message, and does what it says; `content` is how the message came over the wire, if it did.
    fn admit(
        &mut self,
        origin: Origin,
        from: NodeId,
        message: S::Message,
        content: Option<&[u8]>,
    ) -> Result<(), End> {
        let event = (!self.watchers.is_empty()).then(|| format!("{message:?} from {from}"));
        let event = || event.unwrap_or_default();
        let again = matches!(origin, Origin::Stream(key) if self.postponed.contains(key));
        let decision = self.rule_on_message(from, &message, content, again);
        let Decision { ruling, filter } = decision;
        let ruling = match (ruling, origin) {
            (Ruling::Reset, Origin::Stream(_)) if self.reset_breaks(from, &message) => Ruling::Hold,
            (ruling, _) => ruling,
        };
        match ruling {
            Ruling::Run => {
                let input = Input::Message { from, message };
                let way = Way::Message(origin);
                self.attempt(Pending { input, way }, decision, event)?;
            }
            Ruling::Hold => {
                let mut kept = Vec::new();
                match content {
                    Some(content) => kept.extend_from_slice(content),
                    None => encode(&message, &mut kept)?,
                }
                if let Some(filter) = filter {
                    self.hold(filter, origin, from, kept);
                }
                self.report_ruling(Kind::Message, event, ruling, filter, None);
            }
            _ => {
                self.report_ruling(Kind::Message, event, ruling, filter, None);
                if ruling == Ruling::Reset {
                    self.break_off(from, "a filter reset it")?;
                }
            }
        }
        Ok(())
    }

    /// Handles what the node said to itself, and connections that failed on the way out.
    pub(super) fn handle_own(&mut self) -> Result<(), End> {
        for _ in 0..BATCH_MAX {
            if let Some(message) = self.own.pop_front() {
                self.admit(Origin::Own, self.me, message, None)?;
            } else if let Some(peer) = self.lost.pop_front() {
                self.disconnected(peer, "too much is queued")?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Handles a timer that has run for `after`.
    pub(super) fn fire(&mut self, timer: S::Timer, after: Duration) -> Result<(), End> {
        let event = (!self.watchers.is_empty()).then(|| format!("timer {timer:?}"));
        let event = || event.unwrap_or_default();
        let decision = self.rule_on_timer(&timer);
        let Decision { ruling, filter } = decision;
        if ruling == Ruling::Run {
            let input = Input::Timer(timer);
            let way = Way::Timer(after);
            return self.attempt(Pending { input, way }, decision, event);
        }
        self.timers.postpone(timer, after, Instant::now());
        self.report_ruling(Kind::Timer, event, ruling, filter, None);
        Ok(())
    }

    /// Handles a call, and tells the caller what came of it.
    pub(super) fn call(
        &mut self,
        call: S::Call,
        done: oneshot::Sender<Result<(), CallError>>,
    ) -> Result<(), End> {
        let event = (!self.watchers.is_empty()).then(|| format!("call {call:?}"));
        let event = || event.unwrap_or_default();
        let decision = self.rule_on_call(&call);
        let Decision { ruling, filter } = decision;
        if let (Ruling::Refuse, Some(id)) = (ruling, filter) {
            self.report_ruling(Kind::Call, event, ruling, filter, None);
            // Whoever called may not wait any more.
            let _ = done.send(Err(CallError::Refused(id)));
            return Ok(());
        }
        let input = Input::Call(call);
        let way = Way::Call(done);
        self.attempt(Pending { input, way }, decision, event)
    }

    /// Resets the node: its peers are told, or find out.
    pub(super) fn reset(&mut self, notice: bool) -> Result<(), End> {
        let emulator = &self.emulator;
        let stale = self
            .streams
            .end_incarnation(notice, |peer| emulator.is_cut(peer));
        self.own.clear();
        self.lost.clear();
        self.timers = crate::runtime::timers::Timers::new();
        let mut dice = self.dice();
        self.handled_count += 1;
        let (me, setup, local) = (self.me, &self.setup, &mut self.local);
        let effects = live::run(me, setup, local, Input::Restart, &mut dice)?;
        self.begin_incarnation();
        self.count_event();
        self.perform(effects)?;
        let event: Event<(), (), ()> = Event::Reset { notice };
        self.report(Kind::Reset, || event.to_string());
        for key in stale {
            self.resume(key)?;
        }
        Ok(())
    }

    /// Breaks the connections with a peer, if there are any; both ends learn of it.
    pub(super) fn break_off(&mut self, peer: NodeId, reason: &str) -> Result<(), End> {
        if self.break_connections(peer) {
            return self.disconnected(peer, reason);
        }
        Ok(())
    }

    /// Breaks a connection on which something came that no node of this service sends.
    fn reject(&mut self, key: Key, reason: &str) -> Result<(), End> {
        let Some(end) = self.streams.end(key) else {
            return Ok(());
        };
        match (end.standing, end.peer) {
            (Standing::Open, peer) => self.break_off(peer, reason),
            _ => {
                self.streams.reset(key);
                Ok(())
            }
        }
    }

    /// Keeps the news of a lost connection until its filter is gone. Until then the service takes the connection for open,
    /// and what it sends goes on a newer one.
    fn postpone_end(&mut self, filter: FilterId, key: Key, peer: NodeId, reason: String) {
        let event = lost(peer, &reason);
        let hold = Hold::Filter(filter);
        self.streams.hold_back(key, Waiting::Ended(reason), hold);
        self.report_ruling(
            Kind::Disconnect,
            || event,
            Ruling::Postpone,
            Some(filter),
            None,
        );
    }

    /// Tells the service that its connections with a peer are gone because this node gave them up. That is no news that
    /// could be late, so no filter is asked.
    fn disconnected(&mut self, peer: NodeId, reason: &str) -> Result<(), End> {
        self.count_event();
        let dice = self.dice();
        self.run(Input::Disconnect(peer), dice, None)?;
        self.report(Kind::Disconnect, || lost(peer, reason));
        Ok(())
    }

    /// Forgets a connection that is lost, and with it all others with the same peer.
    fn give_up(&mut self, key: Key) {
        let Some(end) = self.streams.end(key) else {
            return;
        };
        let (peer, end) = (end.peer, end.describe());
        self.streams.remove(key);
        self.close_channel(&end);
        self.break_connections(peer);
    }

    /// Runs the handler of an event unless the guard objects, and performs what it asks for. What the guard suspects, or a
    /// filter wants to have looked at, is held if it can be.
    fn attempt(
        &mut self,
        pending: Pending<S>,
        decision: Decision,
        shown: impl FnOnce() -> String,
    ) -> Result<(), End> {
        let dice = self.dice();
        let mode = self.mode();
        let again = self.was_refused(&pending.way);
        let Some(guard) = &mut self.guard else {
            return self.handle(pending, dice, None, shown);
        };
        let begun = self.dice_thrown;
        let examined = guard.examine(&Scene {
            mode,
            now: self.clock,
            at: self.dice_thrown.into_std(),
            setup: &self.setup,
            local: &self.local,
            input: &pending.input,
            dice,
            past: past_to_judge_by(self.hook.as_ref(), self.clock),
            again,
        });
        if guard.has_notice() {
            self.pass_on_notices();
        }
        let predicted = decision.filter.is_some();
        let (property, performed) = match examined {
            Examined::Veto(refusal) => return self.refuse(pending, refusal, dice, begun, shown),
            Examined::Suspect { property } => (Some(property), None),
            Examined::Pass(performed) if predicted => (
                self.property_to_check(decision, performed.as_ref()),
                performed,
            ),
            Examined::Pass(performed) => (None, performed),
        };
        let Some(property) = property else {
            return self.handle(pending, dice, performed, shown);
        };
        match self.hold_suspected(pending, property, dice.seed, predicted) {
            Ok(()) => Ok(()),
            Err(pending) => self.handle(pending, dice, performed, shown),
        }
    }

    /// Returns the property for whose sake a filter wants an event looked at that seems to break nothing: one that is about
    /// several nodes, unless the event changes nothing here.
    fn property_to_check(
        &mut self,
        decision: Decision,
        performed: Option<&Performed<S>>,
    ) -> Option<String> {
        let property = self.hook.as_mut()?.property_of(decision.filter?)?;
        let changes = performed.is_none_or(|(local, _)| *local != self.local);
        let is_shared = self.guard.as_ref()?.is_shared(&property);
        (changes && is_shared).then_some(property)
    }

    /// Tells whether to reset the connections with a peer instead of handling its message would break something now. The
    /// filter that asks for it was proved for what was known some time ago.
    fn reset_breaks(&mut self, from: NodeId, message: &S::Message) -> bool {
        let dice = self.dice();
        let mode = self.mode();
        let Some(guard) = &mut self.guard else {
            return false;
        };
        let breaks = guard.reset_breaks(&Scene {
            mode,
            now: self.clock,
            at: self.dice_thrown.into_std(),
            setup: &self.setup,
            local: &self.local,
            input: &Input::Message {
                from,
                message: message.clone(),
            },
            dice,
            past: past_to_judge_by(self.hook.as_ref(), self.clock),
            again: false,
        });
        self.pass_on_notices();
        breaks
    }

    /// Handles an event, and tells whoever waits for it.
    pub(super) fn handle(
        &mut self,
        pending: Pending<S>,
        dice: Dice,
        performed: Option<Performed<S>>,
        shown: impl FnOnce() -> String,
    ) -> Result<(), End> {
        let Pending { input, way } = pending;
        let kind = way.kind();
        if let Some(key) = way.stream() {
            self.end_postponing(key, Outcome::Cleared);
        }
        if let Way::Loss(key, _) = &way {
            self.give_up(*key);
        }
        self.run(input, dice, performed)?;
        if let Way::Call(done) = way {
            if let Some(hook) = &mut self.hook {
                hook.count_answered();
            }
            // Whoever called may not wait any more.
            let _ = done.send(Ok(()));
        }
        self.report(kind, shown);
        Ok(())
    }

    /// Runs a handler, or takes over what came of running it on a copy, and performs what it asked for.
    fn run(
        &mut self,
        input: InputOf<S>,
        mut dice: Dice,
        performed: Option<Performed<S>>,
    ) -> Result<(), End> {
        self.handled_count += 1;
        self.watch_before();
        let effects = match performed {
            None => live::run(self.me, &self.setup, &mut self.local, input, &mut dice)?,
            Some((local, effects)) => {
                self.local = local;
                effects
            }
        };
        self.watch_after();
        self.perform(effects)
    }
}

/// Reads a message. Whatever the service's own types do with what a peer sent, it is no more than malformed.
fn read_message<S: Service>(content: &[u8]) -> Option<S::Message> {
    caught(|| messagepack::from_slice(content)).ok()?.ok()
}

fn lost(peer: NodeId, reason: &str) -> String {
    format!("connection to {peer} is gone: {reason}")
}

/// Appends a message as it goes over the wire.
pub(super) fn encode<M: serde::Serialize>(message: &M, out: &mut Vec<u8>) -> Result<(), End> {
    messagepack::write(out, message)
        .map_err(|error| End::Failed(format!("a message cannot be encoded: {error}")))
}
