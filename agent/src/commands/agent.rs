//! `scry agent`: runs beside a node.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::ValueEnum;
use nix::sys::stat::{Mode, umask};
use tracing_subscriber::EnvFilter;

use super::{EXIT_CONFIGURATION, EXIT_FAILED, EXIT_FINE};
use crate::configuration::{Loaded, environment};
use crate::daemon;

/// What `agent` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Agent {
    /// The configuration.
    #[arg(long, default_value = "/etc/scry/scry.toml")]
    config: PathBuf,
    /// How the agent's own log looks; `auto` is text on a terminal and JSON elsewhere.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

/// How a log looks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// A line for people.
    Text,
    /// An object a line.
    Json,
}

impl Agent {
    /// Runs until a signal ends it, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let loaded = match Loaded::load(&self.config, &environment()) {
            Ok(loaded) => loaded,
            Err(wrong) => {
                eprintln!("{wrong}");
                return EXIT_CONFIGURATION;
            }
        };
        self.log();
        // Sockets are for their owner from the moment they exist, and so is the steering log.
        umask(Mode::from_bits_truncate(0o077));
        let runtime = match tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("error: {error}");
                return EXIT_FAILED;
            }
        };
        let outcome = runtime.block_on(daemon::run(&self.config, loaded));
        runtime.shutdown_timeout(std::time::Duration::from_secs(1));
        match outcome {
            Ok(()) => EXIT_FINE,
            Err(error) => {
                eprintln!("error: {error}");
                EXIT_FAILED
            }
        }
    }

    fn log(&self) {
        let filter = EnvFilter::try_from_env("SCRY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
        let is_terminal = std::io::stderr().is_terminal();
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(is_terminal);
        match self.log_format {
            LogFormat::Text => builder.init(),
            LogFormat::Auto if is_terminal => builder.init(),
            LogFormat::Json | LogFormat::Auto => builder.json().flatten_event(true).init(),
        }
    }
}
