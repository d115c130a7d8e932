//! Services that choose a value for one index after the other, driven as LMC drives them (§4.2, §5.5, §5.6; E-39, F-17, F-18).
//!
//! Three nodes. Each proposes its own id, sleeps for a random time, and proposes again: for a recent index for which a value is chosen
//! that not all have heard of, or else for a new one. Datagrams between nodes are lost. With 1Paxos a fault detector fires in between,
//! right or wrong. A choice is wrong if two nodes have different values for one index.
//!
//! The paper's nodes sleep up to 60 s and its checker starts once a minute; ours do both far more often, since a search takes
//! milliseconds here. `--sleep` and `--period-ms` are for whoever has the time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use one_paxos::OnePaxos;
use paxos::{Index, Part, Paxos, Value};
use scry::NodeId;
use serde::Serialize;

use crate::Output;
use crate::cluster::{Link, Order, Plan, Steering, Tuning};
use crate::draw::Draw;
use crate::html;
use crate::observer::MarkKind;
use crate::referee::ORDER_WITHIN_MS;
use crate::stage::Stage;
use crate::staged::Staged;
use crate::statistics::Summary;
use crate::view::View;

/// How far back an index still is recent.
const RECENT: Index = 5;
/// How often a fault detector fires instead of a proposal (LMC §5.6).
const SUSPICION: f64 = 0.1;

/// What the experiment with 1Paxos can be asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Experiment {
    /// Run it without the bug: nothing may be prevented then.
    #[arg(long)]
    fixed: bool,
    /// How often, with agents and without.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    #[command(flatten)]
    pace: Pace,
    /// How often each agent gathers a snapshot, in milliseconds.
    #[arg(long, default_value_t = 250)]
    period_ms: u64,
    /// The seed of everything that is left to chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// How long a run takes and what the network does.
#[derive(Clone, Copy, Debug, clap::Args, Serialize)]
pub(crate) struct Pace {
    /// How long a run with indices takes, in seconds.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// How long a node sleeps between proposals at most, in seconds (the paper's: 60).
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    sleep: f64,
    /// The share of datagrams between nodes that is lost in a run with indices.
    #[arg(long, default_value_t = 0.3, value_name = "SHARE")]
    loss: f64,
}

/// A service that chooses a value for each index.
pub(crate) trait Chooser: Staged {
    /// How long LMC took to the first prediction, in seconds.
    const PAPER_SECONDS: u32;

    /// Returns the settings of a member.
    fn member(me: NodeId, members: &[NodeId], fixed: bool) -> Self::Setup;

    /// Returns what a node takes for chosen.
    fn chosen(&self) -> &BTreeMap<Index, Value>;

    /// Returns what the application does next: to propose a value for an index, if it is not time for something else.
    fn act(&self, draw: &mut Draw, index: Index, value: Value) -> Self::Call;
}

impl Chooser for Paxos {
    const PAPER_SECONDS: u32 = 1150;

    fn member(me: NodeId, members: &[NodeId], fixed: bool) -> paxos::Setup {
        paxos::Setup {
            part: Part::Replica,
            acceptors: members.to_vec(),
            value: me.get(),
            rounds: u32::MAX,
            indices: Index::MAX,
            bugs: paxos::Bugs {
                last_promise: !fixed,
                ..paxos::Bugs::default()
            },
        }
    }

    fn chosen(&self) -> &BTreeMap<Index, Value> {
        &self.chosen
    }

    fn act(&self, _: &mut Draw, index: Index, value: Value) -> paxos::Call {
        paxos::Call::Propose { index, value }
    }
}

impl Chooser for OnePaxos {
    const PAPER_SECONDS: u32 = 225;

    fn member(me: NodeId, members: &[NodeId], fixed: bool) -> one_paxos::Setup {
        one_paxos::scenarios::member(me, members, one_paxos::Bugs { increment: !fixed })
    }

    fn chosen(&self) -> &BTreeMap<Index, Value> {
        &self.chosen
    }

    /// The leader's detector suspects the acceptor, that of others the leader.
    fn act(&self, draw: &mut Draw, index: Index, value: Value) -> one_paxos::Call {
        match (draw.unit() < SUSPICION, &self.lead) {
            (false, _) => one_paxos::Call::Propose { index, value },
            (true, Some(_)) => one_paxos::Call::SuspectAcceptor,
            (true, None) => one_paxos::Call::SuspectLeader,
        }
    }
}

/// All that a run needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// Whether the service is without its bug.
    pub(crate) fixed: bool,
    /// How often, with agents and without.
    pub(crate) runs: u32,
    /// How long, and in which network.
    pub(crate) pace: Pace,
    /// How often each agent gathers a snapshot, in milliseconds.
    pub(crate) period_ms: u64,
    /// Where chance begins.
    pub(crate) seed: u64,
    /// What is printed, and where files go.
    pub(crate) output: Output,
}

