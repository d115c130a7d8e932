//! The manager through its public face: several of them with recorders as hosts, and frames that wait until delivered.

use std::collections::BTreeMap;

use scry_protocol::channel::Envelope;
use scry_protocol::delta::Delta;
use scry_protocol::link::host::{Goodbye, Neighbors, Stats};
use scry_protocol::link::peer::{Changed, PathAnswer, PathOutcome, Refused, Request, SharePath};
use scry_protocol::snapshot::{Missing, Reason, Refusal};
use scry_protocol::{Content, Transport, ViolationId};

use super::*;
use crate::Recorder;
use crate::channel::Lane;
use crate::past::PastOptions;
use crate::quota::Absolute;
use crate::recorder::Capture;

mod deceit;
mod neighbors;
mod periods;

fn node(id: u32) -> NodeId {
    NodeId::new(id)
}

fn number(number: u32) -> CheckpointNumber {
    CheckpointNumber::from(number)
}

/// One node: a service that is a counter, its recorder, its agent's manager.
struct Node {
    counter: u8,
    neighbors: Vec<NodeId>,
    recorder: Recorder,
    manager: CheckpointManager,
    answers: bool,
}

/// A frame on its way, with its sender and receiver.
type Flying = (NodeId, NodeId, Vec<u8>);

/// Some nodes, and the frames between their agents.
struct World {
    now: Time,
    nodes: BTreeMap<NodeId, Node>,
    frames: Vec<Flying>,
    snapshots: Vec<(GatherId, Snapshot)>,
    looked: Vec<(u64, Snapshot)>,
    failures: Vec<GatherError>,
    unreadable: Vec<(NodeId, String)>,
    implausible: Vec<NodeId>,
    /// Whose neighbors were too many, how many were left out and how many kept.
    left_out: Vec<(NodeId, usize, usize)>,
}

fn capture(counter: u8, neighbors: &[NodeId]) -> impl FnOnce() -> Capture {
    let neighbors = Some(neighbors.to_vec());
    move || Capture {
        state: vec![counter],
        timers: Vec::new(),
        neighbors,
    }
}

fn past(id: u32) -> PastOptions {
    PastOptions {
        me: node(id),
        entries_max: 8,
        former: None,
    }
}

fn quiet() -> Options {
    Options {
        period_ms: None,
        ..Options::default()
    }
}

impl World {
    /// Makes nodes `0..count` that are all neighbors of each other, with all frames of starting up delivered.
    fn new(count: u32, options: &Options) -> Self {
        let mut world = Self {
            now: Time::default(),
            nodes: BTreeMap::new(),
            frames: Vec::new(),
            snapshots: Vec::new(),
            looked: Vec::new(),
            failures: Vec::new(),
            unreadable: Vec::new(),
            implausible: Vec::new(),
            left_out: Vec::new(),
        };
        for id in 0..count {
            let neighbors: Vec<NodeId> = (0..count).filter(|&n| n != id).map(node).collect();
            let (recorder, first) = Recorder::begin(
                world.now,
                Incarnation::new(1),
                number(1),
                None,
                past(id),
                capture(0, &neighbors),
            );
            let mut manager = CheckpointManager::new(node(id), options.clone());
            manager.handle_host(world.now, hello(id, &recorder));
            manager.handle_host(world.now, HostToAgent::Checkpoint(first.expect("small")));
            world.nodes.insert(
                node(id),
                Node {
                    counter: 0,
                    neighbors,
                    recorder,
                    manager,
                    answers: true,
                },
            );
        }
        world.settle();
        world
    }

    fn manager(&mut self, id: u32) -> &mut CheckpointManager {
        &mut self.node(id).manager
    }

    fn node(&mut self, id: u32) -> &mut Node {
        self.nodes.get_mut(&node(id)).expect("a node of this world")
    }

    /// Does what managers want of hosts, and collects frames and snapshots.
    fn settle(&mut self) {
        let mut busy = true;
        while busy {
            busy = false;
            for (&id, node) in &mut self.nodes {
                while let Some(output) = node.manager.poll_output() {
                    busy = true;
                    match output {
                        Output::Host(message) => node.obey(self.now, message),
                        Output::Peer { to, frame } => self.frames.push((id, to, frame)),
                        Output::Snapshot {
                            gather, snapshot, ..
                        } => self.snapshots.push((gather, snapshot)),
                        Output::Looked { question, snapshot } => {
                            self.looked.push((question, snapshot));
                        }
                        Output::Unreadable { from, why } => self.unreadable.push((from, why)),
                        Output::Implausible { from, .. } => self.implausible.push(from),
                        Output::NeighborsLeftOut { count, kept } => {
                            self.left_out.push((id, count, kept));
                        }
                        Output::Failed { error, .. } => self.failures.push(error),
                    }
                }
            }
        }
    }

