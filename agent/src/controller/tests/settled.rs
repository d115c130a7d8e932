//! Snapshots that show nothing new.

use super::*;

#[test]
fn what_was_searched_to_its_end_is_not_searched_again_until_something_changes() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.end();
    for _ in 0..10 {
        bench.pass(5_000);
        bench.same_snapshot(0);
    }
    assert_eq!(bench.jobs.len(), 1);
    assert_eq!(bench.controller.counts().snapshots_unchanged, 10);
    bench.snapshot();
    assert_eq!(bench.jobs.len(), 2);
}

#[test]
fn what_was_not_searched_to_its_end_is_searched_again_after_a_while() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.pass(100);
    bench.checker(report(run, Ended::Budget));
    bench.pass(399);
    bench.same_snapshot(0);
    assert_eq!(bench.jobs.len(), 1);
    bench.pass(1);
    bench.same_snapshot(0);
    assert_eq!(bench.jobs.len(), 2);
    let run = bench.running();
    bench.checker(report(run, Ended::Unreadable));
    bench.same_snapshot(0);
    assert_eq!(bench.jobs.len(), 3, "nothing was learnt of it");
}

#[test]
fn the_filters_that_a_search_proved_outlive_their_lease_while_nothing_changes() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let ttl_ms = bench.controller.options().filter_ttl_ms;
    for _ in 0..10 {
        bench.pass(ttl_ms / 3);
        bench.same_snapshot(0);
    }
    assert_eq!(bench.in_force(), 1);
    assert_eq!(bench.jobs.len(), 1);
    let renewed = bench.controller.counts().filters_renewed;
    assert_eq!(renewed as usize, bench.installed().len() - 1);
    assert!(
        (3..10).contains(&renewed),
        "not more often than it must be: {renewed}"
    );
    assert!(bench.withdrawn().is_empty());
    bench.snapshot();
    bench.end();
    assert_eq!(bench.in_force(), 0, "what changes must be proved again");
}

#[test]
fn a_search_of_the_same_that_was_cut_short_takes_no_filter_back() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.find(7);
    bench.checker(report(run, Ended::Budget));
    bench.pass(60_000 / 2);
    bench.same_snapshot(0);
    let again = bench.running();
    assert_ne!(again, run);
    bench.checker(report(again, Ended::Budget));
    assert_eq!(
        bench.in_force(),
        1,
        "the first search proved it for this very state"
    );
    bench.pass(1_000);
    bench.same_snapshot(0);
    assert_ne!(bench.running(), again);
    bench.end();
    assert_eq!(
        bench.in_force(),
        0,
        "a search of everything found no need of it"
    );
}

#[test]
fn a_snapshot_that_waited_and_shows_nothing_new_is_passed_over() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.same_snapshot(0);
    bench.end();
    assert_eq!(bench.jobs.len(), 1);
    assert_eq!(bench.controller.counts().snapshots_unchanged, 1);
}

#[test]
fn other_rules_another_incarnation_and_a_filter_that_ended_make_the_same_worth_a_search() {
    let mut bench = Bench::steering();
    let mut jobs = 0;
    let mut searched = |bench: &mut Bench, why: &str| {
        bench.same_snapshot(0);
        jobs += 1;
        assert_eq!(bench.jobs.len(), jobs, "{why}");
        bench.find(7);
        bench.end();
        bench.same_snapshot(0);
        assert_eq!(bench.jobs.len(), jobs, "{why}: once");
    };
    searched(&mut bench, "the first");
    let (now, options) = (bench.now, bench.controller.options().clone());
    bench.controller.handle_options(now, options);
    searched(&mut bench, "other options");
    let audit = bench.controller.handle_operator(now, None, Mode::Audit);
    assert_eq!(audit.unwrap().allowed.mode, Mode::Audit);
    searched(&mut bench, "another mode");
    bench.attach("1");
    searched(&mut bench, "another incarnation");
    let filter = bench.installed().last().expect("there is one").id;
    bench.host(FilterEnded {
        filter,
        end: FilterEnd::HitsUsed,
        hits: 3,
    });
    searched(&mut bench, "a filter that ended");
}

#[test]
fn unchanged_snapshots_are_written_down_once_a_second() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.end();
    bench.clear();
    for _ in 0..30 {
        bench.pass(100);
        bench.same_snapshot(0);
    }
    assert_eq!(bench.records("snapshot").len(), 3);
}
