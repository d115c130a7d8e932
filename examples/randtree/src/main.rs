//! The command line of the RandTree example.

use std::process::ExitCode;

fn main() -> ExitCode {
    randtree::EXECUTABLE.main()
}
