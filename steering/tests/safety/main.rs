//! The immediate safety check in its three forms, with real processes.
//!
//! The speculator is this executable started again, so the tests have a `main` of their own: it plays that part first if
//! it is asked to.

mod cases;
mod cuts;
mod toy;

use std::process::ExitCode;

fn main() -> ExitCode {
    scry::enter::<toy::Counter>();
    if std::env::var_os(cases::LONELY).is_some() {
        cases::lonely();
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    let mut failed = 0;
    for (name, case) in cases::ALL {
        if !chosen(name) {
            continue;
        }
        let ended = std::panic::catch_unwind(case);
        println!(
            "test {name} ... {}",
            if ended.is_ok() { "ok" } else { "FAILED" }
        );
        failed += usize::from(ended.is_err());
    }
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
