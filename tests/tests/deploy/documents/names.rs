//! What the documents name is there: options, commands, settings, variables, records and failures. A name that no code
//! knows is a promise that nobody keeps.

use std::collections::BTreeSet;

use scry_tests::{files, root};

use super::failures::{code, counted};
use crate::text;

/// Programs of others whose options are theirs.
const OTHERS: [&str; 13] = [
    "cargo",
    "kubectl",
    "kustomize",
    "podman",
    "systemctl",
    "helm",
    "faketime",
    "apt",
    "git ",
    "journalctl",
    "--from-file",
    "dpkg",
    "systemd-",
];
/// Options that every command line has.
const EVERYWHERE: [&str; 3] = ["help", "version", "release"];

/// Reads the documents, with their paths.
fn documents() -> Vec<(String, String)> {
    let found: Vec<(String, String)> = files(&root())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            let name = path.strip_prefix(root()).expect("it is below").display();
            (name.to_string(), text(&name.to_string()))
        })
        // What changed may be about what is gone.
        .filter(|(name, _)| name != "CHANGELOG.md")
        .collect();
    assert!(found.len() > 7, "there are documents");
    found
}

/// Reads the code of all crates, without tests.
fn all_code() -> String {
    let folders = ["agent", "steering", "protocol", "examples"];
    let read = folders.iter().flat_map(|folder| code(folder));
    read.map(|(_, source)| source).collect()
}

/// Returns what stands in backquotes on a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Panics with all that was found, so that one run is enough.
fn assert_none(what: &str, found: &BTreeSet<String>) {
    assert!(found.is_empty(), "{what}: {found:#?}");
}

#[test]
fn every_option_exists() {
    let code = all_code();
    let mut unknown = BTreeSet::new();
    let mut count = 0;
    for (document, text) in documents() {
        for line in text.lines() {
            if OTHERS.iter().any(|other| line.contains(other)) {
                continue;
            }
            for rest in line.split("--").skip(1) {
                let name: String = rest
                    .chars()
                    .take_while(|letter| letter.is_ascii_lowercase() || *letter == '-')
                    .collect();
                let name = name.trim_end_matches('-');
                if name.len() < 2 || EVERYWHERE.contains(&name) {
                    continue;
                }
                count += 1;
                // A field of a command's arguments, another name of one, or written out.
                let is_known = [
                    format!(" {}: ", name.replace('-', "_")),
                    format!("alias = \"{name}\""),
                    format!("long = \"{name}\""),
                    format!("\"--{name}"),
                ]
                .iter()
                .any(|form| code.contains(form));
                if !is_known {
                    unknown.insert(format!("--{name} in {document}"));
                }
            }
        }
    }
    assert!(count > 20, "the documents name options");
    assert_none("options that no command has", &unknown);
}

#[test]
fn every_command_exists() {
    let commands: BTreeSet<String> = files(&root().join("agent/src/commands"))
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    let mut unknown = BTreeSet::new();
    let mut count = 0;
    for (document, text) in documents() {
        for span in text.lines().flat_map(spans) {
            let Some(rest) = span.strip_prefix("scry ") else {
                continue;
            };
            let command = rest.split_whitespace().next().unwrap_or_default();
            if !command.is_empty() && command.chars().all(|letter| letter.is_ascii_lowercase()) {
                count += 1;
                if !commands.contains(command) {
                    unknown.insert(format!("scry {command} in {document}"));
                }
            }
        }
    }
    assert!(count > 10, "the documents name commands");
    assert_none("commands that do not exist", &unknown);
}

#[test]
fn every_setting_exists() {
    let sample: toml::Table = text("deploy/scry.toml").parse().expect("it is TOML");
    let mut unknown = BTreeSet::new();
    let mut count = 0;
    for (document, text) in documents() {
        for span in text.lines().flat_map(spans) {
            let name = span.split([' ', '=']).next().unwrap_or_default();
            let is_name = |letter: char| letter.is_ascii_lowercase() || "._".contains(letter);
            let Some((section, rest)) = name.split_once('.') else {
                continue;
            };
            // A file has an ending that is no setting.
            if !name.chars().all(is_name)
                || ["rs", "toml", "md", "json", "jsonl", "head"].contains(&rest)
            {
                continue;
            }
            let Some(mut at) = sample.get(section) else {
                continue;
            };
            count += 1;
            for part in rest.split('.') {
                match at.get(part) {
                    Some(inner) => at = inner,
                    None => {
                        unknown.insert(format!("{name} in {document}"));
                        break;
                    }
                }
            }
        }
    }
    assert!(count > 20, "the documents name settings");
    assert_none("settings that do not exist", &unknown);
}

#[test]
fn every_variable_of_the_environment_is_read() {
    let code = all_code();
    let tests: String = ["tests", "steering/tests", "agent/tests", "protocol/tests"]
        .iter()
        .flat_map(|folder| files(&root().join(folder)))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    let mut unknown = BTreeSet::new();
    for (document, text) in documents() {
        for rest in text.split("SCRY_").skip(1) {
            let name: String = rest
                .chars()
                .take_while(|letter| letter.is_ascii_uppercase() || *letter == '_')
                .collect();
            // Two underscores name a setting, which the sample lists.
            if name.is_empty() || name.starts_with('_') {
                continue;
            }
            let name = format!("SCRY_{name}");
            if !code.contains(&format!("\"{name}\"")) && !tests.contains(&format!("\"{name}\"")) {
                unknown.insert(format!("{name} in {document}"));
            }
        }
    }
    assert_none("variables that nobody reads", &unknown);
}

#[test]
fn every_record_and_failure_exists() {
    let record = text("protocol/src/record.rs");
    let kinds: BTreeSet<&str> = record
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" "))
        .filter(|(_, rest)| rest.ends_with('{'))
        .map(|(kind, _)| kind)
        .collect();
    assert!(
        kinds.contains("failed-open") && kinds.len() > 10,
        "{kinds:?}"
    );
    let failures = counted();
    let mut unknown = BTreeSet::new();
    let mut count = 0;
    for (document, text) in documents() {
        for rest in text.split("failed_open \"").skip(1) {
            let name = rest.split('"').next().unwrap_or_default();
            if name != "x" && !failures.contains(name) {
                unknown.insert(format!("failed_open {name:?} in {document}"));
            }
        }
        // "`harm` in the log", "`host-down` and `host-up` in the log"; what a record says follows its name, after "with".
        let mut parts: Vec<&str> = text.split(" in the log").collect();
        parts.pop();
        for before in parts {
            let clause = before
                .rsplit(['.', ',', ';', '|', '\n'])
                .next()
                .unwrap_or_default();
            if !clause.ends_with('`') {
                continue;
            }
            let clause = clause.split(" with ").next().unwrap_or_default();
            for kind in spans(clause) {
                count += 1;
                if !kinds.contains(kind) {
                    unknown.insert(format!("the record {kind} in {document}"));
                }
            }
        }
    }
    assert!(count > 4, "the documents name records");
    assert_none("records and failures that nobody writes", &unknown);
}
