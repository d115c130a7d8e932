//! `scry probe`: whether an agent answers, for whoever supervises it and cannot reach its interface.

use clap::ValueEnum;

use super::EXIT_FINE;
use super::client::Target;

/// What `probe` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    /// Which of the agent's two answers.
    #[arg(value_enum)]
    question: Question,
    #[command(flatten)]
    target: Target,
}

/// What a supervisor asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Question {
    /// Whether it should be left alone: if not, restart it.
    Livez,
    /// Whether it can do its work.
    Readyz,
}

impl Probe {
    /// Asks, and returns 0 for yes.
    pub(crate) fn run(&self) -> u8 {
        let path = match self.question {
            Question::Livez => "/livez",
            Question::Readyz => "/readyz",
        };
        match self.target.ask("GET", path, None) {
            Ok(_) => EXIT_FINE,
            Err(code) => code,
        }
    }
}
