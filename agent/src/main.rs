//! The `scry` binary: what an operator runs.
//!
//! So far it checks property files. The agent itself, which runs beside a node, is not built yet.

mod validate;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// The command line cannot be understood (`EX_USAGE`).
const EXIT_USAGE: u8 = 64;

/// Looks a few seconds into a distributed service's future.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks files without touching anything else: no network, no service.
    ///
    /// Property files are read as far as that goes without the service; `SERVICE properties FILE` also knows its
    /// fields. Exits with 0 if all can be used, with 78 if something is wrong with one, which is then said.
    Validate(validate::Validate),
}

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(Arguments {
            command: Command::Validate(validate),
        }) => ExitCode::from(validate.run()),
        Err(error) => {
            // Nothing is left to be done if the message cannot be written.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(EXIT_USAGE),
            }
        }
    }
}
