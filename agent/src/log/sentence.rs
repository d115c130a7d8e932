//! What a record says, as a sentence for people.

use scry_protocol::record::What;

/// What happened, in words. A new kind of record is given its subject here, and its words there.
pub(super) fn sentence(what: &What) -> String {
    match what {
        What::Started { .. }
        | What::Stopped { .. }
        | What::HostDown { .. }
        | What::HostUp { .. }
        | What::Certificate { .. }
        | What::CheckerRestart { .. }
        | What::ConfigReload { .. }
        | What::FailedOpen { .. } => agent_and_service(what),
        What::Mode { .. } | What::Harm { .. } => modes(what),
        What::Snapshot { .. }
        | What::Run { .. }
        | What::Unjudged { .. }
        | What::Violation { .. }
        | What::Replay { .. } => search(what),
        What::FilterProposed { .. }
        | What::FilterProved { .. }
        | What::FilterRejected { .. }
        | What::FilterInstalled { .. }
        | What::FilterHit { .. }
        | What::FilterLapsed { .. } => filter(what),
        What::PredictionTold { .. } | What::PredictionAnswer { .. } => prediction(what),
        What::Veto { .. } | What::Suspicion { .. } => safety_check(what),
        What::PathShared { .. }
        | What::PathReceived { .. }
        | What::PathAnswer { .. }
        | What::Paths { .. } => paths(what),
        What::PeerUp { .. }
        | What::PeerDown { .. }
        | What::Quota { .. }
        | What::Repeated { .. } => peers_and_limits(what),
    }
}

/// Says what became of the agent, its configuration, its checker and the service beside it.
fn agent_and_service(what: &What) -> String {
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
        What::FailedOpen {
            failure,
            count,
            detail,
        } => {
            format!("{failure} ({}): {detail}", counted(*count, "time", "times"))
        }
        _ => String::new(),
    }
}

/// Says who or what changed how much may be done.
fn modes(what: &What) -> String {
    match what {
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
        _ => String::new(),
    }
}