    /// Delivers all frames, and all they lead to.
    fn deliver(&mut self) {
        let held_back = self.deliver_where(|_, _| true);
        assert_eq!(held_back, []);
    }

    /// Delivers the frames between some nodes, and all they lead to. Returns the others.
    fn deliver_where(&mut self, passes: impl Fn(NodeId, NodeId) -> bool) -> Vec<Flying> {
        let mut held_back = Vec::new();
        self.settle();
        while !self.frames.is_empty() {
            for (from, to, frame) in std::mem::take(&mut self.frames) {
                if !passes(from, to) {
                    held_back.push((from, to, frame));
                } else if let Some(node) = self.nodes.get_mut(&to) {
                    node.manager
                        .handle_frame(self.now, from, &frame)
                        .expect("a frame");
                }
            }
            self.settle();
        }
        held_back
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now.after_millis(millis);
        for node in self.nodes.values_mut() {
            node.manager.handle_timeout(self.now);
        }
        self.settle();
    }

    fn message(&mut self, from: u32, to: u32) {
        let now = self.now;
        let envelope = self
            .node(from)
            .recorder
            .stamp(now, node(to), Lane::Datagram, b"");
        self.node(to).receive(now, node(from), &envelope);
        self.settle();
    }

    fn gather(&mut self, id: u32) -> GatherId {
        let now = self.now;
        self.manager(id).handle_demand(now).expect("it can start")
    }

    fn snapshot(&mut self) -> Snapshot {
        assert_eq!(self.failures, []);
        assert_eq!(self.snapshots.len(), 1);
        self.snapshots.remove(0).1
    }
}

fn hello(id: u32, recorder: &Recorder) -> HostToAgent {
    Hello {
        node: node(id),
        incarnation: recorder.incarnation(),
        born: recorder.born(),
        number: recorder.number(),
        service: "counter".to_owned(),
        version: "1".to_owned(),
        checks: false,
    }
    .into()
}

