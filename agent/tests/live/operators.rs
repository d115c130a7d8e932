//! What operators do to a running agent, and to its files.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use scry_protocol::filter::Mode;
use scry_protocol::link::host::AgentToHost;

use crate::support::{Agent, SCRY, Scratch, TinyHost, configuration, until};

const QUIET: &str = "[checkpoint]\nperiod_ms = 0\n[checker]\ncommand = [\"/bin/false\"]\n";

#[test]
fn certificates_are_private_and_never_overwritten() {
    let scratch = Scratch::new();
    let init = || {
        Command::new(SCRY)
            .args(["cert", "init"])
            .arg(scratch.0.join("certs"))
            .args(["--nodes", "1..2"])
            .output()
            .unwrap()
    };
    assert!(init().status.success());
    let mode = |name: &str| {
        let file = scratch.0.join("certs").join(name);
        file.metadata().unwrap().permissions().mode() & 0o777
    };
    for key in ["authority.key", "n1.key", "n2.key"] {
        assert_eq!(mode(key), 0o600, "{key}");
    }
    let before = std::fs::read(scratch.0.join("certs/n1.pem")).unwrap();
    let again = init();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"));
    assert_eq!(
        std::fs::read(scratch.0.join("certs/n1.pem")).unwrap(),
        before
    );
}

#[test]
fn mistakes_of_a_configuration_are_told_at_once() {
    let scratch = Scratch::new();
    let file = scratch.0.join("scry.toml");
    let text = "[node]\nid = 1\n[peers]\nlisten = \"\"\n[steering]\nmod = \"steer\"\n[checker]\nnice = 99\n";
    std::fs::write(&file, text).unwrap();
    let expect = "\
error: unknown key `mod`
 --> scry.toml:6:1
  |
6 | mod = \"steer\"
  | ^^^
  |
  = help: did you mean `mode`?

error: checker.nice: is not between 0 and 19
 --> scry.toml:8:8
  |
8 | nice = 99
  |        ^^
";
    for command in [
        &["validate", "scry.toml"][..],
        &["agent", "--config", "scry.toml"],
    ] {
        let output = Command::new(SCRY)
            .args(command)
            .current_dir(&scratch.0)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(78));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            expect,
            "{command:?}"
        );
    }
    let usage = Command::new(SCRY).arg("agnet").output().unwrap();
    assert_eq!(usage.status.code(), Some(64));
}

#[test]
fn modes_change_at_run_time_and_a_bad_reload_changes_nothing() {
    let scratch = Scratch::new();
    let file = configuration(&scratch.0, 1, &[], QUIET);
    let agent = Agent::start(&scratch.0, 1, &file);
    let host = TinyHost::attach(&agent, &[]);
    let status = agent.command(&["status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("mode        audit"), "{text}");
    assert!(text.contains("service     tiny 1"), "{text}");

    assert!(agent.command(&["mode", "steer"]).status.success());
    until("the host hears of it", || {
        let heard = host.heard.lock().unwrap();
        heard
            .iter()
            .any(|message| matches!(message, AgentToHost::Mode(set) if set.mode == Mode::Steer))
            .then_some(())
    });
    assert!(agent.command(&["steer", "off"]).status.success());
    assert_eq!(agent.status()["steering"]["mode"], "off");

    let before = agent.status()["configuration"]["hash"].clone();
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{good}nice = 99\n")).unwrap();
    agent.signal("HUP");
    until("the bad file is refused", || {
        (agent.status()["configuration"]["reloads_failed"] == 1).then_some(())
    });
    assert_eq!(agent.status()["configuration"]["hash"], before);
    // What it said before it answered may still be on its way to here.
    until("it says so", || {
        (agent.said("the new configuration is bad").len() == 1).then_some(())
    });

    std::fs::write(&file, format!("{good}time_ms = 700\n")).unwrap();
    let (code, text) = agent.ask("POST", "/reload", "");
    assert_eq!(code, 200, "{text}");
    let status = agent.status();
    assert_ne!(status["configuration"]["hash"], before);
    // What was set at run time stays, since the file says nothing new about it.
    assert_eq!(status["steering"]["mode"], "off");
    let (_, metrics) = agent.ask("GET", "/metrics", "");
    let hash = status["configuration"]["hash"].as_str().unwrap();
    assert!(metrics.contains(&format!("scry_configuration{{hash=\"{hash}\"}} 1")));
}

#[test]
fn a_checker_that_ends_is_started_again() {
    let scratch = Scratch::new();
    let file = configuration(&scratch.0, 1, &[], QUIET);
    let agent = Agent::start(&scratch.0, 1, &file);
    until("it was started more than once", || {
        let restarts = agent.status()["steering"]["counts"]["checker_restarts"].as_u64();
        (restarts >= Some(2)).then_some(())
    });
}
