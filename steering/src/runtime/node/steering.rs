//! Where the loop meets the hook: what is noted, stamped and ruled on, and what the agent asks for.
//!
//! A node without a hook stamps nothing and rules on nothing. Messages of a node to itself are ruled on but not stamped:
//! they are handled before anything else, so that no checkpoint falls between their sending and their receipt.

use std::sync::Arc;

use scry_protocol::channel::Envelope;
use scry_protocol::filter::Mode;
use scry_protocol::link::host::{Failure, Predicted, PredictionAnswer, Veto};
use scry_protocol::{FilterId, Incarnation, NodeId, Transport, messagepack};
use tokio::time::Instant;

use crate::capture::{self, KEPT_MAX, Kept, Readings, StreamEnd};
use crate::checker::path;
use crate::hook::{self, Hook, Occurrence, Request, Verdict, kind_of};
use crate::runtime::guard::Notice;
use crate::runtime::node::events::{Decision, Origin};
use crate::runtime::node::holding::Holding;
use crate::runtime::node::{End, Node, random_seed};
use crate::runtime::ports::PortCounts;
use crate::runtime::report::{Kind, Ruling};
use crate::runtime::streams::{Hold, Streams, Waiting};
use crate::runtime::wire::NO_STAMP;
use scry_checkpoint::Time;
use scry_checkpoint::channel::Lane;
use scry_checkpoint::recorder::Capture;
use scry_engine::model::handler::Local;
use scry_engine::model::live;
use scry_engine::panics::{Panicked, caught};
use scry_engine::property::Projection;
use scry_engine::service::{Handling, Prediction, Service};

/// How many datagrams are held back. Beyond it the oldest is lost, as datagrams may be.
const HELD_MAX: usize = 4096;

/// A datagram, or a word of the node to itself, that a filter holds back.
#[derive(Debug)]
pub(super) struct Held {
    filter: FilterId,
    origin: Origin,
    from: NodeId,
    content: Vec<u8>,
}

impl<S: Service> Node<S> {
    /// Begins an incarnation, after the service has started and before anything it wants to send is sent.
    pub(super) fn begin_incarnation(&mut self) {
        let clock_ms = self.time_of_day.now_ms();
        // The incarnations of one process follow each other whatever becomes of the clock.
        let last = self.streams.incarnation;
        let incarnation = match last == Incarnation::default() {
            true => Incarnation::of_clock(clock_ms, random_seed()),
            false => last.next(),
        };
        self.streams.incarnation = incarnation;
        self.held.clear();
        self.holding.clear();
        self.postponed.clear();
        let Some(mut options) = self.hook_options.clone() else {
            return;
        };
        let now = self.clock;
        options.incarnation = incarnation;
        options.checks = self.guard.is_some();
        options.clock_ms = clock_ms;
        if let Some(former) = self.hook.take() {
            options.born = options.born.max(former.number().next());
            options.former_past = Some(former.past().clone());
        }
        self.watched = None;
        let wake = Arc::clone(&self.wake);
        options.waker = Some(Arc::new(move || wake.notify_one()));
        // A state that cannot be written down cannot be checked: the service runs on without.
        let readings = self.stamps.readings(&self.timers, &self.local.timers);
        match capture(self.me, &self.setup, &self.local, &[], &[], &readings) {
            Ok(captured) => {
                let hook = Hook::connect(options, now, || captured);
                // If incarnations are counted on disk, it is that count.
                self.streams.incarnation = hook.incarnation();
                self.hook = Some(hook);
            }
            Err(error) => tracing::error!("no steering: the state cannot be captured: {error}"),
        }
    }

    /// Does what the agent asked for.
    pub(super) fn turn_hook(&mut self) -> Result<(), End> {
        let now = self.clock;
        if !self.hook.as_ref().is_some_and(|hook| hook.is_turn_due(now)) {
            return Ok(());
        }
        self.pass_on_notices();
        self.tell_port_limits();
        let (me, setup, local, streams) = (self.me, &self.setup, &self.local, &self.streams);
        let (held, holding) = (self.held.as_slice(), &self.holding);
        let (stamps, timers) = (&self.stamps, &self.timers);
        let Some(hook) = &mut self.hook else {
            return Ok(());
        };
        if let Some(times) = self.guard.as_ref().and_then(|guard| guard.check_times()) {
            hook.set_check_times(times);
        }
        let requests = hook.turn(now, || {
            let readings = stamps.readings(timers, &local.timers);
            let kept = kept(held, holding, streams);
            capture_now(me, setup, local, &streams.describe(), &kept, &readings)
        });
        // It may go on under another one.
        self.streams.incarnation = hook.incarnation();
        for request in requests {
            match request {
                Request::Ended(ended) => self.release(ended.filter)?,
                Request::Predicted(predicted) => self.predicted(*predicted)?,
                Request::CheckSettings(_) | Request::Surroundings(_) => {
                    self.inform_guard(request)?
                }
            }
        }
        Ok(())
    }

