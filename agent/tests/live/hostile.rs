//! Input of seven kinds that must be refused with one line each, and disturb nothing else.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use scry_protocol::frame;
use scry_protocol::link::peer::{Changed, PeerMessage, Request};
use scry_protocol::{CheckpointNumber, delta};

use crate::support::{
    Agent, Scratch, TinyHost, certificates, configuration, free_port, hello, until,
};

const QUIET: &str =
    "[checkpoint]\nperiod_ms = 0\nround_ms = 1500\n[checker]\ncommand = [\"/bin/false\"]\n";

/// An agent with a host that must stay attached, whatever is tried.
pub(crate) struct Target {
    pub(crate) scratch: Scratch,
    pub(crate) agent: Agent,
    _host: TinyHost,
    ports: [(u32, u16); 2],
}

impl Target {
    pub(crate) fn start() -> Self {
        Self::start_with("", QUIET)
    }

    /// Starts it with more settings of `[peers]`, and of other sections.
    pub(crate) fn start_with(peers: &str, more: &str) -> Self {
        let scratch = Scratch::new();
        certificates(&scratch.0);
        let ports = [(1, free_port()), (2, free_port())];
        let file = configuration(&scratch.0, 1, &ports, more);
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace("[peers]\n", &format!("[peers]\n{peers}\n"));
        std::fs::write(&file, text).unwrap();
        let agent = Agent::start(&scratch.0, 1, &file);
        let host = TinyHost::attach(&agent, &[2]);
        Self {
            scratch,
            agent,
            _host: host,
            ports,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.ports[0].1).into()
    }

    /// Waits for one line, and sees that it stays at one and that the agent serves its host as before.
    pub(crate) fn assert_refused(&self, line: &str) {
        until(line, || (!self.agent.said(line).is_empty()).then_some(()));
        let (code, text) = self.agent.ask("POST", "/snapshot", "");
        assert_eq!(code, 200, "{text}");
        assert_eq!(
            self.agent.said(line).len(),
            1,
            "{}",
            self.agent.everything()
        );
        assert!(self.agent.status()["steering"]["host"].is_object());
    }
}

fn identity(folder: &Path, node: u32) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_file_iter(folder.join(format!("n{node}.pem")))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(folder.join(format!("n{node}.key"))).unwrap();
    (chain, key)
}

fn roots(folder: &Path) -> Arc<rustls::RootCertStore> {
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(folder.join("authority.pem")).unwrap() {
        roots.add(root.unwrap()).unwrap();
    }
    Arc::new(roots)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Dials as node `node` with certificates of `own`, believing `trusted`.
pub(crate) async fn dial(
    own: &Path,
    trusted: &Path,
    node: u32,
    address: SocketAddr,
) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
    let (chain, key) = identity(own, node);
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots(trusted))
        .with_client_auth_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![b"scry/1".to_vec()];
    let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let crypto = QuicClientConfig::try_from(Arc::new(tls)).unwrap();
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    let connection = endpoint.connect(address, "n1.scry").unwrap().await?;
    Ok((endpoint, connection))
}

/// Waits for others as node `node`.
fn serve(folder: &Path, node: u32, port: u16) -> quinn::Endpoint {
    let (chain, key) = identity(folder, node);
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(roots(folder), provider())
            .build()
            .unwrap();
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![b"scry/1".to_vec()];
    let crypto = QuicServerConfig::try_from(Arc::new(tls)).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    quinn::Endpoint::server(config, ([127, 0, 0, 1], port).into()).unwrap()
}

/// Connects as a true peer, sends bytes, and waits until the agent closes the connection.
fn send_as_peer(target: &Target, bytes: &[u8]) -> quinn::ConnectionError {
    runtime().block_on(async {
        let certs = target.scratch.0.join("certs");
        let (_endpoint, connection) = dial(&certs, &certs, 2, target.address()).await.unwrap();
        let mut stream = connection.open_uni().await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.finish().unwrap();
        connection.closed().await
    })
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// The first bytes of a request, valid for as far as they go.
pub(crate) fn request() -> Vec<u8> {
    let request = Request {
        id: scry_protocol::link::peer::RequestId::new(7),
        number: CheckpointNumber::from(1),
        known: None,
    };
    frame::encode(&PeerMessage::Request(request)).unwrap()
}

fn was_closed_by_agent(reason: &quinn::ConnectionError) {
    assert!(
        matches!(reason, quinn::ConnectionError::ApplicationClosed(_)),
        "{reason}"
    );
}

#[test]
fn a_frame_of_an_unknown_version_is_refused_on_both_links() {
    let target = Target::start();
    let mut frame = request();
    frame[0] = 9;
    was_closed_by_agent(&send_as_peer(&target, &frame));
    target.assert_refused("closed the link to a peer: a frame of version 9");

    let mut hello = frame::encode(&hello(1, 2)).unwrap();
    hello[0] = 9;
    assert_closes(&target.agent, &hello);
    target.assert_refused("refused a connection on the service's socket: a frame of version 9");
}

#[test]
fn an_oversized_frame_is_refused_on_both_links() {
    let target = Target::start();
    let frame = [frame::VERSION, 0x21, 0xff, 0xff, 0x7f];
    was_closed_by_agent(&send_as_peer(&target, &frame));
    target.assert_refused("closed the link to a peer: a frame of kind 0x21 announces");

    assert_closes(&target.agent, &[frame::VERSION, 0x01, 0xff, 0xff, 0x7f]);
    target.assert_refused("service's socket: a frame of kind 0x01 announces");
}

#[test]
fn a_truncated_frame_is_refused_on_both_links() {
    let target = Target::start();
    let frame = request();
    was_closed_by_agent(&send_as_peer(&target, &frame[..frame.len() - 1]));
    target.assert_refused("closed the link to a peer: a frame is cut off");

    let hello = frame::encode(&hello(1, 2)).unwrap();
    assert_closes(&target.agent, &hello[..hello.len() - 1]);
    target.assert_refused("service's socket: a frame is cut off");
}

#[test]
fn an_answer_with_a_wrong_base_counts_as_unreadable() {
    let target = Target::start();
    let certs = target.scratch.0.join("certs");
    let runtime = runtime();
    let port = target.ports[1].1;
    let _guard = runtime.enter();
    let endpoint = serve(&certs, 2, port);
    let answering = runtime.spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let mut requests = connection.accept_uni().await.unwrap();
        let mut answers = connection.open_uni().await.unwrap();
        let mut buffer = Vec::new();
        while let Some(chunk) = requests.read_chunk(4096, true).await.unwrap() {
            buffer.extend_from_slice(&chunk.bytes);
            while let Some((message, used)) = frame::decode::<PeerMessage>(&buffer).unwrap() {
                buffer.drain(..used);
                if let PeerMessage::Request(request) = message {
                    let changed = Changed {
                        id: request.id,
                        ahead: 0,
                        age_ms: 0,
                        delta: delta::Delta::between(b"never sent", b"and never seen"),
                    };
                    let answer = frame::encode(&PeerMessage::Changed(changed)).unwrap();
                    answers.write_all(&answer).await.unwrap();
                }
            }
        }
    });
    let summary = until("the snapshot does without it", || {
        let (_, text) = target.agent.ask("POST", "/snapshot", "");
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        summary["missing"]["n2"].is_string().then_some(summary)
    });
    assert_eq!(summary["missing"]["n2"], "what it sent could not be read");
    // The peer answers the next request no better, and that is not told again.
    target.assert_refused("cannot read a peer's checkpoint:");
    assert!(target.agent.status()["checkpoints"]["unreadable"].as_u64() >= Some(2));
    answering.abort();
}

