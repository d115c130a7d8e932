//! What hosts, checkers and agents read through the crate `scry`: the wire of the runtime, peers' states and paths, the
//! facts of the checkpoint manager, traces and property files.

use std::sync::LazyLock;

use paxos::Paxos;
use randtree::RandTree;
use scry::checker::start::Start;
use scry::checker::{path, replay, start};
use scry::checkpoint::cut::Cut;
use scry::checkpoint::flight;
use scry::properties::{PropertyFile, Schema};
use scry::runtime::wire;
use scry::timing::Clock;
use scry::{Faults, Property, Scope, Service, capture, trace};
use scry_protocol::channel::Succession;
use scry_protocol::frame::Message;
use scry_protocol::limit::{BODY_BYTES_MAX, STATE_BYTES_MAX};
use scry_protocol::link::host::AgentToHost;
use scry_protocol::snapshot::Member;
use scry_protocol::{Body, CheckpointNumber, Content, NodeId, Past, Snapshot, messagepack};

use crate::Target;
use crate::memory::frugally;
use crate::parts::Parts;

/// The targets of this module.
pub const TARGETS: &[Target] = &[
    Target::new("connection", 512, connection),
    Target::new("datagram", 256, datagram),
    Target::new("state_of_randtree", 512, state::<RandTree>),
    Target::new("state_of_paxos", 512, state::<Paxos>),
    Target::new("path_of_randtree", 512, path::<RandTree>),
    Target::new("path_of_paxos", 512, path::<Paxos>),
    Target::new("snapshot", 2048, snapshot),
    Target::new("surroundings", 1024, surroundings),
    Target::new("trace", 2048, trace_file),
    Target::new("packed_trace", 1024, packed_trace),
    Target::new("properties", 1024, properties),
];

/// What serde sets aside for lists of an announced length, at most and at a few levels.
const ANNOUNCED_BYTES: usize = 8 << 20;

/// What comes on a connection between two nodes: a hello, then stamped messages.
fn connection(input: &[u8]) {
    let mut rest = input;
    let Ok(Some((content, used))) = wire::split(rest, wire::HELLO_BYTES_MAX) else {
        return;
    };
    rest = &rest[used..];
    if let Ok(hello) = frugally(input, 0, || wire::read_hello(content)) {
        let again = wire::hello(&hello);
        let (content, _) = wire::split(&again, wire::HELLO_BYTES_MAX)
            .expect("a hello is short")
            .expect("a hello is whole");
        assert_eq!(wire::read_hello(content).expect("our own hello"), hello);
    }
    let (mut there, mut here, mut again) = (
        Succession::default(),
        Succession::default(),
        Succession::default(),
    );
    while let Ok(Some((content, used))) = wire::split(rest, wire::FRAME_BYTES_MAX) {
        assert!(used > content.len() && used <= rest.len());
        rest = &rest[used..];
        let Ok((envelope, message)) = frugally(input, 0, || here.read(content)) else {
            return;
        };
        let _ = frugally(input, ANNOUNCED_BYTES, || {
            messagepack::from_slice::<<RandTree as Service>::Message>(message)
        });
        let mut out = Vec::new();
        assert!(wire::frame(&mut out, &mut there, &envelope, message));
        let (content, _) = wire::split(&out, wire::FRAME_BYTES_MAX)
            .expect("no longer than it was")
            .expect("our own frame is whole");
        assert_eq!(again.read(content), Ok((envelope, message)));
    }
}

fn datagram(input: &[u8]) {
    let Ok((from, envelope, message)) = frugally(input, 0, || wire::read_datagram(input)) else {
        return;
    };
    let mut again = Vec::new();
    assert!(wire::datagram(&mut again, from, &envelope, message));
    let read = wire::read_datagram(&again).expect("our own datagram");
    assert_eq!(read, (from, envelope, message));
    let _ = frugally(input, ANNOUNCED_BYTES, || {
        messagepack::from_slice::<<Paxos as Service>::Message>(message)
    });
}

/// The state and timers in a peer's checkpoint.
fn state<S: Service>(input: &[u8]) {
    let mut parts = Parts::of(input);
    let (Some(timers), Some(state)) = (parts.short(), parts.long()) else {
        return;
    };
    let mut content = content_of(state, timers);
    let read = frugally(input, ANNOUNCED_BYTES, || capture::read::<S>(&content));
    let Ok((setup, captured)) = read else {
        return;
    };
    let written = capture::write_with(
        &setup,
        &captured.local,
        &captured.streams,
        &captured.kept,
        captured.readings.as_ref(),
    );
    (content.state, content.timers) = written.expect("what was read can be written");
    let (_, again) = capture::read::<S>(&content).expect("what was written can be read");
    assert!(again == captured, "read back differently");
}

