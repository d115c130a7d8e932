//! `scry man`: the manual, made from the commands themselves.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::CommandFactory;
use clap_mangen::Man;

use super::{EXIT_FAILED, EXIT_FINE};

/// What `man` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Manual {
    /// Writes a page for every command into this folder, instead of the page of `scry` itself to the output.
    folder: Option<PathBuf>,
}

impl Manual {
    /// Prints or writes the manual, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let command = crate::Arguments::command();
        let written = match &self.folder {
            Some(folder) => std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(command, folder)),
            None => print(command),
        };
        match written {
            Ok(()) => EXIT_FINE,
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => EXIT_FINE,
            Err(error) => {
                eprintln!("error: the manual cannot be written: {error}");
                EXIT_FAILED
            }
        }
    }
}

fn print(command: clap::Command) -> io::Result<()> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    io::stdout().write_all(&page)
}
