//! `scry explain` and `scry log` as they are run.
//!
//! After an intended change: `SCRY_REWRITE=1 cargo test -p scry-agent --test reading`, and read the difference.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use scry_agent::log::{Traces, Writer, writer};
use scry_protocol::record::{Entry, Timestamp, What};
use scry_protocol::{NodeId, RunId, ViolationId};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain")
}

fn scry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scry"))
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn said(arguments: &[&str]) -> String {
    let output = scry(arguments);
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {complaints}");
    String::from_utf8(output.stdout).expect("what is said is text")
}

#[track_caller]
fn check(form: &str) {
    let trace = folder().join("trace.json");
    let actual = said(&[
        "explain",
        trace.to_str().expect("a plain path"),
        "--as",
        form,
    ]);
    let file = folder().join(format!("{form}.txt"));
    if std::env::var_os("SCRY_REWRITE").is_some() {
        std::fs::write(&file, actual).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; SCRY_REWRITE=1 makes it", file.display()));
    assert!(
        actual == expected,
        "{} says\n\n{expected}\nbut it is now\n\n{actual}\nIf that is intended: SCRY_REWRITE=1",
        file.display()
    );
}

#[test]
fn a_trace_is_drawn_for_a_terminal() {
    check("text");
}

#[test]
fn a_trace_is_drawn_for_a_document() {
    check("mermaid");
}

#[test]
fn a_trace_becomes_a_log_with_vector_clocks() {
    check("shiviz");
}

/// A directory of a test, gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("scry-reading-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("there is room for a test");
        Self(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_violation_is_found_by_its_name_in_the_log_directory() {
    let scratch = Scratch::new("name");
    let trace = std::fs::read(folder().join("trace.json")).expect("there is a trace");
    let violation = ViolationId::new(u64::MAX);
    Traces::new(&scratch.0, 8)
        .write(violation, &trace)
        .expect("there is room");
    let name = violation.to_string();
    let shown = said(&["explain", &name, "--log", scratch.text()]);
    assert!(
        shown.starts_with("siblings and children differ\n"),
        "{shown}"
    );
    let again = said(&["explain", &name, "--log", scratch.text(), "--as", "json"]);
    let (one, other): (serde_json::Value, serde_json::Value) = (
        serde_json::from_str(&again).expect("it is JSON"),
        serde_json::from_slice(&trace).expect("it is JSON"),
    );
    assert_eq!(one, other);
}

#[test]
fn what_cannot_be_explained_is_said_with_the_right_code() {
    let scratch = Scratch::new("codes");
    let code = |arguments: &[&str]| scry(arguments).status.code();
    assert_eq!(code(&["explain", "nonsense"]), Some(64));
    assert_eq!(code(&["explain", "v1", "--log", scratch.text()]), Some(1));
    let broken = scratch.0.join("broken.json");
    std::fs::write(&broken, b"{}").expect("there is room");
    assert_eq!(
        code(&["explain", broken.to_str().expect("a plain path")]),
        Some(78)
    );
}

fn log(scratch: &Scratch) {
    let mut writer = Writer::open(writer::Options {
        directory: scratch.0.clone(),
        node: NodeId::new(1),
        file_bytes_max: 300,
        files_kept: 9,
    });
    let violation = What::Violation {
        property: "one root".to_owned(),
        how: None,
        critical: None,
        explanation: "n1 and n2 both lead".to_owned(),
        depth: 4,
        strategy: Some("consequence".to_owned()),
        mode: scry_protocol::filter::Mode::Audit.into(),
        neighbor: None,
        trace: Some("v7.json".to_owned()),
    };
    let violation = Entry::new(violation)
        .of_run(RunId::new(3))
        .of_violation(ViolationId::new(7));
    let stopped = Entry::new(What::Stopped {
        why: "asked".to_owned(),
    });
    writer.write(Timestamp::from_millis(1_794_817_845_067), violation);
    writer.write(Timestamp::from_millis(1_794_817_846_000), stopped);
}

#[test]
fn the_log_is_shown_over_all_its_files_without_colours_to_a_pipe() {
    let scratch = Scratch::new("log");
    log(&scratch);
    assert_eq!(
        said(&["log", scratch.text()]),
        "2026-11-16T08:30:45.067Z n1   violation        one root: n1 and n2 both lead (in 4 steps, audit)  [r3 v7]\n\
         2026-11-16T08:30:46.000Z n1   stopped          asked\n"
    );
}

#[test]
fn the_log_shows_what_is_asked_for() {
    let scratch = Scratch::new("asked");
    log(&scratch);
    let lines = |more: &[&str]| {
        let arguments: Vec<&str> = ["log", scratch.text()]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        said(&arguments).lines().count()
    };
    assert_eq!(lines(&["--kind", "violation"]), 1);
    assert_eq!(lines(&["--kind", "violation", "--kind", "stopped"]), 2);
    assert_eq!(lines(&["--node", "n2"]), 0);
    assert_eq!(lines(&["--property", "one root"]), 1);
    assert_eq!(lines(&["--since", "2026-11-16T08:30:46Z"]), 1);
    let json = said(&["log", scratch.text(), "--json", "--kind", "stopped"]);
    assert!(
        json.starts_with("{\"time\":\"2026-11-16T08:30:46.000Z\""),
        "{json}"
    );
    assert_eq!(
        scry(&["log", scratch.text(), "--kind", "nonsense"])
            .status
            .code(),
        Some(64)
    );
    assert_eq!(
        scry(&["log", scratch.text(), "--since", "soon"])
            .status
            .code(),
        Some(64)
    );
    assert_eq!(scry(&["log", "/nowhere/at/all"]).status.code(), Some(1));
}

#[test]
fn a_followed_log_shows_what_comes() {
    use std::io::{BufRead, BufReader};
    let scratch = Scratch::new("follow");
    log(&scratch);
    let mut child = Command::new(env!("CARGO_BIN_EXE_scry"))
        .args(["log", scratch.text(), "--follow", "--kind", "stopped"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut shown = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let mut next = || shown.next().expect("it goes on").expect("it is text");
    assert!(next().contains("08:30:46"));
    log(&scratch);
    assert!(
        next().contains("08:30:46"),
        "the second life's record, in a later file"
    );
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
