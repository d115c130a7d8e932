//! What a node is started with: whom to ask, how much to remember, how often to look, and which known bugs to have.

use std::num::NonZeroUsize;
use std::time::Duration;

use scry::NodeId;
use serde::{Deserialize, Serialize};

/// The static settings of a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The nodes that may be asked for a place in the ring. The first founds the ring: it alone does not wait for an
    /// answer.
    pub contacts: Vec<NodeId>,
    /// How many successors a node remembers.
    pub successors_max: NonZeroUsize,
    /// How far away the fingers are, as distances on the ring.
    pub fingers: Vec<u32>,
    /// How often a finger is looked up; `None` to keep as fingers only what is learned by the way.
    pub fingers_ms: Option<u64>,
    /// How often a node in the ring asks a contact for its place all the same, so that two rings that do not know of
    /// each other become one; `None` for never.
    pub reunite_ms: Option<u64>,
    /// How often the successor is asked.
    pub stabilize_ms: u64,
    /// How long to wait for an answer before asking another contact.
    pub retry_ms: u64,
    /// Whether to ask again only after the last answer. A node on the way of a question that is reset, or has not joined, may
    /// lose it in silence; a search in which none is has an end with this.
    #[serde(default)]
    pub patient: bool,
    /// The bugs this node has.
    #[serde(default)]
    pub bugs: Bugs,
}

/// Which of the known bugs are switched on. By default none is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bugs {
    /// A joining node notifies the first node of the list it was sent even if that is the node itself, and takes
    /// itself for its predecessor when the notice arrives (CrystalBall §5.2.2, Figure 10).
    pub self_predecessor: bool,
    /// A node that takes over its successor's list does not look at its predecessor again (CrystalBall §5.2.2,
    /// Figure 11).
    pub ordering: bool,
    /// A node that learns of another remembers it as predecessor only, not as successor (MaceMC §6).
    pub stale_successor: bool,
}

impl Setup {
    /// Returns settings for a live ring: a finger at each power of two, everything fixed.
    pub fn new(contacts: impl IntoIterator<Item = NodeId>) -> Self {
        Self {
            contacts: contacts.into_iter().collect(),
            successors_max: NonZeroUsize::MIN.saturating_add(3),
            fingers: (1..u32::BITS).map(|bit| 1 << bit).collect(),
            fingers_ms: Some(1_000),
            reunite_ms: Some(5_000),
            stabilize_ms: 500,
            retry_ms: 1_000,
            patient: false,
            bugs: Bugs::default(),
        }
    }

    /// Returns the contacts other than the node itself.
    pub fn others(&self, me: NodeId) -> Vec<NodeId> {
        let mut others = self.contacts.clone();
        others.retain(|contact| *contact != me);
        others
    }

    /// Tells whether the node founds the ring rather than asking for a place in one.
    pub fn is_founder(&self, me: NodeId) -> bool {
        self.contacts.first().is_none_or(|first| *first == me)
    }

    pub(crate) fn stabilize_after(&self) -> Duration {
        Duration::from_millis(self.stabilize_ms)
    }

    pub(crate) fn retry_after(&self) -> Duration {
        Duration::from_millis(self.retry_ms)
    }

    pub(crate) fn fingers_after(&self) -> Option<Duration> {
        self.fingers_ms.map(Duration::from_millis)
    }

    pub(crate) fn reunite_after(&self) -> Option<Duration> {
        self.reunite_ms.map(Duration::from_millis)
    }
}
