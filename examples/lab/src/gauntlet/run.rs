//! One run: a cluster, its load and its faults, and what is measured from outside.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use scry::NodeId;
use serde_json::json;
use tokio::time::Instant;

use super::contestant::Contestant;
use super::script::{Deed, script};
use crate::cluster::{Agents, Cluster, Happening, Launch, Link, Steering, epoch_ms};
use crate::event_log::EventLog;
use crate::node::Told;
use crate::statistics::{sorted, within};

/// How long answers may still come after the last request.
const DRAIN: Duration = Duration::from_millis(1500);

/// What a run is made of.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// Whether there are agents.
    pub(crate) steering: Steering,
    /// Whether the service has its bug.
    pub(crate) buggy: bool,
    /// Whether all nodes run before there is any load: a bug that shows while agents have yet to see the whole service
    /// says nothing about them.
    pub(crate) calm: bool,
    /// How long it goes on.
    pub(crate) time: Duration,
    /// The seed of everything that is left to chance.
    pub(crate) seed: u64,
    /// Where everything is written.
    pub(crate) directory: &'a Path,
}

/// What was measured in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    /// Events at all nodes: messages, timers, calls, lost connections.
    pub(crate) events: u64,
    /// Requests of the application.
    pub(crate) asked: u64,
    /// Those of them that were answered.
    pub(crate) answered: u64,
    /// How long answers took, in milliseconds, by size.
    pub(crate) latencies: Vec<f64>,
    /// Events that a filter kept from running as they would have.
    pub(crate) filters_acted: u64,
    /// Events that the immediate check refused.
    pub(crate) vetoes: u64,
    /// Events that were held back for a while.
    pub(crate) held: u64,
    /// Connections that steering reset.
    pub(crate) resets: u64,
    /// Calls that steering refused.
    pub(crate) refused: u64,
    /// Global states in which a property was broken, or how much was broken for good.
    pub(crate) violations: u64,
    /// How often each property came to be broken.
    pub(crate) broken: BTreeMap<String, u64>,
    /// Events that nodes could not tell of, or told in a way that could not be read: what happened then was not seen.
    pub(crate) unseen: u64,
}

impl Run<'_> {
    /// Makes the run.
    ///
    /// # Errors
    ///
    /// If the cluster does not come up, or a process of it ends before its time.
    pub(crate) async fn measure<S: Contestant>(&self) -> anyhow::Result<Measured> {
        let members: Vec<NodeId> = (1..=S::NODES).map(NodeId::new).collect();
        let settings = |&node: &NodeId| (node, S::settings(node, &members, self.buggy));
        let nodes: Vec<(NodeId, S::Setup)> = members.iter().map(settings).collect();
        let mut cluster = Cluster::<S>::launch(&Launch {
            nodes: &nodes,
            late: &[NodeId::new(S::LATE)],
            steering: self.steering,
            link: Link {
                delay_ms: 10,
                jitter_ms: 10,
                loss: S::LOSS,
                rate_kbps: 0,
            },
            agents: Agents::Default {
                everyone: S::EVERYONE,
                properties: S::PROPERTIES,
            },
            seed: self.seed,
            directory: self.directory,
        })
        .await?;
        let mut meter = Meter::<S>::new(self.directory);
        let started = Instant::now();
        for (at, deed) in script::<S>(self.time, self.seed, self.calm) {
            meter.watch(&mut cluster, started + at).await;
            cluster.check()?;
            meter.perform(&mut cluster, deed).await?;
        }
        let end = started + self.time.max(started.elapsed()) + DRAIN;
        meter.watch(&mut cluster, end).await;
        cluster.check()?;
        let measured = meter.finish(&mut cluster);
        cluster.end().await;
        Ok(measured)
    }
}

/// Measures while a run goes on.
#[derive(Debug)]
struct Meter<S: Contestant> {
    measured: Measured,
    /// What nodes were asked and have not handled, oldest first, with the time.
    issued: BTreeMap<NodeId, VecDeque<(S::Call, u64)>>,
    /// What they have handled and not answered.
    open: BTreeMap<NodeId, Vec<(S::Ticket, u64)>>,
    events: EventLog,
}

impl<S: Contestant> Meter<S> {
    fn new(directory: &Path) -> Self {
        Self {
            measured: Measured::default(),
            issued: BTreeMap::new(),
            open: BTreeMap::new(),
            events: EventLog::create(directory),
        }
    }

    async fn perform(
        &mut self,
        cluster: &mut Cluster<S>,
        deed: Deed<S::Call>,
    ) -> anyhow::Result<()> {
        match deed {
            Deed::Call(node, call) => {
                self.measured.asked += 1;
                let order = json!({ "call": call });
                let issued = self.issued.entry(node).or_default();
                issued.push_back((call, epoch_ms()));
                cluster.tell(node, &order).await
            }
            Deed::Reset { node, notice } => {
                let order = json!({ "reset": { "notice": notice } });
                cluster.tell(node, &order).await
            }
            Deed::Cut(node) => {
                let others: Vec<NodeId> = (1..=S::NODES).map(NodeId::new).collect();
                let others: Vec<&NodeId> = others.iter().filter(|&&it| it != node).collect();
                cluster.tell(node, &json!({ "cut": others })).await
            }
            Deed::Heal(node) => cluster.tell(node, &json!({ "heal": true })).await,
            Deed::Start(node) => cluster.start_late(node).await,
        }
    }

