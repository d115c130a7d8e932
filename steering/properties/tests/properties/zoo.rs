//! A service with a field for everything the catalogue of properties talks about, and random states of it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use scry_engine::{Context, Judgement, NodeId, Property, Service, View};
use scry_properties::{PropertyFile, PropertySet, Schema};
use serde::{Deserialize, Serialize};

/// Random nodes have ids below this.
pub(crate) const IDS: u32 = 5;

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Zoo {
    // Paxos
    pub(crate) chosen: Option<u32>,
    // RandTree
    pub(crate) phase: Phase,
    pub(crate) root: Option<NodeId>,
    pub(crate) parent: Option<NodeId>,
    pub(crate) children: BTreeSet<NodeId>,
    pub(crate) siblings: BTreeSet<NodeId>,
    // Chord and Pastry
    pub(crate) predecessor: Option<NodeId>,
    pub(crate) successor: Option<NodeId>,
    pub(crate) successors: Vec<NodeId>,
    pub(crate) my_left: BTreeSet<NodeId>,
    pub(crate) my_right: BTreeSet<NodeId>,
    pub(crate) my_leafset: BTreeSet<NodeId>,
    // A transport
    pub(crate) inflight: Vec<u64>,
    // Elections
    pub(crate) term: u64,
    pub(crate) leader: bool,
    pub(crate) role: Role,
    pub(crate) votes: BTreeMap<NodeId, bool>,
    pub(crate) log: Log,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    #[default]
    Init,
    Joining,
    Joined,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) enum Role {
    #[default]
    Idle,
    Leading {
        term: u64,
    },
    Following(NodeId),
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Log {
    pub(crate) commit: u64,
    pub(crate) entries: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot: Option<u64>,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Timer {
    Recovery,
    Stabilize,
    Retry(NodeId),
}

impl Service for Zoo {
    type Message = ();
    type Timer = Timer;
    type Call = ();
    type Setup = ();
    type Disk = ();

    fn start(_cx: &mut Context<'_, Self>, _disk: Option<()>) -> Self {
        Self::default()
    }

    fn on_message(&mut self, _cx: &mut Context<'_, Self>, _from: NodeId, (): ()) {}

    fn on_timer(&mut self, _cx: &mut Context<'_, Self>, _timer: Timer) {}

    fn on_call(&mut self, _cx: &mut Context<'_, Self>, (): ()) {}

    fn disk(&self) {}
}

/// One node of a random view.
#[derive(Clone, Debug)]
pub(crate) struct Animal {
    pub(crate) id: NodeId,
    pub(crate) state: Zoo,
    pub(crate) timers: Vec<Timer>,
}

impl Animal {
    pub(crate) fn new(id: u32, state: Zoo) -> Self {
        Self {
            id: NodeId::new(id),
            state,
            timers: Vec::new(),
        }
    }
}

pub(crate) fn views(animals: &[Animal]) -> Vec<View<'_, Zoo>> {
    animals
        .iter()
        .map(|animal| View {
            id: animal.id,
            state: &animal.state,
            timers: &animal.timers,
        })
        .collect()
}

pub(crate) fn load(source: &str) -> PropertySet<Zoo> {
    PropertyFile::load("test", source.as_bytes(), &Schema::of::<Zoo>(), Vec::new())
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Compiles one expression.
pub(crate) fn always(expression: &str) -> PropertySet<Zoo> {
    load(&format!(
        "[[property]]\nname = 'x'\nalways = '''{expression}'''"
    ))
}

/// Judges by parts, as the engine does.
pub(crate) fn by_parts(parts: &[Property<Zoo>], views: &[View<'_, Zoo>]) -> Judgement {
    let mut worst = Judgement::Holds;
    for part in parts {
        match part.judge(views) {
            Judgement::Violated => return Judgement::Violated,
            Judgement::Unknown => worst = Judgement::Unknown,
            Judgement::Holds => {}
        }
    }
    worst
}

fn id() -> impl Strategy<Value = NodeId> {
    (0..IDS).prop_map(NodeId::new)
}

fn ids() -> impl Strategy<Value = BTreeSet<NodeId>> {
    prop::collection::btree_set(id(), 0..3)
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        Just(Role::Idle),
        (0..3_u64).prop_map(|term| Role::Leading { term }),
        id().prop_map(Role::Following),
    ]
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![Just(Phase::Init), Just(Phase::Joining), Just(Phase::Joined)]
}

fn timers() -> impl Strategy<Value = Vec<Timer>> {
    let timer = prop_oneof![
        Just(Timer::Recovery),
        Just(Timer::Stabilize),
        id().prop_map(Timer::Retry)
    ];
    prop::collection::btree_set(timer, 0..3).prop_map(|timers| timers.into_iter().collect())
}

prop_compose! {
    fn log()(
        commit in 0..3_u64,
        entries in prop::collection::vec(0..3_u64, 0..3),
        snapshot in prop::option::of(0..3_u64),
    ) -> Log {
        Log { commit, entries, snapshot }
    }
}

prop_compose! {
    fn tree()(
        phase in phase(),
        root in prop::option::of(id()),
        parent in prop::option::of(id()),
        children in ids(),
        siblings in ids(),
    ) -> Zoo {
        Zoo { phase, root, parent, children, siblings, ..Zoo::default() }
    }
}

prop_compose! {
    fn ring()(
        predecessor in prop::option::of(id()),
        successor in prop::option::weighted(0.9, id()),
        successors in prop::collection::vec(id(), 0..3),
        my_left in ids(),
        my_right in ids(),
        my_leafset in prop::collection::btree_set(id(), 0..5),
    ) -> Zoo {
        Zoo { predecessor, successor, successors, my_left, my_right, my_leafset, ..Zoo::default() }
    }
}

prop_compose! {
    fn state()(
        tree in tree(),
        ring in ring(),
        chosen in prop::option::of(0..2_u32),
        inflight in prop::collection::vec(0..9_u64, 0..2),
        term in 0..3_u64,
        leader in any::<bool>(),
        role in role(),
        votes in prop::collection::btree_map(id(), any::<bool>(), 0..3),
        log in log(),
    ) -> Zoo {
        Zoo {
            phase: tree.phase,
            root: tree.root,
            parent: tree.parent,
            children: tree.children,
            siblings: tree.siblings,
            chosen, inflight, term, leader, role, votes, log,
            ..ring
        }
    }
}

/// Some nodes, by rising id; pointers may lead to others, which are then out of view.
pub(crate) fn animals() -> impl Strategy<Value = Vec<Animal>> {
    let animal = (state(), timers());
    prop::collection::btree_map(id(), animal, 0..=IDS as usize).prop_map(|all| {
        all.into_iter()
            .map(|(id, (state, timers))| Animal { id, state, timers })
            .collect()
    })
}

/// Nodes of which nobody's successor or parent is out of view, so that rings and trees come up at all.
pub(crate) fn closed_animals() -> impl Strategy<Value = Vec<Animal>> {
    animals().prop_map(|mut animals| {
        let ids: Vec<NodeId> = animals.iter().map(|animal| animal.id).collect();
        let inside = |pointer: Option<NodeId>| {
            pointer.map(|pointer| ids[pointer.get() as usize % ids.len()])
        };
        for animal in &mut animals {
            animal.state.successor = inside(animal.state.successor);
            animal.state.parent = inside(animal.state.parent);
            animal.state.children.retain(|child| ids.contains(child));
            animal.state.votes.retain(|voter, _| ids.contains(voter));
        }
        animals
    })
}
