//! MaceMC's transport with live nodes (§5, figures 3 and 4; F-20).
//!
//! n1 has two messages for n2. The first packet of its connection takes so long that n1 closes it and opens another, whose
//! first packet is quick. The acknowledgement of that one is slow again. Before it is there, the old packet arrives, and with
//! the bug n2 goes back to the old connection. From the acknowledgement on n1 sends on the younger one, of which n2 does not know any
//! more. Steered, the one or the other is lost, as datagrams may be, and n1 opens a third connection or goes on with the second.
//!
//! The agents have to look ahead while both are on their way, so the story takes its time.

use std::path::Path;

use mace_transport::{Bugs, Call, MaceTransport, Setup};
use scry::NodeId;
use serde_json::{Value, json};

use super::account::Account;
use super::never::{heard, until};
use super::{PERIOD_MS, Telling};
use crate::cluster::{Cluster, Link, Plan, Steering, Tuning};
use crate::demo::tuning;
use crate::stage::Stage;
use crate::view::View;

const SENDER: NodeId = NodeId::new(1);
const RECEIVER: NodeId = NodeId::new(2);
/// How long a packet waits for its acknowledgement.
const RETRANSMIT_MS: u64 = 20_000;
/// How long the first packet is on its way: so long that the sender gives it up, and some.
const OLD_PACKET_MS: u64 = RETRANSMIT_MS + 8_000;
/// How long the acknowledgement of the second connection is on its way: beyond the arrival of the old packet.
const ACK_MS: u64 = 14_000;
/// The first packet of the second connection and its acknowledgement, as events name them.
const YOUNG: &str = "sequence: 6001";
const YOUNG_ACK: &str = "Ack(6001)";

impl Telling {
    /// Tells the story of the transport.
    pub(super) async fn transport(
        &self,
        directory: &Path,
        view: &mut View,
    ) -> anyhow::Result<Account> {
        let mut plan = self.transport_plan(directory);
        self.tune(&mut plan);
        let mut stage = Stage::open(&plan, "transport", view).await?;
        delay(&mut stage, RECEIVER, SENDER, ACK_MS).await?;
        delay(&mut stage, SENDER, RECEIVER, OLD_PACKET_MS).await?;
        let texts = ["m1", "m2"].map(str::to_owned).to_vec();
        let call = Call::Send {
            to: RECEIVER,
            texts,
        };
        stage.cluster.call(SENDER, &call).await?;
        delay(&mut stage, SENDER, RECEIVER, 0).await?;
        heard(&mut stage, RECEIVER, YOUNG).await?;
        self.foresee(&mut stage, directory, &[SENDER, RECEIVER])
            .await?;
        until(&mut stage, "the old packet is there", |cluster| {
            // Filtered, refused or handled, the node tells of it.
            let count = &cluster.referee.count;
            count.filtered + count.vetoed > 0
                || cluster.referee.state(RECEIVER).is_some_and(|it| {
                    it.incoming.iter().any(|from| from.first == 2001) || self.fixed
                })
        })
        .await?;
        heard(&mut stage, SENDER, YOUNG_ACK).await?;
        delay(&mut stage, RECEIVER, SENDER, 0).await?;
        let outcome = self
            .await_it(&mut stage, mace_transport::properties::ALL_ACKED, all_acked)
            .await?;
        Ok(self.close_with(stage, directory, outcome).await)
    }

    fn transport_plan(&self, directory: &Path) -> Plan<MaceTransport> {
        let setup = Setup {
            retransmit_ms: RETRANSMIT_MS,
            open_retries: 0,
            // With an end to them, what can happen has an end.
            retries: Some(1),
            reopens: 2,
            bugs: Bugs {
                stale_syn: !self.fixed,
            },
            ..Setup::default()
        };
        Plan {
            nodes: vec![(SENDER, setup.clone()), (RECEIVER, setup)],
            steering: Steering::Off,
            link: Link::default(),
            tuning: Tuning {
                everyone: true,
                time_ms: 5_000,
                depth: 64,
                silent_resets: 0,
                properties: mace_transport::properties::FILE,
                ..tuning(PERIOD_MS)
            },
            seed: self.seed,
            directory: directory.to_owned(),
        }
    }
}

/// Makes a link slow from now on, in one direction.
async fn delay(
    stage: &mut Stage<'_, MaceTransport>,
    from: NodeId,
    to: NodeId,
    delay_ms: u64,
) -> anyhow::Result<Value> {
    let order = json!({ "emulate": { "delay_ms": delay_ms, "peers": [to] } });
    stage.cluster.order(from, order).await
}

/// Tells whether all that was sent has been acknowledged.
fn all_acked(cluster: &Cluster<MaceTransport>) -> bool {
    let sender = cluster.referee.state(SENDER);
    sender.is_some_and(|it| {
        it.outgoing
            .iter()
            .all(|to| to.inflight.is_empty() && to.waiting.is_empty())
    })
}
