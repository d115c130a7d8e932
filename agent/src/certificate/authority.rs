//! Making a cluster's authority, certificates of nodes, and the list of those that count no longer.
//!
//! All files lie in one folder: `authority.pem`, `authority.key`, `revoked.pem`, and `n1.pem` and `n1.key` for each node.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use scry_protocol::NodeId;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use super::info::{DAY_S, Info, now_s};
use crate::files;

/// A moment, of the type that the maker of certificates has from elsewhere.
macro_rules! date {
    ($seconds:expr) => {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(i64::unsigned_abs($seconds))
    };
}

/// Clocks of nodes may be this much behind the one that makes a certificate.
const CLOCKS_APART_S: i64 = 60 * 60;

/// Why certificates could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssueError {
    /// Something is there already.
    #[error("{} exists already; nothing was written", .0.display())]
    Exists(PathBuf),
    /// A file cannot be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// A file to be written.
struct Page {
    path: PathBuf,
    text: String,
    mode: u32,
}

/// Writes an authority, an empty revocation list and a certificate for each node. Keys are for their owner only.
///
/// # Errors
///
/// When any of these files exists, before any is written.
pub(crate) fn init(
    folder: &Path,
    nodes: &BTreeSet<NodeId>,
    authority_days: u32,
    days: u32,
) -> Result<Vec<PathBuf>, IssueError> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::default();
    parameters
        .distinguished_name
        .push(DnType::CommonName, "scry authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters.serial_number = Some(serial());
    let until_s = valid_for(&mut parameters, authority_days, i64::MAX);
    let certificate = parameters.self_signed(&key)?;
    let mut pages = vec![
        page(folder, "authority.pem", certificate.pem(), 0o644),
        page(folder, "authority.key", key.serialize_pem(), 0o600),
    ];
    let authority = Authority {
        folder: folder.to_owned(),
        issuer: Issuer::new(parameters, key),
        until_s,
    };
    pages.push(authority.list(Vec::new())?);
    for node in nodes {
        pages.extend(authority.pages(*node, days)?);
    }
    write_new(folder, pages)
}

/// An authority whose certificate and key were read.
pub(crate) struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// When the authority itself ends: nothing it signs counts longer.
    until_s: i64,
}

impl Authority {
    /// Reads `authority.pem` and `authority.key` in a folder.
    ///
    /// # Errors
    ///
    /// When they cannot be read or do not belong together.
    pub(crate) fn open(folder: &Path) -> Result<Self, IssueError> {
        let (path, key_path) = (folder.join("authority.pem"), folder.join("authority.key"));
        let wrong = |path: &Path, reason: String| IssueError::File {
            path: path.to_owned(),
            reason,
        };
        let chain = super::chain(&path).map_err(|reason| wrong(&path, reason))?;
        let certificate = &chain[0];
        let info = Info::of(certificate).map_err(|error| wrong(&path, error.to_string()))?;
        let key = read_key(&key_path)?;
        let (_, read) = X509Certificate::from_der(certificate)
            .map_err(|error| wrong(&path, error.to_string()))?;
        if read.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            let said = format!("it is not the key of {}", path.display());
            return Err(wrong(&key_path, said));
        }
        Ok(Self {
            folder: folder.to_owned(),
            issuer: Issuer::from_ca_cert_der(certificate, key)?,
            until_s: info.until_s,
        })
    }

    /// Writes certificates and keys for nodes that have none yet.
    ///
    /// # Errors
    ///
    /// When any of the files exists, before any is written.
    pub(crate) fn issue(
        &self,
        nodes: &BTreeSet<NodeId>,
        days: u32,
    ) -> Result<Vec<PathBuf>, IssueError> {
        let mut pages = Vec::new();
        for node in nodes {
            pages.extend(self.pages(*node, days)?);
        }
        write_new(&self.folder, pages)
    }

    /// Puts new certificates in the place of old ones, with the same keys unless new ones are wanted. The old certificates
    /// count until they end or are revoked.
    ///
    /// # Errors
    ///
    /// When a node has no certificate yet, before any is replaced.
    pub(crate) fn renew(
        &self,
        nodes: &BTreeSet<NodeId>,
        days: u32,
        new_key: bool,
    ) -> Result<Vec<PathBuf>, IssueError> {
        let mut pages = Vec::new();
        for node in nodes {
            let path = self.folder.join(format!("{node}.pem"));
            if !path.exists() {
                let reason = "there is none to renew; `scry cert issue` makes one".to_owned();
                return Err(IssueError::File { path, reason });
            }
            if new_key {
                // The key first: until both are there, agents keep what they have.
                let mut both = self.pages(*node, days)?;
                both.reverse();
                pages.extend(both);
            } else {
                let key = read_key(&self.folder.join(format!("{node}.key")))?;
                let certificate = self.certificate(*node, &key, days)?;
                pages.push(self.page(&format!("{node}.pem"), certificate.pem(), 0o644));
            }
        }
        let paths = pages.iter().map(|page| page.path.clone()).collect();
        pages.iter().try_for_each(replace)?;
        Ok(paths)
    }

    /// Puts certificates on the list of those that count no longer.
    ///
    /// # Errors
    ///
    /// When one of the files or the list cannot be read.
    pub(crate) fn revoke(&self, certificates: &[PathBuf]) -> Result<PathBuf, IssueError> {
        let wrong = |path: &Path, reason: String| IssueError::File {
            path: path.to_owned(),
            reason,
        };
        let path = self.folder.join("revoked.pem");
        let mut revoked = match path.exists() {
            true => revoked_in(&path).map_err(|reason| wrong(&path, reason))?,
            false => Vec::new(),
        };
        for file in certificates {
            let chain = super::chain(file).map_err(|reason| wrong(file, reason))?;
            let number = serial_of(&chain[0]).map_err(|reason| wrong(file, reason))?;
            if !revoked.iter().any(|old| old.serial_number == number) {
                revoked.push(RevokedCertParams {
                    serial_number: number,
                    revocation_time: date!(now_s()),
                    reason_code: Some(RevocationReason::Unspecified),
                    invalidity_date: None,
                });
            }
        }
        let page = self.list(revoked)?;
        replace(&page)?;
        Ok(page.path)
    }

    fn pages(&self, node: NodeId, days: u32) -> Result<[Page; 2], IssueError> {
        let key = KeyPair::generate()?;
        let certificate = self.certificate(node, &key, days)?;
        Ok([
            self.page(&format!("{node}.pem"), certificate.pem(), 0o644),
            self.page(&format!("{node}.key"), key.serialize_pem(), 0o600),
        ])
    }

    fn page(&self, name: &str, text: String, mode: u32) -> Page {
        page(&self.folder, name, text, mode)
    }

    fn certificate(
        &self,
        node: NodeId,
        key: &KeyPair,
        days: u32,
    ) -> Result<Certificate, IssueError> {
        let mut parameters = CertificateParams::new(vec![super::name(node)])?;
        parameters
            .distinguished_name
            .push(DnType::CommonName, node.to_string());
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        // A number of its own for each, also with the same key: a list names certificates by it.
        parameters.serial_number = Some(serial());
        valid_for(&mut parameters, days, self.until_s);
        Ok(parameters.signed_by(key, &self.issuer)?)
    }

    fn list(&self, revoked_certs: Vec<RevokedCertParams>) -> Result<Page, IssueError> {
        let now_s = now_s();
        let list = CertificateRevocationListParams {
            this_update: date!(now_s),
            // Agents take a list for as long as it is there; this is for other tools.
            next_update: date!(now_s + 365 * DAY_S),
            crl_number: SerialNumber::from(now_s.unsigned_abs()),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let text = list.signed_by(&self.issuer)?.pem()?;
        Ok(self.page("revoked.pem", text, 0o644))
    }
}

