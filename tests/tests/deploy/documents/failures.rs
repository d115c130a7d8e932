//! `docs/failures.md` is for operators; `tests/failures.toml` names the tests that hold each of its rows. The two belong
//! together, the tests are tests, and the failures that are counted by name are those that some code counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use scry_tests::{files, root};

use super::rows;
use crate::text;

const PAGE: &str = "docs/failures.md";
const TESTS: &str = "tests/failures.toml";

/// Reads all sources below a folder, with their paths.
fn sources(folder: &str) -> Vec<(String, String)> {
    let folder = root().join(folder);
    let is_rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    files(&folder)
        .into_iter()
        .filter(|path| is_rust(path))
        .map(|path| {
            let source = fs::read_to_string(&path).expect("sources are text");
            (path.display().to_string(), source)
        })
        .collect()
}

/// Reads the sources of a crate without its tests: neither those in files of their own nor those at the foot of a file.
pub(super) fn code(folder: &str) -> Vec<(String, String)> {
    let mut read = sources(folder);
    read.retain(|(path, _)| !path.ends_with("tests.rs") && !path.contains("/tests/"));
    for (_, source) in &mut read {
        let end = source.find("#[cfg(test)]\nmod tests {");
        source.truncate(end.unwrap_or(source.len()));
    }
    read
}

/// Collects the functions that a source marks as tests.
fn marked(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_mark = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    let mut names = Vec::new();
    for at in (0..lines.len()).filter(|&at| is_mark(lines[at])) {
        // Between the mark and the function there may be other attributes and comments, nothing else.
        let mut rest = lines[at + 1..].iter();
        let next = rest.find(|line| !line.starts_with("#[") && !line.starts_with("//"));
        let function = next.and_then(|line| {
            let line = line.strip_prefix("async ").unwrap_or(line);
            line.strip_prefix("fn ")?.split(['(', '<']).next()
        });
        names.extend(function.map(str::to_owned));
    }
    names
}

/// Collects the cases of a test that has a `main` of its own: pairs `("name", function)`, where the function is there.
fn cases(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for rest in source.split('(').skip(1) {
        let Some((name, rest)) = rest
            .trim_start()
            .strip_prefix('"')
            .and_then(|rest| rest.split_once('"'))
        else {
            continue;
        };
        let Some((function, _)) = rest
            .trim_start()
            .strip_prefix(',')
            .and_then(|rest| rest.split_once(')'))
        else {
            continue;
        };
        let function = function.trim().trim_end_matches(',').trim_end();
        let is_path = !function.is_empty()
            && function
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':');
        if is_path {
            names.push(name.replace(' ', "_"));
        }
    }
    names
}

/// Collects the names of all tests.
fn tests() -> BTreeSet<String> {
    let alone: Vec<String> = files(&root())
        .iter()
        .filter(|path| path.ends_with("Cargo.toml"))
        .flat_map(|manifest| {
            let folder = manifest.parent().expect("a file is in a folder").to_owned();
            let manifest = fs::read_to_string(manifest).expect("a manifest is text");
            let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
            let tests = manifest.get("test").and_then(toml::Value::as_array);
            let alone: Vec<String> = tests
                .into_iter()
                .flatten()
                .filter(|test| test.get("harness").and_then(toml::Value::as_bool) == Some(false))
                .filter_map(|test| test.get("path")?.as_str())
                .filter_map(|path| Some(folder.join(path).parent()?.display().to_string()))
                .collect();
            alone
        })
        .collect();
    assert!(
        !alone.is_empty(),
        "some tests have a `main` of their own: {alone:?}"
    );
    let mut names = BTreeSet::new();
    for (path, source) in sources("") {
        names.extend(marked(&source));
        if alone.iter().any(|folder| path.starts_with(folder)) {
            names.extend(cases(&source));
        }
    }
    names
}

