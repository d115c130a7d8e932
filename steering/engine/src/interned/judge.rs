//! Properties, judged once per what they depend on: a local state, a pair of projections, a tuple of projections.

mod classes;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use scry_protocol::NodeId;

use crate::interned::id::{Id, LocalId, ProjectionId};
use crate::interned::intern::Interner;
use crate::model::handler::mix;
use crate::property::{
    Judge, JudgeAll, JudgePair, Judgement, Kind, Project, Projection, Property, Scope, Shape, View,
};
use crate::service::Service;

pub use classes::Reads;

/// The property every service has: its handlers do not panic.
pub const PANIC_PROPERTY: &str = "no handler panics";

/// Something wrong in a state.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Finding {
    /// Which property, by position; one past the last is [`PANIC_PROPERTY`].
    pub property: usize,
    /// The positions of the nodes it is about; empty if it is about all.
    pub nodes: Vec<usize>,
}

/// A property that had no answer in any state: nothing can be concluded from its not being violated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unjudged {
    /// The property's name.
    pub property: String,
    /// Why, for people.
    pub why: String,
}

/// A property that is not about every single state: one that must hold again and again, or in some state. Those of one
/// name and kind are one, as the parts of a property in a file are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Goal {
    /// The property's name.
    pub name: String,
    /// Again and again, or in some state.
    pub kind: Kind,
    /// Which properties, by position: all of them together are the goal.
    pub parts: Vec<usize>,
}

/// What is to be judged of one local state.
pub(crate) struct Seen<'a, S: Service> {
    pub(crate) view: View<'a, S>,
    /// Whether a handler panicked.
    pub(crate) panicked: bool,
    /// Whether the node is down, so that no property sees it.
    pub(crate) down: bool,
}

impl<S: Service> Seen<'_, S> {
    fn judge(&self, judge: &Judge<S>) -> Judgement {
        match self.down {
            true => Judgement::Holds,
            false => judge(&self.view),
        }
    }

    fn project(&self, project: &Project<S>) -> Option<Projection> {
        match self.down {
            true => None,
            false => project(&self.view),
        }
    }
}

/// The properties of a search with what was judged so far.
#[derive(Debug)]
pub(crate) struct Judges<S: Service> {
    scope: Scope,
    members: Vec<NodeId>,
    properties: Vec<Property<S>>,
    memories: Vec<Memory>,
    goals: Vec<Goal>,
}

#[derive(Debug)]
enum Memory {
    Node(Vec<Option<Judgement>>),
    Pair(Projections, PairsSeen),
    Global(Projections, AllSeen),
}

#[derive(Debug, Default)]
struct Projections {
    values: Interner<ProjectionId, Projection>,
    /// By local state: not yet asked, no part in the property, or a projection.
    of_local: Vec<Option<Option<ProjectionId>>>,
    /// Those of the state being judged.
    scratch: Vec<Option<ProjectionId>>,
}

impl<S: Service> Judges<S> {
    pub(crate) fn new(members: Vec<NodeId>, properties: Vec<Property<S>>, scope: Scope) -> Self {
        let memories = properties.iter().map(|property| match property.shape() {
            Shape::Node(_) => Memory::Node(Vec::new()),
            Shape::Pair(..) => Memory::Pair(Projections::default(), HashMap::default()),
            Shape::Global(..) => Memory::Global(Projections::default(), HashMap::default()),
        });
        let memories = memories.collect();
        Self {
            scope,
            members,
            goals: goals_of(&properties),
            properties,
            memories,
        }
    }

    /// Lists the properties that are not about every single state.
    pub(crate) fn goals(&self) -> &[Goal] {
        &self.goals
    }

