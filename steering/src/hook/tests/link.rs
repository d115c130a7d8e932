//! The link to the agent: what is said first, what happens when it is slow, gone or mad.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use scry_protocol::channel::Envelope;
use scry_protocol::filter::{Action, Mode};
use scry_protocol::frame;
use scry_protocol::link::host::{
    AgentToHost, Checkpoint, FilterEnd, Goodbye, Hello, HostToAgent, Stats, TakeCheckpoint,
};
use scry_protocol::{CheckpointNumber, Incarnation, NodeId, Transport};

use crate::hook::tests::rig::{
    Agent, Directory, ME, NOW, PEER, Rig, capture, join, options, until, welcome,
};
use crate::hook::{Hook, Options, Verdict};
use scry_checkpoint::Time;
use scry_checkpoint::channel::Lane;
use scry_checkpoint::recorder::Capture;

fn stamped(number: u32) -> Envelope {
    Envelope {
        number: number.into(),
        place: None,
        acknowledged: None,
        past: None,
    }
}

fn hello(agent: &mut Agent) -> Hello {
    match agent.next() {
        Some(HostToAgent::Hello(hello)) => hello,
        other => panic!("{other:?} came first"),
    }
}

fn checkpoint(agent: &mut Agent) -> Checkpoint {
    agent.expect(|message| match message {
        HostToAgent::Checkpoint(checkpoint) => Some(checkpoint),
        _ => None,
    })
}

fn state_of(checkpoint: &Checkpoint) -> Vec<u8> {
    checkpoint.body.read().expect("a checkpoint").state
}

/// Forces a checkpoint with a given state.
fn force(hook: &mut Hook, number: u32, state: &[u8]) {
    hook.receive(NOW, PEER, Transport::Datagram, &stamped(number), || {
        Capture {
            state: state.to_vec(),
            ..Capture::default()
        }
    });
}

#[test]
fn who_it_is_and_the_first_checkpoint_come_first() {
    let directory = Directory::new();
    let socket = directory.join("agent");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let _hook = Hook::connect(options(&socket), NOW, capture);
    let mut agent = Agent::accept(&listener);
    let hello = hello(&mut agent);
    assert_eq!((hello.node, hello.service.as_str()), (ME, "test"));
    assert_eq!(hello.born, hello.number);
    let Some(HostToAgent::Checkpoint(first)) = agent.next() else {
        panic!("no checkpoint");
    };
    assert_eq!(first.number, hello.born);
    assert_eq!(first.neighbors, Some(vec![PEER]));
}

#[test]
fn a_17_the_checkpoint_before_the_handler_goes_to_the_agent() {
    let mut rig = Rig::new();
    force(&mut rig.hook, 7, b"before");
    let forced = checkpoint(&mut rig.agent);
    assert_eq!((forced.after, forced.number), (1.into(), 7.into()));
    assert_eq!(state_of(&forced), b"before");
    let stamp = rig.hook.stamp(NOW, PEER, Lane::Datagram, b"x");
    assert_eq!(stamp.number, 7.into());
}