/// What came of one run.
#[derive(Clone, Debug, Serialize)]
struct Run {
    steering: Steering,
    seed: u64,
    /// Indices with a value that all, or some, take for chosen.
    chosen: usize,
    /// Those of them with two.
    wrong: usize,
    /// When the first prediction was made, in milliseconds since the start.
    prediction_ms: Option<u64>,
    /// When a second value was chosen first.
    wrong_ms: Option<u64>,
    /// How many events filters changed, and how many the immediate check refused.
    filtered: u64,
    vetoed: u64,
    searches: u64,
    directory: PathBuf,
}

/// What all runs say.
#[derive(Clone, Debug, Serialize)]
struct Outcome {
    service: &'static str,
    fixed: bool,
    #[serde(flatten)]
    pace: Pace,
    period_ms: u64,
    /// Seconds to the first prediction, of the steered runs in which there was one.
    prediction_seconds: Summary,
    paper_prediction_seconds: u32,
    unsteered: Vec<Run>,
    steered: Vec<Run>,
}

impl Experiment {
    /// Makes the runs and says what they say together.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let drive = Drive {
            fixed: self.fixed,
            runs: self.runs,
            pace: self.pace,
            period_ms: self.period_ms,
            seed: self.seed,
            output: self.output,
        };
        drive.run::<OnePaxos>().await
    }
}

impl Drive {
    /// Makes the runs, one after the other, and says what they say together.
    pub(crate) async fn run<S: Chooser>(self) -> anyhow::Result<()> {
        let mut view = View::new(self.output.json);
        let mut outcome = Outcome {
            service: S::NAME,
            fixed: self.fixed,
            pace: self.pace,
            period_ms: self.period_ms,
            prediction_seconds: Summary::of(&[]),
            paper_prediction_seconds: S::PAPER_SECONDS,
            unsteered: Vec::new(),
            steered: Vec::new(),
        };
        for number in 0..self.runs {
            for steering in [Steering::Off, Steering::Full] {
                let run = self.once::<S>(steering, number).await?;
                view.say(&run.line());
                match steering {
                    Steering::Off => outcome.unsteered.push(run),
                    _ => outcome.steered.push(run),
                }
            }
        }
        let predicted = outcome.steered.iter().filter_map(|run| run.prediction_ms);
        let seconds: Vec<f64> = predicted.map(|ms| ms as f64 / 1e3).collect();
        outcome.prediction_seconds = Summary::of(&seconds);
        let text = outcome.text();
        let page = html::document(
            &outcome.title(),
            &format!("<pre>{}</pre>", html::escaped(&text)),
        );
        self.output.write(&outcome, &text, &page)
    }

    async fn once<S: Chooser>(&self, steering: Steering, number: u32) -> anyhow::Result<Run> {
        let seed = self.seed.wrapping_add(u64::from(number));
        let plan = self.plan::<S>(steering, seed, number);
        let mut view = View::new(true);
        let mut stage = Stage::open(&plan, S::NAME, &mut view).await?;
        let mut draw = Draw::new(seed);
        let mut due: BTreeMap<NodeId, Duration> = BTreeMap::new();
        for (node, _) in &plan.nodes {
            due.insert(*node, self.sleep(&mut draw));
        }
        let end = Duration::from_secs_f64(self.pace.seconds);
        while let Some((&node, &at)) = due.iter().min_by_key(|(_, at)| **at)
            && at < end
        {
            stage.watch_to(at).await;
            stage.cluster.check()?;
            let index = next_index(stage.cluster.referee.states(), &mut draw);
            // A node of which nothing was heard yet has nothing else to do either.
            if let Some(state) = stage.cluster.referee.state(node) {
                let call = state.act(&mut draw, index, node.get());
                stage.cluster.call(node, &call).await?;
            }
            due.insert(node, at.max(stage.elapsed()) + self.sleep(&mut draw));
        }
        stage.watch_to(end).await;
        stage
            .watch_to(end + Duration::from_millis(2 * ORDER_WITHIN_MS))
            .await;
        let values = values(stage.cluster.referee.states());
        let wrong = values.values().filter(|values| values.len() > 1).count();
        let prediction_ms = stage.observer.first_prediction_ms;
        let result = stage.close().await;
        let broken = |mark: &&crate::observer::Mark| mark.kind == MarkKind::Inconsistency;
        Ok(Run {
            steering,
            seed,
            chosen: values.len(),
            wrong,
            prediction_ms,
            wrong_ms: result.marks.iter().find(broken).map(|mark| mark.at_ms),
            filtered: result.count.filtered,
            vetoed: result.count.vetoed,
            searches: result.searches,
            directory: result.directory,
        })
    }

    fn sleep(&self, draw: &mut Draw) -> Duration {
        Duration::from_secs_f64(draw.between(0.0, self.pace.sleep))
    }

    fn plan<S: Chooser>(&self, steering: Steering, seed: u64, number: u32) -> Plan<S> {
        let members = [1, 2, 3].map(NodeId::new);
        let way = match steering {
            Steering::Off => 'u',
            Steering::Immediate | Steering::Audit | Steering::Full => 's',
        };
        Plan {
            nodes: members
                .map(|me| (me, S::member(me, &members, self.fixed)))
                .to_vec(),
            steering,
            link: Link {
                loss: self.pace.loss,
                ..Link::default()
            },
            tuning: Tuning {
                period_ms: self.period_ms,
                time_ms: 500,
                states: 1_000_000,
                depth: 20,
                ttl_ms: 10_000,
                isolate: "speculator",
                order: Order::default(),
                patience_ms: (50, 500),
                everyone: true,
                resets: 0,
                silent_resets: 0,
                losses: 0,
            },
            seed,
            directory: self.output.directory().join(format!("{way}{number}")),
        }
    }
}

