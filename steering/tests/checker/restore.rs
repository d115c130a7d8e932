//! From snapshots to start states: what is restored, what is left out, and what is said about it.

use randtree::{RandTree, scenarios};
use scry::capture::{self, Kept};
use scry::checker::start::{StartError, restore};
use scry::model::{Connection, Node};
use scry::timing::Clock;
use scry::{Event, Faults, NodeId, Service, Simulation};
use scry_protocol::checkpoint::Body;
use scry_protocol::link::checker::Ended;
use scry_protocol::{Content, Incarnation, Snapshot};

use crate::pupil::{Message, Pupil, Story, tell};
use crate::snapshot::{content, snapshot};
use crate::support::{job, run, scenario};

const N0: NodeId = NodeId::new(0);
const N1: NodeId = NodeId::new(1);

type Seen<'a, S> = (
    Vec<(NodeId, Connection)>,
    Vec<(NodeId, &'a <S as Service>::Message, u32)>,
    Vec<(NodeId, Connection, Option<&'a <S as Service>::Message>)>,
);

fn network<S: Service>(node: &Node<S>) -> Seen<'_, S> {
    (
        node.links.open().collect(),
        node.inbox.datagrams().collect(),
        node.inbox.segments().collect(),
    )
}

#[track_caller]
fn same<S: Service>(state: &Simulation<S>, by: NodeId) {
    let restored = restore::<S>(&snapshot(state, by), state.faults(), &Clock::default())
        .expect("it can be read");
    assert_eq!(restored.remarks, Vec::<String>::new());
    assert_eq!(restored.state.faults(), state.faults());
    for (id, node) in state.nodes() {
        let again = &restored.state.nodes()[id];
        assert_eq!(again.local, node.local);
        assert_eq!(network(again), network(node));
    }
}

#[test]
fn a_restored_system_is_the_one_that_was_captured() {
    let start = scenario::<RandTree>("r1", &[], &scenarios::Options::default());
    same(&start, N1);
    for (step, after) in start.successors() {
        // Notices are the network's own: no checkpoint shows them.
        if !matches!(step.event, Event::Reset { .. } | Event::Break { .. }) {
            same(&after, N1);
        }
    }
    same(&tell(Story::Behind), N1);
    same(&tell(Story::Reworded), N0);
}

pub(crate) fn replace(snapshot: &mut Snapshot, node: NodeId, change: impl FnOnce(&mut Content)) {
    let member = snapshot.members.iter_mut().find(|it| it.node == node);
    let member = member.expect("a member");
    let mut content = member.body.read().expect("a content");
    change(&mut content);
    member.body = content.write().expect("a small content");
}

#[test]
fn a_76_a_member_that_cannot_be_read_is_left_out_and_told() {
    let mut job = job(&tell(Story::Timer), 1);
    job.snapshot.members[0].body = Body::from_bytes(vec![0xc1]).expect("few bytes");
    let heard = run::<Pupil>(&job);
    assert!(heard.report().detail.contains("n0 is left out"));
    assert_eq!(heard.report().ended, Ended::Exhausted);
    assert_eq!(heard.found().len(), 1);
}

#[test]
fn a_snapshot_whose_own_node_cannot_be_read_is_no_job() {
    let mut job = job(&tell(Story::Timer), 1);
    replace(&mut job.snapshot, N1, |content| content.state.truncate(1));
    let heard = run::<Pupil>(&job);
    assert_eq!(heard.report().ended, Ended::Unreadable);
    job.snapshot.by = NodeId::new(5);
    let error =
        restore::<Pupil>(&job.snapshot, Faults::NONE, &Clock::default()).expect_err("no such node");
    assert!(matches!(error, StartError::Absent(_)));
}

#[test]
fn properties_that_cannot_be_read_are_told() {
    let mut job = job(&tell(Story::Timer), 1);
    job.properties = "[[property]]\nname = \"x\"\nalways = \"nodes.all(n, n.valeu == 0)\"\n".into();
    let heard = run::<Pupil>(&job);
    assert_eq!(heard.report().ended, Ended::Unreadable);
    assert!(heard.report().detail.contains("valeu"));
    job.properties = job.properties.replace("valeu", "value");
    assert_eq!(run::<Pupil>(&job).found()[0].property, "x");
}

#[test]
fn what_an_earlier_incarnation_may_have_received_is_left_out() {
    let state = tell(Story::Reworded);
    let mut snapshot = snapshot(&state, N1);
    replace(&mut snapshot, N1, |content| {
        content.incarnation = Incarnation::new(2);
        content.born = 7.into();
        content.channels = Some(scry_protocol::channel::ChannelState::default());
    });
    let restored =
        restore::<Pupil>(&snapshot, Faults::NONE, &Clock::default()).expect("it can be read");
    assert!(restored.state.nodes()[&N1].inbox.is_empty());
    assert!(
        restored.remarks[0].contains("earlier incarnation"),
        "{:?}",
        restored.remarks
    );
}

