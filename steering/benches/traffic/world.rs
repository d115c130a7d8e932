//! The cluster in virtual time: hosts, their agents, the network between both, and nodes that come and go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use anyhow::{Context as _, Result, bail, ensure};
use scry::checkpoint::manager::{Options, Output};
use scry::checkpoint::{CheckpointManager, Time};
use scry::model::event::InputOf;
use scry::{Chance as _, Dice, NodeId, Service, Stamp};
use scry_protocol::link::host::{AgentToHost, HostToAgent};
use scry_protocol::snapshot::Reason;
use scry_protocol::{Body, CheckpointNumber, Digest, Incarnation, Snapshot};

use crate::host::{Host, Outcome, Parcel};
use crate::tally::Tally;

/// One way, half of the papers' mean round trip (G-39), and how much it differs from pair to pair.
const DELAY_MS: u64 = 65;
const SPREAD_MS: u64 = 40;
/// Datagrams lost, in thousandths: the middle of the papers' 0.1 to 0.5 percent for each of two access links.
const LOSS_PER_MILLE: u64 = 6;
/// How long a node that left stays away.
const AWAY_MS: u64 = 5_000;
/// How long an agent takes to find that another cannot be reached.
const DIAL_MS: u64 = 500;
/// When the cluster starts, by the clock that incarnations are taken from.
const EPOCH_MS: u64 = 1_790_000_000_000;

/// What is simulated.
#[derive(Clone, Debug)]
pub(crate) struct Plan<S: Service> {
    pub(crate) nodes: Vec<(NodeId, S::Setup)>,
    pub(crate) channels: bool,
    /// How often a node leaves and another incarnation of it enters, on average.
    pub(crate) churn_ms: Option<u64>,
    pub(crate) warm_up_ms: u64,
    pub(crate) measured_ms: u64,
    pub(crate) seed: u64,
}

struct Machine<S: Service> {
    id: NodeId,
    setup: S::Setup,
    /// Host and agent come and go together; both know by this number which incarnation a happening is meant for.
    life: u64,
    running: Option<(Host<S>, CheckpointManager)>,
    last_own: Option<Body>,
    wake: Option<u64>,
}

enum Happening<S: Service> {
    Enter(usize),
    Call(usize, u64),
    Leave,
    Timer(usize, u64, S::Timer, u64),
    Parcel(usize, NodeId, Parcel),
    ToHost(usize, u64, AgentToHost),
    ToAgent(usize, u64, HostToAgent),
    Frame(usize, u64, NodeId, Vec<u8>),
    PeerLost(usize, u64, NodeId),
    Wake(usize, u64),
}

/// The cluster.
pub(crate) struct World<S: Service> {
    plan: Plan<S>,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: BTreeMap<u64, Happening<S>>,
    scheduled: u64,
    machines: Vec<Machine<S>>,
    places: BTreeMap<NodeId, usize>,
    dice: Dice,
    /// What hosts really said, to compare snapshots with.
    taken: BTreeMap<(NodeId, CheckpointNumber), Digest>,
    /// Bytes of stamps and messages that processes sent which are gone.
    left: [u64; 3],
    tally: Tally,
}

impl<S: Service> World<S> {
    /// Sets the cluster up: all nodes enter within the first ten seconds.
    pub(crate) fn new(plan: Plan<S>) -> Self {
        let machines: Vec<Machine<S>> = plan
            .nodes
            .iter()
            .map(|(id, setup)| Machine {
                id: *id,
                setup: setup.clone(),
                life: 0,
                running: None,
                last_own: None,
                wake: None,
            })
            .collect();
        let places = machines.iter().enumerate();
        let mut world = Self {
            now: 0,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            scheduled: 0,
            places: places.map(|(at, machine)| (machine.id, at)).collect(),
            machines,
            dice: Dice::new(plan.seed, Stamp::default(), 0),
            taken: BTreeMap::new(),
            left: [0; 3],
            tally: Tally::default(),
            plan,
        };
        for at in 0..world.machines.len() {
            let after = world.below(10_000);
            world.schedule(after, Happening::Enter(at));
        }
        if world.plan.churn_ms.is_some() {
            world.schedule_departure();
        }
        world
    }

    /// Lets time pass, and returns what was counted after the warm-up.
    pub(crate) fn run(mut self) -> Result<Tally> {
        self.run_until(self.plan.warm_up_ms)?;
        let begun = self.service_bytes();
        let departures = self.tally.departures;
        self.tally = Tally {
            departures,
            ..Tally::default()
        };
        self.run_until(self.plan.warm_up_ms + self.plan.measured_ms)?;
        self.tally.departures -= departures;
        let ended = self.service_bytes();
        self.tally.stamp_bytes = ended[0] - begun[0];
        self.tally.past_bytes = ended[1] - begun[1];
        self.tally.message_bytes = ended[2] - begun[2];
        Ok(self.tally)
    }

