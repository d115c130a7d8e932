//! When a search stops: each criterion alone, with one thread and with two, and what is then said.

use scry_engine::explore::{Settings, Stop};
use scry_engine::{Limits, Options, Report, Search, Simulation, Strategy};

use crate::reference::{essence, run};
use crate::toys::{Toy, boot, by, counter, never};

/// Wide enough that two threads have work to share: the widest level has 12 870 states.
fn cube() -> Simulation<Toy> {
    boot([(); 16].map(|()| counter(1)))
}

const CUBE_STATES: u64 = 1 << 16;

/// Every strategy on every number of threads it knows.
fn modes() -> impl Iterator<Item = Options> {
    let breadth = [1, 2].map(|threads| Options {
        threads,
        ..by(Strategy::EXHAUSTIVE)
    });
    breadth.into_iter().chain([by(Strategy::DEPTH_FIRST)])
}

fn limited(mode: Options, limits: Limits) -> Report<Toy> {
    run(&cube(), &[], Options { limits, ..mode })
}

#[test]
fn a_11_states_stop_it_exactly() {
    for mode in modes() {
        for states in [1, 2, 1_000, 30_000, CUBE_STATES - 1] {
            let limits = Limits {
                states: Some(states),
                ..Limits::default()
            };
            let report = limited(mode, limits);
            assert_eq!(
                (report.states, report.stop),
                (states, Stop::States),
                "{mode:?}"
            );
            assert!(!report.complete);
        }
    }
}

#[test]
fn a_11_depth_stops_it_exactly() {
    // Within two steps: 1 + 16 + 120 states.
    for mode in modes() {
        let limits = Limits {
            depth: Some(2),
            ..Limits::default()
        };
        let report = limited(mode, limits);
        assert_eq!(
            (report.states, report.depth, report.stop),
            (137, 2, Stop::Depth)
        );
        assert_eq!(report.transitions, 16 + 16 * 15);
        assert!(!report.complete);
        let limits = Limits {
            depth: Some(0),
            ..Limits::default()
        };
        assert_eq!(limited(mode, limits).states, 1);
    }
}

#[test]
fn a_11_bytes_stop_it_cleanly() {
    for mode in modes() {
        let within = |bytes| {
            let limits = Limits {
                bytes: Some(bytes),
                ..Limits::default()
            };
            limited(mode, limits)
        };
        let (tight, loose) = (within(300_000), within(600_000));
        assert_eq!(
            (tight.stop, loose.stop),
            (Stop::Bytes, Stop::Bytes),
            "{mode:?}"
        );
        assert!(!tight.complete && !loose.complete);
        assert!(0 < tight.states && tight.states <= loose.states && loose.states < CUBE_STATES);
        let plenty = within(1 << 30);
        assert_eq!((plenty.states, plenty.stop), (CUBE_STATES, Stop::Exhausted));
        assert!(plenty.complete);
    }
}

#[test]
fn a_11_the_first_violation_stops_it_if_asked() {
    for mode in modes() {
        let limits = Limits {
            first_violation: true,
            ..Limits::default()
        };
        let report = run(&cube(), &[never(1)], Options { limits, ..mode });
        assert_eq!(report.stop, Stop::Violation);
        assert!(!report.violations.is_empty() && !report.complete);
        assert!(report.states < CUBE_STATES);
        let report = run(&cube(), &[never(1)], mode);
        assert_eq!(report.violations.len(), 16);
        assert_eq!((report.states, report.stop), (CUBE_STATES, Stop::Exhausted));
    }
}

#[test]
fn a_11_a_caller_with_a_clock_stops_it_between_slices() {
    // What a slice may overshoot: the steps of one block.
    const BLOCK: u64 = 32_768 * 16;
    for mode in modes() {
        let mut search = Search::new(&cube(), vec![never(1)], mode).expect("a good mode");
        let before = search.counts();
        assert_eq!(
            (before.states, before.transitions, before.frontier),
            (1, 0, 1)
        );
        assert_eq!(search.advance(100), None);
        let counts = search.counts();
        assert!(0 < counts.transitions && counts.transitions <= 100 + BLOCK);
        let report = search.finish();
        assert_eq!((report.stop, report.complete), (Stop::Caller, false));
        assert_eq!(report.states, counts.states);

        let mut search = Search::new(&cube(), vec![never(1)], mode).expect("a good mode");
        while search.advance(777).is_none() {}
        let slices = search.finish();
        assert_eq!(essence(&slices), essence(&run(&cube(), &[never(1)], mode)));
    }
}

#[test]
fn an_option_that_a_strategy_cannot_honour_is_an_error() {
    let refused = |options| Search::new(&cube(), Vec::new(), options).err();
    let options = Options {
        threads: 2,
        ..by(Strategy::DEPTH_FIRST)
    };
    let error = refused(options).expect("depth-first runs alone");
    assert_eq!(
        error.to_string(),
        "depth-first runs on one thread, not on 2"
    );
    for strategy in [Strategy::EXHAUSTIVE, Strategy::DEPTH_FIRST] {
        let options = Options {
            settings: Settings::of(&[("pruning", 0)]),
            ..by(strategy)
        };
        let error = refused(options).expect("only one strategy prunes");
        let said = error.to_string();
        let expected = format!("{strategy} has no setting `pruning`; it has ");
        assert!(said.starts_with(&expected), "{said}");
    }
}
