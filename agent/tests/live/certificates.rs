//! Certificates as operators handle them: made, renewed, shown, revoked, and loaded by agents that run.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{
    Agent, SCRY, Scratch, TinyHost, certificates, configuration, free_port, until,
};

const QUIET: &str =
    "[checkpoint]\nperiod_ms = 0\nround_ms = 1500\n[checker]\ncommand = [\"/bin/false\"]\n";

fn cert(arguments: &[&str], folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(SCRY);
    command.arg("cert").args(arguments).arg(folder).args(more);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn fine(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    said(output)
}

fn validate(file: &Path) -> Output {
    let mut command = Command::new(SCRY);
    command.arg("validate").arg(file).output().unwrap()
}

fn with_list(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let text = text.replace("[peers]\n", "[peers]\nrevoked = \"certs/revoked.pem\"\n");
    std::fs::write(file, text).unwrap();
}

#[test]
fn a_fourth_node_joins_the_authority_that_is_there() {
    let scratch = Scratch::new();
    certificates(&scratch.0);
    let certs = scratch.0.join("certs");
    let made = fine(&cert(&["issue"], &certs, &["--nodes", "4", "--days", "90"]));
    assert!(made.contains("n4.pem") && made.contains("n4.key"), "{made}");
    let again = cert(&["issue"], &certs, &["--nodes", "3,5"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("exists already"), "{}", said(&again));
    assert!(!certs.join("n5.pem").exists(), "nothing was written");
    let ports = [(4, free_port()), (1, free_port())];
    let file = configuration(&scratch.0, 4, &ports, QUIET);
    let output = validate(&file);
    assert!(fine(&output).contains("fine"));
    // It counts for the days that were asked for, and others for a year.
    let shown = fine(&cert(&["show"], &certs, &[]));
    assert!(shown.contains("n4.pem: n4\n"), "{shown}");
    assert!(
        shown.contains("89 days left") || shown.contains("90 days left"),
        "{shown}"
    );
    assert!(
        shown.contains("364 days left") || shown.contains("365 days left"),
        "{shown}"
    );
    assert!(
        shown.contains("3649 days left") || shown.contains("3650 days left"),
        "{shown}"
    );
    assert!(shown.contains("fingerprint  "), "{shown}");
    // A key of another authority makes nothing that would not be believed.
    let other = scratch.0.join("strangers/authority.key");
    std::fs::copy(other, certs.join("authority.key")).unwrap();
    let wrong = cert(&["issue"], &certs, &["--nodes", "6"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        said(&wrong).contains("it is not the key of"),
        "{}",
        said(&wrong)
    );
}

#[test]
fn everything_wrong_with_certificates_is_told_at_once() {
    let scratch = Scratch::new();
    certificates(&scratch.0);
    let certs = scratch.0.join("certs");
    let ports = [(1, free_port()), (2, free_port())];
    let file = configuration(&scratch.0, 1, &ports, QUIET);
    with_list(&file);
    fine(&validate(&file));

    let key = certs.join("n1.key");
    let set = |mode| std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o640);
    fine(&validate(&file));
    set(0o644);
    let strangers = scratch.0.join("strangers");
    std::fs::copy(strangers.join("authority.pem"), certs.join("authority.pem")).unwrap();
    std::fs::write(certs.join("revoked.pem"), "no list").unwrap();
    let output = validate(&file);
    assert_eq!(output.status.code(), Some(78));
    for expect in [
        "others can read or change it (mode 644)",
        "it holds no revocation list",
    ] {
        assert!(
            said(&output).contains(expect),
            "{expect}:\n{}",
            said(&output)
        );
    }
    std::fs::copy(strangers.join("revoked.pem"), certs.join("revoked.pem")).unwrap();
    std::fs::copy(strangers.join("n2.key"), &key).unwrap();
    set(0o604);
    let output = validate(&file);
    for expect in [
        "others can read or change it",
        "it is not the key of",
        "it did not sign the certificate",
    ] {
        assert!(
            said(&output).contains(expect),
            "{expect}:\n{}",
            said(&output)
        );
    }
    // The agent does not start with it either.
    let agent = Command::new(SCRY)
        .args(["agent", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(agent.status.code(), Some(78));
    assert!(said(&agent).contains("others can read or change it"));
}

#[test]
fn a_list_of_another_authority_is_a_mistake() {
    let scratch = Scratch::new();
    certificates(&scratch.0);
    let ports = [(1, free_port()), (2, free_port())];
    let file = configuration(&scratch.0, 1, &ports, QUIET);
    with_list(&file);
    let other = scratch.0.join("strangers/revoked.pem");
    std::fs::copy(other, scratch.0.join("certs/revoked.pem")).unwrap();
    let output = validate(&file);
    assert_eq!(output.status.code(), Some(78));
    assert!(
        said(&output).contains("it is not a list of the authority"),
        "{}",
        said(&output)
    );
}

#[test]
fn an_end_that_is_near_is_told_by_validate_status_log_and_metrics() {
    let scratch = Scratch::new();
    certificates(&scratch.0);
    let certs = scratch.0.join("certs");
    fine(&cert(&["renew"], &certs, &["--nodes", "1", "--days", "5"]));
    let ports = [(1, free_port()), (2, free_port())];
    let file = configuration(&scratch.0, 1, &ports, QUIET);
    let output = fine(&validate(&file));
    assert!(
        output.contains("warning: the certificate of n1 ends in"),
        "{output}"
    );
    let agent = Agent::start(&scratch.0, 1, &file);
    until("the log tells of it", || {
        let log = std::fs::read_to_string(scratch.0.join("log1/steering.jsonl")).ok()?;
        log.contains("ends-soon").then_some(())
    });
    assert_eq!(agent.said("ends in").len(), 1);
    let (_, metrics) = agent.ask("GET", "/metrics", "");
    assert!(
        metrics.contains("scry_certificate_expires_timestamp_seconds "),
        "{metrics}"
    );
    let shown = agent.command(&["status"]);
    assert!(said(&shown).contains("days left"), "{}", said(&shown));
}

/// Gathers until a neighbor is in the snapshot, or is missing.
fn until_member(agent: &Agent, node: &str, is_member: bool) {
    until("the neighbor is in the snapshot, or not", || {
        let (_, text) = agent.ask("POST", "/snapshot", "");
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let members = summary["members"].as_array()?;
        (members.iter().any(|member| member == node) == is_member).then_some(())
    });
}

#[test]
fn files_that_are_swapped_are_loaded_without_a_restart_and_bad_ones_are_not() {
    let scratch = Scratch::new();
    certificates(&scratch.0);
    // As Kubernetes does it: the folder is a link that is swapped.
    let (certs, first) = (scratch.0.join("certs"), scratch.0.join("first"));
    std::fs::rename(&certs, &first).unwrap();
    symlink(&first, &certs).unwrap();
    let ports = [(1, free_port()), (2, free_port())];
    let agents = [1, 2].map(|node| {
        let file = configuration(&scratch.0, node, &ports, QUIET);
        Agent::start(&scratch.0, node, &file)
    });
    let _hosts = [
        TinyHost::attach(&agents[0], &[2]),
        TinyHost::attach(&agents[1], &[1]),
    ];
    until_member(&agents[0], "n2", true);
    let fingerprint = |agent: &Agent| agent.status()["certificate"]["fingerprint"].clone();
    let before = fingerprint(&agents[0]);

    let second = scratch.0.join("second");
    let copied = Command::new("cp")
        .arg("-r")
        .args([&first, &second])
        .status();
    assert!(copied.unwrap().success());
    fine(&cert(
        &["renew"],
        &second,
        &["--nodes", "1..2", "--new-key"],
    ));
    let link = scratch.0.join("link");
    symlink(&second, &link).unwrap();
    std::fs::rename(&link, &certs).unwrap();
    for agent in &agents {
        until("new files are loaded", || {
            (agent.status()["certificate"]["loaded"] == 1).then_some(())
        });
    }
    assert_ne!(fingerprint(&agents[0]), before);
    until_member(&agents[0], "n2", true);

    // Half of a change is not used, and costs nothing.
    std::fs::write(second.join("n1.pem"), "half").unwrap();
    until("bad files are told", || {
        (agents[0].status()["certificate"]["kept"] == 1).then_some(())
    });
    assert_eq!(agents[0].said("new certificates are bad").len(), 1);
    until_member(&agents[0], "n2", true);
}

#[test]
fn a_revoked_peer_is_cut_off_and_not_accepted_again() {
    let scratch = Scratch::new();
    certificates(&scratch.0);
    let certs = scratch.0.join("certs");
    let ports = [(1, free_port()), (2, free_port())];
    let file = configuration(&scratch.0, 1, &ports, QUIET);
    with_list(&file);
    let first = Agent::start(&scratch.0, 1, &file);
    // The other does not know the list: it goes on as before.
    let second = Agent::start(&scratch.0, 2, &configuration(&scratch.0, 2, &ports, QUIET));
    let _hosts = [
        TinyHost::attach(&first, &[2]),
        TinyHost::attach(&second, &[1]),
    ];
    until_member(&first, "n2", true);
    until_member(&second, "n1", true);
    fine(&cert(&["revoke"], &certs, &["--nodes", "2"]));
    until("its links are closed", || {
        (!first.said("its certificate counts no longer").is_empty()).then_some(())
    });
    // In both directions: the one that dials looks at it as well.
    until_member(&first, "n2", false);
    until_member(&second, "n1", false);
    assert!(first.status()["peers_refused"].as_u64() >= Some(1));
    let shown = cert(&["show"], &certs, &[]);
    assert_eq!(shown.status.code(), Some(1));
    assert!(said(&shown).contains("revoked"), "{}", said(&shown));
    // A new certificate is another one.
    fine(&cert(&["renew"], &certs, &["--nodes", "2"]));
    until("it is loaded", || {
        (second.status()["certificate"]["loaded"] == 1).then_some(())
    });
    until_member(&first, "n2", true);
}
