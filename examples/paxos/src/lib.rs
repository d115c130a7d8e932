//! Paxos, written as any service is that is checked and steered by scry.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | what nodes say and keep, and who handles what: the place to start reading |
//! | [`roles`] | the acceptor's vote and the proposer's round, shared by the two deployments |
//! | [`plain`] | single-decree Paxos with proposers and acceptors on nodes of their own |
//! | [`properties`] | what must hold |
//! | [`scenarios`] | the situations a search can start from, and the command line's options |

pub mod plain;
pub mod properties;
pub mod roles;
pub mod scenarios;
pub mod service;

pub use service::{Bugs, Index, Message, Part, Paxos, Setup, Value};