/// Returns the values nodes take for chosen, by index.
fn values<'a, S: Chooser>(
    states: impl Iterator<Item = (NodeId, &'a S)>,
) -> BTreeMap<Index, BTreeSet<Value>> {
    let mut values: BTreeMap<Index, BTreeSet<Value>> = BTreeMap::new();
    for (_, state) in states {
        for (&index, &value) in state.chosen() {
            values.entry(index).or_default().insert(value);
        }
    }
    values
}

/// Draws a recent index that is chosen and that not all have learned; a new one if there is none (LMC §4.2).
fn next_index<'a, S: Chooser>(
    states: impl Iterator<Item = (NodeId, &'a S)>,
    draw: &mut Draw,
) -> Index {
    let states: Vec<&S> = states.map(|(_, state)| state).collect();
    let last = states.iter().filter_map(|it| it.chosen().keys().last());
    let Some(&last) = last.max() else { return 0 };
    let known = |index: &Index| {
        let knows = states.iter().filter(|it| it.chosen().contains_key(index));
        knows.count()
    };
    let open: Vec<Index> = (last.saturating_sub(RECENT)..=last)
        .filter(|index| (1..states.len()).contains(&known(index)))
        .collect();
    match open.is_empty() {
        true => last + 1,
        false => open[draw.below(open.len())],
    }
}

impl Run {
    fn line(&self) -> String {
        let way = match self.steering {
            Steering::Off => "unsteered",
            Steering::Immediate | Steering::Audit | Steering::Full => "steered  ",
        };
        let seconds = |ms: Option<u64>| {
            ms.map_or("never".to_owned(), |ms| format!("{:.1} s", ms as f64 / 1e3))
        };
        let mut line = format!(
            "{way}  seed {}  {} indices chosen, {} with two values",
            self.seed, self.chosen, self.wrong
        );
        if self.wrong > 0 {
            let _ = write!(line, " (the first after {})", seconds(self.wrong_ms));
        }
        if self.steering != Steering::Off {
            let _ = write!(
                line,
                "; first prediction: {}, {} searches; {} filtered, {} vetoes",
                seconds(self.prediction_ms),
                self.searches,
                self.filtered,
                self.vetoed
            );
        }
        line
    }
}

impl Outcome {
    fn title(&self) -> String {
        let fixed = if self.fixed { ", repaired" } else { "" };
        format!("{}{fixed}: {} runs", self.service, self.steered.len())
    }

    fn text(&self) -> String {
        let wrong = |runs: &[Run]| runs.iter().map(|run| run.wrong).sum::<usize>();
        let chosen = |runs: &[Run]| runs.iter().map(|run| run.chosen).sum::<usize>();
        let Summary {
            count,
            median,
            greatest,
            ..
        } = self.prediction_seconds;
        format!(
            "\n{}\n\n\
             wrong choices without agents {} of {}, with {} of {}\n\
             first prediction: median {median:.1} s, at most {greatest:.1} s, in {count} runs (paper: {} s)\n\
             nodes slept up to {} s (paper: 60 s); {:.0} % of the datagrams were lost",
            self.title(),
            wrong(&self.unsteered),
            chosen(&self.unsteered),
            wrong(&self.steered),
            chosen(&self.steered),
            self.paper_prediction_seconds,
            self.pace.sleep,
            self.pace.loss * 100.0,
        )
    }
}

#[cfg(test)]
mod tests {
    use paxos::replica::Replica;
    use paxos::service::Role;

    use super::*;

    fn knowing(chosen: &[Index]) -> Paxos {
        Paxos {
            chosen: chosen.iter().map(|&index| (index, 1)).collect(),
            role: Role::Replica(Replica::default()),
        }
    }

    #[test]
    fn e_39_an_index_that_not_all_have_learned_comes_before_a_new_one() {
        let next = |states: &[Paxos]| {
            let ids = (1..).map(NodeId::new);
            let mut draw = Draw::new(1);
            (0..40)
                .map(|_| next_index(ids.clone().zip(states), &mut draw))
                .collect::<BTreeSet<Index>>()
        };
        let set = |indices: &[Index]| indices.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(next(&[knowing(&[]), knowing(&[])]), set(&[0]));
        assert_eq!(next(&[knowing(&[0, 1]), knowing(&[0, 1])]), set(&[2]));
        assert_eq!(next(&[knowing(&[0, 1, 2]), knowing(&[1])]), set(&[0, 2]));
        // What was missed long ago is not recent, and what nobody has chosen is not chosen.
        assert_eq!(next(&[knowing(&[0, 9]), knowing(&[9])]), set(&[10]));
    }
}
