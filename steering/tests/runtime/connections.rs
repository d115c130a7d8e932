//! Connections fail and are closed as the model has it: who learns of what, and when.

use scry::runtime::{End, Kind, Options};
use tokio::time::timeout;

use crate::cluster::{
    LIMIT, ONE, TWO, call, connected, heard, introduce, report, start, tell, until,
};
use crate::probe::{Call, Probe, Way};

fn lost(count: usize) -> impl Fn(&Probe) -> bool {
    move |probe| probe.lost.len() == count
}

#[tokio::test]
async fn a_peer_that_shuts_down_is_missed() {
    let (one, two) = connected().await;
    assert_eq!(two.shutdown().await, End::Shutdown);
    assert_eq!(until(&one, "the loss", lost(1)).await.lost, [TWO]);
}

#[tokio::test]
async fn a_peer_whose_handler_panics_is_missed_and_says_why() {
    let (one, two) = connected().await;
    let mut reports = two.watch().await.expect("it lives");
    assert!(two.call(Call::Panic).await.is_err());
    let last = report(&mut reports, "the panic", |report| {
        report.kind == Kind::Panic
    })
    .await;
    assert_eq!(last.event, "told to");
    let end = timeout(LIMIT, two.ended()).await.expect("it does not hang");
    assert_eq!(end, End::Panicked("told to".to_owned()));
    assert!(two.state().await.is_err());
    until(&one, "the loss", lost(1)).await;
}

#[tokio::test]
async fn a_reset_with_notice_is_noticed_at_once() {
    let (one, two) = connected().await;
    two.reset(true).await.expect("it lives");
    until(&one, "the loss", lost(1)).await;
    assert_eq!(two.state().await.expect("it lives").state, Probe::default());
    // The next word opens another connection.
    tell(&one, TWO, Way::Stream).await;
    until(&two, "a word in the new incarnation", heard(1)).await;
    assert_eq!(one.state().await.expect("it lives").state.lost, [TWO]);
}

#[tokio::test]
async fn a_72_a_silent_reset_is_noticed_at_the_next_send_only() {
    let (one, two) = connected().await;
    let mut reports = two.watch().await.expect("it lives");
    two.reset(false).await.expect("it lives");
    assert_eq!(two.state().await.expect("it lives").state, Probe::default());
    // Datagrams go both ways, and on a connection of its own the new incarnation is heard: the old one is not missed.
    for by in [Way::Datagram, Way::Stream] {
        tell(&two, ONE, by).await;
    }
    until(&one, "two words of the new incarnation", heard(3)).await;
    tell(&one, TWO, Way::Datagram).await;
    until(&two, "a datagram", heard(1)).await;
    assert!(one.state().await.expect("it lives").state.lost.is_empty());
    // The new connection is the younger, so that it is used; without it the stale one is, and found out.
    call(&two, Call::Disconnect(ONE)).await;
    until(&one, "the loss", lost(1)).await;

    // Both connections are gone with that: once more, with nothing but a send.
    call(
        &one,
        Call::Ask {
            to: TWO,
            by: Way::Stream,
        },
    )
    .await;
    until(&one, "an answer", heard(4)).await;
    two.reset(false).await.expect("it lives");
    tell(&one, TWO, Way::Stream).await;
    until(&one, "the second loss", lost(2)).await;
    report(&mut reports, "the refusal", |report| {
        report.kind == Kind::Refuse
    })
    .await;
    assert!(two.state().await.expect("it lives").state.heard.is_empty());
    tell(&one, TWO, Way::Stream).await;
    until(&two, "a word on a new connection", heard(1)).await;
}

#[tokio::test]
async fn whoever_closes_a_connection_has_its_words_heard_and_is_told_nothing() {
    let (one, two) = connected().await;
    call(
        &one,
        Call::Tell {
            to: TWO,
            by: Way::Stream,
            count: 500,
        },
    )
    .await;
    call(&one, Call::Disconnect(TWO)).await;
    let two = until(&two, "the end", lost(1)).await;
    assert_eq!(two.heard.len(), 501);
    assert!(one.state().await.expect("it lives").state.lost.is_empty());
}

#[tokio::test]
async fn nobody_at_the_other_end_is_a_failed_connection() {
    let one = start(Options::new(ONE, ()));
    tell(&one, TWO, Way::Stream).await;
    until(&one, "that its address is not known", lost(1)).await;
    let two = start(Options::new(TWO, ()));
    introduce(&[&one, &two]).await;
    two.shutdown().await;
    tell(&one, TWO, Way::Stream).await;
    until(&one, "that nobody listens", lost(2)).await;
}

#[tokio::test]
async fn a_node_comes_back_at_the_same_address() {
    let (one, two) = connected().await;
    let address = two.address();
    two.shutdown().await;
    until(&one, "the loss", lost(1)).await;
    let mut options = Options::new(TWO, ());
    options.listen = address;
    let two = start(options);
    tell(&one, TWO, Way::Stream).await;
    until(&two, "a word", heard(1)).await;
}

#[tokio::test]
async fn dropping_all_handles_ends_a_node() {
    let (one, two) = connected().await;
    drop(two);
    until(&one, "the loss", lost(1)).await;
}
