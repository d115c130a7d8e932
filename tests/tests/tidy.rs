//! House rules that no lint can see.

use std::fs;
use std::path::PathBuf;

use scry_tests::{files, root};

fn sources() -> Vec<(PathBuf, String)> {
    let rust = files(&root())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let read: Vec<_> = rust
        .map(|path| {
            (
                path.clone(),
                fs::read_to_string(&path).expect("sources are text"),
            )
        })
        .collect();
    assert!(read.len() > 50, "the project has sources");
    read
}

fn assert_none(what: &str, offenders: Vec<String>) {
    assert!(offenders.is_empty(), "{what}:\n{}", offenders.join("\n"));
}

#[test]
fn every_source_file_opens_by_saying_what_it_is_for() {
    let silent = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//! "));
    assert_none(
        "files that do not open with //!",
        silent.map(|(path, _)| path.display().to_string()).collect(),
    );
}

#[test]
fn no_source_file_has_grown_past_eight_hundred_lines() {
    let long = sources()
        .into_iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > 800);
    assert_none(
        "files with a second subject",
        long.map(|(path, lines)| format!("{}: {lines}", path.display()))
            .collect(),
    );
}

#[test]
fn modules_stand_beside_their_folders() {
    let named = sources().into_iter().filter(|(path, _)| {
        // A test or bench of several files has a main.rs; nothing has a mod.rs.
        path.file_name().is_some_and(|name| name == "mod.rs")
    });
    assert_none(
        "mod.rs files",
        named.map(|(path, _)| path.display().to_string()).collect(),
    );
}

#[test]
fn no_test_is_skipped_and_nothing_is_left_to_be_done() {
    let marks = [
        concat!("#[ig", "nore"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
    ];
    let marked = sources()
        .into_iter()
        .filter(|(_, text)| marks.iter().any(|mark| text.contains(mark)));
    assert_none(
        "skipped or unfinished",
        marked.map(|(path, _)| path.display().to_string()).collect(),
    );
}

#[test]
fn the_readme_stays_short_and_names_both_commands() {
    let readme = fs::read_to_string(root().join("README.md")).expect("there is a README");
    assert!(readme.lines().count() < 130);
    assert!(readme.contains("\ncargo run --release -p lab"));
    assert!(readme.contains("\ncargo test --workspace"));
}

#[test]
fn the_test_command_of_the_readme_is_what_ci_runs() {
    let ci = fs::read_to_string(root().join(".ci/run")).expect("there is a CI script");
    assert!(ci.contains("cargo test --workspace"));
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    let documents = files(&root())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut dead = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).expect("documents are text");
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = target.split('#').next().unwrap_or_default();
            let folder = document.parent().expect("a file is in a folder");
            if !path.is_empty() && !path.contains("://") && !folder.join(path).exists() {
                dead.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert_none("links that lead nowhere", dead);
}
