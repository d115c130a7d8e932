//! One run of the story, with three real nodes A, B and C.
//!
//! Round 1: C is cut off, A proposes 0, A and B accept it, A's word of that to B is lost, so only A knows that 0 is chosen.
//! Between the rounds all are connected; with the second bug B is reset. Round 2: A is cut off, and B proposes 1.
//!
//! A node that is cut off has its agent stopped as long: it would not reach the others either. B hears nothing from A
//! from the moment it has accepted, which loses A's word; since nobody has anything to say between the rounds, that it
//! stays so until the end changes nothing else.

use std::path::PathBuf;
use std::time::Duration;

use paxos::{Bugs, Call, Part, Paxos, Setup};
use scry::NodeId;
use serde::Serialize;
use serde_json::json;

use super::Bug;
use super::outcome::Prevention;
use crate::cluster::{Link, Order, Plan, Steering, Tuning, epoch_ms};
use crate::node::Told;
use crate::observer::MarkKind;
use crate::stage::Stage;
use crate::view::View;

const A: NodeId = NodeId::new(0);
const B: NodeId = NodeId::new(1);
const C: NodeId = NodeId::new(2);

/// How long the first round may take.
const ROUND_PATIENCE: Duration = Duration::from_secs(10);
/// How long B may take to choose in the second: its round is over in milliseconds or never.
const CHOICE_PATIENCE: Duration = Duration::from_millis(1500);
/// So slow is the way from A to B in the first round, that there is time between A's Accept and its Learn.
const SLOW_KBPS: u64 = 3;

/// What a run is made of.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) bug: Bug,
    pub(crate) fixed: bool,
    pub(crate) steering: Steering,
    pub(crate) gap: f64,
    pub(crate) period_ms: u64,
    pub(crate) order: Order,
    pub(crate) seed: u64,
    pub(crate) directory: PathBuf,
    pub(crate) keep: bool,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// What prevented the violation, if something did.
    pub(super) prevention: Prevention,
    /// How long the wait between the rounds was, in seconds.
    pub(super) gap: f64,
    /// How long after C came back the violation was predicted first, in milliseconds.
    pub(super) prediction_ms: Option<u64>,
    /// How long after that a filter was in place, in milliseconds.
    pub(super) filter_ms: Option<u64>,
    /// What filters and checks did, in words.
    pub(super) acts: Vec<String>,
    /// How many events filters changed.
    pub(super) filtered: u64,
    /// How many events the immediate check stopped.
    pub(super) vetoed: u64,
    /// Where its logs are, if they were kept.
    pub(super) directory: Option<PathBuf>,
}

impl Story {
    /// Tells the story.
    pub(super) async fn tell(self) -> anyhow::Result<Run> {
        let plan = self.plan();
        let mut view = View::new(true);
        let mut stage = Stage::open(&plan, "paxos", &mut view).await?;
        let mut is_ready = self.first_round(&mut stage).await?;
        let back_ms = self.between(&mut stage).await?;
        is_ready &= !knows(&stage, B) && !knows(&stage, C);
        self.second_round(&mut stage).await?;
        let result = stage.close().await;
        let since = |kind| {
            let marks = result.marks.iter().filter(|mark| mark.kind == kind);
            let first = marks.map(|mark| mark.at_ms).min()?;
            Some(first.saturating_sub(back_ms))
        };
        let acts: Vec<String> = result
            .marks
            .iter()
            .filter(|mark| matches!(mark.kind, MarkKind::Change | MarkKind::Veto))
            .map(|mark| {
                format!(
                    "{}: {}",
                    mark.node.map(|it| it.to_string()).unwrap_or_default(),
                    mark.text
                )
            })
            .collect();
        let prevention = if !is_ready {
            Prevention::Invalid
        } else if !result.count.broken.is_empty() {
            Prevention::Missed
        } else if result.count.vetoed > 0 {
            // Whatever a filter did before, it was the check that stopped the last step.
            Prevention::Immediate
        } else if result.count.filtered > 0 {
            Prevention::Steering
        } else {
            Prevention::Undisturbed
        };
        let keeps = self.keep || matches!(prevention, Prevention::Missed | Prevention::Invalid);
        let keeps = keeps && self.steering != Steering::Off;
        if !keeps {
            // A folder that cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(&self.directory);
        }
        Ok(Run {
            prevention,
            gap: self.gap,
            prediction_ms: since(MarkKind::Prediction),
            filter_ms: since(MarkKind::Filter),
            acts,
            filtered: result.count.filtered,
            vetoed: result.count.vetoed,
            directory: keeps.then_some(self.directory),
        })
    }

