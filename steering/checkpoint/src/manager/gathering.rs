//! Snapshots: whom to ask, what the answers mean, when to start anew (A-31…A-35).

use std::collections::BTreeSet;

use scry_protocol::limit::MEMBERS_MAX;
use scry_protocol::link::host::{Arrived, AskNeighbors, LookAgain, Renew};
use scry_protocol::link::peer::{Changed, Confirm, Full, Refused, Request, RequestId, Same};
use scry_protocol::snapshot::{Missing, Reason, Refusal};
use scry_protocol::{Body, CheckpointNumber, GatherId, NodeId, Snapshot};

use super::answering::Asker;
use super::{CheckpointManager, Output};
use crate::Time;
use crate::exchange::ReadAnswerError;
use crate::gather::{self, Gather, Held};
use crate::leeway::{self, Leeway};

/// A gather under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) gather: Gather,
    purpose: Purpose,
    neighbors: BTreeSet<NodeId>,
    restarts: u32,
}

/// What a snapshot is gathered for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Purpose {
    /// It was time.
    Period,
    /// Somebody asked for it.
    Demand,
    /// The host holds an event and has asked this question.
    Look(u64),
}

/// How many questions of the host may be under way beside other gathers.
const LOOKS_MAX: usize = 16;
/// Who did not answer is asked again about events that are held after so long. On a busy machine everybody is late now and then,
/// and an event that is judged without its witness runs.
const MISSED_MS: u64 = 500;

/// A request to a peer whose answer has not come.
#[derive(Debug)]
pub(super) struct Asked {
    gather: GatherId,
    to: NodeId,
    /// The round it belongs to, by its number.
    number: CheckpointNumber,
    /// The checkpoint that was named as base for the answer.
    known: Option<Body>,
}

impl Purpose {
    /// Tells whether a gather for it starts anew when the neighborhood changes: not while an event waits for it.
    fn is_restarted(self) -> bool {
        !matches!(self, Self::Look(_))
    }
}

impl Asked {
    /// Reads an answer that is so far ahead of what was asked for.
    fn read(
        &self,
        ahead: u64,
        age_ms: u64,
        read: impl FnOnce(CheckpointNumber) -> Result<Body, ReadAnswerError>,
    ) -> Result<Held, ReadAnswerError> {
        let number = self.number.ahead(ahead).ok_or(ReadAnswerError::NoNumber)?;
        Ok(Held {
            number,
            age_ms,
            body: read(number)?,
        })
    }
}

/// Why a gather cannot start.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StartGatherError {
    /// No host is attached.
    #[error("no host is attached")]
    NoHost,
    /// As many are under way as may be.
    #[error("too many gathers are under way")]
    Busy,
    /// The agent is about to end.
    #[error("the agent is shutting down")]
    ShuttingDown,
}

impl CheckpointManager {
    /// Starts gathering a snapshot because somebody wants one, beside those under way.
    ///
    /// # Errors
    ///
    /// When it cannot start.
    pub fn handle_demand(&mut self, now: Time) -> Result<GatherId, StartGatherError> {
        self.start_gather(now, Purpose::Demand)
    }

    /// Gathers the neighbors' states for a host that holds an event. Who did not answer just now is not asked, unless the event
    /// is about it: the event waits for all who are, and only for a few milliseconds.
    pub(super) fn handle_look(&mut self, now: Time, look: &LookAgain) {
        let looks = self.gathers.values();
        let looks = looks.filter(|running| matches!(running.purpose, Purpose::Look(_)));
        if self.shutting_down || self.host.is_none() || looks.count() >= LOOKS_MAX {
            return;
        }
        let mut neighbors = self.neighborhood.current(now);
        neighbors.retain(|node| look.about == Some(*node) || !self.was_missed(now, *node));
        let options = gather::Options {
            rounds_max: self.options.gather.rounds_max,
            round_ms: look.wait_ms.clamp(1, self.options.gather.round_ms),
        };
        self.last_gather += 1;
        let id = GatherId::new(self.last_gather);
        let running = Running {
            gather: Gather::new(now, self.me, &neighbors, look.number, options),
            purpose: Purpose::Look(look.question),
            neighbors,
            restarts: 0,
        };
        self.gathers.insert(id, running);
        self.with_gather(now, id, |_, _| {});
    }

