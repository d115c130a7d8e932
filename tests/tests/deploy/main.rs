//! What is in `deploy/` and `docs/` is held against the rules of whoever reads it, and against the code.

mod alerts;
mod container;
mod documents;
mod helm;
mod kubernetes;
mod machine;
mod properties;
mod schema;
mod supply;
mod unit;

use std::fs;
use std::path::{Path, PathBuf};

use scry_tests::root;

/// Reads a file of the project.
fn text(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Finds a program, so that a test can ask it and otherwise say that it did not.
fn program(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!("{name} is not installed: only our own rules were applied");
    }
    found
}

/// A folder of this test process, removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("scry-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is the system's to clean up.
        let _ = fs::remove_dir_all(&self.0);
    }
}
