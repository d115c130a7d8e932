//! Paxos, written as any service is that is checked and steered by scry.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | what nodes say and keep, and who handles what: the place to start reading |
//! | [`roles`] | the acceptor's vote and the proposer's round, shared by the two deployments |
//! | [`plain`] | single-decree Paxos with proposers and acceptors on nodes of their own |
//! | [`replica`] | all roles on every node, an instance for each index, losses, resets and retries |
//! | [`properties`] | what must hold |
//! | [`scenarios`] | the situations a search can start from, and the command line's options |

#[cfg(test)]
mod bench;
pub mod plain;
pub mod properties;
pub mod replica;
pub mod roles;
pub mod scenarios;
pub mod service;

pub use service::{Bugs, Call, Index, Message, Part, Paxos, Setup, Timer, Value};

/// The service with its command line, for the executable of this crate and for others that hold it.
// The unit tests need none of it, and to build it once more for them takes long.
#[cfg(all(feature = "executable", not(test)))]
pub static EXECUTABLE: scry::Executable = scry::Executable::of::<Paxos>();
