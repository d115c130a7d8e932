//! What a node of the tree is started with: where to join, how wide to grow, who may be root, which bugs to have.

use std::time::Duration;

use scry::NodeId;
use serde::{Deserialize, Serialize};

/// The static settings of one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setup {
    /// The designated nodes, one of which is asked to let this node in. A node that picks itself founds a tree.
    pub bootstrap: Vec<NodeId>,
    /// How many children a node takes.
    pub degree_max: u32,
    /// Who is more fit to be root, the fittest first. Nodes that are not named come after, the smallest id first.
    ///
    /// A key of its own, because CrystalBall §5.2.1 has a root 61 above a node 5 (H-4). It must be the same at all
    /// nodes.
    pub eligibility: Vec<NodeId>,
    /// How long the recovery timer runs.
    pub recovery_period_ms: u64,
    /// When a root that gives up its role tells its children.
    pub announce: Announce,
    /// Whether the recovery timer also says a word on every connection to parent and children.
    ///
    /// The papers' tree does not, and so a peer that was reset in silence is noticed only when there is something to
    /// tell it. A deployment without TCP keepalive wants it on.
    pub keepalive: bool,
    /// Whether the recovery timer asks again for a place that was asked for.
    ///
    /// Requests travel on connections, so one is enough as long as nobody on its way is reset. A search in which nobody is
    /// has an end without.
    pub ask_again: bool,
    /// The bugs this node has.
    pub bugs: Bugs,
}

/// When a root that gives up its role tells its children. CrystalBall tells one story of each kind (H-9).
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Announce {
    /// When the new root has taken it in, as in the story of nodes 61 and 9.
    #[default]
    AfterReply,
    /// As soon as it has chosen the new root, as in the story of nodes A, B, C and R.
    AtOnce,
}

/// The bugs that can be switched on. Without any, the protocol is the repaired one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Bugs {
    /// A new sibling stays in the list of children (R1).
    pub update_sibling: bool,
    /// A new root stays in the lists of children and siblings (R2).
    pub new_root: bool,
    /// A child that takes the place of its lost root keeps its siblings (R3).
    pub promote: bool,
    /// A node that founds a tree arms no recovery timer (R4).
    pub timer: bool,
    /// A node that has not asked to join ignores a reply instead of declining it (R5).
    pub ignored_reply: bool,
    /// A child that takes the place of its lost root stops its recovery timer (R6).
    pub two_trees: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            bootstrap: Vec::new(),
            degree_max: 3,
            eligibility: Vec::new(),
            recovery_period_ms: 1000,
            announce: Announce::default(),
            keepalive: true,
            ask_again: true,
            bugs: Bugs::default(),
        }
    }
}

impl Setup {
    /// Tells whether `a` is more fit to be root than `b`.
    pub fn prefers(&self, a: NodeId, b: NodeId) -> bool {
        let rank = |node| {
            let named = self.eligibility.iter().position(|&named| named == node);
            (named.unwrap_or(self.eligibility.len()), node)
        };
        rank(a) < rank(b)
    }

    /// Returns how long the recovery timer runs.
    pub fn recovery_period(&self) -> Duration {
        Duration::from_millis(self.recovery_period_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_nodes_come_first_and_the_rest_by_id() {
        let setup = Setup {
            eligibility: [9, 61].map(NodeId::new).to_vec(),
            ..Setup::default()
        };
        let mut nodes = [69, 61, 5, 9].map(NodeId::new);
        nodes.sort_by(|&a, &b| match setup.prefers(a, b) {
            true => std::cmp::Ordering::Less,
            false => std::cmp::Ordering::Greater,
        });
        assert_eq!(nodes, [9, 61, 5, 69].map(NodeId::new));
        assert!(!setup.prefers(NodeId::new(9), NodeId::new(9)));
    }
}
