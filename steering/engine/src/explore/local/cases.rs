//! What could be wrong, if nodes stood in local states that they can each be in by themselves.
//!
//! A property does not see whole local states but a projection of each: states with the same are one class. What is asked
//! is whether nodes can stand in classes that together break a property, one question per property and nodes, however many
//! states there are of a class. Classes that take part in nothing wrong are never asked about: where no two projections
//! conflict, nothing is (LMC-OPT, found from the shape of the property).
//!
//! With `general`, every combination of local states is put together and judged as a state of the system, as in LMC-GEN.

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use crate::explore::local::graph::Graph;
use crate::explore::local::trim::Goal;
use crate::interned::id::LocalId;
use crate::interned::judge::{Finding, Reads};
use crate::interned::world::Space;

/// So many combinations of classes are judged beforehand; of more, each is judged where a question meets it.
const COMBINATIONS_MAX: usize = 1 << 12;

/// The same of two nodes, of which there can be many.
const PAIRS_MAX: usize = 1 << 8;

/// Everything that could be wrong.
#[derive(Debug)]
pub(super) struct Cases {
    pub(super) all: Vec<Case>,
    /// By property.
    sorted: Vec<Sorted>,
    /// How many local states of each node are sorted.
    states: Vec<usize>,
    /// How many combinations were judged.
    pub(super) judged: u64,
    /// How many of them break a property.
    pub(super) broken: u64,
}

/// The local states of all nodes as a property sees them.
#[derive(Debug)]
struct Sorted {
    property: usize,
    reads: Reads,
    nodes: Vec<Classes>,
}

#[derive(Clone, Debug, Default)]
struct Classes {
    /// By local state: its class from 1 on, or 0 if it has no part in the property.
    of_state: Vec<u32>,
    /// By class: the first local state of it.
    known: Vec<u32>,
    /// By what the property calls it: the place of a class.
    places: HashMap<u32, u32, FxBuildHasher>,
}

/// Something that could be wrong.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) finding: Finding,
    /// The nodes that are asked about.
    nodes: Vec<usize>,
    what: What,
    /// Whether it has local states it had not when it was last asked about.
    pub(super) fresh: bool,
    pub(super) asked: Option<Asked>,
}

/// What was answered last.
#[derive(Debug)]
pub(super) struct Asked {
    /// How large the graph was.
    pub(super) edges: usize,
    /// What was read of it.
    pub(super) read: Vec<usize>,
    pub(super) verdict: Verdict,
}

/// What came of a case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// It can happen.
    Real,
    /// It cannot.
    Unreal,
    /// Nobody knows.
    Unknown,
}

#[derive(Debug)]
enum What {
    /// One of these combinations of classes.
    Combinations(HashSet<Box<[u32]>, FxBuildHasher>),
    /// Some combination of classes: there are too many to judge.
    Some,
    /// Exactly these local states.
    States(Vec<u32>),
}

impl Cases {
    /// Prepares to sort local states. Unless it is `asked` whether handlers can panic, states in which one did are left alone.
    pub(super) fn new(world: &Space, asked: bool) -> Self {
        let mut reads = world.reads();
        if !asked {
            reads.pop();
        }
        let nodes = vec![Classes::default(); world.members().len()];
        let sorted = reads
            .into_iter()
            .enumerate()
            .filter(|(_, reads)| *reads != Reads::None)
            .map(|(property, reads)| Sorted {
                property,
                reads,
                nodes: nodes.clone(),
            });
        Self {
            all: Vec::new(),
            sorted: sorted.collect(),
            states: vec![0; world.members().len()],
            judged: 0,
            broken: 0,
        }
    }

    /// Sorts the local states that are new, and finds what could be wrong with them.
    pub(super) fn update(&mut self, world: &mut Space, graph: &Graph) {
        for at in 0..self.sorted.len() {
            let known: Vec<usize> = self.sorted[at].counts();
            let fresh = self.sort(world, graph, at);
            match self.sorted[at].reads {
                Reads::One => self.update_each(at),
                Reads::Two => self.update_pairs(world, graph, at, &known),
                Reads::All => self.update_all(world, graph, at, &known),
                Reads::None => {}
            }
            let property = self.sorted[at].property;
            for case in self
                .all
                .iter_mut()
                .filter(|it| it.finding.property == property)
            {
                case.fresh |= case.nodes.iter().any(|&node| fresh[node]);
            }
        }
        self.states = graph.nodes.iter().map(|node| node.states.len()).collect();
    }

