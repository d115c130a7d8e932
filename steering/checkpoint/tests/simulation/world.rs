//! The simulated machines and network.

mod cuts;
mod deceit;
mod faults;
mod traffic;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use scry_checkpoint::channel::{self, Lane};
use scry_checkpoint::manager::{Options, Output};
use scry_checkpoint::neighborhood::Source;
use scry_checkpoint::past::PastOptions;
use scry_checkpoint::recorder::Capture;
use scry_checkpoint::{CheckpointManager, Recorder, Time, gather};
use scry_protocol::NodeId;
use scry_protocol::channel::Envelope;
use scry_protocol::link::host::{
    AgentToHost, Checkpoint, Hello, HostToAgent, Neighbors, Stats, Surroundings,
};
use scry_protocol::snapshot::{Missing, Reason};
use scry_protocol::{Body, CheckpointNumber, GatherId, Incarnation, Snapshot, Transport};

use crate::chance::Chance;
use crate::ghost::{Clock, Ghost, Name, State};
use crate::{Sabotage, Scenario, lies};

/// What a run saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) events: u64,
    pub(crate) snapshots: u64,
    pub(crate) complete: u64,
    pub(crate) later_rounds: u64,
    pub(crate) failed: u64,
    pub(crate) in_flight: u64,
    pub(crate) forced: u64,
    pub(crate) crashes: u64,
    pub(crate) restarts: u64,
    pub(crate) control_bytes: u64,
    pub(crate) refused_frames: u64,
    pub(crate) inconsistent: u64,
    /// Neighbors' states that might be judged with, and that might not.
    pub(crate) judged: u64,
    pub(crate) stale: u64,
    /// Questions for the neighbors' present states: gathered, answered while nothing happened, and states among those
    /// answers that had gone by when the question was asked.
    pub(crate) looks: u64,
    pub(crate) answered: u64,
    pub(crate) gone_by: u64,
    /// Stamps that hosts refused, and incarnations they began because of what others said.
    pub(crate) refused_stamps: u64,
    pub(crate) renewals: u64,
    /// Snapshots of honest nodes from which an honest neighbor is missing.
    pub(crate) incomplete: u64,
}

/// All machines, the network between them, and the clock.
pub(crate) struct World {
    scenario: Scenario,
    chance: Chance,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    happenings: Vec<Option<Happening>>,
    free: Vec<usize>,
    scheduled: u64,
    machines: Vec<Machine>,
    /// The connections that are not broken, by number, each with its ends.
    connections: BTreeMap<u64, (NodeId, NodeId)>,
    last_connection: u64,
    ghost: Ghost,
    /// Gathers that were demanded and have not ended, with when they began.
    demanded: BTreeMap<(usize, u64, GatherId), u64>,
    summary: Summary,
    ending: bool,
}

struct Machine {
    id: NodeId,
    life: u64,
    host: Option<Host>,
    durable: CheckpointNumber,
    neighbors: Vec<NodeId>,
    agent: CheckpointManager,
    agent_life: u64,
    /// When the links between host and agent have delivered everything so far: they keep order.
    to_agent: u64,
    to_host: u64,
    wakes: BTreeSet<u64>,
    /// What its agent last knew of others.
    known: BTreeMap<NodeId, (CheckpointNumber, Body)>,
    /// How far its clock is ahead.
    clock_ms: u64,
    /// All incarnations it has had.
    lives: Vec<Incarnation>,
    /// Where those of its present process begin, and whether that began below a number the node had.
    process_from: usize,
    fell: bool,
    renewed_at: u64,
    /// When its last snapshot came, and whether an honest neighbor was missing from it.
    last_snapshot: Option<(u64, Vec<Missing>)>,
}

struct Host {
    state: State,
    /// What properties would read of it.
    shown: u64,
    recorder: Recorder,
    connections: BTreeMap<NodeId, Connection>,
    sent_bytes: u64,
    surroundings: Option<Surroundings>,
    last_question: u64,
    /// Questions under way: when they were asked, and after how many events.
    questions: BTreeMap<u64, (u64, u64)>,
}

/// One end of a connection.
#[derive(Clone, Copy)]
struct Connection {
    number: u64,
    sending: u32,
    receiving: Option<(Incarnation, u32)>,
}