/// Node 1 has received `First` on a connection of node 0, and nothing is on its way.
fn connected() -> Simulation<Pupil> {
    let mut state = tell(Story::Behind);
    for _ in 0..2 {
        let (step, _) = state.successors().swap_remove(0);
        state.step(&step).expect("a message arrives");
    }
    assert_eq!(state.nodes()[&N1].links.open().count(), 1);
    state
}

fn forget_streams(snapshot: &mut Snapshot, node: NodeId, of: &Simulation<Pupil>, life: u64) {
    let alone = {
        let mut nodes = of.nodes().clone();
        nodes.get_mut(&node).expect("a node").links = scry::model::Links::default();
        Simulation::from_nodes(of.setups().clone(), nodes, Faults::NONE)
    };
    let forgotten = content(&alone, node);
    replace(snapshot, node, |content| {
        content.state = forgotten.state;
        content.incarnation = Incarnation::new(life);
    });
}

#[test]
fn a_connection_that_one_end_has_closed_is_about_to_end_at_the_other() {
    let state = connected();
    let mut snapshot = snapshot(&state, N1);
    forget_streams(&mut snapshot, N0, &state, 1);
    let restored =
        restore::<Pupil>(&snapshot, Faults::NONE, &Clock::default()).expect("it can be read");
    let events = restored.state.enabled(N1);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Hangup { from, .. } if *from == N0))
    );
}

#[test]
fn a_72_a_connection_of_an_earlier_incarnation_is_stale_and_nobody_is_told() {
    let state = connected();
    let mut snapshot = snapshot(&state, N1);
    forget_streams(&mut snapshot, N0, &state, 2);
    let restored =
        restore::<Pupil>(&snapshot, Faults::NONE, &Clock::default()).expect("it can be read");
    assert_eq!(restored.state.nodes()[&N1].links.open().count(), 1);
    assert_eq!(restored.state.nodes()[&N0].links.open().count(), 0);
    let told = restored
        .state
        .enabled(N1)
        .into_iter()
        .any(|event| matches!(event, Event::Hangup { .. } | Event::Disconnect { .. }));
    assert!(!told);
}

#[test]
fn what_is_kept_back_is_still_to_come() {
    let start = tell(Story::Lost);
    let arrived = start.successors().into_iter();
    let (_, state) = arrived
        .into_iter()
        .find(|(step, _)| matches!(step.event, Event::Receive { .. }))
        .expect("First arrives");
    let (_, connection) = state.nodes()[&N1].links.open().next().expect("it is open");
    let bytes = |message: &Message| rmp_serde::to_vec(message).ok();
    let restored = |kept: Kept| {
        let mut taken = snapshot(&state, N1);
        replace(&mut taken, N1, |content| {
            let (setup, captured) = capture::read::<Pupil>(content).expect("it was just written");
            let written =
                capture::write_with(&setup, &captured.local, &captured.streams, &[kept], None);
            content.state = written.expect("it can be written").0;
        });
        restore::<Pupil>(&taken, Faults::NONE, &scry::timing::Clock::default())
            .expect("it can be read")
    };
    let next = |kept: Kept| {
        let start = restored(kept);
        assert_eq!(start.remarks, Vec::<String>::new());
        let mut events = start.state.enabled(N1);
        events.swap_remove(0)
    };
    let (from, connection) = (N0, Some(connection));
    let lost = Kept {
        from,
        connection,
        message: None,
    };
    assert!(matches!(
        next(lost.clone()),
        Event::Disconnect { from: N0, .. }
    ));
    let held = Kept {
        message: bytes(&Message::Second),
        ..lost.clone()
    };
    assert!(matches!(
        next(held),
        Event::Receive {
            message: Message::Second,
            ..
        }
    ));
    let late = Kept {
        connection: None,
        message: bytes(&Message::Again(3)),
        ..lost.clone()
    };
    assert!(matches!(
        next(late),
        Event::Deliver {
            message: Message::Again(3),
            ..
        }
    ));
    // What others say of connections between strangers is not believed.
    let strange = Connection {
        opener: NodeId::new(7),
        serial: 0,
    };
    let strange = restored(Kept {
        connection: Some(strange),
        ..lost
    });
    assert_eq!(strange.remarks.len(), 1, "{:?}", strange.remarks);
}
