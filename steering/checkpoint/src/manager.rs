//! The agent's checkpoint manager: answers peers, gathers snapshots, and keeps within its limits.
//!
//! Facts come from the host ([`HostToAgent`]), from peers ([`PeerMessage`]) and from the clock; work goes to both
//! ([`Output`]). Every byte between agents is counted here, so that frames are encoded here too.
//!
//! | module | what it does |
//! |---|---|
//! | `answering` | own checkpoints: for peers that ask, and for this node's own gathers |
//! | `gathering` | snapshots: whom to ask, what the answers mean, when to start anew |

mod answering;
mod gathering;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use scry_protocol::frame::{self, DecodeError};
use scry_protocol::link::host::{AgentToHost, Hello, HostToAgent, Renew, Renewed, TakeCheckpoint};
use scry_protocol::link::peer::{PeerMessage, RequestId};
use scry_protocol::{CheckpointNumber, GatherId, Incarnation, NodeId, Snapshot};

use crate::Time;
use crate::exchange::{self, Exchange};
use crate::gather::{self, GatherError};
use crate::leeway::{self, Leeway};
use crate::neighborhood::{self, Neighborhood, Source};
use crate::quota::{Limits, Quota};
use crate::store::Store;

pub use gathering::StartGatherError;

/// What is kept of the bandwidth for refusals, so that a node over its limit can say so.
const REFUSALS_BYTES: u64 = 64;

/// The host is asked to go on under another incarnation at most this often: whoever lies about it again and again costs little.
const RENEW_MS: u64 = 10_000;

/// How a manager behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often logical time passes, and a snapshot is gathered; never by itself if absent.
    pub period_ms: Option<u64>,
    /// Whether each period gathers a snapshot, or only takes a checkpoint: a node without a checker.
    pub periods_gather: bool,
    /// Rounds and their length.
    pub gather: gather::Options,
    /// How often a gather starts anew because the neighborhood changed.
    pub restarts_max: u32,
    /// How many gathers may run at once.
    pub gathers_max: usize,
    /// How long the host may take to answer.
    pub host_wait_ms: u64,
    /// How many requests may wait for the host.
    pub waiting_max: usize,
    /// Bytes of own checkpoints that are kept.
    pub store_quota_bytes: usize,
    /// Bytes that may be sent.
    pub limits: Limits,
    /// What the transport adds to each frame, as far as is known.
    pub frame_overhead_bytes: u64,
    /// Where the neighborhood comes from.
    pub neighborhood: Source,
    /// How many neighbors count.
    pub neighbors_max: usize,
    /// Bytes of peers' checkpoints that are kept, and of what was sent to them.
    pub exchange_bytes: usize,
    /// Where request ids begin: elsewhere at each start of an agent, so that an answer to a question of its last incarnation is
    /// not taken for one to a question of this one.
    pub first_request: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            period_ms: Some(10_000),
            periods_gather: true,
            gather: gather::Options::default(),
            restarts_max: 2,
            gathers_max: 4,
            host_wait_ms: 1_000,
            waiting_max: 256,
            store_quota_bytes: 16 << 20,
            limits: Limits::default(),
            frame_overhead_bytes: 0,
            neighborhood: Source::Service,
            neighbors_max: neighborhood::NEIGHBORS_DEFAULT,
            exchange_bytes: exchange::BYTES_DEFAULT,
            first_request: 0,
        }
    }
}

/// What a manager wants done.
#[derive(Debug, Eq, PartialEq)]
pub enum Output {
    /// Tell the host.
    Host(AgentToHost),
    /// Send a frame to a peer's agent.
    Peer {
        /// Whose.
        to: NodeId,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A snapshot is there.
    Snapshot {
        /// Which gather it comes from.
        gather: GatherId,
        /// Whether somebody asked for it, or it was time.
        on_demand: bool,
        /// The snapshot.
        snapshot: Snapshot,
    },
    /// The neighbors' states that the host asked for are there.
    Looked {
        /// The host's question.
        question: u64,
        /// Their states, at a number above the event that is held.
        snapshot: Snapshot,
    },
    /// A peer's answer could not be read. Said once, until one of that peer's can be read again.
    Unreadable {
        /// Whose.
        from: NodeId,
        /// What is wrong with it.
        why: String,
    },
    /// A peer's number was not believed. Said once, until it is plausible again.
    Implausible {
        /// Whose.
        from: NodeId,
        /// The number.
        number: CheckpointNumber,
    },
    /// There are more neighbors than may count: the others are not looked at. Said when their number has changed.
    NeighborsLeftOut {
        /// How many there are too many.
        count: usize,
        /// How many count.
        kept: usize,
    },
    /// A gather ended without a snapshot.
    Failed {
        /// Which.
        gather: GatherId,
        /// Whether somebody asked for it, or it was time.
        on_demand: bool,
        /// Why.
        error: GatherError,
    },
}

/// Bytes to and from one peer, headers included.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PeerTraffic {
    /// Sent.
    pub sent_bytes: u64,
    /// Received.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames received.
    pub received_frames: u64,
}

