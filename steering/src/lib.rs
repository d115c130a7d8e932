//! Links a service to scry: checked offline, steered live, by its own handlers.
//!
//! This page is the tutorial; [the modules](#modules) are listed below it. Everything on it is compiled and run by
//! `cargo test -p scry --doc`, and the service is the example `token`: `cargo run -p token -- check --help`.
//!
//! # A service, and its bug
//!
//! A service is a state machine. Its state is a plain value; a handler is a function of that value, an event and some
//! choices, and all it does goes through its [`Context`]. So the same handler runs live, in the checker, and in a test.
//! This one passes a token round, and has a bug that can be switched on.
//!
//! ```
#![doc = include_str!("../../examples/token/src/service.rs")]
//! ```
//!
#![doc = include_str!("tutorial.md")]
//!
//! # Modules
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`], [`context`] | what the author of a service writes, and what its handlers see |
//! | [`property`] | what must hold in every state |
//! | [`properties`] | the same, written in a file |
//! | [`model`] | what can happen at a node and what then becomes of it, in plain values |
//! | [`engine`] | the same as integers, every handler run once |
//! | [`explore`] | strategies that search those integers |
//! | [`timing`] | paths laid out in time: whether there are times for their events, and which |
//! | [`checkpoint`] | checkpoints, neighborhoods and consistent snapshots, as cores without IO |
//! | [`blame`] | whose state a process was working on when it died |
//! | [`capture`] | a running node as bytes and back: what a checkpoint carries of it |
//! | [`checker`], [`mod@enter`] | the search beside a running service: a snapshot in, violations and their remedies out |
//! | [`hook`] | the host's side of steering: stamps, checkpoints, filters, and the link to the agent |
//! | [`runtime`] | the ready-made loop over TCP and UDP |
//! | [`safety`] | the immediate safety check: a handler tried on a copy before it runs |
//! | [`trace`] | a predicted path spelled out, for people and for other machines |
//! | [`program`], [`cli`] | what a service adds to get a command line, and that command line |

pub mod blame;
pub mod capture;
pub mod checker;
#[cfg(feature = "cli")]
pub mod cli;
pub mod enter;
pub mod hook;
#[cfg(feature = "cli")]
pub mod program;
pub mod runtime;
pub mod safety;
pub mod trace;

#[cfg(feature = "cli")]
pub use cli::main;
pub use enter::enter;
#[cfg(feature = "cli")]
pub use program::{Bug, Program, Request, Scenario};
pub use scry_checkpoint as checkpoint;
pub use scry_engine::{
    Act, Chance, Context, Dice, Effect, Event, Fault, Faults, Handling, Judgement, Limits, NodeId,
    Options, Prediction, Property, Report, Scope, Search, Service, Simulation, Stamp, Step,
    Strategy, System, Transport, Value, View, Violation,
};
pub use scry_engine::{context, explore, interned, kind, model, property, service, timing};
pub use scry_properties as properties;
