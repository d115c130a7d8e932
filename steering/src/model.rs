//! The meaning of a system: what can happen at a node, and what then becomes of it, in plain values.
//!
//! Everything here works on one node at a time, as in the paper's system model (CrystalBall §2.1): an event touches
//! one node's state and leaves parcels for others. The engine memoises these functions under integer ids; the
//! [`Simulation`] calls them directly on whole states, to reach start states and to replay every path before it is
//! reported.
//!
//! | module | what it holds |
//! |---|---|
//! | [`event`] | everything that can happen at a node |
//! | [`handler`] | running a handler, once for each outcome of its choices |
//! | [`network`] | connections, messages on their way, and what faults do to them |
//! | [`fault`] | how many faults a path may contain |
//! | [`simulation`] | a whole system in plain values |
//! | [`steering`] | what filters in force make of events |
//! | [`system`] | which nodes there are, and the script that leads to the start state |

pub mod event;
pub mod fault;
pub mod handler;
pub mod network;
pub mod simulation;
pub mod steering;
pub mod system;

pub use event::{Event, EventOf, Input, InputOf, Step};
pub use fault::{Fault, Faults};
pub use handler::{Local, Outcome, Tosses};
pub use network::{Connection, Inbox, Links, Parcel};
pub use simulation::{Node, Simulation};
pub use steering::{Rule, Steering};
pub use system::{Act, System};
