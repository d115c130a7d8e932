//! Own checkpoints: for peers that ask, and for this node's own gathers.

use scry_protocol::link::host::Checkpoint;
use scry_protocol::link::peer::{Refused, Request};
use scry_protocol::snapshot::{Reason, Refusal};
use scry_protocol::{CheckpointNumber, GatherId, NodeId};

use super::CheckpointManager;
use crate::Time;
use crate::gather::Held;
use crate::store::{Lookup, Stored};

/// Requests of one peer that may wait for the host: more than its gathers can have under way.
const WAITING_PER_PEER_MAX: usize = 16;

/// A request for a number that the host has not reached yet.
#[derive(Debug)]
pub(super) struct Waiting {
    asker: Asker,
    number: CheckpointNumber,
    pub(super) deadline: Time,
}

/// Who wants a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asker {
    Peer(NodeId, Request),
    Own(GatherId),
}

impl CheckpointManager {
    pub(super) fn handle_request(&mut self, now: Time, from: NodeId, request: Request) {
        // Who asks is there.
        self.missed.remove(&from);
        if let Some(known) = request.known {
            self.exchange.handle_confirmed(from, known);
        }
        self.serve(now, Asker::Peer(from, request), request.number);
    }

    /// Answers, refuses, or asks the host and waits.
    pub(super) fn serve(&mut self, now: Time, asker: Asker, number: CheckpointNumber) {
        let refusal = if self.shutting_down {
            Some(Refusal::ShuttingDown)
        } else if self.host.is_none() {
            Some(Refusal::NoHost)
        } else if !self.is_plausible(now, asker, number) {
            Some(Refusal::Implausible)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.refuse(now, asker, refusal);
        }
        match self.store.lookup(number) {
            Lookup::Found(stored) => {
                let stored = stored.clone();
                self.give(now, asker, &stored);
            }
            Lookup::Gone => self.refuse(now, asker, Refusal::OutOfRange),
            Lookup::NotYet if self.is_crowded(asker) => {
                self.refuse(now, asker, Refusal::Busy);
            }
            Lookup::NotYet => {
                self.waiting.push(Waiting {
                    asker,
                    number,
                    deadline: now.after_millis(self.options.host_wait_ms),
                });
                self.ask_host(number);
            }
        }
    }

    /// Tells whether the host may be asked to reach a number, as far as others move it.
    fn is_plausible(&mut self, now: Time, asker: Asker, number: CheckpointNumber) -> bool {
        let believed = match asker {
            Asker::Peer(from, _) => self.believes(now, from, number),
            Asker::Own(_) => true,
        };
        believed && self.leeway.take(now, self.promised, number)
    }

    /// Tells whether nobody, or not this peer, may wait any more; the own gathers always may.
    fn is_crowded(&self, asker: Asker) -> bool {
        let Asker::Peer(peer, _) = asker else {
            return false;
        };
        let of_peer = self
            .waiting
            .iter()
            .filter(|waiting| matches!(waiting.asker, Asker::Peer(from, _) if from == peer))
            .count();
        of_peer >= WAITING_PER_PEER_MAX || self.waiting.len() >= self.options.waiting_max
    }

    /// Takes in a checkpoint of the host: first for those who wait for it, then for later.
    pub(super) fn take_in(&mut self, now: Time, checkpoint: Checkpoint) {
        if self.host.is_none() || checkpoint.number <= self.floor {
            return;
        }
        let stored = Stored {
            number: checkpoint.number,
            after: checkpoint.after.max(self.floor),
            at: now,
            body: checkpoint.body,
        };
        // The store may have no room for it, so those who wait are answered before it goes there.
        let (due, later): (Vec<Waiting>, Vec<Waiting>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.number <= stored.number);
        self.waiting = later;
        self.store.reach(stored.number);
        self.promised = self.promised.max(stored.number);
        for waiting in due {
            if waiting.number > stored.after {
                self.give(now, waiting.asker, &stored);
            } else {
                self.refuse(now, waiting.asker, Refusal::OutOfRange);
            }
        }
        self.counts.pruned += self.store.insert(stored) as u64;
        self.refresh_neighborhood(now, checkpoint.neighbors.as_deref());
    }

    pub(super) fn expire_waiting(&mut self, now: Time) {
        let (due, later): (Vec<Waiting>, Vec<Waiting>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.deadline <= now);
        self.waiting = later;
        for waiting in due {
            self.refuse(now, waiting.asker, Refusal::NoHost);
        }
    }

    pub(super) fn refuse_waiting(&mut self, now: Time) {
        let refusal = if self.shutting_down {
            Refusal::ShuttingDown
        } else {
            Refusal::NoHost
        };
        for waiting in std::mem::take(&mut self.waiting) {
            self.refuse(now, waiting.asker, refusal);
        }
    }

    /// Forgets what a gather of this node waited for.
    pub(super) fn drop_waiting(&mut self, gather: GatherId) {
        self.waiting
            .retain(|waiting| !matches!(waiting.asker, Asker::Own(id) if id == gather));
    }

    fn give(&mut self, now: Time, asker: Asker, stored: &Stored) {
        match asker {
            Asker::Own(gather) => {
                let held = Held {
                    number: stored.number,
                    age_ms: now.millis_since(stored.at),
                    body: stored.body.clone(),
                };
                self.with_gather(now, gather, |gather, me| {
                    gather.handle_answer(now, me, held);
                });
            }
            Asker::Peer(to, request) => {
                let answer = self.exchange.answer(now, to, &request, stored);
                if self.send(now, to, &answer) {
                    self.exchange.handle_given(to, stored.number, &stored.body);
                } else {
                    self.counts.over_bandwidth += 1;
                    self.refuse(now, asker, Refusal::OverBandwidth);
                }
            }
        }
    }

    /// Refuses. If the limit does not even allow that, the asker will find the silence.
    fn refuse(&mut self, now: Time, asker: Asker, reason: Refusal) {
        let number = self.store.newest();
        match asker {
            Asker::Own(gather) => self.with_gather(now, gather, |gather, me| match reason {
                Refusal::OutOfRange => gather.handle_refusal(now, me, reason, number),
                Refusal::ShuttingDown => gather.handle_lost(now, me, Reason::ShuttingDown),
                Refusal::Implausible => gather.handle_lost(now, me, Reason::Implausible),
                _ => gather.handle_lost(now, me, Reason::NoHost),
            }),
            Asker::Peer(to, request) => {
                let refused = Refused {
                    id: request.id,
                    reason,
                    number,
                };
                self.send_leaving(now, to, &refused.into(), 0);
            }
        }
    }
}
