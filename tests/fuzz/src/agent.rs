//! What an agent reads and decides by: facts of hosts, peers and checkers, its files, its configuration.

use std::path::PathBuf;
use std::sync::LazyLock;

use scry::checkpoint::{CheckpointManager, Time, manager};
use scry_agent::controller::paths::{Limits, Paths};
use scry_agent::controller::{Controller, Options, Output};
use scry_agent::fuzzing::{self, Admin};
use scry_agent::log::selection::{self, Selection};
use scry_agent::log::shown::{self, Style};
use scry_agent::log::{Reader, file, verify};
use scry_protocol::filter::Mode;
use scry_protocol::frame::{self, Message};
use scry_protocol::link::checker::{CheckerToAgent, Ready};
use scry_protocol::link::host::{Checkpoint, Hello, HostToAgent};
use scry_protocol::link::peer::PeerMessage;
use scry_protocol::record::Timestamp;
use scry_protocol::{Body, CheckpointNumber, Content, Digest, Incarnation, NodeId, Past};

use crate::Target;
use crate::memory::{frugally, measure};
use crate::parts::Parts;

/// The targets of this module.
pub const TARGETS: &[Target] = &[
    Target::new("manager", 512, manager),
    Target::new("controller", 1024, controller),
    Target::new("stored_paths", 512, stored_paths),
    Target::new("log_line", 512, log_line),
    Target::new("log_file", 1024, log_file),
    Target::new("configuration", 1024, configuration),
    Target::new("admin", 512, admin),
];

const ME: NodeId = NodeId::new(1);
/// More facts than this add nothing.
const FACTS_MAX: usize = 64;
/// Memory that a run over a few facts may take in all.
const HELD_BYTES_MAX: usize = 4 << 20;

fn hello() -> HostToAgent {
    Hello {
        node: ME,
        incarnation: Incarnation::new(7),
        born: CheckpointNumber::from(1_u32),
        number: CheckpointNumber::from(1_u32),
        service: "fuzz".to_owned(),
        version: "1".to_owned(),
        checks: false,
    }
    .into()
}

fn read<M: Message>(bytes: &[u8]) -> Option<M> {
    let (&kind, body) = bytes.split_first()?;
    M::body_bytes_max(kind)?;
    M::read_body(kind, body).ok()
}

/// Any facts for the checkpoint manager, one after the other; whatever it wants sent can be sent.
fn manager(input: &[u8]) {
    let options = manager::Options {
        store_quota_bytes: 4096,
        ..manager::Options::default()
    };
    let quota = options.store_quota_bytes;
    let ((), peak) = measure(|| {
        let mut manager = CheckpointManager::new(ME, options);
        let mut now = Time::from_millis(1_000);
        manager.handle_host(now, hello());
        let mut parts = Parts::of(input);
        for _ in 0..FACTS_MAX {
            let Some(fact) = parts.byte() else { break };
            manage(&mut manager, &mut now, fact, &mut parts);
            drain(&mut manager);
        }
        let (count, bytes) = manager.stored();
        assert!(count <= 1 || bytes <= quota, "{bytes} bytes stored");
    });
    assert!(peak <= HELD_BYTES_MAX + 512 * input.len(), "{peak} bytes");
}

fn manage(manager: &mut CheckpointManager, now: &mut Time, fact: u8, parts: &mut Parts<'_>) {
    match fact % 8 {
        0 | 1 => {
            // From a few peers, so that questions and answers meet.
            let from = NodeId::new(u32::from(fact / 8 % 4) + 2);
            let message = parts.short().and_then(read::<PeerMessage>);
            let frame = message.map(|message| frame::encode(&message).expect("it was read"));
            if let Some(frame) = frame {
                let _ = manager.handle_frame(*now, from, &frame);
            }
        }
        2 => {
            if let Some(message) = parts.short().and_then(read::<HostToAgent>) {
                manager.handle_host(*now, message);
            }
        }
        3 => {
            let state = parts.short().unwrap_or_default();
            manager.handle_host(*now, checkpoint(manager.number(), state, fact));
        }
        4 => {
            if let Some(next) = manager.poll_timeout() {
                *now = next.max(*now);
                manager.handle_timeout(*now);
            }
        }
        5 => drop(manager.handle_demand(*now)),
        6 => *now = now.after_millis(u64::from(fact) * 10),
        _ => manager.handle_host(*now, hello()),
    }
}

