//! `check`: explores a scenario and reports.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cli::interrupt::Interrupt;
use crate::cli::progress::Progress;
use crate::cli::settings::Chosen;
use crate::cli::stored::Stored;
use crate::cli::{
    EXIT_CONFIGURATION, EXIT_FINE, EXIT_INTERRUPTED, EXIT_SYSTEM, EXIT_USAGE, EXIT_VIOLATED, json,
    memory, properties, stored, text,
};
use crate::program::{Bug, Program, Request};
use scry_engine::explore::{Counts, Limits, Options, Report, Search, Settings, Stop, Strategy};
use scry_engine::model::fault::Faults;
use scry_engine::model::system::System;
use scry_engine::property::Property;
use scry_engine::timing::{Clock, DRIFT_PPM_MAX, MS_MAX, Time};
use scry_properties::closest;

/// How long a search takes at most, unless it is told otherwise.
const SECONDS_DEFAULT: &str = "60";
/// Of how much memory the tables take a part at most, unless they are told otherwise.
const MEMORY_PART: u64 = 4;
/// How long a search goes on before the clock is looked at.
const SLICE: Duration = Duration::from_millis(20);
/// How many steps are looked at for conclusions before the clock is.
const CONCLUDED_AT_ONCE: u64 = 1_000_000;

/// What `check` can be asked.
#[derive(Debug, clap::Args)]
pub struct Check {
    /// Where to start from (see below; the first by default).
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// How many nodes, where the scenario lets you choose.
    #[arg(long, value_name = "COUNT")]
    nodes: Option<u32>,
    /// Switch a known bug on (repeatable; `all` for all of them). Without, every bug is fixed.
    #[arg(long, value_name = "NAME", conflicts_with = "fixed")]
    bug: Vec<String>,
    /// Switch every bug off, which is also the default.
    #[arg(long)]
    fixed: bool,

