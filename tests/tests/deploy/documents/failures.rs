//! `docs/failures.md` names a test for every failure, and the test exists.

use std::collections::BTreeSet;
use std::fs;

use scry_tests::{files, root};

use super::{quoted, rows};
use crate::text;

const PAGE: &str = "docs/failures.md";

/// Collects the names of all tests: functions marked as such, and cases of tests that have a `main` of their own.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in files(&root()) {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = fs::read_to_string(&path).expect("sources are text");
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                let function = lines[at..].iter().find_map(|line| {
                    let line = line.strip_prefix("async ").unwrap_or(line);
                    line.strip_prefix("fn ")?.split('(').next()
                });
                names.extend(function.map(str::to_owned));
            }
        }
        // Cases are listed as `("name", function)` or, where the name is the function's, by a macro or an array.
        if path.ends_with("safety/cases.rs") || path.ends_with("checker_process/main.rs") {
            let words =
                source.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
            names.extend(words.filter(|word| word.contains('_')).map(str::to_owned));
        }
    }
    names
}

#[test]
fn every_failure_names_tests_that_exist() {
    let known = tests();
    assert!(known.len() > 200, "tests can be found");
    assert!(!known.contains("there_is_no_such_test"));
    let page = text(PAGE);
    let rows = rows(&page);
    assert!(rows.len() >= 12, "the matrix has a row for every failure");
    for row in rows {
        let [failure, verdict, metric, proof] = &row[..] else {
            panic!("a row has four cells: {row:?}");
        };
        assert!(!verdict.is_empty() && !metric.is_empty(), "{failure}");
        let named = quoted(proof);
        assert!(!named.is_empty(), "{failure} has no test");
        for name in named {
            assert!(known.contains(name), "{failure}: there is no test {name}");
        }
    }
}

#[test]
fn every_failure_that_is_counted_by_name_is_on_the_page() {
    let page = text(PAGE);
    let controller = text("agent/src/controller.rs") + &text("agent/src/controller/running.rs");
    let mut names: Vec<&str> = controller
        .split("fail_open(")
        .skip(1)
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .collect();
    let (_, mapped) = controller
        .split_once("fn failure_name")
        .expect("failures of the host have names");
    let (mapped, _) = mapped.split_once("\n}").expect("a function ends");
    names.extend(mapped.split('"').skip(1).step_by(2));
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(
            page.contains(&format!("\"{name}\"")),
            "{name} is not on {PAGE}"
        );
    }
}
