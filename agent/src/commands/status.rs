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
    let mut lines = vec![format!("node        {}", word(status, "/node"))];
    lines.extend(mode(status));
    lines.extend(properties(status));
    lines.push(service(status));
    lines.push(checker(status));
    lines.extend(peers(status));
    lines.extend(snapshot(status));
    lines.extend(certificate(status));
    lines.push(format!("log head    {}", word(status, "/log_head")));
    lines.extend(configuration(status));
    lines.join("\n") + "\n"
}

/// Returns the value at a place as people read it, a dash if there is none.
fn word(status: &Value, pointer: &str) -> String {
    match status.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// Lists what is at a place, nothing if that is no list.
fn list<'s>(status: &'s Value, pointer: &str) -> impl Iterator<Item = &'s Value> {
    let all = status.pointer(pointer).and_then(Value::as_array);
    all.into_iter().flatten()
}

/// Says how much may be done, why, and what keeps the agent from doing it.
fn mode(status: &Value) -> Vec<String> {
    let mode = word(status, "/steering/mode");
    let mut lines = vec![format!("mode        {mode} ({})", why(status))];
    if let Some(by) = status
        .pointer("/steering/host/held_off_by")
        .and_then(Value::as_str)
    {
        lines.push(format!("            the service acts on nothing: {by}"));
    }
    for what in list(status, "/waits_for").filter_map(Value::as_str) {
        lines.push(format!("not ready   {what}"));
    }
    lines
}

fn service(status: &Value) -> String {
    match status.pointer("/steering/host") {
        Some(Value::Object(_)) => format!(
            "service     {} {} (process {})",
            word(status, "/steering/host/service"),
            word(status, "/steering/host/version"),
            word(status, "/host_process")
        ),
        _ => "service     none is attached".to_owned(),
    }
}

fn checker(status: &Value) -> String {
    let standing = match status.pointer("/steering/checker_ready") {
        Some(Value::Bool(true)) => "up",
        _ => "down",
    };
    let restarts = word(status, "/steering/counts/checker_restarts");
    format!("checker     {standing}, {restarts} restarts")
}

fn peers(status: &Value) -> Vec<String> {
    let line = |peer: &Value| {
        let node = peer.get("node").and_then(Value::as_str).unwrap_or("-");
        let connected = peer.get("connected").and_then(Value::as_bool) == Some(true);
        let standing = match peer.get("unreachable").and_then(Value::as_str) {
            _ if connected => "connected".to_owned(),
            Some(why) => format!("cannot be reached: {why}"),
            None => "not dialled: there was nothing to say".to_owned(),
        };
        format!("peer        {node} {standing}")
    };
    list(status, "/peers").map(line).collect()
}

/// Says what the last snapshot was, and who was missing.
fn snapshot(status: &Value) -> Vec<String> {
    let Some(Value::Object(snapshot)) = status.get("snapshot") else {
        return vec!["snapshot    none yet".to_owned()];
    };
    let mut lines = vec![format!(
        "snapshot    {} nodes, {} bytes, {} ms old when complete",
        list(status, "/snapshot/members").count(),
        word(status, "/snapshot/bytes"),
        word(status, "/snapshot/age_ms")
    )];
    let missing = snapshot.get("missing").and_then(Value::as_object);
    for (node, why) in missing.into_iter().flatten() {
        let why = why.as_str().unwrap_or("-");
        lines.push(format!("            without {node}: {why}"));
    }
    lines
}

fn certificate(status: &Value) -> Option<String> {
    status.get("certificate").filter(|it| it.is_object())?;
    Some(format!(
        "certificate until {}, {} days left",
        word(status, "/certificate/until"),
        word(status, "/certificate/days_left")
    ))
}

/// Says which configuration is loaded, and what of it waits for a restart.
fn configuration(status: &Value) -> Vec<String> {
    let mut lines = vec![format!(
        "loaded      {}",
        word(status, "/configuration/hash")
    )];
    let sections: Vec<&Value> = list(status, "/configuration/needs_restart").collect();
    if !sections.is_empty() {
        let names: Vec<&str> = sections.into_iter().filter_map(Value::as_str).collect();
        lines.push(format!(
            "            a restart is needed for {}",
            names.join(", ")
        ));
    }
    lines
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
    for property in list(status, "/steering/properties") {
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
