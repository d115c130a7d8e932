//! Predictions that the service is told of, and what protects it without them, with real processes: an
//! agent, a node, its checker.
//!
//! Node and checker are this executable started again, so the tests have a `main` of their own.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says where"
)]

mod pupil;
#[expect(dead_code, reason = "other tests need more of it")]
#[path = "../live/support.rs"]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use serde_json::{Value, json};

use crate::pupil::{Pupil, SMALL};
use crate::support::{Agent, Scratch, WAIT, certificates, configuration, until};

/// Says to this executable that it is to be a node.
const NODE: &str = "node";

/// Every case, with its name.
const CASES: &[(&str, fn())] = &[
    (
        "a_86_a_service_that_handles_a_prediction_gets_no_filter",
        handled,
    ),
    (
        "a_86_what_a_service_leaves_to_the_filter_is_filtered",
        left_to_the_filter,
    ),
    ("a_86_a_service_that_is_not_told_gets_the_filter", not_told),
    (
        "a_80_a_killed_checker_costs_the_service_nothing",
        killed_checker,
    ),
    (
        "a_112_the_immediate_check_needs_no_prediction",
        without_a_checker,
    ),
    (
        "a_property_that_refuses_everything_falls_back_to_audit",
        harm_is_bounded,
    ),
    (
        "the_mode_in_a_property_file_counts_and_names_must_exist",
        modes_by_name,
    ),
];

fn main() -> ExitCode {
    scry::enter::<Pupil>();
    if std::env::args().nth(1).is_some_and(|first| first == NODE) {
        return scry::main::<Pupil>();
    }
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut failed = 0;
    for (name, case) in CASES {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part)) {
            continue;
        }
        let ended = std::panic::catch_unwind(case);
        let word = if ended.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word}");
        failed += usize::from(ended.is_err());
    }
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// A node of this executable, with an agent beside it.
struct Pair {
    agent: Agent,
    node: Child,
    orders: ChildStdin,
    lines: Receiver<Value>,
    scratch: Scratch,
}

impl Pair {
    /// With predictions told to the service or not, which handles them or not, and nothing but filters to protect it.
    fn start(tell_service: bool, handles: bool) -> Self {
        let more = format!(
            "tell_service = {tell_service}\n[safety]\nisolate = \"off\"\n[checkpoint]\nperiod_ms = 100\n"
        );
        Self::with(handles, &more)
    }

