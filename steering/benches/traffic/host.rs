//! A service's process: the real handlers, the real recorder, and connections that behave as the runtime's do.

use std::collections::BTreeMap;

use scry::capture::{self, Readings, StreamEnd};
use scry::checkpoint::Time;
use scry::checkpoint::channel::{self, Lane};
use scry::checkpoint::past::{ENTRIES_MAX, PastOptions};
use scry::checkpoint::recorder::{Capture, Recorder};
use scry::model::event::InputOf;
use scry::model::handler::Local;
use scry::model::live;
use scry::model::network::Connection;
use scry::property::{Projection, Property, Shape, View};
use scry::{Dice, Effect, NodeId, Service, Stamp};
use scry_protocol::channel::Envelope;
use scry_protocol::link::host::{AgentToHost, Checkpoint, Hello, HostToAgent, Neighbors};
use scry_protocol::{CheckpointNumber, Incarnation, Transport};

/// What hosts leave for each other.
#[derive(Clone, Debug)]
pub(crate) enum Parcel {
    /// A stamp and a message on their own.
    Datagram(Vec<u8>),
    /// The same on a connection, which the first one opens.
    Segment {
        connection: Connection,
        first: bool,
        bytes: Vec<u8>,
    },
    /// The sender has closed the connection, or has no memory of it.
    Over(Connection),
}

/// What one event at a host leads to.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) agent: Vec<HostToAgent>,
    pub(crate) parcels: Vec<(NodeId, Parcel)>,
    /// Timers that were armed: how long they run, and which arming it was.
    pub(crate) armed: Vec<(T, u64, u64)>,
}

impl<T> Default for Outcome<T> {
    fn default() -> Self {
        Self {
            agent: Vec::new(),
            parcels: Vec::new(),
            armed: Vec::new(),
        }
    }
}

/// One incarnation of a node's process.
pub(crate) struct Host<S: Service> {
    me: NodeId,
    setup: S::Setup,
    local: Local<S>,
    recorder: Recorder,
    /// The open connections of each peer, the youngest last.
    streams: BTreeMap<NodeId, Vec<StreamEnd>>,
    serials: BTreeMap<NodeId, u32>,
    armings: BTreeMap<S::Timer, u64>,
    last_arming: u64,
    /// When each timer is due, and when something last happened.
    due: BTreeMap<S::Timer, u64>,
    event_ms: u64,
    seed: u64,
    /// Bytes of stamps and of messages sent, to other hosts.
    pub(crate) stamp_bytes: u64,
    /// Of the stamps, what says which states may stand side by side.
    pub(crate) past_bytes: u64,
    properties: Vec<Property<S>>,
    pub(crate) message_bytes: u64,
}

impl<S: Service> Host<S> {
    /// Starts a process: its numbers begin with its incarnation, as those of a host without a disk do.
    pub(crate) fn start(
        now: u64,
        me: NodeId,
        setup: S::Setup,
        incarnation: Incarnation,
        channels: bool,
        seed: u64,
    ) -> (Self, Outcome<S::Timer>) {
        let dice = Dice::new(seed, Stamp::from_millis(now), 0);
        let (local, effects) = live::boot::<S>(me, &setup, None, dice).expect("services start");
        let born = CheckpointNumber::new(incarnation.get()).expect("a time of this century");
        let channels = channels.then(channel::Options::default);
        let past = PastOptions {
            me,
            entries_max: ENTRIES_MAX,
            former: None,
        };
        let begun = Time::from_millis(now);
        let (recorder, first) = Recorder::begin(begun, incarnation, born, channels, past, || {
            let readings = readings(&BTreeMap::new(), now, &local);
            captured(me, &setup, &local, &[], &readings)
        });
        let mut host = Self {
            me,
            setup,
            local,
            recorder,
            streams: BTreeMap::new(),
            serials: BTreeMap::new(),
            armings: BTreeMap::new(),
            last_arming: 0,
            due: BTreeMap::new(),
            event_ms: now,
            seed,
            stamp_bytes: 0,
            past_bytes: 0,
            properties: S::properties(),
            message_bytes: 0,
        };
        let hello = Hello {
            node: me,
            incarnation,
            born,
            number: born,
            service: "traffic".to_owned(),
            version: "1".to_owned(),
            checks: false,
        };
        let mut outcome = Outcome::default();
        outcome.agent.push(hello.into());
        outcome.agent.push(first.expect("a small state").into());
        host.perform(now, effects, &mut outcome);
        (host, outcome)
    }

    /// Runs a handler.
    pub(crate) fn handle(&mut self, now: u64, input: InputOf<S>) -> Outcome<S::Timer> {
        let mut outcome = Outcome::default();
        self.run(now, input, &mut outcome);
        outcome
    }