#[test]
fn a_stranger_is_refused() {
    let target = Target::start();
    let strangers = target.scratch.0.join("strangers");
    let certs = target.scratch.0.join("certs");
    runtime().block_on(async {
        // The client side of TLS 1.3 is done before the server has seen its certificate.
        if let Ok((_endpoint, connection)) = dial(&strangers, &certs, 2, target.address()).await {
            connection.closed().await;
        }
    });
    target.assert_refused("refused a peer:");
    assert_eq!(target.agent.status()["peers_refused"], 1);
}

#[test]
fn a_certificate_of_another_node_is_refused() {
    let target = Target::start();
    let certs = target.scratch.0.join("certs");
    let runtime = runtime();
    let _guard = runtime.enter();
    // Node three waits where node two should be.
    let endpoint = serve(&certs, 3, target.ports[1].1);
    let accepting = runtime.spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let _ = incoming.await;
        }
    });
    until("the neighbor is asked", || {
        let (_, text) = target.agent.ask("POST", "/snapshot", "");
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        summary["missing"]["n2"].is_string().then_some(())
    });
    target.assert_refused("cannot reach a peer:");
    accepting.abort();
}

/// Tells a process of this executable where to knock. It runs as a user without rights.
const KNOCK: &str = "SCRY_TEST_KNOCK";

/// What becomes of somebody who knocks: the exit codes of that process.
const ACCEPTED: i32 = 3;
const KEPT_OUT: i32 = 4;
const SENT_AWAY: i32 = 5;

#[test]
fn a_user_without_rights_is_refused() {
    if let Some(socket) = std::env::var_os(KNOCK) {
        std::process::exit(knock(Path::new(&socket)));
    }
    let target = Target::start();
    let socket = target.agent.socket();
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    if !nix::unistd::geteuid().is_root() {
        // Only root can become somebody else; that the mode is right is all that can be seen.
        return;
    }
    // The file's mode keeps others out.
    assert_eq!(knock_as_nobody(&socket), Some(KEPT_OUT));
    // And if somebody loosens it, the agent does.
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(knock_as_nobody(&socket), Some(SENT_AWAY));
    target.assert_refused("not the service's user");
}

fn knock(socket: &Path) -> i32 {
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => KEPT_OUT,
        Err(_) => ACCEPTED,
        Ok(mut stream) => match stream.read(&mut [0]) {
            Ok(0) | Err(_) => SENT_AWAY,
            Ok(_) => ACCEPTED,
        },
    }
}

/// Runs this test's other half as a user that has no rights here. The executable may lie where such a user cannot go,
/// so a copy of it is run.
fn knock_as_nobody(socket: &Path) -> Option<i32> {
    let directory = std::env::temp_dir().join(format!("scry-knock-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.join("knock");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let status = Command::new(&copy)
        .args(["a_user_without_rights_is_refused", "--nocapture"])
        .env(KNOCK, socket)
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .status()
        .unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    status.code()
}

#[test]
fn a_second_service_and_one_of_another_node_are_refused() {
    let target = Target::start();
    assert_closes(&target.agent, &frame::encode(&hello(1, 2)).unwrap());
    target.assert_refused("another service is attached");
    assert_closes(&target.agent, &frame::encode(&hello(2, 2)).unwrap());
    target.assert_refused("it is n2, not n1");
}

/// Writes bytes to the host's socket and waits until the agent closes it.
fn assert_closes(agent: &Agent, bytes: &[u8]) {
    let mut stream = UnixStream::connect(agent.socket()).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    // A reset is as good an end as any.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
}
