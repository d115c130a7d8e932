//! Somebody with a valid certificate who sends as fast as it can, nodes that are not known, and strangers in numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scry_protocol::frame;
use scry_protocol::link::peer::{PeerMessage, SharePath};
use scry_protocol::{NodeId, ViolationId};

use crate::hostile::{Target, dial, request, runtime};
use crate::support::{SCRY, until};

/// Snapshots often.
const BUSY: &str =
    "[checkpoint]\nperiod_ms = 100\nround_ms = 50\n[checker]\ncommand = [\"/bin/false\"]\n";

/// Sends frames as node two until told to stop, over ever new connections if it must.
fn flood(target: &Target, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let certs = target.scratch.0.join("certs");
    let address = target.address();
    std::thread::spawn(move || {
        let mut frames = Vec::new();
        for number in 0..200 {
            let path = SharePath {
                by: NodeId::new(2),
                violation: ViolationId::new(number),
                service: "tiny".to_owned(),
                version: "1".to_owned(),
                property: format!("property {number}"),
                path: vec![1, 2, 3],
            };
            frames.extend(frame::encode(&PeerMessage::SharePath(path)).unwrap());
            frames.extend(request());
        }
        let frames = Arc::new(frames);
        runtime().block_on(async {
            while !stop.load(Ordering::Relaxed) {
                let Ok((_endpoint, connection)) = dial(&certs, &certs, 2, address).await else {
                    continue;
                };
                let answers = connection.clone();
                tokio::spawn(async move {
                    while let Ok(mut stream) = answers.accept_uni().await {
                        while let Ok(Some(_)) = stream.read_chunk(1 << 16, true).await {}
                    }
                });
                let Ok(mut stream) = connection.open_uni().await else {
                    continue;
                };
                let frames = Arc::clone(&frames);
                let sending = tokio::spawn(async move {
                    // It is made to wait, which is what is wanted.
                    while stream.write_all(&frames).await.is_ok() {}
                });
                while !stop.load(Ordering::Relaxed) && !sending.is_finished() {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                sending.abort();
            }
        });
    })
}

struct Seen {
    uptime_ms: u64,
    snapshots: u64,
    frames: u64,
    slowed: u64,
}

fn see(target: &Target) -> Seen {
    let status = target.agent.status();
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let peers = status["peers"].as_array().unwrap();
    let peer = peers.iter().find(|peer| peer["node"] == "n2").unwrap();
    Seen {
        uptime_ms: number(&status["uptime_ms"]),
        snapshots: number(&status["steering"]["counts"]["snapshots"]),
        frames: number(&peer["received_frames"]),
        slowed: number(&peer["slowed"]),
    }
}

/// How many thousandths of a snapshot there are in a millisecond, over ten of them.
fn pace(target: &Target) -> u64 {
    let before = see(target);
    until("ten more snapshots", || {
        (see(target).snapshots >= before.snapshots + 10).then_some(())
    });
    let after = see(target);
    (after.snapshots - before.snapshots) * 1_000_000 / (after.uptime_ms - before.uptime_ms)
}

#[test]
fn a_flood_of_frames_is_slowed_and_keeps_nothing_from_being_done() {
    let target = Target::start_with("", BUSY);
    until("snapshots are gathered", || {
        (see(&target).snapshots > 2).then_some(())
    });
    let calm = pace(&target);
    let stop = Arc::new(AtomicBool::new(false));
    let flooding = flood(&target, Arc::clone(&stop));
    until("the flood has come", || {
        (see(&target).slowed > 0).then_some(())
    });
    // A busy machine may be slow for a moment: the best of three counts.
    let flooded = (0..3).map(|_| pace(&target)).max().unwrap();
    let (code, said) = target.agent.ask("GET", "/livez", "");
    assert_eq!(code, 200, "{said}");
    until("what was left out is told", || {
        let log = std::fs::read_to_string(target.scratch.0.join("log1/steering.jsonl")).ok()?;
        log.contains("\"repeated\"").then_some(())
    });
    stop.store(true, Ordering::Relaxed);
    flooding.join().unwrap();
    let seen = see(&target);
    // Half a thousand a second and twice that at once, whatever the machine can do.
    let most = 1_000 + seen.uptime_ms / 2 + 100;
    assert!(
        seen.frames <= most,
        "{} frames, {most} at most",
        seen.frames
    );
    assert!(
        flooded * 2 >= calm,
        "{flooded} of {calm} thousandths of a snapshot a millisecond"
    );
    // The log begins where it began, and says who it was.
    let read = |what: &[&str]| {
        let log = target.scratch.0.join("log1");
        let mut command = std::process::Command::new(SCRY);
        command.arg("log").arg(log).args(what).output().unwrap()
    };
    let lines = |kind: &str| {
        let said = read(&["--kind", kind]).stdout;
        String::from_utf8_lossy(&said).lines().count()
    };
    assert_eq!(lines("started"), 1);
    assert!(lines("path-received") < 200, "{}", lines("path-received"));
    let quota = read(&["--kind", "quota"]).stdout;
    let quota = String::from_utf8_lossy(&quota).into_owned();
    assert!(quota.contains("with n2"), "{quota}");
    let verified = read(&["--verify"]);
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.success(), "{said}");
    let (_, metrics) = target.agent.ask("GET", "/metrics", "");
    assert!(
        metrics.contains("scry_peer_slowed_total{peer=\"n2\"}"),
        "{metrics}"
    );
}

#[test]
fn a_node_of_the_cluster_that_is_not_known_is_refused() {
    let target = Target::start();
    let certs = target.scratch.0.join("certs");
    let reason = runtime().block_on(async {
        let (_endpoint, connection) = dial(&certs, &certs, 3, target.address()).await.unwrap();
        connection.closed().await
    });
    assert!(reason.to_string().contains("not a member"), "{reason}");
    target.assert_refused("n3 is not among `peers.known`");
    assert_eq!(target.agent.status()["peers_not_members"], 1);
}

#[test]
fn strangers_in_numbers_are_told_in_a_few_lines_and_keep_no_peer_out() {
    let more = "[checkpoint]\nperiod_ms = 0\n[checker]\ncommand = [\"/bin/false\"]\n";
    let target = Target::start_with("handshakes_per_second = 5", more);
    let strangers = target.scratch.0.join("strangers");
    let certs = target.scratch.0.join("certs");
    runtime().block_on(async {
        let mut knocking = tokio::task::JoinSet::new();
        for _ in 0..60 {
            let (strangers, certs, address) = (strangers.clone(), certs.clone(), target.address());
            knocking.spawn(async move {
                let dialled = dial(&strangers, &certs, 2, address);
                let wait = std::time::Duration::from_secs(3);
                if let Ok(Ok((_endpoint, connection))) = tokio::time::timeout(wait, dialled).await {
                    connection.closed().await;
                }
            });
        }
        knocking.join_all().await;
    });
    let status = target.agent.status();
    assert!(status["handshakes_retried"].as_u64() > Some(0), "{status}");
    assert!(status["peers_refused"].as_u64() > Some(0), "{status}");
    let lines = target.agent.said("refused a peer").len();
    assert!((1..=5).contains(&lines), "{}", target.agent.everything());
    // A peer that comes from the same address is let in all the same.
    until("a true peer is let in", || {
        runtime().block_on(async {
            let dialled = dial(&certs, &certs, 2, target.address());
            let wait = std::time::Duration::from_secs(5);
            let (_endpoint, connection) = tokio::time::timeout(wait, dialled).await.ok()?.ok()?;
            let is_open = connection.open_uni().await.is_ok();
            is_open.then_some(())
        })
    });
}