    pub(crate) fn properties(&self) -> &[Property<S>] {
        &self.properties
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// Lists the properties without an answer so far. A property in several parts, which share its name, has one as soon
    /// as a part was violated or each part had one.
    /// Those that are no goals, or goals if those are judged.
    pub(crate) fn unjudged(&self, goals: bool) -> Vec<Unjudged> {
        let mut all: Vec<Unjudged> = Vec::new();
        let parts = || self.properties.iter().zip(&self.memories);
        for (property, memory) in parts().filter(|(it, _)| goals || it.is_always()) {
            let name = property.name();
            let is_known = memory.is_answered()
                || all.iter().any(|told| told.property == name)
                || parts().any(|(part, memory)| part.name() == name && memory.is_violated());
            if is_known {
                continue;
            }
            let partial = !self.scope.is_whole() && matches!(property.shape(), Shape::Global(..));
            let why = match partial {
                true => "it depends on nodes that are not in view",
                false => {
                    "it had no answer in any state: it names a node that is not there, or an entry that does not exist"
                }
            };
            all.push(Unjudged {
                property: name.to_owned(),
                why: why.to_owned(),
            });
        }
        all
    }

    /// Lists the properties of which judgements were cut off because they took too many steps, with how many.
    pub(crate) fn cut_off(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = Vec::new();
        for property in &self.properties {
            let (name, count) = (property.name(), property.cut_off());
            if count > 0 && all.iter().all(|(told, _)| told != name) {
                all.push((name.to_owned(), count));
            }
        }
        all
    }

    /// Tells whether a step between two local states of a node could break something that held before.
    pub(crate) fn is_noteworthy<'a>(
        &mut self,
        before: LocalId,
        after: LocalId,
        view: impl Fn(LocalId) -> Seen<'a, S>,
    ) -> bool {
        if before == after {
            return false;
        }
        if view(after).panicked {
            return true;
        }
        let mut noteworthy = false;
        for (property, memory) in self.properties.iter().zip(&mut self.memories) {
            if !property.is_always() {
                continue;
            }
            noteworthy |= match (property.shape(), memory) {
                (Shape::Node(judge), Memory::Node(seen)) => {
                    judge_node(seen, after, || view(after).judge(judge)) == Judgement::Violated
                }
                (Shape::Pair(project, _), Memory::Pair(projections, _)) => {
                    let now = projections.of(after, || view(after).project(project));
                    now.is_some() && now != projections.of(before, || view(before).project(project))
                }
                (Shape::Global(project, _), Memory::Global(projections, _)) => {
                    let now = projections.of(after, || view(after).project(project));
                    now != projections.of(before, || view(before).project(project))
                }
                _ => unreachable!("a memory has the shape of its property"),
            };
        }
        noteworthy
    }

