//! A breadth-first search over whole states: slow, obvious, and no part of the engine.

use std::rc::Rc;

use paxos::Paxos;
use rustc_hash::FxHashMap;
use scry::{Judgement, Service, Simulation, Step, System};

/// What a search saw.
#[derive(Debug)]
pub(crate) struct Seen {
    /// How many states.
    pub(crate) states: usize,
    /// How many transitions, also those between states seen before.
    pub(crate) transitions: usize,
    /// How many steps the deepest state is away from the start.
    pub(crate) depth: usize,
    /// The first violation that was met: the property's name and the way there. The search ends there.
    pub(crate) violation: Option<(String, Vec<Step<Paxos>>)>,
    /// The state in which the search ended, or one of the deepest.
    pub(crate) last: Simulation<Paxos>,
}

/// How a state was reached first.
type Origin = Option<(Rc<Simulation<Paxos>>, Step<Paxos>)>;

/// Explores a system from its start state to `depth_max` steps, or until a property is violated.
pub(crate) fn search(system: &System<Paxos>, depth_max: usize) -> Seen {
    let (start, _) = system.start().expect("the script can be carried out");
    let start = Rc::new(start);
    let mut seen = Seen {
        states: 1,
        transitions: 0,
        depth: 0,
        violation: None,
        last: Simulation::clone(&start),
    };
    let mut origins: FxHashMap<Rc<Simulation<Paxos>>, Origin> = FxHashMap::default();
    origins.insert(start.clone(), None);
    assert_eq!(violated(&start), None, "the start state is good");
    let mut level = vec![start];
    while !level.is_empty() && seen.depth < depth_max {
        let mut next_level = Vec::new();
        for state in level {
            for (step, next) in state.successors() {
                seen.transitions += 1;
                if origins.contains_key(&next) {
                    continue;
                }
                let next = Rc::new(next);
                origins.insert(next.clone(), Some((state.clone(), step)));
                seen.states = origins.len();
                if let Some(name) = violated(&next) {
                    seen.depth += 1;
                    seen.violation = Some((name, path(&origins, next.clone())));
                    seen.last = Simulation::clone(&next);
                    return seen;
                }
                next_level.push(next);
            }
        }
        if let Some(state) = next_level.first() {
            seen.depth += 1;
            seen.last = Simulation::clone(state);
        }
        level = next_level;
    }
    seen
}

/// Returns the name of the first property that a state violates.
pub(crate) fn violated(state: &Simulation<Paxos>) -> Option<String> {
    let views = state.views();
    for node in state.nodes().values() {
        assert_eq!(node.local.panic, None, "no handler panics");
    }
    Paxos::properties()
        .into_iter()
        .find(|property| property.judge(&views) == Judgement::Violated)
        .map(|property| property.name().to_owned())
}

fn path(
    origins: &FxHashMap<Rc<Simulation<Paxos>>, Origin>,
    mut state: Rc<Simulation<Paxos>>,
) -> Vec<Step<Paxos>> {
    let mut steps = Vec::new();
    while let Some((before, step)) = &origins[&state] {
        steps.push(step.clone());
        state = before.clone();
    }
    steps.reverse();
    steps
}