#[test]
fn a_19_the_agent_asks_for_a_checkpoint_and_the_idle_loop_is_woken() {
    let woken = Arc::new(AtomicU32::new(0));
    let count = woken.clone();
    let mut rig = Rig::with(Mode::Audit, move |options| {
        options.waker = Some(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
    });
    let before = woken.load(Ordering::Relaxed);
    rig.agent.send(TakeCheckpoint { number: 5.into() });
    until("the loop is woken", || {
        woken.load(Ordering::Relaxed) > before
    });
    assert_eq!(rig.hook.turn(NOW, capture), []);
    assert_eq!(checkpoint(&mut rig.agent).number, 5.into());
    assert_eq!(rig.hook.number(), 5.into());
}

#[test]
fn a_host_without_an_agent_runs_and_stamps() {
    let mut hook = Hook::detached(Options::new(ME, "test", "1"), NOW, capture);
    let born = hook.number();
    assert_eq!(hook.stamp(NOW, PEER, Lane::Datagram, b"x").number, born);
    assert_eq!(hook.turn(Time::from_millis(5_000), capture), []);
    assert_eq!(hook.stats().sent_messages, 1);
    hook.close(Duration::from_secs(1));
}

#[test]
fn an_agent_that_stops_reading_is_not_waited_for() {
    let mut rig = Rig::with(Mode::Steer, |options| {
        options.queue.frames_max = 8;
    });
    let state = vec![7; 100_000];
    let begun = Instant::now();
    for number in 2..=500 {
        force(&mut rig.hook, number, &state);
    }
    // Fifty megabytes go to nobody: what the socket and the queue hold is all that was kept.
    assert!(begun.elapsed() < Duration::from_secs(10));
    let dropped = rig.hook.stats().dropped_frames;
    assert!(dropped > 400, "{dropped} frames were dropped");

    // Once it reads again it gets what was kept, then the newest, each telling what is missing before it.
    let mut seen = CheckpointNumber::from(1);
    while seen < 500.into() {
        let checkpoint = checkpoint(&mut rig.agent);
        assert!(checkpoint.number > seen);
        assert_eq!(checkpoint.after, checkpoint.number.previous());
        seen = checkpoint.number;
    }
    rig.hook.turn(Time::from_millis(1_000), capture);
    let told = rig.agent.expect(|message| match message {
        HostToAgent::Stats(stats) => Some(stats.dropped_frames),
        _ => None,
    });
    assert_eq!(told, dropped);
}

#[test]
fn a_stalled_agents_filters_still_lapse() {
    let mut rig = Rig::with(Mode::Steer, |options| options.queue.frames_max = 4);
    let short = scry_protocol::filter::Filter {
        ttl_ms: 100,
        ..join(1, Action::Hold)
    };
    rig.install([short]);
    for number in 2..=50 {
        force(&mut rig.hook, number, &[0; 100_000]);
    }
    assert_eq!(rig.wait_ended(1), FilterEnd::Lapsed);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
}

#[test]
fn when_the_socket_closes_the_filters_fall() {
    let mut rig = Rig::new();
    rig.install([join(1, Action::Drop)]);
    assert_ne!(rig.message("Join", PEER, b""), Verdict::Run);
    rig.agent
        .stream
        .shutdown(std::net::Shutdown::Both)
        .expect("open");
    assert_eq!(rig.wait_ended(1), FilterEnd::AgentGone);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    assert_eq!(rig.hook.mode(), Mode::Off);
}

#[test]
fn an_agent_that_restarts_is_attached_again() {
    let mut rig = Rig::new();
    rig.install([join(1, Action::Drop)]);
    force(&mut rig.hook, 7, b"seven");
    let Rig {
        mut hook,
        agent,
        listener,
        directory,
        ..
    } = rig;
    drop((agent, listener));
    let socket = directory.join("agent");
    std::fs::remove_file(&socket).expect("the old socket");
    until("the hook notices", || hook.mode() == Mode::Off);
    force(&mut hook, 9, b"nine");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let mut agent = Agent::accept(&listener);
    let hello = hello(&mut agent);
    assert_eq!((hello.born, hello.number), (1.into(), 9.into()));
    let newest = checkpoint(&mut agent);
    assert_eq!((newest.after, newest.number), (7.into(), 9.into()));
    assert_eq!(state_of(&newest), b"nine");
    let ended = agent.expect_ended();
    assert_eq!(
        ended.end,
        FilterEnd::AgentGone,
        "it hears what fell with it"
    );
    agent.send(welcome(Mode::Steer));
    until("it is steered again", || hook.mode() == Mode::Steer);
}

#[test]
fn whatever_is_no_frame_ends_the_connection_and_the_hook_connects_again() {
    let good =
        frame::encode(&AgentToHost::from(TakeCheckpoint { number: 5.into() })).expect("a frame");
    let mut other_version = good.clone();
    other_version[0] = 77;
    let mut unknown_kind = good.clone();
    unknown_kind[1] = 0x01;
    let mut malformed = good.clone();
    malformed[3] = 0xc1;
    let cases = [
        ("garbage", vec![0xff; 1000]),
        ("another version", other_version),
        ("a frame of another link", unknown_kind),
        ("oversized", vec![1, good[1], 0xff, 0xff, 0xff, 0x7f]),
        (
            "an endless length",
            vec![1, good[1], 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        ("malformed", malformed),
    ];
    for (case, bytes) in cases {
        let mut rig = Rig::new();
        rig.install([join(1, Action::Drop)]);
        rig.agent.stream.write_all(&bytes).expect(case);
        rig.agent.expect_closed();
        assert_eq!(rig.wait_ended(1), FilterEnd::AgentGone, "{case}");
        assert_eq!(rig.message("Join", PEER, b""), Verdict::Run, "{case}");
        let mut agent = Agent::accept(&rig.listener);
        assert_eq!(hello(&mut agent).node, ME, "{case}");
    }
    // Cut off inside a frame.
    let mut rig = Rig::new();
    rig.agent.stream.write_all(&good[..3]).expect("open");
    drop(rig.agent);
    let mut agent = Agent::accept(&rig.listener);
    assert_eq!(hello(&mut agent).node, ME);
}

#[test]
fn counts_and_contacts_are_reported_about_once_a_second() {
    let mut rig = Rig::new();
    let serial = rig.hook.open(NOW, NodeId::new(3));
    let lane = Lane::Stream(serial);
    rig.hook.stamp(NOW, NodeId::new(3), lane, b"four");
    force(&mut rig.hook, 1, b"");
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    rig.hook.turn(Time::from_millis(999), capture);
    rig.hook.turn(Time::from_millis(1_000), capture);
    let Some(HostToAgent::Stats(stats)) = rig.agent.next() else {
        panic!("no counts");
    };
    let expect = Stats {
        sent_bytes: 4,
        sent_messages: 1,
        received_messages: 1,
        checkpoints: 1,
        events: 1,
        ..Stats::default()
    };
    assert_eq!(stats, expect);
    let Some(HostToAgent::Contacts(contacts)) = rig.agent.next() else {
        panic!("no contacts");
    };
    let peers: Vec<(u32, u64)> = contacts
        .contacts
        .iter()
        .map(|contact| (contact.peer.get(), contact.ago_ms))
        .collect();
    assert_eq!(peers, [(2, 1_000), (3, 1_000)]);
    assert_eq!(rig.hook.poll_timeout(), Time::from_millis(2_000));
}

#[test]
fn a_restarted_host_begins_above_its_old_number() {
    let directory = Directory::new();
    let numbers = directory.join("numbers");
    let life = |incarnation| {
        let mut options = Options::new(ME, "test", "1");
        options.incarnation = Incarnation::new(incarnation);
        options.numbers = Some(numbers.clone());
        Hook::detached(options, NOW, capture)
    };
    let mut hook = life(1);
    assert_eq!(hook.number(), 1.into());
    for jump in [2, 5_000, 5_001, 1_000_000] {
        force(&mut hook, jump, b"");
        let reached = hook.number();
        // The process dies here without a word; its next incarnation begins above.
        let next = life(2).number();
        assert!(next > reached, "{next} after {reached}");
    }
    let without_file = Hook::detached(Options::new(ME, "test", "1"), NOW, capture);
    assert!(without_file.number().get() > 1_700_000_000_000);
}

#[test]
fn a_host_that_ends_in_good_order_says_goodbye() {
    let mut rig = Rig::new();
    let number = rig.hook.number();
    rig.hook.close(Duration::from_secs(5));
    let goodbye = rig.agent.expect(|message| match message {
        HostToAgent::Goodbye(goodbye) => Some(goodbye),
        _ => None,
    });
    assert_eq!(goodbye, Goodbye { number });
    assert_eq!(rig.agent.next(), None);
}

#[test]
fn too_large_a_state_fails_open() {
    let mut rig = Rig::new();
    force(&mut rig.hook, 7, &vec![0; 5 << 20]);
    let failed = rig.agent.expect(|message| match message {
        HostToAgent::FailedOpen(failed) => Some(failed),
        _ => None,
    });
    assert_eq!(failed.count, 1);
    assert_eq!(rig.hook.number(), 7.into());
}
