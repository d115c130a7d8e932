//! The command line as its users meet it: exit codes, the JSON report, the text report, and what is said of mistakes.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
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
    refused("--set pruning=off", "exhaustive has no setting `pruning`");
    refused("--set pruning", "give a name and a value");
    refused(
        "--strategy consequence --set pruning=maybe",
        "`pruning` of consequence is `on` or `off`, not `maybe`",
    );
    refused("--seed 3", "exhaustive has no dice");
    refused("--bug last-promise --fixed", "--fixed");
    refused("--nodes 5 --scenario plain", "--proposers");
    refused("--colour", "--colour");
}

#[test]
fn people_read_a_verdict_counts_and_a_diagram() {
    let text = |arguments| String::from_utf8(check(arguments).stdout).expect("text");
    let fine = text("--scenario single");
    let fixed = |line: &str| line.split(" (").next().map(str::to_owned);
    let lines: Vec<String> = fine.lines().filter_map(fixed).take(5).collect();
    let expected = [
        "scenario single, all bugs fixed; exhaustive from a start state 0 steps in",
        "",
        "  states        5 124",
        "  transitions   24 592",
        "  depth         19",
    ];
    assert_eq!(lines, expected, "{fine}");
    let verdict = |text: &str| text.lines().last().map(str::to_owned);
    assert_eq!(
        verdict(&fine).as_deref(),
        Some("no violation in the whole state space")
    );
    let text = text("--scenario bug1 --bug last-promise --first");
    assert!(text.contains("\nVIOLATED at "), "{text}");
    // How many are found by then depends on how much is searched at a time.
    let last = verdict(&text).expect("a verdict");
    assert!(last.ends_with(" so far: a violation was found"), "{last}");
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

/// Waits until a process catches a signal, so that it is not ended by it.
fn catches(process: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 1 << (signal as i32 - 1) != 0)
}

/// Interrupts an endless search, and returns its exit code and the last line of its report.
fn interrupted(signal: Signal, arguments: &str) -> (Option<i32>, String) {
    let child = Command::new(env!("CARGO_BIN_EXE_paxos"))
        .arg("check")
        .args(arguments.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let end = Instant::now() + Duration::from_secs(60);
    while !catches(child.id(), signal) {
        assert!(Instant::now() < end, "it never listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    let process = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    kill(process, signal).expect("our own child");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    let last = text.lines().last().unwrap_or_default().to_owned();
    (output.status.code(), last)
}

#[test]
fn an_interrupted_search_reports_what_was_found() {
    // Spaces without an end, without any limit.
    let endless = "--scenario log --rounds 200 --indices 3 --seconds 0 --bytes 0";
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (code, last) = interrupted(signal, endless);
        assert_eq!(
            (code, &*last),
            (Some(130), "no violation so far: interrupted")
        );
    }
}

#[test]
fn a_search_has_limits_of_its_own_and_says_which_ended_it() {
    let help = String::from_utf8(check("--help").stdout).expect("text");
    assert!(help.contains("[default: 60]"), "{help}");
    assert!(help.contains("a quarter of the memory"), "{help}");
    let said = |limit: &str| {
        let endless = "--scenario log --rounds 200 --indices 3";
        let output = check(&format!("{endless} {limit}"));
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(
        said("--seconds 0.2"),
        "no violation so far: stopped after 0.2 s (--seconds 0 for no limit)"
    );
    assert_eq!(
        said("--bytes 24M"),
        "no violation so far: stopped at 25 165 824 bytes (--bytes 0 for no limit)"
    );
}
