//! What turns steering off.

use std::ffi::OsStr;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use scry_protocol::filter::{Action, Mode};
use scry_protocol::link::host::{FilterEnd, Held, InstallFilters, SetMode, Switches};
use scry_protocol::{FilterId, RunId};

use crate::hook::tests::rig::{Agent, PEER, Rig, join, until, welcome};
use crate::hook::{SWITCH_VARIABLE, Verdict, is_switched_off};

#[test]
fn mode_off_ends_all_filters_and_takes_no_new_ones() {
    let mut rig = Rig::new();
    rig.install([join(1, Action::Drop)]);
    rig.agent.send(SetMode { mode: Mode::Off });
    assert_eq!(rig.agent.expect_ended().end, FilterEnd::Killed);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    rig.agent.send(InstallFilters {
        run: RunId::new(1),
        filters: vec![join(2, Action::Drop)],
    });
    let ended = rig.agent.expect_ended();
    assert_eq!(
        (ended.filter, ended.end),
        (FilterId::new(2), FilterEnd::Killed)
    );
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
}

#[test]
fn a_kill_file_ends_all_filters_and_its_removal_allows_new_ones() {
    let mut file = None;
    let mut rig = Rig::with(Mode::Steer, |options| {
        let path = options.socket.as_ref().expect("set").with_file_name("kill");
        options.kill_file = Some(path.clone());
        file = Some(path);
    });
    let file = file.expect("set");
    rig.install([join(1, Action::Drop)]);
    assert_eq!(
        rig.message("Join", PEER, b""),
        Verdict::Drop(FilterId::new(1))
    );
    std::fs::write(&file, "").expect("a file");
    assert_eq!(rig.wait_ended(1), FilterEnd::Killed);
    assert_eq!(rig.hook.mode(), Mode::Off);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    std::fs::remove_file(&file).expect("the file");
    until("steering is allowed again", || {
        rig.hook.mode() == Mode::Steer
    });
    rig.install([join(2, Action::Drop)]);
    assert_eq!(
        rig.message("Join", PEER, b""),
        Verdict::Drop(FilterId::new(2))
    );
}

fn name_switch(rig: &mut Rig, file: &Path) {
    let files = vec![file.to_str().expect("a text").to_owned()];
    rig.agent.send(Switches { files });
    rig.settle();
}

#[test]
fn a_kill_file_that_the_agent_names_is_obeyed_without_the_agent() {
    let mut rig = Rig::new();
    let file = rig.directory.join("named");
    name_switch(&mut rig, &file);
    rig.install([join(1, Action::Drop)]);
    assert_eq!(
        rig.message("Join", PEER, b""),
        Verdict::Drop(FilterId::new(1))
    );
    std::fs::write(&file, "off\n").expect("a file");
    // The agent says nothing at all.
    assert_eq!(rig.wait_ended(1), FilterEnd::Killed);
    assert_eq!(
        (rig.hook.mode(), rig.hook.stats().held),
        (Mode::Off, Held::File)
    );
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);

    // It dies, and another one comes that has not named the file yet.
    let Rig {
        hook,
        agent,
        listener,
        directory,
        ..
    } = rig;
    drop((agent, listener));
    let socket = directory.join("agent");
    std::fs::remove_file(&socket).expect("the old socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let mut agent = Agent::accept(&listener);
    agent.send(welcome(Mode::Steer));
    let mut rig = Rig {
        hook,
        agent,
        listener,
        requests: Vec::new(),
        directory,
    };
    rig.settle();
    assert_eq!(rig.hook.mode(), Mode::Off);
    std::fs::write(&file, "on\n").expect("a file");
    until("a file that says on forbids nothing", || {
        rig.hook.mode() == Mode::Steer && rig.hook.stats().held == Held::No
    });
}

#[test]
fn a_relative_path_means_no_file_here() {
    let mut rig = Rig::new();
    // It is there, in the folder the tests run in.
    name_switch(&mut rig, Path::new("Cargo.toml"));
    rig.install([join(1, Action::Drop)]);
    assert_eq!(
        rig.message("Join", PEER, b""),
        Verdict::Drop(FilterId::new(1))
    );
}

#[test]
fn the_environment_can_forbid_steering() {
    for (value, off) in [("off", true), ("OFF", true), ("on", false), ("", false)] {
        assert_eq!(is_switched_off(Some(OsStr::new(value))), off, "{value}");
    }
    assert!(!is_switched_off(None));
    // An environment belongs to a process: the other half of this test runs in one of its own.
    let path = "hook::tests::switches::a_host_whose_environment_forbids_steering_is_not_steered";
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", path])
        .env(SWITCH_VARIABLE, "off")
        .output()
        .expect("this test starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
fn a_host_whose_environment_forbids_steering_is_not_steered() {
    let mut rig = Rig::new();
    rig.agent.send(InstallFilters {
        run: RunId::new(1),
        filters: vec![join(1, Action::Drop)],
    });
    rig.settle();
    let off = std::env::var_os(SWITCH_VARIABLE).is_some();
    let expect = if off {
        (Mode::Off, Verdict::Run)
    } else {
        (Mode::Steer, Verdict::Drop(FilterId::new(1)))
    };
    assert_eq!((rig.hook.mode(), rig.message("Join", PEER, b"")), expect);
    assert_eq!(rig.hook.stats().held == Held::Environment, off);
}
