//! The systemd unit: what systemd says of it, and what operators rely on.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::{Scratch, program, text};

const UNIT: &str = "deploy/systemd/scry-agent.service";

/// Settings by section, in order; a setting may be given several times.
type Unit = BTreeMap<String, Vec<(String, String)>>;

/// Reads a unit file, or says which line is none of one.
fn read(source: &str) -> Result<Unit, String> {
    let mut unit = Unit::new();
    let mut section = None;
    for (at, line) in source.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let wrong = || format!("line {}: {line}", at + 1);
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = Some(name.to_owned());
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(wrong)?;
        let is_key = key.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !key.is_empty();
        let section = section.clone().filter(|_| is_key).ok_or_else(wrong)?;
        let setting = (key.to_owned(), value.trim().to_owned());
        unit.entry(section).or_default().push(setting);
    }
    Ok(unit)
}

fn unit() -> Unit {
    read(&text(UNIT)).expect("the unit can be read")
}

fn all<'a>(unit: &'a Unit, key: &str) -> Vec<&'a str> {
    let service = &unit["Service"];
    service
        .iter()
        .filter(|(name, _)| name == key)
        .map(|(_, value)| value.as_str())
        .collect()
}

fn one<'a>(unit: &'a Unit, key: &str) -> &'a str {
    match all(unit, key)[..] {
        [value] => value,
        ref values => panic!("{key} is there {} times", values.len()),
    }
}

/// Reads `2G` or `1536M`.
fn bytes(size: &str) -> u64 {
    let (digits, unit) = size.split_at(size.len() - 1);
    let number: u64 = digits.parse().expect("a size is a number and a unit");
    number
        << match unit {
            "K" => 10,
            "M" => 20,
            "G" => 30,
            _ => panic!("{size} has no unit we know"),
        }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let source = text(UNIT);
    read(&source).expect("every line is a section or a setting");
    let Some(systemd) = program("systemd-analyze") else {
        return;
    };
    // The binary is not installed where tests run, and systemd looks for it.
    let installed = source.replace("=/usr/bin/scry ", "=/bin/true ");
    let said = verify(&systemd, &installed);
    assert_eq!(said, "", "systemd-analyze verify");
    // It says so when something is wrong: else its silence would mean nothing.
    let wrong = installed.replace("WatchdogSec=", "WatchdogSecs=");
    assert_ne!(verify(&systemd, &wrong), "");
}

fn verify(systemd: &std::path::Path, source: &str) -> String {
    let folder = Scratch::new(&format!("unit-{}", source.len()));
    let path = folder.path().join("scry-agent.service");
    fs::write(&path, source).expect("a temporary file can be written");
    let output = Command::new(systemd)
        .args(["verify", "--man=no"])
        .arg(&path)
        .output()
        .expect("systemd-analyze can be started");
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        said += &format!("({})", output.status);
    }
    said
}

#[test]
fn the_agent_is_supervised() {
    let unit = unit();
    assert_eq!(one(&unit, "Type"), "notify");
    assert!(one(&unit, "WatchdogSec").ends_with('s'));
    assert_eq!(one(&unit, "Restart"), "always");
    let start = "/usr/bin/scry agent --config /etc/scry/scry.toml";
    assert_eq!(one(&unit, "ExecStart"), start);
    // Its failure would be tried again for ever: the line below is about ExecStart only.
    assert_eq!(all(&unit, "ExecStartPre"), [""; 0]);
    assert_eq!(one(&unit, "ExecReload"), "/bin/kill -HUP $MAINPID");
    // Bad usage and bad configuration are not cured by another try.
    assert_eq!(one(&unit, "RestartPreventExitStatus"), "64 78");
    // What fails for other reasons is tried for minutes, not for ever.
    let limit = |key: &str| {
        let settings = unit["Unit"].iter();
        let mut found = settings.filter(|(name, _)| name == key);
        found.next().map(|(_, value)| value.clone())
    };
    assert!(limit("StartLimitIntervalSec").is_some_and(|value| value != "0"));
    assert!(limit("StartLimitBurst").is_some());
}

#[test]
fn the_user_and_the_folders_of_the_unit_are_declared() {
    let unit = unit();
    let user = one(&unit, "User");
    let lines = |path: &str| -> Vec<Vec<String>> {
        let source = text(path);
        let lines = source.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect()
    };
    let users = lines("deploy/systemd/scry.sysusers");
    assert!(users.iter().any(|line| line[0] == "u" && line[1] == user));
    let folders = lines("deploy/systemd/scry.tmpfiles");
    for (folder, mode) in [
        (
            format!("/run/{}", one(&unit, "RuntimeDirectory")),
            one(&unit, "RuntimeDirectoryMode"),
        ),
        (
            format!("/var/log/{}", one(&unit, "LogsDirectory")),
            one(&unit, "LogsDirectoryMode"),
        ),
    ] {
        let declared = ["d", &folder, mode, user, user, "-"];
        assert!(folders.iter().any(|line| *line == declared), "{declared:?}");
    }
}

#[test]
fn folders_and_limits_are_those_of_the_sample_configuration() {
    let unit = unit();
    let sample: toml::Table = text("deploy/scry.toml")
        .parse()
        .expect("the sample is TOML");
    let at = |section: &str, key: &str| sample[section][key].clone();
    let run = format!("/run/{}/", one(&unit, "RuntimeDirectory"));
    for path in [at("host", "socket"), at("steering", "kill_file")] {
        let path = path.as_str().expect("a path is text");
        assert!(path.starts_with(&run), "{path} is not in {run}");
    }
    // The kill file must outlive the agent.
    assert_eq!(one(&unit, "RuntimeDirectoryPreserve"), "yes");
    let logs = format!("/var/log/{}", one(&unit, "LogsDirectory"));
    assert_eq!(at("log", "directory").as_str(), Some(logs.as_str()));
    let checker = at("checker", "memory_bytes")
        .as_integer()
        .expect("a number") as u64;
    let (high, max) = (
        bytes(one(&unit, "MemoryHigh")),
        bytes(one(&unit, "MemoryMax")),
    );
    assert!(checker < high && high < max);
    // A checker that is killed for memory must not take the agent with it.
    assert_eq!(one(&unit, "OOMPolicy"), "continue");
    assert!(one(&unit, "CPUQuota").ends_with('%'));
}

#[test]
fn the_sandbox_is_closed_but_for_what_the_agent_needs() {
    let unit = unit();
    for (key, value) in [
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("ProtectKernelModules", "yes"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectControlGroups", "yes"),
        ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
        ("RestrictNamespaces", "yes"),
        ("LockPersonality", "yes"),
        ("SystemCallArchitectures", "native"),
    ] {
        assert_eq!(one(&unit, key), value, "{key}");
    }
    // The checker closes a sandbox of its own, for which it needs these.
    let calls = all(&unit, "SystemCallFilter").join(" ");
    for call in ["@system-service", "landlock_restrict_self", "seccomp"] {
        assert!(calls.split(' ').any(|named| named == call), "{call}");
    }
    // With either, the agent could not start the service's executable, or would break the service when it stops.
    for key in ["PrivateUsers", "RemoveIPC"] {
        assert_eq!(all(&unit, key), [""; 0], "{key}");
    }
}

#[test]
fn a_unit_that_is_none_is_seen() {
    assert!(
        read("Type=notify").is_err(),
        "a setting outside any section"
    );
    assert!(read("[Service]\nType notify").is_err());
    assert!(read("[Service]\nno key=1").is_err());
}
