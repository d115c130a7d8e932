//! Links that are slow, lossy or cut on purpose.

use std::time::{Duration, Instant};

use scry::runtime::{Emulation, Handle};
use tokio::time::timeout;

use crate::cluster::{LIMIT, TWO, call, connected, heard, numbers, pair, pair_with, tell, until};
use crate::probe::{Call, Probe, Way};

const WORDS: u32 = 200;

/// Sends datagrams over a link that loses half of them, and returns which arrived.
async fn lossy(seed: u64) -> Vec<u32> {
    let (one, two) = pair_with(|options| options.seed = Some(seed)).await;
    let half = Emulation {
        loss: 0.5,
        ..Emulation::default()
    };
    one.emulate(half, vec![TWO]).await.expect("it lives");
    let by = Way::Datagram;
    call(
        &one,
        Call::Tell {
            to: TWO,
            by,
            count: WORDS,
        },
    )
    .await;
    let counts = one.state().await.expect("it lives").counts;
    assert_eq!(counts.datagrams_sent, u64::from(WORDS));
    let left = u64::from(WORDS) - counts.datagrams_lost;
    let arrived = until(&two, "what was not lost", heard(left as usize)).await;
    numbers(&arrived)
}

#[tokio::test]
async fn the_same_seed_loses_the_same_datagrams() {
    let (first, again, other) = (lossy(5).await, lossy(5).await, lossy(6).await);
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!(
        (50..150).contains(&first.len()),
        "{} of {WORDS}",
        first.len()
    );
}

async fn late(by: Way) {
    let delay = Duration::from_millis(80);
    let (one, two) = pair().await;
    let emulation = Emulation {
        delay_ms: 80,
        ..Emulation::default()
    };
    one.emulate(emulation, Vec::new()).await.expect("it lives");
    let begun = Instant::now();
    call(
        &one,
        Call::Tell {
            to: TWO,
            by,
            count: 10,
        },
    )
    .await;
    let all = until(&two, "all of them", heard(10)).await;
    // Nothing can be early, however busy the machine.
    assert!(begun.elapsed() >= delay);
    assert_eq!(all.lost, []);
}

#[tokio::test]
async fn datagrams_are_late_by_the_delay() {
    late(Way::Datagram).await;
}

#[tokio::test]
async fn words_on_a_connection_are_late_by_the_delay() {
    late(Way::Stream).await;
}

async fn has_heard(node: &Handle<Probe>) -> usize {
    node.state().await.expect("it lives").state.heard.len()
}

#[tokio::test]
async fn a_cut_stalls_connections_and_loses_datagrams_until_it_heals() {
    let (one, two) = connected().await;
    two.cut(vec![one.me()]).await.expect("it lives");
    for by in [Way::Datagram, Way::Stream] {
        tell(&one, TWO, by).await;
        tell(&two, one.me(), by).await;
    }
    let dropped = async {
        while two.state().await.expect("it lives").counts.datagrams_cut == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, dropped)
        .await
        .expect("the datagram arrives at the cut");
    let counts = two.state().await.expect("it lives").counts;
    assert_eq!((counts.datagrams_sent, counts.datagrams_lost), (1, 1));
    assert_eq!((has_heard(&one).await, has_heard(&two).await), (1, 1));
    two.heal().await.expect("it lives");
    let one_state = until(&one, "the stalled word", heard(2)).await;
    until(&two, "the stalled word", heard(2)).await;
    assert_eq!(one_state.lost, []);
    assert_eq!(two.state().await.expect("it lives").state.lost, []);
    tell(&one, TWO, Way::Datagram).await;
    until(&two, "a datagram", heard(3)).await;
    assert_eq!(has_heard(&one).await, 2);
}

#[tokio::test]
async fn a_reset_behind_a_cut_is_noticed_after_it() {
    let (one, two) = connected().await;
    two.cut(vec![one.me()]).await.expect("it lives");
    two.reset(true).await.expect("it lives");
    tell(&one, TWO, Way::Stream).await;
    assert_eq!(one.state().await.expect("it lives").state.lost, []);
    two.heal().await.expect("it lives");
    until(&one, "the loss", |probe| probe.lost == [TWO]).await;
    assert_eq!(has_heard(&two).await, 0);
}
