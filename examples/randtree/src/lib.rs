//! RandTree: a random overlay tree of bounded degree, and the bugs that CrystalBall and MaceMC found in one.
//!
//! Nodes ask a designated node for a place. The request goes to the root, which takes the node in or passes it down
//! to a child picked at random. The most eligible node is root: a root that meets a better one joins it as a child.
//! Children of a lost root take its place, each for itself, and find together again by probing.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | the protocol |
//! | [`message`] | messages, timers, calls |
//! | [`setup`] | what a node is started with, and the switches of the bugs |
//! | [`properties`] | what must hold in every state |
//! | [`scenarios`] | the papers' start states, each reached by a script of events |

pub mod message;
pub mod properties;
pub mod scenarios;
pub mod service;
pub mod setup;

pub use message::{Call, Message, Timer};
pub use service::{Mode, RandTree};
pub use setup::{Announce, Bugs, Setup};

/// The service with its command line, for the executable of this crate and for others that hold it.
// The unit tests need none of it, and to build it once more for them takes long.
#[cfg(all(feature = "executable", not(test)))]
pub static EXECUTABLE: scry::Executable = scry::Executable::of::<RandTree>();