    /// Plays the first round, and tells whether it came out as it should: only A knows that 0 is chosen.
    pub(crate) async fn first_round(&self, stage: &mut Stage<'_, Paxos>) -> anyhow::Result<bool> {
        let cluster = &mut stage.cluster;
        cluster.pause_agent(C, true);
        cluster.order(C, json!({ "cut": [A, B] })).await?;
        cluster.order(A, json!({ "cut": [C] })).await?;
        let slow = json!({ "emulate": { "rate_kbps": SLOW_KBPS, "peers": [B] } });
        cluster.order(A, slow).await?;
        cluster.call(A, &propose(A)).await?;
        let accepted = |told: &Told| {
            told.node == B && told.kind == "message" && told.event.contains("Accept ")
        };
        if !cluster.hear_until(ROUND_PATIENCE, accepted).await {
            return Ok(false);
        }
        cluster.order(B, json!({ "cut": [A] })).await?;
        stage
            .watch_until(ROUND_PATIENCE, |cluster, _| {
                let state = cluster.referee.state(A);
                state.is_some_and(|state| !state.chosen.is_empty())
            })
            .await;
        Ok(knows(stage, A) && !knows(stage, B) && !knows(stage, C))
    }

    /// Lets C come back, waits, and returns when C came back, in milliseconds since the start.
    async fn between(&self, stage: &mut Stage<'_, Paxos>) -> anyhow::Result<u64> {
        self.reconnect(stage).await?;
        let back_ms = epoch_ms().saturating_sub(stage.observer.started_ms);
        let until = stage.elapsed() + Duration::from_secs_f64(self.gap);
        stage.watch_to(until).await;
        Ok(back_ms)
    }

    /// Lets C come back, and with the second bug resets B.
    pub(crate) async fn reconnect(&self, stage: &mut Stage<'_, Paxos>) -> anyhow::Result<()> {
        let cluster = &mut stage.cluster;
        cluster.order(A, json!({ "heal": true })).await?;
        cluster.order(A, json!({ "emulate": {} })).await?;
        cluster.order(C, json!({ "heal": true })).await?;
        cluster.pause_agent(C, false);
        if self.bug == Bug::VolatilePromise {
            cluster
                .order(B, json!({ "reset": { "notice": true } }))
                .await?;
        }
        Ok(())
    }

    /// Cuts A off, lets B propose, and watches whether B comes to choose.
    ///
    /// With the immediate check alone A's agent goes on: the check forgets who is missing from the newest snapshot, and
    /// with the second bug B tries again after a while and would be let through. Those are the paper's missed runs.
    pub(crate) async fn second_round(&self, stage: &mut Stage<'_, Paxos>) -> anyhow::Result<()> {
        let cluster = &mut stage.cluster;
        cluster.pause_agent(A, self.steering != Steering::Immediate);
        cluster.order(A, json!({ "cut": [B, C] })).await?;
        cluster.order(C, json!({ "cut": [A] })).await?;
        cluster.call(B, &propose(B)).await?;
        stage
            .watch_until(CHOICE_PATIENCE, |cluster, _| {
                cluster
                    .referee
                    .state(B)
                    .is_some_and(|state| !state.chosen.is_empty())
            })
            .await;
        stage.cluster.pause_agent(A, false);
        stage.cluster.check()
    }

    /// Returns the cluster it is told with.
    pub(crate) fn plan(&self) -> Plan<Paxos> {
        let is_on = |bug| !self.fixed && self.bug == bug;
        let bugs = Bugs {
            last_promise: is_on(Bug::LastPromise),
            volatile_promise: is_on(Bug::VolatilePromise),
        };
        let setup = |node: NodeId| Setup {
            part: Part::Replica,
            acceptors: vec![A, B, C],
            value: node.get(),
            // A leads the first round, B the second; C leads none, as in the paper.
            rounds: match node {
                A => 1,
                B => 2,
                _ => 0,
            },
            indices: 1,
            bugs,
        };
        Plan {
            nodes: [A, B, C].map(|node| (node, setup(node))).to_vec(),
            steering: self.steering,
            // The paper has no artificial delays here.
            link: Link::default(),
            tuning: Tuning {
                period_ms: self.period_ms,
                // A search must not keep the next snapshot waiting for long: the rounds may follow each other closely.
                time_ms: 100,
                states: 1_000_000,
                depth: 16,
                ttl_ms: 10_000,
                isolate: "speculator",
                order: self.order,
                patience_ms: (50, 20),
                everyone: true,
                resets: 0,
                silent_resets: 0,
                losses: 0,
                properties: "",
                liveness: "audit",
            },
            seed: self.seed,
            directory: self.directory.clone(),
        }
    }
}

impl Run {
    /// Says more about a run, for its line.
    pub(super) fn detail(&self) -> String {
        let mut text = String::new();
        if let Some(ms) = self.prediction_ms {
            text += &format!(", predicted after {ms} ms");
        }
        if let Some(act) = self.acts.first() {
            text += &format!(" ({act})");
        }
        if let Some(directory) = &self.directory {
            text += &format!(" [{}]", directory.display());
        }
        text
    }
}

/// Tells whether a node takes a value for chosen.
fn knows(stage: &Stage<'_, Paxos>, node: NodeId) -> bool {
    let state = stage.cluster.referee.state(node);
    state.is_some_and(|state| !state.chosen.is_empty())
}

fn propose(node: NodeId) -> Call {
    Call::Propose {
        index: 0,
        value: node.get(),
    }
}
