//! What is said of others: the first few lines of a kind about somebody, and then their number; and who was slowed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scry_protocol::NodeId;
use tokio::time::{Instant, interval};
use tracing::{info, warn};

use super::{Shared, lock};
use crate::daemon::Fact;
use crate::rate_limit::Folding;

/// Over which time lines are folded.
const INTERVAL_MS: u64 = 60_000;
/// How many lines of a kind about somebody are written in that time.
const TOLD_MAX: u64 = 5;
/// How many kinds and subjects are told apart.
const SUBJECTS_MAX: usize = 512;
/// How often it is said that a peer is slowed.
const SLOWED_EVERY: Duration = Duration::from_secs(60);

/// Lines about others.
#[derive(Debug)]
pub(super) struct Lines {
    folding: Mutex<Folding<(&'static str, String)>>,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            folding: Mutex::new(Folding::new(INTERVAL_MS, SUBJECTS_MAX)),
        }
    }
}

impl Lines {
    /// Tells whether a line is to be written.
    pub(super) fn note(&self, now_ms: u64, what: &'static str, about: &str) -> bool {
        lock(&self.folding).note(now_ms, (what, about.to_owned()), TOLD_MAX)
    }

    fn tell_left_out(&self, now_ms: u64) {
        let over = lock(&self.folding).over(now_ms);
        for left_out in over {
            let (what, about) = left_out.key.unwrap_or(("lines", "many others".to_owned()));
            let (count, elapsed_ms) = (left_out.count, left_out.elapsed_ms);
            info!(
                what,
                about, count, elapsed_ms, "more lines like those before were left out"
            );
        }
    }
}

/// Says what was left out and who is slowed, for as long as the agent runs.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut ticks = interval(Duration::from_secs(1));
    let mut said: BTreeMap<NodeId, Instant> = BTreeMap::new();
    while !shared.facts.is_closed() {
        ticks.tick().await;
        shared.lines.tell_left_out(shared.now_ms());
        let meters: Vec<_> = lock(&shared.meters)
            .iter()
            .map(|(peer, meter)| (*peer, Arc::clone(meter)))
            .collect();
        for (peer, meter) in meters {
            let is_said = |at: &Instant| at.elapsed() < SLOWED_EVERY;
            if said.get(&peer).is_some_and(is_said) {
                continue;
            }
            let Some(limit) = meter.take_news() else {
                continue;
            };
            said.insert(peer, Instant::now());
            let (count, slowed_ms) = meter.slowed();
            warn!(%peer, limit = limit.name(), count, slowed_ms, "a peer asks too much and is read from more slowly");
            let fact = Fact::PeerSlowed { peer, limit, count };
            if shared.facts.send(fact).await.is_err() {
                return;
            }
        }
    }
}
