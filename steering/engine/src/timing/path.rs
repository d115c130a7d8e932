//! The constraints of a whole path: what must lie how far before what.
//!
//! Unlike in [`Moments`], events at different nodes have no order but that of the messages between them: a
//! path is one of many orders in which the same things happen.

use std::collections::BTreeMap;

use scry_protocol::NodeId;

use crate::model::event::{Event, Step};
use crate::model::handler::{Asked, Timed};
use crate::model::network::{Connection, Parcel};
use crate::model::simulation::{Simulation, Taken};
use crate::service::Service;
use crate::stamp::{Origin, origins_in};
use crate::timing::moments::{Answer, Armed, Mark, Moments, meaning};
use crate::timing::zone::NEVER;
use crate::timing::{over, whole};

/// By whose clock a time is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Counted {
    /// By the true time.
    Truly,
    /// By a node's clock.
    By(NodeId),
    /// From a reading of one clock to a reading of another. The one that read the stamp may not be known.
    Between(Option<NodeId>, NodeId),
}

/// One moment lies some time after another: at least, or at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Constraint {
    pub(crate) later: usize,
    pub(crate) earlier: usize,
    pub(crate) ms: i64,
    pub(crate) at_most: bool,
    pub(crate) counted: Counted,
    /// Whether a timer may be late by so much more than it says.
    pub(crate) with_lateness: bool,
}

/// One event of a path with its moment.
#[derive(Debug)]
pub(crate) struct Placed {
    /// Its moment; `None` for what happens at no time of the node's, such as the loss of a datagram.
    pub(crate) moment: Option<usize>,
    /// The event that sent what arrives here, if that is on the path.
    pub(crate) sent_by: Option<usize>,
    /// The timer that fires here, and when it is due: a moment and so much after it.
    pub(crate) due: Option<(usize, i64)>,
    /// The questions that were asked, each with the event at which its stamp was read, if that is on the path.
    pub(crate) asked: Vec<(Asked, Option<usize>)>,
}

/// A path as constraints.
#[derive(Debug)]
pub(crate) struct Constraints {
    pub(crate) moments: usize,
    /// The first moment on the path; those before have no order among themselves.
    pub(crate) path_from: usize,
    pub(crate) all: Vec<Constraint>,
    pub(crate) placed: Vec<Placed>,
    /// Whether an answer was given that no times allow.
    pub(crate) never: bool,
    /// Whether a handler did something with stamps that cannot be followed.
    pub(crate) looked: bool,
}

/// A datagram on its way.
struct Flying<M> {
    from: NodeId,
    to: NodeId,
    message: M,
    /// The event that sent it.
    sent_by: Option<usize>,
}

type Channel = (NodeId, NodeId, Connection);

/// Follows a path and gathers its constraints.
struct Tracer<S: Service> {
    system: Simulation<S>,
    out: Constraints,
    /// When something last happened at a node.
    last: BTreeMap<NodeId, usize>,
    armed: BTreeMap<(NodeId, S::Timer), Armed>,
    stamps: BTreeMap<Origin, Mark>,
    events: u32,
    datagrams: Vec<Flying<S::Message>>,
    wires: Wires,
}

/// What waits on connections, by the event that sent it.
#[derive(Default)]
struct Wires {
    channels: BTreeMap<Channel, Vec<usize>>,
    notices: BTreeMap<Channel, usize>,
}

impl Wires {
    fn send(&mut self, channel: Channel, number: usize) {
        self.channels.entry(channel).or_default().push(number);
    }

    /// Takes the first of what waits there, of which there is so much.
    fn take(&mut self, channel: Channel, waiting: usize) -> Option<usize> {
        let sent = self.channels.get_mut(&channel)?;
        // What waited on a connection that was forgotten meanwhile is gone; what was on its way from the start is not
        // known.
        let gone = sent.len().saturating_sub(waiting);
        sent.drain(..gone);
        (sent.len() == waiting && waiting > 0).then(|| sent.remove(0))
    }

    fn notify(&mut self, channel: Channel, number: usize) {
        self.notices.entry(channel).or_insert(number);
    }

    fn take_notice(&mut self, channel: Channel) -> Option<usize> {
        self.notices.remove(&channel)
    }
}

