//! The other parts this one executable plays, so that `cargo run -p lab` needs nothing else to be built.
//!
//! A cluster's nodes, agents, checkers and speculators are all this executable. Speculators are started by nodes, which
//! know nothing of the lab: they inherit a variable that says which service they run. Checkers inherit nothing, and have
//! it on the command line that their agent was configured with.

use std::ffi::OsString;
use std::process::ExitCode;

use scry::Executable;

use crate::process::{self, SERVICE};

/// What `--help` says of the other parts.
pub(crate) const HELP: &str = "\
Other parts of this executable:
  lab service NAME …                        the command line of a service, such as `lab service randtree check`;
                                            randtree, chord, paxos, one-paxos, chain, commit, lease,
                                            failover or gossip
  lab agent|cert|explain|log|status|… …     the `scry` command line";

/// What the `scry` command line knows that the lab passes on to it.
const AGENT: [&str; 10] = [
    "agent",
    "cert",
    "explain",
    "log",
    "status",
    "mode",
    "steer",
    "validate",
    "debug",
    "completions",
];

/// Plays another part than the lab's own, if that is what this process was started for.
pub(crate) fn play() -> Option<ExitCode> {
    if std::env::var_os("SCRY_ROLE").is_some() {
        enter();
    }
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let first = arguments.get(1)?.to_str()?.to_owned();
    let is_service = first == "service";
    if !is_service && !AGENT.contains(&first.as_str()) {
        return None;
    }
    if let Err(error) = process::bind_to_parent() {
        eprintln!("error: {error}");
        return Some(ExitCode::FAILURE);
    }
    if is_service {
        arguments.remove(1);
        return Some(service(arguments));
    }
    Some(scry_agent::main(arguments))
}

/// Becomes a checker or a speculator; returns if the role is none of these.
fn enter() {
    let inherited = std::env::var(SERVICE).ok();
    let named = || std::env::args().skip(1).find(|it| it != "service");
    let name = inherited.or_else(named).unwrap_or_default();
    if let Some(executable) = executable_of(&name) {
        executable.enter();
    }
}

fn service(mut arguments: Vec<OsString>) -> ExitCode {
    let name = match arguments.len() {
        0 | 1 => OsString::new(),
        _ => arguments.remove(1),
    };
    match name.to_str().and_then(executable_of) {
        Some(executable) => ExitCode::from(executable.run(arguments)),
        None => {
            let names: Vec<&str> = executables().map(|(name, _)| name).collect();
            eprintln!("error: lab service {} …", names.join("|"));
            ExitCode::from(scry::cli::EXIT_USAGE)
        }
    }
}

/// What this executable can be for each service. They are compiled with the services, and not once more with the lab.
fn executables() -> impl Iterator<Item = (&'static str, &'static Executable)> {
    let papers = [
        ("randtree", &randtree::EXECUTABLE),
        ("chord", &chord::EXECUTABLE),
        ("paxos", &paxos::EXECUTABLE),
        ("one-paxos", &one_paxos::EXECUTABLE),
    ];
    let correct = correct::EXECUTABLES.iter();
    papers
        .into_iter()
        .chain(correct.map(|(name, it)| (*name, it)))
}

fn executable_of(name: &str) -> Option<&'static Executable> {
    let mut all = executables();
    all.find(|(known, _)| *known == name).map(|(_, it)| it)
}
