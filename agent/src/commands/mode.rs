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
    /// Only for the property of this name. The lowest of this, the global mode, the property file's and the configuration's
    /// counts.
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

/// Sets a mode, and says which one counts now.
pub(crate) fn set(target: &Target, mode: Mode, property: Option<&str>) -> u8 {
    let body = json!({ "mode": mode, "property": property });
    match target.ask("POST", "/mode", Some(&body)) {
        Ok(answer) => {
            let word = |name: &str| answer.get(name).and_then(serde_json::Value::as_str);
            let mode = word("mode").unwrap_or("-");
            let why = word("why").map_or(String::new(), |why| format!(" ({why})"));
            match property {
                Some(property) => println!("{property}: {mode}{why}"),
                None => println!("{mode}{why}"),
            }
            EXIT_FINE
        }
        Err(code) => code,
    }
}