enum Happening {
    /// The service's timer fires.
    Tick(usize, u64),
    Arrive {
        at: usize,
        name: Name,
        envelope: Vec<u8>,
        connection: Option<u64>,
        /// What really lies in its past.
        clock: Clock,
    },
    Disconnect {
        at: usize,
        life: u64,
        peer: NodeId,
        connection: u64,
    },
    ToAgent(usize, u64, HostToAgent),
    HostGone(usize, u64),
    ToHost(usize, u64, AgentToHost),
    Frame {
        at: usize,
        agent_life: u64,
        from: NodeId,
        frame: Vec<u8>,
    },
    PeerLost(usize, u64, NodeId),
    Wake(usize, u64),
    Restart(usize),
    Demand(usize),
}

/// What clocks say at the beginning, about.
const FIRST_CLOCK_MS: u64 = 1_790_000_000_000;
/// How long after the last lie everything must be well again.
const HEALED_MS: u64 = 60_000;
const ROUND_MS: u64 = 400;
const PERIOD_MS: u64 = 1_000;
const HOST_WAIT_MS: u64 = 200;
/// Rounds times restarts, and the waits between.
const LONGEST_GATHER_MS: u64 = 3 * (4 * ROUND_MS + 2 * HOST_WAIT_MS) + 100;

impl World {
    pub(crate) fn new(scenario: Scenario, seed: u64) -> Self {
        let options = Options {
            period_ms: Some(PERIOD_MS),
            gather: gather::Options {
                rounds_max: 4,
                round_ms: ROUND_MS,
            },
            host_wait_ms: HOST_WAIT_MS,
            store_quota_bytes: scenario.store_quota_bytes,
            limits: scenario.limits,
            frame_overhead_bytes: 40,
            neighborhood: Source::Service,
            ..Options::default()
        };
        let mut world = Self {
            scenario,
            chance: Chance::new(seed),
            now: 0,
            queue: BinaryHeap::new(),
            happenings: Vec::new(),
            free: Vec::new(),
            scheduled: 0,
            machines: (0..scenario.nodes)
                .map(|id| Machine {
                    id: NodeId::new(id),
                    life: 0,
                    host: None,
                    durable: CheckpointNumber::ZERO,
                    neighbors: Vec::new(),
                    agent: CheckpointManager::new(NodeId::new(id), options.clone()),
                    agent_life: 0,
                    to_agent: 0,
                    to_host: 0,
                    wakes: BTreeSet::new(),
                    known: BTreeMap::new(),
                    clock_ms: FIRST_CLOCK_MS,
                    lives: Vec::new(),
                    process_from: 0,
                    fell: false,
                    renewed_at: 0,
                    last_snapshot: None,
                })
                .collect(),
            connections: BTreeMap::new(),
            last_connection: 0,
            ghost: Ghost::default(),
            demanded: BTreeMap::new(),
            summary: Summary::default(),
            ending: false,
        };
        for at in 0..world.machines.len() {
            world.choose_neighbors(at);
            world.start_host(at);
            let after = world.chance.within(0..2_000);
            world.schedule(after, Happening::Demand(at));
        }
        world
    }

    pub(crate) fn run(mut self, events: u64) -> Result<Summary, String> {
        while self.summary.events < events {
            self.step()?;
        }
        // Nothing new begins; whatever is under way must end by itself.
        self.ending = true;
        let heals = self.scenario.lies.any();
        let end = self.now + if heals { HEALED_MS } else { LONGEST_GATHER_MS };
        while self
            .queue
            .peek()
            .is_some_and(|Reverse((at, ..))| *at <= end)
        {
            self.step()?;
        }
        if let Some(((at, _, gather), since)) = self.demanded.first_key_value() {
            return Err(format!(
                "{gather} at node {at} hangs since {since} ms, now {}",
                self.now
            ));
        }
        if heals {
            self.check_healed()?;
        }
        for machine in &self.machines {
            if let Some(host) = &machine.host {
                self.summary.refused_stamps += host.recorder.refused().count();
            }
            let traffic = machine.agent.traffic().values();
            self.summary.control_bytes += traffic.map(|peer| peer.sent_bytes).sum::<u64>();
            self.summary.restarts += machine.agent.counts().restarts;
        }
        Ok(self.summary)
    }

    fn step(&mut self) -> Result<(), String> {
        let Reverse((at, _, slot)) = self.queue.pop().expect("timers never end");
        self.now = at;
        self.free.push(slot);
        let happening = self.happenings[slot].take().expect("scheduled once");
        self.happen(happening)
    }

