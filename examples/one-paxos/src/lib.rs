//! 1Paxos: values are chosen by a single acceptor, and a Paxos below agrees on who leads and who accepts (LMC §5.6).
//!
//! The leader asks the acceptor to accept, the acceptor tells everybody, and whoever hears it takes the value for chosen. What Paxos
//! needs a majority for happens only when somebody is to be replaced: the Paxos below, on the same nodes, has a log of such changes.
//! It is [`Paxos`](paxos::Paxos) as it stands, a service inside this one.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | a node: leader, acceptor, learner, and the Paxos below it |
//! | [`roles`] | the changes in the log below, and who leads and accepts after them |
//! | [`setup`] | what a node is started with, and the switch of the bug |
//! | [`properties`] | what must hold in every state |
//! | [`scenarios`] | what the command line can start from |

pub mod properties;
pub mod roles;
pub mod scenarios;
pub mod service;
pub mod setup;

pub use roles::{Change, Roles, Term};
pub use service::{Accepted, Acceptor, Call, Lead, Message, OnePaxos, Phase, Timer};
pub use setup::{Bugs, Setup};

/// The service with its command line, for the executable of this crate and for others that hold it.
// The unit tests need none of it, and to build it once more for them takes long.
#[cfg(all(feature = "executable", not(test)))]
pub static EXECUTABLE: scry::Executable = scry::Executable::of::<OnePaxos>();
