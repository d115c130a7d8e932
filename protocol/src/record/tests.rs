//! Records as lines, and the page that documents them.

use std::collections::BTreeSet;

use super::*;
use crate::digest::Digest;

fn record(what: What) -> Record {
    Entry::new(what)
        .of_run(RunId::new(3))
        .of_violation(ViolationId::new(u64::MAX))
        .at(Timestamp::from_millis(1_794_817_845_067), NodeId::new(1))
}

#[test]
fn a_record_is_one_flat_object_with_names_as_people_write_them() {
    let veto = record(What::FilterLapsed {
        property: "one root".to_owned(),
        why: "hits-used".to_owned(),
        hits: 2,
    });
    let line = serde_json::to_string(&veto).unwrap();
    assert_eq!(
        line,
        r#"{"time":"2026-11-16T08:30:45.067Z","node":"n1","run":"r3","violation":"v18446744073709551615","kind":"filter-lapsed","property":"one root","why":"hits-used","hits":2}"#
    );
    assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), veto);
}

#[test]
fn codes_stand_as_words_and_absent_fields_do_not_stand_at_all() {
    let mode = record(What::Mode {
        mode: Mode::Audit.into(),
        property: None,
        by: "scry mode".to_owned(),
    });
    let line = serde_json::to_string(&mode).unwrap();
    assert!(
        line.ends_with(r#""kind":"mode","mode":"audit","by":"scry mode"}"#),
        "{line}"
    );
    assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), mode);
    let missing = Absent {
        node: NodeId::new(2).into(),
        reason: Reason::OverBandwidthHere.into(),
    };
    assert_eq!(
        serde_json::to_string(&missing).unwrap(),
        r#"{"node":"n2","reason":"over-bandwidth-here"}"#
    );
    assert!(serde_json::from_str::<Absent>(r#"{"node":"n2","reason":"bored"}"#).is_err());
}

#[test]
fn a_record_of_a_later_version_with_more_fields_is_read() {
    let line =
        r#"{"time":"2026-11-16T08:30:45Z","node":"n1","kind":"stopped","why":"asked","mood":7}"#;
    let read: Record = serde_json::from_str(line).unwrap();
    assert_eq!(read.entry.what.kind(), "stopped");
}

#[test]
fn kinds_are_told_apart_by_their_names() {
    let names: BTreeSet<&str> = KINDS.iter().map(|info| info.kind).collect();
    assert_eq!(names.len(), KINDS.len());
}

#[test]
fn what_a_filter_does_is_said_in_words() {
    let filter = |matcher, action| Filter {
        id: FilterId::new(1),
        matcher,
        action,
        ttl_ms: 1,
        hits_max: 1,
        mode: Mode::Steer,
        violation: ViolationId::new(1),
        property: String::new(),
        reason: String::new(),
    };
    let join = |content| Matcher::Message {
        kind: "Join".to_owned(),
        source: NodeId::new(13),
        destination: NodeId::new(1),
        content,
    };
    assert_eq!(
        describe(&filter(join(None), Action::Drop)),
        "drop Join from n13 to n1"
    );
    assert_eq!(
        describe(&filter(join(Some(Digest::of(b"x"))), Action::Reset)),
        "drop, resetting its connection, Join from n13 to n1 with this content"
    );
    let timer = Matcher::Timer {
        kind: "Stabilize".to_owned(),
        content: None,
    };
    assert_eq!(
        describe(&filter(timer, Action::Postpone)),
        "postpone timer Stabilize"
    );
    let lost = Matcher::Disconnect {
        peer: NodeId::new(13),
    };
    assert_eq!(
        describe(&filter(lost, Action::Postpone)),
        "postpone the news of a lost connection with n13"
    );
}

/// The table of kinds and fields, as it stands in the documentation.
fn tables() -> String {
    let text = |lines: &[&str]| {
        let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        lines.join(" ")
    };
    let mut out = String::new();
    for info in KINDS {
        out.push_str(&format!("### `{}`\n\n{}\n\n", info.kind, text(info.about)));
        out.push_str("| field | values | meaning |\n|---|---|---|\n");
        for field in info.fields {
            out.push_str(&format!(
                "| `{}` | {} | {} |\n",
                field.name,
                field.values,
                text(field.about)
            ));
        }
        out.push('\n');
    }
    out
}

#[test]
fn the_documentation_lists_every_kind_with_its_fields() {
    const MARK: &str = "<!-- Below this line: made from protocol/src/record.rs by SCRY_REWRITE=1 cargo test -p scry-protocol record -->\n\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/steering-log.md");
    let page = std::fs::read_to_string(file).expect("there is a page about the log");
    let (prose, listed) = page.split_once(MARK).expect("the page has the mark");
    let expected = tables();
    let expected = expected.trim_end();
    if std::env::var_os("SCRY_REWRITE").is_some() {
        std::fs::write(file, format!("{prose}{MARK}{expected}\n"))
            .expect("the page can be written");
        return;
    }
    assert_eq!(
        listed.trim_end(),
        expected,
        "SCRY_REWRITE=1 brings {file} up to date"
    );
}
