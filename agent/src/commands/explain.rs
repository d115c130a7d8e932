//! `scry explain`: the path to a predicted violation, drawn.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::log::Traces;
use scry::trace::{json, mermaid, shiviz, text};
use scry_protocol::ViolationId;

use super::{EXIT_CONFIGURATION, EXIT_FAILED, EXIT_FINE, EXIT_USAGE};

/// What `explain` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// A violation as the log names it (v12), or a trace file.
    what: String,
    /// The log directory in which violations are looked for.
    #[arg(long, value_name = "DIR", default_value = "/var/log/scry")]
    log: PathBuf,
    /// What to make of it.
    #[arg(long = "as", value_enum, default_value_t = Form::Text)]
    form: Form,
}

/// What can be made of a trace.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// A drawing for a terminal, with what changed at each step.
    Text,
    /// A sequence diagram for documents.
    Mermaid,
    /// A log with vector clocks for ShiViz.
    Shiviz,
    /// The trace itself, indented.
    Json,
}

impl Explain {
    /// Prints the trace, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let file = match self.file() {
            Ok(file) => file,
            Err(error) => {
                eprintln!("error: {error}");
                return EXIT_USAGE;
            }
        };
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) => {
                eprintln!("error: {}: {error}", file.display());
                return EXIT_FAILED;
            }
        };
        let trace = match json::parse(&bytes) {
            Ok(trace) => trace,
            Err(error) => {
                eprintln!("error: {}: {error}", file.display());
                return EXIT_CONFIGURATION;
            }
        };
        let rendered = match self.form {
            Form::Text => text::render(&trace),
            Form::Mermaid => mermaid::render(&trace),
            Form::Shiviz => shiviz::render(&trace),
            Form::Json => json::render(&trace),
        };
        match io::stdout().write_all(rendered.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                eprintln!("error: {error}");
                EXIT_FAILED
            }
            _ => EXIT_FINE,
        }
    }

    /// A file by that name wins: a violation can always be named with its directory.
    fn file(&self) -> Result<PathBuf, String> {
        let path = PathBuf::from(&self.what);
        if path.is_file() {
            return Ok(path);
        }
        match self.what.parse::<ViolationId>() {
            Ok(violation) => Ok(Traces::new(&self.log, 0).file(violation)),
            Err(error) => Err(format!(
                "`{}` is no file, and no violation: {error}",
                self.what
            )),
        }
    }
}
