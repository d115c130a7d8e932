//! What a node is started with: the Paxos below it, what it proposes, and which known bugs to have.

use paxos::{Index, Value};
use scry::NodeId;
use serde::{Deserialize, Serialize};

/// The static settings of a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The settings of the Paxos below. Its acceptors are the members here too: the first leads to begin with, and the second accepts.
    pub utility: paxos::Setup,
    /// What this node proposes if nobody says otherwise.
    pub value: Value,
    /// How many values can be chosen, from index 0 on.
    #[serde(default = "unlimited")]
    pub indices: Index,
    /// The known bugs that are on.
    #[serde(default)]
    pub bugs: Bugs,
}

/// The known bugs, all off by default.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bugs {
    /// Who accepts to begin with is looked up before the step to the next member: it is the leader itself (LMC §5.6).
    pub increment: bool,
}

/// A bound is for a search that shall come to an end.
fn unlimited() -> Index {
    Index::MAX
}

impl Setup {
    /// Returns the members in their order.
    pub fn members(&self) -> &[NodeId] {
        &self.utility.acceptors
    }
}
