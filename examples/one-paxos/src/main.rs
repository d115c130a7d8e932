//! The command line of the 1Paxos example.

use std::process::ExitCode;

fn main() -> ExitCode {
    one_paxos::EXECUTABLE.main()
}
