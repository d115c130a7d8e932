//! Exact counts and exact paths of every hunt, kept in `tests/golden/`. None of it depends on time.
//!
//! After an intended change: `SCRY_REWRITE=1 cargo test -p bugs --test golden`, and read the difference.

use std::path::PathBuf;

use bugs::catalogue::{self, Case};
use bugs::row::{Found, Reach, Row};

#[track_caller]
fn check(bug: &str) {
    let case = catalogue::ALL.iter().find(|case| case.bug == bug);
    let case = case.expect("the catalogue has the bug");
    let row = case.hunt(None).expect("the scenario leads to a search");
    assert!(row.fixed.violations.is_empty(), "{:?}", row.fixed);

    let actual = golden(&row);
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{bug}.txt"));
    if std::env::var_os("SCRY_REWRITE").is_some() {
        std::fs::write(&file, actual).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; SCRY_REWRITE=1 makes it", file.display()));
    assert!(
        actual == expected,
        "{} says\n\n{expected}\nbut it is now\n\n{actual}\nIf that is intended: SCRY_REWRITE=1",
        file.display()
    );
}

fn golden(row: &Row) -> String {
    let Case {
        service,
        bug,
        scenario,
        property,
        ..
    } = row.case;
    let levels = row.levels.as_ref().expect("the bug is found");
    let extent = match row.fixed.complete {
        true => "complete",
        false => "bounded",
    };
    [
        format!("{service} {bug}, scenario {scenario}"),
        format!("property: {property}"),
        format!("start state: {} steps in", row.start_steps),
        format!(
            "to depth {}: consequence {} states, breadth-first {} states",
            levels.depth, levels.consequence.states, levels.exhaustive.states
        ),
        format!(
            "reach: consequence {}, breadth-first {}",
            reach(&row.consequence_reach),
            reach(&row.exhaustive_reach)
        ),
        format!(
            "fixed: no violation in {} states, to {}, {extent}",
            row.fixed.states, row.fixed.bound
        ),
        format!("\nconsequence: {}", told(&row.consequence)),
        format!("\nbreadth-first: {}\n", told(&row.start_bfs)),
    ]
    .join("\n")
}

fn reach(reach: &Reach) -> String {
    let end = if reach.exhausted {
        ", all there is"
    } else {
        ""
    };
    format!("depth {} with {} states{end}", reach.depth, reach.states)
}

fn told(found: &Found) -> String {
    let told = found.told.as_ref().expect("the bug is found");
    format!(
        "depth {}, {} states\n{}\n{}",
        found.depth,
        found.states,
        told.explanation.as_deref().unwrap_or_default(),
        told.diagram.trim_end()
    )
}

#[test]
fn update_sibling() {
    check("update-sibling");
}

#[test]
fn new_root() {
    check("new-root");
}

#[test]
fn promote() {
    check("promote");
}

#[test]
fn timer() {
    check("timer");
}

#[test]
fn self_predecessor() {
    check("self-predecessor");
}

#[test]
fn ordering() {
    check("ordering");
}

#[test]
fn last_promise() {
    check("last-promise");
}

#[test]
fn volatile_promise() {
    check("volatile-promise");
}

#[test]
fn increment() {
    check("increment");
}

#[test]
fn every_bug_has_its_file_and_every_file_its_bug() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("there are golden files")
        .map(|entry| {
            let name = entry.expect("the folder can be read").file_name();
            name.to_string_lossy().trim_end_matches(".txt").to_owned()
        })
        .collect();
    files.sort();
    let mut bugs: Vec<&str> = catalogue::ALL.iter().map(|case| case.bug).collect();
    bugs.sort_unstable();
    assert_eq!(files, bugs);
}
