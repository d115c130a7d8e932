//! The command line: what it prints for machines and for people, and how it exits.

use std::process::{Command, Output};

use serde_json::Value;

fn bugs(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bugs"))
        .args(arguments)
        .output()
        .expect("the command can be started")
}

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

#[track_caller]
fn same_keys(value: &Value, mut expected: Vec<&str>) {
    let mut actual = keys(value);
    actual.sort_unstable();
    expected.sort_unstable();
    assert_eq!(actual, expected);
}

#[test]
fn json_has_exactly_the_promised_fields() {
    let output = bugs(&["--json", "--bug", "timer"]);
    assert_eq!(output.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    same_keys(&json, vec!["bugs"]);
    let [row] = &json["bugs"].as_array().expect("a list")[..] else {
        panic!("one row was asked for: {json}");
    };
    same_keys(
        row,
        vec![
            "bug",
            "service",
            "property",
            "start_steps",
            "consequence",
            "start_bfs",
            "initial_bfs",
            "fixed",
        ],
    );
    let search = vec!["found", "depth", "states", "ms", "path"];
    same_keys(&row["consequence"], search.clone());
    same_keys(&row["start_bfs"], search);
    same_keys(&row["initial_bfs"], vec!["found", "depth", "states", "ms"]);
    same_keys(
        &row["fixed"],
        vec!["violations", "complete", "states", "bound"],
    );
    assert_eq!(row["bug"], "timer");
    assert_eq!(row["service"], "randtree");
    assert_eq!(row["start_steps"], 1);
    assert_eq!(row["fixed"]["violations"], 0);
    // One step more than from the start state: the script's.
    assert_eq!(row["initial_bfs"]["found"], true);
    assert_eq!(row["initial_bfs"]["depth"], 3);
    let path = row["consequence"]["path"].as_array().expect("a list");
    assert_eq!(path.len(), 2);
    assert_eq!(path[0]["kind"], "call");
    assert_eq!(path[1]["kind"], "receive");
}

#[test]
fn people_get_a_table_and_the_path() {
    let output = bugs(&["--bug", "timer"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("the recovery timer runs while there are peers"));
    assert!(text.contains("Consequence prediction finds every bug."));
    assert!(
        text.contains("   1  ●      │        n1: call Join\n"),
        "{text}"
    );
    let progress = String::from_utf8(output.stderr).expect("text");
    assert!(progress.contains("1 of 1: randtree timer"), "{progress}");
}

#[test]
fn a_bad_option_is_answered_with_64_and_a_reason() {
    for (arguments, reason) in [
        (&["--bug", "volcano"][..], "there is no such bug here"),
        (&["--yaml"], "unexpected argument '--yaml'"),
        (&["timer"], "unexpected argument 'timer'"),
        (&["--bug", "rejoin"], "it is hunted with --liveness"),
        (&["--liveness", "--bug", "timer"], "leave --liveness out"),
    ] {
        let output = bugs(arguments);
        assert_eq!(output.status.code(), Some(64));
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn the_liveness_table_has_the_promised_fields() {
    let output = bugs(&["--liveness", "--json", "--bug", "stale-syn"]);
    assert_eq!(output.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let [row] = &json["bugs"].as_array().expect("a list")[..] else {
        panic!("one row was asked for: {json}");
    };
    same_keys(
        row,
        vec![
            "bug",
            "service",
            "property",
            "verdict",
            "critical_step",
            "critical_event",
            "live_alternative",
            "states",
            "ms",
            "walks",
            "walk_ms",
            "fixed",
        ],
    );
    same_keys(&row["fixed"], vec!["dead"]);
    assert_eq!(row["verdict"], "dead");
    assert_eq!(row["critical_step"], 5);
    assert_eq!(row["critical_event"], "n1: Ack(6001) from n2");
    assert_eq!(row["live_alternative"], true);
    assert_eq!(row["fixed"]["dead"], 0);
}

#[test]
fn people_get_the_dead_end_and_what_would_have_come_true() {
    let output = bugs(&["--liveness", "--bug", "stale-syn"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    for part in [
        "   5  │◄─────┤        200 ms  n1: Ack(6001) from n2\n",
        "it comes true if this happens instead of the last steps:",
        "it is proved that the property never holds again",
        "no state is dead within the bounds",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn help_names_every_bug() {
    let output = bugs(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    let safety = bugs::catalogue::ALL.iter().map(|case| case.bug);
    for bug in safety.chain(bugs::liveness::ALL.iter().map(|case| case.bug)) {
        assert!(text.contains(bug), "{text}");
    }
}
