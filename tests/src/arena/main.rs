//! The arena: every process of a cluster that is attacked, in one executable, so that a test needs nothing else.
//!
//! `arena node …` is the command line of the service, `arena checker` what an agent starts as a checker, everything else
//! (`arena agent …`, `arena cert …`, `arena status …`) the command line of `scry`. Checkers and speculators are told apart
//! by `SCRY_ROLE`, as in every service.
//!
//! | module | what it holds |
//! |---|---|
//! | [`register`] | a small correct service that is asked and answers, by streams and datagrams |
//! | [`spell`] | what makes a state of it harm whoever reads, copies, shows, judges or runs it |

mod register;
mod spell;

use std::ffi::OsString;
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

use crate::register::Register;

/// Tells a process which one it must not outlive.
const PARENT: &str = "ARENA_PARENT";

fn main() -> ExitCode {
    let register = scry::Executable::of::<Register>();
    register.enter();
    if let Err(error) = bind_to_parent() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match arguments.get(1).and_then(|first| first.to_str()) {
        Some("node" | "check" | "properties") => ExitCode::from(register.run(arguments)),
        _ => scry_agent::main(arguments),
    }
}

/// A test that is killed leaves nothing behind.
fn bind_to_parent() -> Result<(), String> {
    let Ok(parent) = std::env::var(PARENT) else {
        return Ok(());
    };
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| error.to_string())?;
    match parent == getppid().to_string() {
        true => Ok(()),
        false => Err("the test that started this process is gone".to_owned()),
    }
}
