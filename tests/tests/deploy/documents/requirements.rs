//! `docs/requirements.md` has a row for every requirement that is cited by its id, and no other. The tests that a row names
//! are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::ops::Range;

use scry_tests::{files, root};

use super::tested::by_file;
use super::{quoted, rows};
use crate::text;

const PAGE: &str = "docs/requirements.md";
/// What changed may be about what is gone, and the page itself cites nothing.
const UNREAD: [&str; 2] = ["CHANGELOG.md", PAGE];
const UNTESTED: &str = "not tested: ";

/// The id of a requirement: the letter of its table and a number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Id {
    letter: char,
    number: u16,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.letter, self.number)
    }
}

/// Reads the id around a dash: a letter from A to I before it and one to three digits after it, with no word around them.
fn id_around(text: &str, dash: usize) -> Option<(Id, Range<usize>)> {
    let bytes = text.as_bytes();
    let start = dash.checked_sub(1)?;
    let digits = &bytes[dash + 1..];
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let end = dash + 1 + digits.count();
    let is_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let before = start.checked_sub(1).and_then(|at| bytes.get(at));
    let letter = char::from(bytes[start]);
    if !('A'..='I').contains(&letter) || is_word(before) || is_word(bytes.get(end)) {
        return None;
    }
    let digits = &text[dash + 1..end];
    let number = digits.parse().ok().filter(|_| digits.len() <= 3)?;
    Some((Id { letter, number }, start..end))
}

/// Finds the ids in a text. Two of one letter with `…` between them stand for all from the first to the second.
fn ids(text: &str) -> BTreeSet<Id> {
    let mut found = BTreeSet::new();
    let mut last: Option<(Id, usize)> = None;
    for (dash, _) in text.match_indices('-') {
        let Some((id, place)) = id_around(text, dash) else {
            continue;
        };
        let first = match last {
            Some((first, end))
                if first.letter == id.letter && text.get(end..place.start) == Some("…") =>
            {
                first.number.min(id.number)
            }
            _ => id.number,
        };
        found.extend((first..=id.number).map(|number| Id { number, ..id }));
        last = Some((id, place.end));
    }
    found
}

/// Finds the ids that the name of a test begins with.
fn ids_of_test(name: &str) -> Vec<Id> {
    let mut found = Vec::new();
    let mut parts = name.split('_');
    while let (Some(letter), Some(number)) = (parts.next(), parts.next()) {
        let letter = letter.to_ascii_uppercase();
        let written = format!("{letter}-{number}");
        match id_around(&written, letter.len()) {
            Some((id, place)) if place == (0..written.len()) => found.push(id),
            _ => break,
        }
    }
    found
}

/// Finds every id that is cited in code, documents and settings, or by the name of a test, and one place where it is.
fn cited(tests: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<Id, String> {
    let mut found = BTreeMap::new();
    for path in files(&root()) {
        let name = path.strip_prefix(root()).expect("it is below").display();
        let name = name.to_string();
        let is_read = ["rs", "md", "toml"]
            .iter()
            .any(|ending| path.extension().is_some_and(|it| it == *ending));
        if !is_read || UNREAD.contains(&name.as_str()) {
            continue;
        }
        // Some files that tests read are no text on purpose.
        let read = fs::read(&path).expect("the project's files can be read");
        for id in ids(&String::from_utf8_lossy(&read)) {
            found.entry(id).or_insert_with(|| name.clone());
        }
    }
    for (path, names) in tests {
        for id in names.iter().flat_map(|name| ids_of_test(name)) {
            found.entry(id).or_insert_with(|| path.clone());
        }
    }
    assert!(found.len() > 80, "requirements are cited: {found:?}");
    found
}

/// Reads a row's id, which can be linked to: `<a id="…"></a>` and then the id.
fn id_of_row(cell: &str) -> Option<Id> {
    let (anchor, written) = cell.strip_prefix("<a id=\"")?.split_once("\"></a>")?;
    let (id, place) = id_around(written, written.find('-')?)?;
    (anchor == written && place == (0..written.len())).then_some(id)
}

/// Says what is wrong with the tests that a row names.
fn wrong_tests(held: &str, tests: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    if held
        .strip_prefix(UNTESTED)
        .is_some_and(|why| !why.is_empty())
    {
        return Vec::new();
    }
    let named = quoted(held);
    if named.is_empty() {
        return vec![format!("names no test, and no reason after {UNTESTED:?}")];
    }
    let mut wrong = Vec::new();
    for span in named {
        let Some((path, names)) = span.split_once(": ") else {
            wrong.push(format!("`{span}` is not a file, a colon and tests"));
            continue;
        };
        let Some(there) = tests.get(path) else {
            wrong.push(format!("there is no file {path}"));
            continue;
        };
        let absent = names.split(", ").filter(|name| !there.contains(*name));
        wrong.extend(absent.map(|name| format!("there is no test {name} in {path}")));
    }
    wrong
}

#[test]
fn every_cited_requirement_has_a_row_and_every_row_is_cited_and_held() {
    let tests = by_file();
    let cited = cited(&tests);
    let mut listed = BTreeSet::new();
    let mut wrong = Vec::new();
    for row in rows(&text(PAGE)) {
        let [name, asks, held] = &row[..] else {
            wrong.push(format!("a row is not id, what it asks and tests: {row:?}"));
            continue;
        };
        let Some(id) = id_of_row(name) else {
            wrong.push(format!(
                "a row does not begin with an anchor and an id: {name}"
            ));
            continue;
        };
        if !listed.insert(id) {
            wrong.push(format!("{id} has two rows"));
        }
        if asks.is_empty() {
            wrong.push(format!("{id} asks nothing"));
        }
        let wrong_tests = wrong_tests(held, &tests);
        wrong.extend(wrong_tests.iter().map(|what| format!("{id}: {what}")));
    }
    let missing = cited.iter().filter(|(id, _)| !listed.contains(*id));
    wrong.extend(missing.map(|(id, path)| format!("{id} is cited in {path} and has no row")));
    let idle = listed.iter().filter(|id| !cited.contains_key(*id));
    wrong.extend(idle.map(|id| format!("{id} has a row and is cited nowhere")));
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn ids_are_found_and_words_that_look_alike_are_not() {
    let check = |text: &str, expect: &[u16]| {
        let found: Vec<u16> = ids(text).iter().map(|id| id.number).collect();
        assert_eq!(found, expect, "{text}");
    };
    // Written in two pieces, so that this file cites nothing.
    check(concat!("(A", "-7, B", "-123)."), &[7, 123]);
    check(concat!("A", "-9…A", "-12 and so on"), &[9, 10, 11, 12]);
    check(concat!("A", "-9…B", "-12"), &[9, 12]);
    check(
        concat!(
            "UTF", "-8, 1E", "-9, A", "-1234, J", "-1, A", "-b, A", "-1b"
        ),
        &[],
    );
    assert_eq!(ids_of_test("a_8_a_81_stacked").len(), 2);
    assert_eq!(ids_of_test("a_path_of_f_4"), []);
}
