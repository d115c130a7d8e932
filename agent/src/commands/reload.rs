//! `scry reload`: makes a running agent read its configuration again.

use serde_json::{Value, json};

use super::EXIT_FINE;
use super::client::Target;

/// What `reload` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    target: Target,
}

impl Reload {
    /// Asks for it, says what came of it, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let answer = match self.target.ask("POST", "/reload", Some(&json!({}))) {
            Ok(answer) => answer,
            Err(code) => return code,
        };
        println!("{}", answer["hash"].as_str().unwrap_or_default());
        let sections = answer["needs_restart"].as_array().into_iter().flatten();
        for section in sections.filter_map(Value::as_str) {
            println!("[{section}] changed, and counts only after a restart");
        }
        EXIT_FINE
    }
}
