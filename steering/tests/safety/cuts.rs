//! What neighbors' states are good for: only consistent cuts refuse anything.

use scry::runtime::guard::{Examined, Guard, Reviewed};
use scry_protocol::filter::Mode;
use scry_protocol::link::host::{Isolate, Outcome};
use scry_protocol::{CheckpointNumber, Incarnation, Moment, Past};

use crate::cases::{
    FORMS, OTHER, check, examine, look_again, neighbor, notices, refuses_after_a_look, rules,
    with_scene,
};
use crate::toy::Message;

fn moment(number: u32) -> Moment {
    Moment {
        life: Incarnation::new(1),
        number: CheckpointNumber::from(number),
    }
}

pub(crate) fn leaves_out_moved_on() {
    for form in FORMS {
        let mut check = check(rules(form));
        check.set_surroundings(neighbor(5));
        let mut past = Past::default();
        past.note(OTHER, moment(1));
        // What is out of date is good for a suspicion, and no more.
        let examined = with_scene(Mode::Steer, 0, Message::Set(5), &past, |scene| {
            check.examine(scene)
        });
        assert!(matches!(examined, Examined::Suspect { .. }), "{examined:?}");
        let reviewed = with_scene(Mode::Steer, 0, Message::Set(5), &past, |scene| {
            check.review(scene, "all different", true)
        });
        assert!(
            matches!(reviewed, Reviewed::Run(Outcome::Cleared, _)),
            "{reviewed:?}"
        );
        // In audit nothing is said that a consistent cut does not show.
        let _ = with_scene(Mode::Audit, 0, Message::Set(5), &past, |scene| {
            check.examine(scene)
        });
        let told = notices(&mut check);
        assert!(told.is_empty(), "{told:?}");
    }
}

pub(crate) fn wants_one_moment() {
    for form in FORMS {
        let mut check = check(rules(form));
        check.set_surroundings(neighbor(5));
        let reviewed = look_again(&mut check, 0, Message::Set(5), false);
        assert!(
            matches!(reviewed, Reviewed::Run(Outcome::NotTogether, _)),
            "{reviewed:?}"
        );
    }
}

pub(crate) fn counts_what_lasts() {
    for form in FORMS {
        let mut check = check(rules(form));
        let mut silent = neighbor(5);
        silent.neighbors[0].present = false;
        check.set_surroundings(silent.clone());
        let reviewed = look_again(&mut check, 0, Message::Set(5), true);
        assert!(
            matches!(reviewed, Reviewed::Run(Outcome::Cleared, _)),
            "{reviewed:?}"
        );
        silent.neighbors[0].lasting = vec!["all different".to_owned()];
        check.set_surroundings(silent);
        refuses_after_a_look(&mut check, 0, Message::Set(5));
    }
}

pub(crate) fn loses_patience() {
    let mut check = check(rules(Isolate::Clone));
    let mut silent = neighbor(5);
    silent.neighbors[0].present = false;
    check.set_surroundings(silent);
    let mut held = 0;
    for _ in 0..4 + 128 * 2 {
        if let Examined::Suspect { property } = examine(&mut check, 0, Message::Set(5)) {
            held += 1;
            with_scene(Mode::Steer, 0, Message::Set(5), &Past::default(), |scene| {
                check.review(scene, &property, true)
            });
        }
    }
    assert_eq!(held, 4 + 2);
}
