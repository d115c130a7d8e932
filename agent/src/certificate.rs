//! Who an agent is: its certificate, its key, the cluster's authority, and the node's id in every peer's certificate.
//!
//! A node's certificate names it as `n13.scry` among its alternative names, and as no other node. Whom an agent dials is
//! held against that name by TLS itself; who dials is whoever the certificate names.
//!
//! | module | what it does |
//! |---|---|
//! | `authority` | makes, renews and revokes certificates |
//! | `info` | what a certificate says of itself |
//! | `watch` | loads files that changed, and speaks up before a certificate ends |

mod authority;
mod info;
mod watch;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use scry_protocol::NodeId;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

pub(crate) use authority::{Authority, IssueError, init, revoked_serials};
pub(crate) use info::{Info, moment, now_s};
pub(crate) use watch::{Event, News, watch};

use crate::files;

/// What both ends of a link between agents must speak.
const PROTOCOL: &[u8] = b"scry/1";
/// What follows a node's id in its name.
const DOMAIN: &str = ".scry";

/// Returns the name of a node in certificates.
pub(crate) fn name(node: NodeId) -> String {
    format!("{node}{DOMAIN}")
}

/// The files of an agent's identity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Files {
    /// This node's certificate.
    pub(crate) certificate: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
    /// The cluster's authority.
    pub(crate) authority: PathBuf,
    /// The certificates that count no longer, if there is a list.
    pub(crate) revoked: Option<PathBuf>,
}

/// What an agent shows to others, and whom it believes.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// For links that others open.
    pub(crate) server: Arc<ServerConfig>,
    /// For links this agent opens.
    pub(crate) client: Arc<ClientConfig>,
    /// Whom it believes.
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    /// What its own certificate says.
    pub(crate) own: Info,
}

/// What is wrong with one of the files.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub(crate) struct IdentityError {
    /// Which setting of `[peers]` names the file.
    pub(crate) field: &'static str,
    /// The file.
    pub(crate) path: PathBuf,
    /// What is wrong with it.
    pub(crate) reason: String,
    /// What to do about it.
    pub(crate) help: Option<&'static str>,
}

/// Why a certificate names no node.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum CertificateError {
    /// It is no certificate.
    #[error("it cannot be read")]
    Malformed,
    /// It names no node.
    #[error("it names no node")]
    NoNode,
    /// It names several.
    #[error("it names several nodes")]
    Several,
    /// It names another.
    #[error("it names {0}")]
    Another(NodeId),
}

const INIT: Option<&str> =
    Some("`scry cert init` makes certificates for a cluster, `scry cert issue` for a further node");
const PRIVATE: Option<&str> = Some("`chmod o-rwx` keeps others out");

impl Identity {
    /// Reads the files and sees that they fit together.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them, at once. That the certificate has ended is not an error, as it would keep a
    /// configuration from being loaded: [`Info::warning`] says it.
    pub(crate) fn load(node: NodeId, files: &Files) -> Result<Self, Vec<IdentityError>> {
        let Files {
            certificate,
            key,
            authority,
            revoked,
        } = files;
        let mut wrong = Complaints::default();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = wrong.of("certificate", certificate, INIT, chain(certificate));
        let own = chain
            .as_ref()
            .and_then(|chain| info_of(node, &chain[0], certificate, &mut wrong));
        let key = key_of(chain.as_deref(), key, certificate, &provider, &mut wrong);
        let roots = wrong.of("authority", authority, INIT, roots(authority));
        let lists = match revoked {
            None => Some(Vec::new()),
            Some(path) => wrong.of("revoked", path, None, revocations(path)),
        };
        if let (Some(roots), Some(lists), Some(chain), Some(own)) = (&roots, &lists, &chain, &own) {
            for (field, said) in misfits(&provider, roots, lists, chain, own) {
                let path = match field {
                    "revoked" => revoked.as_deref().unwrap_or(authority),
                    "certificate" => certificate,
                    _ => authority,
                };
                wrong.add(field, path, said, None);
            }
        }
        if let (true, Some(chain), Some(key), Some(roots), Some(lists), Some(own)) =
            (wrong.0.is_empty(), chain, key, roots, lists, own)
        {
            let identity = Self::build(provider, chain, key, roots, lists, own);
            return identity.map_err(|error| {
                wrong.add("certificate", certificate, error.to_string(), None);
                wrong.0
            });
        }
        Err(wrong.0)
    }

