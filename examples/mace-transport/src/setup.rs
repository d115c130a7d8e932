//! What a node is started with: how patient it is, what its application has to send, and which known bugs to have.

use std::collections::BTreeMap;
use std::time::Duration;

use scry::NodeId;
use serde::{Deserialize, Serialize};

/// The static settings of a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setup {
    /// How long a packet waits for its acknowledgement before it is sent again.
    pub retransmit_ms: u64,
    /// How often the first packet of a connection is sent again before the connection is closed.
    pub open_retries: u32,
    /// How often any other packet is sent again; `None` for as long as it takes. The receiver was there, so it will be again.
    pub retries: Option<u32>,
    /// How often the application opens another connection for what one that was closed has left, before it gives up.
    pub reopens: u32,
    /// How many packets may be in flight at once, however well it goes.
    pub window_max: u32,
    /// What an application has to send in a search, by receiver. A live one says so itself.
    pub workload: BTreeMap<NodeId, Vec<String>>,
    /// The bugs this node has.
    pub bugs: Bugs,
}

/// Which of the known bugs are switched on. By default none is.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Bugs {
    /// A receiver goes by sequence numbers alone, and takes every first packet with another number for that of a younger connection
    /// (MaceMC §5).
    pub stale_syn: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            retransmit_ms: 200,
            open_retries: 5,
            retries: None,
            reopens: 10,
            window_max: 64,
            workload: BTreeMap::new(),
            bugs: Bugs::default(),
        }
    }
}

impl Setup {
    pub(crate) fn retransmit_after(&self) -> Duration {
        Duration::from_millis(self.retransmit_ms)
    }
}
