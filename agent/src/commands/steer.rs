//! `scry steer`: the switch that always works. It needs nothing but the agent's address; if no agent answers, it writes the
//! kill file, which the service's hook obeys by itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::client::{AskError, Target};
use super::{EXIT_FAILED, EXIT_FINE, EXIT_USAGE, mode};
use crate::configuration::Mode;

/// What a kill file says that this command wrote.
const OFF: &str = "off\n";

/// What `steer` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Steer {
    /// on: prevent what is predicted; off: do nothing at all.
    #[arg(value_enum)]
    switch: Switch,
    /// Ask no agent: write the kill file (off), or remove it (on). Where there is no `touch`, this is how.
    #[arg(long)]
    file: bool,
    /// The kill file. Without it, `steering.kill_file` of the configuration, or /run/scry/off.
    #[arg(long, value_name = "FILE")]
    kill_file: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// On or off.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Switch {
    /// Prevent.
    On,
    /// Nothing.
    Off,
}

impl Steer {
    /// Throws the switch, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        if self.file {
            return self.throw_file();
        }
        let mode = match self.switch {
            Switch::On => Mode::Steer,
            Switch::Off => Mode::Off,
        };
        let wish = mode::wish(mode, None);
        match self.target.try_ask("POST", "/mode", Some(&wish)) {
            Ok(answer) => {
                println!("{}", mode::told(&answer));
                EXIT_FINE
            }
            Err(error) => {
                eprintln!("error: {error}");
                match (&error, self.switch) {
                    (AskError::Address(_), _) => EXIT_USAGE,
                    // Whoever wants it off gets it off, agent or not.
                    (_, Switch::Off) => self.throw_file(),
                    (_, Switch::On) => EXIT_FAILED,
                }
            }
        }
    }

    /// Writes or removes the kill file.
    fn throw_file(&self) -> u8 {
        let named = self.kill_file.clone().or_else(|| self.target.kill_file());
        let Some(file) = named else {
            eprintln!(
                "error: the configuration says that there is no kill file; name it by --kill-file"
            );
            return EXIT_FAILED;
        };
        let shown = file.display();
        let (done, said) = match self.switch {
            Switch::Off => (
                write(&file),
                format!(
                    "off: wrote {shown}, which every service that knows it obeys within a second"
                ),
            ),
            Switch::On => (
                remove(&file),
                format!("{shown} is gone: what the agent's mode says counts again"),
            ),
        };
        match done {
            Ok(()) => {
                println!("{said}");
                EXIT_FINE
            }
            Err(error) => {
                eprintln!("error: {shown}: {error}");
                EXIT_FAILED
            }
        }
    }
}

fn write(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, OFF)
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
