//! What a certificate says of itself: whose it is, until when, and how it is told from others.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use scry_protocol::record::Timestamp;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::CertificateError;

/// A day, in seconds.
pub(crate) const DAY_S: i64 = 24 * 60 * 60;
/// How many days before its end a certificate is spoken of.
pub(crate) const WARN_DAYS: i64 = 30;

/// What a certificate says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Info {
    /// Whose it is: the node's name, or what an authority calls itself.
    pub(crate) who: String,
    /// From when it counts, in seconds since 1970.
    pub(crate) from_s: i64,
    /// Until when.
    pub(crate) until_s: i64,
    /// Its number at its authority, in hexadecimal.
    pub(crate) serial: String,
    /// The SHA-256 of the certificate, as other tools show it.
    pub(crate) fingerprint: String,
}

/// How a certificate stands with the time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Standing {
    /// It counts, and for long enough.
    Fine,
    /// It counts, for so many days.
    EndsSoon(i64),
    /// It counts no longer.
    Ended,
    /// It does not count yet.
    NotYet,
}

/// The time of day, in seconds since 1970.
pub(crate) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Writes a moment as the log does.
pub(crate) fn moment(seconds: i64) -> String {
    let millis = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
    Timestamp::from_millis(millis).to_string()
}

impl Info {
    /// Reads a certificate.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let (_, read) =
            X509Certificate::from_der(certificate).map_err(|_| CertificateError::Malformed)?;
        let named = || read.subject().iter_common_name().next()?.as_str().ok();
        let who = match super::node_of(certificate) {
            Ok(node) => node.to_string(),
            Err(_) => named().unwrap_or("?").to_owned(),
        };
        Ok(Self {
            who: scry_protocol::text::escaped(&who),
            from_s: read.validity().not_before.timestamp(),
            until_s: read.validity().not_after.timestamp(),
            serial: hex(read.raw_serial(), ""),
            fingerprint: hex(&sha256(certificate), ":"),
        })
    }

    /// Tells how it stands with the time.
    pub(crate) fn standing(&self, now_s: i64) -> Standing {
        let days = self.days_left(now_s);
        if now_s < self.from_s {
            Standing::NotYet
        } else if now_s > self.until_s {
            Standing::Ended
        } else if days < WARN_DAYS {
            Standing::EndsSoon(days)
        } else {
            Standing::Fine
        }
    }

    /// Returns how many whole days are left.
    pub(crate) fn days_left(&self, now_s: i64) -> i64 {
        (self.until_s - now_s).max(0) / DAY_S
    }

    /// Says what somebody should do something about, if there is anything.
    pub(crate) fn warning(&self, now_s: i64) -> Option<String> {
        let (who, until) = (&self.who, moment(self.until_s));
        match self.standing(now_s) {
            Standing::Fine => None,
            Standing::EndsSoon(days) => Some(format!(
                "the certificate of {who} ends in {days} days, {until}; `scry cert renew` makes a new one"
            )),
            Standing::Ended => Some(format!(
                "the certificate of {who} has ended, {until}: no other agent accepts it; `scry cert renew` makes a new one"
            )),
            Standing::NotYet => Some(format!(
                "the certificate of {who} counts only from {}: is the clock right?",
                moment(self.from_s)
            )),
        }
    }
}

pub(super) fn hex(bytes: &[u8], between: &str) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(between)
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let hash = suite.tls13().map(|suite| suite.common.hash_provider);
    hash.map_or(Vec::new(), |hash| hash.hash(bytes).as_ref().to_vec())
}