fn content_of(state: &[u8], timers: &[u8]) -> Content {
    Content {
        incarnation: Default::default(),
        born: CheckpointNumber::ZERO,
        past: Past::default(),
        state: state.to_vec(),
        timers: timers.to_vec(),
        channels: None,
    }
}

/// A path that a peer shares, or that was stored.
fn path<S: Service>(input: &[u8]) {
    let Ok(read) = frugally(input, ANNOUNCED_BYTES, || path::read::<S>(input)) else {
        return;
    };
    let again = path::write(&read).expect("what was read can be written");
    assert!(path::read::<S>(&again).expect("our own path") == read);
    path::name("a property", &[NodeId::new(1)], &read);
}

/// A snapshot of peers' checkpoints and a peer's path, down to the state a search starts from.
fn snapshot(input: &[u8]) {
    let mut parts = Parts::of(input);
    let Some(path) = parts.long() else {
        return;
    };
    let mut members = Vec::new();
    while let Some(bytes) = parts.long() {
        members.push(Member {
            node: NodeId::new(members.len() as u32 + 1),
            number: CheckpointNumber::from(members.len() as u32),
            age_ms: 0,
            body: Body::from_bytes(bytes.to_vec()).expect("an input is short"),
        });
        if members.len() == 4 {
            break;
        }
    }
    let read: Vec<(NodeId, Content)> = members
        .iter()
        .filter_map(|member| Some((member.node, member.body.read().ok()?)))
        .collect();
    let contents: Vec<(NodeId, &Content)> = read.iter().map(|(id, read)| (*id, read)).collect();
    frugally(input, 0, || flight::in_flight(&contents));
    frugally(input, 0, || flight::contradiction(&contents));
    let snapshot = Snapshot {
        by: NodeId::new(1),
        number: CheckpointNumber::ZERO,
        rounds: 1,
        elapsed_ms: 0,
        members,
        missing: Vec::new(),
    };
    let restored = frugally(input, ANNOUNCED_BYTES, || {
        start::restore::<RandTree>(&snapshot, Faults::NONE, &Clock::default())
    });
    let Ok(Start { state, .. }) = restored else {
        return;
    };
    static RULES: LazyLock<Vec<Property<RandTree>>> = LazyLock::new(RandTree::properties);
    for property in RULES.iter() {
        property.judge_in(Scope::Partial, &state.views());
    }
    if let Ok(path) = path::read::<RandTree>(path) {
        replay::replay(&state, &path, &RULES);
    }
}

/// The neighbors' states as an agent tells them to its host.
fn surroundings(input: &[u8]) {
    const SURROUNDINGS: u8 = 0x18;
    let read = AgentToHost::read_body(SURROUNDINGS, input);
    let Ok(AgentToHost::Surroundings(surroundings)) = read else {
        return;
    };
    let cut = frugally(input, 0, || Cut::of(&surroundings));
    let standing = cut.standing(&Past::default());
    assert!(standing.len() <= surroundings.neighbors.len());
}

/// A trace file, and every drawing of it.
fn trace_file(input: &[u8]) {
    let Ok(read) = frugally(input, 0, || trace::json::parse(input)) else {
        return;
    };
    draw(&read);
}

fn draw(read: &trace::Trace) {
    // Not compared as a whole: a fraction in a state may change in its last digit.
    let again = trace::json::parse(trace::json::render(read).as_bytes()).expect("our own trace");
    assert_eq!(again.steps.len(), read.steps.len());
    assert_eq!(
        trace::text::render(&again).lines().count(),
        trace::text::render(read).lines().count()
    );
    trace::mermaid::render(read);
    trace::shiviz::render(read);
}

/// A trace as a checker sends it.
fn packed_trace(input: &[u8]) {
    let most = (255 * input.len()).min(trace::JSON_BYTES_MAX);
    if let Ok(json) = frugally(input, 2 * most, || trace::unpack(input))
        && json.len() <= BODY_BYTES_MAX.min(STATE_BYTES_MAX)
    {
        trace_file(&json);
    }
}

/// A property file, compiled for a service and judged.
fn properties(input: &[u8]) {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<RandTree>);
    static STATE: LazyLock<scry::Simulation<RandTree>> = LazyLock::new(|| {
        let setups = (1..=3).map(|id| (NodeId::new(id), randtree::Setup::default()));
        scry::Simulation::boot(setups.collect(), Faults::NONE)
    });
    match PropertyFile::load("fuzz.toml", input, &SCHEMA, RandTree::properties()) {
        Ok(set) => {
            let views = STATE.views();
            for rule in set.always.iter().chain(&set.eventually) {
                rule.predicate.judge(&views);
                rule.predicate.explain(&views);
            }
        }
        Err(diagnostics) => assert!(diagnostics.to_string().contains("fuzz.toml")),
    }
}
