//! Pastry's membership: nodes on a circle who know those next to them, and the bug that MaceMC found in one (§1, §4.2): a node that
//! is restarted and joins again with the same identifier never gets a place.
//!
//! A node's id is its place on the circle. Requests are routed to the node closest to a key, by leaf sets alone: the routing
//! table makes routes shorter and has no part in who is a member.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | the protocol's handlers |
//! | [`leaves`] | the leaf set: the nodes next to a node, on both sides |
//! | [`setup`] | settings, and the switch of the bug |
//! | [`properties`] | the safety properties in Rust, named as in `properties.toml` |
//! | [`scenarios`] | what the command line can start from |

pub mod leaves;
pub mod properties;
pub mod scenarios;
pub mod service;
pub mod setup;

pub use service::{Call, Message, Mode, Pastry, Timer};
pub use setup::{Bugs, Setup};

/// The service with its command line, for the executable of this crate and for others that hold it.
// The unit tests need none of it, and to build it once more for them takes long.
#[cfg(all(feature = "executable", not(test)))]
pub static EXECUTABLE: scry::Executable = scry::Executable::of::<Pastry>();