    fn build(
        provider: Arc<rustls::crypto::CryptoProvider>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        roots: Arc<RootCertStore>,
        lists: Vec<CertificateRevocationListDer<'static>>,
        own: Info,
    ) -> Result<Self, rustls::Error> {
        let versions = &[&rustls::version::TLS13];
        let other =
            |error: rustls::server::VerifierBuilderError| rustls::Error::General(error.to_string());
        let verifier = client_verifier(&provider, &roots, &lists).map_err(other)?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(Arc::clone(&verifier))
            .with_single_cert(chain.clone(), key.clone_key())?;
        let mut servers = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        if !lists.is_empty() {
            servers = servers.with_crls(lists).only_check_end_entity_revocation();
        }
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_webpki_verifier(servers.build().map_err(other)?)
            .with_client_auth_cert(chain, key)?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A resumed session would not look at the certificate again, and it may have ended or been revoked meanwhile.
        server.send_tls13_tickets = 0;
        client.resumption = Resumption::disabled();
        Ok(Self {
            server: Arc::new(server),
            client: Arc::new(client),
            verifier,
            own,
        })
    }

    /// Tells whether somebody's certificates still count, and why not.
    pub(crate) fn accepts(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        let Some((first, more)) = chain.split_first() else {
            return Err("it shows no certificate".to_owned());
        };
        self.verifier
            .verify_client_cert(first, more, UnixTime::now())
            .map(|_| ())
            .map_err(|error| error.to_string())
    }
}

/// What is wrong with the files.
#[derive(Default)]
struct Complaints(Vec<IdentityError>);

impl Complaints {
    fn add(
        &mut self,
        field: &'static str,
        path: &Path,
        reason: String,
        help: Option<&'static str>,
    ) {
        self.0.push(IdentityError {
            field,
            path: path.to_owned(),
            reason,
            help,
        });
    }

    /// Returns what was read of a file, or adds why it could not be.
    fn of<T>(
        &mut self,
        field: &'static str,
        path: &Path,
        help: Option<&'static str>,
        read: Result<T, String>,
    ) -> Option<T> {
        read.map_err(|why| self.add(field, path, why, help)).ok()
    }
}

/// Reads what the own certificate says, and sees that it is this node's.
fn info_of(
    node: NodeId,
    certificate: &CertificateDer<'_>,
    path: &Path,
    wrong: &mut Complaints,
) -> Option<Info> {
    let named = node_of(certificate);
    if named != Ok(node) {
        let reason = named.map_or_else(|error| error, CertificateError::Another);
        let said = format!("it is not a certificate of {node}: {reason}");
        wrong.add("certificate", path, said, INIT);
    }
    Info::of(certificate).ok()
}

/// Reads the key, and sees that others cannot and that it is the certificate's.
fn key_of(
    chain: Option<&[CertificateDer<'static>]>,
    path: &Path,
    certificate: &Path,
    provider: &rustls::crypto::CryptoProvider,
    wrong: &mut Complaints,
) -> Option<PrivateKeyDer<'static>> {
    if let Some(said) = readable_by_others(path) {
        wrong.add("key", path, said, PRIVATE);
    }
    let key = wrong.of("key", path, INIT, read_key(path))?;
    let pair = CertifiedKey::from_der(chain?.to_vec(), key.clone_key(), provider)
        .map_err(|error| format!("it is not the key of {}: {error}", certificate.display()));
    wrong.of("key", path, None, pair)?;
    Some(key)
}