    fn inform_guard(&mut self, mut request: Request) -> Result<(), End> {
        if let Request::Surroundings(surroundings) = &mut request {
            // What is known of the past does not say which states of others may stand beside this node's.
            let members = &self.peers;
            surroundings
                .neighbors
                .retain(|neighbor| members.contains_key(&neighbor.node));
        }
        let answers = match &request {
            Request::Surroundings(surroundings) => surroundings.answers,
            _ => None,
        };
        if matches!(request, Request::CheckSettings(_)) {
            // By other properties the node may look changed.
            self.watched = None;
            if let Some(hook) = &mut self.hook {
                hook.note_change();
            }
        }
        if let Some(guard) = &mut self.guard {
            guard.inform(request);
        }
        match answers {
            Some(question) => self.answered(question),
            None => Ok(()),
        }
    }

    /// Returns how much may be done about events now.
    pub(super) fn mode(&self) -> Mode {
        self.hook.as_ref().map_or(Mode::Off, Hook::mode)
    }

    /// Notes what properties read of the node before a handler runs, if a checkpoint was taken since it was last noted.
    pub(super) fn watch_before(&mut self) {
        let Some(hook) = self.hook.as_ref().filter(|hook| !hook.has_changed()) else {
            return;
        };
        let number = hook.number();
        if self.watched.as_ref().is_some_and(|(at, _)| *at == number) {
            return;
        }
        let read = self.read_projections();
        self.watched = read.map(|read| (number, read));
    }

    /// Compares what properties read of the node after a handler has run, before anything it sends is stamped.
    pub(super) fn watch_after(&mut self) {
        if self.hook.as_ref().is_none_or(Hook::has_changed) {
            return;
        }
        let mode = self.mode();
        let same = match (&self.watched, &mut self.guard) {
            (Some((_, before)), Some(guard)) if mode > Mode::Off => {
                guard.is_unchanged(self.clock, &self.local, before)
            }
            _ => false,
        };
        if !same && let Some(hook) = &mut self.hook {
            hook.note_change();
        }
    }

    fn read_projections(&mut self) -> Option<Vec<Option<Projection>>> {
        let mode = self.mode();
        let guard = self.guard.as_mut().filter(|_| mode > Mode::Off)?;
        guard.projections(self.clock, &self.local)
    }

    /// Looks at the clock, and sets the hook's time by it: looking twice for each message would cost more than stamping it.
    pub(super) fn look_at_clock(&mut self) -> Instant {
        let now = Instant::now();
        let elapsed = now.duration_since(self.begun);
        self.clock = Time::from_millis(elapsed.as_millis() as u64);
        now
    }

    pub(super) fn open_channel(&mut self, peer: NodeId) -> u32 {
        let now = self.clock;
        self.hook.as_mut().map_or(0, |hook| hook.open(now, peer))
    }

    pub(super) fn close_channel(&mut self, end: &StreamEnd) {
        let now = self.clock;
        if let Some(hook) = &mut self.hook {
            hook.ended(now, end.peer, Some(end.sending), end.receiving);
        }
    }

    #[inline]
    pub(super) fn stamp(&mut self, to: NodeId, lane: Lane, content: &[u8]) -> Envelope {
        let now = self.clock;
        self.hook
            .as_mut()
            .map_or(NO_STAMP, |hook| hook.stamp(now, to, lane, content))
    }

    /// Notes a message before anything is decided about it: the checkpoint that must precede it is taken.
    ///
    /// Who is not a member has no say about numbers and pasts.
    pub(super) fn note_receipt(
        &mut self,
        transport: Transport,
        from: NodeId,
        member: bool,
        envelope: &Envelope,
    ) {
        if !member {
            if let Some(hook) = &mut self.hook {
                hook.receive_from_stranger(from, envelope);
            }
            return;
        }
        let now = self.clock;
        let (me, setup, local, streams) = (self.me, &self.setup, &self.local, &self.streams);
        let (held, holding) = (self.held.as_slice(), &self.holding);
        let (stamps, timers) = (&self.stamps, &self.timers);
        if let Some(hook) = &mut self.hook {
            hook.receive(now, from, transport, envelope, || {
                let readings = stamps.readings(timers, &local.timers);
                let kept = kept(held, holding, streams);
                capture_now(me, setup, local, &streams.describe(), &kept, &readings)
            });
        }
    }