    /// Runs the handler of a timer, if it was not armed anew since.
    pub(crate) fn fire(&mut self, now: u64, timer: S::Timer, arming: u64) -> Outcome<S::Timer> {
        if self.armings.get(&timer) != Some(&arming) {
            return Outcome::default();
        }
        self.armings.remove(&timer);
        self.handle(now, InputOf::<S>::Timer(timer))
    }

    /// Returns what the application would do next.
    pub(crate) fn next_call(&self) -> Option<S::Call> {
        self.local
            .service
            .calls(self.me, &self.setup)
            .into_iter()
            .next()
    }

    /// Takes in a parcel of another host.
    pub(crate) fn receive(&mut self, now: u64, from: NodeId, parcel: Parcel) -> Outcome<S::Timer> {
        let mut outcome = Outcome::default();
        match parcel {
            Parcel::Datagram(bytes) => {
                self.deliver(now, from, None, &bytes, &mut outcome);
            }
            Parcel::Segment {
                connection,
                first,
                bytes,
            } => {
                let known = self
                    .streams
                    .get(&from)
                    .is_some_and(|ends| ends.iter().any(|end| end.connection == connection));
                if known || first {
                    if !known {
                        self.open(from, connection);
                    }
                    self.deliver(now, from, Some(connection), &bytes, &mut outcome);
                } else {
                    outcome.parcels.push((from, Parcel::Over(connection)));
                }
            }
            Parcel::Over(connection) => {
                let open = self.streams.get(&from).into_iter().flatten();
                if open.clone().any(|end| end.connection == connection) {
                    self.break_with(now, from, Some(connection), &mut outcome);
                    self.run(now, InputOf::<S>::Disconnect(from), &mut outcome);
                }
            }
        }
        outcome
    }

    /// Does what the agent asks for.
    pub(crate) fn obey(&mut self, now: u64, message: &AgentToHost) -> Outcome<S::Timer> {
        let mut outcome = Outcome::default();
        match message {
            AgentToHost::TakeCheckpoint(take) => {
                let streams = self.ends();
                let (me, setup, local) = (self.me, &self.setup, &self.local);
                let readings = readings(&self.due, self.event_ms, local);
                let taken = self
                    .recorder
                    .handle_take(Time::from_millis(now), take.number, || {
                        captured(me, setup, local, &streams, &readings)
                    });
                publish(taken.expect("a small state"), &mut outcome);
            }
            AgentToHost::AskNeighbors(_) => {
                let neighbors = self.local.service.neighbors(self.me, &self.setup);
                outcome.agent.push(Neighbors { neighbors }.into());
            }
            AgentToHost::Arrived(arrived) => self.recorder.handle_arrived(arrived),
            _ => {}
        }
        outcome
    }

    /// Ends the process: its peers' kernels are told of every connection.
    pub(crate) fn leave(&self) -> Vec<(NodeId, Parcel)> {
        self.ends()
            .iter()
            .map(|end| (end.peer, Parcel::Over(end.connection)))
            .collect()
    }

    fn deliver(
        &mut self,
        now: u64,
        from: NodeId,
        connection: Option<Connection>,
        bytes: &[u8],
        outcome: &mut Outcome<S::Timer>,
    ) {
        let (envelope, message) = Envelope::read(bytes).expect("our own stamp");
        let message = rmp_serde::from_slice(message).expect("our own message");
        if let (Some(connection), Some(place)) = (connection, envelope.place)
            && let Some(ends) = self.streams.get_mut(&from)
        {
            for end in ends.iter_mut().filter(|end| end.connection == connection) {
                end.receiving = Some((place.incarnation, place.serial));
            }
        }
        let transport = match connection {
            Some(_) => Transport::Stream,
            None => Transport::Datagram,
        };
        let streams = self.ends();
        let (me, setup, local) = (self.me, &self.setup, &self.local);
        let readings = readings(&self.due, self.event_ms, local);
        let now_time = Time::from_millis(now);
        let taken = self
            .recorder
            .handle_message(now_time, from, transport, &envelope, || {
                captured(me, setup, local, &streams, &readings)
            });
        publish(taken.expect("a small state"), outcome);
        self.run(now, InputOf::<S>::Message { from, message }, outcome);
    }

    fn run(&mut self, now: u64, input: InputOf<S>, outcome: &mut Outcome<S::Timer>) {
        self.seed = self.seed.wrapping_add(1);
        self.event_ms = now;
        let mut dice = Dice::new(self.seed, Stamp::from_millis(now), self.local.ticks);
        let before = self.projections();
        let effects = live::run(self.me, &self.setup, &mut self.local, input, &mut dice)
            .expect("handlers do not panic");
        if self.projections() != before {
            self.recorder.note_change();
        }
        self.perform(now, effects, outcome);
    }

