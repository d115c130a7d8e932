//! `scry log`: the steering log for people.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::log::selection::{Selection, moment};
use crate::log::shown::{self, Style};
use crate::log::verify::verify;
use crate::log::{Head, Reader};
use scry_protocol::NodeId;
use scry_protocol::record::{KINDS, Timestamp};

use super::{EXIT_FAILED, EXIT_FINE, EXIT_USAGE};

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// What `log` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Log {
    /// A log directory, or one file of it.
    #[arg(default_value = "/var/log/scry")]
    path: PathBuf,
    /// Goes on as the log grows.
    #[arg(long, short)]
    follow: bool,
    /// Only records of this kind; may be given several times.
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// Only records of this node.
    #[arg(long)]
    node: Option<NodeId>,
    /// Only records about this property.
    #[arg(long)]
    property: Option<String>,
    /// Only records since a moment (2026-11-16T08:30:00Z) or for a time (90s, 10m, 2h, 3d).
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// The records as they stand in the file.
    #[arg(long)]
    json: bool,
    /// Follows the chain through the records instead: says where the log was cut or altered or where files are missing, and
    /// exits with 1 then.
    #[arg(long, conflicts_with_all = ["follow", "json"])]
    verify: bool,
    /// With --verify: the head that `scry status` showed earlier, which must be in the log.
    #[arg(long, value_name = "NUMBER:HASH", requires = "verify")]
    head: Option<Head>,
}

impl Log {
    /// Shows the log, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        if self.verify {
            return self.follow_chain();
        }
        let selection = match self.selection() {
            Ok(selection) => selection,
            Err(error) => {
                eprintln!("error: {error}");
                return EXIT_USAGE;
            }
        };
        match self.show(&selection) {
            Ok(()) => EXIT_FINE,
            // Whoever read this has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => EXIT_FINE,
            Err(error) => {
                eprintln!("error: {}: {error}", self.path.display());
                EXIT_FAILED
            }
        }
    }

    /// Says what is wrong with the chain, the verdict last.
    fn follow_chain(&self) -> u8 {
        let path = self.path.display();
        let verified = match verify(&self.path, self.head.as_ref()) {
            Ok(verified) => verified,
            Err(error) => {
                eprintln!("error: {path}: {error}");
                return EXIT_FAILED;
            }
        };
        for note in &verified.notes {
            println!("note: {note}");
        }
        if verified.unchained > 0 {
            let count = verified.unchained;
            println!("note: {count} records before the chain began, of an earlier version");
        }
        for wrong in &verified.wrong {
            println!("wrong: {wrong}");
        }
        let last = verified.last.as_ref();
        let reach = match (verified.first, last) {
            (Some(first), Some(last)) => format!("records {first} to {}, head {last}", last.seq),
            _ => "no records in a chain".to_owned(),
        };
        let files = verified.files;
        match verified.wrong.len() {
            0 => {
                println!("{path}: whole: {reach}, in {files} files");
                EXIT_FINE
            }
            count => {
                println!("{path}: not whole, {count} findings: {reach}, in {files} files");
                EXIT_FAILED
            }
        }
    }

    fn selection(&self) -> Result<Selection, String> {
        let known = |kind: &&String| KINDS.iter().any(|info| info.kind == **kind);
        if let Some(kind) = self.kind.iter().find(|kind| !known(kind)) {
            let kinds: Vec<&str> = KINDS.iter().map(|info| info.kind).collect();
            return Err(format!(
                "there is no kind `{kind}`; there are {}",
                kinds.join(", ")
            ));
        }
        let since = self
            .since
            .as_deref()
            .map(|text| moment(text, now()))
            .transpose()?;
        Ok(Selection {
            kinds: self.kind.clone(),
            node: self.node,
            property: self.property.clone(),
            since,
        })
    }

    fn show(&self, selection: &Selection) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let coloured = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let style = if coloured {
            Style::Coloured
        } else {
            Style::Plain
        };
        let mut reader = Reader::open(&self.path)?;
        loop {
            for line in reader.read()?.iter().filter(|line| selection.wants(line)) {
                match self.json {
                    true => writeln!(out, "{line}")?,
                    false => writeln!(out, "{}", shown::line(line, style))?,
                }
            }
            out.flush()?;
            if !self.follow {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
