//! Hunts the papers' bugs and prints what each way of searching took.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use bugs::catalogue::{self, Case};
use bugs::initial::Watch;
use bugs::liveness::{self, LivenessRow};
use bugs::row::Row;
use bugs::{json, text, walks};
use clap::Parser;
use clap::error::ErrorKind;
use scry::cli::text::grouped;
use scry::cli::{EXIT_FINE, EXIT_USAGE, EXIT_VIOLATED};
use scry::explore::Counts;

/// Hunts the eight safety bugs that CrystalBall tells of, in the services of `examples/`.
///
/// Each is looked for by consequence prediction and by breadth-first search from the paper's start state, then by
/// breadth-first search from the initial state, where nothing has happened yet, for a hundred times as long as
/// consequence prediction took (at least 1 s, at most 30 s). Last, the service without bugs is explored to a bound.
///
/// Times, and so how far the search from the initial state comes, depend on the machine and on what else it does; use
/// a release build. All else is the same in every run.
///
/// With --liveness, the five bugs that MaceMC tells of are hunted instead: those that keep something from ever coming true. Each is
/// looked for by exhaustive search, which proves it, and by walks, as the paper does; then the service without bugs is searched.
///
/// With --walks, nothing is hunted: where the truth is known, it is told how far MaceMC's search for a critical transition is off,
/// and within how many steps walks come true.
///
/// Exits with 0 if every bug is found (a safety bug by consequence prediction, a liveness bug with what would have come true
/// instead) and no fixed service violates anything, else with 1; with 64 if the command line cannot be understood.
#[derive(Debug, Parser)]
#[command(name = "bugs", after_help = catalogue_text())]
struct Arguments {
    /// Print one JSON object instead of tables and diagrams.
    #[arg(long)]
    json: bool,
    /// Hunt the liveness bugs instead of the safety bugs.
    #[arg(long)]
    liveness: bool,
    /// Show how good walks are where the truth is known.
    #[arg(long, conflicts_with_all = ["liveness", "bug"])]
    walks: bool,
    /// Hunt only this bug (repeatable; see below).
    #[arg(long, value_name = "NAME", value_parser = known_bug)]
    bug: Vec<&'static str>,
}

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => ExitCode::from(run(&arguments)),
        Err(error) => {
            // Nothing is left to be done if the message cannot be written.
            let _ = error.print();
            ExitCode::from(match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => EXIT_FINE,
                _ => EXIT_USAGE,
            })
        }
    }
}

fn run(arguments: &Arguments) -> u8 {
    if arguments.walks {
        return run_walks(arguments);
    }
    if let Some(bug) = misplaced(arguments) {
        eprintln!(
            "error: `{bug}` is no {}",
            match arguments.liveness {
                true => "liveness bug: leave --liveness out",
                false => "safety bug: it is hunted with --liveness",
            }
        );
        return EXIT_USAGE;
    }
    match arguments.liveness {
        true => run_liveness(arguments),
        false => run_safety(arguments),
    }
}

/// Returns a bug that was asked for and is not of the kind that is hunted.
fn misplaced(arguments: &Arguments) -> Option<&'static str> {
    let fits = |bug: &str| match arguments.liveness {
        true => liveness::ALL.iter().any(|case| case.bug == bug),
        false => catalogue::ALL.iter().any(|case| case.bug == bug),
    };
    arguments.bug.iter().copied().find(|bug| !fits(bug))
}

fn run_liveness(arguments: &Arguments) -> u8 {
    let mut cases = liveness::ALL.to_vec();
    if !arguments.bug.is_empty() {
        cases.retain(|case| arguments.bug.contains(&case.bug));
    }
    let mut rows: Vec<LivenessRow> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        announce(at, cases.len(), case.service, case.bug);
        match case.hunt() {
            Ok(row) => rows.push(row),
            Err(error) => {
                eprintln!("error: {} {}: {error}", case.service, case.bug);
                return EXIT_VIOLATED;
            }
        }
    }
    print(match arguments.json {
        true => format!("{}\n", liveness::json::report(&rows)),
        false => liveness::text::report(&rows),
    });
    match rows.iter().all(LivenessRow::is_fine) {
        true => EXIT_FINE,
        false => EXIT_VIOLATED,
    }
}