/// A checkpoint as a host in good order sends it.
fn checkpoint(after: CheckpointNumber, state: &[u8], fact: u8) -> HostToAgent {
    let content = Content {
        incarnation: Incarnation::new(7),
        born: CheckpointNumber::from(1_u32),
        past: Past::default(),
        state: state.to_vec(),
        timers: Vec::new(),
        channels: None,
    };
    let neighbors = (2..2 + u32::from(fact / 8 % 4)).map(NodeId::new);
    Checkpoint {
        number: after.next(),
        after,
        body: content.write().expect("it is small"),
        neighbors: Some(neighbors.collect()),
    }
    .into()
}

fn drain(manager: &mut CheckpointManager) {
    while let Some(output) = manager.poll_output() {
        match output {
            manager::Output::Peer { frame, .. } => {
                frame::decode_one::<PeerMessage>(&frame).expect("what is sent can be read");
            }
            manager::Output::Host(message) => {
                frame::encode(&message).expect("what is told can be sent");
            }
            _ => {}
        }
    }
}

/// Any facts for the controller; whatever it wants told can be told, and it stays within its limits.
fn controller(input: &[u8]) {
    let options = Options {
        mode: Mode::Steer,
        filters_max: 4,
        records_waiting_max: 100,
        shared_waiting_max: 4,
        ..Options::default()
    };
    let ((), peak) = measure(|| {
        let mut controller = Controller::new(ME, options, Paths::new(Limits::default()));
        let mut now = Time::from_millis(1_000);
        controller.handle_host(now, hello());
        let mut parts = Parts::of(input);
        for _ in 0..FACTS_MAX {
            let Some(fact) = parts.byte() else { break };
            control(&mut controller, &mut now, fact, &mut parts);
            while let Some(output) = controller.poll_output() {
                sendable(&output);
            }
        }
    });
    assert!(peak <= HELD_BYTES_MAX + 512 * input.len(), "{peak} bytes");
}

fn control(controller: &mut Controller, now: &mut Time, fact: u8, parts: &mut Parts<'_>) {
    match fact % 8 {
        0 | 1 => {
            if let Some(message) = parts.short().and_then(read::<CheckerToAgent>) {
                controller.handle_checker(*now, message);
            }
        }
        2 => {
            let from = NodeId::new(u32::from(fact / 8 % 4) + 2);
            if let Some(message) = parts.short().and_then(read::<PeerMessage>) {
                controller.handle_peer(*now, from, message);
            }
        }
        3 => {
            if let Some(message) = parts.short().and_then(read::<HostToAgent>) {
                controller.handle_host(*now, message);
            }
        }
        4 => {
            if let Some(next) = controller.poll_timeout() {
                *now = next.max(*now);
                controller.handle_timeout(*now);
            }
        }
        5 => {
            let body = Body::from_bytes(parts.short().unwrap_or_default().to_vec());
            let member = scry_protocol::snapshot::Member {
                node: ME,
                number: CheckpointNumber::from(9_u32),
                age_ms: u64::from(fact),
                body: body.expect("it is short"),
            };
            let snapshot = scry_protocol::Snapshot {
                by: ME,
                number: CheckpointNumber::from(9_u32),
                rounds: 1,
                elapsed_ms: 1,
                members: vec![member],
                missing: Vec::new(),
            };
            controller.handle_snapshot(*now, fact & 8 == 0, snapshot);
        }
        6 => *now = now.after_millis(u64::from(fact) * 100),
        _ => controller.handle_checker_gone(*now, "fuzz"),
    }
}

