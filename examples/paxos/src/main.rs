//! The command line of the Paxos example.

use std::process::ExitCode;

fn main() -> ExitCode {
    paxos::EXECUTABLE.main()
}