fn run_walks(arguments: &Arguments) -> u8 {
    let (mut errors, mut steps) = (Vec::new(), Vec::new());
    let count = walks::ERROR_CASES.len() + walks::STEPS_CASES.len();
    let all = walks::ERROR_CASES.iter().map(|case| {
        let row = case.run().map(|row| errors.push(row));
        (case.service, case.scenario, row)
    });
    let more = walks::STEPS_CASES.iter().map(|case| {
        let row = case.run().map(|row| steps.push(row));
        (case.service, case.scenario, row)
    });
    for (at, (service, scenario, row)) in all.chain(more).enumerate() {
        announce(at, count, service, scenario);
        if let Err(error) = row {
            eprintln!("error: {service} {scenario}: {error}");
            return EXIT_VIOLATED;
        }
    }
    print(match arguments.json {
        true => format!("{}\n", walks::json::report(&errors, &steps)),
        false => walks::text::report(&errors, &steps),
    });
    EXIT_FINE
}

fn announce(at: usize, count: usize, service: &str, bug: &str) {
    eprintln!("{} of {count}: {service} {bug}", at + 1);
}

fn print(written: String) {
    // Whoever closed the pipe has seen enough.
    let _ = std::io::stdout().write_all(written.as_bytes());
}

fn run_safety(arguments: &Arguments) -> u8 {
    let mut cases = catalogue::ALL.to_vec();
    if !arguments.bug.is_empty() {
        cases.retain(|case| arguments.bug.contains(&case.bug));
    }
    let mut rows: Vec<Row> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        announce(at, cases.len(), case.service, case.bug);
        match case.hunt(Some(&mut Progress::default())) {
            Ok(row) => rows.push(row),
            Err(error) => {
                eprintln!("error: {} {}: {error}", case.service, case.bug);
                return EXIT_VIOLATED;
            }
        }
    }
    print(match arguments.json {
        true => format!("{}\n", json::report(&rows)),
        false => text::report(&rows),
    });
    let fine = |row: &Row| row.consequence.told.is_some() && row.fixed.violations.is_empty();
    if rows.iter().all(fine) {
        EXIT_FINE
    } else {
        EXIT_VIOLATED
    }
}

fn known_bug(text: &str) -> Result<&'static str, String> {
    let safety = catalogue::ALL.iter().map(|case| case.bug);
    let all = safety.chain(liveness::ALL.iter().map(|case| case.bug));
    let names: Vec<&'static str> = all.collect();
    let found = names.iter().copied().find(|&name| name == text);
    found.ok_or_else(|| format!("there is no such bug here (known: {})", names.join(", ")))
}

fn catalogue_text() -> String {
    let safety = catalogue::ALL
        .iter()
        .map(|case| (case.service, case.bug, case.scenario, case.source));
    let liveness = liveness::ALL
        .iter()
        .map(|case| (case.service, case.bug, case.scenario, case.source));
    let mut text = String::new();
    list(&mut text, "Bugs:", safety);
    list(&mut text, "\n\nLiveness bugs:", liveness);
    text
}

fn list(
    text: &mut String,
    title: &str,
    bugs: impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)>,
) {
    text.push_str(title);
    for (service, bug, scenario, source) in bugs {
        text.push_str(&format!(
            "\n  {bug:<17} {service:<14} scenario {scenario:<10} {source}"
        ));
    }
}

/// The line that moves while the initial state is searched, or a line now and then where there is no terminal.
#[derive(Debug, Default)]
struct Progress {
    shown: Duration,
    drawn: bool,
}

impl Progress {
    const EVERY: Duration = Duration::from_millis(100);
    const EVERY_IN_A_LOG: Duration = Duration::from_secs(5);
}

impl Watch for Progress {
    fn see(&mut self, _: &Case, elapsed: Duration, limit: Duration, counts: &Counts) {
        let mut out = std::io::stderr();
        let terminal = out.is_terminal();
        let every = if terminal {
            Self::EVERY
        } else {
            Self::EVERY_IN_A_LOG
        };
        if elapsed.saturating_sub(self.shown) < every {
            return;
        }
        let line = format!(
            "  from the initial state: {:.1} of {:.1} s, {} states, depth {}",
            elapsed.as_secs_f64(),
            limit.as_secs_f64(),
            grouped(counts.states),
            counts.depth
        );
        // Progress that cannot be shown is not worth failing for.
        let _ = match terminal {
            true => write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush()),
            false => writeln!(out, "{line}"),
        };
        (self.shown, self.drawn) = (elapsed, terminal);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
