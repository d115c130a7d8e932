//! All states of a small system as numbers, with their exact classes: an enumeration over whole states on plain handlers, which shares
//! nothing with the engine's tables but the services.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use scry::model::event::Event;
use scry::property::Judgement;
use scry::{Property, Service, Simulation};

/// Of what kind a step is, as far as walks care.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StepKind {
    /// The application calls.
    Call,
    /// The network brings something.
    Message,
    /// A timer fires, or a node that was reset starts.
    Timer,
    /// A fault, which nobody can rely on.
    Fault,
}

/// A step from one state to another.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The state it leads to.
    pub to: u32,
    /// Of what kind it is.
    pub kind: StepKind,
}

/// All that can follow a state.
#[derive(Debug)]
pub struct Graph {
    numbers: HashMap<u128, u32>,
    /// By state, where its steps begin in `edges`, and one more for the end.
    starts: Vec<usize>,
    edges: Vec<Edge>,
    /// By state: whence it was reached first, and in how many steps.
    parents: Vec<u32>,
    depths: Vec<u32>,
    live: Vec<bool>,
    /// Whether a state is live or can become so without a fault.
    recovers: Vec<bool>,
}

impl Graph {
    /// Enumerates all that can follow a state; nothing if that is more than so many states, or if somewhere it is not known whether the
    /// property holds, all its parts at once.
    pub fn of<S: Service>(
        start: &Simulation<S>,
        goal: &[Property<S>],
        states_max: usize,
    ) -> Option<Self> {
        let mut graph = Self {
            numbers: HashMap::from([(name(start), 0)]),
            starts: vec![0],
            edges: Vec::new(),
            parents: vec![0],
            depths: vec![0],
            live: Vec::new(),
            recovers: Vec::new(),
        };
        let mut level = vec![start.clone()];
        while !level.is_empty() {
            let mut next = Vec::new();
            for state in &level {
                let from = graph.live.len() as u32;
                let views = state.views();
                let judged = goal.iter().map(|part| part.judge(&views));
                let judged: Vec<Judgement> = judged.collect();
                if judged.contains(&Judgement::Unknown) {
                    return None;
                }
                graph
                    .live
                    .push(judged.iter().all(|it| *it == Judgement::Holds));
                for (step, after) in state.successors() {
                    let count = graph.numbers.len() as u32;
                    let to = *graph.numbers.entry(name(&after)).or_insert(count);
                    if to == count {
                        graph.parents.push(from);
                        graph.depths.push(graph.depths[from as usize] + 1);
                        next.push(after);
                    }
                    let kind = match &step.event {
                        fault if fault.fault().is_some() => StepKind::Fault,
                        Event::Call(_) => StepKind::Call,
                        Event::Timer(_) | Event::Start => StepKind::Timer,
                        _ => StepKind::Message,
                    };
                    graph.edges.push(Edge { to, kind });
                }
                graph.starts.push(graph.edges.len());
            }
            if graph.numbers.len() > states_max {
                return None;
            }
            level = next;
        }
        graph.recovers = graph.backward();
        Some(graph)
    }

    /// Goes backward from the live states.
    fn backward(&self) -> Vec<bool> {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); self.len()];
        for from in 0..self.len() as u32 {
            for edge in self.steps(from) {
                if edge.kind != StepKind::Fault {
                    before[edge.to as usize].push(from);
                }
            }
        }
        let mut reached = self.live.clone();
        let mut waiting: Vec<u32> = (0..self.len() as u32)
            .filter(|&state| self.is_live(state))
            .collect();
        while let Some(state) = waiting.pop() {
            for &earlier in &before[state as usize] {
                if !std::mem::replace(&mut reached[earlier as usize], true) {
                    waiting.push(earlier);
                }
            }
        }
        reached
    }

    /// Returns how many states there are.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Tells whether there is none, which never is.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Returns the number of a state, if it can follow the start state.
    pub fn number<S: Service>(&self, state: &Simulation<S>) -> Option<u32> {
        self.numbers.get(&name(state)).copied()
    }

    /// Returns what can happen in a state.
    pub fn steps(&self, state: u32) -> &[Edge] {
        let at = state as usize;
        &self.edges[self.starts[at]..self.starts[at + 1]]
    }

    /// Tells whether the property holds.
    pub fn is_live(&self, state: u32) -> bool {
        self.live[state as usize]
    }

    /// Tells whether the property never holds again.
    pub fn is_dead(&self, state: u32) -> bool {
        !self.recovers[state as usize]
    }

    /// Returns how many states are dead.
    pub fn dead(&self) -> u64 {
        self.recovers.iter().filter(|&&recovers| !recovers).count() as u64
    }

    /// Returns the least number of steps to a state.
    pub fn depth(&self, state: u32) -> u32 {
        self.depths[state as usize]
    }

    /// Returns the states on a shortest path to a state, both ends included.
    pub fn path(&self, state: u32) -> Vec<u32> {
        let mut path = vec![state];
        let mut at = state;
        while at != 0 {
            at = self.parents[at as usize];
            path.push(at);
        }
        path.reverse();
        path
    }
}

/// Names a state by 128 bits of its content.
fn name<S: Service>(state: &Simulation<S>) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        state.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}
