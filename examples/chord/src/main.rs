//! The command line of the Chord example.

use std::process::ExitCode;

fn main() -> ExitCode {
    chord::EXECUTABLE.main()
}