    /// Tells whether a neighbor has been silent so recently that it is not asked while an event is held.
    fn was_missed(&self, now: Time, node: NodeId) -> bool {
        let since = self.missed.get(&node);
        since.is_some_and(|since| now < since.after_millis(MISSED_MS))
    }

    /// Learns that a peer's agent cannot be reached.
    pub fn handle_peer_lost(&mut self, now: Time, peer: NodeId) {
        if !self
            .gathers
            .values()
            .any(|running| running.gather.awaits(peer))
        {
            return;
        }
        if self.neighborhood.asks_service() && self.host.is_some() {
            // It may be no neighbor any more: the service is asked before it is called dead.
            let deadline = now.after_millis(self.options.host_wait_ms);
            self.doubts.entry(peer).or_insert(deadline);
            self.outputs.push_back(Output::Host(AskNeighbors {}.into()));
        } else {
            self.resolve(now, peer);
        }
    }

    /// Takes in the service's word, and starts gathers anew whose neighborhood it changes.
    pub(super) fn refresh_neighborhood(&mut self, now: Time, neighbors: Option<&[NodeId]>) {
        if !self.neighborhood.asks_service() || neighbors.is_none() {
            return;
        }
        self.neighborhood.handle_service(neighbors);
        let current = self.neighborhood.current(now);
        let changed: Vec<GatherId> = self
            .gathers
            .iter()
            .filter(|(_, running)| running.neighbors != current && running.purpose.is_restarted())
            .map(|(&id, _)| id)
            .collect();
        for id in changed {
            self.restart(now, id);
        }
        for peer in std::mem::take(&mut self.doubts).into_keys() {
            self.resolve(now, peer);
        }
    }

    pub(super) fn expire_doubts(&mut self, now: Time) {
        let due: Vec<NodeId> = self
            .doubts
            .iter()
            .filter(|(_, deadline)| **deadline <= now)
            .map(|(&peer, _)| peer)
            .collect();
        for peer in due {
            self.doubts.remove(&peer);
            self.resolve(now, peer);
        }
    }

    pub(super) fn expire_rounds(&mut self, now: Time) {
        let due: Vec<GatherId> = self
            .gathers
            .iter()
            .filter(|(_, running)| running.gather.poll_timeout().is_some_and(|at| at <= now))
            .map(|(&id, _)| id)
            .collect();
        for id in due {
            self.with_gather(now, id, |gather, _| gather.handle_timeout(now));
        }
    }

    /// Lets logical time pass, with or without a snapshot of what is then.
    ///
    /// A gather that waits for a silent neighbor does not keep the next from starting, or what the others do meanwhile would
    /// not be seen. Of those under way the oldest is left to its end, so that one comes to an end however short the
    /// period, and the newest gives way to the next.
    pub(super) fn pass_period(&mut self, now: Time) {
        if !self.options.periods_gather {
            self.ask_host(self.store.newest().next());
            return;
        }
        if let [_, .., newest] = self.periodic(..)[..] {
            self.give_up(newest);
        }
        if self.start_gather(now, Purpose::Period).is_err() {
            self.counts.skipped += 1;
        }
    }

    /// Returns the gathers under way that began because it was time, by age.
    fn periodic(&self, which: impl std::ops::RangeBounds<GatherId>) -> Vec<GatherId> {
        let gathers = self.gathers.range(which);
        let periodic = gathers.filter(|(_, running)| running.purpose == Purpose::Period);
        periodic.map(|(&id, _)| id).collect()
    }

    fn give_up(&mut self, id: GatherId) {
        self.gathers.remove(&id);
        self.forget_requests(id);
        self.counts.skipped += 1;
    }