/// Gathers the constraints of a path. Returns `None` if it cannot be followed.
pub(crate) fn trace<S: Service>(
    start: &Simulation<S>,
    moments: Option<&Moments<S::Timer>>,
    path: &[Step<S>],
) -> Option<Constraints> {
    let mut tracer = Tracer::new(start, moments);
    for step in path {
        tracer.step(step)?;
    }
    tracer.end();
    Some(tracer.out)
}

impl<S: Service> Tracer<S> {
    fn new(start: &Simulation<S>, moments: Option<&Moments<S::Timer>>) -> Self {
        let mut tracer = Self {
            system: start.clone().with_moments(None),
            out: Constraints {
                moments: 1,
                path_from: 1,
                all: Vec::new(),
                placed: Vec::new(),
                never: false,
                looked: false,
            },
            last: start.nodes().keys().map(|&id| (id, 0)).collect(),
            armed: BTreeMap::new(),
            stamps: BTreeMap::new(),
            events: 0,
            datagrams: Vec::new(),
            wires: Wires::default(),
        };
        if let Some(moments) = moments {
            tracer.begin(moments);
        }
        for (&to, node) in start.nodes() {
            for (from, message, count) in node.inbox.datagrams() {
                tracer.datagrams.extend((0..count).map(|_| Flying {
                    from,
                    to,
                    message: message.clone(),
                    sent_by: None,
                }));
            }
        }
        tracer
    }

    /// Takes over what is known of the moments before the path.
    fn begin(&mut self, moments: &Moments<S::Timer>) {
        let zone = moments.zone();
        self.out.moments = zone.len();
        self.out.path_from = zone.len();
        for later in 0..zone.len() {
            for earlier in 0..zone.len() {
                let ms = zone.bound(later, earlier);
                if later != earlier && ms < NEVER {
                    self.at_most(later, earlier, ms, Counted::Truly);
                }
            }
        }
        self.last
            .extend(moments.floors().iter().map(|(&node, &at)| (node, at)));
        self.armed.clone_from(moments.armed());
        self.stamps.clone_from(moments.stamps());
        self.events = moments.events();
    }

    fn push(&mut self, later: usize, earlier: usize, ms: i64, at_most: bool, counted: Counted) {
        self.out.all.push(Constraint {
            later,
            earlier,
            ms,
            at_most,
            counted,
            with_lateness: false,
        });
    }

    fn at_most(&mut self, later: usize, earlier: usize, ms: i64, counted: Counted) {
        self.push(later, earlier, ms, true, counted);
    }

    fn at_least(&mut self, later: usize, earlier: usize, ms: i64, counted: Counted) {
        self.push(later, earlier, ms, false, counted);
    }

    /// A timer that is still armed has not waited longer than it may.
    fn not_late(&mut self, now: usize, node: NodeId, timer: &S::Timer, armed: Armed) {
        let event = Event::Timer(timer.clone());
        if self.system.steering().action::<S>(node, &event).is_some() {
            return;
        }
        self.out.all.push(Constraint {
            later: now,
            earlier: armed.at,
            ms: armed.most,
            at_most: true,
            counted: Counted::By(node),
            with_lateness: true,
        });
    }

    fn step(&mut self, step: &Step<S>) -> Option<()> {
        let number = self.out.placed.len();
        let (step, sent_by) = self.arrive(step);
        let taken = self.system.take(&step, Origin::on_path(self.events)).ok()?;
        let mut placed = Placed {
            moment: None,
            sent_by,
            due: None,
            asked: Vec::new(),
        };
        if taken.happened(&step).is_some() {
            let now = self.out.moments;
            self.out.moments += 1;
            placed.moment = Some(now);
            self.at_least(now, self.last[&step.node], 0, Counted::Truly);
            if let Some(sent) = sent_by.and_then(|by| self.out.placed[by].moment) {
                self.at_least(now, sent, 0, Counted::Truly);
            }
            self.last.insert(step.node, now);
            placed.due = self.timers(now, &step, &taken);
            if let Some(timed) = &taken.timed {
                self.out.looked |= timed.looked;
                placed.asked = self.handled(now, step.node, timed);
            }
            let left = &taken.node.local.timers;
            self.armed
                .retain(|(owner, timer), _| *owner != step.node || left.contains(timer));
            self.events += 1;
        }
        self.leave(number, &step, &taken);
        self.system.put(step.node, taken);
        self.out.placed.push(placed);
        Some(())
    }