    /// How to search (see below).
    #[arg(long, value_name = "NAME", default_value_t = Strategy::EXHAUSTIVE, help_heading = "Search")]
    strategy: Strategy,
    /// Set something of the strategy, for example `pruning=off` (repeatable). Each setting is an option of its own too (see below).
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, help_heading = "Search")]
    set: Vec<(String, String)>,
    /// What was set by options that strategies bring.
    #[arg(skip)]
    chosen: Vec<Chosen>,
    /// Begin at the end of the execution in this trace file, which begins where the scenario does; or, for a strategy with a
    /// setting `prefix` (walk), where all `eventually` properties hold after a walk of at least so many steps.
    #[arg(long, value_name = "FILE|STEPS", help_heading = "Search")]
    prefix: Option<String>,
    /// The seed of a strategy that throws dice. The same seed gives the same report. [default: 0]
    #[arg(long, value_name = "NUMBER", help_heading = "Search")]
    seed: Option<u64>,
    /// On how many threads to search. The report is the same for any number.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        help_heading = "Search"
    )]
    threads: usize,
    /// Stop at the first violation instead of looking for all.
    #[arg(long, help_heading = "Search")]
    first: bool,

    /// Stop when paths are this long.
    #[arg(long, value_name = "STEPS", help_heading = "Limits")]
    depth: Option<u32>,
    /// Stop after this many states.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    states: Option<u64>,
    /// Stop after this many seconds; 0 for no limit.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = SECONDS_DEFAULT, help_heading = "Limits")]
    seconds: Duration,
    /// Stop before the tables take more than this many bytes; K, M and G are understood, 0 is no limit. [default: a
    /// quarter of the memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Limits")]
    bytes: Option<u64>,

    /// Resets a path may contain of which the peers are told (the scenario's own by default).
    #[arg(long, value_name = "COUNT", help_heading = "Fault budget")]
    resets: Option<u8>,
    /// Resets a path may contain of which nobody is told.
    #[arg(long, value_name = "COUNT", help_heading = "Fault budget")]
    silent_resets: Option<u8>,
    /// Connections that may break on a path.
    #[arg(long, value_name = "COUNT", help_heading = "Fault budget")]
    breaks: Option<u8>,
    /// Datagrams that may be lost on a path.
    #[arg(long, value_name = "COUNT", help_heading = "Fault budget")]
    losses: Option<u8>,
    /// Datagrams that may arrive twice on a path.
    #[arg(long, value_name = "COUNT", help_heading = "Fault budget")]
    duplicates: Option<u8>,
    /// Nodes that may be down for a while on a path: not up yet, or started late.
    #[arg(long, value_name = "COUNT", help_heading = "Fault budget")]
    late_starts: Option<u8>,

    /// Whether a path must fit in time: `fit`, or `free` for every order of timers and every answer about time.
    #[arg(long, value_name = "HOW", default_value_t = Time::Fit, help_heading = "Time")]
    time: Time,
    /// How many milliseconds later than it was set to a timer may fire.
    #[arg(long, value_name = "MS", default_value_t = Clock::default().late_ms, value_parser = clap::value_parser!(u64).range(..=MS_MAX), help_heading = "Time")]
    late: u64,
    /// How many milliseconds a node's clock may be off, where another node compares its stamps.
    #[arg(long, value_name = "MS", default_value_t = Clock::default().skew_ms, value_parser = clap::value_parser!(u64).range(..=MS_MAX), help_heading = "Time")]
    skew: u64,
    /// How many millionths too fast or too slow a clock may run.
    #[arg(long, value_name = "PPM", default_value_t = Clock::default().drift_ppm, value_parser = clap::value_parser!(u32).range(..=i64::from(DRIFT_PPM_MAX)), help_heading = "Time")]
    drift: u32,
    /// For each finding whose path does not fit, look at this many states for a path that does.
    #[arg(long, value_name = "COUNT", default_value_t = Clock::default().tries, help_heading = "Time")]
    tries: u32,

    /// Judge by the properties of this file instead of those built in (see `properties`).
    #[arg(long, value_name = "FILE")]
    properties: Option<PathBuf>,
    /// Write every path that is found into this directory as a trace file, for `--prefix` and `scry explain`, and beside it an
    /// execution that comes true.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Takes what was given for options that strategies bring.
    pub(super) fn choose(&mut self, chosen: Vec<Chosen>) {
        self.chosen = chosen;
    }

    /// Returns the trace file after whose execution the search begins.
    fn prefix_file(&self) -> Option<&Path> {
        let prefix = self.prefix.as_deref()?;
        prefix.parse::<u64>().is_err().then(|| Path::new(prefix))
    }

    /// Lists what is set of the strategy.
    fn settings(&self) -> Result<Settings, Vec<String>> {
        let mut errors = Vec::new();
        let mut all = self.set.clone();
        for chosen in &self.chosen {
            match chosen.setting() {
                Ok(set) => all.push(set),
                Err(error) => errors.push(error),
            }
        }
        if let (Some(steps), None) = (&self.prefix, self.prefix_file()) {
            all.push(("prefix".to_owned(), steps.clone()));
        }
        let mut settings = Settings::default();
        for (at, (name, value)) in all.iter().enumerate() {
            if all[..at].iter().any(|(known, _)| known == name) {
                errors.push(format!("`{name}` is set twice"));
            }
            match self.strategy.set(settings, name, value) {
                Ok(set) => settings = set,
                Err(error) => errors.push(error.to_string()),
            }
        }
        match errors.is_empty() {
            true => Ok(settings),
            false => Err(errors),
        }
    }

    fn clock(&self) -> Clock {
        Clock {
            time: self.time,
            late_ms: self.late,
            skew_ms: self.skew,
            drift_ppm: self.drift,
            tries: self.tries,
        }
    }
}

/// A search that has ended, with what is known beside its report.
#[derive(Debug)]
pub struct Ended<S: Program> {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The bugs that were switched on.
    pub bugs: BTreeSet<&'static str>,
    /// How many steps led to the start state.
    pub start_steps: usize,
    /// After how many more steps, those of a trace file, the search began.
    pub prefix_steps: usize,
    /// The files in which is what was found, if there are any.
    pub stored: Option<Stored>,
    /// What the search reports.
    pub report: Report<S>,
    /// How long it took to search.
    pub elapsed: Duration,
    /// How long it took to draw conclusions: whether `eventually` properties can still come true, state by state.
    pub concluding: Duration,
    /// What ended it, if it was not over.
    pub cut: Option<Cut>,
    /// Why what was found is not in files.
    pub unwritten: Option<String>,
}

