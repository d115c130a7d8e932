//! The command line every service gets by one line: `scry::main::<MyService>()`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`check`] | `check`: explore a scenario and report |
//! | [`node`] | `node`: run one live node |
//! | [`properties`] | `properties`: read a property file and show how it is judged |
//! | `settings` | the options that strategies bring |
//! | `stored` | trace files: where a search begins, and what it found |
//! | `progress` | the line that moves while it does |
//! | `memory` | how much there is |
//! | `interrupt` | Ctrl-C, once to report and twice to end |
//! | [`text`], [`json`] | the report for people and for machines |
//! | [`diagram`] | a path as a sequence diagram in text |

pub mod check;
pub mod diagram;
mod interrupt;
pub mod json;
mod memory;
pub mod node;
mod progress;
pub mod properties;
mod settings;
mod stored;
pub mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::program::{Bug, Program};
use scry_engine::Strategy;

/// Everything is as it should be.
pub const EXIT_FINE: u8 = 0;
/// A property is violated.
pub const EXIT_VIOLATED: u8 = 1;
/// The search was interrupted before it found anything; what a program that a shell interrupts exits with.
pub const EXIT_INTERRUPTED: u8 = 130;
/// The command line cannot be understood (`EX_USAGE`).
pub const EXIT_USAGE: u8 = 64;
/// The operating system refuses something (`EX_OSERR`).
pub const EXIT_SYSTEM: u8 = 71;
/// The service's own code panicked; what a panicking program exits with.
pub const EXIT_PANIC: u8 = 101;
/// A file that was named cannot be understood (`EX_CONFIG`).
pub const EXIT_CONFIGURATION: u8 = 78;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Explores what can become of a scenario, and reports every way to break a property.
    ///
    /// It stops after 60 seconds or when its tables take a quarter of the memory, unless it is told otherwise, and at Ctrl-C
    /// reports what it has found. The last line is the verdict, and says what ended the search.
    ///
    /// Exits with 0 if nothing is wrong, with 1 if a property is violated, with 64 if the command line cannot be
    /// understood, with 78 if the property file cannot, with 130 if it was interrupted before it found anything.
    Check(Box<check::Check>),
    /// Runs one live node of this service over TCP and UDP.
    ///
    /// Exits with 0 if it was shut down, with 64 if the command line cannot be understood, with 71 if its ports or its
    /// disk cannot be used, with 101 if a handler panicked.
    Node(Box<node::Node>),
    /// Reads a property file for this service and shows how each property is judged.
    ///
    /// Exits with 0 if it can be used, with 78 if something is wrong with it, which is then said.
    Properties(properties::Properties),
}

/// Runs a service's command line with the arguments of the process; in a role of its own, if it has one
/// ([`enter`](crate::enter())).
pub fn main<S: Program>() -> ExitCode {
    Executable::of::<S>().main()
}

/// All that an executable can be for a service, without the service's type: for a program that is more than one service.
///
/// The crate that defines a service keeps one in a `static`. Whoever uses that builds nothing of it again: all that scry does
/// for a service is compiled for its type, where this is made.
#[derive(Clone, Copy, Debug)]
pub struct Executable {
    enter: fn(),
    run: fn(Vec<OsString>) -> u8,
}

impl Executable {
    /// Returns that of a service.
    #[must_use]
    pub const fn of<S: Program>() -> Self {
        Self {
            enter: crate::enter::<S>,
            run: run::<S>,
        }
    }

    /// As [`main`].
    pub fn main(&self) -> ExitCode {
        self.enter();
        ExitCode::from(self.run(std::env::args_os().collect()))
    }

    /// As [`enter`](crate::enter()).
    pub fn enter(&self) {
        (self.enter)();
    }

    /// Runs the command line with these arguments, of which the first is the program's name, and returns the exit code.
    pub fn run(&self, arguments: Vec<OsString>) -> u8 {
        (self.run)(arguments)
    }
}

fn run<S: Program>(arguments: Vec<OsString>) -> u8 {
    let scenarios = S::scenarios();
    let words = Words {
        about: S::ABOUT,
        scenarios: scenarios.iter().map(|it| (it.name, it.about)).collect(),
        bugs: S::bugs(),
        add_options: S::Options::augment_args,
    };
    let own = |(mut command, matches, settings): (Command, ArgMatches, Vec<&'static str>)| {
        let options = match matches.subcommand() {
            Some(("check", matches)) => {
                if let Command::Check(check) = &mut command {
                    check.choose(settings::read(matches, &settings));
                }
                Some(S::Options::from_arg_matches(matches)?)
            }
            _ => None,
        };
        Ok((command, options))
    };
    match words.parse(arguments).and_then(own) {
        Ok((Command::Check(check), Some(options))) => check::run::<S>(&check, &options),
        Ok((Command::Check(_), None)) => EXIT_USAGE,
        Ok((Command::Node(arguments), _)) => node::run::<S>(&arguments),
        Ok((Command::Properties(arguments), _)) => properties::run::<S>(&arguments),
        Err(error) => refuse(&error),
    }
}

fn refuse(error: &clap::Error) -> u8 {
    // Nothing is left to be done if the message cannot be written.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => EXIT_FINE,
        _ => EXIT_USAGE,
    }
}

/// What a service adds to the command line.
struct Words {
    about: &'static str,
    /// Names, and what they show.
    scenarios: Vec<(&'static str, &'static str)>,
    bugs: &'static [Bug],
    /// Adds the options of `check` that are its own.
    add_options: fn(clap::Command) -> clap::Command,
}

impl Words {
    /// Adds what is the service's own to `check`, and what strategies bring; lists the options of the latter. What the service's
    /// options say of themselves as a whole is not what `check` is about.
    fn complete(&self, check: clap::Command) -> (clap::Command, Vec<&'static str>) {
        let (about, long_about) = (check.get_about().cloned(), check.get_long_about().cloned());
        let check = (self.add_options)(check).after_help(self.catalogue());
        let (mut check, settings) = settings::add(check);
        if let Some(about) = about {
            check = check.about(about);
        }
        if let Some(long_about) = long_about {
            check = check.long_about(long_about);
        }
        (check, settings)
    }

    fn parse(
        &self,
        arguments: Vec<OsString>,
    ) -> Result<(Command, ArgMatches, Vec<&'static str>), clap::Error> {
        let mut settings = Vec::new();
        let command = Arguments::command()
            .about(self.about)
            .mut_subcommand("check", |check| {
                let (check, added) = self.complete(check);
                settings = added;
                check
            });
        let matches = command.try_get_matches_from(arguments)?;
        let Arguments { command } = Arguments::from_arg_matches(&matches)?;
        Ok((command, matches, settings))
    }

    /// Lists what this service's scenarios and bugs and what strategies are called.
    fn catalogue(&self) -> String {
        let rows = |heading: &str, rows: &mut dyn Iterator<Item = (&'static str, &'static str)>| {
            rows.fold(format!("{heading}:\n"), |text, (name, about)| {
                text + &format!("  {name:<18} {about}\n")
            })
        };
        let scenarios = rows("Scenarios", &mut self.scenarios.iter().copied());
        let strategies = rows(
            "Strategies",
            &mut Strategy::all().map(|it| (it.name(), it.about())),
        );
        let strategies = strategies.trim_end();
        if self.bugs.is_empty() {
            return format!("{scenarios}\n{strategies}");
        }
        let bugs = rows("Bugs", &mut self.bugs.iter().map(|it| (it.name, it.about)));
        format!(
            "{scenarios}\n{bugs}  {:<18} all of them\n\n{strategies}",
            "all"
        )
    }
}
