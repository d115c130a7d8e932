//! Which tests there are, and where: pages that name tests are held against that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use scry_tests::{files, root};

/// Writes a path below the project's folder as the documents do.
fn from_root(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("it is below");
    path.display().to_string()
}

/// Reads all sources below a folder, with their paths from the project's folder on.
pub(super) fn sources(folder: &str) -> Vec<(String, String)> {
    let folder = root().join(folder);
    let is_rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    files(&folder)
        .into_iter()
        .filter(|path| is_rust(path))
        .map(|path| {
            let source = fs::read_to_string(&path).expect("sources are text");
            (from_root(&path), source)
        })
        .collect()
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

/// Collects the names of all tests, by the file they are in.
pub(super) fn by_file() -> BTreeMap<String, BTreeSet<String>> {
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
                .filter_map(|path| Some(from_root(folder.join(path).parent()?)))
                .collect();
            alone
        })
        .collect();
    assert!(
        !alone.is_empty(),
        "some tests have a `main` of their own: {alone:?}"
    );
    let mut found = BTreeMap::new();
    for (path, source) in sources("") {
        let mut names: BTreeSet<String> = marked(&source).into_iter().collect();
        let is_alone = |folder: &String| Path::new(&path).starts_with(folder);
        if alone.iter().any(is_alone) {
            names.extend(cases(&source));
        }
        found.insert(path, names);
    }
    let all = || found.values().flatten();
    assert!(all().count() > 200, "tests can be found");
    assert!(
        all().all(|name| name != "is_empty"),
        "a function is no test for being one"
    );
    found
}
