//! The services: which nodes they have, what is asked of them, which faults they meet, and when a request is answered.
//!
//! Rates are modest, so that a cluster with all its agents does not use up two cores.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use chord::Chord;
use correct::{Chain, Commit, Failover, Gossip, Lease, chain, commit, failover, gossip, lease};
use paxos::Paxos;
use randtree::RandTree;
use scry::NodeId;

use crate::draw::Draw;
use crate::staged::Staged;

/// What the lab must know of a service to send it through the gauntlet.
pub(crate) trait Contestant: Staged {
    /// The property file its agents are given; empty for the service's own properties.
    const PROPERTIES: &'static str = "";
    /// Whether agents must be told who is whose neighbor: everybody is everybody's.
    const EVERYONE: bool = false;
    /// How many nodes it has: 1, 2, 3 and so on.
    const NODES: u32;
    /// The node that is started late.
    const LATE: u32;
    /// Which share of its datagrams is lost.
    const LOSS: f64 = 0.0;
    /// How often a second its application asks for something, on average.
    const CALLS_PER_SECOND: f64;
    /// How often a minute a node is reset, on average.
    const RESETS_PER_MINUTE: f64 = 12.0;
    /// Whether the node with the next id is reset with it, and both come back at the same moment.
    const RESETS_PAIRS: bool = false;
    /// After how many seconds at most a node that was reset is asked for something again.
    const AWAY_MAX: f64 = 0.4;
    /// How often a minute a node is cut off for a while, on average.
    const CUTS_PER_MINUTE: f64 = 0.0;
    /// The first and the last of the nodes that may be.
    const CUT_NODES: (u32, u32) = (1, Self::NODES);
    /// Whether what was asked of a node is forgotten when it is reset.
    const FORGETS: bool = false;
    /// What tells whether a request was answered.
    type Ticket: std::fmt::Debug;

    /// Returns the settings of a node.
    fn settings(me: NodeId, members: &[NodeId], buggy: bool) -> Self::Setup;

    /// Returns what is asked of a node that was started or reset.
    fn greeting() -> Option<Self::Call> {
        None
    }

    /// Returns what the application asks the `number`th time, counted from 1, and of whom.
    fn requests(number: u32, draw: &mut Draw) -> Vec<(NodeId, Self::Call)> {
        let _ = (number, draw);
        Vec::new()
    }

    /// Returns what a node asks for when it hears from the others again: the requests with these numbers came while it was
    /// cut off.
    fn catch_up(me: NodeId, missed: Range<u32>) -> Vec<Self::Call> {
        let _ = (me, missed);
        Vec::new()
    }

    /// Returns how much is broken in these states for good; `None` for a service that mends itself, of which every broken
    /// state counts.
    fn broken_for_good(states: &BTreeMap<NodeId, &Self>) -> Option<u64> {
        let _ = states;
        None
    }

    /// Returns the ticket of a request that this node has just handled.
    fn ticket(&self, me: NodeId, call: &Self::Call) -> Self::Ticket;

    /// Tells whether a request of this node's application was answered.
    fn has_answered(&self, me: NodeId, ticket: &Self::Ticket) -> bool;
}

/// Returns one of the nodes `from..=to`.
pub(crate) fn some(draw: &mut Draw, from: u32, to: u32) -> NodeId {
    let offset = draw.below((to - from + 1) as usize);
    NodeId::new(from + u32::try_from(offset).unwrap_or_default())
}

impl Contestant for Chain {
    const PROPERTIES: &'static str = chain::PROPERTIES;
    const NODES: u32 = 3;
    const LATE: u32 = 2;
    const CALLS_PER_SECOND: f64 = 10.0;
    type Ticket = u32;

    fn settings(_: NodeId, members: &[NodeId], buggy: bool) -> chain::Setup {
        chain::Setup {
            trusting: buggy,
            ..chain::Setup::new(members)
        }
    }

    fn requests(request: u32, draw: &mut Draw) -> Vec<(NodeId, chain::Call)> {
        let key = u8::try_from(draw.below(8)).unwrap_or_default();
        let value = request;
        let write = chain::Call::Write {
            request,
            key,
            value,
        };
        vec![(NodeId::new(1), write)]
    }

    fn ticket(&self, _: NodeId, chain::Call::Write { request, .. }: &chain::Call) -> u32 {
        *request
    }

    fn has_answered(&self, _: NodeId, request: &u32) -> bool {
        self.answered >= *request
    }
}

impl Contestant for Commit {
    const PROPERTIES: &'static str = commit::PROPERTIES;
    const NODES: u32 = 4;
    const LATE: u32 = 4;
    const LOSS: f64 = 0.01;
    const CALLS_PER_SECOND: f64 = 2.5;
    type Ticket = u32;