/// Returns the titles of the page's rows: what is bold at their start.
fn titles(page: &str) -> BTreeSet<String> {
    let rows = rows(page);
    let titles: BTreeSet<String> = rows
        .iter()
        .map(|row| {
            let [symptom, meaning, remedy] = &row[..] else {
                panic!("a row says symptom, meaning and what to do: {row:?}");
            };
            assert!(!meaning.is_empty() && !remedy.is_empty(), "{symptom}");
            let title = symptom.strip_prefix("**").and_then(|rest| {
                let (title, shown) = rest.split_once(".**")?;
                (!shown.trim().is_empty()).then_some(title)
            });
            title
                .unwrap_or_else(|| {
                    panic!("a row begins with **its title.** and what shows it: {symptom}")
                })
                .to_owned()
        })
        .collect();
    assert_eq!(titles.len(), rows.len(), "every title is there once");
    titles
}

#[test]
fn every_failure_has_tests_and_they_are_tests() {
    let known = tests();
    assert!(known.len() > 200, "tests can be found");
    assert!(
        !known.contains("is_empty"),
        "a function is no test for being one"
    );
    let held: BTreeMap<String, Vec<String>> = toml::from_str(&text(TESTS)).expect(TESTS);
    let listed: BTreeSet<String> = held.keys().cloned().collect();
    let page = text(PAGE);
    let titles = titles(&page);
    let untested: Vec<_> = titles.difference(&listed).collect();
    assert!(untested.is_empty(), "not in {TESTS}: {untested:?}");
    let unsaid: Vec<_> = listed.difference(&titles).collect();
    assert!(unsaid.is_empty(), "no row of {PAGE}: {unsaid:?}");
    for (title, names) in &held {
        assert!(!names.is_empty(), "{title} has no test");
        for name in names {
            assert!(known.contains(name), "{title}: there is no test {name}");
            assert!(
                !page.contains(name.as_str()),
                "{PAGE} is for operators: {name}"
            );
        }
    }
}

/// Returns the names under which failures are counted.
pub(super) fn counted() -> BTreeSet<String> {
    let literal = |rest: &str| {
        let rest = rest.trim_start().strip_prefix('"')?;
        Some(rest.split('"').next()?.to_owned())
    };
    let mut names = BTreeSet::new();
    let mut mapped = 0;
    for (_, source) in code("agent/src") {
        // Where it is counted in the agent, and where it is written without being counted.
        for before in ["fail_open(", "FailedOpen {\n                failure: "] {
            names.extend(source.split(before).skip(1).filter_map(literal));
        }
        if let Some((_, rest)) = source.split_once("fn failure_name(") {
            let (body, _) = rest.split_once("\n}").expect("a function ends");
            names.extend(body.split('"').skip(1).step_by(2).map(str::to_owned));
            mapped += 1;
        }
    }
    assert_eq!(mapped, 1, "the host's failures are named in one place");
    assert!(
        names.len() > 20 && names.contains("log-full"),
        "they are found: {names:?}"
    );
    names
}

#[test]
fn the_failures_on_the_page_are_those_that_are_counted() {
    let page = text(PAGE);
    let said: BTreeSet<String> = page
        .split("failed_open \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|name| *name != "x")
        .map(str::to_owned)
        .collect();
    assert_eq!(said, counted(), "left: {PAGE}, right: the code");
}

/// A name is emitted only if somebody calls what emits it: methods that are public escape the compiler's own lint.
#[test]
fn what_counts_failures_is_called() {
    let agent = code("agent/src");
    let mut handlers = 0;
    for (path, source) in &agent {
        if !path.contains("agent/src/controller") {
            continue;
        }
        for rest in source.split("pub fn handle_").skip(1) {
            let call = format!(".handle_{}(", rest.split('(').next().unwrap_or_default());
            handlers += 1;
            assert!(
                agent.iter().any(|(_, source)| source.contains(&call)),
                "nobody calls {call}…)"
            );
        }
    }
    assert!(
        handlers > 8,
        "the controller's handlers are found: {handlers}"
    );

    let host = text("protocol/src/link/host.rs");
    let (_, rest) = host
        .split_once("pub enum Failure {")
        .expect("failures of the host");
    let (body, _) = rest.split_once("\n    }").expect("an enumeration ends");
    let variants = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with('#'))
        .map(|line| line.split([' ', ',', '=']).next().unwrap_or_default());
    let service: String = code("steering/src")
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    let mut count = 0;
    for variant in variants {
        count += 1;
        assert!(
            service.contains(&format!("Failure::{variant}")),
            "nothing fails as {variant}"
        );
    }
    assert!(count >= 10, "the host's failures are found: {count}");
}