/// Says what a search had to go on and what it found.
fn search(what: &What) -> String {
    match what {
        What::Snapshot { .. } => snapshot(what),
        What::Run { .. } => run(what),
        What::Unjudged { property, why } => format!("{property}: {why}"),
        What::Violation {
            property,
            explanation,
            depth,
            mode,
            neighbor,
            how,
            ..
        } => {
            let when = match depth {
                0 => "has happened".to_owned(),
                1 => "in 1 step".to_owned(),
                depth => format!("in {depth} steps"),
            };
            let whose = neighbor.map_or(String::new(), |node| format!(", {node} could prevent it"));
            let how = how.as_ref().map_or(String::new(), |how| format!("{how} "));
            format!("{property}: {explanation} ({how}{when}, {mode}{whose})")
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
        _ => String::new(),
    }
}

/// Says what became of a filter, from its proposal to its end.
fn filter(what: &What) -> String {
    match what {
        What::FilterProposed {
            property, filters, ..
        } => format!("{filters}, for {property}"),
        What::FilterProved { property, by } => format!("safe by {by}, for {property}"),
        What::FilterRejected { property, why } => format!("{why}, for {property}"),
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
        _ => String::new(),
    }
}

/// Says what the service was asked about a violation, and what it answered.
fn prediction(what: &What) -> String {
    match what {
        What::PredictionTold { property, filters } => {
            format!("the service is asked, or else: {filters}, for {property}")
        }
        What::PredictionAnswer { property, handled } => match handled {
            true => format!("the service handles it itself, for {property}"),
            false => format!("the service leaves it to the filter, for {property}"),
        },
        _ => String::new(),
    }
}

/// Says what the immediate safety check made of an event.
fn safety_check(what: &What) -> String {
    match what {
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
        _ => String::new(),
    }
}

/// Says what became of paths that are kept or shared.
fn paths(what: &What) -> String {
    match what {
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
        _ => String::new(),
    }
}

/// Says how things stand with other agents, and what was too much.
fn peers_and_limits(what: &What) -> String {
    match what {
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
        _ => String::new(),
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
    use std::collections::BTreeSet;

    use scry_protocol::record::KINDS;

    use super::*;

    /// A record of each kind, without what every record has, and what it says.
    const SAID: [(&str, &str); 37] = [
        (
            r#"{"kind":"started","version":"1.2","mode":"steer","configuration":"c0ffee"}"#,
            "version 1.2, mode steer, configuration c0ffee",
        ),
        (r#"{"kind":"stopped","why":"asked"}"#, "asked"),
        (
            r#"{"kind":"host-up","service":"token","version":"3"}"#,
            "token 3",
        ),
        (r#"{"kind":"host-down","why":"it ended"}"#, "it ended"),
        (
            r#"{"kind":"snapshot","members":["n1"],"missing":[],"rounds":2,"elapsed_ms":1500,"age_ms":7,"on_demand":false,"fate":"waits","why":"busy"}"#,
            "of 1 node, 7 ms old, 2 rounds in 1.5 s, waits: busy",
        ),
        (
            r#"{"kind":"run","strategy":"consequence","ended":"budget","states":5,"depth":3,"elapsed_ms":9,"snapshot_age_ms":40,"missing":0,"replayed":1,"violations":2,"installed":1,"withdrawn":0}"#,
            "budget after 9 ms (consequence, snapshot 40 ms old): 5 states, depth 3, 1 replay, 2 violations, 1 filter installed, 0 withdrawn",
        ),
        (
            r#"{"kind":"violation","property":"p","explanation":"two lead","depth":2,"mode":"audit","neighbor":"n2"}"#,
            "p: two lead (in 2 steps, audit, n2 could prevent it)",
        ),
        (
            r#"{"kind":"violation","property":"p","how":"dead","critical":"Join from n2 at n1","explanation":"never again","depth":2,"mode":"audit"}"#,
            "p: never again (dead in 2 steps, audit)",
        ),
        (
            r#"{"kind":"replay","property":"p","confirmed":true,"remedies":1,"shared_by":"n3"}"#,
            "p: the path is confirmed, it still breaks the property, 1 remedy found (shared by n3)",
        ),
        (
            r#"{"kind":"replay","property":"p","confirmed":false,"remedies":0}"#,
            "p: the path is no longer confirmed",
        ),
        (
            r#"{"kind":"filter-proposed","property":"p","filters":"drop Join","action":"drop"}"#,
            "drop Join, for p",
        ),
        (
            r#"{"kind":"filter-proved","property":"p","by":"replay"}"#,
            "safe by replay, for p",
        ),
        (
            r#"{"kind":"filter-rejected","property":"p","why":"it harms"}"#,
            "it harms, for p",
        ),
        (
            r#"{"kind":"prediction-told","property":"p","filters":"drop Join"}"#,
            "the service is asked, or else: drop Join, for p",
        ),
        (
            r#"{"kind":"prediction-answer","property":"p","handled":true}"#,
            "the service handles it itself, for p",
        ),
        (
            r#"{"kind":"filter-installed","property":"p","filters":"drop Join","action":"drop","mode":"audit","ttl_ms":120000,"hits_max":9,"renewed":false,"told_service":true}"#,
            "drop Join for 2 min (audit, the service left it to this), for p",
        ),
        (
            r#"{"kind":"filter-hit","property":"p","event":"Join","acted":true,"hits":2}"#,
            "blocked Join (2 times), for p",
        ),
        (
            r#"{"kind":"filter-lapsed","property":"p","why":"lapsed","hits":1}"#,
            "lapsed after 1 hit, for p",
        ),
        (
            r#"{"kind":"veto","property":"p","event":"Join","explanation":"two lead","acted":false,"elapsed_us":8}"#,
            "would have refused Join: two lead (8 µs), for p",
        ),
        (
            r#"{"kind":"suspicion","property":"p","event":"Join","outcome":"cleared","held_us":8}"#,
            "held Join for 8 µs: cleared, for p",
        ),
        (
            r#"{"kind":"path-shared","property":"p","to":"n2"}"#,
            "to n2, for p",
        ),
        (
            r#"{"kind":"path-received","property":"p","from":"n2","accepted":true}"#,
            "from n2, will be replayed here, for p",
        ),
        (
            r#"{"kind":"path-received","property":"p","from":"n2","accepted":false,"why":"too many"}"#,
            "from n2, not considered: too many, for p",
        ),
        (
            r#"{"kind":"path-answer","outcome":"prevented","by":"n2"}"#,
            "n2 says prevented",
        ),
        (
            r#"{"kind":"path-answer","outcome":"prevented","answered":"n2"}"#,
            "told n2: prevented",
        ),
        (
            r#"{"kind":"paths","kept":3,"dropped":2,"why":"too many"}"#,
            "2 given up, 3 kept: too many",
        ),
        (
            r#"{"kind":"peer-up","peer":"n2","address":"[::1]:7700"}"#,
            "n2 at [::1]:7700",
        ),
        (
            r#"{"kind":"peer-down","peer":"n2","why":"silent"}"#,
            "n2: silent",
        ),
        (
            r#"{"kind":"quota","limit":"frames","count":4,"peer":"n2"}"#,
            "frames with n2 (4 times)",
        ),
        (
            r#"{"kind":"repeated","of":"quota","about":"frames","count":4,"elapsed_ms":60000}"#,
            "4 more quota about frames were not written, in 60.0 s",
        ),
        (
            r#"{"kind":"certificate","event":"loaded","until":"2027-01-01T00:00:00Z","detail":"new files"}"#,
            "loaded until 2027-01-01T00:00:00Z: new files",
        ),
        (
            r#"{"kind":"checker-restart","why":"killed","count":1,"wait_ms":250}"#,
            "killed (1 time, after 250 ms)",
        ),
        (
            r#"{"kind":"config-reload","loaded":false,"configuration":"c0ffee"}"#,
            "refused, still c0ffee: it cannot be used",
        ),
        (
            r#"{"kind":"mode","mode":"off","property":"p","by":"admin"}"#,
            "off for p, by admin",
        ),
        (
            r#"{"kind":"harm","property":"p","mode":"audit","why":"too much","pause_ms":5000}"#,
            "now audit for 5.0 s: too much, for p",
        ),
        (
            r#"{"kind":"never-judged","property":"p","why":"no state"}"#,
            "p: no state",
        ),
        (
            r#"{"kind":"failed-open","failure":"hook","count":2,"detail":"late"}"#,
            "hook (2 times): late",
        ),
    ];

    #[test]
    fn every_kind_of_record_has_its_words() {
        let mut kinds = BTreeSet::new();
        for (record, said) in SAID {
            let what: What = serde_json::from_str(record).expect(record);
            assert_eq!(sentence(&what), said, "{record}");
            kinds.insert(what.kind());
        }
        assert_eq!(kinds, KINDS.iter().map(|info| info.kind).collect());
    }
}