/// What a manager has counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Own checkpoints that had to go.
    pub pruned: u64,
    /// Answers refused because of the bandwidth limit.
    pub over_bandwidth: u64,
    /// Frames not sent at all because not even they were within the limit.
    pub unsent: u64,
    /// Answers of peers that could not be read.
    pub unreadable: u64,
    /// Numbers of peers that were not believed.
    pub implausible: u64,
    /// How often the host was asked to go on under another incarnation.
    pub renewals: u64,
    /// Gathers that started anew.
    pub restarts: u64,
    /// Periods in which no gather could start, or whose gather was given up for a newer one.
    pub skipped: u64,
}

/// Drives checkpoints and snapshots of one node. Feed it a fact, poll until `None`, feed it the next.
#[derive(Debug)]
pub struct CheckpointManager {
    me: NodeId,
    options: Options,
    /// The incarnation of the host that is attached.
    host: Option<Incarnation>,
    /// The incarnation whose checkpoints are stored.
    last_incarnation: Option<Incarnation>,
    /// The greatest number any earlier incarnation of the host had: what was given out for it must stay true.
    floor: CheckpointNumber,
    /// How far peers may move the host's number.
    leeway: Leeway,
    /// The greatest number the host has reached, or was asked to.
    promised: CheckpointNumber,
    /// When the host was last asked to go on under another incarnation.
    renewed: Option<Time>,
    service_bytes: u64,
    store: Store,
    exchange: Exchange,
    neighborhood: Neighborhood,
    /// How many neighbors there were too many when a gather began last.
    left_out_count: usize,
    quota: Quota,
    waiting: Vec<answering::Waiting>,
    gathers: BTreeMap<GatherId, gathering::Running>,
    requests: BTreeMap<RequestId, gathering::Asked>,
    /// Members that cannot be reached, until it is clear whether they are still neighbors.
    doubts: BTreeMap<NodeId, Time>,
    /// Peers whose last answer could not be read.
    unreadable: BTreeSet<NodeId>,
    /// Peers whose last number was not believed.
    implausible: BTreeSet<NodeId>,
    /// Neighbors that were not in the last snapshot they were asked for, and when it ended.
    missed: BTreeMap<NodeId, Time>,
    next_period: Option<Time>,
    last_gather: u64,
    last_request: u16,
    shutting_down: bool,
    traffic: BTreeMap<NodeId, PeerTraffic>,
    counts: Counts,
    outputs: VecDeque<Output>,
}

impl CheckpointManager {
    /// Begins without a host.
    pub fn new(me: NodeId, options: Options) -> Self {
        Self {
            me,
            host: None,
            last_incarnation: None,
            floor: CheckpointNumber::ZERO,
            leeway: Leeway::new(Time::default()),
            promised: CheckpointNumber::ZERO,
            renewed: None,
            service_bytes: 0,
            store: Store::new(options.store_quota_bytes),
            exchange: Exchange::new(options.exchange_bytes),
            neighborhood: Neighborhood::new(
                me,
                options.neighborhood.clone(),
                options.neighbors_max,
            ),
            left_out_count: 0,
            quota: Quota::new(options.limits),
            waiting: Vec::new(),
            gathers: BTreeMap::new(),
            requests: BTreeMap::new(),
            doubts: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            implausible: BTreeSet::new(),
            missed: BTreeMap::new(),
            next_period: None,
            last_gather: 0,
            last_request: options.first_request,
            shutting_down: false,
            traffic: BTreeMap::new(),
            counts: Counts::default(),
            outputs: VecDeque::new(),
            options,
        }
    }

