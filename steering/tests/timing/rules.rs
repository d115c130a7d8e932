//! What a path must not do, one rule at a time.

use scry::timing::Clock;
use scry::{Faults, NodeId, Options, Report, Search, Simulation};

use crate::table::{Deed, On, Rule, Settings, Timed, Timer, properties};

fn rule(level: u8, on: On, asks: &[(usize, u8)], yes: &[Deed], no: &[Deed]) -> Rule {
    Rule {
        level,
        on,
        asks: asks.to_vec(),
        yes: yes.to_vec(),
        no: no.to_vec(),
    }
}

fn node(start: &[Deed], calls: u8, rules: &[Rule]) -> Settings {
    Settings {
        start: start.to_vec(),
        rules: rules.to_vec(),
        calls,
        sends: 2,
    }
}

fn silent() -> Settings {
    node(&[], 0, &[])
}

fn searched(nodes: [Settings; 2], clock: Clock) -> Report<Timed> {
    let setups = (0..).map(NodeId::new).zip(nodes);
    let start = Simulation::boot(setups.collect(), Faults::NONE);
    let options = Options {
        clock,
        ..Options::default()
    };
    let report = Search::new(&start, properties(), options)
        .expect("these options go together")
        .run();
    assert_eq!(report.undecided(), 0);
    report
}

/// Returns the levels that some node reaches.
fn levels(nodes: [Settings; 2], clock: Clock) -> Vec<u8> {
    let report = searched(nodes, clock);
    let mut levels: Vec<u8> = report
        .violations
        .iter()
        .map(|violation| {
            violation.state.nodes()[&violation.nodes[0]]
                .local
                .service
                .level
        })
        .collect();
    levels.sort_unstable();
    levels
}

fn late(late_ms: u64) -> Clock {
    Clock {
        late_ms,
        ..Clock::default()
    }
}

#[test]
fn a_timer_fires_no_sooner_than_it_was_set_to() {
    let rules = [rule(
        0,
        On::Timer(Timer::A),
        &[(0, 3)],
        &[Deed::Level(1)],
        &[Deed::Level(2)],
    )];
    let start = |ms| [Deed::Read(0), Deed::Arm(Timer::A, ms)];
    assert_eq!(levels([node(&start(3), 0, &rules), silent()], late(0)), [1]);
    assert_eq!(levels([node(&start(2), 0, &rules), silent()], late(0)), [2]);
    assert_eq!(
        levels([node(&start(2), 0, &rules), silent()], late(1)),
        [1, 2]
    );
}

#[test]
fn a_timer_that_is_not_on_the_path_is_not_late_either() {
    // A call can only come after 4 ms if the timer has fired before, and the timer leads elsewhere.
    let rules = [
        rule(0, On::Call, &[(0, 4)], &[Deed::Level(1)], &[]),
        rule(0, On::Timer(Timer::A), &[], &[Deed::Level(2)], &[]),
    ];
    let start = [Deed::Read(0), Deed::Arm(Timer::A, 2)];
    assert_eq!(levels([node(&start, 1, &rules), silent()], late(1)), [2]);
    assert_eq!(levels([node(&start, 1, &rules), silent()], late(2)), [1, 2]);
}

#[test]
fn what_happens_meanwhile_is_told() {
    // The other node's timer goes on and on while the first one waits for its own.
    let first = node(
        &[],
        1,
        &[
            rule(0, On::Call, &[], &[Deed::Arm(Timer::A, 4)], &[]),
            rule(0, On::Timer(Timer::A), &[], &[Deed::Level(1)], &[]),
        ],
    );
    let again = rule(0, On::Timer(Timer::B), &[], &[Deed::Arm(Timer::B, 1)], &[]);
    let other = node(&[Deed::Arm(Timer::B, 1)], 0, &[again]);
    let report = searched([first, other], late(0));
    let [violation] = &report.violations[..] else {
        panic!("{:?}", report.unfit);
    };
    assert_eq!(violation.path.len(), 2);
    let others: Vec<&str> = violation
        .layout
        .meanwhile
        .iter()
        .map(|other| other.event.as_str())
        .collect();
    assert!(others.len() >= 3 && others.iter().all(|other| *other == "timer B"));
}

#[test]
fn two_stamps_are_two_moments() {
    // One is 3 ms old and the other is not: only if they were read at different times.
    let rules = [
        rule(0, On::Call, &[], &[Deed::Read(1), Deed::Level(1)], &[]),
        rule(
            1,
            On::Call,
            &[(0, 3), (1, 3)],
            &[Deed::Level(2)],
            &[Deed::Level(3)],
        ),
    ];
    assert_eq!(
        levels([node(&[Deed::Read(0)], 2, &rules), silent()], late(0)),
        [1, 2, 3]
    );
}

#[test]
fn a_path_says_how_late_timers_would_have_to_be() {
    let rules = [rule(
        0,
        On::Timer(Timer::A),
        &[(0, 4)],
        &[Deed::Level(1)],
        &[],
    )];
    let start = [Deed::Read(0), Deed::Arm(Timer::A, 1)];
    let report = searched([node(&start, 0, &rules), silent()], late(2));
    let [unfit] = &report.unfit[..] else {
        panic!("{:?}", report.violations);
    };
    assert!(unfit.impossible);
    assert_eq!(
        unfit.need.as_deref(),
        Some("possible only if timers are 3 ms late")
    );
}

#[test]
fn stamps_of_another_clock_are_off_by_twice_the_skew() {
    // The second node keeps the stamp of the first one and asks, when the word has come, whether 4 ms have passed since
    // then. The word takes no time as long as the first node's timer bounds it: it hears back before.
    let first = node(
        &[],
        1,
        &[
            rule(
                0,
                On::Call,
                &[],
                &[Deed::Read(0), Deed::Send(true, Some(0))],
                &[],
            ),
            rule(0, On::Word(false), &[(0, 1)], &[], &[Deed::Level(1)]),
        ],
    );
    let keeps = rule(
        0,
        On::Word(true),
        &[],
        &[Deed::Keep(0), Deed::Arm(Timer::A, 0)],
        &[],
    );
    let asks = rule(
        0,
        On::Timer(Timer::A),
        &[(0, 4)],
        &[Deed::Send(false, None)],
        &[],
    );
    let nodes = || [first.clone(), node(&[], 0, &[keeps.clone(), asks.clone()])];
    let skew = |skew_ms| Clock { skew_ms, ..late(0) };
    // Level 1: by the second clock 4 ms have passed, by the first one not even 1.
    assert!(levels(nodes(), skew(0)).is_empty());
    assert!(levels(nodes(), skew(1)).is_empty());
    assert_eq!(levels(nodes(), skew(2)), [1]);
    let unfit = searched(nodes(), skew(1)).unfit;
    assert_eq!(
        unfit[0].need.as_deref(),
        Some("possible only if clocks are 2 ms off")
    );
}
