//! Clocks that are days apart, and are set back and forward while the service runs.

use scry_tests::attack::{Cluster, Meter, Plan};

use crate::numbers::{assert_nothing_predicted, assert_predicting};

const DAY_MS: i64 = 86_400_000;

fn days_apart() -> Plan {
    Plan::new().clock(1, -5 * DAY_MS).clock(3, 9 * DAY_MS)
}

/// The third node's process is started again and again, each time with its clock set to another day.
fn assert_survives_restarts(cluster: &mut Cluster) {
    for ahead in [-400, 400, -1] {
        cluster.restart(3, ahead * DAY_MS);
        assert_predicting(cluster);
    }
    assert_nothing_predicted(cluster);
}

#[test]
fn clocks_days_apart_that_are_set_in_mid_run_mislead_nobody() {
    let mut cluster = days_apart().start();
    let meter = Meter::start(&cluster);
    assert_predicting(&cluster);
    for (one, two, three) in [(30, -30, 0), (-30, 30, -400), (0, 0, 9)] {
        cluster.node(1).set_clock(one * DAY_MS);
        cluster.node(2).set_clock(two * DAY_MS);
        cluster.node(3).set_clock(three * DAY_MS);
        cluster.node(3).reset();
        assert_predicting(&cluster);
    }
    assert_nothing_predicted(&cluster);
    meter.assert_withstood();
    assert_survives_restarts(&mut cluster);
}

/// Numbers and incarnations begin with the time of day then.
#[test]
fn clocks_of_nodes_without_disks_mislead_nobody() {
    let mut cluster = days_apart().without_disks().start();
    let meter = Meter::start(&cluster);
    assert_predicting(&cluster);
    for (one, two) in [(30, -30), (-30, 30)] {
        cluster.node(1).set_clock(one * DAY_MS);
        cluster.node(2).set_clock(two * DAY_MS);
        assert_predicting(&cluster);
    }
    assert_nothing_predicted(&cluster);
    meter.assert_withstood();
    // Nobody has written anything down at the third, so that it forgets nothing.
    assert_survives_restarts(&mut cluster);
}
