//! Services as state machines, the model of what can happen to them, and strategies that search it.
//!
//! Authors of services depend on `scry`, which shows what they need of this crate. Nothing here knows a clock, a socket, a
//! file or a process (`clippy.toml` beside this crate's manifest says so to the compiler): time is a caller that calls
//! [`Search::advance`](explore::Search::advance) less often, and whoever has a file reads it before.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`], [`context`] | what the author of a service writes, and what its handlers see |
//! | [`property`] | what must hold in every state |
//! | [`model`] | what can happen at a node and what then becomes of it, in plain values |
//! | [`interned`] | the same as integers, every handler run once |
//! | [`explore`] | strategies that search those integers |
//! | [`timing`] | paths laid out in time: whether there are times for their events, and which |
//! | [`blame`], [`panics`] | whose state a thread is working on, and what to do when that panics |
//! | [`kind`] | what an event is called |

pub mod blame;
pub mod context;
pub mod explore;
pub mod interned;
pub mod kind;
pub mod model;
pub mod panics;
pub mod property;
pub mod service;
pub mod stamp;
pub mod timing;

pub use context::{Chance, Context, Dice, Effect, Stamp};
pub use explore::{Limits, Options, Report, Search, Strategy, Violation};
pub use model::{Act, Event, Fault, Faults, Simulation, Step, System};
pub use property::{Judgement, Property, Scope, View};
pub use scry_protocol::NodeId;
pub use service::{Handling, Prediction, Service, Transport, Value};
