//! Records as people read them: aligned, a sentence each, coloured on a terminal.

use scry_protocol::record::{Record, What};
use scry_protocol::text::escaped;

use super::sentence::sentence;

/// How lines look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Style {
    /// Letters alone.
    Plain,
    /// With the colours of a terminal.
    Coloured,
}

const RED: &str = "31";
const YELLOW: &str = "33";
const GREEN: &str = "32";
const DIM: &str = "2";

/// Writes a line of the log for people; one that cannot be read as it stands, since a later version or half a crash may
/// have written it.
pub fn line(line: &str, style: Style) -> String {
    match serde_json::from_str::<Record>(line) {
        Ok(record) => record_line(&record, style),
        Err(_) => paint(style, DIM, &escaped(line)),
    }
}

fn record_line(record: &Record, style: Style) -> String {
    let entry = &record.entry;
    let mut names = Vec::new();
    names.extend(entry.run.map(|run| run.to_string()));
    names.extend(entry.violation.map(|violation| violation.to_string()));
    names.extend(entry.filter.map(|filter| filter.to_string()));
    let kind = format!("{:<16}", entry.what.kind());
    let kind = match colour(&entry.what) {
        Some(colour) => paint(style, colour, &kind),
        None => kind,
    };
    let time = paint(style, DIM, &record.time.to_string());
    let names = match names.is_empty() {
        true => String::new(),
        false => paint(style, DIM, &format!("  [{}]", names.join(" "))),
    };
    let said = escaped(&sentence(&entry.what));
    format!("{time} {:<4} {kind} {said}{names}", record.node)
}

fn paint(style: Style, colour: &str, text: &str) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Coloured => format!("\u{1b}[{colour}m{text}\u{1b}[0m"),
    }
}

fn colour(what: &What) -> Option<&'static str> {
    match what {
        What::Violation { .. } | What::FailedOpen { .. } | What::CheckerRestart { .. } => Some(RED),
        What::ConfigReload { loaded: false, .. }
        | What::Replay {
            confirmed: true, ..
        } => Some(RED),
        What::FilterHit { .. } | What::Veto { .. } | What::FilterRejected { .. } => Some(YELLOW),
        What::Quota { .. }
        | What::Repeated { .. }
        | What::PeerDown { .. }
        | What::HostDown { .. }
        | What::Mode { .. }
        | What::Harm { .. }
        | What::Unjudged { .. } => Some(YELLOW),
        What::FilterInstalled { .. } | What::FilterProved { .. } => Some(GREEN),
        What::Snapshot { .. } | What::Run { .. } => Some(DIM),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_aligned_sentences_with_their_names() {
        let check = |json: &str, expected: &str| assert_eq!(line(json, Style::Plain), expected);
        check(
            r#"{"time":"2026-11-16T08:30:45.067Z","node":"n1","run":"r3","violation":"v7","filter":"f1","kind":"filter-installed","property":"one root","filters":"drop Join from n13 to n1","action":"drop","mode":"steer","ttl_ms":60000,"hits_max":9,"renewed":true,"told_service":false}"#,
            "2026-11-16T08:30:45.067Z n1   filter-installed drop Join from n13 to n1 for 60.0 s (renewed, steer), for one root  [r3 v7 f1]",
        );
        check(
            r#"{"time":"2026-11-16T08:30:45Z","node":"n1","kind":"filter-hit","property":"p","event":"\u001b[31mJoin","acted":false,"hits":1}"#,
            "2026-11-16T08:30:45.000Z n1   filter-hit       would have blocked \\u{1b}[31mJoin (1 time), for p",
        );
        check(
            r#"{"time":"2026-11-16T08:30:45Z","node":"n1","run":"r2","kind":"snapshot","number":3,"members":["n1","n2"],"missing":[{"node":"n3","reason":"silent"}],"rounds":1,"elapsed_ms":5,"age_ms":12,"on_demand":false,"fate":"searched"}"#,
            "2026-11-16T08:30:45.000Z n1   snapshot         of 2 nodes without n3 (silent), 12 ms old, 1 round in 5 ms, searched  [r2]",
        );
    }

    #[test]
    fn a_line_that_is_no_record_is_shown_as_it_stands() {
        assert_eq!(
            line("{\"kind\":\"of the future\"}", Style::Plain),
            "{\"kind\":\"of the future\"}"
        );
        assert_eq!(line("torn\u{7}", Style::Plain), "torn\\u{7}");
        assert_eq!(line("\u{202e}nrot", Style::Plain), "\\u{202e}nrot");
    }

    #[test]
    fn colours_surround_words_and_end() {
        let veto = r#"{"time":"2026-11-16T08:30:45Z","node":"n1","kind":"stopped","why":"asked"}"#;
        let shown = line(veto, Style::Coloured);
        assert_eq!(shown.matches("\u{1b}[").count() % 2, 0);
        assert!(shown.contains("asked"));
    }
}
