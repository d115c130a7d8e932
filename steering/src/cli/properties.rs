//! `properties`: reads a property file for this service and shows how each property is judged.

use std::path::{Path, PathBuf};

use crate::cli::{EXIT_CONFIGURATION, EXIT_FINE};
use crate::program::Program;
use scry_properties::{PropertyFile, PropertySet, Schema};

/// What `properties` can be asked.
#[derive(Debug, clap::Args)]
pub struct Properties {
    /// The property file, in TOML with expressions in CEL.
    file: PathBuf,
}

/// Runs the command and returns the exit code.
pub fn run<S: Program>(arguments: &Properties) -> u8 {
    match load::<S>(&arguments.file) {
        Ok(set) => {
            print!("{}", set.listing());
            EXIT_FINE
        }
        Err(error) => {
            eprintln!("{error}");
            EXIT_CONFIGURATION
        }
    }
}

/// Reads a property file and compiles it for a service, or says all that is wrong with it.
pub(crate) fn load<S: Program>(path: &Path) -> Result<PropertySet<S>, String> {
    let name = path.display().to_string();
    let bytes =
        std::fs::read(path).map_err(|error| format!("error: cannot read {name}: {error}"))?;
    PropertyFile::load(&name, &bytes, &Schema::of::<S>(), S::properties())
        .map_err(|diagnostics| diagnostics.to_string())
}
