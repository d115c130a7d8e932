//! MaceTransport: messages that arrive in order and once, over datagrams, and the bug that MaceMC found in one (§5).
//!
//! Messages are numbered, not bytes. There is no handshake: the first packet of a connection has a message in it already, and a mark
//! (SYN) by which the receiver begins to count at its number. What is not acknowledged is sent again; a connection whose first packet
//! is never acknowledged is closed, and the application opens another for what is left.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | both ends of connections, and the application above them |
//! | [`setup`] | what a node is started with, and the switch of the bug |
//! | [`properties`] | what must hold in every state |
//! | [`scenarios`] | what the command line can start from |

pub mod properties;
pub mod scenarios;
pub mod service;
pub mod setup;

pub use service::{Call, Incoming, MaceTransport, Message, Outgoing, Packet, Sequence, Timer};
pub use setup::{Bugs, Setup};

/// The service with its command line, for the executable of this crate and for others that hold it.
// The unit tests need none of it, and to build it once more for them takes long.
#[cfg(all(feature = "executable", not(test)))]
pub static EXECUTABLE: scry::Executable = scry::Executable::of::<MaceTransport>();
