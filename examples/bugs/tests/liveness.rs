//! Every liveness bug is found and proved, with the step the paper tells of, and its repair leaves nothing dead.

use bugs::liveness::{self, LivenessRow, Verdict};

fn hunt(bug: &str) -> LivenessRow {
    let case = liveness::ALL.iter().find(|case| case.bug == bug);
    let case = case.expect("the catalogue has the bug");
    case.hunt().expect("the scenario leads to a search")
}

/// The bug is proved, and `event` is the step from which on it is too late, so many steps after everything began.
#[track_caller]
fn check(bug: &str, step: usize, event: &str) -> LivenessRow {
    let row = hunt(bug);
    let told = row.told.as_ref().expect("it is found");
    assert_eq!(told.verdict, Verdict::Dead);
    assert_eq!(
        (told.critical_step, told.critical_event.as_str()),
        (step, event)
    );
    assert!(
        told.live.is_some(),
        "something would have come true instead"
    );
    assert!(row.walks_found, "walks find it too");
    assert_eq!((row.fixed.dead, row.fixed.violations), (0, 0));
    assert!(row.is_fine());
    row
}

#[test]
fn f_8_the_reply_that_a_reset_node_ignores_is_the_critical_event() {
    let start_steps = hunt("ignored-reply").start_steps;
    let event = "n4: JoinReply { root: n1 } from n3";
    let row = check("ignored-reply", start_steps + 1, event);
    assert!(row.fixed.complete);
}

#[test]
fn f_9_the_lost_connection_that_leaves_no_timer_is_the_critical_event() {
    let row = check("two-trees", 5, "n3: connection to n1 breaks");
    // Repaired, it probes for ever, and what it sends piles up: there is no end within reach.
    assert!(!row.fixed.complete);
}

#[test]
fn f_20_the_acknowledgement_is_the_critical_event() {
    let row = check("stale-syn", 5, "n1: Ack(6001) from n2");
    assert_eq!(row.start_steps, 0);
    assert!(row.fixed.complete);
}

#[test]
fn f_21_the_request_of_a_restarted_node_is_the_critical_event() {
    let row = check("rejoin", 9, "n1: Join { node: n2, hops: 0 } from n2");
    assert!(row.fixed.complete);
}

#[test]
fn f_22_the_notice_that_changes_one_pointer_is_the_critical_event() {
    let row = check("stale-successor", 8, "n0: UpdatePred from n1");
    assert!(row.fixed.complete);
}