    fn start_gather(&mut self, now: Time, purpose: Purpose) -> Result<GatherId, StartGatherError> {
        if self.shutting_down {
            return Err(StartGatherError::ShuttingDown);
        }
        if self.host.is_none() {
            return Err(StartGatherError::NoHost);
        }
        let gathers = self.gathers.values();
        let gathers = gathers.filter(|running| running.purpose.is_restarted());
        if gathers.count() >= self.options.gathers_max {
            return Err(StartGatherError::Busy);
        }
        self.last_gather += 1;
        let id = GatherId::new(self.last_gather);
        self.begin(now, id, purpose, 0);
        Ok(id)
    }

    fn begin(&mut self, now: Time, id: GatherId, purpose: Purpose, restarts: u32) {
        let neighbors = self.neighborhood.current(now);
        self.tell_left_out(self.neighborhood.left_out_count(now), neighbors.len());
        let number = self.store.newest().max(self.floor).next();
        let gather = Gather::new(now, self.me, &neighbors, number, self.options.gather);
        let running = Running {
            gather,
            purpose,
            neighbors,
            restarts,
        };
        self.gathers.insert(id, running);
        self.with_gather(now, id, |_, _| {});
    }

    /// Says that there are too many neighbors, each time that their number has changed.
    fn tell_left_out(&mut self, count: usize, kept: usize) {
        if std::mem::replace(&mut self.left_out_count, count) != count && count > 0 {
            self.outputs
                .push_back(Output::NeighborsLeftOut { count, kept });
        }
    }

    /// Starts a gather anew under its old name, unless that was done too often.
    fn restart(&mut self, now: Time, id: GatherId) {
        let Some(running) = self.gathers.get(&id) else {
            return;
        };
        if running.restarts >= self.options.restarts_max || !running.purpose.is_restarted() {
            return;
        }
        let (purpose, restarts) = (running.purpose, running.restarts + 1);
        self.gathers.remove(&id);
        self.forget_requests(id);
        self.counts.restarts += 1;
        self.begin(now, id, purpose, restarts);
    }

    /// Decides about a peer that cannot be reached: dead, or no longer a neighbor.
    fn resolve(&mut self, now: Time, peer: NodeId) {
        let still_neighbor = self.neighborhood.current(now).contains(&peer);
        let waiting: Vec<GatherId> = self
            .gathers
            .iter()
            .filter(|(_, running)| running.gather.awaits(peer))
            .map(|(&id, _)| id)
            .collect();
        for id in waiting {
            if !still_neighbor {
                self.restart(now, id);
            }
            // A gather that was started anew does not await it any more.
            self.with_gather(now, id, |gather, _| {
                gather.handle_lost(now, peer, Reason::Dead);
            });
        }
    }

    pub(super) fn handle_full(&mut self, now: Time, from: NodeId, full: Full) {
        let Some(asked) = self.take_asked(from, full.id) else {
            return;
        };
        let held = asked.read(full.ahead, full.age_ms, |number| {
            self.exchange.read_full(from, number, full.body)
        });
        if held.is_ok()
            && let Some((base, _)) = self.exchange.known(from)
        {
            // A whole state may be large: its sender need not keep older ones for this node.
            self.send(now, from, &Confirm { base }.into());
        }
        self.handle_held(now, &asked, held);
    }

    pub(super) fn handle_changed(&mut self, now: Time, from: NodeId, changed: Changed) {
        let Some(asked) = self.take_asked(from, changed.id) else {
            return;
        };
        let held = asked.read(changed.ahead, changed.age_ms, |number| {
            let delta = changed.delta;
            let known = asked.known.as_ref();
            self.exchange.read_changed(from, number, known, delta)
        });
        self.handle_held(now, &asked, held);
    }

    pub(super) fn handle_same(&mut self, now: Time, from: NodeId, same: &Same) {
        let Some(asked) = self.take_asked(from, same.id) else {
            return;
        };
        let held = asked.read(same.ahead, same.age_ms, |number| {
            self.exchange.read_same(from, number, asked.known.as_ref())
        });
        self.handle_held(now, &asked, held);
    }

