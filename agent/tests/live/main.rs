//! Agents as processes on this machine: snapshots, operators, and everything that must be refused.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says where"
)]

mod bounds;
mod certificates;
mod deploy;
mod flood;
mod hostile;
mod operators;
mod snapshots;
mod support;
mod switch;
