//! `scry mode`: how much a running agent may do.

use serde_json::json;

use super::EXIT_FINE;
use super::client::Target;
use crate::configuration::Mode;

/// What `mode` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct SetMode {
    /// off: nothing; audit: predict and report; steer: prevent.
    #[arg(value_enum)]
    mode: Mode,
    /// Only for the property of this name. The lower of its mode and the global one counts.
    #[arg(long)]
    property: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl SetMode {
    /// Sets the mode, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        set(&self.target, self.mode, self.property.as_deref())
    }
}

/// Sets a mode and says so.
pub(crate) fn set(target: &Target, mode: Mode, property: Option<&str>) -> u8 {
    let body = json!({ "mode": mode, "property": property });
    match target.ask("POST", "/mode", Some(&body)) {
        Ok(_) => {
            let mode = serde_json::to_value(mode).unwrap_or_default();
            let mode = mode.as_str().unwrap_or_default();
            match property {
                Some(property) => println!("{property}: {mode}"),
                None => println!("{mode}"),
            }
            EXIT_FINE
        }
        Err(code) => code,
    }
}
