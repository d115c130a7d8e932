//! Who an agent is: its certificate, its key, the cluster's authority, and the node's id in every peer's certificate.
//!
//! A node's certificate names it as `n13.scry` among its alternative names, and as no other node. Whom an agent dials is
//! held against that name by TLS itself; who dials is whoever the certificate names.

mod authority;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use scry_protocol::NodeId;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

pub(crate) use authority::init;

/// What both ends of a link between agents must speak.
const PROTOCOL: &[u8] = b"scry/1";
/// What follows a node's id in its name.
const DOMAIN: &str = ".scry";

/// Returns the name of a node in certificates.
pub(crate) fn name(node: NodeId) -> String {
    format!("{node}{DOMAIN}")
}

/// What an agent shows to others, and whom it believes.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// For links that others open.
    pub(crate) server: Arc<ServerConfig>,
    /// For links this agent opens.
    pub(crate) client: Arc<ClientConfig>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// A file cannot be read, or is not PEM.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// Which setting names it.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate names somebody else.
    #[error("{} is not a certificate of {node}: {reason}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// Whose it should be.
        node: NodeId,
        /// What it says.
        reason: CertificateError,
    },
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

impl IdentityError {
    /// Returns which setting of `[peers]` is at fault.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::File { field, .. } => field,
            Self::Other { .. } => "certificate",
        }
    }
}

impl Identity {
    /// Reads the three files and sees that they fit together.
    pub(crate) fn load(
        node: NodeId,
        certificate: &Path,
        key: &Path,
        authority: &Path,
    ) -> Result<Self, IdentityError> {
        let wrong = |field, path: &Path, reason: String| IdentityError::File {
            field,
            path: path.to_owned(),
            reason,
        };
        let chain = chain(certificate).map_err(|why| wrong("certificate", certificate, why))?;
        let first = chain
            .first()
            .ok_or_else(|| wrong("certificate", certificate, "it holds none".to_owned()))?;
        let named = node_of(first);
        if named != Ok(node) {
            return Err(IdentityError::Other {
                path: certificate.to_owned(),
                node,
                reason: named.map_or_else(|error| error, CertificateError::Another),
            });
        }
        let key_path = key;
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| wrong("key", key_path, error.to_string()))?;
        let mut roots = RootCertStore::empty();
        let trusted = self::chain(authority).map_err(|why| wrong("authority", authority, why))?;
        for root in trusted {
            roots
                .add(root)
                .map_err(|error| wrong("authority", authority, error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| wrong("authority", authority, error.to_string()))?;
        let versions = &[&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .and_then(|builder| {
                builder
                    .with_client_cert_verifier(verifier)
                    .with_single_cert(chain.clone(), key.clone_key())
            })
            .map_err(|error| wrong("key", key_path, error.to_string()))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .and_then(|builder| {
                builder
                    .with_root_certificates(roots)
                    .with_client_auth_cert(chain, key)
            })
            .map_err(|error| wrong("key", key_path, error.to_string()))?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self {
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|error| error.to_string())?
        .collect();
    match all {
        Ok(all) if all.is_empty() => Err("it holds no certificate".to_owned()),
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