    /// Takes over what the ports have counted.
    pub(super) fn count_refused(&mut self) {
        let PortCounts { crowded, silent } = self.ports.counts();
        self.counts.connections_refused = crowded;
        self.counts.connections_silent = silent;
    }

    /// Tells the agent what was refused at the ports since it was last told, all in one.
    fn tell_port_limits(&mut self) {
        self.count_refused();
        let (crowded, silent, over_limit) = (
            self.counts.connections_refused,
            self.counts.connections_silent,
            self.counts.over_limit,
        );
        let all = crowded + silent + over_limit;
        if all > self.port_limits_told
            && let Some(hook) = &mut self.hook
            && hook.is_report_due(self.clock)
        {
            self.port_limits_told = all;
            let detail = format!(
                "connections: {crowded} were too many, {silent} said nothing, {over_limit} had too much waiting"
            );
            hook.failed_open(Failure::PortLimit, detail);
        }
    }

    /// Counts an event that no filter can stop.
    pub(super) fn count_event(&mut self) {
        if let Some(hook) = &mut self.hook {
            hook.count_event();
        }
    }

    /// Rules on a message; `content` is how it came over the wire, if it did. One that is offered `again` is no other event.
    pub(super) fn rule_on_message(
        &mut self,
        from: NodeId,
        message: &S::Message,
        content: Option<&[u8]>,
        again: bool,
    ) -> Decision {
        let Some(hook) = &mut self.hook else {
            return Decision::RUN;
        };
        if hook.is_unfiltered() {
            if !again {
                hook.count_event();
            }
            return Decision::RUN;
        }
        let content = || match content {
            Some(content) => content.to_vec(),
            None => messagepack::to_vec(message).unwrap_or_default(),
        };
        let occurrence = Occurrence::Message {
            kind: &kind_of(message),
            from,
            content: &content,
        };
        Decision::of(match again {
            false => hook.admit(&occurrence),
            true => hook.admit_again(&occurrence),
        })
    }

    pub(super) fn rule_on_timer(&mut self, timer: &S::Timer) -> Decision {
        let Some(hook) = &mut self.hook else {
            return Decision::RUN;
        };
        let content = || messagepack::to_vec(timer).unwrap_or_default();
        Decision::of(hook.admit(&Occurrence::Timer {
            kind: &kind_of(timer),
            content: &content,
        }))
    }

    pub(super) fn rule_on_call(&mut self, call: &S::Call) -> Decision {
        let Some(hook) = &mut self.hook else {
            return Decision::RUN;
        };
        let content = || messagepack::to_vec(call).unwrap_or_default();
        Decision::of(hook.admit(&Occurrence::Call {
            kind: &kind_of(call),
            content: &content,
        }))
    }

    /// Rules on the news that the connections with a peer are lost.
    pub(super) fn rule_on_disconnect(&mut self, peer: NodeId, again: bool) -> Decision {
        let Some(hook) = &mut self.hook else {
            return Decision::RUN;
        };
        let occurrence = Occurrence::Disconnect { peer };
        Decision::of(match again {
            false => hook.admit(&occurrence),
            true => hook.admit_again(&occurrence),
        })
    }

    /// Keeps a message until its filter is gone. On a connection, whatever follows waits with it.
    pub(super) fn hold(
        &mut self,
        filter: FilterId,
        origin: Origin,
        from: NodeId,
        content: Vec<u8>,
    ) {
        if let Origin::Stream(key) = origin {
            let hold = Hold::Filter(filter);
            return self.streams.hold_back(key, Waiting::Offered(content), hold);
        }
        if self.held.len() == HELD_MAX {
            self.held.remove(0);
        }
        self.held.push(Held {
            filter,
            origin,
            from,
            content,
        });
    }

    /// Offers again what a filter held back.
    fn release(&mut self, filter: FilterId) -> Result<(), End> {
        let (freed, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|held| held.filter == filter);
        self.held = kept;
        let freed: Vec<Held> = freed;
        for held in freed {
            self.offer_again(held.origin, held.from, &held.content)?;
            self.handle_own()?;
        }
        for key in self.streams.release(filter) {
            self.resume(key)?;
        }
        Ok(())
    }