    fn schedule(&mut self, after: u64, happening: Happening) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.happenings.push(None);
            self.happenings.len() - 1
        });
        self.happenings[slot] = Some(happening);
        self.scheduled += 1;
        self.queue
            .push(Reverse((self.now + after, self.scheduled, slot)));
    }

    fn time(&self) -> Time {
        Time::from_millis(self.now)
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        let now = self.time();
        match happening {
            Happening::Tick(at, life) => self.tick(at, life),
            Happening::Arrive {
                at,
                name,
                envelope,
                connection,
                clock,
            } => return self.arrive(at, name, &envelope, connection, &clock),
            Happening::Disconnect {
                at,
                life,
                peer,
                connection,
            } => self.disconnect(at, life, peer, connection),
            Happening::ToAgent(at, agent_life, message) => {
                if self.machines[at].agent_life == agent_life {
                    self.machines[at].agent.handle_host(now, message);
                    return self.settle(at);
                }
            }
            Happening::HostGone(at, agent_life) => {
                if self.machines[at].agent_life == agent_life {
                    self.machines[at].agent.handle_host_gone(now);
                    return self.settle(at);
                }
            }
            Happening::ToHost(at, life, message) => return self.obey(at, life, message),
            Happening::Frame {
                at,
                agent_life,
                from,
                frame,
            } => {
                if self.machines[at].agent_life == agent_life {
                    let taken = self.machines[at].agent.handle_frame(now, from, &frame);
                    match taken {
                        Ok(None) => {}
                        // The shell closes the link, which both ends then see.
                        Err(_) if self.scenario.damage > 0 => {
                            self.summary.refused_frames += 1;
                            let there = from.get() as usize;
                            let (here, life) =
                                (self.machines[at].id, self.machines[there].agent_life);
                            self.schedule(1, Happening::PeerLost(at, agent_life, from));
                            self.schedule(20, Happening::PeerLost(there, life, here));
                        }
                        other => return Err(format!("an agent's frame is refused: {other:?}")),
                    }
                    return self.settle(at);
                }
            }
            Happening::PeerLost(at, agent_life, peer) => {
                if self.machines[at].agent_life == agent_life {
                    self.machines[at].agent.handle_peer_lost(now, peer);
                    return self.settle(at);
                }
            }
            Happening::Wake(at, agent_life) => {
                self.machines[at].wakes.remove(&self.now);
                if self.machines[at].agent_life == agent_life {
                    self.machines[at].agent.handle_timeout(now);
                }
                return self.settle(at);
            }
            Happening::Restart(at) => {
                if self.machines[at].host.is_none() {
                    self.start_host(at);
                }
            }
            Happening::Demand(at) => return self.demand(at),
        }
        Ok(())
    }

    fn choose_neighbors(&mut self, at: usize) {
        let others: Vec<NodeId> = (0..self.scenario.nodes)
            .map(NodeId::new)
            .filter(|node| node.get() as usize != at)
            .collect();
        let mut neighbors = others;
        while neighbors.len() > 4 {
            let out = self.chance.below(neighbors.len() as u64) as usize;
            neighbors.remove(out);
        }
        self.machines[at].neighbors = neighbors;
    }

    fn start_host(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        machine.life += 1;
        let (incarnation, born) = self.begin_incarnation(at);
        let machine = &mut self.machines[at];
        let state = State {
            life: machine.life,
            ..State::default()
        };
        let channels = self.scenario.channels.then(channel::Options::default);
        let capture = capture(&state, &machine.neighbors);
        let (recorder, first) = Recorder::begin(
            Time::from_millis(self.now),
            incarnation,
            born,
            channels,
            PastOptions {
                me: NodeId::new(at as u32),
                entries_max: self.scenario.past_entries_max,
                former: None,
            },
            || capture,
        );
        // What it kept on disk came of what its last incarnation had heard, unless it keeps none. Who loses its number while lies
        // have brought the others further than clocks could cannot know that: see ARCHITECTURE.md.
        let lies = &self.scenario.lies;
        let former = match lies.clocks || (machine.fell && lies.tells()) {
            true => Clock::new(),
            false => self.ghost.clock(machine.id, machine.life - 1),
        };
        let life = machine.life;
        self.ghost.happened(self.now, machine.id, life, 0, &former);
        machine.host = Some(Host {
            state,
            shown: 0,
            recorder,
            connections: BTreeMap::new(),
            sent_bytes: 0,
            surroundings: None,
            last_question: 0,
            questions: BTreeMap::new(),
        });
        self.greet(at);
        self.stream(at, first.expect("a small state"));
        let after = self.chance.within(1..20);
        self.schedule(after, Happening::Tick(at, life));
    }

    fn greet(&mut self, at: usize) {
        let machine = &self.machines[at];
        let Some(host) = &machine.host else {
            return;
        };
        let hello = Hello {
            node: machine.id,
            incarnation: host.recorder.incarnation(),
            born: host.recorder.born(),
            number: host.recorder.number(),
            service: "simulated".to_owned(),
            version: "1".to_owned(),
            checks: false,
        };
        self.tell_agent(at, hello.into());
    }

    /// Streams a checkpoint, unless the queue to the agent is full.
    fn stream(&mut self, at: usize, checkpoint: Checkpoint) {
        if !self.chance.per_mille(self.scenario.stream_loss) {
            self.tell_agent(at, checkpoint.into());
        }
    }

    fn tell_agent(&mut self, at: usize, message: HostToAgent) {
        let delay = self.chance.below(self.scenario.host_link_ms);
        let machine = &mut self.machines[at];
        machine.to_agent = machine.to_agent.max(self.now + delay);
        let (after, life) = (machine.to_agent - self.now, machine.agent_life);
        self.schedule(after, Happening::ToAgent(at, life, message));
    }

    fn tell_host(&mut self, at: usize, message: AgentToHost) {
        let delay = self.chance.below(self.scenario.host_link_ms);
        let machine = &mut self.machines[at];
        machine.to_host = machine.to_host.max(self.now + delay);
        let (after, life) = (machine.to_host - self.now, machine.life);
        self.schedule(after, Happening::ToHost(at, life, message));
    }

    fn obey(&mut self, at: usize, life: u64, message: AgentToHost) -> Result<(), String> {
        let now = self.time();
        let machine = &mut self.machines[at];
        if machine.life != life {
            return Ok(());
        }
        let Some(host) = &mut machine.host else {
            return Ok(());
        };
        match message {
            AgentToHost::TakeCheckpoint(take) => {
                let capture = || capture(&host.state, &machine.neighbors);
                let taken = host.recorder.handle_take(now, take.number, capture);
                if let Some(checkpoint) = taken.expect("a small state") {
                    self.stream(at, checkpoint);
                }
            }
            AgentToHost::AskNeighbors(_) => {
                let neighbors = Some(machine.neighbors.clone());
                self.tell_agent(at, Neighbors { neighbors }.into());
            }
            AgentToHost::Renew(renew) => self.renew(at, renew),
            AgentToHost::Arrived(arrived) => host.recorder.handle_arrived(&arrived),
            AgentToHost::Surroundings(surroundings) => {
                let answers = surroundings.answers;
                host.surroundings = Some(surroundings);
                let asked = answers.and_then(|question| host.questions.remove(&question));
                self.judge_surroundings(at, asked)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The service acts by itself, and now and then something breaks.
    fn tick(&mut self, at: usize, life: u64) {
        if self.machines[at].life != life || self.machines[at].host.is_none() {
            return;
        }
        let after = self.chance.within(5..25);
        self.schedule(after, Happening::Tick(at, life));
        if self.ending {
            return;
        }
        self.summary.events += 1;
        self.machines[at].host.as_mut().expect("alive").state.events += 1;
        self.change(at, &Clock::new());
        if self.chance.per_mille(20) {
            self.look_again(at);
        }
        self.deceive(at);
        for _ in 0..self.chance.below(3) {
            self.send_something(at);
        }
        if self.chance.per_mille(20) {
            let sent_bytes = self.machines[at].host.as_ref().expect("alive").sent_bytes;
            let stats = Stats {
                sent_bytes,
                ..Stats::default()
            };
            self.tell_agent(at, stats.into());
        }
        self.break_something(at);
    }

    fn demand(&mut self, at: usize) -> Result<(), String> {
        let after = self.chance.within(200..4_000);
        self.schedule(after, Happening::Demand(at));
        if self.ending {
            return Ok(());
        }
        let now = self.time();
        let machine = &mut self.machines[at];
        if let Ok(gather) = machine.agent.handle_demand(now) {
            self.demanded
                .insert((at, machine.agent_life, gather), self.now);
        }
        if let Some((gather, since)) = self
            .demanded
            .iter()
            .find(|(_, since)| **since + LONGEST_GATHER_MS < self.now)
        {
            return Err(format!("gather {gather:?} hangs since {since} ms"));
        }
        self.settle(at)
    }

    /// Does what an agent wants.
    fn settle(&mut self, at: usize) -> Result<(), String> {
        while let Some(output) = self.machines[at].agent.poll_output() {
            let agent_life = self.machines[at].agent_life;
            match output {
                Output::Host(message) => self.tell_host(at, message),
                Output::Peer { to, frame } => self.carry(at, to, frame),
                Output::Snapshot {
                    gather, snapshot, ..
                } => {
                    self.demanded.remove(&(at, agent_life, gather));
                    self.count_inconsistent(&snapshot)?;
                    self.note_snapshot(at, &snapshot);
                    let compares = self.scenario.channels
                        && !self.scenario.amnesia
                        && !self.scenario.lies.any();
                    let judged = self.ghost.judge(&self.without_liars(&snapshot), compares);
                    if self.scenario.damage == 0 {
                        self.summary.in_flight +=
                            judged.map_err(|what| format!("at {} ms: {what}", self.now))?;
                    }
                    self.tell_surroundings(at, &snapshot, None);
                    self.summary.snapshots += 1;
                    self.summary.complete += u64::from(snapshot.is_complete());
                    self.summary.later_rounds += u64::from(snapshot.rounds > 1);
                }
                Output::Looked { question, snapshot } => {
                    self.summary.looks += 1;
                    self.tell_surroundings(at, &snapshot, Some(question));
                }
                Output::Unreadable { .. }
                | Output::Implausible { .. }
                | Output::NeighborsLeftOut { .. } => {}
                Output::Failed { gather, .. } => {
                    self.demanded.remove(&(at, agent_life, gather));
                    self.summary.failed += 1;
                }
            }
        }
        let machine = &self.machines[at];
        if machine.agent.stored().1 > self.scenario.store_quota_bytes {
            return Err(format!("{} stores more than its quota", machine.id));
        }
        self.wake(at);
        Ok(())
    }

    /// Only a host that lost its memory, or a damaged frame, may make a snapshot contradict itself. That it is found does
    /// not excuse anything else.
    fn count_inconsistent(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        let mut out = snapshot
            .missing
            .iter()
            .filter(|missing| missing.reason == Reason::Inconsistent);
        let Some(first) = out.next() else {
            return Ok(());
        };
        self.summary.inconsistent += 1;
        if self.scenario.amnesia || self.scenario.damage > 0 || self.scenario.lies.any() {
            return Ok(());
        }
        Err(format!(
            "the checkpoint of {} shows a receipt without its send, or no send of a receipt",
            first.node
        ))
    }

    fn wake(&mut self, at: usize) {
        let now = self.now;
        let machine = &mut self.machines[at];
        let Some(due) = machine.agent.poll_timeout() else {
            return;
        };
        let due = due.as_millis().max(now + 1);
        if machine.wakes.first().is_none_or(|&first| due < first) {
            machine.wakes.insert(due);
            let life = machine.agent_life;
            self.schedule(due - now, Happening::Wake(at, life));
        }
    }

    fn carry(&mut self, from: usize, to: NodeId, mut frame: Vec<u8>) {
        let at = to.get() as usize;
        if self.chance.per_mille(self.scenario.frame_loss) {
            if self.chance.per_mille(500) {
                let (life, after) = (self.machines[from].agent_life, self.chance.within(1..100));
                self.schedule(after, Happening::PeerLost(from, life, to));
            }
            return;
        }
        if self.scenario.lies.member && from == 0 && !self.ending {
            lies::tamper_frame(&mut self.chance, &mut frame);
        }
        if self.chance.per_mille(self.scenario.damage) {
            for _ in 0..=self.chance.below(3) {
                let byte = self.chance.below(frame.len() as u64) as usize;
                frame[byte] = self.chance.draw() as u8;
            }
        }
        let happening = Happening::Frame {
            at,
            agent_life: self.machines[at].agent_life,
            from: self.machines[from].id,
            frame,
        };
        let delay = self.chance.within(1..80);
        self.schedule(delay, happening);
    }
}

fn capture(state: &State, neighbors: &[NodeId]) -> Capture {
    Capture {
        state: state.write(),
        timers: Vec::new(),
        neighbors: Some(neighbors.to_vec()),
    }
}
