//! Searches that start from running nodes: their timers and stamps have the ages that checkpoints show.

use scry::capture::{self, Readings};
use scry::checker::start::restore;
use scry::model::handler::Local;
use scry::timing::Clock;
use scry::{Faults, NodeId, Options, Report, Search, Stamp};
use scry_protocol::snapshot::Member;
use scry_protocol::{CheckpointNumber, Content, Incarnation, Snapshot};

use crate::lease::{ASKING, Lease, one_at_a_time};

const NOW: u64 = 1_790_000_000_000;

/// A node to which something happened so many milliseconds before now.
fn member(number: u32, service: Lease, due_ms: Option<u64>, before_ms: u64) -> Member {
    let local = Local {
        service,
        timers: due_ms.map(|_| ()).into_iter().collect(),
        ticks: 0,
        panic: None,
        down: false,
    };
    let readings = Readings {
        event_ms: NOW - before_ms,
        due_ms: due_ms.into_iter().collect(),
    };
    let (state, timers) =
        capture::write_with(&ASKING, &local, &[], &[], Some(&readings)).expect("plain values");
    let content = Content {
        incarnation: Incarnation::new(1),
        born: CheckpointNumber::from(1),
        past: scry_protocol::Past::default(),
        state,
        timers,
        channels: None,
    };
    Member {
        node: NodeId::new(number),
        number: CheckpointNumber::from(7),
        age_ms: 0,
        body: content.write().expect("a small state"),
    }
}

/// A client that has had the lock since `asked_ms` before now, its timer due after `due_ms`, and one that has not; the
/// server gave it away 100 ms before now.
fn searched(due_ms: u64, server_before_ms: u64, clock: Clock) -> Report<Lease> {
    let holder = Lease::Client {
        asked: Some(Stamp::from_millis(NOW - 100)),
        uses: true,
        left: 0,
    };
    let other = Lease::Client {
        asked: None,
        uses: false,
        left: 1,
    };
    let given = NOW - server_before_ms;
    let server = Lease::Server(Some((NodeId::new(1), Stamp::from_millis(given))));
    let snapshot = Snapshot {
        by: NodeId::new(0),
        number: CheckpointNumber::from(7),
        rounds: 1,
        elapsed_ms: 0,
        members: vec![
            member(0, server, None, server_before_ms),
            member(1, holder, Some(due_ms), 0),
            member(2, other, None, 50),
        ],
        missing: Vec::new(),
    };
    let start = restore::<Lease>(&snapshot, Faults::NONE, &clock).expect("it can be read");
    assert!(start.remarks.is_empty());
    let options = Options {
        clock,
        ..Options::default()
    };
    Search::new(&start.state, vec![one_at_a_time()], options)
        .expect("these options go together")
        .run()
}

fn late(late_ms: u64) -> Clock {
    Clock {
        late_ms,
        ..Clock::default()
    }
}

#[test]
fn timers_and_stamps_have_the_ages_that_checkpoints_show() {
    // The server's 500 ms end 400 ms from now, 20 ms after the client's timer.
    let report = searched(380, 100, late(19));
    assert!(report.violations.is_empty());
    assert_eq!((report.impossible(), report.undecided()), (1, 0));
    assert_eq!(
        report.unfit[0].need.as_deref(),
        Some("possible only if timers are 20 ms late")
    );
    // A timer that was armed too late ends too late.
    let report = searched(400, 100, late(0));
    let [violation] = &report.violations[..] else {
        panic!("{:?}", report.unfit);
    };
    let last = violation.layout.times_ms.last().copied().flatten();
    // Times count from the oldest state of the snapshot, the server's.
    assert_eq!(last, Some(500));
}

#[test]
fn clocks_of_different_nodes_may_be_off() {
    let skew = |skew_ms| Clock { skew_ms, ..late(0) };
    assert!(searched(380, 100, skew(9)).violations.is_empty());
    assert_eq!(searched(380, 100, skew(10)).violations.len(), 1);
}

#[test]
fn what_is_long_ago_is_over() {
    // The server gave it away a minute ago: it is free, whoever thinks to have it.
    assert_eq!(searched(400, 60_000, late(0)).violations.len(), 1);
}
