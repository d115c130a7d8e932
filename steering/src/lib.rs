//! Links a service to scry: checked offline, steered live, by its own handlers.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`], [`context`] | what the author of a service writes, and what its handlers see |
//! | [`property`] | what must hold in every state |
//! | [`properties`] | the same, written in a file |
//! | [`model`] | what can happen at a node and what then becomes of it, in plain values |

pub mod context;
pub mod model;
#[cfg(feature = "cli")]
pub mod program;
pub mod properties;
pub mod property;
pub mod service;

pub use context::{Chance, Context, Effect, Stamp};
pub use model::{Act, Event, Fault, Faults, Simulation, Step, System};
#[cfg(feature = "cli")]
pub use program::{Bug, Program, Request, Scenario};
pub use property::{Judgement, Property, View};
pub use scry_protocol::NodeId;
pub use service::{Service, Transport, Value};
