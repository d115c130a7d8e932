//! What the stories share: scenarios by name, judging states, and a plain breadth-first search to compare with.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use chord::scenarios::Options;
use chord::{Chord, properties};
use rustc_hash::{FxHashSet, FxHasher};
use scry::model::{EventOf, Tosses};
use scry::{Faults, Judgement, NodeId, Program, Request, Simulation, Step, System};

/// A scenario with bugs, as the command line would build it.
pub(crate) fn system(
    scenario: &str,
    bugs: &[&'static str],
    nodes: Option<u32>,
    options: &Options,
) -> System<Chord> {
    let bugs: BTreeSet<&'static str> = bugs.iter().copied().collect();
    let known = Chord::scenarios();
    let scenario = known
        .iter()
        .find(|known| known.name == scenario)
        .expect("the scenario exists");
    (scenario.build)(&Request {
        bugs: &bugs,
        nodes,
        options,
    })
    .expect("the scenario takes these options")
}

/// The start state of a scenario with its usual number of nodes and options.
pub(crate) fn start(scenario: &str, bugs: &[&'static str]) -> Simulation<Chord> {
    let system = system(scenario, bugs, None, &Options::default());
    system.start().expect("the script runs").0
}

/// The start state of `fresh`, with faults.
pub(crate) fn fresh(nodes: u32, options: &Options, faults: Faults) -> Simulation<Chord> {
    let system = system("fresh", &[], Some(nodes), options).faults(faults);
    system.start().expect("the script runs").0
}

pub(crate) fn node(simulation: &Simulation<Chord>, id: u32) -> &Chord {
    &simulation.nodes()[&NodeId::new(id)].local.service
}

pub(crate) fn ids(numbers: &[u32]) -> Vec<NodeId> {
    numbers.iter().copied().map(NodeId::new).collect()
}

/// Takes the step whose event reads as given, which must be possible.
pub(crate) fn play(simulation: &mut Simulation<Chord>, at: u32, reads: &str) {
    let id = NodeId::new(at);
    let enabled = simulation.enabled(id);
    let event = enabled.iter().find(|event| event.to_string() == reads);
    let event = event.unwrap_or_else(|| {
        let readable: Vec<String> = enabled.iter().map(EventOf::<Chord>::to_string).collect();
        panic!("{reads:?} is not among {readable:#?} at {id}")
    });
    take(simulation, id, event.clone(), Tosses::default());
}

pub(crate) fn take(
    simulation: &mut Simulation<Chord>,
    node: NodeId,
    event: EventOf<Chord>,
    tosses: Tosses,
) {
    let step = Step {
        node,
        event,
        tosses,
    };
    simulation.step(&step).expect("the step is possible");
}

/// The names of the properties a state violates.
pub(crate) fn violated(simulation: &Simulation<Chord>) -> Vec<String> {
    let views = simulation.views();
    properties::all()
        .iter()
        .filter(|property| property.judge(&views) == Judgement::Violated)
        .map(|property| property.name().to_owned())
        .collect()
}

/// Whether a walk along the first successors meets everyone from everyone.
pub(crate) fn is_one_ring(simulation: &Simulation<Chord>) -> bool {
    let everyone: BTreeSet<NodeId> = simulation.nodes().keys().copied().collect();
    is_ring_of(simulation, &everyone)
}

/// Whether a walk along the first successors meets exactly the members from each of them.
pub(crate) fn is_ring_of(simulation: &Simulation<Chord>, members: &BTreeSet<NodeId>) -> bool {
    let successor = |node: NodeId| simulation.nodes()[&node].local.service.successor;
    members.iter().all(|start| {
        let mut met = BTreeSet::from([*start]);
        let mut at = *start;
        while let Some(next) = successor(at) {
            if !met.insert(next) {
                break;
            }
            at = next;
        }
        met == *members
    })
}

/// What a search saw.
pub(crate) struct Search {
    pub(crate) states: usize,
    pub(crate) violation: Option<Violation>,
}

/// The first violation in the order of the search, hence one of the shortest.
pub(crate) struct Violation {
    pub(crate) properties: Vec<String>,
    pub(crate) path: Vec<Step<Chord>>,
}

/// Visits every state up to a depth, shallow ones first, until one violates a property or a handler panics.
pub(crate) fn search(start: Simulation<Chord>, depth_max: usize) -> Search {
    let mut seen = FxHashSet::default();
    seen.insert(fingerprint(&start));
    // For each state how it was reached: the index of its parent and the step.
    let mut origins: Vec<Option<(usize, Step<Chord>)>> = vec![None];
    let mut level = vec![(0, start)];
    for _ in 0..depth_max {
        let mut next_level = Vec::new();
        for (parent, state) in level {
            for (step, next) in state.successors() {
                if !seen.insert(fingerprint(&next)) {
                    continue;
                }
                let index = origins.len();
                origins.push(Some((parent, step)));
                let mut properties = violated(&next);
                properties.extend(panics(&next));
                if !properties.is_empty() {
                    let path = path(&origins, index);
                    return Search {
                        states: origins.len(),
                        violation: Some(Violation { properties, path }),
                    };
                }
                next_level.push((index, next));
            }
        }
        level = next_level;
    }
    Search {
        states: origins.len(),
        violation: None,
    }
}

/// Fails with the path if there is a violation, and returns how many states were visited.
#[track_caller]
pub(crate) fn assert_safe(start: Simulation<Chord>, depth_max: usize) -> usize {
    let search = search(start, depth_max);
    if let Some(violation) = search.violation {
        panic!("{:?}\n{}", violation.properties, story(&violation.path));
    }
    search.states
}

/// A path for people.
pub(crate) fn story(path: &[Step<Chord>]) -> String {
    path.iter().fold(String::new(), |mut text, step| {
        writeln!(text, "{}: {}", step.node, step.event).expect("a string takes what is written");
        text
    })
}

fn panics(simulation: &Simulation<Chord>) -> Option<String> {
    simulation
        .nodes()
        .values()
        .find_map(|node| node.local.panic.clone())
}

fn path(origins: &[Option<(usize, Step<Chord>)>], last: usize) -> Vec<Step<Chord>> {
    let mut path = Vec::new();
    let mut at = last;
    while let Some((parent, step)) = &origins[at] {
        path.push(step.clone());
        at = *parent;
    }
    path.reverse();
    path
}

fn fingerprint(simulation: &Simulation<Chord>) -> u64 {
    let mut hasher = FxHasher::default();
    simulation.hash(&mut hasher);
    hasher.finish()
}
