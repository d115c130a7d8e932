//! RandTree under churn (CrystalBall §5.4.1): the same nodes leave and come back in three runs, of which the first is left
//! alone, the second has the immediate check, and the third everything.
//!
//! A participant leaves by losing its state, and enters by joining again; its process stays. Half of those that leave
//! do so silently. As in the paper's tree nobody says a word on an idle connection, so a silent leave stays unseen until
//! there is something to say; `--keepalive` changes that. The network is a mesh of links with the paper's mean round trip (130 ms) and loss, not a topology of
//! 5 000 routers.

use std::time::Duration;

use randtree::{Bugs, Call, RandTree, Setup};
use scry::NodeId;

use crate::Output;
use crate::churn::{self, Churn};
use crate::cluster::{Link, Plan, Steering, Tuning};
use crate::demo::tuning;
use crate::html;
use crate::result::{Comparison, RunResult};
use crate::stage::Stage;
use crate::view::View;

/// What the experiment can be asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Experiment {
    /// How many nodes.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(2..=200))]
    nodes: u32,
    /// How long each run goes on.
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// How often a minute some node leaves and comes back, on average (the paper's: 1).
    #[arg(long, default_value_t = 30.0)]
    churn_per_minute: f64,
    /// Which share of those that leave tells nobody.
    #[arg(long, default_value_t = 0.5)]
    silent_share: f64,
    /// How long a node stays away at most, in seconds.
    #[arg(long, default_value_t = 15.0)]
    away_max: f64,
    /// How many children a node takes.
    #[arg(long, default_value_t = 4)]
    degree: u32,
    /// Let nodes say a word on every connection each second.
    #[arg(long)]
    keepalive: bool,
    /// The bugs, by name, with commas between them; `all` of them, or `none` for the repaired tree.
    #[arg(long, default_value = "update-sibling,new-root")]
    bugs: String,
    /// How many resets that peers are told of a searched path may contain, beside one that nobody is told of.
    #[arg(long, default_value_t = 1)]
    resets: u8,
    /// How often each agent gathers a snapshot, in milliseconds (the paper's: 10 000).
    #[arg(long, default_value_t = 3000)]
    period_ms: u64,
    /// How long everything takes from node to node, in milliseconds; up to a third more is drawn.
    #[arg(long, default_value_t = 56)]
    delay_ms: u64,
    /// Which share of the datagrams is lost.
    #[arg(long, default_value_t = 0.003)]
    loss: f64,
    /// What each link carries, in kilobits a second; 0 for as much as there is.
    #[arg(long, default_value_t = 1000)]
    rate_kbps: u64,
    /// The seed of everything that is left to chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Which runs to make, with commas between them.
    #[arg(long, value_delimiter = ',', default_value = "off,immediate,steering")]
    ways: Vec<Way>,
    #[command(flatten)]
    output: Output,
}

/// How one run is steered.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Way {
    /// Left alone
    Off,
    /// With the immediate check only
    Immediate,
    /// With everything
    Steering,
}

impl Way {
    fn named(self) -> (&'static str, Steering) {
        match self {
            Self::Off => ("off", Steering::Off),
            Self::Immediate => ("immediate check", Steering::Immediate),
            Self::Steering => ("steering", Steering::Full),
        }
    }
}

impl Experiment {
    /// Makes the runs and compares them.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let bugs = bugs(&self.bugs)?;
        let mut view = View::new(self.output.json);
        let mut runs = Vec::new();
        for (name, steering) in self.ways.iter().map(|way| way.named()) {
            runs.push(self.run_one(name, steering, bugs, &mut view).await?);
        }
        let title = format!(
            "RandTree: {} nodes, {} minutes, {} leave a minute",
            self.nodes, self.minutes, self.churn_per_minute
        );
        let mut comparison = Comparison::new(&title, runs);
        comparison.note = PAPER.to_owned();
        let text = format!("\n{title}\n\n{}\n{PAPER}", comparison.text());
        self.output
            .write(&comparison, &text, &html::page(&comparison))
    }

    async fn run_one(
        &self,
        name: &str,
        steering: Steering,
        bugs: Bugs,
        view: &mut View,
    ) -> anyhow::Result<RunResult> {
        let ids: Vec<NodeId> = (1..=self.nodes).map(NodeId::new).collect();
        let setup = Setup {
            bootstrap: vec![NodeId::new(1)],
            degree_max: self.degree,
            keepalive: self.keepalive,
            bugs,
            ..Setup::default()
        };
        let plan = Plan::<RandTree> {
            nodes: ids.iter().map(|&id| (id, setup.clone())).collect(),
            steering,
            link: Link {
                delay_ms: self.delay_ms,
                jitter_ms: self.delay_ms / 3,
                loss: self.loss,
                rate_kbps: self.rate_kbps,
            },
            tuning: Tuning {
                resets: self.resets,
                ..tuning(self.period_ms)
            },
            seed: self.seed,
            directory: self.output.directory().join(name.replace(' ', "-")),
        };
        let mut acts = churn::joins(&ids);
        let joined = acts.last().map(|act| act.at).unwrap_or_default() + Duration::from_secs(3);
        let end = joined + Duration::from_secs_f64(self.minutes * 60.0);
        let churn = Churn {
            per_minute: self.churn_per_minute,
            silent_share: self.silent_share,
            away_min: 0.3,
            away_max: self.away_max.max(0.3),
        };
        acts.extend(churn::churn(&ids, churn, joined, end, self.seed));
        view.say(&format!(
            "{name}: {} acts in {:.0} s",
            acts.len(),
            end.as_secs_f64()
        ));
        let mut stage = Stage::open(&plan, name, view).await?;
        stage.perform(&acts, &Call::Join).await?;
        stage.watch_to(end).await;
        Ok(stage.close().await)
    }
}

const PAPER: &str = "\
CrystalBall §5.4.1 (25 machines, 1.4 h, one leaves and enters a minute): 121 inconsistent states without; 325 vetoes with the
immediate check alone; with everything 480 predictions, 65 unhelpful, 415 changes (2.77 % of 14 956 actions), 160 vetoes and
no inconsistent state; joins 0.8 to 0.9 s in all runs. Rates differ here because nodes leave more often; see --churn-per-minute.";

/// Reads the names of bugs.
fn bugs(names: &str) -> anyhow::Result<Bugs> {
    let mut bugs = Bugs::default();
    for name in names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        match name {
            "none" => {}
            "all" => {
                bugs = Bugs {
                    update_sibling: true,
                    new_root: true,
                    promote: true,
                    timer: true,
                    ignored_reply: true,
                    two_trees: true,
                };
            }
            "update-sibling" => bugs.update_sibling = true,
            "new-root" => bugs.new_root = true,
            "promote" => bugs.promote = true,
            "timer" => bugs.timer = true,
            "ignored-reply" => bugs.ignored_reply = true,
            "two-trees" => bugs.two_trees = true,
            other => anyhow::bail!("there is no bug {other:?} in RandTree"),
        }
    }
    Ok(bugs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bugs_are_read_by_name() {
        let read = bugs("update-sibling, new-root").unwrap();
        assert!(read.update_sibling && read.new_root && !read.promote);
        assert_eq!(bugs("none").unwrap(), Bugs::default());
        let all = bugs("all").unwrap();
        assert!(all.promote && all.timer && all.ignored_reply && all.two_trees);
        assert!(bugs("update").is_err());
    }
}