    pub(super) fn handle_refused(&mut self, now: Time, from: NodeId, refused: &Refused) {
        let Some(asked) = self.take_asked(from, refused.id) else {
            return;
        };
        let (reason, number) = (refused.reason, refused.number);
        // Only this reason makes others follow its number.
        let far = reason == Refusal::OutOfRange && !self.believes(now, from, number);
        self.with_round(now, &asked, |gather| match far {
            true => gather.handle_far(now, from, number),
            false => gather.handle_refusal(now, from, reason, number),
        });
    }

    fn handle_held(&mut self, now: Time, asked: &Asked, held: Result<Held, ReadAnswerError>) {
        let from = asked.to;
        match held {
            Ok(held) if !self.believes(now, from, held.number) => {
                self.exchange.forget_held(from);
                self.with_round(now, asked, |gather| {
                    gather.handle_far(now, from, held.number);
                });
            }
            Ok(held) => {
                self.unreadable.remove(&from);
                self.with_round(now, asked, |gather| gather.handle_answer(now, from, held));
            }
            Err(error) => {
                // Whatever went wrong, the next answer will be whole.
                self.exchange.forget_held(from);
                self.counts.unreadable += 1;
                if self.unreadable.insert(from) {
                    let why = error.to_string();
                    self.outputs.push_back(Output::Unreadable { from, why });
                }
                self.with_round(now, asked, |gather| {
                    gather.handle_lost(now, from, Reason::Unreadable);
                });
            }
        }
    }

    /// Finds what a peer's answer is for. An answer to what was not asked, or is of no use any more, cannot even be read:
    /// its number and its base are those of the request.
    fn take_asked(&mut self, from: NodeId, request: RequestId) -> Option<Asked> {
        if self.requests.get(&request)?.to != from {
            return None;
        }
        self.requests.remove(&request)
    }

    /// Tells a gather something about what it asked, if it is still in the same round.
    fn with_round(&mut self, now: Time, asked: &Asked, tell: impl FnOnce(&mut Gather)) {
        let running = self.gathers.get(&asked.gather);
        if running.is_some_and(|running| running.gather.number() == asked.number) {
            self.with_gather(now, asked.gather, |gather, _| tell(gather));
        }
    }

    /// Tells a gather something and does what it then wants.
    pub(super) fn with_gather(
        &mut self,
        now: Time,
        id: GatherId,
        tell: impl FnOnce(&mut Gather, NodeId),
    ) {
        let me = self.me;
        let Some(running) = self.gathers.get_mut(&id) else {
            return;
        };
        tell(&mut running.gather, me);
        // Doing what it wants may tell it more at once: the own checkpoint is often here.
        while let Some(running) = self.gathers.get_mut(&id)
            && let Some(output) = running.gather.poll_output()
        {
            match output {
                gather::Output::Ask { to, number } => self.ask(now, id, to, number),
                gather::Output::Follow(number) => self.follow(now, number),
                gather::Output::Yield(number) => self.give_way(now, number),
                gather::Output::Outlived(after) => {
                    let number = None;
                    self.renew_host(now, Renew { after, number });
                }
                gather::Output::Done(outcome) => {
                    let purpose = running.purpose;
                    self.gathers.remove(&id);
                    self.forget_requests(id);
                    if purpose == Purpose::Period && outcome.is_ok() {
                        // What an older one would show is over.
                        for older in self.periodic(..id) {
                            self.give_up(older);
                        }
                    }
                    self.finish(now, id, purpose, outcome);
                }
            }
        }
    }

    /// Goes where most of the neighbors are.
    fn follow(&mut self, now: Time, number: CheckpointNumber) {
        if number.get() <= leeway::FOLLOWED_MAX {
            self.leeway = Leeway::new(now);
            self.ask_host(number);
        }
    }

