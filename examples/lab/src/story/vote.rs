//! CrystalBall's stories of Paxos with live nodes (§5.4.2, figure 13; F-13, F-14), in the staging of `lab paxos`.

use std::path::Path;

use anyhow::bail;
use paxos::Paxos;
use scry::NodeId;

use super::account::Account;
use super::{PERIOD_MS, Telling};
use crate::cluster::Cluster;
use crate::paxos::Bug;
use crate::paxos::story::Story;
use crate::stage::Stage;
use crate::view::View;

/// How often the first round is played: a machine that is busy at the wrong moment does not lose the one word that the
/// story loses.
const FIRST_ROUNDS: u32 = 5;
/// The node that leads the second round.
const LEADER: NodeId = NodeId::new(1);

impl Telling {
    /// Tells a story of Paxos.
    pub(super) async fn vote(
        &self,
        bug: Bug,
        directory: &Path,
        view: &mut View,
    ) -> anyhow::Result<Account> {
        for attempt in 1..=FIRST_ROUNDS {
            let directory = directory.join(format!("round{attempt}"));
            let story = Story {
                bug,
                fixed: self.fixed,
                steering: self.way.steering(),
                gap: 0.0,
                period_ms: PERIOD_MS,
                order: self.order,
                seed: self.seed,
                directory: directory.clone(),
                keep: true,
            };
            let mut plan = story.plan();
            self.tune(&mut plan);
            let mut stage = Stage::open(&plan, "paxos", view).await?;
            if !story.first_round(&mut stage).await? {
                stage.close().await;
                continue;
            }
            story.reconnect(&mut stage).await?;
            self.look_ahead(&mut stage, &directory, LEADER).await?;
            story.second_round(&mut stage).await?;
            let fixed = self.fixed;
            self.watch_end(&mut stage, &directory, |cluster: &Cluster<Paxos>| {
                let state = cluster.referee.state(LEADER);
                fixed && state.is_some_and(|state| !state.chosen.is_empty())
            })
            .await?;
            return Ok(self.close(stage, &directory).await);
        }
        bail!("the first round did not come out as the story has it, {FIRST_ROUNDS} times")
    }
}