    fn settings(me: NodeId, members: &[NodeId], buggy: bool) -> commit::Setup {
        commit::Setup {
            impatient: buggy,
            ..commit::Setup::new(me, members)
        }
    }

    fn requests(request: u32, draw: &mut Draw) -> Vec<(NodeId, commit::Call)> {
        let cost = 1 + u32::try_from(draw.below(10)).unwrap_or_default();
        vec![(NodeId::new(1), commit::Call::Transfer { request, cost })]
    }

    fn ticket(&self, _: NodeId, commit::Call::Transfer { request, .. }: &commit::Call) -> u32 {
        *request
    }

    fn has_answered(&self, _: NodeId, request: &u32) -> bool {
        self.answered >= *request
    }
}

impl Contestant for Lease {
    const PROPERTIES: &'static str = lease::PROPERTIES;
    const NODES: u32 = 4;
    const LATE: u32 = 4;
    const LOSS: f64 = 0.01;
    const CALLS_PER_SECOND: f64 = 2.4;
    const RESETS_PER_MINUTE: f64 = 8.0;
    const FORGETS: bool = true;
    type Ticket = u32;

    fn settings(_: NodeId, members: &[NodeId], buggy: bool) -> lease::Setup {
        lease::Setup {
            overstay: buggy,
            ..lease::Setup::new(members)
        }
    }

    fn requests(request: u32, draw: &mut Draw) -> Vec<(NodeId, lease::Call)> {
        // One in sixteen takes longer than a lease lasts. The others are short, so that most find the lock free: if every
        // second one waited, the median would be now among those that wait and now among those that do not.
        let ms = if draw.below(16) == 0 { 2000 } else { 20 };
        let work = lease::Call::Work { request, ms };
        vec![(some(draw, 2, Self::NODES), work)]
    }

    fn ticket(&self, _: NodeId, lease::Call::Work { request, .. }: &lease::Call) -> u32 {
        *request
    }

    fn has_answered(&self, _: NodeId, request: &u32) -> bool {
        self.answered >= *request
    }
}

impl Contestant for Failover {
    const PROPERTIES: &'static str = failover::PROPERTIES;
    const NODES: u32 = 5;
    const LATE: u32 = 4;
    const LOSS: f64 = 0.01;
    const CALLS_PER_SECOND: f64 = 5.0;
    // A reset is over too soon for anybody to be taken for dead.
    const CUTS_PER_MINUTE: f64 = 6.0;
    const CUT_NODES: (u32, u32) = (2, 4);
    type Ticket = u32;

    fn settings(_: NodeId, members: &[NodeId], buggy: bool) -> failover::Setup {
        failover::Setup {
            alone: buggy,
            ..failover::Setup::new(members)
        }
    }

    fn requests(request: u32, _: &mut Draw) -> Vec<(NodeId, failover::Call)> {
        let value = request;
        let write = failover::Call::Write { request, value };
        vec![(NodeId::new(Self::NODES), write)]
    }

    fn ticket(&self, _: NodeId, failover::Call::Write { request, .. }: &failover::Call) -> u32 {
        *request
    }

    fn has_answered(&self, _: NodeId, request: &u32) -> bool {
        self.answered >= *request
    }
}

impl Contestant for Gossip {
    const PROPERTIES: &'static str = gossip::PROPERTIES;
    const NODES: u32 = 4;
    const LATE: u32 = 4;
    const LOSS: f64 = 0.02;
    const CALLS_PER_SECOND: f64 = 4.0;
    type Ticket = u32;

    fn settings(_: NodeId, members: &[NodeId], buggy: bool) -> gossip::Setup {
        gossip::Setup {
            deltas: buggy,
            ..gossip::Setup::new(members)
        }
    }

    fn requests(_: u32, draw: &mut Draw) -> Vec<(NodeId, gossip::Call)> {
        vec![(some(draw, 1, Self::NODES), gossip::Call::Add)]
    }

    fn ticket(&self, me: NodeId, _: &gossip::Call) -> u32 {
        self.counts.get(&me).copied().unwrap_or_default()
    }

    fn has_answered(&self, _: NodeId, count: &u32) -> bool {
        self.answered >= *count
    }
}

impl Contestant for RandTree {
    const NODES: u32 = 12;
    const LATE: u32 = 12;
    // Its joins are its load: whoever is reset joins again.
    const CALLS_PER_SECOND: f64 = 0.0;
    const RESETS_PER_MINUTE: f64 = 60.0;
    // Its bugs show where a place near the root is free for a while.
    const AWAY_MAX: f64 = 12.0;
    const FORGETS: bool = true;
    type Ticket = ();

    fn settings(_: NodeId, members: &[NodeId], buggy: bool) -> randtree::Setup {
        randtree::Setup {
            bootstrap: members.iter().copied().take(1).collect(),
            // As in the papers: a child that was reset in silence is noticed only when it is back. With room under the root it
            // comes back there.
            degree_max: 4,
            keepalive: false,
            bugs: randtree::Bugs {
                update_sibling: buggy,
                new_root: buggy,
                promote: buggy,
                ..randtree::Bugs::default()
            },
            ..randtree::Setup::default()
        }
    }

