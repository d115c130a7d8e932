//! The command line of the MaceTransport example.

use std::process::ExitCode;

fn main() -> ExitCode {
    mace_transport::EXECUTABLE.main()
}