    /// Returns a word that stands for all that the properties see of a local state: two states whose nodes have the same
    /// stances are judged alike. Goals have stances of their own, so that they make nothing look new to the others.
    pub(crate) fn stance<'a>(
        &mut self,
        position: usize,
        local: LocalId,
        goals: bool,
        view: impl Fn(LocalId) -> Seen<'a, S>,
    ) -> u64 {
        // Spread before anything else: sums over nodes must not cancel what is equal at two of them.
        let mut stance = mix(mix(position as u64) ^ u64::from(view(local).panicked));
        for (property, memory) in self.properties.iter().zip(&mut self.memories) {
            if property.is_always() == goals {
                continue;
            }
            let seen = match (property.shape(), memory) {
                (Shape::Node(judge), Memory::Node(seen)) => {
                    match judge_node(seen, local, || view(local).judge(judge)) {
                        Judgement::Violated => 1,
                        // What is not broken is fine; a goal that is unknown is not reached.
                        Judgement::Unknown if goals => 2,
                        Judgement::Unknown | Judgement::Holds => 0,
                    }
                }
                (Shape::Pair(project, _), Memory::Pair(projections, _))
                | (Shape::Global(project, _), Memory::Global(projections, _)) => {
                    let projection = projections.of(local, || view(local).project(project));
                    projection.map_or(0, |id| id.index() as u64 + 1)
                }
                _ => unreachable!("a memory has the shape of its property"),
            };
            stance = mix(stance ^ seen);
        }
        stance
    }

    /// Judges every goal in a state.
    pub(crate) fn judge_goals<'a>(
        &mut self,
        locals: &[LocalId],
        view: impl Fn(LocalId) -> Seen<'a, S>,
    ) -> Vec<Judgement> {
        let judged = |judges: &mut Self, at: usize| judges.judge_whole(at, locals, &view);
        let goals = std::mem::take(&mut self.goals);
        let all = goals.iter().map(|goal| {
            let parts = goal.parts.iter().map(|&at| judged(self, at));
            parts.fold(Judgement::Holds, worse)
        });
        let all = all.collect();
        self.goals = goals;
        all
    }

    /// Judges one property in a whole state.
    fn judge_whole<'a>(
        &mut self,
        at: usize,
        locals: &[LocalId],
        view: &impl Fn(LocalId) -> Seen<'a, S>,
    ) -> Judgement {
        match (self.properties[at].shape(), &mut self.memories[at]) {
            (Shape::Node(judge), Memory::Node(seen)) => {
                let each = locals
                    .iter()
                    .map(|&local| judge_node(seen, local, || view(local).judge(judge)));
                each.fold(Judgement::Holds, worse)
            }
            (Shape::Pair(project, judge), Memory::Pair(projections, seen)) => {
                projections.all_of(locals, |local| view(local).project(project));
                let each = pairs(locals.len(), None)
                    .filter_map(|pair| recall_pair(&self.members, projections, seen, judge, pair));
                each.fold(Judgement::Holds, worse)
            }
            (Shape::Global(project, judge), Memory::Global(projections, seen)) => {
                projections.all_of(locals, |local| view(local).project(project));
                recall_all(self.scope, &self.members, projections, seen, judge)
            }
            _ => unreachable!("a memory has the shape of its property"),
        }
    }

    /// Lists what is wrong in a state: everything, or what involves the node at position `changed`.
    ///
    /// Most states have nothing wrong, so nothing is allocated until something is.
    pub(crate) fn findings<'a>(
        &mut self,
        locals: &[LocalId],
        changed: Option<usize>,
        view: impl Fn(LocalId) -> Seen<'a, S>,
    ) -> Vec<Finding> {
        let positions = changed.map_or(0..locals.len(), |at| at..at + 1);
        let mut found = Vec::new();
        for (index, (property, memory)) in
            self.properties.iter().zip(&mut self.memories).enumerate()
        {
            if !property.is_always() {
                continue;
            }
            let mut find = |nodes: Vec<usize>| {
                found.push(Finding {
                    property: index,
                    nodes,
                })
            };
            match (property.shape(), memory) {
                (Shape::Node(judge), Memory::Node(seen)) => {
                    for position in positions.clone() {
                        let local = locals[position];
                        if judge_node(seen, local, || view(local).judge(judge))
                            == Judgement::Violated
                        {
                            find(vec![position]);
                        }
                    }
                }
                (Shape::Pair(project, judge), Memory::Pair(projections, seen)) => {
                    projections.all_of(locals, |local| view(local).project(project));
                    for (a, b) in pairs(locals.len(), changed) {
                        let judgement =
                            recall_pair(&self.members, projections, seen, judge, (a, b));
                        if judgement == Some(Judgement::Violated) {
                            find(vec![a, b]);
                        }
                    }
                }
                (Shape::Global(project, judge), Memory::Global(projections, seen)) => {
                    projections.all_of(locals, |local| view(local).project(project));
                    let judgement = recall_all(self.scope, &self.members, projections, seen, judge);
                    if judgement == Judgement::Violated {
                        find(Vec::new());
                    }
                }
                _ => unreachable!("a memory has the shape of its property"),
            }
        }
        let panicked = positions.filter(|&position| view(locals[position]).panicked);
        found.extend(panicked.map(|position| Finding {
            property: self.properties.len(),
            nodes: vec![position],
        }));
        found
    }
}

/// Ties the properties that are goals together by name and kind.
fn goals_of<S: Service>(properties: &[Property<S>]) -> Vec<Goal> {
    let mut goals: Vec<Goal> = Vec::new();
    for (at, property) in properties.iter().enumerate() {
        if property.is_always() {
            continue;
        }
        let (name, kind) = (property.name(), property.kind());
        match goals
            .iter_mut()
            .find(|goal| goal.name == name && goal.kind == kind)
        {
            Some(goal) => goal.parts.push(at),
            None => goals.push(Goal {
                name: name.to_owned(),
                kind,
                parts: vec![at],
            }),
        }
    }
    goals
}

type PairsSeen = HashMap<[u32; 4], Judgement, FxBuildHasher>;
type AllSeen = HashMap<Box<[Option<ProjectionId>]>, Judgement, FxBuildHasher>;