    fn run_until(&mut self, end: u64) -> Result<()> {
        while let Some(&Reverse((at, key))) = self.queue.peek()
            && at < end
        {
            self.queue.pop();
            self.now = at;
            let happening = self.happenings.remove(&key).expect("scheduled once");
            self.happen(happening)?;
        }
        self.now = end;
        Ok(())
    }

    /// Returns the bytes of stamps, of what in them is about the past, and of messages.
    fn service_bytes(&self) -> [u64; 3] {
        let running = self.machines.iter().filter_map(|m| m.running.as_ref());
        running.fold(self.left, |[stamps, past, messages], (host, _)| {
            [
                stamps + host.stamp_bytes,
                past + host.past_bytes,
                messages + host.message_bytes,
            ]
        })
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.dice.random() % bound.max(1)
    }

    fn schedule(&mut self, after: u64, happening: Happening<S>) {
        self.scheduled += 1;
        self.happenings.insert(self.scheduled, happening);
        self.queue.push(Reverse((self.now + after, self.scheduled)));
    }

    fn schedule_departure(&mut self) {
        if let Some(mean) = self.plan.churn_ms {
            let after = mean / 2 + self.below(mean);
            self.schedule(after, Happening::Leave);
        }
    }

    fn time(&self) -> Time {
        Time::from_millis(self.now)
    }

    fn happen(&mut self, happening: Happening<S>) -> Result<()> {
        let now = self.time();
        match happening {
            Happening::Enter(at) => return self.enter(at),
            Happening::Leave => self.leave(),
            Happening::Call(at, life) => {
                if let Some((host, _)) = self.running(at, life)
                    && let Some(call) = host.next_call()
                {
                    let outcome = host.handle(now.as_millis(), InputOf::<S>::Call(call));
                    self.perform(at, outcome);
                }
            }
            Happening::Timer(at, life, timer, arming) => {
                if let Some((host, _)) = self.running(at, life) {
                    let outcome = host.fire(now.as_millis(), timer, arming);
                    self.perform(at, outcome);
                }
            }
            Happening::Parcel(at, from, parcel) => self.deliver(at, from, parcel),
            Happening::ToHost(at, life, message) => {
                if let Some((host, _)) = self.running(at, life) {
                    let outcome = host.obey(now.as_millis(), &message);
                    self.perform(at, outcome);
                }
            }
            Happening::ToAgent(at, life, message) => {
                if let Some((_, agent)) = self.running(at, life) {
                    agent.handle_host(now, message);
                    return self.settle(at);
                }
            }
            Happening::Frame(at, life, from, frame) => {
                if let Some((_, agent)) = self.running(at, life) {
                    let rest = agent.handle_frame(now, from, &frame);
                    ensure!(rest.context("a frame of a peer")?.is_none());
                    return self.settle(at);
                }
            }
            Happening::PeerLost(at, life, peer) => {
                if let Some((_, agent)) = self.running(at, life) {
                    agent.handle_peer_lost(now, peer);
                    return self.settle(at);
                }
            }
            Happening::Wake(at, life) => {
                if self.machines[at].wake == Some(self.now) {
                    self.machines[at].wake = None;
                }
                if let Some((_, agent)) = self.running(at, life) {
                    agent.handle_timeout(now);
                    return self.settle(at);
                }
            }
        }
        Ok(())
    }

    fn running(&mut self, at: usize, life: u64) -> Option<&mut (Host<S>, CheckpointManager)> {
        let machine = &mut self.machines[at];
        machine.running.as_mut().filter(|_| machine.life == life)
    }

    fn enter(&mut self, at: usize) -> Result<()> {
        let seed = self.dice.random();
        let first_request = self.dice.random() as u16;
        let machine = &mut self.machines[at];
        machine.life += 1;
        machine.wake = None;
        machine.last_own = None;
        let incarnation = Incarnation::new(EPOCH_MS + self.now);
        let (host, outcome) = Host::start(
            self.now,
            machine.id,
            machine.setup.clone(),
            incarnation,
            self.plan.channels,
            seed,
        );
        let options = Options {
            first_request,
            ..Options::default()
        };
        let agent = CheckpointManager::new(machine.id, options);
        let life = machine.life;
        machine.running = Some((host, agent));
        self.perform(at, outcome);
        self.schedule(1, Happening::Call(at, life));
        self.settle(at)
    }

    /// Lets one node leave: its process and its agent, with all they remember.
    fn leave(&mut self) {
        self.schedule_departure();
        let at = self.below(self.machines.len() as u64) as usize;
        let Some((host, _)) = self.machines[at].running.take() else {
            return;
        };
        self.tally.departures += 1;
        self.left[0] += host.stamp_bytes;
        self.left[1] += host.past_bytes;
        self.left[2] += host.message_bytes;
        let from = self.machines[at].id;
        for (to, parcel) in host.leave() {
            self.carry(from, to, parcel);
        }
        self.schedule(AWAY_MS, Happening::Enter(at));
    }

