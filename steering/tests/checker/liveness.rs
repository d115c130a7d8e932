//! What never comes true again is predicted from the live state, prevented at the critical transition, and no remedy leads there.

use scry::{Faults, NodeId, Simulation};
use scry_protocol::filter::Mode;
use scry_protocol::link::checker::{How, Job, Violation};

use crate::guest::{CALM, Guest, SEATED, Story, tell, tell_with};
use crate::restore::replace;
use crate::support::{Listener, job, past, run, shown};

fn job_of(state: &Simulation<Guest>, by: u32) -> Job {
    Job {
        strategy: "portfolio".to_owned(),
        ..job(state, by)
    }
}

fn heard(story: Story) -> Listener {
    run::<Guest>(&job_of(&tell(story), 1))
}

/// Returns what is told of the guest that is never seated, if it is.
fn death(heard: &Listener) -> Option<Violation> {
    let found = heard.found().into_iter();
    let mut dead = found.filter(|violation| violation.how == How::Dead);
    let first = dead.next().cloned();
    assert!(dead.next().is_none(), "it is told once");
    if let Some(first) = &first {
        assert_eq!(first.property, SEATED);
    }
    first
}

/// Returns the remedy against it, or why there is none.
fn remedy(story: Story) -> Result<String, String> {
    let dead = death(&heard(story)).expect("it is predicted");
    match dead.remedies.first() {
        Some(filter) => {
            assert_eq!(dead.unhelpful, "");
            assert_eq!(filter.property, SEATED);
            assert_eq!(filter.violation, dead.id);
            assert!(filter.reason.contains("may never come true again"));
            Ok(shown(filter))
        }
        None => Err(dead.unhelpful),
    }
}

#[test]
fn b_5_the_critical_transition_is_told_and_kept_back() {
    let dead = death(&heard(Story::Early)).expect("it is predicted");
    assert_eq!(dead.critical, "Welcome from n0 at n1");
    assert_eq!(dead.depth, 1);
    assert!(
        dead.explanation.starts_with("it never comes true again"),
        "{}",
        dead.explanation
    );
    assert_eq!(remedy(Story::Early).as_deref(), Ok("hold Welcome n0->n1"));
    assert_eq!(
        remedy(Story::BadNews).as_deref(),
        Ok("drop this Letter n0->n1")
    );
    assert_eq!(remedy(Story::Closing).as_deref(), Ok("postpone timer Tick"));
    assert_eq!(remedy(Story::Leaving).as_deref(), Ok("refuse call Leave"));
}

#[test]
fn a_filter_that_leads_into_a_dead_state_is_no_remedy_against_one() {
    let reason = remedy(Story::Letter).expect_err("without the letter it is as dead");
    assert!(
        reason.contains("then this never comes true afterwards: the guest is seated"),
        "{reason}"
    );
    let reason =
        remedy(Story::Letters).expect_err("all letters are dropped, or the next one does it");
    assert!(
        reason.contains("the next try says it in other words"),
        "{reason}"
    );
    assert!(
        reason.contains("never comes true while it lasts"),
        "{reason}"
    );
}

#[test]
fn what_chance_or_a_fault_does_cannot_be_kept_back() {
    let reason = remedy(Story::Dice).expect_err("who does not ask is not seated either");
    assert!(reason.contains("while it lasts"), "{reason}");
    let faults = Faults {
        resets: 1,
        ..Faults::NONE
    };
    let heard = run::<Guest>(&job_of(&tell_with(Story::Forgotten, faults), 1));
    let dead = death(&heard).expect("it is predicted");
    assert_eq!(dead.critical, "reset at n1");
    assert_eq!(
        dead.unhelpful,
        "nobody can keep back the critical transition: reset at n1"
    );
}

#[test]
fn the_critical_transition_of_another_node_is_for_that_node() {
    let heard = run::<Guest>(&job_of(&tell(Story::Early), 0));
    let dead = death(&heard).expect("it is predicted");
    assert_eq!(dead.remedies, []);
    assert_eq!(dead.neighbor, Some(NodeId::new(1)));
    assert_eq!(
        dead.unhelpful,
        "only n1 can keep back the critical transition: Welcome from n0 at n1"
    );
}

#[test]
fn what_is_not_proved_is_not_told() {
    // What follows has no end, so nobody has seen that the guest is never seated in it.
    let endless = Job {
        budget: scry_protocol::link::checker::Budget {
            states_max: 5_000,
            ..job_of(&tell(Story::Endless), 1).budget
        },
        ..job_of(&tell(Story::Endless), 1)
    };
    assert_eq!(death(&run::<Guest>(&endless)), None);
    let partial = Job {
        whole: false,
        ..job_of(&tell(Story::Early), 1)
    };
    let heard = run::<Guest>(&partial);
    assert_eq!(death(&heard), None);
    let unjudged = &heard.report().unjudged;
    assert!(
        unjudged
            .iter()
            .any(|it| it.property == SEATED && it.why.contains("not all nodes are in view")),
        "{unjudged:?}"
    );
}

