//! Follows the chain through a log and says where it was cut or altered, or where files are missing.
//!
//! What a crash leaves, half a line that the next record knows of or that nothing follows, is told apart from that.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::chain::{Head, HeadFile, Link, hash, is_object};

/// No record is longer. What is left of a longer line counts as lines of its own.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// What was found.
#[derive(Debug, Default)]
pub struct Verified {
    /// How many files there are.
    pub files: usize,
    /// How many records in the chain.
    pub records: u64,
    /// How many records before the chain began, written by a version that had none.
    pub unchained: u64,
    /// The number of the first record.
    pub first: Option<u64>,
    /// The last record.
    pub last: Option<Head>,
    /// What is wrong, in order.
    pub wrong: Vec<Finding>,
    /// What is worth knowing and not wrong.
    pub notes: Vec<Finding>,
}

/// One thing that was found, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The file and line, unless it concerns the log as a whole.
    pub place: Option<(PathBuf, u64)>,
    /// What.
    pub what: What,
}

/// What can be found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum What {
    /// Records are not there: they were cut out, or their file is gone.
    Missing {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
    /// The records at the beginning are not there although nothing has rotated them out.
    BeginningMissing {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
    /// The records at the end are not there.
    EndMissing {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
    /// A record is not as it was written.
    Altered {
        /// Which.
        seq: u64,
    },
    /// A record stands in the wrong place, or twice.
    Misplaced {
        /// Which.
        seq: u64,
    },
    /// A record without a place in the chain, after the chain had begun.
    Unchained,
    /// A line that is no record, and no later record knows of it.
    NoRecord,
    /// There is no head file, so nobody can say whether the end is there.
    NoHead,
    /// Half a line that the next record knows of: a crash, or a full disk.
    Torn,
    /// Half a line at the very end: a crash, or it is being written now.
    TornEnd,
    /// The head that was asked for is older than what is kept.
    RotatedOut {
        /// Its number.
        seq: u64,
    },
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { from, to } => {
                write!(
                    f,
                    "{} missing here: cut out, or a file is gone",
                    records(*from, *to)
                )
            }
            Self::BeginningMissing { from, to } => write!(
                f,
                "{} missing at the beginning, and rotation has not removed them",
                records(*from, *to)
            ),
            Self::EndMissing { from, to } => write!(
                f,
                "{} missing at the end: cut off, or lost when the machine stopped",
                records(*from, *to)
            ),
            Self::Altered { seq } => write!(f, "record {seq} was altered"),
            Self::Misplaced { seq } => {
                write!(f, "record {seq} stands in the wrong place, or twice")
            }
            Self::Unchained => write!(f, "a record without a place in the chain"),
            Self::NoRecord => write!(f, "a line that is no record"),
            Self::NoHead => write!(
                f,
                "{} is missing: whether the end is there cannot be said",
                super::chain::HEAD_NAME
            ),
            Self::Torn => write!(f, "half a line, as a crash or a full disk leaves it"),
            Self::TornEnd => write!(
                f,
                "half a line at the end: a crash, or it is being written just now"
            ),
            Self::RotatedOut { seq } => write!(f, "record {seq} is older than what is kept"),
        }
    }
}

fn records(from: u64, to: u64) -> String {
    match from == to {
        true => format!("record {from} is"),
        false => format!("records {from} to {to} are"),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some((file, line)) => write!(f, "{}:{line}: {}", file.display(), self.what),
            None => self.what.fmt(f),
        }
    }
}

/// Follows the chain through a log directory, or through one file of it.
///
/// `known` is a head that was seen earlier, for instance by `scry status`: that record must be there, or have been rotated out.
///
/// # Errors
///
/// When files cannot be read.
pub fn verify(path: &Path, known: Option<&Head>) -> io::Result<Verified> {
    let is_directory = fs::metadata(path)?.is_dir();
    // Read before the records: what it names is there by now, and more may be.
    let head = is_directory.then(|| HeadFile::read(path)).flatten();
    let files = match is_directory {
        true => open_all(path)?,
        false => vec![(path.to_owned(), File::open(path)?)],
    };
    let mut following = Following {
        verified: Verified {
            files: files.len(),
            ..Verified::default()
        },
        known,
        known_hash: None,
        torn: Torn::default(),
    };
    for (path, file) in files {
        following.file(path, file)?;
    }
    let mut verified = following.finish();
    if is_directory {
        held_against_head(&mut verified, head.as_ref());
    }
    Ok(verified)
}

fn held_against_head(verified: &mut Verified, head: Option<&HeadFile>) {
    let Verified { first, last, .. } = &*verified;
    let mut found = Vec::new();
    match (head, first, last) {
        (None, _, None) => {}
        (None, ..) => found.push(What::NoHead),
        (Some(head), Some(first), Some(last)) => {
            if *first > head.first {
                let (from, to) = (head.first, first - 1);
                found.push(What::BeginningMissing { from, to });
            }
            if last.seq < head.head.seq {
                let (from, to) = (last.seq + 1, head.head.seq);
                found.push(What::EndMissing { from, to });
            } else if last.seq == head.head.seq && last.hash != head.head.hash {
                found.push(What::Altered { seq: last.seq });
            }
        }
        (Some(head), ..) => {
            let (from, to) = (head.first, head.head.seq);
            found.push(What::EndMissing { from, to });
        }
    }
    let found = found.into_iter().map(|what| Finding { place: None, what });
    verified.wrong.extend(found);
}

