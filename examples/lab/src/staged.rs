//! What the lab must know of a service beyond what scry knows: its name, and how a node is doing in a few words.

use paxos::Paxos;
use randtree::{Mode, RandTree};
use scry::{NodeId, Program};

/// A service the lab can run.
pub(crate) trait Staged: Program {
    /// What it is called on the command line.
    const NAME: &'static str;

    /// Tells whether a node has its place: a join takes until then.
    fn has_place(&self, me: NodeId) -> bool;

    /// Says in a few words how a node is doing.
    fn brief(&self, me: NodeId) -> String;
}

impl Staged for RandTree {
    const NAME: &'static str = "randtree";

    fn has_place(&self, me: NodeId) -> bool {
        self.mode == Mode::Joined && (self.parent.is_some() || self.is_root(me))
    }

    fn brief(&self, me: NodeId) -> String {
        let list = |nodes: &std::collections::BTreeSet<NodeId>| {
            let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
            names.join(" ")
        };
        let place = match (self.mode, self.parent) {
            (Mode::Init, _) => return "out of the tree".to_owned(),
            (Mode::Joining, _) => "joining".to_owned(),
            (Mode::Joined, Some(parent)) => format!("below {parent}"),
            (Mode::Joined, None) if self.is_root(me) => "root".to_owned(),
            (Mode::Joined, None) => "giving its role away".to_owned(),
        };
        format!(
            "{place:<12} children [{}] siblings [{}]",
            list(&self.children),
            list(&self.siblings)
        )
    }
}

impl Staged for Paxos {
    const NAME: &'static str = "paxos";

    fn has_place(&self, _me: NodeId) -> bool {
        !self.chosen.is_empty()
    }

    fn brief(&self, _me: NodeId) -> String {
        match self.chosen.get(&0) {
            Some(value) => format!("has chosen {value}"),
            None => "has chosen nothing".to_owned(),
        }
    }
}
