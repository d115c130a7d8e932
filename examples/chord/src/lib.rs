//! The Chord ring as a service: a distributed hash table's membership protocol, written as an outsider would write it
//! for scry.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | the protocol's handlers |
//! | [`routing`] | what a node knows of the ring |
//! | [`ring`] | arithmetic on the circle of keys |
//! | [`setup`] | settings, and the switches for known bugs |
//! | [`properties`] | the safety properties in Rust, named as in `properties.toml` |
//! | [`scenarios`] | the situations the papers tell of, each reached by real events |
//!
//! A node's id is its place on the ring, so whoever deploys it spreads the ids (by hashing addresses, say), and a
//! scenario sets the order of its nodes by their numbers.

pub mod properties;
pub mod ring;
pub mod routing;
pub mod scenarios;
pub mod service;
pub mod setup;

pub use service::{Call, Chord, Message, Mode, Timer};
pub use setup::{Bugs, Setup};

/// The service with its command line, for the executable of this crate and for others that hold it.
// The unit tests need none of it, and to build it once more for them takes long.
#[cfg(all(feature = "executable", not(test)))]
pub static EXECUTABLE: scry::Executable = scry::Executable::of::<Chord>();
