//! What must hold in every state of the tree. `properties.toml` says the same in the property language, under the
//! same names, and adds what must hold in the end.

use std::collections::BTreeSet;

use scry::{NodeId, View};

use crate::message::Timer;
use crate::service::{Mode, RandTree};

type Property = scry::Property<RandTree>;

/// P1 (CrystalBall §1.2).
pub const DISJOINT: &str = "children and siblings are disjoint";
/// P2 at one node (CrystalBall §5.2.1).
pub const ROOT_APART: &str = "the root is neither child nor sibling";
/// P2 between nodes.
pub const ROOT_UNLISTED: &str = "who follows a root lists it neither as child nor as sibling";
/// P3 (CrystalBall §5.2.1).
pub const ROOT_ALONE: &str = "a root has no siblings";
/// P4 in CrystalBall's words (§5.2.1).
pub const TIMER_RUNS: &str = "the recovery timer runs while there are peers";
/// P4 in MaceMC's words (§6).
pub const TIMER_ALWAYS_RUNS: &str = "the recovery timer runs from the join on";
/// The tree's shape at one node (CrystalBall §1.2).
pub const PARENT_APART: &str = "the parent is neither child nor sibling";

/// Lists the properties that hold in every state.
///
/// P2 between nodes asks only those that follow the root in question. The papers' wording, that nobody at all lists a
/// root, is broken by any protocol for a while: a node that was reset in silence and founds a tree is still its former
/// parent's child until that one hears of it. It is in `properties.toml` as something that holds in the end.
pub fn all() -> Vec<Property> {
    vec![
        disjoint(),
        root_apart(),
        root_unlisted(),
        root_alone(),
        timer_runs(),
        parent_apart(),
    ]
}

fn disjoint() -> Property {
    Property::node(DISJOINT, |view| {
        view.state.children.is_disjoint(&view.state.siblings)
    })
    .saying(|views| {
        about(views, |view| {
            let both: Vec<_> = view
                .state
                .children
                .intersection(&view.state.siblings)
                .collect();
            (!both.is_empty())
                .then(|| format!("{} has {} as child and as sibling", view.id, list(both)))
        })
    })
}

fn root_apart() -> Property {
    Property::node(ROOT_APART, |view| {
        view.state.root.is_none_or(|root| !lists(view.state, root))
    })
    .saying(|views| {
        about(views, |view| {
            let root = view.state.root.filter(|&root| lists(view.state, root))?;
            Some(format!(
                "{} follows root {root} and has it below or beside itself",
                view.id
            ))
        })
    })
}

fn root_unlisted() -> Property {
    Property::pair(
        ROOT_UNLISTED,
        Standing::of,
        |(root, claim), (_, follower)| {
            !claim.is_root || follower.root != Some(root) || !follower.lists.contains(&root)
        },
    )
    .saying(|views| {
        about(views, |view| {
            let root = view.state.root.filter(|&root| lists(view.state, root))?;
            let claim = views.iter().find(|other| other.id == root)?;
            claim.state.is_root(root).then(|| {
                format!(
                    "{root} takes itself for the root, {} agrees and has it below or beside itself",
                    view.id
                )
            })
        })
    })
}

fn root_alone() -> Property {
    Property::node(ROOT_ALONE, |view| {
        !view.state.is_root(view.id) || view.state.siblings.is_empty()
    })
    .saying(|views| {
        about(views, |view| {
            let state = view.state;
            (state.is_root(view.id) && !state.siblings.is_empty()).then(|| {
                format!(
                    "{} takes itself for the root and has siblings {}",
                    view.id,
                    list(&state.siblings)
                )
            })
        })
    })
}

fn timer_runs() -> Property {
    Property::node(TIMER_RUNS, |view| {
        view.state.peers.is_empty() || view.timers.contains(&Timer::Recovery)
    })
    .saying(|views| {
        about(views, |view| {
            let peers = &view.state.peers;
            (!peers.is_empty() && view.timers.is_empty()).then(|| {
                format!(
                    "{} has peers {} and no timer to probe them",
                    view.id,
                    list(peers)
                )
            })
        })
    })
}

fn parent_apart() -> Property {
    Property::node(PARENT_APART, |view| {
        view.state
            .parent
            .is_none_or(|parent| !lists(view.state, parent))
    })
    .saying(|views| {
        about(views, |view| {
            let parent = view
                .state
                .parent
                .filter(|&parent| lists(view.state, parent))?;
            Some(format!(
                "{} has its parent {parent} below or beside itself",
                view.id
            ))
        })
    })
}

/// P4 as MaceMC words it. It is not among [`all`], because with the bug `timer` a node breaks it by founding a tree,
/// long before the peers come that make it matter (H-10).
pub fn timer_always_runs() -> Property {
    Property::node(TIMER_ALWAYS_RUNS, |view| {
        view.state.mode == Mode::Init || view.timers.contains(&Timer::Recovery)
    })
}

/// What one node has to do with the others' roots.
#[derive(Eq, Hash, PartialEq)]
struct Standing {
    is_root: bool,
    root: Option<NodeId>,
    lists: BTreeSet<NodeId>,
}

impl Standing {
    fn of(view: &View<'_, RandTree>) -> Option<Self> {
        let state = view.state;
        let standing = Self {
            is_root: state.is_root(view.id),
            root: state.root,
            lists: state.children.union(&state.siblings).copied().collect(),
        };
        (standing.is_root || !standing.lists.is_empty()).then_some(standing)
    }
}

fn lists(state: &RandTree, node: NodeId) -> bool {
    state.children.contains(&node) || state.siblings.contains(&node)
}

fn about(
    views: &[View<'_, RandTree>],
    say: impl Fn(&View<'_, RandTree>) -> Option<String>,
) -> String {
    views.iter().filter_map(say).collect::<Vec<_>>().join("; ")
}

fn list<'a>(nodes: impl IntoIterator<Item = &'a NodeId>) -> String {
    let names: Vec<_> = nodes.into_iter().map(NodeId::to_string).collect();
    names.join(", ")
}
