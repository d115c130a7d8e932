//! `docs/failures.md` is for operators; `tests/failures.toml` names the tests that hold each of its rows. The two belong
//! together, the tests are tests, and the failures that are counted by name are those that some code counts.

use std::collections::{BTreeMap, BTreeSet};

use super::rows;
use super::tested::{by_file, sources};
use crate::text;

const PAGE: &str = "docs/failures.md";
const TESTS: &str = "tests/failures.toml";

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
    let known: BTreeSet<String> = by_file().into_values().flatten().collect();
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
