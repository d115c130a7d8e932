//! `scry validate`: reads files and says all that is wrong with them.

use std::path::PathBuf;

use scry::properties::PropertyFile;

/// A file cannot be understood (`EX_CONFIG`).
const EXIT_CONFIGURATION: u8 = 78;

/// What `validate` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Validate {
    /// Property files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

impl Validate {
    /// Checks every file, also after one that is wrong, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let mut code = 0;
        for path in &self.files {
            let name = path.display().to_string();
            let checked = match std::fs::read(path) {
                Ok(bytes) => PropertyFile::parse(&name, &bytes)
                    .map_err(|diagnostics| diagnostics.to_string()),
                Err(error) => Err(format!("error: cannot read {name}: {error}")),
            };
            match checked {
                Ok(_) => println!("{name}: fine"),
                Err(said) => {
                    eprintln!("{said}");
                    code = EXIT_CONFIGURATION;
                }
            }
        }
        code
    }
}
