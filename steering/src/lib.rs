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
#![cfg_attr(doc, doc = include_str!("../../examples/token/src/service.rs"))]
//! ```
//!
#![doc = include_str!("tutorial.md")]
//!
//! # Modules
//!
//! What the author of a service needs is at the root: [`Service`], [`Context`], [`Property`], [`Search`], [`Program`], [`main`]. The rest:
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`], [`context`] | what the author of a service writes, and what its handlers see |
//! | [`kind`] | what events are called; names that are known only at run time |
//! | [`property`], [`properties`] | what must hold in every state; the same, written in a file |
//! | [`model`], [`explore`], [`timing`] | what can happen to a service, strategies that search it, paths laid out in time |
//! | [`program`], [`cli`] | what a service adds to get a command line, and that command line |
//! | [`runtime`] | the ready-made loop over TCP and UDP |
//! | [`hook`], [`mod@enter`] | for a service with a loop of its own: stamps, checkpoints, filters, and the link to the agent |
//! | [`trace`] | a predicted path spelled out, for people and for other machines |
//!
//! The other modules are what agents, benches and tests are made of.

#[doc(hidden)]
pub mod blame;
#[doc(hidden)]
pub mod capture;
#[doc(hidden)]
pub mod checker;
#[cfg(feature = "cli")]
pub mod cli;
pub mod enter;
pub mod hook;
#[cfg(feature = "cli")]
pub mod program;
pub mod runtime;
#[doc(hidden)]
pub mod safety;
pub mod trace;

#[cfg(feature = "cli")]
pub use cli::{Executable, main};
pub use enter::enter;
#[cfg(feature = "cli")]
pub use program::{Bug, Program, Request, Scenario};
#[doc(hidden)]
pub use scry_checkpoint as checkpoint;
#[doc(hidden)]
pub use scry_engine::interned;
pub use scry_engine::{
    Act, Chance, Context, Dice, Effect, Event, Fault, Faults, Handling, Judgement, Limits, NodeId,
    Options, Prediction, Property, Report, Scope, Search, Service, Simulation, Stamp, Step,
    Strategy, System, Transport, Value, View, Violation,
};
pub use scry_engine::{context, explore, kind, model, property, service, timing};
pub use scry_properties as properties;
