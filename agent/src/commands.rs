//! The commands of `scry`, one file each. A command returns its exit code.

pub(crate) mod agent;
pub(crate) mod cert;
mod client;
pub(crate) mod completions;
pub(crate) mod explain;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mode;
pub(crate) mod probe;
pub(crate) mod reload;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod validate;

/// All went well.
pub(crate) const EXIT_FINE: u8 = 0;
/// What was asked could not be done.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line cannot be understood (`EX_USAGE`).
pub(crate) const EXIT_USAGE: u8 = 64;
/// A file cannot be understood (`EX_CONFIG`).
pub(crate) const EXIT_CONFIGURATION: u8 = 78;