/// Returns the numbers of the certificates that a list names, in hexadecimal.
pub(crate) fn revoked_serials(path: &Path) -> Result<BTreeSet<String>, String> {
    let revoked = revoked_in(path)?.into_iter();
    Ok(revoked
        .map(|one| super::info::hex(&one.serial_number.to_bytes(), ""))
        .collect())
}

fn revoked_in(path: &Path) -> Result<Vec<RevokedCertParams>, String> {
    let mut revoked = Vec::new();
    for list in super::revocations(path)? {
        let (_, list) =
            CertificateRevocationList::from_der(&list).map_err(|error| error.to_string())?;
        for one in list.iter_revoked_certificates() {
            revoked.push(RevokedCertParams {
                serial_number: SerialNumber::from_slice(one.raw_serial()),
                revocation_time: date!(one.revocation_date.timestamp()),
                reason_code: Some(RevocationReason::Unspecified),
                invalidity_date: None,
            });
        }
    }
    Ok(revoked)
}

fn serial_of(certificate: &CertificateDer<'_>) -> Result<SerialNumber, String> {
    let (_, read) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    Ok(SerialNumber::from_slice(read.raw_serial()))
}

fn read_key(path: &Path) -> Result<KeyPair, IssueError> {
    let wrong = |reason: String| IssueError::File {
        path: path.to_owned(),
        reason,
    };
    let text = files::read_text(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    KeyPair::from_pem(&text).map_err(|error| wrong(format!("it is no key: {error}")))
}

/// A number nobody has used and nobody can guess.
fn serial() -> SerialNumber {
    let mut bytes = [0; 16];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random
        .fill(&mut bytes)
        .expect("the system gives random numbers");
    // Positive, and of full length.
    bytes[0] = bytes[0] & 0x3f | 0x40;
    SerialNumber::from_slice(&bytes)
}

/// Sets from when and until when a certificate counts, and returns the latter.
fn valid_for(parameters: &mut CertificateParams, days: u32, until_max_s: i64) -> i64 {
    let now_s = now_s();
    let until_s = (now_s + i64::from(days) * DAY_S).min(until_max_s);
    parameters.not_before = date!((now_s - CLOCKS_APART_S).min(until_s));
    parameters.not_after = date!(until_s);
    until_s
}

fn page(folder: &Path, name: &str, text: String, mode: u32) -> Page {
    Page {
        path: folder.join(name),
        text,
        mode,
    }
}

/// Writes files of which none may exist.
fn write_new(folder: &Path, pages: Vec<Page>) -> Result<Vec<PathBuf>, IssueError> {
    let mut paths = pages.iter().map(|page| &page.path);
    if let Some(path) = paths.find(|path| path.symlink_metadata().is_ok()) {
        return Err(IssueError::Exists(path.clone()));
    }
    fs::create_dir_all(folder).map_err(|source| IssueError::Write {
        path: folder.to_owned(),
        source,
    })?;
    for page in &pages {
        write(&page.path, page).map_err(|source| IssueError::Write {
            path: page.path.clone(),
            source,
        })?;
    }
    Ok(pages.into_iter().map(|page| page.path).collect())
}

/// Puts a file in the place of another, whole or not at all.
fn replace(page: &Page) -> Result<(), IssueError> {
    let temporary = page.path.with_extension("new");
    // One that a crash left behind.
    let _ = fs::remove_file(&temporary);
    write(&temporary, page)
        .and_then(|()| fs::rename(&temporary, &page.path))
        .map_err(|source| IssueError::Write {
            path: page.path.clone(),
            source,
        })
}

fn write(path: &Path, page: &Page) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(page.mode)
        .open(path)?;
    file.write_all(page.text.as_bytes())?;
    file.sync_data()
}