impl Node {
    fn obey(&mut self, now: Time, message: AgentToHost) {
        if !self.answers {
            return;
        }
        match message {
            AgentToHost::TakeCheckpoint(take) => {
                let taken = self
                    .recorder
                    .handle_take(now, take.number, capture(self.counter, &self.neighbors))
                    .expect("small");
                if let Some(checkpoint) = taken {
                    self.manager.handle_host(now, checkpoint.into());
                }
            }
            AgentToHost::Renew(renew) => {
                let capture = capture(self.counter, &self.neighbors);
                let first = self.recorder.renew(now, renew.after, renew.number, capture);
                let renewed = Renewed {
                    incarnation: self.recorder.incarnation(),
                    born: self.recorder.born(),
                };
                self.manager.handle_host(now, renewed.into());
                let first = first.expect("small");
                self.manager.handle_host(now, first.into());
            }
            AgentToHost::AskNeighbors(_) => {
                let neighbors = Some(self.neighbors.clone());
                self.manager
                    .handle_host(now, Neighbors { neighbors }.into());
            }
            _ => {}
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, envelope: &Envelope) {
        let capture = capture(self.counter, &self.neighbors);
        let forced = self
            .recorder
            .handle_message(now, from, Transport::Datagram, envelope, capture)
            .expect("small");
        self.counter += 1;
        if let Some(checkpoint) = forced {
            self.manager.handle_host(now, checkpoint.into());
        }
    }
}

fn read(snapshot: &Snapshot, id: u32) -> Content {
    let member = snapshot.member(node(id)).expect("a member");
    member.body.read().expect("readable")
}

fn numbers(snapshot: &Snapshot) -> Vec<u64> {
    snapshot
        .members
        .iter()
        .map(|member| member.number.get())
        .collect()
}

/// Lets node 1 ask node 0 directly, and returns the answer.
fn ask(world: &mut World, number: CheckpointNumber) -> PeerMessage {
    let request = Request {
        id: RequestId::new(77),
        number,
        known: None,
    };
    let frame = frame::encode(&PeerMessage::from(request)).expect("small");
    let now = world.now;
    let none = world.manager(0).handle_frame(now, node(1), &frame);
    assert_eq!(none, Ok(None));
    world.settle();
    let (from, to, frame) = world.frames.pop().expect("an answer");
    assert_eq!((from, to), (node(0), node(1)));
    frame::decode_one(&frame).expect("a frame")
}

/// Lets node 1 ask node 0 directly, and returns the number of the checkpoint it gets.
fn answered(world: &mut World, asked: u32) -> u64 {
    match ask(world, number(asked)) {
        PeerMessage::Full(full) => u64::from(asked) + full.ahead,
        other => panic!("not a checkpoint: {other:?}"),
    }
}

#[test]
fn a_19_a_request_from_later_makes_the_host_take_a_checkpoint() {
    let mut world = World::new(2, &quiet());
    world.node(0).counter = 5;
    assert_eq!(answered(&mut world, 8), 8);
    assert_eq!(world.node(0).recorder.number(), number(8));
    world.node(0).counter = 6;
    // Once it is there, it is not taken again, and it is not the present state.
    let PeerMessage::Full(full) = ask(&mut world, number(8)) else {
        panic!("not a checkpoint");
    };
    let body = scry_protocol::Body::from_bytes(full.body.unpack(1000).expect("whole"));
    let content = body.expect("small").read().expect("readable");
    assert_eq!(content.state, [5]);
    assert_eq!(world.node(0).recorder.counts().0, 2);
}

#[test]
fn a_20_the_manager_returns_the_earliest_that_is_not_older() {
    let mut world = World::new(2, &quiet());
    for due in [3, 5, 9] {
        ask(&mut world, number(due));
    }
    for (asked, expect) in [(4, 5), (5, 5), (6, 9)] {
        assert_eq!(answered(&mut world, asked), expect);
    }
}

#[test]
fn a_22_the_three_forced_checkpoints_of_the_papers_figure() {
    let mut world = World::new(4, &quiet());
    // Node 3 takes its regular checkpoint and asks the others; the requests are slow.
    world.gather(3);
    world.settle();
    assert_eq!(world.node(3).recorder.number(), number(2));
    world.message(3, 2); // m1
    world.message(2, 1); // m2
    assert_eq!(world.node(2).recorder.counts(), (2, 1));
    assert_eq!(world.node(1).recorder.counts(), (2, 1));
    assert_eq!(world.node(0).recorder.counts(), (1, 0));
    world.deliver();
    // The requests force one at node 0 only.
    assert_eq!(world.node(0).recorder.counts(), (2, 0));
    assert_eq!(world.node(1).recorder.counts(), (2, 1));
    assert_eq!(world.node(2).recorder.counts(), (2, 1));
    let snapshot = world.snapshot();
    assert_eq!(numbers(&snapshot), [2, 2, 2, 2]);
    for id in 0..4 {
        assert_eq!(read(&snapshot, id).state, [0], "before m1 and m2");
    }
}

#[test]
fn a_24_answers_force_no_checkpoint() {
    let mut world = World::new(2, &quiet());
    ask(&mut world, number(50));
    world.gather(1);
    world.deliver();
    assert_eq!(numbers(&world.snapshot()), [50, 2]);
    assert_eq!(world.node(1).recorder.number(), number(2));
}

#[test]
fn a_33_a_neighbor_that_cannot_be_reached_is_dead() {
    let mut world = World::new(3, &quiet());
    world.nodes.remove(&node(2));
    world.gather(0);
    world.settle();
    let now = world.now;
    world.manager(0).handle_peer_lost(now, node(2));
    world.deliver();
    let dead = Missing {
        node: node(2),
        reason: Reason::Dead,
    };
    assert_eq!(world.snapshot().missing, [dead]);
}

#[test]
fn a_34_a_changed_neighborhood_starts_the_gather_anew() {
    let mut world = World::new(3, &quiet());
    world.node(0).neighbors = vec![node(1)];
    let now = world.now;
    let only = Neighbors {
        neighbors: Some(vec![node(1)]),
    };
    world.manager(0).handle_host(now, only.into());
    let id = world.gather(0);
    world.settle();
    // The service changes its parent before node 1 has answered.
    world.node(0).neighbors = vec![node(2)];
    let other = Neighbors {
        neighbors: Some(vec![node(2)]),
    };
    world.manager(0).handle_host(now, other.into());
    world.deliver();
    assert_eq!(world.manager(0).counts().restarts, 1);
    assert_eq!(world.snapshots[0].0, id, "under the same name");
    let snapshot = world.snapshot();
    let members: Vec<u32> = snapshot
        .members
        .iter()
        .map(|member| member.node.get())
        .collect();
    assert_eq!(members, [0, 2]);
}

#[test]
fn a_35_the_same_error_means_dead_or_no_neighbor_by_the_list() {
    for still in [true, false] {
        let mut world = World::new(3, &quiet());
        world.gather(0);
        world.settle();
        world.frames.retain(|(_, to, _)| *to != node(2));
        if !still {
            world.node(0).neighbors = vec![node(1)];
        }
        let now = world.now;
        world.manager(0).handle_peer_lost(now, node(2));
        world.deliver();
        let snapshot = world.snapshot();
        assert_eq!(snapshot.is_complete(), !still);
        assert_eq!(world.manager(0).counts().restarts, u64::from(!still));
    }
}

#[test]
fn a_41_a_refusal_carries_the_present_number() {
    let mut world = World::new(2, &quiet());
    let tiny = Options {
        store_quota_bytes: 100,
        ..quiet()
    };
    world.node(0).manager = CheckpointManager::new(node(0), tiny);
    let greeting = hello(0, &world.node(0).recorder);
    let now = world.now;
    world.manager(0).handle_host(now, greeting);
    world.settle();
    for due in [3, 5, 9] {
        assert_eq!(answered(&mut world, due), u64::from(due));
    }
    let refused = Refused {
        id: RequestId::new(77),
        reason: Refusal::OutOfRange,
        number: number(9),
    };
    assert_eq!(ask(&mut world, number(4)), PeerMessage::Refused(refused));
    assert_eq!(answered(&mut world, 6), 9);
}

#[test]
fn a_44_the_gathering_nodes_own_number_rises_with_the_second_round() {
    let mut world = World::new(2, &quiet());
    let tiny = Options {
        store_quota_bytes: 100,
        ..quiet()
    };
    world.node(0).manager = CheckpointManager::new(node(0), tiny);
    let greeting = hello(0, &world.node(0).recorder);
    let now = world.now;
    world.manager(0).handle_host(now, greeting);
    for due in [3, 5, 9] {
        ask(&mut world, number(due));
    }
    world.gather(1);
    world.deliver();
    let snapshot = world.snapshot();
    assert_eq!(snapshot.rounds, 2);
    assert_eq!(numbers(&snapshot), [9, 9]);
    assert_eq!(world.node(1).recorder.number(), number(9));
}

#[test]
fn a_53_a_node_over_its_limit_refuses_and_is_back_in_the_next_snapshot() {
    let mut world = World::new(3, &quiet());
    let limited = Options {
        limits: Limits {
            absolute: Some(Absolute {
                bits_per_second: 800,
                burst_bytes: 100,
            }),
            share: None,
        },
        ..quiet()
    };
    world.node(2).manager = CheckpointManager::new(node(2), limited);
    let greeting = hello(2, &world.node(2).recorder);
    let now = world.now;
    world.manager(2).handle_host(now, greeting);
    world.deliver();
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        world.gather(0);
        world.deliver();
        outcomes.push(world.snapshot().missing);
    }
    let over = Missing {
        node: node(2),
        reason: Reason::OverBandwidth,
    };
    assert_eq!(outcomes, [vec![], vec![], vec![], vec![], vec![over]]);
    world.pass(1_000);
    world.gather(0);
    world.deliver();
    assert!(world.snapshot().is_complete());
}

