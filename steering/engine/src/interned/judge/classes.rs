//! What a property can tell apart of a local state, for strategies that ask about classes of states instead of states.

use crate::interned::id::{Id, LocalId};
use crate::interned::judge::{Judges, Memory, Seen, judge_node};
use crate::property::{Judgement, Property, Shape};
use crate::service::Service;

/// How many nodes a property looks at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reads {
    /// One at a time.
    One,
    /// Every two.
    Two,
    /// All at once.
    All,
    /// None that could break it: it is a goal, which no single state violates.
    None,
}

impl<S: Service> Judges<S> {
    /// Tells how many nodes each property looks at, that about panics last.
    pub(crate) fn reads(&self) -> Vec<Reads> {
        let of = |property: &Property<S>| match property.shape() {
            _ if !property.is_always() => Reads::None,
            Shape::Node(_) => Reads::One,
            Shape::Pair(..) => Reads::Two,
            Shape::Global(..) => Reads::All,
        };
        let properties = self.properties.iter().map(of);
        properties.chain([Reads::One]).collect()
    }

    /// Returns the class of a local state: two of one class at one node are judged alike, whatever the other nodes are.
    /// `None` if a node in it has no part in any violation of the property.
    pub(crate) fn class<'a>(
        &mut self,
        property: usize,
        local: LocalId,
        view: impl Fn(LocalId) -> Seen<'a, S>,
    ) -> Option<u32> {
        let Some(memory) = self.memories.get_mut(property) else {
            return view(local).panicked.then_some(0);
        };
        match (self.properties[property].shape(), memory) {
            (Shape::Node(judge), Memory::Node(seen)) => {
                let judgement = judge_node(seen, local, || view(local).judge(judge));
                (judgement == Judgement::Violated).then_some(0)
            }
            (Shape::Pair(project, _), Memory::Pair(projections, _)) => {
                let projection = projections.of(local, || view(local).project(project));
                projection.map(|id| id.index() as u32)
            }
            (Shape::Global(project, _), Memory::Global(projections, _)) => {
                // A node that is not shown makes a difference too: there is one less.
                let projection = projections.of(local, || view(local).project(project));
                Some(projection.map_or(0, |id| id.index() as u32 + 1))
            }
            _ => unreachable!("a memory has the shape of its property"),
        }
    }
}