    fn greeting() -> Option<randtree::Call> {
        Some(randtree::Call::Join)
    }

    fn ticket(&self, _: NodeId, _: &randtree::Call) {}

    fn has_answered(&self, me: NodeId, (): &()) -> bool {
        self.has_place(me)
    }
}

impl Contestant for Chord {
    const NODES: u32 = 5;
    const LATE: u32 = 5;
    const CALLS_PER_SECOND: f64 = 0.0;
    const RESETS_PER_MINUTE: f64 = 40.0;
    // Two that join between the same nodes are told the same successors: the case that its bug is about.
    const RESETS_PAIRS: bool = true;
    const AWAY_MAX: f64 = 2.0;
    const FORGETS: bool = true;
    type Ticket = ();

    fn settings(_: NodeId, members: &[NodeId], buggy: bool) -> chord::Setup {
        chord::Setup {
            // The other bugs need what cannot happen here: that something comes between a node and what it says to itself,
            // or that nobody was ever in the ring before.
            bugs: chord::Bugs {
                ordering: buggy,
                ..chord::Bugs::default()
            },
            ..chord::Setup::new(members.iter().copied().take(2))
        }
    }

    fn greeting() -> Option<chord::Call> {
        Some(chord::Call::Join)
    }

    fn ticket(&self, _: NodeId, _: &chord::Call) {}

    fn has_answered(&self, me: NodeId, (): &()) -> bool {
        self.has_place(me)
    }
}

impl Contestant for Paxos {
    const EVERYONE: bool = true;
    const NODES: u32 = 3;
    const LATE: u32 = 3;
    const LOSS: f64 = 0.02;
    const CALLS_PER_SECOND: f64 = 3.0;
    // Who is cut off misses values, and asks for them when it is back; of those who chose them, one may have been reset.
    const RESETS_PER_MINUTE: f64 = 6.0;
    const CUTS_PER_MINUTE: f64 = 8.0;
    type Ticket = paxos::Index;

    fn settings(me: NodeId, members: &[NodeId], buggy: bool) -> paxos::Setup {
        paxos::Setup {
            part: paxos::Part::Replica,
            acceptors: members.to_vec(),
            value: me.get(),
            rounds: u32::MAX,
            indices: u32::MAX,
            bugs: paxos::Bugs {
                volatile_promise: buggy,
                ..paxos::Bugs::default()
            },
        }
    }

    /// Proposes a value for the next index; every third time two nodes want it at once.
    fn requests(number: u32, draw: &mut Draw) -> Vec<(NodeId, paxos::Call)> {
        let index = number - 1;
        let first = some(draw, 1, Self::NODES);
        let second = NodeId::new(first.get() % Self::NODES + 1);
        let both = [first, second].into_iter();
        let propose = |node: NodeId| {
            let value = node.get();
            (node, paxos::Call::Propose { index, value })
        };
        let count = if number.is_multiple_of(3) { 2 } else { 1 };
        both.take(count).map(propose).collect()
    }

    /// Proposes where others may have chosen meanwhile: that is how a replica learns what.
    fn catch_up(me: NodeId, missed: Range<u32>) -> Vec<paxos::Call> {
        let value = me.get();
        let propose = |number: u32| paxos::Call::Propose {
            index: number - 1,
            value,
        };
        missed.map(propose).collect()
    }

    /// Two values for one index stay.
    fn broken_for_good(states: &BTreeMap<NodeId, &Self>) -> Option<u64> {
        let mut values: BTreeMap<paxos::Index, BTreeSet<paxos::Value>> = BTreeMap::new();
        for (&index, &value) in states.values().flat_map(|state| &state.chosen) {
            values.entry(index).or_default().insert(value);
        }
        let twice = values.values().filter(|values| values.len() > 1);
        Some(twice.count() as u64)
    }

    fn ticket(&self, _: NodeId, paxos::Call::Propose { index, .. }: &paxos::Call) -> u32 {
        *index
    }

    fn has_answered(&self, _: NodeId, index: &u32) -> bool {
        self.chosen.contains_key(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_with_two_values_counts_once() {
        let replica = |chosen: &[(u32, u32)]| Paxos {
            chosen: chosen.iter().copied().collect(),
            role: paxos::service::Role::Retired,
        };
        let states = [
            replica(&[(0, 1), (1, 2), (2, 3)]),
            replica(&[(0, 1), (1, 3)]),
            replica(&[(1, 1), (2, 3)]),
        ];
        let states = (1..).map(NodeId::new).zip(&states).collect();
        assert_eq!(Paxos::broken_for_good(&states), Some(1));
    }
}
