//! Past paths on new snapshots (A-104…A-108).

use randtree::{RandTree, Timer, scenarios};
use scry::checker::{path, replay};
use scry::model::Tosses;
use scry::{Event, NodeId, Service, Simulation, Step};
use scry_protocol::ViolationId;
use scry_protocol::link::checker::{CheckerToAgent, Ended, PastPath};

use crate::pupil::{BAD, Pupil, Story, tell};
use crate::support::{job, listener, past, run, scenario, shown};

fn tree(bugs: &[&'static str]) -> Simulation<RandTree> {
    scenario("r1", bugs, &scenarios::Options::default())
}

/// Lets a node's recovery timer fire, so that the tree is a little further.
fn later(mut state: Simulation<RandTree>) -> Simulation<RandTree> {
    for node in [1, 9, 13].map(NodeId::new) {
        let step = Step {
            node,
            event: Event::Timer(Timer::Recovery),
            tosses: Tosses::default(),
        };
        state.step(&step).expect("the timer runs");
    }
    state
}

#[test]
fn a_107_the_path_of_f_4_replays_on_a_later_snapshot_before_any_search() {
    let first = run::<RandTree>(&job(&tree(&["update-sibling"]), 1));
    let violation = first.found()[0];
    let mut again = job(&later(tree(&["update-sibling"])), 1);
    again.past_paths.push(past(violation));
    let second = run::<RandTree>(&again);
    assert!(matches!(&second.heard[0], CheckerToAgent::Replayed(_)));
    let replayed = second.replayed()[0];
    assert!(replayed.confirmed);
    assert_eq!(replayed.violation, violation.id);
    assert_eq!(shown(&replayed.remedies[0]), "hold this Join n13->n1");
    assert_eq!(replayed.remedies[0].violation, violation.id);
    // The same local events at the same property have the same name.
    assert!(second.found().iter().any(|found| found.id == violation.id));
}

#[test]
fn a_105_messages_that_are_not_sent_are_not_injected() {
    let first = run::<Pupil>(&job(&tell(Story::Behind), 1));
    let mut again = job(&tell(Story::Silence), 1);
    again.past_paths.push(past(first.found()[0]));
    let second = run::<Pupil>(&again);
    assert!(!second.replayed()[0].confirmed);
    assert_eq!(second.replayed()[0].remedies, []);
}

#[test]
fn a_106_dice_fall_as_they_fell() {
    let start = tell(Story::Dice);
    let first = run::<Pupil>(&job(&start, 1));
    let old = path::read::<Pupil>(&first.found()[0].path).expect("a path");
    assert_eq!(old[0].tosses.picks, [(3, 2)]);
    assert_eq!(old[0].tosses.draws.len(), 2);
    let properties = Pupil::properties();
    let again = replay::replay(&start, &old, &properties).expect("it confirmed");
    assert_eq!(again.path, old);
    let mut state = start.clone();
    state.step(&again.path[0]).expect("a step");
    let service = &state.nodes()[&NodeId::new(1)].local.service;
    assert_eq!(
        (service.value, service.tries),
        (BAD, old[0].tosses.draws[1] as u8)
    );
    // Without the record, the first pick is taken and all is well.
    let forgotten = Step {
        tosses: Tosses::default(),
        ..old[0].clone()
    };
    assert!(replay::replay(&start, &[forgotten], &properties).is_none());
}

#[test]
fn a_path_that_cannot_be_read_is_told_and_passed_over() {
    let mut job = job(&tell(Story::Call), 1);
    job.past_paths.push(PastPath {
        violation: ViolationId::new(5),
        path: vec![0xc1, 7],
    });
    let heard = run::<Pupil>(&job);
    assert!(!heard.replayed()[0].confirmed);
    assert!(
        heard.report().detail.contains("v5"),
        "{}",
        heard.report().detail
    );
    assert_eq!(heard.found().len(), 1);
}

#[test]
fn a_108_many_paths_do_not_keep_the_search_from_starting() {
    let first = run::<Pupil>(&job(&tell(Story::Call), 1));
    let mut again = job(&tell(Story::Silence), 1);
    again.past_paths = vec![past(first.found()[0]); 256];
    again.budget.time_ms = 0;
    let second = run::<Pupil>(&again);
    assert_eq!(second.replayed().len(), 0);
    assert!(second.report().detail.contains("no time to replay 256"));
}

#[test]
fn a_run_that_is_cancelled_says_so() {
    let mut listener = listener();
    listener.patience = Some(1);
    let job = job(&tree(&["update-sibling"]), 1);
    scry::checker::Checker::<RandTree>::default().run(&job, &mut listener);
    assert_eq!(listener.report().ended, Ended::Cancelled);
}
