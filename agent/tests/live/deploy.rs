//! What operators are given beside the binary, held against the binary.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{
    Agent, SCRY, Scratch, TinyHost, WAIT, certificates, configuration, free_port, until,
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
        .flat_map(|(name, kind)| match kind {
            "counter" => vec![format!("{name}_total")],
            "histogram" => ["", "_bucket", "_sum", "_count"]
                .map(|part| format!("{name}{part}"))
                .into(),
            _ => vec![name.to_owned()],
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
    let alerts = std::fs::read_to_string(project().join("deploy/prometheus/alerts.yaml")).unwrap();
    let watched = mentioned(&alerts);
    assert!(watched.len() > 10, "{watched:?}");
    let unknown: Vec<_> = watched.difference(&known).collect();
    assert!(unknown.is_empty(), "in the alerts: {unknown:?}");
    // All that is measured of each property is on the board.
    let hidden: Vec<_> = known
        .iter()
        .filter(|name| name.starts_with("scry_property_") && !shown.contains(*name))
        .filter(|name| {
            ![
                "scry_property_unjudged_runs",
                "scry_property_filters_installed_total",
            ]
            .contains(&name.as_str())
        })
        .collect();
    assert!(hidden.is_empty(), "not on the board: {hidden:?}");
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
    assert_eq!(agent.command(&["probe", "livez"]).status.code(), Some(0));
    // It lives, but there is nobody it could protect, and nothing it could search with.
    let asked = agent.command(&["probe", "readyz"]);
    assert_eq!(asked.status.code(), Some(1), "{asked:?}");
    let said = String::from_utf8_lossy(&asked.stderr);
    let expect = "not ready: no service is attached, the checker is not up";
    assert!(said.contains(expect), "{said}");
    // One that is switched off has nothing to do: whoever gates a pod on it must be able to switch it off.
    assert!(agent.command(&["steer", "off"]).status.success());
    assert_eq!(agent.command(&["probe", "readyz"]).status.code(), Some(0));
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

#[test]
fn an_agent_is_ready_once_it_can_protect_its_service() {
    let scratch = Scratch::new();
    // Who takes no snapshots by itself and does not search needs a service only.
    let quiet =
        "[checkpoint]\nperiod_ms = 0\ngather = false\n[checker]\ncommand = [\"/bin/false\"]\n";
    let file = configuration(&scratch.0, 1, &[], quiet);
    let agent = Agent::start(&scratch.0, 1, &file);
    let (code, said) = agent.ask("GET", "/readyz", "");
    assert_eq!(code, 503, "{said}");
    let host = TinyHost::attach(&agent, &[]);
    until("it is ready", || {
        (agent.ask("GET", "/readyz", "").0 == 200).then_some(())
    });
    drop(host);
    until("it is not any more", || {
        (agent.ask("GET", "/readyz", "").0 == 503).then_some(())
    });
    assert_eq!(agent.ask("GET", "/livez", "").0, 200);
}

/// Sends one request over TCP and returns everything that comes back.
fn fetch(address: &str, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn metrics_and_health_can_be_read_from_outside_and_nothing_else() {
    let scratch = Scratch::new();
    let open = format!("metrics_listen = \"127.0.0.1:0\"\n{QUIET}");
    let file = configuration(&scratch.0, 1, &[], &open);
    let agent = Agent::start(&scratch.0, 1, &file);
    let line: Value = serde_json::from_str(&agent.said("the agent runs")[0]).unwrap();
    let address = line["metrics"].as_str().unwrap();
    let get = |path: &str| {
        fetch(
            address,
            &format!("GET {path} HTTP/1.1\r\nhost: any.name\r\n\r\n"),
        )
    };
    let metrics = get("/metrics").unwrap();
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    for part in [
        "scry_ready 0",
        "scry_gather_seconds_bucket{le=\"+Inf\"} 0",
        "# EOF",
    ] {
        assert!(metrics.contains(part), "{part} is missing in {metrics}");
    }
    assert!(get("/livez").unwrap().starts_with("HTTP/1.1 200"));
    assert!(get("/readyz").unwrap().starts_with("HTTP/1.1 503"));
    for path in ["/status", "/mode", "/reload", "/snapshot"] {
        assert!(get(path).unwrap().starts_with("HTTP/1.1 404"), "{path}");
        let post = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        assert!(
            fetch(address, &post).unwrap().starts_with("HTTP/1.1 404"),
            "{path}"
        );
    }
    let post = "POST /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    assert!(fetch(address, post).unwrap().starts_with("HTTP/1.1 405"));
    // Whoever connects and says nothing, or half of it, takes a place for a while only, and none of the operator's.
    let mut silent: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    for stream in silent.iter_mut().step_by(2) {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost:").unwrap();
    }
    assert_eq!(agent.ask("GET", "/livez", "").0, 200);
    until("an answer after all", || {
        let answer = get("/metrics").ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    });
    let mut end = Vec::new();
    silent[0].set_read_timeout(Some(WAIT)).unwrap();
    // Closed by the agent, in whatever way: but not open for ever.
    let read = silent[0].read_to_end(&mut end);
    let timed_out = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!read.as_ref().is_err_and(timed_out), "{read:?}");
}

#[test]
fn by_default_nothing_can_be_read_from_outside() {
    let scratch = Scratch::new();
    let file = configuration(&scratch.0, 1, &[], QUIET);
    let agent = Agent::start(&scratch.0, 1, &file);
    let line: Value = serde_json::from_str(&agent.said("the agent runs")[0]).unwrap();
    assert!(line.get("metrics").is_none_or(Value::is_null), "{line}");
}