    /// Notes the timer that fires, and those that are lost.
    fn timers(&mut self, now: usize, step: &Step<S>, taken: &Taken<S>) -> Option<(usize, i64)> {
        let node = step.node;
        let mut due = None;
        if let Event::Timer(timer) = &step.event
            && let Some(&armed) = self.armed.get(&(node, timer.clone()))
        {
            self.at_least(now, armed.at, armed.least, Counted::By(node));
            due = Some((armed.at, armed.least));
        }
        let own: Vec<(S::Timer, Armed)> = self
            .armed
            .iter()
            .filter(|((owner, _), _)| *owner == node)
            .map(|((_, timer), armed)| (timer.clone(), *armed))
            .collect();
        let reset = step.event.ends_incarnation();
        let left = &taken.node.local.timers;
        let anew = |timer: &S::Timer| {
            taken
                .timed
                .as_ref()
                .is_some_and(|timed| timed.armed.iter().any(|(armed, _)| armed == timer))
        };
        for (timer, armed) in own {
            let fires = matches!(&step.event, Event::Timer(fired) if *fired == timer);
            if reset || fires || anew(&timer) || !left.contains(&timer) {
                self.not_late(now, node, &timer, armed);
            }
        }
        if reset {
            self.armed.retain(|(owner, _), _| *owner != node);
        }
        due
    }

    /// Notes what the handler read, asked and armed.
    fn handled(
        &mut self,
        now: usize,
        node: NodeId,
        timed: &Timed<S::Timer>,
    ) -> Vec<(Asked, Option<usize>)> {
        if timed.read {
            let mark = Mark {
                at: now,
                node: Some(node),
            };
            self.stamps.insert(Origin::on_path(self.events), mark);
        }
        let mut asked_of = Vec::new();
        for asked in &timed.asked {
            let counted = |mark: Mark| match mark.node == Some(node) {
                true => Counted::By(node),
                false => Counted::Between(mark.node, node),
            };
            let answer = meaning(asked, |origin| self.stamps.get(&origin).copied());
            let at = match answer {
                Answer::Nothing => None,
                Answer::Never => {
                    self.out.never = true;
                    None
                }
                Answer::AtLeast(mark, ms) => {
                    self.at_least(now, mark.at, ms, counted(mark));
                    Some(mark.at)
                }
                Answer::AtMost(mark, ms) => {
                    self.at_most(now, mark.at, ms, counted(mark));
                    Some(mark.at)
                }
            };
            let event = at.and_then(|at| {
                self.out
                    .placed
                    .iter()
                    .position(|placed| placed.moment == Some(at))
            });
            asked_of.push((*asked, event));
        }
        for (timer, after) in &timed.armed {
            let key = (node, timer.clone());
            match *after {
                None => drop(self.armed.remove(&key)),
                Some(after) => {
                    let armed = Armed {
                        at: now,
                        least: whole(after),
                        most: over(after),
                    };
                    self.armed.insert(key, armed);
                }
            }
        }
        asked_of
    }

    /// Finds which message it is that arrives, and which event sent it.
    fn arrive(&mut self, step: &Step<S>) -> (Step<S>, Option<usize>) {
        let to = step.node;
        let mut step = step.clone();
        let sent_by = match &mut step.event {
            Event::Deliver { from, message } => {
                let at = self.find(*from, to, message);
                at.and_then(|at| {
                    let flying = self.datagrams.remove(at);
                    *message = flying.message;
                    flying.sent_by
                })
            }
            // The youngest is lost and the oldest doubled: that leaves more ways for the others.
            Event::Lose { from, message } => {
                let same = |flying: &Flying<S::Message>| {
                    (flying.from, flying.to) == (*from, to) && flying.message == *message
                };
                let at = self.datagrams.iter().rposition(same);
                at.and_then(|at| self.datagrams.remove(at).sent_by)
            }
            Event::Duplicate { from, message } => {
                let at = self.find(*from, to, message);
                at.and_then(|at| {
                    let flying = &self.datagrams[at];
                    let sent_by = flying.sent_by;
                    let again = Flying {
                        message: flying.message.clone(),
                        ..*flying
                    };
                    self.datagrams.push(again);
                    sent_by
                })
            }
            Event::Receive {
                from,
                connection,
                message,
            } => {
                let head = self.head_of(to, *from, *connection);
                if let Some(head) = head {
                    *message = head;
                }
                self.take_from_channel((to, *from, *connection))
            }
            Event::Refuse { from, connection } | Event::Hangup { from, connection } => {
                self.take_from_channel((to, *from, *connection))
            }
            Event::Disconnect { from, connection } => {
                self.wires.take_notice((to, *from, *connection))
            }
            Event::Timer(_)
            | Event::Call(_)
            | Event::Reset { .. }
            | Event::Stop
            | Event::Start
            | Event::Break { .. } => None,
        };
        (step, sent_by)
    }

