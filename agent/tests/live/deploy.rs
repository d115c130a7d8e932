//! What operators are given beside the binary, held against the binary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{
    Agent, SCRY, Scratch, TinyHost, certificates, configuration, free_port, until,
};

const QUIET: &str = "[checkpoint]\nperiod_ms = 0\n[checker]\ncommand = [\"/bin/false\"]\n";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Returns the names of everything an agent measures, as Prometheus stores them.
fn measured() -> BTreeSet<String> {
    let scratch = Scratch::new();
    certificates(&scratch.0);
    let ports = [(1, free_port()), (2, free_port())];
    let file = configuration(&scratch.0, 1, &ports, QUIET);
    let agent = Agent::start(&scratch.0, 1, &file);
    let _host = TinyHost::attach(&agent, &[]);
    // Some are of a property, and there is one here only if somebody speaks of it.
    let (code, said) = agent.ask("POST", "/mode", r#"{"mode":"audit","property":"x"}"#);
    assert_eq!(code, 200, "{said}");
    // Some are there only once there is a snapshot, and some once something failed: this agent has no checker.
    let metrics = until("a snapshot, and a failure", || {
        agent.ask("POST", "/snapshot", "");
        let (_, metrics) = agent.ask("GET", "/metrics", "");
        let is_complete = ["scry_snapshot_bytes", "checker-missing"]
            .iter()
            .all(|part| metrics.contains(part));
        is_complete.then_some(metrics)
    });
    let kinds = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    kinds
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            _ => name.to_owned(),
        })
        .collect()
}

/// Returns the words of a text that look like our metrics.
fn mentioned(text: &str) -> BTreeSet<String> {
    text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| word.starts_with("scry_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_metric_that_is_shown_or_told_of_exists() {
    let known = measured();
    let board = std::fs::read_to_string(project().join("deploy/grafana/scry.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let mut expressions = String::new();
    let mut queries = 0;
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions += target["expr"].as_str().unwrap();
            expressions.push('\n');
            queries += 1;
        }
    }
    assert!(queries > 30, "the board shows something");
    let shown = mentioned(&expressions);
    let unknown: Vec<_> = shown.difference(&known).collect();
    assert!(unknown.is_empty(), "on the board: {unknown:?}");
    // The six numbers of A-102 are on it.
    for number in [
        "predictions",
        "unhelpful",
        "behaviour_changes",
        "check_engagements",
        "uncaught_violations",
        "actions",
    ] {
        assert!(shown.contains(&format!("scry_{number}_total")), "{number}");
    }
    for page in ["failures", "operating", "configuration", "security"] {
        let path = project().join(format!("docs/{page}.md"));
        let told = mentioned(&std::fs::read_to_string(path).unwrap());
        let unknown: Vec<_> = told.difference(&known).collect();
        assert!(unknown.is_empty(), "in docs/{page}.md: {unknown:?}");
    }
}

#[test]
fn the_board_is_laid_out_without_gaps_or_doubles() {
    let board = std::fs::read_to_string(project().join("deploy/grafana/scry.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in board["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{panel}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "two panels at {x}, {y}");
            }
        }
    }
}

fn scry(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(SCRY).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), said)
}

#[test]
fn shells_and_the_manual_know_every_command() {
    let (_, help) = scry(&["--help"]);
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let commands: Vec<&str> = list
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.contains(&"agent") && commands.contains(&"man"));
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = scry(&["completions", shell]);
        assert_eq!(code, Some(0));
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let (code, page) = scry(&["man"]);
    assert_eq!(code, Some(0));
    assert!(page.contains(".TH scry 1"), "{page}");
    let scratch = Scratch::new();
    let folder = scratch.0.join("man1");
    let (code, _) = scry(&["man", folder.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(folder.join("scry.1").exists());
    for command in commands {
        let page = folder.join(format!("scry-{command}.1"));
        let page = std::fs::read_to_string(&page)
            .unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(page.contains(".SH NAME"), "{command}");
    }
}

#[test]
fn a_supervisor_can_ask_and_reload_from_inside() {
    let scratch = Scratch::new();
    // All nodes may stand in one list: this one passes itself over.
    let file = configuration(&scratch.0, 1, &[], QUIET);
    let good = std::fs::read_to_string(&file)
        .unwrap()
        .replace("known = []", "known = [{ id = 1, address = \"a:1\" }]");
    assert!(good.contains("id = 1, address"));
    std::fs::write(&file, &good).unwrap();
    let mut agent = Agent::start(&scratch.0, 1, &file);
    assert_eq!(agent.status()["peers"], serde_json::json!([]));
    for question in ["livez", "readyz"] {
        let asked = agent.command(&["probe", question]);
        assert_eq!(asked.status.code(), Some(0), "{asked:?}");
    }
    let before = agent.status()["configuration"]["hash"].clone();
    std::fs::write(&file, format!("{good}time_ms = 700\n")).unwrap();
    let reloaded = agent.command(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    let hash = agent.status()["configuration"]["hash"].clone();
    assert_ne!(hash, before);
    assert_eq!(
        String::from_utf8_lossy(&reloaded.stdout).trim(),
        hash.as_str().unwrap()
    );
    std::fs::write(&file, format!("{good}time_ms = \"soon\"\n")).unwrap();
    let refused = agent.command(&["reload"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("checker.time_ms"), "{said}");
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    assert_eq!(agent.command(&["probe", "livez"]).status.code(), Some(1));
}
