//! What those can do to a node's ports whom it was not told of.

use std::time::Duration;

use scry::NodeId;
use scry::hook;
use scry::runtime::wire;
use scry_protocol::CheckpointNumber;
use scry_protocol::channel::Envelope;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::cluster::{LIMIT, ONE, TWO, call, heard, introduce, pair_with, start, until};
use crate::probe::{Call, Way, Word};

fn absurd() -> Envelope {
    Envelope {
        number: CheckpointNumber::MAX,
        ..wire::NO_STAMP
    }
}

/// Sends a datagram with an absurd number, as somebody.
async fn send(to: &scry::runtime::Handle<crate::probe::Probe>, from: NodeId, message: &[u8]) {
    let mut bytes = Vec::new();
    assert!(wire::datagram(&mut bytes, from, &absurd(), message));
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    socket.send_to(&bytes, to.address()).await.expect("sent");
}

fn word(number: u32) -> Vec<u8> {
    let by = Way::Datagram;
    rmp_serde::to_vec(&Word::Tell { number, by }).expect("small")
}

/// With a hook, so that messages carry numbers, and without a disk, so that numbers begin with the time of day.
async fn stamped_pair() -> (
    scry::runtime::Handle<crate::probe::Probe>,
    scry::runtime::Handle<crate::probe::Probe>,
) {
    pair_with(|options| {
        options.hook = Some(hook::Options::new(options.me, "probe", "1"));
    })
    .await
}

#[tokio::test]
async fn what_a_stranger_says_is_heard_and_its_number_is_not() {
    let (one, two) = stamped_pair().await;
    // Neither what is not understood, nor what a stranger says, nor what cannot be true.
    send(&one, TWO, b"\xc1").await;
    send(&one, NodeId::new(77), &word(1)).await;
    send(&one, TWO, &word(2)).await;
    until(&one, "both words", heard(2)).await;
    let by = Way::Datagram;
    let to = TWO;
    call(&one, Call::Ask { to, by }).await;
    until(&one, "an answer", heard(3)).await;
    let by = Way::Stream;
    call(&one, Call::Ask { to, by }).await;
    until(&one, "another", heard(4)).await;
    let number = one.state().await.expect("it lives").number;
    let number = number.expect("it has a hook");
    assert!(number.get() < 1 << 50, "{number}");
    let number = two.state().await.expect("it lives").number;
    let number = number.expect("it has a hook");
    assert!(number.get() < 1 << 50, "{number}");
    assert_eq!(one.state().await.expect("it lives").counts.malformed, 1);
}

#[tokio::test]
async fn who_says_nothing_makes_room_for_who_does() {
    let (one, two) = pair_with(|options| {
        options.limits.connections_max = 8;
        options.limits.silent_timeout = Duration::from_secs(3600);
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(one.address()).await.expect("accepted"));
    }
    let (to, by) = (ONE, Way::Stream);
    call(&two, Call::Ask { to, by }).await;
    until(&two, "an answer", heard(1)).await;
    let counts = one.state().await.expect("it lives").counts;
    assert!(counts.connections_silent > 0, "{counts:?}");
    // The first of them was closed.
    let mut byte = [0];
    let read = timeout(LIMIT, silent[0].read(&mut byte)).await;
    assert!(!matches!(read.expect("in time"), Ok(1)));
}

#[tokio::test]
async fn a_connection_that_says_nothing_in_time_is_closed() {
    let (one, _two) = pair_with(|options| {
        options.limits.silent_timeout = Duration::from_millis(100);
    })
    .await;
    let mut silent = TcpStream::connect(one.address()).await.expect("accepted");
    let mut greeted = TcpStream::connect(one.address()).await.expect("accepted");
    greeted.write_all(&hello(77)).await.expect("written");
    for stream in [&mut silent, &mut greeted] {
        let mut byte = [0];
        let read = timeout(LIMIT, stream.read(&mut byte)).await;
        assert!(!matches!(read.expect("in time"), Ok(1)));
    }
    let counts = one.state().await.expect("it lives").counts;
    assert_eq!(counts.connections_silent, 2, "{counts:?}");
}

#[tokio::test]
async fn strangers_have_few_connections_and_short_frames() {
    let (one, two) = pair_with(|options| {
        options.limits.stranger_connections_max = 3;
        options.limits.stranger_frame_bytes_max = 1000;
    })
    .await;
    let mut strangers = Vec::new();
    for id in 100..110 {
        let mut stream = TcpStream::connect(one.address()).await.expect("accepted");
        // Those that are closed at once may not take it.
        let _ = stream.write_all(&hello(id)).await;
        strangers.push(stream);
    }
    while one
        .state()
        .await
        .expect("it lives")
        .counts
        .connections_refused
        < 7
    {
        tokio::task::yield_now().await;
    }
    // One of those that were let in announces a long frame.
    for stream in &mut strangers {
        let _ = stream.write_all(&5000_u32.to_be_bytes()).await;
    }
    for stream in &mut strangers {
        let mut byte = [0];
        let read = timeout(LIMIT, stream.read(&mut byte)).await;
        assert!(!matches!(read.expect("in time"), Ok(1)));
    }
    let (to, by) = (ONE, Way::Stream);
    call(&two, Call::Ask { to, by }).await;
    until(&two, "an answer", heard(1)).await;
}

fn hello(from: u32) -> Vec<u8> {
    let from = NodeId::new(from);
    wire::hello(&wire::Hello {
        version: wire::VERSION,
        from,
        incarnation: Default::default(),
        to: ONE,
        connection: scry::model::network::Connection {
            opener: from,
            serial: 1,
        },
    })
}

/// Clocks days apart, and one that is set back over a restart without a disk: numbers follow the greatest all the same.
#[tokio::test]
async fn clocks_days_apart_and_set_back_do_not_keep_nodes_apart() {
    const NOON_MS: u64 = 1_790_000_000_000;
    const DAY_MS: u64 = 86_400_000;
    let node = |id: NodeId, clock_ms: u64| {
        let mut options = scry::runtime::Options::new(id, ());
        options.hook = Some(hook::Options::new(id, "probe", "1"));
        options.time_of_day = scry::runtime::TimeOfDay::new(move || clock_ms);
        start(options)
    };
    let one = node(ONE, NOON_MS);
    let mut answers = 0;
    for days in [30, 4, 11, 0] {
        let two = node(TWO, NOON_MS + days * DAY_MS);
        introduce(&[&one, &two]).await;
        for by in [Way::Stream, Way::Datagram] {
            call(&one, Call::Ask { to: TWO, by }).await;
            answers += 1;
            until(&one, "an answer", heard(answers)).await;
        }
        for node in [&one, &two] {
            let number = node.state().await.expect("it lives").number;
            let number = number.expect("it has a hook").get();
            assert!(number >= NOON_MS + 30 * DAY_MS, "{number}");
            assert!(number < NOON_MS + 31 * DAY_MS, "{number}");
        }
        two.shutdown().await;
    }
}
