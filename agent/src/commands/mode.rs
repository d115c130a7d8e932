//! `scry mode`: how much a running agent may do.

use serde_json::{Value, json};

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
    match target.ask("POST", "/mode", Some(&wish(mode, property))) {
        Ok(answer) => {
            println!("{}", told(&answer));
            EXIT_FINE
        }
        Err(code) => code,
    }
}

/// Writes what is asked for.
pub(super) fn wish(mode: Mode, property: Option<&str>) -> Value {
    json!({ "mode": mode, "property": property })
}

/// Says what counts now, why it is not what was set, and how many filters fell.
pub(super) fn told(answer: &Value) -> String {
    let word = |name: &str| answer.get(name).and_then(Value::as_str);
    let property = word("property").map_or(String::new(), |property| format!("{property}: "));
    let mode = word("mode").unwrap_or("-");
    let why = word("why").map_or(String::new(), |why| format!(" ({why})"));
    let fell = match answer.get("filters_fell").and_then(Value::as_u64) {
        None | Some(0) => String::new(),
        Some(1) => "; 1 filter fell".to_owned(),
        Some(count) => format!("; {count} filters fell"),
    };
    format!("{property}{mode}{why}{fell}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_what_counts_and_why_and_what_fell() {
        let answer = json!({ "property": null, "mode": "off", "why": null, "filters_fell": 2 });
        assert_eq!(told(&answer), "off; 2 filters fell");
        let answer = json!({ "property": "p", "mode": "audit", "why": "it is", "filters_fell": 1 });
        assert_eq!(told(&answer), "p: audit (it is); 1 filter fell");
    }
}
