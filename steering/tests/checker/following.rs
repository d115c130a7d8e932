//! A stored trace taken again: its steps are found by their words, and what does not fit is refused.

use proptest::prelude::*;
use randtree::scenarios::Options;
use scry::checker::spell::spell;
use scry::trace::follow::{FollowError, follow};
use scry::trace::{Trace, TraceStep, json};
use scry::{NodeId, Service, Simulation, Step};

use crate::support::scenario;
use crate::table::{ANYTHING, starts};

/// Goes on as choices say, while something is possible.
fn wander<S: Service>(start: &Simulation<S>, choices: &[u16]) -> Vec<Step<S>> {
    let mut state = start.clone();
    let mut path = Vec::new();
    for &choice in choices {
        let mut all = state.successors();
        if all.is_empty() {
            break;
        }
        let (step, after) = all.swap_remove(usize::from(choice) % all.len());
        path.push(step);
        state = after;
    }
    path
}

/// What a step says, without what is made out about it afterwards.
fn words(trace: &Trace) -> Vec<TraceStep> {
    let steps = trace.steps.iter().cloned();
    let bare = |step| TraceStep {
        sent_by: None,
        sends: Vec::new(),
        ..step
    };
    steps.map(bare).collect()
}

fn stored(trace: &Trace) -> Trace {
    json::parse(json::render(trace).as_bytes()).expect("a trace")
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_trace_is_taken_again_from_its_file(start in starts(ANYTHING), choices in prop::collection::vec(any::<u16>(), 0..25)) {
        let path = wander(&start, &choices);
        let trace = spell(&start, &path);
        prop_assert_eq!(trace.steps.len(), path.len());
        let again = follow(&start, &stored(&trace)).expect("it can be taken");
        // On which of two connections something came is not in the words, so it may be another path that reads the same.
        prop_assert_eq!(words(&spell(&start, &again)), words(&trace));
    }

    #[test]
    fn a_trace_that_was_tampered_with_is_refused_or_is_an_execution_after_all(
        start in starts(ANYTHING),
        choices in prop::collection::vec(any::<u16>(), 2..15),
        at in any::<prop::sample::Index>(),
        how in 0..4,
    ) {
        let path = wander(&start, &choices);
        let mut trace = spell(&start, &path);
        if trace.steps.len() < 2 {
            return Ok(());
        }
        let at = at.index(trace.steps.len() - 1);
        match how {
            0 => drop(trace.steps.remove(at)),
            1 => trace.steps.swap(at, at + 1),
            2 => trace.steps[at].state = serde_json::json!({ "no": "state" }),
            _ => trace.steps.insert(at, trace.steps[at + 1].clone()),
        }
        if let Ok(path) = follow(&start, &trace) {
            prop_assert_eq!(words(&spell(&start, &path)), words(&trace));
        }
    }
}

#[test]
fn a_trace_of_other_nodes_or_another_beginning_is_refused() {
    let start = scenario::<randtree::RandTree>("r1", &["update-sibling"], &Options::default());
    let trace = spell(&start, &wander(&start, &[3, 1, 4, 1, 5]));
    assert_eq!(trace.steps.len(), 5);
    assert!(follow(&start, &trace).is_ok());
    let mut fewer = trace.clone();
    fewer.start.remove(&NodeId::new(13));
    let refused = follow(&start, &fewer).expect_err("it is of other nodes");
    assert!(matches!(refused, FollowError::Nodes { .. }), "{refused}");
    let after = {
        let mut state = start.clone();
        let step = &wander(&start, &[3])[0];
        state.step(step).expect("it is possible");
        state
    };
    // It changes a node, or what is on its way: then the first step may be gone.
    let refused = follow(&after, &trace).expect_err("it begins elsewhere");
    let said = refused.to_string();
    assert!(
        said.contains("begins in another state") || said.contains("step 1 of 5"),
        "{said}"
    );
    let empty = Trace {
        steps: Vec::new(),
        ..trace
    };
    assert_eq!(follow(&start, &empty).map(|path| path.len()), Ok(0));
}
