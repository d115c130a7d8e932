//! The live loop on loopback: messages, connections, timers, calls, faults and steering, with a service made for it.
//!
//! Nothing sleeps for a fixed time: every wait is for a condition, with a limit far above what it takes.

mod agent;
mod cluster;
mod connections;
mod links;
mod local;
mod meaning;
mod messages;
mod probe;
mod steering;
mod strangers;
