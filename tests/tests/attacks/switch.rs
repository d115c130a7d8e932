//! The switch is thrown while everything that it could depend on is broken, and while the service is under load.

use std::path::Path;
use std::process::Output;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scry_tests::attack::{Agent, Cluster, Meter, Plan, arena, until};

fn scry(words: &[&str], configuration: &Path) -> Output {
    let mut command = arena();
    command.args(words).arg("--config").arg(configuration);
    command.output().expect("the arena can be started")
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

fn signal(agent: &Agent, signal: Signal) {
    let process = i32::try_from(agent.pid()).expect("a process id");
    kill(Pid::from_raw(process), signal).expect("our own child");
}

fn has_mode(agent: &Agent, mode: &str) {
    until(mode, || {
        (agent.status()["steering"]["mode"] == mode).then_some(())
    });
}

#[test]
fn a_broken_configuration_and_a_lost_key_do_not_keep_anybody_from_the_switch() {
    let cluster: Cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let agent = cluster.agent(1);
    let file = agent.folder().join("scry.toml");
    let text = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(&file, format!("{text}[[nothing\nof = = this\n")).expect("it can be written");
    std::fs::remove_file(cluster.certificates().join("n1.key")).expect("it was there");
    for (word, mode) in [("off", "off"), ("on", "steer"), ("off", "off")] {
        let thrown = scry(&["steer", word], &file);
        assert!(thrown.status.success(), "{}", said(&thrown));
        has_mode(agent, mode);
    }
    let status = scry(&["status"], &file);
    assert!(
        said(&status).contains("off (an operator set it)"),
        "{}",
        said(&status)
    );
    meter.assert_withstood();
}

#[test]
fn an_agent_that_is_stopped_does_not_keep_anybody_from_the_switch() {
    let cluster: Cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let agent = cluster.agent(1);
    signal(agent, Signal::SIGSTOP);
    let thrown = scry(&["steer", "off"], &agent.folder().join("scry.toml"));
    signal(agent, Signal::SIGCONT);
    assert!(thrown.status.success(), "{}", said(&thrown));
    assert!(agent.folder().join("off").is_file(), "{}", said(&thrown));
    // The service was never told the file's name but by the agent, and obeys it by itself.
    until("the service says so", || {
        let held = &agent.status()["steering"]["host"]["held_off_by"];
        (held == "a kill file is there").then_some(())
    });
    has_mode(agent, "off");
    meter.assert_withstood();
}

#[test]
fn a_signal_switches_off_under_load() {
    let cluster: Cluster = Plan::new().start();
    let meter = Meter::start(&cluster);
    let agent = cluster.agent(1);
    for _ in 0..20 {
        signal(agent, Signal::SIGUSR1);
    }
    has_mode(agent, "off");
    assert_eq!(agent.status()["mode_by"], "a signal (SIGUSR1) set it");
    meter.assert_withstood();
}
