//! Records as people read them: aligned, a sentence each, coloured on a terminal.

use scry_protocol::record::{Record, What};
use scry_protocol::text::escaped;

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

/// What happened, in words.
pub fn sentence(what: &What) -> String {
    match what {
        What::Started {
            version,
            mode,
            configuration,
        } => {
            format!("version {version}, mode {mode}, configuration {configuration}")
        }
        What::Stopped { why } | What::HostDown { why } => why.clone(),
        What::HostUp { service, version } => format!("{service} {version}"),
        What::Snapshot { .. } => snapshot(what),
        What::Run { .. } => run(what),
        What::Violation {
            property,
            explanation,
            depth,
            mode,
            neighbor,
            ..
        } => {
            let when = match depth {
                0 => "has happened".to_owned(),
                1 => "in 1 step".to_owned(),
                depth => format!("in {depth} steps"),
            };
            let whose = neighbor.map_or(String::new(), |node| format!(", {node} could prevent it"));
            format!("{property}: {explanation} ({when}, {mode}{whose})")
        }
        What::Replay {
            property,
            confirmed,
            remedies,
            shared_by,
        } => {
            let by = shared_by.map_or(String::new(), |node| format!(" (shared by {node})"));
            match confirmed {
                true => format!(
                    "{property}: the path is confirmed, it still breaks the property, {} found{by}",
                    counted(u64::from(*remedies), "remedy", "remedies")
                ),
                false => format!("{property}: the path is no longer confirmed{by}"),
            }
        }
        What::FilterProposed {
            property, filters, ..
        } => format!("{filters}, for {property}"),
        What::FilterProved { property, by } => format!("safe by {by}, for {property}"),
        What::FilterRejected { property, why } => format!("{why}, for {property}"),
        What::PredictionTold { property, filters } => {
            format!("the service is asked, or else: {filters}, for {property}")
        }
        What::PredictionAnswer { property, handled } => match handled {
            true => format!("the service handles it itself, for {property}"),
            false => format!("the service leaves it to the filter, for {property}"),
        },
        What::FilterInstalled {
            property,
            filters,
            mode,
            ttl_ms,
            renewed,
            told_service,
            ..
        } => {
            let renewed = if *renewed { "renewed, " } else { "" };
            let told = if *told_service {
                ", the service left it to this"
            } else {
                ""
            };
            format!(
                "{filters} for {} ({renewed}{mode}{told}), for {property}",
                duration(*ttl_ms)
            )
        }
        What::FilterHit {
            property,
            event,
            acted,
            hits,
        } => {
            let did = if *acted {
                "blocked"
            } else {
                "would have blocked"
            };
            format!(
                "{did} {event} ({}), for {property}",
                counted(*hits, "time", "times")
            )
        }
        What::FilterLapsed {
            property,
            why,
            hits,
        } => {
            format!(
                "{why} after {}, for {property}",
                counted(*hits, "hit", "hits")
            )
        }
        What::Veto {
            property,
            event,
            explanation,
            acted,
            elapsed_us,
        } => {
            let did = if *acted {
                "refused"
            } else {
                "would have refused"
            };
            format!("{did} {event}: {explanation} ({elapsed_us} µs), for {property}")
        }
        What::Suspicion {
            property,
            event,
            outcome,
            held_us,
        } => format!("held {event} for {held_us} µs: {outcome}, for {property}"),
        What::PathShared { property, to } => format!("to {to}, for {property}"),
        What::PathReceived {
            property,
            from,
            accepted,
            why,
        } => {
            let fate = match (accepted, why) {
                (true, _) => "will be replayed here".to_owned(),
                (false, Some(why)) => format!("not considered: {why}"),
                (false, None) => "not considered".to_owned(),
            };
            format!("from {from}, {fate}, for {property}")
        }
        What::PathAnswer {
            outcome,
            by,
            answered,
        } => match (by, answered) {
            (Some(by), _) => format!("{by} says {outcome}"),
            (None, Some(to)) => format!("told {to}: {outcome}"),
            (None, None) => outcome.to_string(),
        },
        What::Paths { kept, dropped, why } => format!("{dropped} given up, {kept} kept: {why}"),
        What::PeerUp { peer, address } => format!("{peer} at {address}"),
        What::PeerDown { peer, why } => format!("{peer}: {why}"),
        What::Quota { limit, count, peer } => {
            let whom = peer.map_or(String::new(), |peer| format!(" with {peer}"));
            format!("{limit}{whom} ({})", counted(*count, "time", "times"))
        }
        What::Repeated {
            of,
            about,
            count,
            elapsed_ms,
        } => {
            let about = about
                .as_ref()
                .map_or(String::new(), |about| format!(" about {about}"));
            let time = duration(*elapsed_ms);
            format!("{count} more {of}{about} were not written, in {time}")
        }
        What::Certificate {
            event,
            until,
            detail,
        } => {
            let until = until
                .as_ref()
                .map_or(String::new(), |until| format!(" until {until}"));
            format!("{event}{until}: {detail}")
        }
        What::CheckerRestart {
            why,
            count,
            wait_ms,
        } => {
            let wait = wait_ms.map_or(String::new(), |wait_ms| {
                format!(", after {}", duration(wait_ms))
            });
            format!("{why} ({}{wait})", counted(*count, "time", "times"))
        }
        What::ConfigReload {
            loaded: true,
            configuration,
            ..
        } => format!("now {configuration}"),
        What::ConfigReload {
            configuration, why, ..
        } => {
            format!(
                "refused, still {configuration}: {}",
                why.as_deref().unwrap_or("it cannot be used")
            )
        }
        What::Mode { mode, property, by } => {
            let whose = property
                .as_ref()
                .map_or(String::new(), |property| format!(" for {property}"));
            format!("{mode}{whose}, by {by}")
        }
        What::Harm {
            property,
            mode,
            why,
            pause_ms,
        } => {
            let pause = match pause_ms {
                Some(pause_ms) => format!(" for {}", duration(*pause_ms)),
                None => String::new(),
            };
            format!("now {mode}{pause}: {why}, for {property}")
        }
        What::Unjudged { property, why } => format!("{property}: {why}"),
        What::FailedOpen {
            failure,
            count,
            detail,
        } => {
            format!("{failure} ({}): {detail}", counted(*count, "time", "times"))
        }
    }
}