/// What ended a search that was not over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cut {
    /// So much time has passed.
    Time(Duration),
    /// The tables are as large as they may be.
    Bytes {
        /// How large that is.
        max: u64,
        /// Whether nobody asked for that limit.
        is_default: bool,
    },
    /// Somebody interrupted it.
    Interrupted,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(limit) => write!(
                f,
                "stopped after {} s (--seconds 0 for no limit)",
                limit.as_secs_f64()
            ),
            Self::Bytes { max, is_default } => {
                let what = match is_default {
                    true => ", a quarter of the memory",
                    false => "",
                };
                let max = text::grouped(*max);
                write!(f, "stopped at {max} bytes{what} (--bytes 0 for no limit)")
            }
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// Runs the command and returns the exit code.
pub fn run<S: Program>(check: &Check, own: &S::Options) -> u8 {
    let properties = match &check.properties {
        None => S::properties(),
        Some(path) => match properties::load::<S>(path) {
            Ok(set) => set.properties_of_all_kinds(),
            Err(error) => {
                eprintln!("{error}");
                return EXIT_CONFIGURATION;
            }
        },
    };
    match explore::<S>(check, own, properties) {
        Ok(ended) => {
            match check.json {
                true => println!("{}", json::report(&ended)),
                false => print!("{}", text::report(&ended)),
            }
            if let Some(error) = ended.unwritten {
                eprintln!("error: {error}");
                return EXIT_SYSTEM;
            }
            match (ended.report.violations.is_empty(), ended.cut) {
                (false, _) => EXIT_VIOLATED,
                (true, Some(Cut::Interrupted)) => EXIT_INTERRUPTED,
                (true, _) => EXIT_FINE,
            }
        }
        Err(errors) => refuse(&errors),
    }
}

fn refuse(errors: &[String]) -> u8 {
    for error in errors {
        eprintln!("error: {error}");
    }
    eprintln!("\nFor more information, try 'check --help'.");
    EXIT_USAGE
}

fn explore<S: Program>(
    check: &Check,
    own: &S::Options,
    properties: Vec<Property<S>>,
) -> Result<Ended<S>, Vec<String>> {
    let (scenario, bugs, system) = prepare::<S>(check, own)?;
    let (start, steps) = system
        .start()
        .map_err(|error| vec![format!("scenario {scenario}: {error}")])?;
    let options = options(check)?;
    let said = |error: String| vec![error];
    let prefix = match check.prefix_file() {
        Some(file) => stored::load(file, &start).map_err(said)?,
        None => Vec::new(),
    };
    if let Some(directory) = &check.traces {
        stored::prepare(directory).map_err(said)?;
    }
    let begun = Instant::now();
    let mut search = Search::after(&start, &prefix, properties, options)
        .map_err(|error| said(error.to_string()))?;
    let interrupt = Interrupt::listen();
    let cut = watch_to_end(check, &mut search, begun, options.limits.bytes, &interrupt);
    let elapsed = begun.elapsed();
    let limit = (!check.seconds.is_zero()).then_some(check.seconds);
    let cut = cut.or(conclude(&mut search, limit, &interrupt));
    let concluding = begun.elapsed() - elapsed;
    let report = search.finish_as_it_is();
    let write = |directory: &PathBuf| {
        let found_by = format!("check of scenario {scenario} by {}", report.strategy);
        stored::write(directory, &found_by, &start, &report)
    };
    let (stored, unwritten) = match check.traces.as_ref().map(write) {
        None => (None, None),
        Some(Ok(stored)) => (Some(stored), None),
        Some(Err(error)) => (None, Some(error)),
    };
    Ok(Ended {
        cut,
        unwritten,
        stored,
        scenario,
        bugs,
        start_steps: steps.len(),
        prefix_steps: prefix.len(),
        report,
        elapsed,
        concluding,
    })
}

fn options(check: &Check) -> Result<Options, Vec<String>> {
    // Without a limit the machine's own would end it, and everything found with it.
    let bytes_max = match check.bytes {
        Some(0) => None,
        Some(bytes) => Some(bytes),
        None => memory::bytes().map(|bytes| bytes / MEMORY_PART),
    };
    let settings = check.settings()?;
    if check.seed.is_some() && !check.strategy.is_seeded() {
        return Err(vec![format!(
            "{} has no dice, so --seed makes no difference",
            check.strategy
        )]);
    }
    Ok(Options {
        strategy: check.strategy,
        limits: Limits {
            states: check.states,
            depth: check.depth,
            bytes: bytes_max,
            first_violation: check.first,
        },
        threads: check.threads,
        seed: check.seed.unwrap_or_default(),
        settings,
        clock: check.clock(),
    })
}

/// A search of any service.
trait Watched {
    fn advance(&mut self, steps: u64) -> Option<Stop>;

    fn counts(&self) -> Counts;

    fn conclude(&mut self, steps: u64) -> bool;
}

impl<S: Program> Watched for Search<S> {
    fn advance(&mut self, steps: u64) -> Option<Stop> {
        self.advance(steps)
    }

    fn counts(&self) -> Counts {
        self.counts()
    }

