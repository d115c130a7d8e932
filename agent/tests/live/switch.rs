//! The switch works whatever state configuration, keys, agent and image are in, and says what is in force and why.

use std::path::Path;
use std::process::{Command, Output};

use scry_protocol::filter::Mode;
use scry_protocol::frame;
use scry_protocol::link::host::{AgentToHost, Held, HostToAgent, Stats};

use crate::support::{Agent, SCRY, Scratch, TinyHost, configuration, until};

const QUIET: &str = "[checkpoint]\nperiod_ms = 0\n[checker]\ncommand = [\"/bin/false\"]\n";

/// Runs `scry` with a configuration.
fn scry(arguments: &[&str], config: &Path) -> Output {
    Command::new(SCRY)
        .args(arguments)
        .arg("--config")
        .arg(config)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts an agent that steers, with a kill file and a switch file in its folder.
fn start(scratch: &Scratch) -> Agent {
    let more = format!(
        "{QUIET}[steering]\nmode = \"steer\"\nkill_file = \"off\"\nswitch_file = \"switch\"\n"
    );
    let file = configuration(&scratch.0, 1, &[], &more);
    Agent::start(&scratch.0, 1, &file)
}

#[test]
fn the_switch_needs_nothing_but_the_address() {
    let scratch = Scratch::new();
    let agent = start(&scratch);
    let admin = scratch.0.join("admin1.sock");
    let broken = scratch.0.join("broken.toml");
    let admin_section = format!("[admin]\nlisten = \"{}\"\n", admin.display());
    for (what, text) in [
        ("no id", String::new()),
        (
            "no certificates, no properties, and a typo",
            "[nod]\nid = 9\n[peers]\nkey = \"/nowhere/node.key\"\n[properties]\nfile = \"/nowhere\"\n".to_owned(),
        ),
        ("not TOML", "[steering\nmode = = \"steer\"\n".to_owned()),
    ] {
        std::fs::write(&broken, format!("{admin_section}{text}")).unwrap();
        let bad = scry(&["agent"], &broken);
        assert_eq!(bad.status.code(), Some(78), "no agent starts with it: {what}");
        let off = scry(&["steer", "off"], &broken);
        assert_eq!((off.status.code(), out(&off)), (Some(0), "off".to_owned()), "{what}: {}", error(&off));
        assert_eq!(agent.status()["steering"]["mode"], "off", "{what}");
        let status = scry(&["status"], &broken);
        assert!(out(&status).contains("mode        off (an operator set it)"), "{what}: {}", out(&status));
        let on = scry(&["mode", "steer"], &broken);
        assert_eq!((on.status.code(), out(&on)), (Some(0), "steer".to_owned()), "{what}: {}", error(&on));
    }
    // A file that cannot be read at all leaves the default address, and says so; `--address` needs no file.
    let status = scry(&["status"], &scratch.0);
    assert_eq!(status.status.code(), Some(1));
    let said = error(&status);
    assert!(
        said.contains("note: cannot read") && said.contains("127.0.0.1:7701"),
        "{said}"
    );
    let socket = admin.to_str().unwrap();
    let off = scry(
        &["steer", "off", "--address", socket],
        Path::new("/nowhere"),
    );
    assert_eq!((out(&off), error(&off)), ("off".to_owned(), String::new()));
}

#[test]
fn what_holds_everything_off_is_named_and_a_mode_counts_afterwards() {
    let scratch = Scratch::new();
    let agent = start(&scratch);
    let host = TinyHost::attach(&agent, &[]);
    let named = |message: &AgentToHost| match message {
        AgentToHost::Switches(switches) => Some(switches.files.clone()),
        _ => None,
    };
    let files = until("the service is told the files", || {
        host.heard.lock().unwrap().iter().find_map(named)
    });
    assert_eq!(
        files,
        ["off", "switch"].map(|name| scratch.0.join(name).display().to_string())
    );
    let switch = scratch.0.join("switch");
    std::fs::write(&switch, "off\n").unwrap();
    let why = format!("the kill file {} is there", switch.display());
    until("the file is seen", || {
        (agent.status()["held_off_by"] == why).then_some(())
    });
    let steer = agent.command(&["mode", "steer"]);
    assert_eq!(
        out(&steer),
        format!("off ({why}; steer counts when that is over)")
    );
    let status = agent.command(&["status"]);
    assert!(
        out(&status).contains(&format!("mode        off ({why})")),
        "{}",
        out(&status)
    );
    let heard = |mode: Mode| {
        let heard = host.heard.lock().unwrap();
        let last = heard.iter().rev().find_map(|message| match message {
            AgentToHost::Mode(set) => Some(set.mode),
            _ => None,
        });
        (last == Some(mode)).then_some(())
    };
    until("the service is told", || heard(Mode::Off));
    std::fs::write(&switch, "on\n").unwrap();
    until("a file that says on holds nothing off", || {
        heard(Mode::Steer)
    });
    assert_eq!(agent.status()["held_off_by"], serde_json::Value::Null);
}

#[test]
fn a_signal_switches_off_until_somebody_says_otherwise() {
    let scratch = Scratch::new();
    let agent = start(&scratch);
    assert_eq!(agent.status()["steering"]["mode"], "steer");
    agent.signal("USR1");
    until("the signal is heard", || {
        (agent.status()["steering"]["mode"] == "off").then_some(())
    });
    let status = out(&agent.command(&["status"]));
    assert!(
        status.contains("mode        off (a signal (SIGUSR1) set it)"),
        "{status}"
    );
    // A reload that says nothing new about it changes nothing.
    assert!(agent.command(&["reload"]).status.success());
    assert_eq!(agent.status()["steering"]["mode"], "off");
    assert_eq!(out(&agent.command(&["steer", "on"])), "steer");
}

#[test]
fn without_an_agent_the_kill_file_is_written_where_there_is_no_touch() {
    let scratch = Scratch::new();
    let more = format!("{QUIET}[steering]\nkill_file = \"run/off\"\n");
    let config = configuration(&scratch.0, 1, &[], &more);
    let file = scratch.0.join("run/off");
    let off = scry(&["steer", "off"], &config);
    assert_eq!(off.status.code(), Some(0), "{}", error(&off));
    assert!(
        error(&off).contains("no answer from the agent"),
        "{}",
        error(&off)
    );
    assert!(
        out(&off).contains(&format!("wrote {}", file.display())),
        "{}",
        out(&off)
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "off\n");
    assert_eq!(
        scry(&["steer", "on"], &config).status.code(),
        Some(1),
        "only an agent can"
    );
    // The agent that starts then is held off from its first moment, and says so.
    let agent = Agent::start(&scratch.0, 1, &config);
    let why = format!("the kill file {} is there", file.display());
    assert_eq!(agent.status()["held_off_by"], why);
    for _ in 0..2 {
        assert_eq!(
            scry(&["steer", "on", "--file"], &config).status.code(),
            Some(0)
        );
        assert!(!file.exists());
    }
    until("it is held off no longer", || {
        agent.status()["held_off_by"].is_null().then_some(())
    });
}

#[test]
fn the_environment_of_agent_and_service_is_named() {
    let scratch = Scratch::new();
    let agent = start(&scratch);
    let mut host = TinyHost::attach(&agent, &[]);
    let stats = Stats {
        held: Held::Environment,
        ..Stats::default()
    };
    let frame = frame::encode(&HostToAgent::Stats(stats)).unwrap();
    host.send(&frame);
    until("the service has said so", || {
        let held = &agent.status()["steering"]["host"]["held_off_by"];
        (held == "its environment says SCRY_STEER=off").then_some(())
    });
    let status = out(&agent.command(&["status"]));
    assert!(
        status.contains("the service acts on nothing: its environment says SCRY_STEER=off"),
        "{status}"
    );
    let steer = out(&agent.command(&["mode", "steer"]));
    assert_eq!(
        steer,
        "steer (but the service acts on nothing: its environment says SCRY_STEER=off)"
    );
}

#[test]
fn an_unknown_property_is_an_error_with_what_there_is() {
    let scratch = Scratch::new();
    let properties = "[[property]]\nname = \"one root\"\nalways = \"true\"\n";
    std::fs::write(scratch.0.join("properties.toml"), properties).unwrap();
    let more = format!("{QUIET}[properties]\nfile = \"properties.toml\"\n");
    let config = configuration(&scratch.0, 1, &[], &more);
    let agent = Agent::start(&scratch.0, 1, &config);
    let wrong = agent.command(&["mode", "off", "--property", "one rot"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        error(&wrong).contains("did you mean \"one root\"?"),
        "{}",
        error(&wrong)
    );
    let bad = format!("{more}[properties.modes]\n\"nope\" = \"off\"\n");
    let bad = configuration(&scratch.0, 2, &[], &bad);
    let validated = Command::new(SCRY)
        .arg("validate")
        .arg(&bad)
        .output()
        .unwrap();
    assert_eq!(validated.status.code(), Some(78));
    assert!(
        error(&validated).contains("the file has \"one root\""),
        "{}",
        error(&validated)
    );
}
