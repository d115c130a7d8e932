//! Stories of what must come true again: the agents see it coming, and then it does or never does.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use scry::NodeId;
use serde::Serialize;

use super::account::Account;
use super::evidence::{Evidence, Wanted};
use super::{Liveness, PATIENCE, Telling, Way};
use crate::cluster::{Cluster, Happening, epoch_ms};
use crate::stage::Stage;
use crate::staged::Staged;

/// For how long something is waited for that may never come. The tree heals within a second if it does, the transport when its slow
/// packets have arrived, after 14 s.
pub(super) const COMES_WITHIN: Duration = Duration::from_secs(30);

/// What came of what must come true again.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    /// The property.
    property: &'static str,
    /// Whether it came true.
    came: bool,
    /// After how many milliseconds, or how long it was waited for.
    after_ms: u64,
}

impl Outcome {
    /// Tells it to people.
    pub(super) fn text(&self) -> String {
        let (property, seconds) = (self.property, self.after_ms as f64 / 1000.0);
        match self.came {
            true => format!("it came true after {seconds:.1} s: {property}"),
            false => format!("it NEVER came true in {seconds:.1} s: {property}"),
        }
    }
}

impl Telling {
    /// Tells whether a filter against what never comes true is to be expected.
    fn expects_filter(&self) -> bool {
        self.way.steering().predicts() && self.liveness != Liveness::Off && !self.fixed
    }

    /// Waits until the agents have seen the situation that is there now and, with the bug, a filter is in force at one of these
    /// nodes.
    pub(super) async fn foresee<S: Staged>(
        &self,
        stage: &mut Stage<'_, S>,
        directory: &Path,
        nodes: &[NodeId],
    ) -> anyhow::Result<()> {
        if self.way == Way::Unsteered {
            return Ok(());
        }
        let since_ms = epoch_ms();
        let members = stage.cluster.members();
        let wants = Wanted {
            filter: self.expects_filter().then_some(nodes),
            runs: false,
        };
        let is_seen = |_: &_, happening: &Happening| {
            matches!(happening, Happening::Record(_))
                && Evidence::read(directory, &members).shows(&members, since_ms, wants)
        };
        if stage.watch_until(PATIENCE, is_seen).await {
            return Ok(());
        }
        stage.cluster.check()?;
        bail!("in {PATIENCE:?} there was no filter at {nodes:?}, or not all was seen")
    }

    /// Waits for what may never come, and says what came of it.
    pub(super) async fn await_it<S: Staged>(
        &self,
        stage: &mut Stage<'_, S>,
        property: &'static str,
        comes: impl Fn(&Cluster<S>) -> bool,
    ) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let came = comes(&stage.cluster)
            || stage
                .watch_until(COMES_WITHIN, |cluster, _| comes(cluster))
                .await
            // The last word of a node may have come while nobody looked.
            || comes(&stage.cluster);
        stage.cluster.check()?;
        Ok(Outcome {
            property,
            came,
            after_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Ends the run and puts together what came of it.
    pub(super) async fn close_with<S: Staged>(
        &self,
        stage: Stage<'_, S>,
        directory: &Path,
        outcome: Outcome,
    ) -> Account {
        let members = stage.cluster.members();
        let result = stage.close().await;
        // Read after the agents have ended, so that all they had to say is there.
        let evidence = Evidence::read(directory, &members);
        Account::new(self, &result, &evidence, Some(outcome))
    }
}

/// Waits until something is so, or fails with what it waited for.
pub(super) async fn until<S: Staged>(
    stage: &mut Stage<'_, S>,
    what: &str,
    fits: impl Fn(&Cluster<S>) -> bool,
) -> anyhow::Result<()> {
    if fits(&stage.cluster)
        || stage
            .watch_until(PATIENCE, |cluster, _| fits(cluster))
            .await
    {
        return Ok(());
    }
    stage.cluster.check()?;
    bail!("in {PATIENCE:?} it did not happen that {what}")
}

/// Waits until a node tells of an event whose text contains some words, whatever is done about it.
pub(super) async fn heard<S: Staged>(
    stage: &mut Stage<'_, S>,
    node: NodeId,
    words: &str,
) -> anyhow::Result<()> {
    let is_it = |_: &_, happening: &Happening| match happening {
        Happening::Event(judged) => judged.told.node == node && judged.told.event.contains(words),
        Happening::Record(_) => false,
    };
    if stage.watch_until(PATIENCE, is_it).await {
        return Ok(());
    }
    stage.cluster.check()?;
    bail!("in {PATIENCE:?} {node} told nothing of {words}")
}