    /// With more of a configuration, which begins inside the section of steering.
    fn with(handles: bool, more: &str) -> Self {
        let scratch = Scratch::new();
        certificates(&scratch.0);
        let more = format!(
            "[checker]\ntime_ms = 2000\n[steering]\nmode = \"steer\"\nkill_file = \"\"\n{more}"
        );
        let file = configuration(&scratch.0, 1, &[], &more);
        let agent = Agent::start(&scratch.0, 1, &file);
        let setup = json!({ "handles": handles }).to_string();
        let mut node = Command::new(std::env::current_exe().unwrap())
            .args([
                NODE,
                "--id",
                "1",
                "--report",
                "--control",
                "--setup",
                &setup,
            ])
            .arg("--agent")
            .arg(agent.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(node.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Ok(value) = serde_json::from_str(&line) else {
                    continue;
                };
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Self {
            agent,
            orders: node.stdin.take().unwrap(),
            node,
            lines,
            scratch,
        }
    }

    /// Waits for a line of the node, passing over others.
    fn wait(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + WAIT;
        loop {
            let line = self.lines.recv_timeout(end - Instant::now());
            let line = line.unwrap_or_else(|_| panic!("no {what}: {}", self.agent.everything()));
            if fits(&line) {
                return line;
            }
        }
    }

    /// Has the node count, and returns its answer.
    fn count(&mut self) -> Value {
        writeln!(self.orders, "{}", json!({ "call": "Count" })).unwrap();
        self.wait("answer", |line| {
            line.get("done").is_some() || line.get("error").is_some()
        })
    }

    fn counted(&mut self) -> u64 {
        writeln!(self.orders, "{}", json!({ "state": true })).unwrap();
        let line = self.wait("state", |line| line.get("done").is_some());
        line["done"]["count"]
            .as_u64()
            .or_else(|| line["done"]["state"]["count"].as_u64())
            .unwrap_or_else(|| panic!("{line}"))
    }

    /// The records of the steering log of one kind.
    fn records(&self, kind: &str) -> Vec<Value> {
        let file = self.scratch.0.join("log1").join("steering.jsonl");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        records
            .filter(|record: &Value| record["kind"] == kind)
            .collect()
    }

    fn record(&self, kind: &str) -> Value {
        until(kind, || self.records(kind).into_iter().next())
    }

    fn tally(&self, name: &str) -> u64 {
        let status = self.agent.status();
        let count = &status["steering"]["counts"][name];
        count.as_u64().unwrap_or_else(|| panic!("{name}: {status}"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

fn is_prediction(line: &Value) -> bool {
    line["kind"] == "prediction"
}

fn handled() {
    let mut pair = Pair::start(true, true);
    let line = pair.wait("prediction", is_prediction);
    assert!(
        line["event"].as_str().unwrap().contains("Handled"),
        "{line}"
    );
    assert_eq!(line["state"]["careful"], true, "{line}");
    let told = pair.record("prediction-told");
    assert_eq!(told["property"], SMALL);
    let answer = pair.record("prediction-answer");
    assert_eq!(answer["handled"], true, "{answer}");
    for key in ["run", "violation", "filter"] {
        assert_eq!(answer[key], told[key], "{key}");
    }
    // It keeps to what it decided, and nobody else interferes.
    for _ in 0..5 {
        let answer = pair.count();
        assert!(answer.get("done").is_some(), "{answer}");
    }
    assert_eq!(pair.counted(), 2);
    assert!(pair.tally("predictions_handled") >= 1);
    assert_eq!(pair.tally("filters_installed"), 0);
    assert!(pair.records("filter-installed").is_empty());
    assert_eq!(
        pair.agent.status()["steering"]["filters"],
        json!([]),
        "none is in force"
    );
}

fn left_to_the_filter() {
    let mut pair = Pair::start(true, false);
    let line = pair.wait("prediction", is_prediction);
    assert!(
        line["event"].as_str().unwrap().contains("Default"),
        "{line}"
    );
    let answer = pair.record("prediction-answer");
    assert_eq!(answer["handled"], false, "{answer}");
    let installed = pair.record("filter-installed");
    assert_eq!(installed["told_service"], true, "{installed}");
    assert_eq!(installed["filter"], answer["filter"]);
    assert_is_refused(&mut pair);
    assert_eq!(pair.tally("predictions_handled"), 0);
    assert!(pair.tally("predictions_told") >= 1);
}

fn not_told() {
    let mut pair = Pair::start(false, true);
    let installed = pair.record("filter-installed");
    assert_eq!(installed["told_service"], false, "{installed}");
    assert_is_refused(&mut pair);
    assert!(pair.records("prediction-told").is_empty());
    assert_eq!(pair.tally("predictions_told"), 0);
}

fn killed_checker() {
    let mut pair = Pair::start(true, true);
    pair.record("prediction-answer");
    let finished = pair.tally("runs_finished");
    // The checker is the only child that an agent has.
    let agent = pair.agent.child.id();
    let checker = until("the checker", || {
        let tasks = std::fs::read_dir(format!("/proc/{agent}/task")).unwrap();
        let mut listed = String::new();
        for task in tasks.flatten() {
            listed += &std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        }
        listed.split_whitespace().next().map(str::to_owned)
    });
    let killed = Command::new("kill")
        .args(["-9", &checker])
        .status()
        .unwrap();
    assert!(killed.success());
    let answer = pair.count();
    assert!(
        answer.get("done").is_some(),
        "the service goes on: {answer}"
    );
    pair.record("checker-restart");
    until("a run of the next checker", || {
        (pair.tally("runs_finished") > finished).then_some(())
    });
    assert!(pair.agent.status()["steering"]["host"].is_object());
}

fn without_a_checker() {
    let more = "[checkpoint]\ngather = false\nperiod_ms = 100\n[safety]\ndeadline_ms = 30000\n";
    let mut pair = Pair::with(false, more);
    // The rules come some time after the node has started: until then it counts unprotected, and begins anew.
    until("the rules", || {
        let answer = pair.count();
        if answer.get("error").is_some() {
            return Some(());
        }
        if pair.counted() > 2 {
            writeln!(pair.orders, "{}", json!({ "reset": { "notice": true } })).unwrap();
            pair.wait("reset", |line| line.get("done").is_some());
        }
        None
    });
    assert_eq!(pair.counted(), 2);
    let veto = pair.record("veto");
    assert_eq!(veto["property"], SMALL);
    assert_eq!(veto["acted"], true, "{veto}");
    assert!(pair.records("violation").is_empty(), "nobody predicted it");
    assert_eq!(pair.tally("runs"), 0);
    assert!(pair.tally("check_engagements") >= 1);
}

/// Nobody needs the property that stops this service: after a while it is answered again.
fn harm_is_bounded() {
    let mut pair = Pair::start(false, false);
    pair.record("filter-installed");
    assert_is_refused(&mut pair);
    until("an answer", || {
        pair.count().get("done").is_some().then_some(())
    });
    let harm = pair.record("harm");
    assert_eq!(harm["property"], SMALL);
    assert_eq!(harm["mode"], "audit");
    assert!(
        harm["why"].as_str().unwrap().contains("calls refused"),
        "{harm}"
    );
    let status = pair.agent.status();
    let shown = &status["steering"]["properties"];
    let shown = shown.as_array().unwrap().iter();
    let shown = shown.clone().find(|of| of["property"] == SMALL).unwrap();
    assert_eq!(shown["mode"], "audit", "{shown}");
    assert!(shown["refused"].as_u64().unwrap() >= 16, "{shown}");
    let text = pair.agent.command(&["status"]).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("too much harm"), "{text}");
    // An operator can have it back at once.
    let set = pair.agent.command(&["mode", "steer", "--property", SMALL]);
    let said = String::from_utf8_lossy(&set.stdout).into_owned();
    assert_eq!(said, format!("{SMALL}: steer\n"));
}

fn modes_by_name() {
    let folder = Scratch::new();
    let file = folder.0.join("properties.toml");
    let text = format!("[[property]]\nname = \"{SMALL}\"\nmode = \"audit\"\n");
    std::fs::write(&file, text).unwrap();
    let more = format!(
        "[safety]\nisolate = \"off\"\n[checkpoint]\nperiod_ms = 100\n[properties]\nfile = {file:?}\n"
    );
    let mut pair = Pair::with(false, &more);
    let installed = pair.record("filter-installed");
    assert_eq!(installed["mode"], "audit", "{installed}");
    let answer = pair.count();
    assert!(answer.get("done").is_some(), "it only watches: {answer}");
    let set = |mode: &str, name: &str| {
        let set = pair.agent.command(&["mode", mode, "--property", name]);
        let said = [set.stdout, set.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (set.status.success(), said)
    };
    let (fine, said) = set("steer", SMALL);
    assert!(fine, "{said}");
    assert_eq!(
        said,
        format!("{SMALL}: audit (the property file says so)\n")
    );
    let (fine, said) = set("off", "nope");
    assert!(!fine, "{said}");
    assert!(said.contains("there is no property \"nope\""), "{said}");
    assert!(said.contains(SMALL), "{said}");
    let (fine, said) = set("off", "no handler panics");
    assert!(fine, "{said}");
}

/// The node may count until the filter is there, but not too far.
fn assert_is_refused(pair: &mut Pair) {
    let answer = pair.count();
    assert!(
        answer["error"]
            .as_str()
            .is_some_and(|said| said.contains("refused")),
        "{answer}"
    );
    assert_eq!(pair.counted(), 0);
    pair.record("filter-hit");
    assert!(pair.tally("behaviour_changes") >= 1);
}
