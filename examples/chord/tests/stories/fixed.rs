//! With every bug fixed, no fault within the bound breaks a safety property.

use chord::scenarios::Options;
use scry::Faults;

use crate::world::{assert_safe, fresh};

#[test]
fn two_nodes_survive_each_kind_of_fault_twice() {
    let faults = Faults {
        resets: 2,
        silent_resets: 2,
        breaks: 2,
        ..Faults::NONE
    };
    assert_safe(fresh(2, &Options::default(), faults), 8);
}

#[test]
fn three_nodes_survive_each_kind_of_fault() {
    let faults = Faults {
        resets: 1,
        silent_resets: 1,
        breaks: 1,
        ..Faults::NONE
    };
    assert_safe(fresh(3, &Options::default(), faults), 6);
}

#[test]
fn finger_lookups_break_nothing() {
    let options = Options {
        finger_lookups: true,
        ..Options::default()
    };
    let faults = Faults {
        resets: 1,
        ..Faults::NONE
    };
    assert_safe(fresh(3, &options, faults), 7);
}