/// Judges two nodes of the state being judged, or remembers it; `None` if one has no part in the property.
#[inline]
fn recall_pair(
    members: &[NodeId],
    projections: &Projections,
    seen: &mut PairsSeen,
    judge: &JudgePair,
    (a, b): (usize, usize),
) -> Option<Judgement> {
    let (left, right) = (projections.scratch[a]?, projections.scratch[b]?);
    let key = [
        a as u32,
        left.index() as u32,
        b as u32,
        right.index() as u32,
    ];
    Some(*seen.entry(key).or_insert_with(|| {
        let side = |at: usize, id| (members[at], projections.values.value(id));
        let (left, right) = (side(a, left), side(b, right));
        worse(judge(left, right), judge(right, left))
    }))
}

/// Judges all nodes of the state being judged, or remembers it.
#[inline]
fn recall_all(
    scope: Scope,
    members: &[NodeId],
    projections: &Projections,
    seen: &mut AllSeen,
    judge: &JudgeAll,
) -> Judgement {
    let known = seen.get(projections.scratch.as_slice()).copied();
    known.unwrap_or_else(|| {
        let shown = projections.scratch.iter().zip(members);
        let shown = shown.filter_map(|(id, node)| Some((*node, projections.values.value((*id)?))));
        let judgement = judge(scope, &shown.collect::<Vec<_>>());
        seen.insert(projections.scratch.as_slice().into(), judgement);
        judgement
    })
}

/// Lists the pairs of positions, lower first: all, or those with one position.
fn pairs(count: usize, changed: Option<usize>) -> impl Iterator<Item = (usize, usize)> {
    let firsts = changed.map_or(0..count, |at| at..at + 1);
    firsts.flat_map(move |a| {
        let others = if changed.is_some() {
            0..count
        } else {
            a + 1..count
        };
        others
            .filter(move |&b| b != a)
            .map(move |b| (a.min(b), a.max(b)))
    })
}

fn worse(a: Judgement, b: Judgement) -> Judgement {
    match (a, b) {
        (Judgement::Violated, _) | (_, Judgement::Violated) => Judgement::Violated,
        (Judgement::Unknown, _) | (_, Judgement::Unknown) => Judgement::Unknown,
        _ => Judgement::Holds,
    }
}

fn judge_node(
    seen: &mut Vec<Option<Judgement>>,
    local: LocalId,
    judge: impl FnOnce() -> Judgement,
) -> Judgement {
    if seen.len() <= local.index() {
        seen.resize(local.index() + 1, None);
    }
    *seen[local.index()].get_or_insert_with(judge)
}

impl Memory {
    /// Tells whether there was an answer for some state, node or pair. Where no pair took part, there was.
    fn is_answered(&self) -> bool {
        match self {
            Self::Pair(_, seen) if seen.is_empty() => true,
            _ => self.any(|judgement| judgement != Judgement::Unknown),
        }
    }

    fn is_violated(&self) -> bool {
        self.any(|judgement| judgement == Judgement::Violated)
    }

    fn any(&self, mut fits: impl FnMut(Judgement) -> bool) -> bool {
        match self {
            Self::Node(seen) => seen.iter().flatten().any(|&judgement| fits(judgement)),
            Self::Pair(_, seen) => seen.values().any(|&judgement| fits(judgement)),
            Self::Global(_, seen) => seen.values().any(|&judgement| fits(judgement)),
        }
    }
}

impl Projections {
    fn all_of(&mut self, locals: &[LocalId], project: impl Fn(LocalId) -> Option<Projection>) {
        let mut all = std::mem::take(&mut self.scratch);
        all.clear();
        all.extend(
            locals
                .iter()
                .map(|&local| self.of(local, || project(local))),
        );
        self.scratch = all;
    }

    fn of(
        &mut self,
        local: LocalId,
        project: impl FnOnce() -> Option<Projection>,
    ) -> Option<ProjectionId> {
        if self.of_local.len() <= local.index() {
            self.of_local.resize(local.index() + 1, None);
        }
        let values = &mut self.values;
        *self.of_local[local.index()]
            .get_or_insert_with(|| project().map(|value| values.intern(value)))
    }
}
