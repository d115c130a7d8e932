//! The plain deployment, state by state against a model of the same protocol that shares no code with it.

use paxos::Bugs;
use paxos::scenarios::plain_system;

use crate::packed;
use crate::search::search;

fn check(proposers: u32, acceptors: u32) {
    let seen = search(
        &plain_system(proposers, acceptors, Bugs::default()),
        usize::MAX,
    );
    assert_eq!(seen.violation, None);
    assert_eq!(
        (seen.states, seen.transitions),
        packed::count(proposers as usize, acceptors as usize),
        "{proposers} proposers, {acceptors} acceptors"
    );
}

#[test]
fn the_service_has_exactly_the_states_of_the_textbook_model() {
    check(1, 3);
    check(2, 1);
    check(2, 2);
    check(2, 3);
    check(3, 1);
    check(3, 2);
}

#[test]
fn the_textbook_model_has_the_size_other_checkers_report() {
    assert_eq!(packed::count(3, 3), (5_451_776, 22_908_645));
}

#[test]
fn taking_the_last_promise_lets_two_values_be_chosen() {
    let bugs = Bugs {
        last_promise: true,
        ..Bugs::default()
    };
    let seen = search(&plain_system(2, 3, bugs), usize::MAX);
    let (name, _) = seen.violation.expect("two values are chosen");
    assert_eq!(name, "at most one value is chosen");
}
