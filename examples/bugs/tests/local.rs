//! In every scenario of every example service, with its bugs and without, local model checking finds what an exhaustive search
//! finds within the same depth.
//!
//! How deep that is follows from how many states there may be: `SCRY_LOCAL_STATES`.

use std::collections::{BTreeSet, HashMap};

use clap::{Args, Command, FromArgMatches};
use scry::explore::{Settings, Stop};
use scry::timing::Clock;
use scry::{Limits, NodeId, Options, Program, Report, Request, Search, Simulation, Strategy};

/// So many states an exhaustive search may have.
const STATES: u64 = 3_000;
/// So many local states are explored at the most: with connections there is often no end to them.
const LOCAL: u64 = 3_000;

fn search<S: Program>(
    start: &Simulation<S>,
    strategy: Strategy,
    depth: Option<u32>,
    states: Option<u64>,
) -> Report<S> {
    let settings = match strategy == Strategy::LOCAL {
        true => Settings::of(&[("visits", 3_000)]),
        false => Settings::default(),
    };
    let options = Options {
        strategy,
        limits: Limits {
            depth,
            states,
            ..Limits::default()
        },
        settings,
        clock: Clock::FREE,
        ..Options::default()
    };
    let search = Search::new(start, S::properties(), options);
    search.expect("these options go together").run()
}

fn found<S: Program>(report: &Report<S>) -> BTreeSet<(String, Vec<NodeId>)> {
    assert_eq!(report.unconfirmed, 0, "every finding replays");
    let violations = report.violations.iter();
    violations
        .map(|violation| (violation.property.clone(), violation.nodes.clone()))
        .collect()
}

/// Builds a scenario as the command line does without further options.
fn start<S: Program>(
    build: impl Fn(&Request<'_, S>) -> Result<scry::System<S>, String>,
    bugs: &BTreeSet<&'static str>,
) -> Option<Simulation<S>> {
    let matches = S::Options::augment_args(Command::new("test")).try_get_matches_from(["test"]);
    let options = S::Options::from_arg_matches(&matches.ok()?).ok()?;
    let request = Request {
        bugs,
        nodes: None,
        options: &options,
    };
    Some(build(&request).ok()?.start().ok()?.0)
}

/// Returns in how many scenarios everything was compared, and in how many there was something to find.
fn compare<S: Program>() -> (usize, usize) {
    let states = std::env::var("SCRY_LOCAL_STATES");
    let states = states.map_or(STATES, |text| text.parse().expect("a number"));
    let (mut whole, mut broken) = (0, 0);
    for scenario in S::scenarios() {
        let all = S::bugs().iter().map(|bug| bug.name);
        for bugs in [BTreeSet::new(), all.collect()] {
            let Some(start) = start::<S>(scenario.build, &bugs) else {
                continue;
            };
            let first = search(&start, Strategy::EXHAUSTIVE, None, Some(states));
            let depth = match first.stop {
                Stop::Exhausted => None,
                _ => Some(first.depth.saturating_sub(1)),
            };
            let real = found(&search(&start, Strategy::EXHAUSTIVE, depth, None));
            let report = search(&start, Strategy::LOCAL, depth, Some(LOCAL));
            let found = found(&report);
            let (name, tallies) = (scenario.name, HashMap::<_, _>::from_iter(report.tallies));
            assert!(found.is_subset(&real), "{name}: {found:?} beside {real:?}");
            if tallies["questions without an answer"] == 0 && report.stop != Stop::States {
                assert_eq!(found, real, "{name} with {bugs:?}, {depth:?}");
                whole += 1;
            }
            broken += usize::from(!real.is_empty());
            println!(
                "{name} with {bugs:?}: depth {depth:?}, {} of {} findings, {}, {} unknown",
                found.len(),
                real.len(),
                report.stop,
                tallies["questions without an answer"]
            );
        }
    }
    (whole, broken)
}

#[test]
fn e_9_local_finds_what_there_is_in_paxos() {
    let (whole, broken) = compare::<paxos::Paxos>();
    assert!(whole > 0 && broken > 0);
}

#[test]
fn e_9_local_finds_what_there_is_in_randtree() {
    assert!(compare::<randtree::RandTree>().0 > 0);
}

#[test]
fn e_9_local_finds_what_there_is_in_chord() {
    assert!(compare::<chord::Chord>().0 > 0);
}

#[test]
fn e_9_local_finds_what_there_is_in_mace_transport() {
    assert!(compare::<mace_transport::MaceTransport>().0 > 0);
}

#[test]
fn e_9_local_finds_what_there_is_in_pastry() {
    // There is no end to its local states, and so no scenario in which all of them are explored: what is found is real.
    compare::<pastry::Pastry>();
}