    /// Takes in what the host says. What concerns others (filters, say) is passed over.
    pub fn handle_host(&mut self, now: Time, message: HostToAgent) {
        match message {
            HostToAgent::Hello(hello) => self.attach(now, &hello),
            HostToAgent::Checkpoint(checkpoint) => self.take_in(now, checkpoint),
            HostToAgent::Neighbors(message) => {
                self.refresh_neighborhood(now, message.neighbors.as_deref());
            }
            HostToAgent::Contacts(message) => {
                self.neighborhood.handle_contacts(now, &message.contacts);
            }
            HostToAgent::Stats(stats) => {
                let new = stats.sent_bytes.saturating_sub(self.service_bytes);
                self.service_bytes = stats.sent_bytes;
                self.quota.handle_service_bytes(now, new);
            }
            HostToAgent::Goodbye(_) => self.handle_host_gone(now),
            HostToAgent::LookAgain(look) => self.handle_look(now, &look),
            HostToAgent::Renewed(renewed) => self.handle_renewed(now, renewed),
            HostToAgent::FilterHit(_)
            | HostToAgent::FilterEnded(_)
            | HostToAgent::Suspicion(_)
            | HostToAgent::Veto(_)
            | HostToAgent::FailedOpen(_)
            | HostToAgent::PredictionAnswer(_) => {}
        }
    }

    /// Learns that the host is gone: its process ended or its socket closed.
    pub fn handle_host_gone(&mut self, now: Time) {
        self.host = None;
        self.next_period = None;
        self.refuse_waiting(now);
    }

    /// Takes in a frame from a peer's agent, and returns it if it is not about checkpoints.
    ///
    /// # Errors
    ///
    /// When it is no frame; the link to that peer should be closed then.
    pub fn handle_frame(
        &mut self,
        now: Time,
        from: NodeId,
        frame: &[u8],
    ) -> Result<Option<PeerMessage>, DecodeError> {
        let message = frame::decode_one(frame)?;
        Ok(self.handle_peer(now, from, message, frame.len()))
    }

    /// Takes in what a peer's agent said in a frame of so many bytes, and returns it if it is not about checkpoints.
    pub fn handle_peer(
        &mut self,
        now: Time,
        from: NodeId,
        message: PeerMessage,
        frame_bytes: usize,
    ) -> Option<PeerMessage> {
        let traffic = self.traffic.entry(from).or_default();
        traffic.received_frames += 1;
        traffic.received_bytes += frame_bytes as u64 + self.options.frame_overhead_bytes;
        match message {
            PeerMessage::Request(request) => self.handle_request(now, from, request),
            PeerMessage::Confirm(confirm) => self.exchange.handle_confirmed(from, confirm.base),
            PeerMessage::Full(full) => self.handle_full(now, from, full),
            PeerMessage::Changed(changed) => self.handle_changed(now, from, changed),
            PeerMessage::Same(same) => self.handle_same(now, from, &same),
            PeerMessage::Refused(refused) => self.handle_refused(now, from, &refused),
            other @ (PeerMessage::SharePath(_) | PeerMessage::PathAnswer(_)) => {
                return Some(other);
            }
        }
        None
    }

    /// Sends a message that is not about checkpoints to a peer, if that is within the limits, and tells whether it is:
    /// whatever agents say to each other is counted, and limited, together.
    pub fn handle_message(&mut self, now: Time, to: NodeId, message: &PeerMessage) -> bool {
        self.send(now, to, message)
    }

