//! `scry status`: how things stand with a running agent.

use serde_json::Value;

use super::EXIT_FINE;
use super::client::Target;

/// What `status` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Everything, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Status {
    /// Prints the status, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        match self.target.ask("GET", "/status", None) {
            Ok(status) if self.json => println!("{status:#}"),
            Ok(status) => print!("{}", text(&status)),
            Err(code) => return code,
        }
        EXIT_FINE
    }
}

/// Writes the few lines that a person looks for first.
fn text(status: &Value) -> String {
    let word = |pointer: &str| match status.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let mut lines = vec![
        format!("node        {}", word("/node")),
        format!("mode        {} ({})", word("/steering/mode"), why(status)),
    ];
    if let Some(by) = status
        .pointer("/steering/host/held_off_by")
        .and_then(Value::as_str)
    {
        lines.push(format!("            the service acts on nothing: {by}"));
    }
    let missing = status.get("waits_for").and_then(Value::as_array);
    for what in missing.into_iter().flatten().filter_map(Value::as_str) {
        lines.push(format!("not ready   {what}"));
    }
    lines.extend(properties(status));
    lines.push(match status.pointer("/steering/host") {
        Some(Value::Object(_)) => format!(
            "service     {} {} (process {})",
            word("/steering/host/service"),
            word("/steering/host/version"),
            word("/host_process")
        ),
        _ => "service     none is attached".to_owned(),
    });
    lines.push(match status.pointer("/steering/checker_ready") {
        Some(Value::Bool(true)) => {
            format!(
                "checker     up, {} restarts",
                word("/steering/counts/checker_restarts")
            )
        }
        _ => format!(
            "checker     down, {} restarts",
            word("/steering/counts/checker_restarts")
        ),
    });
    for peer in status
        .get("peers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let node = peer.get("node").and_then(Value::as_str).unwrap_or("-");
        let connected = peer.get("connected").and_then(Value::as_bool) == Some(true);
        let standing = match peer.get("unreachable").and_then(Value::as_str) {
            _ if connected => "connected".to_owned(),
            Some(why) => format!("cannot be reached: {why}"),
            None => "not dialled: there was nothing to say".to_owned(),
        };
        lines.push(format!("peer        {node} {standing}"));
    }
    match status.get("snapshot") {
        Some(Value::Object(snapshot)) => {
            let members = snapshot.get("members").and_then(Value::as_array);
            lines.push(format!(
                "snapshot    {} nodes, {} bytes, {} ms old when complete",
                members.map_or(0, Vec::len),
                word("/snapshot/bytes"),
                word("/snapshot/age_ms")
            ));
            for (node, why) in snapshot
                .get("missing")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                lines.push(format!(
                    "            without {node}: {}",
                    why.as_str().unwrap_or("-")
                ));
            }
        }
        _ => lines.push("snapshot    none yet".to_owned()),
    }
    if status.get("certificate").is_some_and(Value::is_object) {
        lines.push(format!(
            "certificate until {}, {} days left",
            word("/certificate/until"),
            word("/certificate/days_left")
        ));
    }
    lines.push(format!("log head    {}", word("/log_head")));
    lines.push(format!("loaded      {}", word("/configuration/hash")));
    if let Some(sections) = status
        .pointer("/configuration/needs_restart")
        .and_then(Value::as_array)
        && !sections.is_empty()
    {
        let names: Vec<&str> = sections.iter().filter_map(Value::as_str).collect();
        lines.push(format!(
            "            a restart is needed for {}",
            names.join(", ")
        ));
    }
    lines.join("\n") + "\n"
}

/// Says why the mode is what it is.
fn why(status: &Value) -> &str {
    let word = |name: &str| status.get(name).and_then(Value::as_str);
    word("held_off_by").or(word("mode_by")).unwrap_or("-")
}

/// Says which properties are in another mode than the global one, which were never judged, and what they cost.
fn properties(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let global = status.pointer("/steering/mode");
    let all = status.pointer("/steering/properties");
    for property in all.and_then(Value::as_array).into_iter().flatten() {
        let word = |name: &str| property.get(name).and_then(Value::as_str);
        let count = |name: &str| property.get(name).and_then(Value::as_u64).unwrap_or(0);
        let name = word("property").unwrap_or("-");
        if property.get("mode") != global {
            let why = word("why").map_or(String::new(), |why| format!(" ({why})"));
            let mode = word("mode").unwrap_or("-");
            lines.push(format!("            {mode} for {name}{why}"));
        }
        if let Some(why) = word("unjudged") {
            lines.push(format!("            never judged: {name} ({why})"));
        }
        let harm = [
            ("refused", "calls refused"),
            ("reset", "connections reset"),
            ("dropped", "messages dropped"),
            ("delayed", "events put off"),
        ];
        let harm: Vec<String> = harm
            .iter()
            .filter(|(key, _)| count(key) > 0)
            .map(|(key, what)| format!("{} {what}", count(key)))
            .collect();
        if !harm.is_empty() {
            lines.push(format!("            {} for {name}", harm.join(", ")));
        }
    }
    lines
}