    /// Sorts new local states, and tells which nodes have some that take part.
    fn sort(&mut self, world: &mut Space, graph: &Graph, at: usize) -> Vec<bool> {
        let sorted = &mut self.sorted[at];
        let mut fresh = vec![false; graph.nodes.len()];
        for (position, node) in graph.nodes.iter().enumerate() {
            let classes = &mut sorted.nodes[position];
            for (number, state) in node.states.iter().enumerate().skip(self.states[position]) {
                let class = world.class(sorted.property, state.local).map(|name| {
                    let next = classes.known.len() as u32;
                    let at = *classes.places.entry(name).or_insert(next);
                    if at == next {
                        classes.known.push(number as u32);
                    }
                    at + 1
                });
                fresh[position] |= class.is_some();
                classes.of_state.push(class.unwrap_or(0));
            }
        }
        fresh
    }

    fn update_each(&mut self, at: usize) {
        let property = self.sorted[at].property;
        for node in 0..self.sorted[at].nodes.len() {
            let nodes = vec![node];
            let known = self.all.iter().any(|case| case.is(property, &nodes));
            if !known && !self.sorted[at].nodes[node].known.is_empty() {
                self.broken += 1;
                self.case(property, nodes.clone(), nodes).add(&[1]);
            }
        }
    }

    fn update_pairs(&mut self, world: &mut Space, graph: &Graph, at: usize, known: &[usize]) {
        let count = graph.nodes.len();
        let property = self.sorted[at].property;
        for a in 0..count {
            for b in a + 1..count {
                let now = self.sorted[at].counts();
                let nodes = vec![a, b];
                if now[a] * now[b] > PAIRS_MAX {
                    self.case(property, nodes.clone(), nodes).what = What::Some;
                    continue;
                }
                for left in 1..=now[a] as u32 {
                    for right in 1..=now[b] as u32 {
                        if left as usize <= known[a] && right as usize <= known[b] {
                            continue;
                        }
                        self.judged += 1;
                        let pair = [left, right];
                        let sorted = &self.sorted[at];
                        if sorted.is_broken(world, graph, &nodes, &pair, &nodes) {
                            self.broken += 1;
                            self.case(property, nodes.clone(), nodes.clone()).add(&pair);
                        }
                    }
                }
            }
        }
    }

    fn update_all(&mut self, world: &mut Space, graph: &Graph, at: usize, known: &[usize]) {
        let property = self.sorted[at].property;
        let nodes: Vec<usize> = (0..graph.nodes.len()).collect();
        let now = self.sorted[at].counts();
        if now == known {
            return;
        }
        let product = now.iter().try_fold(1_usize, |all, &it| all.checked_mul(it));
        if product.is_none_or(|product| product > COMBINATIONS_MAX) {
            self.case(property, Vec::new(), nodes).what = What::Some;
            return;
        }
        let mut combination = vec![1_u32; nodes.len()];
        loop {
            let is_new = combination
                .iter()
                .zip(known)
                .any(|(&it, &known)| it as usize > known);
            if is_new {
                self.judged += 1;
                if self.sorted[at].is_broken(world, graph, &nodes, &combination, &[]) {
                    self.broken += 1;
                    self.case(property, Vec::new(), nodes.clone())
                        .add(&combination);
                }
            }
            let Some(next) =
                (0..nodes.len()).find(|&node| (combination[node] as usize) < now[node])
            else {
                return;
            };
            combination[next] += 1;
            combination[..next].fill(1);
        }
    }

    /// Returns the case of a finding, a new one if there is none.
    fn case(&mut self, property: usize, about: Vec<usize>, nodes: Vec<usize>) -> &mut Case {
        let known = self.all.iter().position(|case| case.is(property, &about));
        let at = known.unwrap_or_else(|| {
            self.all.push(Case {
                finding: Finding {
                    property,
                    nodes: about,
                },
                nodes,
                what: What::Combinations(HashSet::default()),
                fresh: true,
                asked: None,
            });
            self.all.len() - 1
        });
        &mut self.all[at]
    }

    /// Adds the case that nodes stand in exactly these local states, and something is wrong then.
    pub(super) fn add_states(&mut self, finding: Finding, states: &[u32]) {
        self.broken += 1;
        self.all.push(Case {
            finding,
            nodes: (0..states.len()).collect(),
            what: What::States(states.to_vec()),
            fresh: true,
            asked: None,
        });
    }

    /// Tells whether something is known to be real.
    pub(super) fn is_real(&self, finding: &Finding) -> bool {
        let mut same = self.all.iter().filter(|case| case.finding == *finding);
        same.any(|case| case.verdict() == Some(Verdict::Real))
    }

    /// Returns how many cases nobody knows the answer to.
    pub(super) fn unknown(&self) -> u64 {
        let unknown =
            |case: &&Case| case.verdict() == Some(Verdict::Unknown) && !self.is_real(&case.finding);
        self.all.iter().filter(unknown).count() as u64
    }

