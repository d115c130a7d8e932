//! Slow and obvious: whole states in plain values, cloned and compared, nothing remembered but the states themselves.

use std::collections::{BTreeMap, HashMap};

use scry_engine::interned::PANIC_PROPERTY;
use scry_engine::model::simulation::Effectiveness;
use scry_engine::property::Shape;
use scry_engine::{
    Judgement, NodeId, Options, Property, Report, Search, Service, Simulation, Step, View,
};

/// What a breadth-first search over whole states found.
pub(crate) struct Reference<S: Service> {
    /// Every state with its least depth.
    pub(crate) states: HashMap<Simulation<S>, u32>,
    pub(crate) transitions: u64,
    /// How many levels were expanded, if not all were.
    pub(crate) bound: Option<u32>,
}

/// Explores level by level, as far as whole levels fit into `states_max`.
pub(crate) fn explore<S: Service>(start: &Simulation<S>, states_max: usize) -> Reference<S> {
    explore_to(start, states_max, u32::MAX)
}

/// As [`explore`], and no farther than `depth_max`.
pub(crate) fn explore_to<S: Service>(
    start: &Simulation<S>,
    states_max: usize,
    depth_max: u32,
) -> Reference<S> {
    let mut states = HashMap::from([(start.clone(), 0)]);
    let (mut level, mut transitions, mut depth) = (vec![start.clone()], 0, 0);
    loop {
        let mut next = Vec::new();
        let before = transitions;
        let mut fits = depth < depth_max;
        for state in level.iter().filter(|_| depth < depth_max) {
            for (_, after) in state.successors() {
                transitions += 1;
                if !states.contains_key(&after) {
                    states.insert(after.clone(), depth + 1);
                    next.push(after);
                }
            }
            fits = states.len() <= states_max;
            if !fits {
                break;
            }
        }
        if next.is_empty() && fits {
            return Reference {
                states,
                transitions,
                bound: None,
            };
        }
        if !fits {
            states.retain(|_, at| *at <= depth);
            return Reference {
                states,
                transitions: before,
                bound: Some(depth),
            };
        }
        depth += 1;
        level = next;
    }
}

impl<S: Service> Reference<S> {
    pub(crate) fn depth(&self) -> u32 {
        self.states.values().copied().max().unwrap_or(0)
    }

    /// Judges every state without any memory, and returns the least depth of each finding.
    pub(crate) fn findings(
        &self,
        properties: &[Property<S>],
    ) -> BTreeMap<(String, Vec<NodeId>), u32> {
        let mut least = BTreeMap::new();
        for (state, &depth) in &self.states {
            for finding in findings(state, properties) {
                let known = least.entry(finding).or_insert(depth);
                *known = depth.min(*known);
            }
        }
        least
    }
}

/// Lists what is wrong in one state: which property, and which nodes it is about.
pub(crate) fn findings<S: Service>(
    state: &Simulation<S>,
    properties: &[Property<S>],
) -> Vec<(String, Vec<NodeId>)> {
    let up = state.nodes().iter().filter(|(_, node)| !node.local.down);
    let ids: Vec<NodeId> = up.map(|(&id, _)| id).collect();
    let mut found = Vec::new();
    for property in properties {
        let groups: Vec<Vec<NodeId>> = match property.shape() {
            Shape::Node(_) => ids.iter().map(|&id| vec![id]).collect(),
            Shape::Pair(..) => ids
                .iter()
                .flat_map(|&a| {
                    ids.iter()
                        .filter(move |&&b| a < b)
                        .map(move |&b| vec![a, b])
                })
                .collect(),
            Shape::Global(..) => vec![ids.clone()],
        };
        for group in groups {
            if property.judge(&views(state, &group)) == Judgement::Violated {
                let nodes = match property.shape() {
                    Shape::Global(..) => Vec::new(),
                    _ => group,
                };
                found.push((property.name().to_owned(), nodes));
            }
        }
    }
    for (&id, node) in state.nodes() {
        if node.local.panic.is_some() {
            found.push((PANIC_PROPERTY.to_owned(), vec![id]));
        }
    }
    found
}

fn views<'a, S: Service>(state: &'a Simulation<S>, of: &[NodeId]) -> Vec<View<'a, S>> {
    of.iter()
        .map(|id| View {
            id: *id,
            state: &state.nodes()[id].local.service,
            timers: &state.nodes()[id].local.timers,
        })
        .collect()
}

/// Runs a search to its end.
pub(crate) fn run<S: Service>(
    start: &Simulation<S>,
    properties: &[Property<S>],
    options: Options,
) -> Report<S> {
    Search::new(start, properties.to_vec(), options)
        .expect("these options go together")
        .run()
}

/// Takes the steps of a path one by one on plain values.
pub(crate) fn replay<S: Service>(start: &Simulation<S>, path: &[Step<S>]) -> Simulation<S> {
    let mut state = start.clone();
    for step in path {
        assert_eq!(state.step(step), Ok(Effectiveness::Changed), "{step:?}");
    }
    state
}

/// Replays every path of a report by hand, and judges where it ends.
pub(crate) fn confirm<S: Service>(
    start: &Simulation<S>,
    properties: &[Property<S>],
    report: &Report<S>,
) {
    assert_eq!(report.unconfirmed, 0, "every finding replays");
    for violation in &report.violations {
        let end = replay(start, &violation.path);
        assert_eq!(end, violation.state);
        let finding = (violation.property.clone(), violation.nodes.clone());
        assert!(findings(&end, properties).contains(&finding));
    }
}

/// All of a report that must not depend on how it was computed.
pub(crate) type Essence<S> = (
    (u64, u64, u32, scry_engine::explore::Stop, bool),
    (u64, u64, u64, u64),
    Vec<(String, Vec<NodeId>, Option<String>, Vec<Step<S>>)>,
);

pub(crate) fn essence<S: Service>(report: &Report<S>) -> Essence<S> {
    let violations = report.violations.iter().map(|violation| {
        (
            violation.property.clone(),
            violation.nodes.clone(),
            violation.explanation.clone(),
            violation.path.clone(),
        )
    });
    (
        (
            report.states,
            report.transitions,
            report.depth,
            report.stop,
            report.complete,
        ),
        (
            report.handler_runs,
            report.local_states,
            report.node_states,
            report.unconfirmed,
        ),
        violations.collect(),
    )
}

/// Returns each violation's property and nodes with the length of its path.
pub(crate) fn lengths<S: Service>(report: &Report<S>) -> BTreeMap<(String, Vec<NodeId>), u32> {
    let found = report.violations.iter().map(|violation| {
        let key = (violation.property.clone(), violation.nodes.clone());
        (key, violation.path.len() as u32)
    });
    found.collect()
}
