//! What neighbors' states are good for: only consistent cuts refuse anything.

use std::time::Instant;

use scry::model::event::Input;
use scry::runtime::guard::{Asked, Examined, Guard, Meanwhile, Reviewed, Scene};
use scry::safety::SafetyCheck;
use scry_protocol::filter::Mode;
use scry_protocol::link::host::{Isolate, Outcome};
use scry_protocol::{CheckpointNumber, Incarnation, Moment, Past};

use crate::cases::{
    FORMS, OTHER, check, examine, look_again, neighbor, notices, refuses_after_a_look, rules,
    with_scene,
};
use crate::toy::{Counter, ELDER, HEIR, Message, counter};

fn idle(past: &Past) -> Asked<'_, Counter> {
    Asked {
        at: Instant::now(),
        past,
        meanwhile: Meanwhile::Idle,
    }
}

fn moment(number: u32) -> Moment {
    Moment {
        incarnation: Incarnation::new(1),
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
        let mut review = |past: &Past| {
            with_scene(Mode::Steer, 0, Message::Set(5), past, |scene| {
                check.review(scene, "all different", &idle(past))
            })
        };
        // It answered and has moved on since, so that it is worth asking again.
        let reviewed = review(&past);
        let not_together = matches!(reviewed, Reviewed::AskAgain { .. });
        assert!(not_together, "{reviewed:?}");
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
        let not_together = |reviewed: Reviewed<Counter>| {
            let run = matches!(reviewed, Reviewed::AskAgain { .. });
            assert!(run, "{reviewed:?}");
        };
        let mut check = check(rules(form));
        let asked = Instant::now();
        check.set_surroundings(neighbor(5));
        let past = Past::default();
        let busy = |local| Meanwhile::Busy(Some(local));
        // The node did something else meanwhile, and nobody knows what it was before.
        let nothing = Meanwhile::Busy(None);
        not_together(look_again(&mut check, 0, Message::Set(5), nothing));
        // What it was before is known, and the neighbor's state was not before it was asked.
        let then = counter(1);
        let late = with_scene(Mode::Steer, 0, Message::Set(5), &past, |scene| {
            let (at, past, meanwhile) = (asked, &past, busy(&then));
            let asked = Asked {
                at,
                past,
                meanwhile,
            };
            check.review(scene, "all different", &asked)
        });
        not_together(late);
        // It was: the event would have broken the property had it been handled then.
        let reviewed = look_again(&mut check, 0, Message::Set(5), busy(&then));
        assert!(matches!(reviewed, Reviewed::Refuse(_)), "{reviewed:?}");
        // At that time it would have broken nothing: only what came since makes it so.
        let then = counter(5);
        not_together(look_again(&mut check, 0, Message::Set(5), busy(&then)));
    }
}

pub(crate) fn counts_what_lasts() {
    for form in FORMS {
        let mut check = check(rules(form));
        let mut silent = neighbor(5);
        silent.neighbors[0].present = false;
        check.set_surroundings(silent.clone());
        let reviewed = look_again(&mut check, 0, Message::Set(5), Meanwhile::Idle);
        assert!(
            matches!(reviewed, Reviewed::Run(Outcome::Cleared, _)),
            "{reviewed:?}"
        );
        silent.neighbors[0].lasting = vec!["all different".to_owned()];
        check.set_surroundings(silent);
        refuses_after_a_look(&mut check, 0, Message::Set(5));
    }
}

/// The peer's last known state is out of date and breaks the property whatever the node does, so that it accuses nothing. What it
/// says when it is up again does.
pub(crate) fn waits_for_whom_the_news_is_about() {
    for form in FORMS {
        let mut check = check(rules(form));
        let lost = |check: &mut SafetyCheck<Counter>| {
            let past = Past::default();
            with_scene(Mode::Steer, ELDER, Message::Roll, &past, |scene| {
                let input = &Input::Disconnect(OTHER);
                check.review(&Scene { input, ..*scene }, "all different", &idle(&past))
            })
        };
        let mut silent = neighbor(ELDER);
        silent.neighbors[0].present = false;
        check.set_surroundings(silent);
        let reviewed = lost(&mut check);
        let again = matches!(reviewed, Reviewed::AskAgain { guilty: false });
        assert!(again, "{reviewed:?}");
        check.set_surroundings(neighbor(HEIR));
        let reviewed = lost(&mut check);
        assert!(matches!(reviewed, Reviewed::Refuse(_)), "{reviewed:?}");
        check.set_surroundings(neighbor(6));
        let reviewed = lost(&mut check);
        let cleared = matches!(reviewed, Reviewed::Run(Outcome::Cleared, _));
        assert!(cleared, "{reviewed:?}");
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
                check.review(scene, &property, &idle(&Past::default()))
            });
        }
    }
    assert_eq!(held, 4 + 2);
}
