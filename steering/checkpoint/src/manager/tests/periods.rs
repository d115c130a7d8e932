//! Gathers by the clock, and beside them.

use super::*;

/// Some nodes whose agents gather once a period.
fn gathering_each(period_ms: u64, count: u32) -> World {
    let options = Options {
        period_ms: Some(period_ms),
        ..Options::default()
    };
    World::new(count, &options)
}

#[test]
fn a_31_snapshots_come_by_the_clock() {
    let mut world = gathering_each(10_000, 2);
    for _ in 0..30 {
        assert!(world.manager(0).poll_timeout().is_some());
        world.pass(1_000);
        world.deliver();
    }
    assert_eq!(world.snapshots.len(), 6, "three each");
}

#[test]
fn a_31_a_silent_neighbor_does_not_hide_what_the_others_do_meanwhile() {
    let mut world = gathering_each(10, 3);
    // Nothing from or to node 2 passes, for less time than a round waits.
    let mut silent = Vec::new();
    for _ in 0..20 {
        world.pass(10);
        world.node(1).counter += 1;
        silent.extend(world.deliver_where(|from, to| from != node(2) && to != node(2)));
    }
    assert!(world.snapshots.is_empty(), "they all wait for node 2");
    world.frames = silent;
    world.deliver();
    let mut of_first = world
        .snapshots
        .iter()
        .filter(|(_, snapshot)| snapshot.by == node(0));
    let (_, last) = of_first.next_back().expect("the newest is complete");
    assert!(last.is_complete());
    assert_eq!(read(last, 1).state, [19], "as it was when the newest asked");
    assert_eq!(world.failures, []);
    // The oldest was given up with it: what it shows is over.
    assert_eq!(world.manager(0).gathers.len(), 0);
}

#[test]
fn a_32_gathers_on_demand_run_beside_periodic_ones() {
    let mut world = gathering_each(10_000, 3);
    world.pass(10_000);
    let (first, second) = (world.gather(0), world.gather(0));
    assert_ne!(first, second);
    world.deliver();
    assert_eq!(world.snapshots.len(), 5);
    assert!(
        world
            .snapshots
            .iter()
            .all(|(_, snapshot)| snapshot.is_complete())
    );
    for _ in 0..4 {
        world.gather(0);
    }
    let now = world.now;
    assert_eq!(
        world.manager(0).handle_demand(now),
        Err(StartGatherError::Busy)
    );
}
