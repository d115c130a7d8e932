//! The command line of the Pastry example.

use std::process::ExitCode;

fn main() -> ExitCode {
    pastry::EXECUTABLE.main()
}
