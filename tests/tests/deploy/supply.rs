//! What is built in: licenses, bans and sources as `deny.toml` has them, from `cargo metadata` alone.
//!
//! `cargo deny` says the same and more, but takes minutes to build; `.ci/run` uses it where it is installed.

use std::process::Command;

use scry_tests::root;
use serde_json::Value;

use crate::text;

fn rules() -> toml::Table {
    text("deny.toml").parse().expect("deny.toml is TOML")
}

/// Lists the packages of the workspace and all below them that are built on Linux.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("a list").clone();
    assert!(packages.len() > 100, "there are packages");
    packages
}

/// Tells whether a license expression can be fulfilled with these licenses: `OR` (or `/`, as of old) lets one choose, `AND`
/// asks for all, and binds closer.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let holds = either(&words, &mut at, allowed);
    assert_eq!(at, words.len(), "{expression:?} can be read");
    holds
}

fn either(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let mut holds = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= all(words, at, allowed);
    }
    holds
}

fn all(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let mut holds = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= one(words, at, allowed);
    }
    holds
}

fn one(words: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let Some(&word) = words.get(*at) else {
        return false;
    };
    *at += 1;
    if word == "(" {
        let holds = either(words, at, allowed);
        *at += 1;
        return holds;
    }
    // An exception only allows more.
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    allowed.contains(&word)
}

#[test]
fn every_license_is_one_that_may_be_shipped() {
    let rules = rules();
    let allowed = rules["licenses"]["allow"].as_array().expect("a list");
    let allowed: Vec<&str> = allowed.iter().filter_map(toml::Value::as_str).collect();
    let mut used = vec![false; allowed.len()];
    for package in packages() {
        let license = package["license"].as_str().unwrap_or_default();
        let name = &package["name"];
        assert!(is_allowed(license, &allowed), "{name} is under {license:?}");
        for (used, allowed) in used.iter_mut().zip(&allowed) {
            *used |= license.contains(allowed);
        }
    }
    let unused: Vec<_> = allowed.iter().zip(used).filter(|(_, used)| !used).collect();
    assert!(unused.is_empty(), "allowed, but of nothing: {unused:?}");
}

#[test]
fn nothing_that_is_banned_is_built_in_and_everything_has_one_source() {
    let rules = rules();
    let banned = rules["bans"]["deny"].as_array().expect("a list");
    let banned: Vec<&str> = banned
        .iter()
        .filter_map(|ban| ban["crate"].as_str())
        .collect();
    assert!(banned.len() > 3);
    let packages = packages();
    for package in &packages {
        let name = package["name"].as_str().expect("a name");
        assert!(!banned.contains(&name), "{name} is banned");
        for dependency in package["dependencies"].as_array().expect("a list") {
            let is_own = package["source"].is_null();
            let wildcard = dependency["req"] == "*" && dependency["path"].is_null();
            assert!(
                !(is_own && wildcard),
                "{name} takes any {}",
                dependency["name"]
            );
        }
    }
    // Without a source is what is in this workspace. A second registry, or a repository, would be a second source.
    let mut sources: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["source"].as_str())
        .collect();
    sources.sort_unstable();
    sources.dedup();
    let [source] = sources[..] else {
        panic!("there are several sources: {sources:?}");
    };
    assert!(source.starts_with("registry+"), "{source}");
}

#[test]
fn license_expressions_mean_what_spdx_says() {
    let check = |expression, expect| {
        assert_eq!(
            is_allowed(expression, &["MIT", "ISC"]),
            expect,
            "{expression}"
        );
    };
    check("MIT", true);
    check("GPL-3.0", false);
    check("GPL-3.0 OR MIT", true);
    check("Apache-2.0/MIT", true);
    check("MIT AND GPL-3.0", false);
    check("MIT AND ISC", true);
    check("GPL-3.0 OR MIT AND ISC", true);
    check("(GPL-3.0 OR MIT) AND ISC", true);
    check("(GPL-3.0 OR MIT) AND BSD-2-Clause", false);
    check("MIT WITH LLVM-exception", true);
    check("", false);
}

#[test]
fn the_project_says_under_which_license_and_for_which_compiler_it_is() {
    let license = text("LICENSE");
    assert!(license.contains("Apache License") && license.contains("END OF TERMS AND CONDITIONS"));
    let workspace: toml::Table = text("Cargo.toml").parse().expect("the workspace is TOML");
    let common = &workspace["workspace"]["package"];
    assert_eq!(common["license"].as_str(), Some("Apache-2.0"));
    let stated = common["rust-version"].as_str().expect("a version");
    for package in packages() {
        if package["source"].is_null() {
            let name = &package["name"];
            assert_eq!(package["license"], "Apache-2.0", "{name}");
            assert_eq!(package["rust_version"], stated, "{name}");
        }
    }
}
