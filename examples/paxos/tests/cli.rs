//! The command line as its users meet it: exit codes, the JSON report, the text report, and what is said of mistakes.

use std::process::{Command, Output};

use serde_json::Value;

fn check(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paxos"))
        .arg("check")
        .args(arguments.split_whitespace())
        .output()
        .expect("the program can be started")
}

fn json(arguments: &str) -> (Option<i32>, Value) {
    let output = check(&format!("{arguments} --json"));
    let report = serde_json::from_slice(&output.stdout).expect("one JSON object");
    (output.status.code(), report)
}

/// Checks that a command line is refused, and that the answer names what is wrong.
#[track_caller]
fn refused(arguments: &str, said: &str) {
    let output = check(arguments);
    let answer = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(64), "{answer}");
    assert!(answer.contains(said), "{answer}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_search_that_finds_nothing_ends_with_0_and_says_how_large_the_space_is() {
    let (code, report) = json("--scenario single");
    assert_eq!(code, Some(0));
    assert_eq!(report["states"], 5_124);
    assert_eq!(report["transitions"], 24_592);
    assert_eq!(report["depth"], 19);
    assert_eq!(report["complete"], true);
    assert_eq!(report["strategy"], "exhaustive");
    assert_eq!(report["violations"], Value::Array(Vec::new()));
    for count in [
        "handler_runs",
        "local_states",
        "node_states",
        "peak_rss_bytes",
    ] {
        assert!(report[count].as_u64() > Some(0), "{count}");
    }
    for number in ["seconds", "collision_bound"] {
        assert!(report[number].as_f64() > Some(0.0), "{number}");
    }
}

#[test]
fn a_violation_ends_with_1_and_comes_with_its_path() {
    for options in [
        "",
        "--threads 2",
        "--strategy consequence",
        "--strategy depth-first --depth 16",
    ] {
        let (code, report) = json(&format!("--scenario bug1 --bug last-promise {options}"));
        assert_eq!(code, Some(1), "{options}");
        let violation = &report["violations"][0];
        let path = violation["path"].as_array().expect("a path");
        assert_eq!(violation["depth"], path.len());
        assert!(violation["property"].is_string());
        assert!(
            path.iter()
                .all(|step| step["node"].is_number() && step["kind"].is_string())
        );
        assert_eq!(report["unconfirmed"], 0);
    }
    assert_eq!(json("--scenario bug1 --fixed").0, Some(0));
}

#[test]
fn every_limit_ends_the_search_and_is_named() {
    for threads in ["--threads 1", "--threads 2"] {
        let stopped = |limit: &str| {
            let (code, report) = json(&format!("{threads} {limit}"));
            assert_eq!(code, Some(0));
            assert_eq!(report["complete"], false);
            report
        };
        let report = stopped("--states 1000");
        assert_eq!(report["states"], 1000);
        assert_eq!(report["stopped"], "the limit of states is reached");
        assert_eq!(stopped("--depth 3")["depth"], 3);
        // The space is endless, so only the clock ends it.
        let endless = "--scenario log --rounds 200 --indices 3 --seconds 0.2";
        assert_eq!(stopped(endless)["stopped"], "the time is up");
        let report = stopped("--bytes 24M");
        assert_eq!(report["stopped"], "the limit of bytes is reached");
        let peak = report["peak_rss_bytes"].as_u64().expect("a count");
        assert!(peak < (24 + 24) << 20, "{peak} bytes for a limit of 24 MiB");
    }
}

#[test]
fn mistakes_end_with_64_and_are_named() {
    refused("--strategy sideways", "there is no strategy `sideways`");
    refused("--scenario plan", "did you mean `plain`?");
    refused("--bug last-promis", "did you mean `last-promise`?");
    refused("--depth far", "far");
    refused("--seconds -1", "-1");
    refused("--resets 256", "256");
    refused("--threads 0", "at least one");
    refused(
        "--threads 2 --strategy depth-first",
        "depth-first runs on one thread, not on 2",
    );
    refused("--no-pruning", "exhaustive does not prune");
    refused("--bug last-promise --fixed", "--fixed");
    refused("--nodes 5 --scenario plain", "--proposers");
    refused("--colour", "--colour");
}

#[test]
fn people_read_a_verdict_counts_and_a_diagram() {
    let text = |arguments| String::from_utf8(check(arguments).stdout).expect("text");
    let fine = text("--scenario single");
    let fixed = |line: &str| line.split(" (").next().map(str::to_owned);
    let lines: Vec<String> = fine.lines().filter_map(fixed).take(6).collect();
    let expected = [
        "scenario single, all bugs fixed; exhaustive from a start state 0 steps in",
        "no violation in the whole state space",
        "",
        "  states        5 124",
        "  transitions   24 592",
        "  depth         19",
    ];
    assert_eq!(lines, expected, "{fine}");
    let text = text("--scenario bug1 --bug last-promise --first");
    assert!(text.contains("\nVIOLATED at "), "{text}");
    let arrows = text
        .lines()
        .filter(|line| line.contains('►') || line.contains('◄'));
    assert!(arrows.count() > 3, "{text}");
    for row in [
        "  states ",
        "  transitions ",
        "  handler runs ",
        "  missed states ",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(row)),
            "{row}: {text}"
        );
    }
}
