//! What the `scry` binary is made of, and what a program that wants to be it as well may call.
//!
//! | module | what it holds |
//! |---|---|
//! | [`controller`] | from snapshot to filter, as a core without IO |
//! | [`log`] | the steering log on disk, and the trace files beside it |
//! | `commands` | one file per command |
//! | `configuration` | `scry.toml` and the environment, checked |
//! | `certificate` | who an agent is, and whom it believes |
//! | `daemon` | the agent as it runs |
//! | `files` | reading what somebody named |
//! | `link` | sockets and processes around it |
//! | `rate_limit` | how much somebody may do in a time |
//! | `admin` | the local interface of operators |
//! | `notify` | the service manager |

mod admin;
mod certificate;
mod commands;
mod configuration;
pub mod controller;
mod daemon;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod link;
pub mod log;
mod notify;
mod rate_limit;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use commands::EXIT_USAGE;

/// Looks a few seconds into a distributed service's future.
#[derive(Debug, Parser)]
#[command(name = "scry", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs beside a node.
    Agent(commands::agent::Agent),
    /// Makes certificates for a cluster.
    Cert(commands::cert::Cert),
    /// Checks files without touching anything else: no network, no service.
    ///
    /// Property files are read as far as that goes without the service; `SERVICE properties FILE` also knows its
    /// fields. Exits with 0 if all can be used, with 78 if something is wrong with one, which is then said.
    Validate(commands::validate::Validate),
    /// Shows how things stand with a running agent.
    Status(commands::status::Status),
    /// Sets how much a running agent may do.
    Mode(commands::mode::SetMode),
    /// Switches steering on or off.
    Steer(commands::steer::Steer),
    /// Makes a running agent read its configuration again.
    ///
    /// If the new one is bad, the old one stays, and what is wrong is said.
    Reload(commands::reload::Reload),
    /// Asks a running agent whether it is well: exits with 0 if so.
    Probe(commands::probe::Probe),
    /// Shows the steering log: what was predicted, decided and done.
    Log(commands::log::Log),
    /// Draws the path to a predicted violation.
    Explain(commands::explain::Explain),
    /// Prints what a shell needs to complete commands.
    Completions(commands::completions::Completions),
    /// Prints the manual.
    Man(commands::man::Manual),
}

/// Runs the command line with these arguments, of which the first is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let code = match Arguments::try_parse_from(arguments) {
        Ok(Arguments { command }) => match command {
            Command::Agent(agent) => agent.run(),
            Command::Cert(cert) => cert.run(),
            Command::Validate(validate) => validate.run(),
            Command::Status(status) => status.run(),
            Command::Mode(mode) => mode.run(),
            Command::Steer(steer) => steer.run(),
            Command::Reload(reload) => reload.run(),
            Command::Probe(probe) => probe.run(),
            Command::Log(log) => log.run(),
            Command::Explain(explain) => explain.run(),
            Command::Completions(completions) => completions.run(),
            Command::Man(manual) => manual.run(),
        },
        Err(error) => {
            // Nothing is left to be done if the message cannot be written.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
                _ => EXIT_USAGE,
            }
        }
    };
    ExitCode::from(code)
}
