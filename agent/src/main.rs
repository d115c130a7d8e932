//! The `scry` binary: what an operator runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    scry_agent::main(std::env::args_os())
}
