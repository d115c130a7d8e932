//! What tests of the whole project share: its files, for the tests of house rules, and clusters that are attacked.

pub mod attack;

use std::path::{Path, PathBuf};

/// Returns the folder of the whole project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package is in the project's folder")
        .to_owned()
}

/// Lists the files below a folder, except what is built.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).expect("the project's folders can be read");
    for entry in entries {
        let path = entry.expect("the project's folders can be read").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name == "target" || name == ".git" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