    fn conclude(&mut self, steps: u64) -> bool {
        self.conclude(steps)
    }
}

/// Draws conclusions, for as long again as the search may take at the most: a search that was cut would be for nothing without
/// them. An interrupt ends it, unless it has ended the search already. Returns what cut it.
fn conclude(
    search: &mut dyn Watched,
    limit: Option<Duration>,
    interrupt: &Interrupt,
) -> Option<Cut> {
    let begun = Instant::now();
    let interrupted = interrupt.is_here();
    while !search.conclude(CONCLUDED_AT_ONCE) {
        if interrupt.is_here() && !interrupted {
            return Some(Cut::Interrupted);
        }
        if let Some(limit) = limit.filter(|limit| begun.elapsed() >= *limit) {
            return Some(Cut::Time(limit));
        }
    }
    None
}

/// Continues a search until it ends, and says what ended it if it was not over.
fn watch_to_end(
    check: &Check,
    search: &mut dyn Watched,
    begun: Instant,
    bytes_max: Option<u64>,
    interrupt: &Interrupt,
) -> Option<Cut> {
    let limit = (!check.seconds.is_zero()).then_some(check.seconds);
    match watch(search, begun, limit, !check.json, interrupt) {
        Ok(Stop::Bytes) => bytes_max.map(|max| Cut::Bytes {
            max,
            is_default: check.bytes.is_none(),
        }),
        Ok(_) => None,
        Err(cut) => Some(cut),
    }
}

/// Continues a search slice by slice, so that the clock is looked at and progress is shown, to its end or until it is cut.
fn watch(
    search: &mut dyn Watched,
    begun: Instant,
    limit: Option<Duration>,
    show: bool,
    interrupt: &Interrupt,
) -> Result<Stop, Cut> {
    let mut progress = Progress::new(show);
    let mut steps = 10_000;
    loop {
        let before = begun.elapsed();
        if let Some(stop) = search.advance(steps) {
            return Ok(stop);
        }
        if interrupt.is_here() {
            return Err(Cut::Interrupted);
        }
        let now = begun.elapsed();
        if let Some(limit) = limit.filter(|limit| now >= *limit) {
            return Err(Cut::Time(limit));
        }
        // As many steps as fit a slice at the present speed, or into what is left.
        let slice = limit.map_or(SLICE, |limit| SLICE.min(limit - now));
        let speed = steps as f64 / (now - before).as_secs_f64().max(1e-6);
        steps = ((speed * slice.as_secs_f64()) as u64).clamp(1_000, 100_000_000);
        progress.show(now, &search.counts());
    }
}

/// Finds scenario and bugs by name. All that is wrong is said at once.
#[expect(
    clippy::type_complexity,
    reason = "scenario, bugs and system, taken apart at once by the only caller"
)]
fn prepare<S: Program>(
    check: &Check,
    own: &S::Options,
) -> Result<(&'static str, BTreeSet<&'static str>, System<S>), Vec<String>> {
    let scenarios = S::scenarios();
    let names: Vec<&'static str> = scenarios.iter().map(|scenario| scenario.name).collect();
    let (at, bugs) = choose(check, &names, S::bugs())?;
    let scenario = &scenarios[at];
    let request = Request {
        bugs: &bugs,
        nodes: check.nodes,
        options: own,
    };
    let mut system = (scenario.build)(&request)
        .map_err(|error| vec![format!("scenario {}: {error}", scenario.name)])?;
    system.faults = faults(check, system.faults);
    Ok((scenario.name, bugs, system))
}

/// Finds which of the scenarios and bugs are asked for.
fn choose(
    check: &Check,
    scenarios: &[&'static str],
    bugs: &'static [Bug],
) -> Result<(usize, BTreeSet<&'static str>), Vec<String>> {
    let mut errors = Vec::new();
    let scenario = match &check.scenario {
        None => (!scenarios.is_empty()).then_some(0),
        Some(name) => scenarios.iter().position(|scenario| scenario == name),
    };
    if scenario.is_none() {
        let name = check.scenario.as_deref().unwrap_or("?");
        errors.push(unknown("scenario", name, scenarios.iter().copied()));
    }
    let bugs = self::bugs(bugs, &check.bug, &mut errors);
    if check.threads == 0 {
        errors.push("--threads 0: a search needs at least one".to_owned());
    }
    match (scenario, errors.is_empty()) {
        (Some(scenario), true) => Ok((scenario, bugs)),
        _ => Err(errors),
    }
}

/// Finds bugs by name, and adds what is wrong with the names to `errors`.
pub(crate) fn bugs(
    known: &'static [Bug],
    names: &[String],
    errors: &mut Vec<String>,
) -> BTreeSet<&'static str> {
    let mut bugs = BTreeSet::new();
    for name in names {
        match known.iter().find(|bug| bug.name == name) {
            Some(bug) => drop(bugs.insert(bug.name)),
            None if name == "all" && !known.is_empty() => {
                bugs.extend(known.iter().map(|bug| bug.name))
            }
            None => errors.push(unknown(
                "bug",
                name,
                known.iter().map(|bug| bug.name).chain(["all"]),
            )),
        }
    }
    bugs
}

