//! `scry validate`: reads files and says all that is wrong with them.

use std::path::{Path, PathBuf};

use scry::properties::PropertyFile;

use super::{EXIT_CONFIGURATION, EXIT_FINE};
use crate::configuration::{Loaded, environment};
use crate::files;

/// What `validate` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Validate {
    /// Configurations and property files; a file with `[[property]]` in it is one of the latter.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

impl Validate {
    /// Checks every file, also after one that is wrong, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let mut code = EXIT_FINE;
        for path in &self.files {
            match check(path) {
                Ok(warnings) => {
                    for warning in warnings {
                        println!("warning: {warning}");
                    }
                    println!("{}: fine", path.display());
                }
                Err(said) => {
                    eprintln!("{said}");
                    code = EXIT_CONFIGURATION;
                }
            }
        }
        code
    }
}

/// Returns what somebody should do something about, or what is wrong.
fn check(path: &Path) -> Result<Vec<String>, String> {
    let name = path.display().to_string();
    let bytes = files::read(path).map_err(|error| format!("error: cannot read {name}: {error}"))?;
    if is_configuration(path, &bytes) {
        return match Loaded::load(path, &environment()) {
            Ok(loaded) => Ok(loaded.warnings()),
            Err(wrong) => Err(wrong.to_string()),
        };
    }
    match PropertyFile::parse(&name, &bytes) {
        Ok(_) => Ok(Vec::new()),
        Err(diagnostics) => Err(diagnostics.to_string()),
    }
}

/// Tells the two kinds of files apart: only a property file has properties, and only a configuration has the sections
/// of one or its usual name.
fn is_configuration(path: &Path, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let has = |header: &str| {
        text.lines()
            .any(|line| line.trim_start().starts_with(header))
    };
    if has("[[property]]") {
        return false;
    }
    path.file_name().is_some_and(|name| name == "scry.toml")
        || [
            "[node",
            "[host",
            "[peers",
            "[checker",
            "[checkpoint",
            "[steering",
            "[admin",
        ]
        .into_iter()
        .any(has)
}
