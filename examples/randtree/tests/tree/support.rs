//! What the tests share: making a scenario, looking at a state, telling a story.

use std::collections::{BTreeMap, BTreeSet};

use randtree::scenarios::Options;
use randtree::{Call, Message, Mode, RandTree, Timer, properties};
use scry::model::simulation::Effectiveness;
use scry::model::{EventOf, Tosses};
use scry::{Event, Faults, Judgement, NodeId, Program, Request, Simulation, Step, System};

pub(crate) fn id(number: u32) -> NodeId {
    NodeId::new(number)
}

/// Builds a scenario with bugs switched on.
pub(crate) fn system(
    name: &str,
    bugs: &[&'static str],
    nodes: Option<u32>,
    options: &Options,
) -> System<RandTree> {
    let bugs: BTreeSet<&'static str> = bugs.iter().copied().collect();
    let known = RandTree::bugs().iter().map(|bug| bug.name).collect();
    assert!(bugs.is_subset(&known), "no such bug among {bugs:?}");
    let scenario = RandTree::scenarios()
        .into_iter()
        .find(|scenario| scenario.name == name)
        .unwrap_or_else(|| panic!("no scenario {name}"));
    let request = Request {
        bugs: &bugs,
        nodes,
        options,
    };
    (scenario.build)(&request).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Lists the names of the properties a state breaks.
pub(crate) fn broken(simulation: &Simulation<RandTree>) -> Vec<String> {
    let views = simulation.views();
    let mut properties = properties::all();
    if !simulation
        .setups()
        .values()
        .any(|setup| setup.bugs.timer || setup.bugs.two_trees)
    {
        properties.push(properties::timer_always_runs());
    }
    let mut broken: Vec<String> = properties
        .iter()
        .filter(|property| property.judge(&views) == Judgement::Violated)
        .map(|property| property.name().to_owned())
        .collect();
    for (id, node) in simulation.nodes() {
        broken.extend(
            node.local
                .panic
                .as_ref()
                .map(|said| format!("{id} panicked: {said}")),
        );
    }
    broken
}

/// Says what keeps a state from being one whole tree (L1 to L4 of MaceMC §6, and all know the root); nothing if it is
/// one.
pub(crate) fn unfinished(simulation: &Simulation<RandTree>) -> Option<String> {
    let states: BTreeMap<NodeId, &RandTree> = simulation
        .nodes()
        .iter()
        .map(|(&id, node)| (id, &node.local.service))
        .collect();
    for (&id, state) in &states {
        let mut ancestor = Some(id);
        for _ in 0..=states.len() {
            ancestor = ancestor.and_then(|node| states[&node].parent);
        }
        if ancestor.is_some() {
            return Some(format!("{id} is above itself"));
        }
        if state.mode != Mode::Joined || (state.parent.is_none() && !state.is_root(id)) {
            return Some(format!("{id} has no place"));
        }
        if let Some(parent) = state.parent
            && !states[&parent].children.contains(&id)
        {
            return Some(format!("{id} has a parent {parent} that does not know it"));
        }
        if let Some(child) = state
            .children
            .iter()
            .find(|child| states[*child].parent != Some(id))
        {
            return Some(format!("{id} has a child {child} that does not know it"));
        }
    }
    let roots = states.iter().filter(|(id, state)| state.is_root(**id));
    let roots: Vec<NodeId> = roots.map(|(&id, _)| id).collect();
    let [root] = roots[..] else {
        let names: Vec<String> = roots.iter().map(NodeId::to_string).collect();
        return Some(format!(
            "{} take themselves for the root",
            names.join(" and ")
        ));
    };
    let strays = states.iter().find(|(_, state)| state.root != Some(root));
    strays.map(|(id, state)| format!("{id} follows {:?}, not {root}", state.root))
}

/// A state with the means to lead it on by hand.
pub(crate) struct Story {
    pub(crate) simulation: Simulation<RandTree>,
    pub(crate) steps: usize,
}

impl Story {
    pub(crate) fn of(scenario: &str, bugs: &[&'static str]) -> Self {
        Self::from(&system(scenario, bugs, None, &Options::default()))
    }

    pub(crate) fn from(system: &System<RandTree>) -> Self {
        let (simulation, _) = system
            .start()
            .unwrap_or_else(|error| panic!("the script fails: {error}"));
        Self {
            simulation,
            steps: 0,
        }
    }

    pub(crate) fn state(&self, node: u32) -> &RandTree {
        &self.simulation.nodes()[&id(node)].local.service
    }

    pub(crate) fn silent_reset(&mut self, node: u32) -> &mut Self {
        self.take(node, Event::Reset { notice: false }, &[])
    }

    pub(crate) fn reset(&mut self, node: u32) -> &mut Self {
        self.take(node, Event::Reset { notice: true }, &[])
    }

    pub(crate) fn join(&mut self, node: u32, picks: &[u32]) -> &mut Self {
        self.take(node, Event::Call(Call::Join), picks)
    }

    pub(crate) fn timer(&mut self, node: u32) -> &mut Self {
        self.take(node, Event::Timer(Timer::Recovery), &[])
    }

    /// The next message from one node reaches another, and is such as the story says.
    pub(crate) fn receives(
        &mut self,
        node: u32,
        from: u32,
        fits: fn(&Message) -> bool,
        picks: &[u32],
    ) -> &mut Self {
        let arrivals = self.simulation.enabled(id(node));
        let event = arrivals.iter().find(|event| match event {
            Event::Deliver { from: f, message }
            | Event::Receive {
                from: f, message, ..
            } => *f == id(from) && fits(message),
            _ => false,
        });
        let event = event.unwrap_or_else(|| {
            panic!("n{node} has nothing such from n{from}, only {arrivals:?}");
        });
        self.take(node, event.clone(), picks)
    }

    pub(crate) fn learns_of_loss(&mut self, node: u32, of: u32) -> &mut Self {
        let arrivals = self.simulation.enabled(id(node));
        let event = arrivals
            .iter()
            .find(|event| matches!(event, Event::Disconnect { from, .. } if *from == id(of)));
        let event = event.unwrap_or_else(|| panic!("n{node} is told nothing of n{of}"));
        self.take(node, event.clone(), &[])
    }

    /// Lets all messages arrive. A datagram without effect stays on its way.
    pub(crate) fn settle(&mut self) -> &mut Self {
        for _ in 0..10_000 {
            let nodes: Vec<NodeId> = self.simulation.nodes().keys().copied().collect();
            let moved = nodes.into_iter().any(|node| {
                let arrivals = self.simulation.enabled(node).into_iter();
                arrivals
                    .filter(|event| event.fault().is_none() && !event.is_internal())
                    .any(|event| self.perform(node, event, &[]) == Effectiveness::Changed)
            });
            if !moved {
                return self;
            }
        }
        panic!("the messages never end");
    }

    pub(crate) fn take(&mut self, node: u32, event: EventOf<RandTree>, picks: &[u32]) -> &mut Self {
        self.perform(id(node), event, picks);
        self.steps += 1;
        self
    }

    fn perform(&mut self, node: NodeId, event: EventOf<RandTree>, picks: &[u32]) -> Effectiveness {
        let tosses = Tosses {
            picks: picks.iter().map(|&pick| (u32::MAX, pick)).collect(),
            draws: Vec::new(),
        };
        let step = Step {
            node,
            event,
            tosses,
        };
        self.simulation
            .step(&step)
            .unwrap_or_else(|error| panic!("step {}: {error}", self.steps + 1))
    }
}

/// A budget of each of the faults a connection knows.
pub(crate) fn faults(resets: u8, silent_resets: u8, breaks: u8) -> Faults {
    Faults {
        resets,
        silent_resets,
        breaks,
        ..Faults::NONE
    }
}