    /// Finds the oldest such datagram, with the very stamps it has if that makes a difference.
    fn find(&self, from: NodeId, to: NodeId, message: &S::Message) -> Option<usize> {
        let origins = origins_in(message);
        let mut same = self.datagrams.iter().enumerate().filter(|(_, flying)| {
            (flying.from, flying.to) == (from, to) && flying.message == *message
        });
        let first = same.clone().next().map(|(at, _)| at);
        same.find(|(_, flying)| origins_in(&flying.message) == origins)
            .map(|(at, _)| at)
            .or(first)
    }

    fn head_of(&self, to: NodeId, from: NodeId, connection: Connection) -> Option<S::Message> {
        let inbox = &self.system.nodes().get(&to)?.inbox;
        let mut waiting = inbox
            .segments()
            .filter(|(sender, which, _)| (*sender, *which) == (from, connection));
        waiting.next()?.2.cloned()
    }

    fn take_from_channel(&mut self, channel: Channel) -> Option<usize> {
        let (to, from, connection) = channel;
        let inbox = &self.system.nodes().get(&to)?.inbox;
        let waiting = inbox
            .segments()
            .filter(|(sender, which, _)| (*sender, *which) == (from, connection))
            .count();
        self.wires.take(channel, waiting)
    }

    /// Notes what a step leaves for others.
    fn leave(&mut self, number: usize, step: &Step<S>, taken: &Taken<S>) {
        let from = step.node;
        if step.event.ends_incarnation() {
            self.datagrams
                .retain(|flying| (flying.from, flying.to) != (from, from));
        }
        let sent_by = Some(number);
        for (to, parcel) in &taken.parcels {
            let to = *to;
            match parcel {
                Parcel::Datagram(message) => self.datagrams.push(Flying {
                    from,
                    to,
                    message: message.clone(),
                    sent_by,
                }),
                Parcel::Segment { connection, .. } | Parcel::Close(connection) => {
                    self.wires.send((to, from, *connection), number);
                }
                Parcel::Notice(connection) => {
                    self.wires.notify((to, from, *connection), number);
                }
            }
        }
        self.note_own(number, from, &taken.node.inbox);
    }

    /// Notes datagrams of a node to itself, which are never parcels.
    fn note_own(
        &mut self,
        number: usize,
        me: NodeId,
        inbox: &crate::model::network::Inbox<S::Message>,
    ) {
        for (from, message, count) in inbox.datagrams().filter(|(from, ..)| *from == me) {
            let same = |flying: &&Flying<S::Message>| {
                (flying.from, flying.to) == (from, me) && flying.message == *message
            };
            let known = self.datagrams.iter().filter(same).count();
            for _ in known..count as usize {
                self.datagrams.push(Flying {
                    from,
                    to: me,
                    message: message.clone(),
                    sent_by: Some(number),
                });
            }
        }
    }

    /// The path ends after all that is on it, while no timer is late.
    fn end(&mut self) {
        let end = self.out.moments;
        self.out.moments += 1;
        let last: Vec<usize> = self.last.values().copied().collect();
        for moment in last {
            self.at_least(end, moment, 0, Counted::Truly);
        }
        for ((node, timer), armed) in std::mem::take(&mut self.armed) {
            self.not_late(end, node, &timer, armed);
        }
    }
}
