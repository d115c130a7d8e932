//! The command lines of all services of this crate: `correct chain check`, `correct lease node …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    correct::main()
}
