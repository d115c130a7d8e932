//! The chain through the log: each record carries its number and the hash of the record before it, across files and
//! restarts. [`verify`](super::verify) follows it.
//!
//! A file beside the log, the head, names the last record and the first that is still kept, so that an end that was cut
//! off shows. Nothing here is secret: whoever may write the directory may make up a whole new log. Against that, what
//! `scry status` tells of the head can be kept elsewhere and held against the log later.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use scry_protocol::Digest;
use scry_protocol::record::Record;
use serde::{Deserialize, Serialize};

/// The file that names the last record.
pub(super) const HEAD_NAME: &str = "steering.head";

/// A line without end is looked back into this far; no record is longer.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The hash of a line, as it stands in the record after it.
pub(super) fn hash(line: &[u8]) -> String {
    Digest::of(line).to_string()
}

/// A record with its place in the chain.
#[derive(Debug, Serialize)]
pub(super) struct Chained<'a> {
    #[serde(flatten)]
    pub(super) record: &'a Record,
    #[serde(flatten)]
    pub(super) link: &'a Link,
}

/// A record's place in the chain.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Link {
    /// Which record it is since the log began.
    pub(super) seq: u64,
    /// The hash of the record before, without its line end; absent in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prev: Option<String>,
    /// The hash of the torn line before it, if there is one: the writer found it when it began, or tore it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) torn: Option<String>,
}

impl Link {
    /// Reads the place of a record; `None` if the line has none.
    pub(super) fn of(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// The last record of a log: its number and its hash. `12:9f…` in texts.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Head {
    /// Its number.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not the head of a log, such as 12:9f86d081884c7d65");
        let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
        let is_hash = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        match seq.parse() {
            Ok(seq) if is_hash => Ok(Self {
                seq,
                hash: hash.to_ascii_lowercase(),
            }),
            _ => Err(wrong()),
        }
    }
}

/// What the head file says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct HeadFile {
    /// The last record.
    pub(super) head: Head,
    /// The number of the first record that must still be there.
    pub(super) first: u64,
}

impl HeadFile {
    pub(super) fn path(directory: &Path) -> PathBuf {
        directory.join(HEAD_NAME)
    }

    /// The same number of bytes for any value, so that it can be written over in place.
    pub(super) fn text(&self) -> String {
        let Head { seq, hash } = &self.head;
        format!("{seq:020}:{hash} {:020}\n", self.first)
    }

    /// Reads the file; `None` if there is none or it says nothing.
    pub(super) fn read(directory: &Path) -> Option<Self> {
        let mut text = String::new();
        let file = File::open(Self::path(directory)).ok()?;
        file.take(1024).read_to_string(&mut text).ok()?;
        let (head, first) = text.trim_end().split_once(' ')?;
        Some(Self {
            head: head.parse().ok()?,
            first: first.parse().ok()?,
        })
    }
}

/// How a file ends.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Tail {
    /// The last whole record, if it is one of a chain.
    pub(super) head: Option<Head>,
    /// The hash of what follows it and is no record: what a crash left of a line. `None` as a rule.
    pub(super) torn: Option<String>,
    /// Whether the file ends inside a line.
    pub(super) is_open: bool,
}

impl Tail {
    /// Looks at the end of a file. One that does not exist is empty.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Self::default());
        }
        let from = metadata.len().saturating_sub(2 * LINE_BYTES_MAX);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(2 * LINE_BYTES_MAX).read_to_end(&mut bytes)?;
        let is_open = bytes.last().is_some_and(|&last| last != b'\n');
        let mut end = bytes.len() - usize::from(!is_open && !bytes.is_empty());
        // Where what follows the last record begins.
        let mut rest = bytes.len();
        let mut head = None;
        loop {
            let before = bytes[..end].iter().rposition(|&byte| byte == b'\n');
            let start = before.map_or(0, |at| at + 1);
            let line = &bytes[start..end];
            if is_object(line) {
                let link = std::str::from_utf8(line).ok().and_then(Link::of);
                head = link.map(|link| Head {
                    seq: link.seq,
                    hash: hash(line),
                });
                break;
            }
            rest = start;
            match before {
                Some(at) => end = at,
                None => break,
            }
        }
        let rest = &bytes[rest..];
        let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
        Ok(Self {
            head,
            torn: (!rest.is_empty()).then(|| hash(rest)),
            is_open,
        })
    }
}

/// Tells whether a line is a JSON object, as records are, also those of versions without a chain. The beginning of one is
/// none.
pub(super) fn is_object(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line).is_ok()
}

/// Returns the number of a file's first record, if it has one.
pub(super) fn first_of(path: &Path) -> Option<u64> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(LINE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let link = lines.find_map(|line| Link::of(std::str::from_utf8(line).ok()?))?;
    Some(link.seq)
}