#[test]
fn a_55_every_byte_is_counted_at_both_ends() {
    let mut world = World::new(2, &quiet());
    let mut bytes = [0, 0];
    world.gather(0);
    world.settle();
    while !world.frames.is_empty() {
        for (from, to, frame) in std::mem::take(&mut world.frames) {
            bytes[from.get() as usize] += frame.len() as u64;
            let now = world.now;
            let none = world.manager(to.get()).handle_frame(now, from, &frame);
            assert_eq!(none, Ok(None));
        }
        world.settle();
    }
    let there = world.manager(1).traffic()[&node(0)];
    let here = world.manager(0).traffic()[&node(1)];
    assert_eq!((here.sent_bytes, here.received_bytes), (bytes[0], bytes[1]));
    assert_eq!(
        (there.received_bytes, there.sent_bytes),
        (bytes[0], bytes[1])
    );
    assert_eq!(
        (here.sent_frames, here.received_frames),
        (2, 1),
        "request, confirm; full"
    );
}

#[test]
fn a_55_paths_and_their_answers_count_and_are_limited_like_checkpoints() {
    let share = |length: usize| -> PeerMessage {
        SharePath {
            by: node(0),
            violation: ViolationId::new(7),
            service: "counter".to_owned(),
            version: "1".to_owned(),
            property: "it counts".to_owned(),
            path: vec![1; length],
        }
        .into()
    };
    let answer = PeerMessage::from(PathAnswer {
        violation: ViolationId::new(7),
        outcome: PathOutcome::Prevented,
    });
    let limits = Limits {
        absolute: Some(Absolute {
            bits_per_second: 8_000,
            burst_bytes: 1_000,
        }),
        share: None,
    };
    let options = Options {
        limits,
        frame_overhead_bytes: 10,
        ..quiet()
    };
    let mut world = World::new(2, &options);
    let now = world.now;
    assert!(world.manager(0).handle_message(now, node(1), &share(800)));
    // The path has used up what may be sent at once: neither another nor a request fits.
    assert!(!world.manager(0).handle_message(now, node(1), &share(800)));
    assert_eq!(world.manager(0).counts().unsent, 1);
    let path_bytes = frame::encode(&share(800)).expect("small").len() as u64 + 10;
    let sent = world.manager(0).traffic()[&node(1)];
    assert_eq!((sent.sent_frames, sent.sent_bytes), (1, path_bytes));
    world.settle();
    let (_, _, bytes) = world.frames.pop().expect("the path is on its way");
    let taken = world.manager(1).handle_frame(now, node(0), &bytes);
    assert_eq!(taken, Ok(Some(share(800))), "the path is for others");
    assert!(world.manager(1).handle_message(now, node(0), &answer));
    let answer_bytes = frame::encode(&answer).expect("small").len() as u64 + 10;
    let there = world.manager(1).traffic()[&node(0)];
    assert_eq!(
        (there.received_bytes, there.sent_bytes),
        (path_bytes, answer_bytes)
    );
    // Time fills the bucket again.
    world.now = now.after_millis(1_000);
    let now = world.now;
    assert!(world.manager(0).handle_message(now, node(1), &share(800)));
}