fn faults(check: &Check, own: Faults) -> Faults {
    Faults {
        resets: check.resets.unwrap_or(own.resets),
        silent_resets: check.silent_resets.unwrap_or(own.silent_resets),
        breaks: check.breaks.unwrap_or(own.breaks),
        losses: check.losses.unwrap_or(own.losses),
        duplicates: check.duplicates.unwrap_or(own.duplicates),
        late_starts: check.late_starts.unwrap_or(own.late_starts),
    }
}

/// Says that a name is unknown, which are known, and which was probably meant.
fn unknown(kind: &str, name: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<&str> = known.collect();
    let hint = closest(name, known.iter().copied())
        .map(|other| format!("; did you mean `{other}`?"))
        .unwrap_or_default();
    format!(
        "there is no {kind} `{name}`{hint} (known: {})",
        known.join(", ")
    )
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "give a name and a value, such as pruning=off".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "give a number of seconds, such as 10 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "give a number of seconds that is not negative".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "give a number of bytes, such as 500000000, 500M or 2G".to_owned();
    let (digits, unit) = match text
        .trim_end_matches(['B', 'b'])
        .strip_suffix(['K', 'M', 'G', 'k', 'm', 'g'])
    {
        Some(digits) => (digits, text.trim_end_matches(['B', 'b']).chars().last()),
        None => (text, None),
    };
    let shift = match unit.map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        _ => 0,
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search whose conclusions take so many looks, and that somebody interrupts after some of them.
    struct Endless {
        looks: u32,
        needed: u32,
        interrupted_after: u32,
        interrupt: Interrupt,
    }

    impl Watched for Endless {
        fn advance(&mut self, _: u64) -> Option<Stop> {
            Some(Stop::Exhausted)
        }

        fn counts(&self) -> Counts {
            Counts::default()
        }

        fn conclude(&mut self, _: u64) -> bool {
            self.looks += 1;
            if self.looks == self.interrupted_after {
                self.interrupt.come();
            }
            self.looks >= self.needed
        }
    }

    #[test]
    fn an_interrupt_in_the_conclusion_ends_it_and_is_told() {
        let check = |needed, interrupted_after, limit, before: bool| {
            let interrupt = Interrupt::default();
            if before {
                interrupt.come();
            }
            let mut search = Endless {
                looks: 0,
                needed,
                interrupted_after,
                interrupt: interrupt.clone(),
            };
            let cut = conclude(&mut search, limit, &interrupt);
            (cut, search.looks)
        };
        assert_eq!(check(5, 100, None, false), (None, 5));
        assert_eq!(check(100, 3, None, false), (Some(Cut::Interrupted), 3));
        // What ended the search does not end its conclusions.
        assert_eq!(check(5, 100, None, true), (None, 5));
        let none = Some(Duration::ZERO);
        assert_eq!(
            check(100, 100, none, false),
            (Some(Cut::Time(Duration::ZERO)), 1)
        );
    }

    #[test]
    fn bytes_are_read_with_and_without_units() {
        assert_eq!(bytes("1000"), Ok(1000));
        assert_eq!(bytes("2k"), Ok(2048));
        assert_eq!(bytes("3M"), Ok(3 << 20));
        assert_eq!(bytes("4GB"), Ok(4 << 30));
        assert!(bytes("").is_err());
        assert!(bytes("M").is_err());
        assert!(bytes("-1").is_err());
        assert!(bytes("99999999999G").is_err());
    }

    #[test]
    fn seconds_may_be_fractions_but_not_negative() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("-1").is_err());
        assert!(seconds("soon").is_err());
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let said = unknown("bug", "new-rot", ["promote", "new-root"].into_iter());
        assert_eq!(
            said,
            "there is no bug `new-rot`; did you mean `new-root`? (known: promote, new-root)"
        );
        let said = unknown("bug", "volcano", ["promote"].into_iter());
        assert_eq!(said, "there is no bug `volcano` (known: promote)");
    }
}