fn sendable(output: &Output) {
    match output {
        Output::Checker(message) => drop(frame::encode(message).expect("a job can be sent")),
        Output::Host(message) => drop(frame::encode(message).expect("it can be told")),
        Output::Peer { message, .. } => drop(frame::encode(message).expect("it can be shared")),
        Output::Log(entry) => drop(serde_json::to_string(entry).expect("a record can be written")),
        Output::SavePaths(bytes) => {
            Paths::read(bytes, Limits::default()).expect("what is kept can be read");
        }
        Output::Trace { .. } | Output::Gather | Output::RestartChecker { .. } => {}
    }
}

/// The file of past paths. Its digest is right: that it finds torn files needs no engine.
fn stored_paths(input: &[u8]) {
    let mut bytes = Digest::of(input).to_string().into_bytes();
    bytes.extend(input);
    let limits = Limits {
        paths_max: 4,
        bytes_max: 64,
    };
    let Ok(read) = frugally(input, 8 << 20, || Paths::read(&bytes, limits)) else {
        return;
    };
    assert!(read.len() <= limits.paths_max && read.bytes() <= limits.bytes_max);
    let again = Paths::read(&read.write(), limits).expect("what was written can be read");
    assert_eq!(again.write(), read.write());
    // A controller goes on from it.
    let mut controller = Controller::new(ME, Options::default(), read);
    let now = Time::from_millis(1_000);
    controller.handle_host(now, hello());
    let ready = Ready {
        properties: Vec::new(),
    };
    controller.handle_checker(now, ready.into());
    control(&mut controller, &mut { now }, 5, &mut Parts::of(&[]));
    while let Some(output) = controller.poll_output() {
        sendable(&output);
    }
}

/// A line of the steering log as an operator asks for it.
fn log_line(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for style in [Style::Plain, Style::Coloured] {
        let shown = frugally(input, 0, || shown::line(&text, style));
        let control = |letter: char| letter.is_control() && letter != '\u{1b}';
        assert!(!shown.contains(control), "{shown:?}");
        assert!(style == Style::Coloured || !shown.contains('\u{1b}'));
    }
    let selection = Selection {
        kinds: vec!["violation".to_owned()],
        node: Some(ME),
        property: Some("one root".to_owned()),
        since: Some(Timestamp::from_millis(1_794_817_845_067)),
    };
    frugally(input, 0, || selection.wants(&text));
    let _ = selection::moment(&text, Timestamp::from_millis(1_794_817_845_067));
}

/// The file of a log, read as a whole.
fn log_file(input: &[u8]) {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let name = format!("scry-fuzz-log-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("there is room for a file");
        folder
    });
    std::fs::write(file(&FOLDER, 0), input).expect("there is room for a file");
    let mut reader = Reader::open(&FOLDER).expect("the file is there");
    let lines = reader.read().expect("the file can be read");
    // The last line counts once it is whole.
    let whole = input.iter().rposition(|&byte| byte == b'\n');
    let whole = whole.map_or(&[][..], |end| &input[..end]);
    let expected = whole.split(|&byte| byte == b'\n');
    let expected = expected.filter(|line| !line.is_empty());
    assert_eq!(lines.len(), expected.count());
    verify::verify(&FOLDER, None).expect("the file can be followed");
}

/// `scry.toml`. Lines that begin as variables of the environment do are taken for such.
fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (variables, lines): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("SCRY__"));
    let environment = variables
        .iter()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    match fuzzing::configuration(&lines.join("\n"), &environment) {
        Ok(json) => drop(serde_json::from_str::<serde_json::Value>(&json).expect("it is JSON")),
        Err(said) => assert!(!said.is_empty()),
    }
}

/// What is sent to the interface of operators. The agent behind it is about to end, so that nothing can succeed.
fn admin(input: &[u8]) {
    thread_local! {
        static ADMIN: Admin = Admin::start();
    }
    let answer = ADMIN.with(|admin| admin.answer(input));
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."));
    assert!(
        !answer.starts_with(b"HTTP/1.1 2"),
        "{}",
        answer.escape_ascii()
    );
}