    /// Goes back to where most of the neighbors are.
    fn give_way(&mut self, now: Time, number: CheckpointNumber) {
        if let Some(after) = self.host {
            // Others may be further than those that were asked; whatever they are at lies below this.
            let number = number.ahead(leeway::YIELD_AHEAD);
            self.renew_host(now, Renew { after, number });
        }
    }

    fn ask(&mut self, now: Time, gather: GatherId, to: NodeId, number: CheckpointNumber) {
        if to == self.me {
            return self.serve(now, Asker::Own(gather), number);
        }
        self.last_request = self.last_request.wrapping_add(1);
        let id = RequestId::new(self.last_request);
        let (base, known) = self.exchange.known(to).unzip();
        let request = Request {
            id,
            number,
            known: base,
        };
        if self.send(now, to, &request.into()) {
            let asked = Asked {
                gather,
                to,
                number,
                known,
            };
            self.requests.insert(id, asked);
        } else {
            self.with_gather(now, gather, |gather, _| {
                gather.handle_lost(now, to, Reason::OverBandwidthHere);
            });
        }
    }

    fn forget_requests(&mut self, gather: GatherId) {
        self.requests.retain(|_, asked| asked.gather != gather);
        self.drop_waiting(gather);
    }

    fn finish(
        &mut self,
        now: Time,
        gather: GatherId,
        purpose: Purpose,
        outcome: Result<Snapshot, gather::GatherError>,
    ) {
        if let Ok(snapshot) = &outcome {
            self.tell_host_what_arrived(snapshot);
            self.note_missing(now, snapshot);
        }
        let on_demand = purpose == Purpose::Demand;
        let output = match (purpose, outcome) {
            // The host does not wait for what does not come.
            (Purpose::Look(_), Err(_)) => return,
            (Purpose::Look(question), Ok(mut snapshot)) => {
                self.add_unasked(&mut snapshot);
                Output::Looked { question, snapshot }
            }
            (_, Ok(snapshot)) => Output::Snapshot {
                gather,
                on_demand,
                snapshot,
            },
            (_, Err(error)) => Output::Failed {
                gather,
                on_demand,
                error,
            },
        };
        self.outputs.push_back(output);
    }

    fn note_missing(&mut self, now: Time, snapshot: &Snapshot) {
        for member in &snapshot.members {
            self.missed.remove(&member.node);
        }
        let missing = snapshot.missing.iter().map(|missing| (missing.node, now));
        self.missed.extend(missing);
    }

    /// Names those who were not asked among the missing: they are neighbors all the same.
    fn add_unasked(&self, snapshot: &mut Snapshot) {
        for &node in self.missed.keys() {
            if snapshot.missing.len() < MEMBERS_MAX
                && snapshot.member(node).is_none()
                && !snapshot.missing.iter().any(|missing| missing.node == node)
            {
                let reason = Reason::Silent;
                snapshot.missing.push(Missing { node, reason });
            }
        }
        snapshot
            .missing
            .sort_unstable_by_key(|missing| missing.node);
    }

    /// A peer to which the service only sends would never acknowledge by a message of its own: its checkpoint does.
    fn tell_host_what_arrived(&mut self, snapshot: &Snapshot) {
        for member in snapshot
            .members
            .iter()
            .filter(|member| member.node != self.me)
        {
            let Ok(content) = member.body.read() else {
                continue;
            };
            let channels: Vec<_> = content
                .channels
                .iter()
                .flat_map(|state| &state.receiving)
                .filter(|receiving| {
                    receiving.peer == self.me && Some(receiving.incarnation) == self.host
                })
                .map(|receiving| {
                    let acknowledged = scry_protocol::channel::Acknowledged {
                        incarnation: receiving.incarnation,
                        serial: receiving.serial,
                        received: receiving.received,
                    };
                    (receiving.transport, acknowledged)
                })
                .collect();
            if !channels.is_empty() {
                let arrived = Arrived {
                    peer: member.node,
                    // The member's checkpoint shows it at every number from the snapshot's on, up to its own.
                    number: snapshot.number,
                    channels,
                };
                self.outputs.push_back(Output::Host(arrived.into()));
            }
        }
    }
}
