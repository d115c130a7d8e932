//! Agents as processes on this machine: snapshots, operators, and everything that must be refused.

mod deploy;
mod hostile;
mod operators;
mod snapshots;
mod support;