fn snapshot(what: &What) -> String {
    let What::Snapshot {
        members,
        missing,
        rounds,
        elapsed_ms,
        age_ms,
        fate,
        why,
        ..
    } = what
    else {
        return String::new();
    };
    let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    if members.is_empty() {
        return format!("{fate}{why}");
    }
    let absent: Vec<String> = missing
        .iter()
        .map(|absent| format!("{} ({})", absent.node, absent.reason))
        .collect();
    let absent = match absent.is_empty() {
        true => String::new(),
        false => format!(" without {}", absent.join(", ")),
    };
    format!(
        "of {}{absent}, {} old, {} in {}, {fate}{why}",
        counted(members.len() as u64, "node", "nodes"),
        duration(*age_ms),
        counted(u64::from(*rounds), "round", "rounds"),
        duration(*elapsed_ms),
    )
}

fn run(what: &What) -> String {
    let What::Run {
        strategy,
        ended,
        states,
        depth,
        elapsed_ms,
        snapshot_age_ms,
        replayed,
        violations,
        installed,
        withdrawn,
        detail,
        ..
    } = what
    else {
        return String::new();
    };
    let detail = detail
        .as_ref()
        .map_or(String::new(), |detail| format!(": {detail}"));
    let count = |number: &u32, one, many| counted(u64::from(*number), one, many);
    format!(
        "{ended} after {} ({}snapshot {} old): {}, depth {depth}, {}, {}, {} installed, {} withdrawn{detail}",
        duration(*elapsed_ms),
        strategy
            .as_ref()
            .map_or(String::new(), |strategy| format!("{strategy}, ")),
        duration(*snapshot_age_ms),
        counted(*states, "state", "states"),
        count(replayed, "replay", "replays"),
        count(violations, "violation", "violations"),
        count(installed, "filter", "filters"),
        withdrawn,
    )
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..120_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min", millis / 60_000),
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
