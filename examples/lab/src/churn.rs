//! Nodes that come and go: who leaves when, how, and when it is back, drawn from a seed before anything runs.

use std::time::Duration;

use scry::NodeId;
use serde::Serialize;

use crate::draw::Draw;

/// What is done to a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Deed {
    /// Its application asks it to join.
    Join,
    /// It loses its state, and its peers see their connections break.
    Reset,
    /// It loses its state, and nobody is told: as if its power had failed.
    SilentReset,
}

/// Something to be done.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Act {
    /// When, since the start.
    pub(crate) at: Duration,
    /// To which node.
    pub(crate) node: NodeId,
    /// What.
    pub(crate) deed: Deed,
}

/// How nodes come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Churn {
    /// How often a minute some node leaves, on average.
    pub(crate) per_minute: f64,
    /// How many of those that leave do so silently.
    pub(crate) silent_share: f64,
    /// How long the shortest absence is, in seconds.
    pub(crate) away_min: f64,
    /// How long the longest.
    pub(crate) away_max: f64,
}

/// The first join follows the start, each other the one before it, by this much.
const JOIN_EVERY: Duration = Duration::from_millis(150);

/// Lets everybody join, one after the other.
pub(crate) fn joins(nodes: &[NodeId]) -> Vec<Act> {
    let times = (1u32..).map(|turn| JOIN_EVERY * turn);
    times
        .zip(nodes)
        .map(|(at, &node)| Act {
            at,
            node,
            deed: Deed::Join,
        })
        .collect()
}

/// Draws who leaves and comes back between two moments. A node that is away does not leave again.
pub(crate) fn churn(
    nodes: &[NodeId],
    churn: Churn,
    from: Duration,
    to: Duration,
    seed: u64,
) -> Vec<Act> {
    let mut draw = Draw::new(seed);
    let mut back_at = vec![0.0; nodes.len()];
    let mut acts = Vec::new();
    let mut at = from.as_secs_f64();
    loop {
        at += draw.wait(churn.per_minute / 60.0);
        let (which, silent) = (draw.below(nodes.len()), draw.unit() < churn.silent_share);
        let back = at + draw.between(churn.away_min, churn.away_max);
        // Nobody leaves so late that it could not be back in time.
        if back >= to.as_secs_f64() {
            break;
        }
        if back_at[which] > at {
            continue;
        }
        back_at[which] = back;
        let deed = if silent {
            Deed::SilentReset
        } else {
            Deed::Reset
        };
        for (at, deed) in [(at, deed), (back, Deed::Join)] {
            acts.push(Act {
                at: Duration::from_secs_f64(at),
                node: nodes[which],
                deed,
            });
        }
    }
    acts.sort_by_key(|act| act.at);
    acts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const CHURN: Churn = Churn {
        per_minute: 60.0,
        silent_share: 0.5,
        away_min: 0.5,
        away_max: 3.0,
    };

    fn nodes() -> Vec<NodeId> {
        (1..=5).map(NodeId::new).collect()
    }

    fn drawn(seed: u64) -> Vec<Act> {
        let (from, to) = (Duration::from_secs(10), Duration::from_secs(310));
        churn(&nodes(), CHURN, from, to, seed)
    }

    #[test]
    fn the_same_seed_makes_the_same_script() {
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn whoever_leaves_comes_back_before_it_leaves_again_and_before_the_end() {
        let acts = drawn(3);
        let mut away = BTreeMap::new();
        for act in &acts {
            assert!(act.at >= Duration::from_secs(10) && act.at < Duration::from_secs(310));
            let is_join = act.deed == Deed::Join;
            assert_eq!(away.insert(act.node, !is_join).unwrap_or(false), is_join);
        }
        assert!(away.values().all(|away| !away));
        let leaves = acts.len() / 2;
        assert!((150..350).contains(&leaves), "{leaves} in five minutes");
    }

    #[test]
    fn everybody_joins_once_and_the_first_first() {
        let acts = joins(&nodes());
        assert_eq!(acts.len(), 5);
        assert!(acts.is_sorted_by_key(|act| act.at));
        assert_eq!(acts[0].node, NodeId::new(1));
    }
}
