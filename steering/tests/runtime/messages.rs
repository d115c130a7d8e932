//! Messages come across, in order on connections.

use crate::cluster::{ONE, TWO, call, heard, numbers, pair, pair_with, tell, until};
use crate::probe::{Call, Way, Word};

async fn echo(by: Way) {
    let (one, two) = pair().await;
    call(&one, Call::Ask { to: TWO, by }).await;
    let answered = until(&one, "an answer", heard(1)).await;
    assert_eq!(answered.heard, [(TWO, Word::Tell { number: 0, by })]);
    let asked = until(&two, "the question", heard(1)).await;
    assert_eq!(asked.heard, [(ONE, Word::Ask { number: 0, by })]);
    let connected = one.state().await.expect("it lives").connected;
    assert_eq!(connected.is_empty(), by == Way::Datagram);
}

#[tokio::test]
async fn an_echo_comes_back_on_a_connection() {
    echo(Way::Stream).await;
}

#[tokio::test]
async fn an_echo_comes_back_as_a_datagram() {
    echo(Way::Datagram).await;
}

#[tokio::test]
async fn words_on_a_connection_come_in_order_however_late() {
    let (one, two) = pair_with(|options| options.emulation.jitter_ms = 3).await;
    let by = Way::Stream;
    call(
        &one,
        Call::Tell {
            to: TWO,
            by,
            count: 300,
        },
    )
    .await;
    let all = until(&two, "all", heard(300)).await;
    assert_eq!(numbers(&all), (0..300).collect::<Vec<_>>());
}

#[tokio::test]
async fn both_ends_use_one_connection_and_many_words_fit_it() {
    let (one, two) = pair().await;
    let by = Way::Stream;
    call(
        &one,
        Call::Tell {
            to: TWO,
            by,
            count: 2_000,
        },
    )
    .await;
    until(&two, "all", heard(2_000)).await;
    call(
        &two,
        Call::Tell {
            to: ONE,
            by,
            count: 1,
        },
    )
    .await;
    until(&one, "the answer", heard(1)).await;
    let snapshot = two.state().await.expect("it lives");
    assert_eq!(snapshot.connected, [ONE]);
    assert_eq!(snapshot.counts.segments_received, 2_000);
    assert_eq!(snapshot.counts.malformed, 0);
}

#[tokio::test]
async fn a_node_hears_itself_without_a_connection() {
    let (one, _two) = pair().await;
    for by in [Way::Stream, Way::Datagram] {
        call(&one, Call::Ask { to: ONE, by }).await;
    }
    let all = until(&one, "questions and answers", heard(4)).await;
    assert!(all.heard.iter().all(|(from, _)| *from == ONE));
    assert!(one.state().await.expect("it lives").connected.is_empty());
}

#[tokio::test]
async fn bytes_of_strangers_are_counted_and_dropped() {
    let (one, two) = pair().await;
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0")
        .await
        .expect("it lives");
    for junk in [&b""[..], b"abc", b"\0\0\0\x02\x10\x00\xc1", &[0xff; 600]] {
        socket.send_to(junk, two.address()).await.expect("it lives");
    }
    for junk in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0, 0, 1, 0xc1],
    ] {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(two.address())
            .await
            .expect("it lives");
        stream.write_all(junk).await.expect("it lives");
        // It is closed, or reset: in either way nothing comes back.
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0);
    }
    tell(&one, TWO, Way::Stream).await;
    tell(&one, TWO, Way::Datagram).await;
    until(&two, "what it was told", heard(2)).await;
    assert_eq!(two.state().await.expect("it lives").counts.malformed, 4);
}
