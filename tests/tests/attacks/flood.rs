//! Holders of certificates that send as fast as they can, and others that knock without end.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says where"
)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use scry_protocol::frame;
use scry_protocol::link::peer::{PeerMessage, Request, RequestId, SharePath};
use scry_protocol::{CheckpointNumber, NodeId, ViolationId};
use scry_tests::attack::{Cluster, Meter, Plan, arena, until};

/// Somebody who attacks until it is dropped.
struct Attack {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Attack {
    /// Attacks the agents of all nodes that are measured, in a thread each.
    fn on(
        cluster: &Cluster,
        attack: impl Fn(&Path, u32, SocketAddr, &AtomicBool) + Clone + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = cluster.measured().iter().map(|node| {
            let (certificates, address) = (cluster.certificates(), cluster.agent(node.id).address);
            let (id, attack, stop) = (node.id, attack.clone(), Arc::clone(&stop));
            std::thread::spawn(move || attack(&certificates, id, address, &stop))
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has told why already.
            let _ = thread.join();
        }
    }
}

/// Dials a node's agent with the certificate of another.
async fn dial(
    certificates: &Path,
    own: u32,
    to: u32,
    address: SocketAddr,
) -> Option<(quinn::Endpoint, quinn::Connection)> {
    let file = |name: String| -> PathBuf { certificates.join(name) };
    let chain: Vec<_> = CertificateDer::pem_file_iter(file(format!("n{own}.pem")))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(file(format!("n{own}.key"))).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(file("authority.pem".to_owned())).unwrap() {
        roots.add(root.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![b"scry/1".to_vec()];
    let mut endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let crypto = QuicClientConfig::try_from(Arc::new(tls)).unwrap();
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    let dialled = endpoint.connect(address, &format!("n{to}.scry")).unwrap();
    let dialled = tokio::time::timeout(Duration::from_secs(5), dialled).await;
    Some((endpoint, dialled.ok()?.ok()?))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// Frames of the third node: each asks for a checkpoint that is not there yet, or tells a path.
fn frames(from: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in from..from + 200 {
        let request = Request {
            id: RequestId::new(number as u16),
            number: CheckpointNumber::from(number),
            known: None,
        };
        let path = SharePath {
            by: NodeId::new(3),
            violation: ViolationId::new(u64::from(number)),
            service: "register".to_owned(),
            version: "1".to_owned(),
            property: format!("property {number}"),
            path: vec![1, 2, 3],
        };
        for message in [PeerMessage::Request(request), PeerMessage::SharePath(path)] {
            bytes.extend(frame::encode(&message).unwrap());
        }
    }
    bytes
}

/// Sends frames as the third node until told to stop, over ever new connections if it must.
fn flood(certificates: &Path, to: u32, address: SocketAddr, stop: &AtomicBool) {
    runtime().block_on(async {
        while !stop.load(Ordering::Relaxed) {
            let Some((_endpoint, connection)) = dial(certificates, 3, to, address).await else {
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
            let sending = tokio::spawn(async move {
                let mut from = 1;
                while stream.write_all(&frames(from)).await.is_ok() {
                    from += 200;
                }
            });
            while !stop.load(Ordering::Relaxed) && !sending.is_finished() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            sending.abort();
        }
    });
}

fn snapshots(cluster: &Cluster, id: u32) -> u64 {
    let status = cluster.agent(id).status();
    status["steering"]["counts"]["snapshots"].as_u64().unwrap()
}

#[test]
fn a_holder_of_a_certificate_that_floods_is_slowed_and_nobody_else() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let attack = Attack::on(&cluster, flood);
    for node in cluster.measured() {
        let agent = cluster.agent(node.id);
        until("it is slowed", || {
            let slowed = agent.metric("scry_peer_slowed_total{peer=\"n3\"}");
            (slowed > 0).then_some(())
        });
        // Timers have their turn: with a flood before them there was one snapshot where there should be eleven.
        let before = snapshots(&cluster, node.id);
        until("snapshots go on", || {
            (snapshots(&cluster, node.id) >= before + 5).then_some(())
        });
        assert_eq!(agent.ask("GET", "/livez", "").0, 200);
        until("what is left out is told", || {
            (!agent.records("repeated").is_empty()).then_some(())
        });
    }
    meter.assert_withstood();
    drop(attack);
    for node in cluster.measured() {
        let agent = cluster.agent(node.id);
        // The first record is still in the first file, and the log is whole.
        assert_eq!(agent.records("started").len(), 1);
        let quota = agent.records("quota");
        assert!(
            quota.iter().any(|record| record["peer"] == "n3"),
            "{quota:?}"
        );
        let log = agent.folder().join("log");
        let verified = arena()
            .arg("log")
            .arg(log)
            .arg("--verify")
            .output()
            .unwrap();
        assert!(verified.status.success(), "{verified:?}");
    }
}

/// Dials as a node that no agent knows, again and again until told to stop.
fn knock(certificates: &Path, to: u32, address: SocketAddr, stop: &AtomicBool) {
    runtime().block_on(async {
        while !stop.load(Ordering::Relaxed) {
            if let Some((_endpoint, connection)) = dial(certificates, 8, to, address).await {
                connection.closed().await;
            }
        }
    });
}

#[test]
fn a_node_that_is_not_known_knocks_in_vain_and_disturbs_nobody() {
    let cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let _attack = Attack::on(&cluster, knock);
    for node in cluster.measured() {
        let agent = cluster.agent(node.id);
        until("it is refused", || {
            (agent.metric("scry_peers_not_members_total") > 10).then_some(())
        });
    }
    meter.assert_withstood();
    for node in cluster.measured() {
        let agent = cluster.agent(node.id);
        let said = agent.said();
        let lines = said.matches("is not among `peers.known`").count();
        assert!((1..=10).contains(&lines), "{lines} lines: {said}");
        assert_eq!(agent.metric("scry_peer_connected{peer=\"n8\"}"), 0);
    }
}
