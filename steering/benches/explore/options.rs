//! What the bench is asked to do.
//!
//! | option | meaning |
//! |---|---|
//! | `--json` | print one JSON object instead of a table |
//! | `--proposers N`, `--acceptors N` | the size of the system; 3 and 3 |
//! | `--runs N` | runs of every contender, of which the median counts; 3 of scry, 1 of the others |
//! | `--test` | everything once on a 2 × 2 system, so that CI can keep the bench from rotting |
//! | `--contender NAME` | run one contender in this very process, for a profiler; prints its measurement as JSON |
//!
//! `cargo bench` adds `--bench`. A start without it, as `cargo test --benches` makes one, means `--test`. Other options
//! are meant for other benches of the same command and are ignored.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::contender::{Contender, Task};

/// The system that is explored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Size {
    /// Proposers, each of which leads one round.
    pub(crate) proposers: u8,
    /// Acceptors.
    pub(crate) acceptors: u8,
}

/// What to do.
#[derive(Debug)]
pub(crate) enum Mode {
    /// Run one contender here and print what it took.
    Single(Task),
    /// Run all of them in processes of their own.
    Compare(Plan),
}

/// How to compare.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The system.
    pub(crate) size: Size,
    /// Whether a machine reads the result.
    pub(crate) json: bool,
    quick: bool,
    runs: Option<usize>,
}

impl Size {
    /// The peers' models keep a set of acceptors in a byte; more proposers than that explore for years anyway.
    const SIDE_MAX: u8 = 8;

    /// The size the goals are set for.
    pub(crate) const FULL: Self = Self {
        proposers: 3,
        acceptors: 3,
    };

    const QUICK: Self = Self {
        proposers: 2,
        acceptors: 2,
    };

    /// Returns how many acceptors are a majority.
    pub(crate) fn majority(self) -> u8 {
        self.acceptors / 2 + 1
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} proposers × {} acceptors",
            self.proposers, self.acceptors
        )
    }
}

impl Plan {
    /// Returns how many runs of a contender are made.
    pub(crate) fn runs(&self, contender: Contender) -> usize {
        let default = match contender {
            Contender::Scry | Contender::ScryTwoThreads if !self.quick => 3,
            _ => 1,
        };
        self.runs.unwrap_or(default)
    }

    /// Returns how many runs the contender with the most runs makes.
    pub(crate) fn turns(&self) -> usize {
        let runs = Contender::ALL.map(|contender| self.runs(contender));
        runs.into_iter().max().unwrap_or_default()
    }
}

/// Reads the command line.
pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Mode, String> {
    let mut bench = false;
    let mut test = false;
    let mut json = false;
    let mut runs = None;
    let mut proposers = None;
    let mut acceptors = None;
    let mut contender = None;
    let mut verifier = None;
    let mut states_expected = None;

    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        // Both `--runs 5` and `--runs=5` are usual.
        let (option, attached) = match argument.split_once('=') {
            Some((option, value)) => (option.to_owned(), Some(value.to_owned())),
            None => (argument, None),
        };
        let mut value = || {
            let value = attached.clone().or_else(|| arguments.next());
            value.ok_or_else(|| format!("{option} needs a value"))
        };
        match option.as_str() {
            "--bench" => bench = true,
            "--test" => test = true,
            "--json" => json = true,
            "--runs" => runs = Some(number(&option, &value()?, 1, usize::MAX)?),
            "--proposers" => proposers = Some(number(&option, &value()?, 1, Size::SIDE_MAX)?),
            "--acceptors" => acceptors = Some(number(&option, &value()?, 1, Size::SIDE_MAX)?),
            "--contender" => contender = Some(value()?.parse::<Contender>()?),
            // What only this bench passes to itself.
            "--verifier" => verifier = Some(PathBuf::from(value()?)),
            "--states-expected" => states_expected = Some(number(&option, &value()?, 1, u64::MAX)?),
            _ => {}
        }
    }

    let quick = test || (!bench && contender.is_none());
    let default = if quick { Size::QUICK } else { Size::FULL };
    let size = Size {
        proposers: proposers.unwrap_or(default.proposers),
        acceptors: acceptors.unwrap_or(default.acceptors),
    };
    Ok(match contender {
        Some(contender) => Mode::Single(Task {
            contender,
            size,
            verifier,
            states_expected,
        }),
        None => Mode::Compare(Plan {
            size,
            json,
            quick,
            runs,
        }),
    })
}

fn number<N>(option: &str, text: &str, least: N, most: N) -> Result<N, String>
where
    N: FromStr + PartialOrd + fmt::Display,
{
    text.parse()
        .ok()
        .filter(|number| (&least..=&most).contains(&number))
        .ok_or_else(|| format!("{option} is a number from {least} to {most}, not `{text}`"))
}
