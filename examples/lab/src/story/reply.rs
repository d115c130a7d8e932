//! MaceMC's double parent with live nodes (§6; F-8), in the staging of RandTree's scenario `late-reply`.
//!
//! n2 is full, with n3 and n5 below it, and passes n4's request on to n3; the link between the two is slow. n4 is reset before n3 has it, of
//! which nobody hears, and n5 leaves. Now n3 takes in n4, which has forgotten that it ever asked. With the bug it ignores
//! the reply: when it asks again, n2 has room, and n3 keeps a child that is none for as long as it lives. Steered, the reply is held
//! until n4 has asked; then n4 declines it, and n3 strikes it off.
//!
//! To whom n2 passes the request is a matter of its dice. Where it picks n5, the story begins anew with another seed.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use randtree::{Bugs, Call, Mode, RandTree, Setup};
use scry::NodeId;
use serde_json::json;

use super::account::Account;
use super::never::{heard, until};
use super::{PERIOD_MS, Telling};
use crate::churn::Deed;
use crate::cluster::{Cluster, Link, Plan, Steering, Tuning};
use crate::demo::tuning;
use crate::stage::Stage;
use crate::view::View;

const ROOT: NodeId = NodeId::new(1);
/// It passes requests on, and later has room.
const FULL: NodeId = NodeId::new(2);
/// It takes in a node that does not know of it.
const HOST: NodeId = NodeId::new(3);
const FORGETFUL: NodeId = NodeId::new(4);
const LEAVER: NodeId = NodeId::new(5);
/// The property, as RandTree's property file has it.
const AGREE: &str = "parents and children agree";
/// How often the story is begun.
const ATTEMPTS: u64 = 8;
/// How long a node may take that is asked for a place over quick links.
const AT_ONCE: Duration = Duration::from_millis(1_000);

type Tree<'v> = Stage<'v, RandTree>;

impl Telling {
    /// Tells the story of the reply.
    pub(super) async fn reply(&self, directory: &Path, view: &mut View) -> anyhow::Result<Account> {
        for attempt in 0..ATTEMPTS {
            let directory = directory.join(format!("attempt{}", attempt + 1));
            let mut plan = self.reply_plan(&directory, self.seed.wrapping_add(attempt));
            self.tune(&mut plan);
            let mut stage = Stage::open(&plan, "r5", view).await?;
            if !set(&mut stage).await? {
                stage.close().await;
                continue;
            }
            self.foresee(&mut stage, &directory, &[FORGETFUL]).await?;
            stage.cluster.order(FULL, json!({ "heal": true })).await?;
            heard(&mut stage, FORGETFUL, "JoinReply").await?;
            stage.act(FORGETFUL, Deed::Join, &Call::Join).await?;
            until(&mut stage, "n4 has a place", |cluster| {
                state(cluster, FORGETFUL, |it| it.parent.is_some())
            })
            .await?;
            let outcome = self.await_it(&mut stage, AGREE, agree).await?;
            return Ok(self.close_with(stage, &directory, outcome).await);
        }
        bail!("n2 never passed the request on to n3: choose another --seed")
    }

    fn reply_plan(&self, directory: &Path, seed: u64) -> Plan<RandTree> {
        let setup = |bootstrap: NodeId, degree_max: u32| Setup {
            bootstrap: vec![bootstrap],
            degree_max,
            // As in the paper's tree, nobody says a word on an idle connection; and who has asked does not ask again, so that
            // what can happen has an end.
            keepalive: false,
            ask_again: false,
            bugs: Bugs {
                ignored_reply: !self.fixed,
                ..Bugs::default()
            },
            ..Setup::default()
        };
        Plan {
            nodes: vec![
                (ROOT, setup(ROOT, 1)),
                (FULL, setup(ROOT, 2)),
                (HOST, setup(ROOT, 2)),
                (FORGETFUL, setup(ROOT, 2)),
                (LEAVER, setup(FORGETFUL, 2)),
            ],
            steering: Steering::Off,
            link: Link::default(),
            tuning: Tuning {
                everyone: true,
                time_ms: 10_000,
                depth: 64,
                silent_resets: 0,
                properties: randtree::properties::FILE,
                ..tuning(PERIOD_MS)
            },
            seed,
            directory: directory.to_owned(),
        }
    }
}

/// Brings about the situation, and tells whether it did.
async fn set(stage: &mut Tree<'_>) -> anyhow::Result<bool> {
    stage.act(ROOT, Deed::Join, &Call::Join).await?;
    until(stage, "n1 founds a tree", |cluster| {
        state(cluster, ROOT, |it| it.is_root(ROOT))
    })
    .await?;
    for (node, parent) in [(FULL, ROOT), (FORGETFUL, FULL), (LEAVER, FULL)] {
        join(stage, node, parent).await?;
    }
    // It was in the tree only to let n5 in, which knows nobody else and so cannot come back before it.
    stage.act(FORGETFUL, Deed::Reset, &Call::Join).await?;
    until(stage, "n2 has lost n4", |cluster| {
        state(cluster, FULL, |it| !it.children.contains(&FORGETFUL))
    })
    .await?;
    join(stage, HOST, FULL).await?;
    stage.cluster.order(FULL, json!({ "cut": [HOST] })).await?;
    stage.act(FORGETFUL, Deed::Join, &Call::Join).await?;
    heard(stage, FULL, "Join {").await?;
    let picked_other = stage
        .watch_until(AT_ONCE, |cluster, _| {
            state(cluster, LEAVER, |it| it.children.contains(&FORGETFUL))
        })
        .await;
    if picked_other {
        return Ok(false);
    }
    stage.act(FORGETFUL, Deed::SilentReset, &Call::Join).await?;
    stage.act(LEAVER, Deed::Reset, &Call::Join).await?;
    until(stage, "n4 and n5 are out of the tree", |cluster| {
        state(cluster, FULL, |it| !it.children.contains(&LEAVER))
            && state(cluster, FORGETFUL, |it| it.mode == Mode::Init)
    })
    .await?;
    Ok(true)
}

async fn join(stage: &mut Tree<'_>, node: NodeId, parent: NodeId) -> anyhow::Result<()> {
    stage.act(node, Deed::Join, &Call::Join).await?;
    until(stage, "who joins has its place", |cluster| {
        state(cluster, node, |it| it.parent == Some(parent))
            && state(cluster, parent, |it| it.children.contains(&node))
    })
    .await
}

/// Tells whether everybody's children take it for their parent, and nobody else does.
fn agree(cluster: &Cluster<RandTree>) -> bool {
    let all = || cluster.referee.states();
    all().all(|(above, it)| {
        all().all(|(below, other)| it.children.contains(&below) == (other.parent == Some(above)))
    })
}

fn state(cluster: &Cluster<RandTree>, node: NodeId, fits: impl Fn(&RandTree) -> bool) -> bool {
    cluster.referee.state(node).is_some_and(fits)
}