    /// Tells the agent what the guard has to say.
    pub(super) fn pass_on_notices(&mut self) {
        if let (Some(guard), Some(hook)) = (&self.guard, &mut self.hook) {
            hook.set_unchecked(guard.unchecked_count());
        }
        while let Some(guard) = &mut self.guard
            && let Some(notice) = guard.poll_notice()
        {
            if let Some(hook) = &mut self.hook {
                match notice {
                    Notice::Failed(failure, detail) => hook.failed_open(failure, detail),
                    Notice::WouldVeto(veto) => hook.veto(veto),
                }
            }
        }
    }

    /// Counts what a veto did to the service.
    pub(super) fn count_harm(&mut self, property: &str, kept: hook::Kept) {
        if let Some(hook) = &mut self.hook {
            hook.count_harm(property, kept);
        }
    }

    /// Tells the agent of a veto.
    pub(super) fn note_veto(&mut self, veto: Veto) {
        if let Some(hook) = &mut self.hook {
            hook.veto(veto);
        }
    }

    /// Tells the service of a predicted violation, and installs the filters if it leaves it to them.
    fn predicted(&mut self, predicted: Predicted) -> Result<(), End> {
        // A path has other nodes' messages in it.
        let read = caught(|| path::read::<S>(&predicted.path));
        let handling = match read {
            Err(Panicked(said)) => {
                tracing::warn!("a predicted path cannot be read: the service panics on it: {said}");
                Handling::Default
            }
            Ok(Err(error)) => {
                tracing::warn!("a predicted path cannot be read: {error}");
                Handling::Default
            }
            Ok(Ok(path)) => {
                let prediction = Prediction {
                    property: predicted.property.clone(),
                    explanation: predicted.explanation,
                    path,
                };
                let dice = self.dice();
                self.handled_count += 1;
                if let Some(hook) = &mut self.hook {
                    hook.note_change();
                }
                let (handling, effects) =
                    live::predict(self.me, &self.setup, &mut self.local, &prediction, dice)?;
                self.perform(effects)?;
                handling
            }
        };
        if let Some(hook) = &mut self.hook {
            hook.answer_prediction(PredictionAnswer {
                violation: predicted.violation,
                filters: predicted.filters.iter().map(|filter| filter.id).collect(),
                handled: handling == Handling::Handled,
            });
            if handling == Handling::Default {
                hook.install(predicted.filters);
            }
        }
        let property = Some(predicted.property);
        let event = || format!("prediction {}: {handling:?}", predicted.violation);
        self.report_ruling(Kind::Prediction, event, Ruling::Run, None, property);
        Ok(())
    }
}

impl Decision {
    const RUN: Self = Self {
        ruling: Ruling::Run,
        filter: None,
    };

    fn of(verdict: Verdict) -> Self {
        let ruling = match verdict {
            Verdict::Run => Ruling::Run,
            Verdict::Drop(_) => Ruling::Drop,
            Verdict::Reset(_) => Ruling::Reset,
            Verdict::Postpone(_) => Ruling::Postpone,
            Verdict::Refuse(_) => Ruling::Refuse,
            Verdict::Hold(_) => Ruling::Hold,
            // The guard decides, and what it decides is reported.
            Verdict::Check(_) => Ruling::Run,
        };
        Self {
            ruling,
            filter: verdict.filter(),
        }
    }
}

/// Lists what filters and the guard hold back, for a checkpoint.
pub(super) fn kept<S: Service>(
    held: &[Held],
    holding: &Holding<S>,
    streams: &Streams,
) -> Vec<Kept> {
    let apart = held.iter().map(|held| Kept {
        from: held.from,
        connection: None,
        message: Some(held.content.clone()),
    });
    let mut kept: Vec<Kept> = apart.take(KEPT_MAX).collect();
    holding.add_held(streams, &mut kept);
    streams.add_held(&mut kept);
    kept.truncate(KEPT_MAX);
    kept
}

fn capture<S: Service>(
    me: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    streams: &[StreamEnd],
    kept: &[Kept],
    readings: &Readings,
) -> Result<Capture, rmp_serde::encode::Error> {
    let (state, timers) = capture::write_with(setup, local, streams, kept, Some(readings))?;
    Ok(Capture {
        state,
        timers,
        neighbors: local.service.neighbors(me, setup),
    })
}

/// As [`capture()`], once the first of an incarnation has shown that it works. A state that cannot be written all the same is one
/// that cannot be read either, which is what whoever reads the checkpoint then says.
pub(super) fn capture_now<S: Service>(
    me: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    streams: &[StreamEnd],
    kept: &[Kept],
    readings: &Readings,
) -> Capture {
    capture(me, setup, local, streams, kept, readings).unwrap_or_else(|error| {
        tracing::error!("the state cannot be captured: {error}");
        Capture::default()
    })
}
