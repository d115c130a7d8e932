//! What the lab must know of a service beyond what scry knows: its name, and how a node is doing in a few words.

use chord::Chord;
use correct::{Chain, Commit, Failover, Gossip, Lease};
use one_paxos::OnePaxos;
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

impl Staged for OnePaxos {
    const NAME: &'static str = "one-paxos";

    fn has_place(&self, _me: NodeId) -> bool {
        !self.chosen.is_empty()
    }

    fn brief(&self, _me: NodeId) -> String {
        let (term, chosen) = (self.roles.term, self.chosen.len());
        format!("term {term}, {chosen} chosen")
    }
}

impl Staged for Chord {
    const NAME: &'static str = "chord";

    fn has_place(&self, _me: NodeId) -> bool {
        self.mode == chord::Mode::Joined
    }

    fn brief(&self, _me: NodeId) -> String {
        let name = |node: Option<NodeId>| node.map_or("?".to_owned(), |node| node.to_string());
        match self.mode {
            chord::Mode::Init => "out of the ring".to_owned(),
            chord::Mode::Joining => "joining".to_owned(),
            chord::Mode::Joined => {
                let (before, after) = (name(self.predecessor), name(self.successor));
                format!("between {before} and {after}")
            }
        }
    }
}

impl Staged for Chain {
    const NAME: &'static str = "chain";

    fn has_place(&self, _me: NodeId) -> bool {
        true
    }

    fn brief(&self, _me: NodeId) -> String {
        let (applied, acknowledged) = (self.applied, self.acknowledged);
        format!("{applied} applied, {acknowledged} acknowledged")
    }
}

impl Staged for Commit {
    const NAME: &'static str = "commit";

    fn has_place(&self, _me: NodeId) -> bool {
        true
    }

    fn brief(&self, _me: NodeId) -> String {
        let (begun, decided) = (self.begun, self.decided);
        format!("{begun} begun, {decided} decided")
    }
}

impl Staged for Lease {
    const NAME: &'static str = "lease";

    fn has_place(&self, _me: NodeId) -> bool {
        true
    }

    fn brief(&self, _me: NodeId) -> String {
        let does = match (self.holds, self.asked) {
            (true, _) => "holds the lock",
            (false, Some(_)) => "wants the lock",
            (false, None) => "idle",
        };
        does.to_owned()
    }
}

impl Staged for Failover {
    const NAME: &'static str = "failover";

    fn has_place(&self, _me: NodeId) -> bool {
        self.view > 0
    }

    fn brief(&self, _me: NodeId) -> String {
        format!("view {}, {} stored", self.view, self.stored)
    }
}

impl Staged for Gossip {
    const NAME: &'static str = "gossip";

    fn has_place(&self, _me: NodeId) -> bool {
        true
    }

    fn brief(&self, _me: NodeId) -> String {
        format!("knows of {}", self.counts.values().sum::<u32>())
    }
}
