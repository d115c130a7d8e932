//! What a node is started with: whom to ask, how much to remember, how often to look, and which known bugs to have.

use std::num::NonZeroUsize;
use std::time::Duration;

use scry::NodeId;
use serde::{Deserialize, Serialize};

/// The static settings of a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The nodes that may be asked for a place. The first founds the ring: it alone does not wait for an answer.
    pub contacts: Vec<NodeId>,
    /// How many nodes a node remembers on each side.
    pub side_max: NonZeroUsize,
    /// How often a node greets its leaves.
    pub maintain_ms: u64,
    /// How long to wait for a place before asking again.
    pub retry_ms: u64,
    /// Whether to ask again only if the last question is known to be lost. A node on its way that is reset may lose it in silence; a
    /// search in which none is has an end with this.
    #[serde(default)]
    pub patient: bool,
    /// The bugs this node has.
    #[serde(default)]
    pub bugs: Bugs,
}

/// Which of the known bugs are switched on. By default none is.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Bugs {
    /// A node that has no place ignores whoever takes it for a member, and whoever is asked for a place takes the asker for a member if
    /// it was one before it was restarted (MaceMC §1).
    pub rejoin: bool,
}

impl Setup {
    /// Returns settings for a live ring, everything fixed.
    pub fn new(contacts: impl IntoIterator<Item = NodeId>) -> Self {
        Self {
            contacts: contacts.into_iter().collect(),
            side_max: NonZeroUsize::MIN.saturating_add(3),
            maintain_ms: 500,
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

    pub(crate) fn maintain_after(&self) -> Duration {
        Duration::from_millis(self.maintain_ms)
    }

    pub(crate) fn retry_after(&self) -> Duration {
        Duration::from_millis(self.retry_ms)
    }
}
