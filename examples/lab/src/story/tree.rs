//! CrystalBall's first example with live nodes (§1.2, figures 2 and 3; F-4).
//!
//! n9 founds a tree, n13 joins below it, n1 joins and takes over the root. Then n13 is reset, of which n9 hears nothing,
//! and joins again at n1, which tells n9 of its new sibling. n9 still has that sibling as its child.
//!
//! n13 has two designated nodes, n1 and n9, and asks one of them at random, as in the checker's scenario `r1`. The story
//! needs it to ask n9 first and n1 after its reset. Its dice are a function of its seed and of how many events it has
//! had, so the default seed is one with which it does; no timer fires in the meantime that would change the count. Any
//! other seed that does not lead there is told so. Before the reset the way between n13 and n9 is cut, which loses the
//! word of it, as in the story.
//!
//! Agents know of all three nodes. A tree's root would not ask its grandchildren for their states by itself, but the
//! paper's n1 looks at all three.

use std::path::Path;

use anyhow::bail;
use randtree::{Bugs, Call, RandTree, Setup};
use scry::NodeId;
use serde_json::json;

use super::account::Account;
use super::{PATIENCE, PERIOD_MS, Telling};
use crate::churn::Deed;
use crate::cluster::{Cluster, Link, Plan, Steering, Tuning};
use crate::demo::tuning;
use crate::stage::Stage;
use crate::view::View;

const ROOT: NodeId = NodeId::new(1);
const FOUNDER: NodeId = NodeId::new(9);
const FORGETFUL: NodeId = NodeId::new(13);
/// Longer than any telling.
const NEVER_MS: u64 = 3_600_000;

impl Telling {
    /// Tells the story of the tree.
    pub(super) async fn tree(&self, directory: &Path, view: &mut View) -> anyhow::Result<Account> {
        let mut plan = self.tree_plan(directory);
        self.tune(&mut plan);
        let mut stage = Stage::open(&plan, "r1", view).await?;
        join(&mut stage, FOUNDER, |cluster| {
            state(cluster, FOUNDER, |it| it.is_root(FOUNDER))
        })
        .await?;
        join(&mut stage, FORGETFUL, |cluster| {
            state(cluster, FORGETFUL, |it| it.parent == Some(FOUNDER))
                && state(cluster, FOUNDER, |it| it.children.contains(&FORGETFUL))
        })
        .await?;
        join(&mut stage, ROOT, is_set).await?;
        self.look_ahead(&mut stage, directory, ROOT).await?;
        stage
            .cluster
            .order(FORGETFUL, json!({ "cut": [FOUNDER] }))
            .await?;
        stage.act(FORGETFUL, Deed::SilentReset, &Call::Join).await?;
        stage.act(FORGETFUL, Deed::Join, &Call::Join).await?;
        let fixed = self.fixed;
        self.watch_end(&mut stage, directory, |cluster| {
            // Without the bug n9 strikes its former child off when it hears of it.
            fixed
                && state(cluster, FOUNDER, |it| it.siblings.contains(&FORGETFUL))
                && state(cluster, FORGETFUL, |it| it.parent == Some(ROOT))
        })
        .await?;
        stage
            .cluster
            .order(FORGETFUL, json!({ "heal": true }))
            .await?;
        Ok(self.close(stage, directory).await)
    }

    fn tree_plan(&self, directory: &Path) -> Plan<RandTree> {
        let setup = |bootstrap: &[NodeId]| Setup {
            bootstrap: bootstrap.to_vec(),
            // As in the paper's tree, nobody says a word on an idle connection.
            keepalive: false,
            recovery_period_ms: NEVER_MS,
            bugs: Bugs {
                update_sibling: !self.fixed,
                ..Bugs::default()
            },
            ..Setup::default()
        };
        Plan {
            nodes: vec![
                (ROOT, setup(&[FOUNDER])),
                (FOUNDER, setup(&[FOUNDER])),
                (FORGETFUL, setup(&[ROOT, FOUNDER])),
            ],
            steering: Steering::Off,
            link: Link::default(),
            tuning: Tuning {
                everyone: true,
                ..tuning(PERIOD_MS)
            },
            seed: self.seed,
            directory: directory.to_owned(),
        }
    }
}

/// Lets a node join, and waits until the tree is as it should be then.
async fn join(
    stage: &mut Stage<'_, RandTree>,
    node: NodeId,
    fits: impl Fn(&Cluster<RandTree>) -> bool,
) -> anyhow::Result<()> {
    stage.act(node, Deed::Join, &Call::Join).await?;
    if !stage
        .watch_until(PATIENCE, |cluster, _| fits(cluster))
        .await
    {
        stage.cluster.check()?;
        bail!("{node} did not find its place (n13 asks n9 first with certain seeds only)");
    }
    Ok(())
}

/// Tells whether the tree is the one the story starts from: n1 above n9 above n13.
fn is_set(cluster: &Cluster<RandTree>) -> bool {
    let only = |node| std::collections::BTreeSet::from([node]);
    state(cluster, ROOT, |it| {
        it.is_root(ROOT) && it.children == only(FOUNDER)
    }) && state(cluster, FOUNDER, |it| {
        it.parent == Some(ROOT) && it.children == only(FORGETFUL)
    }) && state(cluster, FORGETFUL, |it| {
        it.parent == Some(FOUNDER) && it.root == Some(ROOT)
    })
}

fn state(cluster: &Cluster<RandTree>, node: NodeId, fits: impl Fn(&RandTree) -> bool) -> bool {
    cluster.referee.state(node).is_some_and(fits)
}