    /// Reads of the node what its properties judge others with.
    fn projections(&self) -> Vec<Option<Projection>> {
        let view = View {
            id: self.me,
            state: &self.local.service,
            timers: &self.local.timers,
        };
        let properties = self.properties.iter();
        let read = properties.filter_map(|property| match property.shape() {
            Shape::Node(_) => None,
            Shape::Pair(project, _) | Shape::Global(project, _) => Some(project(&view)),
        });
        read.collect()
    }

    fn perform(&mut self, now: u64, effects: live::Effects<S>, outcome: &mut Outcome<S::Timer>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(now, to, &message, outcome),
                Effect::Arm { timer, after } => {
                    self.last_arming += 1;
                    self.armings.insert(timer.clone(), self.last_arming);
                    let after_ms = after.as_millis() as u64;
                    self.due.insert(timer.clone(), now + after_ms);
                    outcome.armed.push((timer, after_ms, self.last_arming));
                }
                Effect::Cancel { timer } => {
                    self.armings.remove(&timer);
                }
                Effect::Disconnect { peer } => self.break_with(now, peer, None, outcome),
            }
        }
    }

    fn send(
        &mut self,
        now: u64,
        to: NodeId,
        message: &S::Message,
        outcome: &mut Outcome<S::Timer>,
    ) {
        let stream = match S::transport(message) {
            scry::Transport::Datagram => None,
            scry::Transport::Stream => {
                let youngest = self.streams.get(&to).and_then(|ends| ends.last());
                Some(match youngest {
                    Some(end) => (end.connection, end.sending, false),
                    None => {
                        let serial = self
                            .serials
                            .entry(to)
                            .or_insert((self.recorder.incarnation().get() / 1000) as u32);
                        *serial += 1;
                        let connection = Connection {
                            opener: self.me,
                            serial: *serial,
                        };
                        (connection, self.open(to, connection), true)
                    }
                })
            }
        };
        let lane = stream.map_or(Lane::Datagram, |(_, sending, _)| Lane::Stream(sending));
        let message = rmp_serde::to_vec(message).expect("messages can be encoded");
        let envelope = self
            .recorder
            .stamp(Time::from_millis(now), to, lane, &message);
        let mut bytes = Vec::new();
        envelope.write(&mut bytes);
        self.stamp_bytes += bytes.len() as u64;
        let mut without = Vec::new();
        let past = None;
        Envelope { past, ..envelope }.write(&mut without);
        self.past_bytes += (bytes.len() - without.len()) as u64;
        self.message_bytes += message.len() as u64;
        bytes.extend_from_slice(&message);
        let parcel = match stream {
            None => Parcel::Datagram(bytes),
            Some((connection, _, first)) => Parcel::Segment {
                connection,
                first,
                bytes,
            },
        };
        outcome.parcels.push((to, parcel));
    }

    fn open(&mut self, peer: NodeId, connection: Connection) -> u32 {
        let sending = self.recorder.open(peer);
        self.streams.entry(peer).or_default().push(StreamEnd {
            peer,
            connection,
            sending,
            receiving: None,
        });
        sending
    }

    /// Ends all connections with a peer, as the runtime does when one of them is gone.
    fn break_with(
        &mut self,
        now: u64,
        peer: NodeId,
        told: Option<Connection>,
        outcome: &mut Outcome<S::Timer>,
    ) {
        for end in self.streams.remove(&peer).into_iter().flatten() {
            self.recorder.handle_ended(
                Time::from_millis(now),
                peer,
                Some(end.sending),
                end.receiving,
            );
            if told != Some(end.connection) {
                outcome.parcels.push((peer, Parcel::Over(end.connection)));
            }
        }
    }

    fn ends(&self) -> Vec<StreamEnd> {
        self.streams.values().flatten().copied().collect()
    }
}

fn captured<S: Service>(
    me: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    streams: &[StreamEnd],
    readings: &Readings,
) -> Capture {
    let (state, timers) = capture::write_with(setup, local, streams, &[], Some(readings))
        .expect("states can be encoded");
    Capture {
        state,
        timers,
        neighbors: local.service.neighbors(me, setup),
    }
}

fn readings<S: Service>(
    due: &BTreeMap<S::Timer, u64>,
    event_ms: u64,
    local: &Local<S>,
) -> Readings {
    let later = |timer: &S::Timer| due.get(timer).map_or(0, |due| due.saturating_sub(event_ms));
    Readings {
        // As a clock that is set to the time of day.
        event_ms: 1_790_000_000_000 + event_ms,
        due_ms: local.timers.iter().map(later).collect(),
    }
}

fn publish<T>(taken: Option<Checkpoint>, outcome: &mut Outcome<T>) {
    outcome.agent.extend(taken.map(HostToAgent::from));
}