/// What is on its way unseen may be what seats the guest.
#[test]
fn where_messages_are_not_recorded_nothing_is_said_of_what_never_comes() {
    let mut job = job_of(&tell(Story::Closing), 1);
    assert!(death(&run::<Guest>(&job)).is_some());
    replace(&mut job.snapshot, NodeId::new(0), |content| {
        content.channels = None;
    });
    let heard = run::<Guest>(&job);
    assert_eq!(death(&heard), None);
    let unjudged = &heard.report().unjudged;
    assert!(
        unjudged
            .iter()
            .any(|it| it.why.contains("not all messages")),
        "{unjudged:?}"
    );
}

#[test]
fn with_liveness_off_nothing_of_it_is_done() {
    for story in [Story::Early, Story::BadNews, Story::Closing, Story::Leaving] {
        let off = Job {
            liveness: Mode::Off,
            ..job_of(&tell(story), 1)
        };
        let heard = run::<Guest>(&off);
        assert_eq!(heard.found(), Vec::<&Violation>::new());
        assert_eq!(heard.report().unjudged, []);
    }
    let mut off = job_of(&tell(Story::Early), 1);
    off.modes = vec![scry_protocol::link::host::PropertyMode {
        property: SEATED.to_owned(),
        mode: Mode::Off,
    }];
    assert_eq!(
        death(&run::<Guest>(&off)),
        None,
        "nor if the property is off"
    );
}

#[test]
fn what_is_too_late_already_is_told_as_that() {
    let mut state = tell(Story::Early);
    let (step, after) = state
        .successors()
        .into_iter()
        .find(|(step, _)| step.event.to_string().starts_with("Welcome"))
        .expect("the welcome is on its way");
    assert_eq!(step.node, NodeId::new(1));
    state = after;
    let dead = death(&run::<Guest>(&job_of(&state, 1))).expect("it is seen");
    assert_eq!((dead.depth, dead.critical.as_str()), (0, ""));
    assert_eq!(dead.unhelpful, "it is too late already");
}

#[test]
fn a_104_the_path_into_a_dead_state_is_replayed_and_prevented_anew() {
    let start = tell(Story::Early);
    let dead = death(&run::<Guest>(&job_of(&start, 1))).expect("it is predicted");
    let mut again = job_of(&start, 1);
    again.past_paths = vec![past(&dead)];
    let heard = run::<Guest>(&again);
    let replayed = heard.replayed()[0];
    assert!(replayed.confirmed);
    assert_eq!(replayed.how, How::Dead);
    assert_eq!(shown(&replayed.remedies[0]), "hold Welcome n0->n1");
    let second = death(&heard).expect("the search finds it too");
    assert_eq!(second.remedies, replayed.remedies);

    let asked = start
        .successors()
        .into_iter()
        .find(|(step, _)| step.event.to_string() == "call Ask");
    let mut danger_passed = job_of(&asked.expect("it may ask").1, 1);
    danger_passed.past_paths = vec![past(&dead)];
    let heard = run::<Guest>(&danger_passed);
    assert!(!heard.replayed()[0].confirmed, "who has asked is seated");
    assert_eq!(death(&heard), None);

    let mut off = again;
    off.liveness = Mode::Off;
    assert!(!run::<Guest>(&off).replayed()[0].confirmed);
}

fn against_upset(story: Story, liveness: Mode) -> Result<String, String> {
    let job = Job {
        liveness,
        ..job_of(&tell(story), 1)
    };
    let heard = run::<Guest>(&job);
    let mut found = heard.found().into_iter();
    let upset = found.find(|violation| violation.property == CALM);
    let upset = upset.expect("the broken property is predicted");
    assert_eq!((upset.how, upset.critical.as_str()), (How::Broken, ""));
    match upset.remedies.first() {
        Some(filter) => Ok(shown(filter)),
        None => Err(upset.unhelpful.clone()),
    }
}

#[test]
fn a_remedy_against_a_broken_property_that_leads_into_a_dead_state_is_refused() {
    assert_eq!(
        against_upset(Story::Upsetting, Mode::Off).as_deref(),
        Ok("drop this Letter n0->n1"),
        "nobody asks what becomes of the guest"
    );
    for liveness in [Mode::Audit, Mode::Steer] {
        let reason =
            against_upset(Story::Upsetting, liveness).expect_err("it would never be seated");
        assert!(
            reason.contains("then this never comes true afterwards: the guest is seated"),
            "{reason}"
        );
    }
    // To wait until the guest has asked is no harm.
    assert_eq!(
        against_upset(Story::Tactless, Mode::Audit).as_deref(),
        Ok("hold Welcome n0->n1")
    );
}