#[test]
fn answers_that_cannot_be_read_are_told_once_until_one_can_be() {
    let mut world = World::new(2, &quiet());
    let spoil = |world: &mut World, spoilt: bool| {
        world.gather(0);
        world.settle();
        let (_, to, request) = world.frames.pop().expect("a request");
        let now = world.now;
        world
            .manager(to.get())
            .handle_frame(now, node(0), &request)
            .expect("a frame");
        world.settle();
        let (from, _, mut answer) = world.frames.pop().expect("an answer");
        if spoilt && let Ok(PeerMessage::Request(request)) = frame::decode_one(&request) {
            let nonsense = Changed {
                id: request.id,
                ahead: 0,
                age_ms: 0,
                delta: Delta::between(b"never sent", b"and never seen"),
            };
            answer = frame::encode(&PeerMessage::from(nonsense)).expect("small");
        }
        world
            .manager(0)
            .handle_frame(now, from, &answer)
            .expect("a frame");
        world.deliver();
        world.unreadable.len()
    };
    let told: Vec<usize> = [true, true, false, true]
        .map(|spoilt| spoil(&mut world, spoilt))
        .to_vec();
    assert_eq!(told, [1, 1, 1, 2]);
    assert_eq!(world.manager(0).counts().unreadable, 3);
}

#[test]
fn a_host_that_does_not_answer_fails_a_gather_and_refuses_a_peer() {
    let mut world = World::new(2, &quiet());
    world.node(0).answers = false;
    world.gather(0);
    world.gather(1);
    world.deliver();
    world.pass(1_000);
    world.deliver();
    assert_eq!(world.failures, [GatherError::OwnMissing(Reason::NoHost)]);
    world.failures.clear();
    let silent = Missing {
        node: node(0),
        reason: Reason::NoHost,
    };
    assert_eq!(world.snapshot().missing, [silent]);
}