    /// Does what an event at a host led to.
    fn perform(&mut self, at: usize, outcome: Outcome<S::Timer>) {
        let (id, life) = (self.machines[at].id, self.machines[at].life);
        for message in outcome.agent {
            if let HostToAgent::Checkpoint(checkpoint) = &message {
                self.tally.checkpoints += 1;
                let digest = checkpoint.body.digest();
                self.taken.insert((id, checkpoint.number), digest);
            }
            self.schedule(1, Happening::ToAgent(at, life, message));
        }
        for (to, parcel) in outcome.parcels {
            self.carry(id, to, parcel);
        }
        for (timer, after, arming) in outcome.armed {
            self.schedule(after, Happening::Timer(at, life, timer, arming));
        }
    }

    /// Every pair of nodes has a distance of its own, so that what is sent between them stays in order.
    fn distance(from: NodeId, to: NodeId) -> u64 {
        let (low, high) = (from.min(to).get(), from.max(to).get());
        let spread = u64::from(low.wrapping_mul(31) ^ high.wrapping_mul(17)) % SPREAD_MS;
        DELAY_MS - SPREAD_MS / 2 + spread
    }

    fn carry(&mut self, from: NodeId, to: NodeId, parcel: Parcel) {
        let Some(&at) = self.places.get(&to) else {
            return;
        };
        if matches!(parcel, Parcel::Datagram(_)) && self.below(1000) < LOSS_PER_MILLE {
            return;
        }
        self.schedule(
            Self::distance(from, to),
            Happening::Parcel(at, from, parcel),
        );
    }

    fn deliver(&mut self, at: usize, from: NodeId, parcel: Parcel) {
        let (id, now) = (self.machines[at].id, self.now);
        match &mut self.machines[at].running {
            Some((host, _)) => {
                let outcome = host.receive(now, from, parcel);
                self.perform(at, outcome);
            }
            // The machine is up, the process is not: its kernel resets what comes for it.
            None => {
                if let Parcel::Segment { connection, .. } = parcel {
                    self.carry(id, from, Parcel::Over(connection));
                }
            }
        }
    }

    /// Does what an agent wants.
    fn settle(&mut self, at: usize) -> Result<()> {
        let (id, life) = (self.machines[at].id, self.machines[at].life);
        while let Some((_, agent)) = &mut self.machines[at].running
            && let Some(output) = agent.poll_output()
        {
            match output {
                Output::Host(message) => self.schedule(1, Happening::ToHost(at, life, message)),
                Output::Peer { to, frame } => self.send_frame(at, to, frame)?,
                Output::Snapshot { snapshot, .. } | Output::Looked { snapshot, .. } => {
                    self.examine(at, &snapshot)?;
                }
                Output::NeighborsLeftOut { count, .. } => bail!("{count} too many at {id}"),
                Output::Unreadable { from, why } => bail!("{from} at {id}: {why}"),
                Output::Implausible { from, number } => bail!("{from} is at {number} for {id}"),
                Output::Failed { .. } => self.tally.failed += 1,
            }
        }
        let (now, machine) = (self.now, &mut self.machines[at]);
        let due = machine.running.as_ref().and_then(|(_, agent)| {
            let due = agent.poll_timeout()?.as_millis().max(now + 1);
            machine.wake.is_none_or(|wake| due < wake).then_some(due)
        });
        if let Some(due) = due {
            machine.wake = Some(due);
            self.schedule(due - now, Happening::Wake(at, life));
        }
        Ok(())
    }

    fn send_frame(&mut self, at: usize, to: NodeId, frame: Vec<u8>) -> Result<()> {
        let (from, life) = (self.machines[at].id, self.machines[at].life);
        let there = *self.places.get(&to).context("a frame to nobody")?;
        if self.machines[there].running.is_none() {
            // Nothing but the dialling goes over the wire.
            self.schedule(DIAL_MS, Happening::PeerLost(at, life, to));
            return Ok(());
        }
        self.tally.frame(&frame)?;
        let there_life = self.machines[there].life;
        self.schedule(
            Self::distance(from, to),
            Happening::Frame(there, there_life, from, frame),
        );
        Ok(())
    }

    /// Sees to it that a snapshot shows what the hosts really said, and counts it.
    fn examine(&mut self, at: usize, snapshot: &Snapshot) -> Result<()> {
        for member in &snapshot.members {
            let digest = member.body.digest();
            ensure!(
                self.taken.get(&(member.node, member.number)) == Some(&digest)
                    && member.number >= snapshot.number,
                "the snapshot {} of {} shows {} as it never was",
                snapshot.number,
                snapshot.by,
                member.node,
            );
            self.tally.age_ms += member.age_ms;
            if member.node == snapshot.by {
                let before = self.machines[at].last_own.replace(member.body.clone());
                self.tally.checkpoint(before.as_ref(), &member.body);
            }
        }
        for missing in &snapshot.missing {
            ensure!(
                missing.reason != Reason::Inconsistent && missing.reason != Reason::Unreadable,
                "{} is missing: {}",
                missing.node,
                missing.reason
            );
        }
        self.tally.snapshots += 1;
        self.tally.members += snapshot.members.len() as u64;
        self.tally.missing += snapshot.missing.len() as u64;
        Ok(())
    }
}
