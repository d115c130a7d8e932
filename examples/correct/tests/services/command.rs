//! One executable is all services: by its first argument, or, where a node starts it as speculator, by what it inherits.

use std::process::{Command, Output};

fn correct(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_correct"))
        .args(arguments)
        .env_remove("CORRECT_SERVICE")
        .envs(environment.iter().copied())
        .output()
        .expect("it runs")
}

#[test]
fn the_first_argument_names_the_service() {
    let output = correct(&["chain", "check", "--depth", "6"], &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("no violation so far"), "{said}");
    let output = correct(&["gossip", "check", "--bug", "deltas", "--first"], &[]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn whoever_names_no_service_is_told_which_there_are() {
    for arguments in [&[][..], &["chian", "check"]] {
        let output = correct(arguments, &[]);
        assert_eq!(output.status.code(), Some(64));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("chain|commit|lease|failover|gossip"),
            "{said}"
        );
    }
}

#[test]
fn a_role_is_entered_for_the_service_that_was_inherited() {
    let role = ("SCRY_ROLE", "juggler");
    let output = correct(&[], &[role, ("CORRECT_SERVICE", "lease")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no such role"), "{said}");
    let output = correct(&[], &[role]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("chain|commit"), "no service, no role: {said}");
}
