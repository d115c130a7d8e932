//! What lasts: values that properties read of a node and that nothing changed in a whole search.
//!
//! A neighbor that cannot be asked may have moved on. Its last known state can be judged with all the same where what a
//! property reads of it no longer changes, whatever happens: a chosen value stays chosen, a lease does not stay held. The
//! search has tried messages, timers and calls on the node; a restart is tried here in any case, since the search may not
//! have been allowed one. It is evidence from what was explored, not a proof: how much was, the report of the search says.

use scry_protocol::NodeId;

use crate::interned::transitions::Typed;
use crate::interned::world::World;
use crate::model::event::Input;
use crate::model::handler::{self, Local};
use crate::model::simulation::Simulation;
use crate::property::{Projection, Property, Shape, View};
use crate::service::Service;

/// So many local states of a node are looked at. With more, nothing is said about it.
const LOCALS_MAX: usize = 1 << 16;

/// Lists, for each node, the properties that read the same of it in every local state that a search visited, and after a
/// restart. A node to which nothing happened is left out: that says nothing.
pub(super) fn lasting<S: Service>(
    world: &World<Typed<S>>,
    start: &Simulation<S>,
) -> Vec<(NodeId, Vec<String>)> {
    let mut all = Vec::new();
    for (position, &node) in world.members().iter().enumerate() {
        let locals = world.locals_of(position, LOCALS_MAX + 1);
        let begun = &start.nodes()[&node].local;
        if !(2..=LOCALS_MAX).contains(&locals.len()) {
            continue;
        }
        let restarted = handler::run_all(node, &start.setups()[&node], begun, &Input::Restart);
        let restarted = restarted.all.iter().map(|outcome| &outcome.local);
        let reached: Vec<&Local<S>> = locals.into_iter().chain(restarted).collect();
        let lasts = |property: &&Property<S>| {
            let first = read(property, node, begun);
            first.is_some()
                && reached
                    .iter()
                    .all(|local| read(property, node, local) == first)
        };
        let properties = world.properties().iter().filter(lasts);
        let names: Vec<String> = properties
            .map(|property| property.name().to_owned())
            .collect();
        if !names.is_empty() {
            all.push((node, names));
        }
    }
    all
}

/// Returns what a property of several nodes reads of one; nothing if the node has no part in it.
fn read<S: Service>(property: &Property<S>, id: NodeId, local: &Local<S>) -> Option<Projection> {
    let view = View {
        id,
        state: &local.service,
        timers: &local.timers,
    };
    match property.shape() {
        Shape::Node(_) => None,
        Shape::Pair(project, _) | Shape::Global(project, _) => project(&view),
    }
}
