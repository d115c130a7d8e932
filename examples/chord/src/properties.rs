//! The safety properties in Rust, under the names they have in `properties.toml`.
//!
//! All look at one node at a time. That "every node is reached along successors" must hold only eventually, so it is
//! in the file alone.

use scry::{NodeId, Property, View};

use crate::ring;
use crate::service::Chord;

/// The property file of this service: these properties, and what must hold again and again.
pub const FILE: &str = include_str!("../properties.toml");
/// A node is its own predecessor exactly if it is its own successor (MaceMC, Table 1).
pub const SELF_POINTERS: &str = "a node is its own predecessor exactly if it is its own successor";
/// The half that CrystalBall's Figure 10 breaks.
pub const SELF_PREDECESSOR: &str = "a node that is its own predecessor is its own successor";
/// The half that CrystalBall's heading states and MaceMC's liveness bug breaks.
pub const SELF_SUCCESSOR: &str = "a node that is its own successor is its own predecessor";
/// The constraint that CrystalBall's Figure 11 breaks.
pub const ORDER: &str = "no successor lies between the predecessor and the node";

/// Returns the safety properties.
pub fn all() -> Vec<Property<Chord>> {
    vec![
        Property::node(SELF_POINTERS, |view| {
            is_own_predecessor(view) == is_own_successor(view)
        })
        .saying(pointers),
        Property::node(SELF_PREDECESSOR, |view| {
            !is_own_predecessor(view) || is_own_successor(view)
        })
        .saying(pointers),
        Property::node(SELF_SUCCESSOR, |view| {
            !is_own_successor(view) || is_own_predecessor(view)
        })
        .saying(pointers),
        Property::node(ORDER, |view| misplaced(view).next().is_none()).saying(|views| {
            sentences(views.iter().filter_map(|view| {
                let successor = misplaced(view).next()?;
                let predecessor = view.state.predecessor?;
                Some(format!(
                    "{} has the successor {successor}, which is closer before it than its predecessor {predecessor}",
                    view.id
                ))
            }))
        }),
    ]
}

fn is_own_predecessor(view: &View<'_, Chord>) -> bool {
    view.state.predecessor == Some(view.id)
}

fn is_own_successor(view: &View<'_, Chord>) -> bool {
    view.state.successor == Some(view.id)
}

fn misplaced<'a>(view: &View<'a, Chord>) -> impl Iterator<Item = NodeId> + use<'a> {
    let (id, state) = (view.id, view.state);
    let predecessor = state.predecessor.filter(|node| *node != id);
    state.successors.iter().copied().filter(move |successor| {
        predecessor.is_some_and(|node| ring::between(node.get(), successor.get(), id.get()))
    })
}

fn pointers(views: &[View<'_, Chord>]) -> String {
    sentences(views.iter().filter_map(|view| {
        let wrong = is_own_predecessor(view) != is_own_successor(view);
        wrong.then(|| {
            let name = |node: Option<NodeId>| {
                node.map_or_else(|| "nobody".to_owned(), |node| node.to_string())
            };
            format!(
                "{} has the predecessor {} and the successor {}",
                view.id,
                name(view.state.predecessor),
                name(view.state.successor)
            )
        })
    }))
}

fn sentences(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_same_properties() {
        let file = include_str!("../properties.toml");
        for property in all() {
            let line = format!("name   = \"{}\"", property.name());
            assert!(file.lines().any(|known| known == line), "{line}");
        }
        let safety = file.lines().filter(|line| line.starts_with("always"));
        assert_eq!(safety.count(), all().len());
    }
}
