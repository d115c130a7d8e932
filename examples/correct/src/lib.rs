//! Five small services as an outsider would write them: straightforward, correct, and not written for scry. Each has one
//! realistic bug that can be switched on.
//!
//! | module | service | messages | bug |
//! |---|---|---|---|
//! | [`chain`] | chain replication | on connections | takes what was sent on a lost connection for delivered |
//! | [`commit`] | two-phase commit | datagrams | a participant that voted yes gives up waiting and aborts |
//! | [`lease`] | a lock by leases | datagrams | a client that is not done in time keeps the lock |
//! | [`failover`] | primary and backup, with views | both | a primary whose backup is slow acknowledges alone |
//! | [`gossip`] | a counter spread by gossip | datagrams | increments that are told twice are counted twice |
//!
//! `lab gauntlet` runs them with agents beside them, in which a correct service must be none the worse for it.
//!
//! They share one crate and one executable because each executable that holds the engine takes long to build. An agent
//! has to be told which service the executable is to check: `checker.command = ["correct", "chain"]`.

pub mod chain;
pub mod commit;
pub mod failover;
pub mod gossip;
pub mod lease;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use scry::properties::{PropertyFile, Schema};
use scry::{Executable, NodeId, Property, Service};

pub use chain::Chain;
pub use commit::Commit;
pub use failover::Failover;
pub use gossip::Gossip;
pub use lease::Lease;

/// Tells a speculator, which is started without arguments and inherits this, which service it is of.
const SERVICE: &str = "CORRECT_SERVICE";

/// The services with their command lines, by the names they have there.
pub static EXECUTABLES: [(&str, Executable); 5] = [
    ("chain", Executable::of::<Chain>()),
    ("commit", Executable::of::<Commit>()),
    ("lease", Executable::of::<Lease>()),
    ("failover", Executable::of::<Failover>()),
    ("gossip", Executable::of::<Gossip>()),
];

/// The services have no options of their own.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {}

/// Runs the command line of the service that the first argument names.
pub fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let inherited = std::env::var(SERVICE).ok();
    let role = std::env::var_os(scry::enter::ROLE_VARIABLE);
    let named = arguments
        .get(1)
        .and_then(|it| it.to_str())
        .map(str::to_owned);
    let name = match role {
        Some(_) => named.or_else(|| inherited.clone()),
        None => named,
    };
    let found = name.and_then(|name| EXECUTABLES.iter().find(|(it, _)| *it == name));
    let Some((name, executable)) = found else {
        let names = EXECUTABLES.map(|(name, _)| name);
        eprintln!("error: correct {} …", names.join("|"));
        return ExitCode::from(scry::cli::EXIT_USAGE);
    };
    if role.is_none() && inherited.as_deref() != Some(name) {
        // The environment of a running process is not safely changed, so this one starts again with another.
        let error = Command::new("/proc/self/exe")
            .args(&arguments[1..])
            .env(SERVICE, name)
            .exec();
        eprintln!("error: {error}");
        return ExitCode::from(scry::cli::EXIT_SYSTEM);
    }
    if arguments.len() > 1 {
        arguments.remove(1);
    }
    executable.enter();
    ExitCode::from(executable.run(arguments))
}

/// Compiles a service's property file, which is part of this crate.
///
/// # Panics
///
/// If it does not fit the service: every test of the service shows it.
fn properties<S: Service>(text: &str) -> Vec<Property<S>> {
    let set = PropertyFile::load(
        "properties.toml",
        text.as_bytes(),
        &Schema::of::<S>(),
        vec![],
    );
    match set {
        Ok(set) => set.properties(),
        Err(errors) => panic!("{errors}"),
    }
}

/// Returns the nodes of a scenario: so many as were asked for, or `usual`.
fn members(asked: Option<u32>, usual: u32, least: u32) -> Result<Vec<NodeId>, String> {
    let count = asked.unwrap_or(usual);
    if count < least {
        return Err(format!("it takes {least} nodes or more"));
    }
    Ok((1..=count).map(NodeId::new).collect())
}