/// Opens all files of a log, the oldest first, also beyond a gap in their names.
fn open_all(directory: &Path) -> io::Result<Vec<(PathBuf, File)>> {
    let mut ages: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let age = match name {
            Some(super::FILE_NAME) => Some(0),
            Some(name) => name
                .strip_prefix("steering.")
                .and_then(|name| name.strip_suffix(".jsonl"))
                .and_then(|age| age.parse().ok()),
            None => None,
        };
        if let Some(age) = age {
            ages.insert(age, path);
        }
    }
    // From the youngest on: a file that is rotated meanwhile is found twice rather than never.
    let mut files: Vec<(PathBuf, File)> = Vec::new();
    let mut seen = Vec::new();
    for path in ages.into_values() {
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        if !seen.contains(&identity) {
            seen.push(identity);
            files.push((path, file));
        }
    }
    files.reverse();
    Ok(files)
}

/// Lines that are no records, since the last record.
#[derive(Debug, Default)]
struct Torn {
    bytes: Vec<u8>,
    place: Option<(PathBuf, u64)>,
    is_open: bool,
}

struct Following<'a> {
    verified: Verified,
    known: Option<&'a Head>,
    /// The hash of the record with the known number, once it was seen.
    known_hash: Option<String>,
    torn: Torn,
}

impl Following<'_> {
    fn file(&mut self, path: PathBuf, file: File) -> io::Result<()> {
        let mut reader = BufReader::new(file);
        for number in 1.. {
            let mut line = Vec::new();
            if reader
                .by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)?
                == 0
            {
                break;
            }
            let is_open = line.pop_if(|last| *last == b'\n').is_none();
            self.line(&line, is_open, (path.clone(), number));
        }
        // What a file ends with is not continued by the next.
        Ok(())
    }

    fn line(&mut self, line: &[u8], is_open: bool, place: (PathBuf, u64)) {
        if line.is_empty() && self.torn.place.is_none() {
            return;
        }
        if !is_object(line) {
            match self.torn.place {
                None => self.torn.place = Some(place),
                Some(_) => self.torn.bytes.push(b'\n'),
            }
            self.torn.bytes.extend_from_slice(line);
            self.torn.is_open = is_open;
            return;
        }
        let link = std::str::from_utf8(line).ok().and_then(Link::of);
        let torn = std::mem::take(&mut self.torn);
        if let Some(at) = torn.place {
            let is_told =
                link.as_ref().and_then(|link| link.torn.as_ref()) == Some(&hash(&torn.bytes));
            let what = if is_told { What::Torn } else { What::NoRecord };
            self.say(!is_told, Some(at), what);
        }
        let Some(link) = link else {
            match self.verified.last {
                None => self.verified.unchained += 1,
                Some(_) => self.say(true, Some(place), What::Unchained),
            }
            return;
        };
        self.link(&link, place);
        let head = Head {
            seq: link.seq,
            hash: hash(line),
        };
        if self.known.is_some_and(|known| known.seq == head.seq) {
            self.known_hash = Some(head.hash.clone());
        }
        self.verified.records += 1;
        self.verified.first.get_or_insert(head.seq);
        self.verified.last = Some(head);
    }

    /// Holds a record's place against the record before it.
    fn link(&mut self, link: &Link, place: (PathBuf, u64)) {
        let seq = link.seq;
        let Some(last) = &self.verified.last else {
            return;
        };
        let what = if seq <= last.seq {
            What::Misplaced { seq }
        } else if seq > last.seq + 1 {
            What::Missing {
                from: last.seq + 1,
                to: seq - 1,
            }
        } else if link.prev.as_ref() != Some(&last.hash) {
            What::Altered { seq: last.seq }
        } else {
            return;
        };
        self.say(true, Some(place), what);
    }

    fn say(&mut self, is_wrong: bool, place: Option<(PathBuf, u64)>, what: What) {
        let finding = Finding { place, what };
        match is_wrong {
            true => self.verified.wrong.push(finding),
            false => self.verified.notes.push(finding),
        }
    }

    fn finish(mut self) -> Verified {
        let torn = std::mem::take(&mut self.torn);
        if let Some(at) = torn.place {
            let what = if torn.is_open {
                What::TornEnd
            } else {
                What::NoRecord
            };
            self.say(!torn.is_open, Some(at), what);
        }
        if let Some(known) = self.known {
            let seq = known.seq;
            let last = self.verified.last.as_ref().map_or(0, |last| last.seq);
            match &self.known_hash {
                Some(hash) if *hash == known.hash => {}
                Some(_) => self.say(true, None, What::Altered { seq }),
                None if self.verified.first.is_some_and(|first| seq < first) => {
                    self.say(false, None, What::RotatedOut { seq });
                }
                None => {
                    let (from, to) = ((last + 1).min(seq), seq);
                    self.say(true, None, What::EndMissing { from, to });
                }
            }
        }
        self.verified
    }
}
