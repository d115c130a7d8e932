//! Broken files, each with what is said about it.

use std::fs;
use std::path::{Path, PathBuf};

use scry_engine::{Property, View};
use scry_properties::{FILE_BYTES_MAX, PropertyFile, Schema};

use crate::zoo::Zoo;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a text with the file that holds what is expected; `SCRY_REGENERATE=1` writes the file instead.
pub(crate) fn compare(path: impl AsRef<Path>, actual: &str) {
    let path = root().join(path);
    if std::env::var_os("SCRY_REGENERATE").is_some() {
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        actual,
        expected,
        "{}: SCRY_REGENERATE=1 accepts it",
        path.display()
    );
}

pub(crate) fn registered() -> Vec<Property<Zoo>> {
    let quiet = |view: &View<'_, Zoo>| view.state.inflight.is_empty();
    vec![
        Property::node("nothing is in flight", quiet),
        Property::node("terms never shrink", |_| true),
    ]
}

pub(crate) fn bad_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("tests/bad-properties")).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_bad_file_is_told_what_is_wrong() {
    let files = bad_files();
    assert!(files.len() >= 25, "only {} bad files", files.len());
    let schema = Schema::of::<Zoo>();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        let said = match PropertyFile::load(&name, &bytes, &schema, registered()) {
            Ok(_) => panic!("{name} is not bad"),
            Err(diagnostics) => format!("{diagnostics}\n"),
        };
        compare(path.with_extension("txt"), &said);
    }
}

#[test]
fn a_huge_file_is_refused() {
    let bytes = vec![b'#'; FILE_BYTES_MAX + 1];
    let said = PropertyFile::parse("huge.toml", &bytes)
        .unwrap_err()
        .to_string();
    assert!(said.contains("this file has 262145 bytes"), "{said}");
}

#[test]
fn a_file_of_many_properties_is_refused() {
    let entry = |at: usize| format!("[[property]]\nname = 'p{at}'\nalways = 'true'\n");
    let source: String = (0..1025).map(entry).collect();
    let said = PropertyFile::parse("many.toml", source.as_bytes()).unwrap_err();
    assert_eq!(said.all()[0].message(), "this file holds 1025 properties");
}

#[test]
fn nothing_nests_deep_enough_to_break() {
    let deep = [
        "(".repeat(4000),
        "[".repeat(4000),
        "!".repeat(4000) + "true",
        "-".repeat(4000) + "1 == 1",
        "a.".repeat(4000) + "b",
        "true ? ".repeat(1000) + "true" + &" : true".repeat(1000),
        "nodes.all(n, ".repeat(600),
        format!("size(reach(self, '{}')) == 0", "a.".repeat(3000)),
        "1 + ".repeat(450) + "1 == 1",
    ];
    for expression in deep {
        let source = format!("[[property]]\nname = 'x'\nalways = \"{expression}\"\n");
        let shown: String = expression.chars().take(30).collect();
        let result =
            PropertyFile::load::<Zoo>("deep", source.as_bytes(), &Schema::of::<Zoo>(), Vec::new());
        let is_fine = shown.starts_with('!') || shown.starts_with('-');
        if !is_fine {
            assert!(result.is_err(), "{shown}");
        }
    }
    let toml = format!("property = {}", "[".repeat(5000));
    assert!(PropertyFile::parse("deep", toml.as_bytes()).is_err());
}

#[test]
fn a_property_in_rust_is_switched_on_by_name() {
    let source = b"[[property]]\nname = 'nothing is in flight'\nmode = 'audit'";
    let set = PropertyFile::load("f", source, &Schema::of::<Zoo>(), registered()).unwrap();
    assert_eq!(set.always.len(), 1);
    assert_eq!(set.properties()[0].name(), "nothing is in flight");
    assert_eq!(
        set.listing(),
        "nothing is in flight\n  always, audit\n  registered in Rust, per node\n"
    );
}

#[test]
fn a_property_that_is_off_is_not_judged() {
    let source = b"[[property]]\nname = 'x'\nmode = 'off'\nalways = 'self.leader'";
    let set = PropertyFile::load::<Zoo>("f", source, &Schema::of::<Zoo>(), Vec::new()).unwrap();
    assert!(set.properties().is_empty());
    assert_eq!(set.always.len(), 1);
}
