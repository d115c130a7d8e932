//! `scry completions`: what a shell needs to complete commands.

use clap::CommandFactory;
use clap_complete::Shell;

use super::EXIT_FINE;

/// What `completions` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// For which shell.
    shell: Shell,
}

impl Completions {
    /// Prints the script, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let mut command = crate::Arguments::command();
        clap_complete::generate(self.shell, &mut command, "scry", &mut std::io::stdout());
        EXIT_FINE
    }
}