    async fn watch(&mut self, cluster: &mut Cluster<S>, until: Instant) {
        while let Some(happening) = cluster.next(until).await {
            if let Happening::Event(judged) = happening {
                self.events.note(&judged);
                self.take(&judged.told, cluster.referee.state(judged.told.node));
            }
        }
    }

    /// Takes note of an event, after which the node was in this state.
    fn take(&mut self, told: &Told, state: Option<&S>) {
        let measured = &mut self.measured;
        let verdict = told.verdict.as_str();
        measured.vetoes += u64::from(verdict == "veto");
        measured.held += u64::from(verdict == "hold");
        measured.filters_acted += u64::from(verdict != "run" && !told.filter.is_null());
        // The node says why a connection is gone, and the network has never these reasons.
        let reasons = ["a filter reset it", "a message on it was stopped"];
        let by_steering = reasons.iter().any(|reason| told.event.ends_with(reason));
        measured.resets += u64::from(told.kind == "disconnect" && by_steering);
        match told.kind.as_str() {
            "reset" if S::FORGETS => drop(self.open.remove(&told.node)),
            "call" if verdict != "hold" => {
                let issued = self.issued.entry(told.node).or_default().pop_front();
                match (issued, state) {
                    (Some((call, at)), Some(state)) if verdict == "run" => {
                        let ticket = state.ticket(told.node, &call);
                        self.open.entry(told.node).or_default().push((ticket, at));
                    }
                    _ => measured.refused += 1,
                }
            }
            _ => {}
        }
        if let (Some(state), Some(open)) = (state, self.open.get_mut(&told.node)) {
            open.retain(|(ticket, at)| {
                let answered = state.has_answered(told.node, ticket);
                if answered {
                    let took = told.at_ms.saturating_sub(*at);
                    self.measured.latencies.push(took as f64);
                }
                !answered
            });
        }
    }

    fn finish(self, cluster: &mut Cluster<S>) -> Measured {
        cluster.referee.close(epoch_ms());
        let count = &cluster.referee.count;
        let mut measured = self.measured;
        measured.latencies = sorted(&measured.latencies);
        measured.answered = measured.latencies.len() as u64;
        measured.events = count.actions;
        let states = cluster.referee.states().collect();
        measured.violations = S::broken_for_good(&states).unwrap_or(count.inconsistent_states);
        measured.broken = count.broken.clone();
        measured.unseen = count.untold + count.unreadable;
        measured
    }
}

impl Measured {
    /// Returns the time in which so many per cent of the answers came.
    pub(crate) fn percentile(&self, per_cent: f64) -> f64 {
        within(&self.latencies, per_cent)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events, {} of {} answered, p50 {:.1} ms, p99 {:.0} ms, {} violated states",
            self.events,
            self.answered,
            self.asked,
            self.percentile(50.0),
            self.percentile(99.0),
            self.violations
        )?;
        let changed = self.filters_acted + self.vetoes + self.held + self.resets;
        if changed > 0 {
            write!(
                f,
                "; {} filtered, {} vetoed, {} held, {} connections reset, {} calls refused",
                self.filters_acted, self.vetoes, self.held, self.resets, self.refused
            )?;
        }
        if self.unseen > 0 {
            write!(f, "; {} events UNSEEN", self.unseen)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use correct::{Gossip, gossip};
    use serde_json::Value;

    use super::*;

    fn told(at_ms: u64, kind: &str, verdict: &str) -> Told {
        let line =
            json!({ "node": 1, "at_ms": at_ms, "kind": kind, "event": "", "verdict": verdict });
        serde_json::from_value(line).unwrap()
    }

    fn state(count: u32, answered: u32) -> Gossip {
        Gossip {
            counts: BTreeMap::from([(NodeId::new(1), count)]),
            known: BTreeMap::new(),
            answered,
        }
    }

    #[test]
    fn a_request_is_answered_when_the_state_says_so() {
        let me = NodeId::new(1);
        let mut meter = Meter::<Gossip>::new(&std::env::temp_dir().join("no such folder"));
        for at in [100, 120] {
            let issued = meter.issued.entry(me).or_default();
            issued.push_back((gossip::Call::Add, at));
        }
        meter.take(&told(101, "call", "run"), Some(&state(1, 0)));
        meter.take(&told(121, "call", "run"), Some(&state(2, 0)));
        meter.take(&told(150, "message", "run"), Some(&state(2, 1)));
        meter.take(&told(190, "message", "run"), Some(&state(2, 2)));
        assert_eq!(meter.measured.latencies, [50.0, 70.0]);
    }

    #[test]
    fn what_steering_does_is_counted_and_a_refused_call_waits_for_nothing() {
        let me = NodeId::new(1);
        let mut meter = Meter::<Gossip>::new(&std::env::temp_dir().join("no such folder"));
        meter
            .issued
            .entry(me)
            .or_default()
            .push_back((gossip::Call::Add, 1));
        let mut refused = told(2, "call", "refuse");
        refused.filter = Value::from("f1");
        meter.take(&refused, Some(&state(0, 0)));
        meter.take(&told(3, "message", "veto"), Some(&state(0, 0)));
        let mut gone = told(4, "disconnect", "run");
        gone.event = "connection to n2 is gone: a message on it was stopped".to_owned();
        meter.take(&gone, Some(&state(0, 0)));
        let measured = &meter.measured;
        assert_eq!((measured.filters_acted, measured.vetoes), (1, 1));
        assert_eq!((measured.resets, measured.refused), (1, 1));
        assert!(meter.open.values().all(Vec::is_empty));
    }
}
