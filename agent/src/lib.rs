//! What the `scry` binary is made of.
//!
//! | module | what it holds |
//! |---|---|
//! | [`controller`] | from snapshot to filter, as a core without IO |
//! | [`log`] | the steering log on disk, and the trace files beside it |

pub mod controller;
pub mod log;
