//! The ready-made loop: runs any [`Service`](crate::Service) over TCP and UDP, and lets it be checked and steered.
//!
//! | module | what it holds |
//! |---|---|
//! | [`guard`] | the seam for a check that comes before every handler |
//! | `node` | the loop: one task owns the node's state, its timers and its connections |
//! | [`options`] | what a node is started with |
//! | [`handle`] | what the application holds of a running node |
//! | [`report`] | what happened at a node, one event at a time |
//! | `streams`, `connection` | connections as the model has them, and the task that serves each |
//! | `outflow` | what waits to be written on one |
//! | [`ports`] | what strangers may cost the node at its ports |
//! | `datagrams` | messages on their own |
//! | [`wire`] | how both look on the wire |
//! | [`emulation`] | delay, loss and rate that a link is given on purpose |
//! | `timers` | which timers are armed, and until when |
//! | `disk` | what survives a reset, kept in a file |
//!
//! What a handler asks for is done after it returned, in order; what it keeps on disk is written before anything is sent.
//! A handler that panics ends its node as a crash would. Only the first two modules are there without the feature
//! `runtime`.

pub mod guard;

#[cfg(feature = "runtime")]
mod clock;
#[cfg(feature = "runtime")]
mod connection;
#[cfg(feature = "runtime")]
mod datagrams;
#[cfg(feature = "runtime")]
mod disk;
#[cfg(feature = "runtime")]
pub mod emulation;
#[cfg(feature = "runtime")]
pub mod handle;
#[cfg(feature = "runtime")]
mod node;
#[cfg(feature = "runtime")]
pub mod options;
#[cfg(feature = "runtime")]
mod outflow;
#[cfg(feature = "runtime")]
pub mod ports;
#[cfg(feature = "runtime")]
pub mod report;
#[cfg(feature = "runtime")]
mod streams;
#[cfg(feature = "runtime")]
mod task;
#[cfg(feature = "runtime")]
mod timers;
#[cfg(feature = "runtime")]
pub mod wire;

pub use guard::{Examined, Guard};

#[cfg(feature = "runtime")]
pub use self::{
    clock::TimeOfDay,
    disk::DiskOptions,
    emulation::Emulation,
    handle::{CallError, Gone, Handle, Snapshot},
    node::{Bound, End, bind, spawn},
    options::Options,
    ports::PortLimits,
    report::{Kind, Report, Ruling},
};
