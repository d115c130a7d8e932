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
//!
//! # What an author should know
//!
//! Handlers run one at a time at a node, and whatever a network or a scheduler could do between them is tried. The rules
//! below decide what counts as a step of a path, and so what `check` counts and reports.
//!
//! **Steps.** What changes nothing is no step: a datagram whose handler does nothing stays on its way, since it may have an
//! effect later, and a reset of a node that is as it was started is not counted. A fault that would use up nothing but its
//! allowance is no step either. If a handler ends in two equal ways by different choices, those are two steps.
//!
//! **Connections.** The first send to a peer opens one; it exists at the other end from the first receipt on. Order is kept
//! on each connection, not between two nodes: if both open one at the same time there are two, each sends on the one that
//! came to it last, and messages on the one may overtake those on the other. When one connection with a peer ends, all with
//! it end, and [`on_disconnect`](crate::Service::on_disconnect) is called once.
//!
//! **Close.** After [`disconnect`](crate::Context::disconnect) the peer still hears what was sent before, then learns that
//! the connection is closed. What it sends on it meanwhile is lost, and nobody is told. Messages that were on their way to
//! the node that closed are lost as well.
//!
//! **Break.** A connection that breaks takes with it, at the end that sees it first, what was on its way there. The other
//! end learns of it later, or when it sends, or never.
//!
//! **Reset.** A node that is reset keeps what is on disk. What others sent to it stays on its way: datagrams arrive in its
//! new incarnation, and messages on connections it no longer knows are refused, which their sender learns. What it sent to itself
//! is gone. The notice of a reset can be late or lost, so `resets` covers what `silent_resets` does.
//!
//! **Late starts.** A node may be down for a while (`late_starts`): before its first event that is a node which is not up yet.
//! Connections to it are refused, which their opener learns by `on_disconnect`; datagrams to it arrive when it is up, or
//! never, which is to be lost. Properties do not see it until it starts, which it does like a node that was reset.
//!
//! **Panic.** A node whose handler panicked does nothing more. Its timers are gone, what the handler did is not seen by
//! anybody, and its peers are not told.
//!
//! The live runtime does the same over TCP and UDP; a test leads both through the same schedules. A connection that the
//! runtime itself gives up, because its queue is full or something malformed came, is a break that this node sees first.

pub mod event;
pub mod fault;
pub mod handler;
pub mod live;
pub mod network;
pub mod simulation;
pub mod steering;
pub mod system;

pub use event::{Event, EventOf, Input, InputOf, Step};
pub use fault::{Fault, Faults};
pub use handler::{Local, Outcome, Tosses};
pub use network::{Connection, Inbox, Links, Parcel};
pub use simulation::{Node, Simulation};
pub use steering::{NodeFilter, Steering};
pub use system::{Act, System};
