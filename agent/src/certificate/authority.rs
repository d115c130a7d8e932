//! Making a cluster's authority and one certificate for each node.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use scry_protocol::NodeId;

/// Why certificates could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// Something is there already.
    #[error("{} exists already; nothing was written", .0.display())]
    Exists(PathBuf),
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

/// Writes `authority.pem`, `authority.key` and, for each node, `n1.pem` and `n1.key`. Keys are for their owner only.
///
/// # Errors
///
/// When any of these files exists, before any is written.
pub(crate) fn init(folder: &Path, nodes: &BTreeSet<NodeId>) -> Result<Vec<PathBuf>, InitError> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "scry authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.not_before = date_time_ymd(2024, 1, 1);
    authority.not_after = date_time_ymd(2124, 1, 1);
    let mut files = vec![
        (
            "authority.pem".to_owned(),
            authority.self_signed(&authority_key)?.pem(),
            0o644,
        ),
        (
            "authority.key".to_owned(),
            authority_key.serialize_pem(),
            0o600,
        ),
    ];
    let issuer = Issuer::new(authority, authority_key);
    for node in nodes {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(vec![super::name(*node)])?;
        parameters
            .distinguished_name
            .push(DnType::CommonName, node.to_string());
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        parameters.serial_number = Some(SerialNumber::from(u64::from(node.get()) + 1));
        parameters.not_before = date_time_ymd(2024, 1, 1);
        parameters.not_after = date_time_ymd(2124, 1, 1);
        let certificate = parameters.signed_by(&key, &issuer)?;
        files.push((format!("{node}.pem"), certificate.pem(), 0o644));
        files.push((format!("{node}.key"), key.serialize_pem(), 0o600));
    }
    let files: Vec<_> = files
        .into_iter()
        .map(|(name, text, mode)| (folder.join(name), text, mode))
        .collect();
    if let Some((path, ..)) = files
        .iter()
        .find(|(path, ..)| path.symlink_metadata().is_ok())
    {
        return Err(InitError::Exists(path.clone()));
    }
    fs::create_dir_all(folder).map_err(|source| InitError::Write {
        path: folder.to_owned(),
        source,
    })?;
    for (path, text, mode) in &files {
        write(path, text, *mode).map_err(|source| InitError::Write {
            path: path.clone(),
            source,
        })?;
    }
    Ok(files.into_iter().map(|(path, ..)| path).collect())
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(text.as_bytes())
}
