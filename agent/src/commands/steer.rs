//! `scry steer`: the switch for the impatient.

use clap::ValueEnum;

use super::client::Target;
use super::mode;
use crate::configuration::Mode;

/// What `steer` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Steer {
    /// on: prevent what is predicted; off: do nothing at all.
    #[arg(value_enum)]
    switch: Switch,
    #[command(flatten)]
    target: Target,
}

/// On or off.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Switch {
    /// Prevent.
    On,
    /// Nothing.
    Off,
}

impl Steer {
    /// Throws the switch, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let mode = match self.switch {
            Switch::On => Mode::Steer,
            Switch::Off => Mode::Off,
        };
        mode::set(&self.target, mode, None)
    }
}