    /// Learns that time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.expire_waiting(now);
        self.expire_doubts(now);
        self.expire_rounds(now);
        if let (Some(due), Some(period_ms)) = (self.next_period, self.options.period_ms)
            && now >= due
        {
            self.next_period = Some(now.after_millis(period_ms.max(1)));
            self.pass_period(now);
        }
    }

    /// Refuses all requests from now on.
    pub fn handle_shutdown(&mut self, now: Time) {
        self.shutting_down = true;
        self.refuse_waiting(now);
    }

    /// Returns what is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Time> {
        let waiting = self.waiting.iter().map(|waiting| waiting.deadline);
        let rounds = self
            .gathers
            .values()
            .filter_map(|running| running.gather.poll_timeout());
        waiting
            .chain(rounds)
            .chain(self.doubts.values().copied())
            .chain(self.next_period)
            .min()
    }

    /// Returns how this manager behaves.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the number the host has reached, as far as is known here.
    pub fn number(&self) -> CheckpointNumber {
        self.store.newest()
    }

    /// Returns how many own checkpoints are kept, and how many bytes they are charged.
    pub fn stored(&self) -> (usize, usize) {
        self.store.size()
    }

    /// Returns the bytes to and from each peer.
    pub fn traffic(&self) -> &BTreeMap<NodeId, PeerTraffic> {
        &self.traffic
    }

    /// Returns what was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn attach(&mut self, now: Time, hello: &Hello) {
        let last_incarnation = self.last_incarnation.replace(hello.incarnation);
        if last_incarnation != Some(hello.incarnation) {
            // The states of an incarnation that is over help nobody, and what is kept must be of one incarnation.
            self.floor = self.floor.max(self.store.newest());
            self.store.clear();
            self.service_bytes = 0;
            self.leeway = Leeway::new(now);
        }
        if leeway::is_far(hello.number, self.floor) {
            // It did not forget: its number was absurd, and it began anew.
            self.begin_numbers_anew();
        }
        self.host = Some(hello.incarnation);
        self.store.reach(hello.number);
        self.promised = self.promised.max(hello.number);
        if hello.number <= self.floor && self.floor > CheckpointNumber::ZERO {
            // This incarnation forgot how far the last one was: see `flight` for what may come of it until it is lifted.
            self.ask_host(self.floor.next());
        }
        if let Some(after) = last_incarnation
            && after != hello.incarnation
            && !hello.incarnation.is_after(after)
        {
            // Its clock was set back, and it keeps no disk: others would take what it sends for older than it is. That comes
            // of a restart and not of what others say, so it does not count against how often they may ask for it.
            self.renewed = None;
            let number = None;
            self.renew_host(now, Renew { after, number });
        }
        if self.neighborhood.asks_service() {
            self.outputs.push_back(Output::Host(
                scry_protocol::link::host::AskNeighbors {}.into(),
            ));
        }
        if let Some(period_ms) = self.options.period_ms {
            self.next_period.get_or_insert(now.after_millis(period_ms));
        }
    }

    fn begin_numbers_anew(&mut self) {
        self.floor = CheckpointNumber::ZERO;
        self.promised = CheckpointNumber::ZERO;
        self.store = Store::new(self.options.store_quota_bytes);
    }

    /// Learns that the host goes on under another incarnation.
    fn handle_renewed(&mut self, now: Time, renewed: Renewed) {
        if self.host.is_none() {
            return;
        }
        let Renewed { incarnation, born } = renewed;
        self.last_incarnation = Some(incarnation);
        self.host = Some(incarnation);
        self.floor = self.floor.max(self.store.newest());
        self.store.clear();
        if born <= self.floor {
            self.begin_numbers_anew();
            self.leeway = Leeway::new(now);
            // What was asked for with the old number is answered by nobody.
            self.refuse_waiting(now);
        }
        self.promised = self.promised.max(born);
    }

    /// Asks the host to go on under another incarnation, unless that was done just now.
    fn renew_host(&mut self, now: Time, renew: Renew) {
        let lately = |at: Time| now.millis_since(at) < RENEW_MS;
        if self.host.is_none() || self.renewed.is_some_and(lately) {
            return;
        }
        self.renewed = Some(now);
        self.counts.renewals += 1;
        self.outputs.push_back(Output::Host(renew.into()));
    }

    /// Tells whether a number of a peer is one to go by: not further ahead than honest ones can be.
    fn believes(&mut self, now: Time, from: NodeId, number: CheckpointNumber) -> bool {
        if self.leeway.admits(now, self.promised, number) {
            self.implausible.remove(&from);
            return true;
        }
        self.counts.implausible += 1;
        if self.implausible.insert(from) {
            self.outputs.push_back(Output::Implausible { from, number });
        }
        false
    }

    fn ask_host(&mut self, number: CheckpointNumber) {
        self.promised = self.promised.max(number);
        self.outputs
            .push_back(Output::Host(TakeCheckpoint { number }.into()));
    }

    /// Sends a message if that is within the limits and leaves enough to refuse others, and tells whether it did.
    fn send(&mut self, now: Time, to: NodeId, message: &PeerMessage) -> bool {
        self.send_leaving(now, to, message, REFUSALS_BYTES)
    }

    fn send_leaving(
        &mut self,
        now: Time,
        to: NodeId,
        message: &PeerMessage,
        left_bytes: u64,
    ) -> bool {
        let Ok(frame) = frame::encode(message) else {
            // Only a body at the very limit, which the difference or the packing made longer, does not fit.
            self.counts.unsent += 1;
            return false;
        };
        let bytes = frame.len() as u64 + self.options.frame_overhead_bytes;
        if !self.quota.affords(now, bytes + left_bytes) || !self.quota.spend(now, bytes) {
            self.counts.unsent += 1;
            return false;
        }
        let traffic = self.traffic.entry(to).or_default();
        traffic.sent_frames += 1;
        traffic.sent_bytes += bytes;
        self.outputs.push_back(Output::Peer { to, frame });
        true
    }
}

#[cfg(test)]
mod tests;