    /// Spells out what is asked in a case.
    pub(super) fn goal(&self, graph: &Graph, case: usize) -> Goal {
        let case = &self.all[case];
        let mut goal = Goal {
            classes: vec![None; graph.nodes.len()],
            wanted: vec![Vec::new(); graph.nodes.len()],
        };
        for (at, &node) in case.nodes.iter().enumerate() {
            let (classes, wanted) = match &case.what {
                What::States(states) => {
                    let count = graph.nodes[node].states.len() as u32;
                    let same = |state: u32| u32::from(state == states[at]);
                    ((0..count).map(same).collect(), vec![false, true])
                }
                What::Some => {
                    let classes = &self.sorted[case.finding.property].nodes[node];
                    let mut wanted = vec![true; classes.known.len() + 1];
                    wanted[0] = false;
                    (classes.of_state.clone(), wanted)
                }
                What::Combinations(combinations) => {
                    let classes = &self.sorted[case.finding.property].nodes[node];
                    let mut wanted = vec![false; classes.known.len() + 1];
                    for combination in combinations {
                        wanted[combination[at] as usize] = true;
                    }
                    (classes.of_state.clone(), wanted)
                }
            };
            goal.classes[node] = Some(classes);
            goal.wanted[node] = wanted;
        }
        goal
    }

    /// Tells whether nodes that stand in these classes are what a case is about.
    pub(super) fn meets(
        &self,
        world: &mut Space,
        graph: &Graph,
        case: usize,
        classes: &[u32],
    ) -> bool {
        let case = &self.all[case];
        match &case.what {
            _ if classes.contains(&0) => false,
            What::States(_) => true,
            What::Combinations(combinations) => combinations.contains(classes),
            What::Some => {
                let sorted = &self.sorted[case.finding.property];
                sorted.is_broken(world, graph, &case.nodes, classes, &case.finding.nodes)
            }
        }
    }
}

impl Case {
    fn is(&self, property: usize, nodes: &[usize]) -> bool {
        self.finding.property == property && self.finding.nodes == nodes
    }

    fn add(&mut self, combination: &[u32]) {
        if let What::Combinations(combinations) = &mut self.what {
            combinations.insert(combination.into());
        }
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.asked.as_ref().map(|asked| asked.verdict)
    }
}

impl Sorted {
    fn counts(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.known.len()).collect()
    }

    /// Judges nodes in some classes, by a local state of each; what the others are in makes no difference.
    fn is_broken(
        &self,
        world: &mut Space,
        graph: &Graph,
        nodes: &[usize],
        classes: &[u32],
        about: &[usize],
    ) -> bool {
        let first = |node: usize| graph.nodes[node].states[0].local;
        let mut locals: Vec<LocalId> = (0..graph.nodes.len()).map(first).collect();
        for (&node, &class) in nodes.iter().zip(classes) {
            let state = self.nodes[node].known[class as usize - 1];
            locals[node] = graph.nodes[node].states[state as usize].local;
        }
        let findings = world.findings_of(&locals);
        findings
            .iter()
            .any(|finding| finding.property == self.property && finding.nodes == about)
    }
}

/// Every combination of local states with a new one in it, each once.
#[derive(Debug)]
pub(super) struct Combinations {
    /// How many local states each node had before, and has now.
    before: Vec<u32>,
    now: Vec<u32>,
    /// The first node with a new state in the combinations that come next.
    pivot: usize,
    at: Option<Vec<u32>>,
}

impl Combinations {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            before: vec![0; nodes],
            now: vec![0; nodes],
            pivot: nodes,
            at: None,
        }
    }

    /// Begins with the local states that are new, once all combinations of the others are done.
    pub(super) fn begin(&mut self, graph: &Graph) {
        self.before.clone_from(&self.now);
        self.now = graph
            .nodes
            .iter()
            .map(|it| it.states.len() as u32)
            .collect();
        self.pivot = 0;
        self.at = None;
    }

    /// Returns the states a node goes through while another is the first with a new one: below it they are old.
    fn range(&self, node: usize) -> (u32, u32) {
        match node.cmp(&self.pivot) {
            std::cmp::Ordering::Less => (0, self.before[node]),
            std::cmp::Ordering::Equal => (self.before[node], self.now[node]),
            std::cmp::Ordering::Greater => (0, self.now[node]),
        }
    }

    pub(super) fn next(&mut self) -> Option<Vec<u32>> {
        loop {
            let nodes = self.now.len();
            if self.pivot == nodes {
                return None;
            }
            let next = match self.at.take() {
                None => {
                    let empty = (0..nodes).any(|node| self.range(node).0 >= self.range(node).1);
                    (!empty).then(|| (0..nodes).map(|node| self.range(node).0).collect())
                }
                Some(mut at) => {
                    let grows = (0..nodes).find(|&node| at[node] + 1 < self.range(node).1);
                    grows.map(|node| {
                        at[node] += 1;
                        for (lower, state) in at[..node].iter_mut().enumerate() {
                            *state = self.range(lower).0;
                        }
                        at
                    })
                }
            };
            if next.is_some() {
                self.at.clone_from(&next);
                return next;
            }
            self.pivot += 1;
        }
    }
}
