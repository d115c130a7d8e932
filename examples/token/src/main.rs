//! The command line of the token: `check`, `properties` and `node`.

use std::process::ExitCode;

fn main() -> ExitCode {
    scry::main::<token::Token>()
}