fn client_verifier(
    provider: &Arc<rustls::crypto::CryptoProvider>,
    roots: &Arc<RootCertStore>,
    lists: &[CertificateRevocationListDer<'static>],
) -> Result<Arc<dyn ClientCertVerifier>, rustls::server::VerifierBuilderError> {
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider));
    if !lists.is_empty() {
        // With a list, a certificate that no list speaks for is refused: lists of all authorities are in the file.
        builder = builder
            .with_crls(lists.iter().cloned())
            .only_check_end_entity_revocation();
    }
    builder.build()
}

/// Says whether authority, certificate and revocation list belong together, each with the setting that is wrong.
fn misfits(
    provider: &Arc<rustls::crypto::CryptoProvider>,
    roots: &Arc<RootCertStore>,
    lists: &[CertificateRevocationListDer<'static>],
    chain: &[CertificateDer<'static>],
    own: &Info,
) -> Vec<(&'static str, String)> {
    // At a moment at which it counts: what an end says, a warning does.
    let now_s = now_s().clamp(own.from_s, own.until_s);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now_s.unsigned_abs()));
    let check = |lists: &[CertificateRevocationListDer<'static>]| {
        let verifier = client_verifier(provider, roots, lists)
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_client_cert(&chain[0], &chain[1..], now)
    };
    use rustls::CertificateError as Wrong;
    use rustls::Error::InvalidCertificate;
    match check(&[]) {
        Ok(_) => {}
        Err(InvalidCertificate(Wrong::UnknownIssuer | Wrong::BadSignature)) => {
            return vec![("authority", "it did not sign the certificate".to_owned())];
        }
        Err(error) => return vec![("certificate", error.to_string())],
    }
    match check(lists) {
        Ok(_) => Vec::new(),
        Err(InvalidCertificate(Wrong::Revoked)) => {
            vec![("certificate", "it is revoked".to_owned())]
        }
        Err(
            InvalidCertificate(Wrong::UnknownRevocationStatus)
            | rustls::Error::InvalidCertRevocationList(
                rustls::CertRevocationListError::BadSignature
                | rustls::CertRevocationListError::IssuerInvalidForCrl,
            ),
        ) => {
            vec![("revoked", "it is not a list of the authority".to_owned())]
        }
        Err(error) => vec![("revoked", error.to_string())],
    }
}

/// Says who else may read a key. The owner's group may: that is how Kubernetes hands files to a user.
fn readable_by_others(key: &Path) -> Option<String> {
    let mode = std::fs::metadata(key).ok()?.mode() & 0o777;
    (mode & 0o007 != 0).then(|| format!("others can read or change it (mode {mode:03o})"))
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = files::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| format!("it is no key: {error}"))
}

fn roots(path: &Path) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for root in chain(path)? {
        roots.add(root).map_err(|error| error.to_string())?;
    }
    Ok(Arc::new(roots))
}

/// Reads the certificates in a file, at least one.
pub(crate) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = files::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(all) if all.is_empty() => Err("it holds no certificate".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the revocation lists in a file, at least one.
pub(crate) fn revocations(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let bytes = files::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(all) if all.is_empty() => Err("it holds no revocation list".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the one node a certificate names.
pub(crate) fn node_of(certificate: &CertificateDer<'_>) -> Result<NodeId, CertificateError> {
    let (_, read) =
        X509Certificate::from_der(certificate).map_err(|_| CertificateError::Malformed)?;
    let names = read
        .subject_alternative_name()
        .map_err(|_| CertificateError::Malformed)?
        .ok_or(CertificateError::NoNode)?;
    let mut nodes = names.value.general_names.iter().filter_map(|name| {
        let GeneralName::DNSName(name) = name else {
            return None;
        };
        name.strip_suffix(DOMAIN)?
            .strip_prefix('n')?
            .parse::<NodeId>()
            .ok()
            // `n013` or `nn13` would be second spellings of one node.
            .filter(|node| self::name(*node) == *name)
    });
    let node = nodes.next().ok_or(CertificateError::NoNode)?;
    match nodes.next() {
        Some(_) => Err(CertificateError::Several),
        None => Ok(node),
    }
}