#[test]
fn a_host_that_ended_is_no_host_and_a_new_incarnation_is_lifted_above_the_last() {
    let mut world = World::new(2, &quiet());
    assert_eq!(answered(&mut world, 20), 20);
    let now = world.now;
    let goodbye = Goodbye { number: number(20) };
    world.manager(0).handle_host(now, goodbye.into());
    let refused = Refused {
        id: RequestId::new(77),
        reason: Refusal::NoHost,
        number: number(20),
    };
    assert_eq!(ask(&mut world, number(20)), PeerMessage::Refused(refused));
    // The new incarnation forgot its number.
    let (recorder, first) = Recorder::begin(
        now,
        Incarnation::new(2),
        number(1),
        None,
        past(1),
        capture(0, &[]),
    );
    let greeting = hello(0, &recorder);
    world.node(0).recorder = recorder;
    world.manager(0).handle_host(now, greeting);
    world
        .manager(0)
        .handle_host(now, first.expect("small").into());
    world.settle();
    assert_eq!(world.node(0).recorder.number(), number(21));
    let refused = Refused {
        id: RequestId::new(77),
        reason: Refusal::OutOfRange,
        number: number(21),
    };
    assert_eq!(ask(&mut world, number(20)), PeerMessage::Refused(refused));
    assert_eq!(answered(&mut world, 21), 21);
}

#[test]
fn shutting_down_is_said_to_those_who_ask() {
    let mut world = World::new(2, &quiet());
    let now = world.now;
    world.manager(0).handle_shutdown(now);
    let PeerMessage::Refused(refused) = ask(&mut world, number(2)) else {
        panic!("not refused");
    };
    assert_eq!(refused.reason, Refusal::ShuttingDown);
    assert_eq!(
        world.manager(0).handle_demand(now),
        Err(StartGatherError::ShuttingDown)
    );
}

#[test]
fn what_the_service_sends_earns_checkpoint_bytes() {
    let mut world = World::new(2, &quiet());
    let limited = Options {
        limits: Limits {
            absolute: None,
            share: Some(crate::quota::Share {
                per_mille: 100,
                window_ms: 10_000,
            }),
        },
        ..quiet()
    };
    world.node(0).manager = CheckpointManager::new(node(0), limited);
    let greeting = hello(0, &world.node(0).recorder);
    let now = world.now;
    world.manager(0).handle_host(now, greeting);
    world.deliver();
    world.gather(1);
    world.deliver();
    world.pass(5_000);
    let silent = Missing {
        node: node(0),
        reason: Reason::Silent,
    };
    assert_eq!(world.snapshot().missing, [silent], "it may not even refuse");
    let stats = Stats {
        sent_bytes: 10_000,
        ..Stats::default()
    };
    let now = world.now;
    world.manager(0).handle_host(now, stats.into());
    world.gather(1);
    world.deliver();
    assert!(world.snapshot().is_complete());
}

#[test]
fn damaged_frames_are_refused_and_disturb_nothing() {
    let mut world = World::new(2, &quiet());
    let now = world.now;
    world.gather(0);
    world.settle();
    for damaged in [
        &b"\x09\x21\x00"[..],
        b"\x01\xee\x00",
        b"\x01\x21",
        b"\x01\x21\x01\xc1",
    ] {
        assert!(
            world
                .manager(0)
                .handle_frame(now, node(1), damaged)
                .is_err()
        );
    }
    world.deliver();
    assert!(world.snapshot().is_complete());
}

#[test]
fn a_peer_that_asks_too_much_is_refused_and_others_are_not() {
    let mut world = World::new(2, &quiet());
    world.node(0).answers = false;
    let now = world.now;
    let mut request = |from: u32, id: u16| {
        let request = Request {
            id: RequestId::new(id),
            number: number(100 + u32::from(id)),
            known: None,
        };
        let frame = frame::encode(&PeerMessage::from(request)).expect("small");
        let none = world.manager(0).handle_frame(now, node(from), &frame);
        assert_eq!(none, Ok(None));
        world.settle();
        std::mem::take(&mut world.frames).len()
    };
    let answers: Vec<usize> = (0..18).map(|id| request(1, id)).collect();
    assert_eq!(answers, [[0; 16].as_slice(), &[1, 1]].concat());
    assert_eq!(request(5, 0), 0, "it may wait");
}
