//! The gauntlet: correct services under load, jitter, loss, resets and late starts, left alone and steered by turns.
//!
//! | module | what it holds |
//! |---|---|
//! | [`contestant`] | the services: their nodes, their load, their faults, and when a request is answered |
//! | [`script`] | what is done to a cluster when, drawn from a seed before anything runs |
//! | [`run`] | one run, and what is measured in it |
//! | [`score`] | what several runs say together: medians and verdicts |
//!
//! Agents have scry's defaults and mode `steer`: whatever they do to a correct service is harm. With `--buggy` the services
//! have their bug, and what matters is how much of what breaks unsteered is prevented, at which price.

mod contestant;
mod run;
mod score;
mod script;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use chord::Chord;
use correct::{Chain, Commit, Failover, Gossip, Lease};
use paxos::Paxos;
use randtree::RandTree;

use crate::Output;
use crate::cluster::Steering;
use contestant::Contestant;
use run::{Measured, Run};
use score::{Scores, Service};

/// What the gauntlet can be asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Gauntlet {
    /// How long each run goes on, in seconds.
    #[arg(long, default_value_t = 60, conflicts_with = "minutes")]
    seconds: u64,
    /// How long each run goes on, in minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// How often each service is left alone and steered, by turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// The services, with commas between them; all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    services: Vec<String>,
    /// Switch each service's bug on: how much of what then breaks does steering prevent?
    #[arg(long)]
    buggy: bool,
    /// The seed of everything that is left to chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

impl Gauntlet {
    /// Runs the services one after the other and says what came of it.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        const NAMES: [&str; 8] = [
            "chain", "commit", "lease", "failover", "gossip", "randtree", "chord", "paxos",
        ];
        let unknown = |name: &&String| !NAMES.contains(&name.as_str());
        if let Some(name) = self.services.iter().find(unknown) {
            bail!("there is no service {name:?} (known: {})", NAMES.join(", "));
        }
        let mut services = Vec::new();
        for name in NAMES {
            if !self.services.is_empty() && !self.services.iter().any(|it| it == name) {
                continue;
            }
            services.push(match name {
                "chain" => self.service::<Chain>().await?,
                "commit" => self.service::<Commit>().await?,
                "lease" => self.service::<Lease>().await?,
                "failover" => self.service::<Failover>().await?,
                "gossip" => self.service::<Gossip>().await?,
                "randtree" => self.service::<RandTree>().await?,
                "chord" => self.service::<Chord>().await?,
                _ => self.service::<Paxos>().await?,
            });
        }
        let scores = Scores::new(self.time().as_secs(), self.rounds, self.buggy, services);
        let logs = self.output.directory();
        let text = format!("\n{}\nlogs   {}", scores.text(), logs.display());
        self.output.write(&scores, &text, &scores.page())
    }

    fn time(&self) -> Duration {
        Duration::from_secs(
            self.minutes
                .map_or(self.seconds, |minutes| 60 * minutes)
                .max(1),
        )
    }

    async fn service<S: Contestant>(&self) -> anyhow::Result<Service> {
        let directory = self.output.directory().join(S::NAME);
        let (mut fixed, mut off, mut steer) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=self.rounds {
            if self.buggy {
                fixed.push(self.one::<S>(round, "fixed", &directory).await?);
            }
            off.push(self.one::<S>(round, "off", &directory).await?);
            steer.push(self.one::<S>(round, "steer", &directory).await?);
        }
        Ok(Service::new(S::NAME, &fixed, &off, &steer))
    }

    async fn one<S: Contestant>(
        &self,
        round: u32,
        name: &str,
        directory: &Path,
    ) -> anyhow::Result<Measured> {
        let directory: PathBuf = directory.join(format!("{round}-{name}"));
        let run = Run {
            steering: match name {
                "steer" => Steering::Full,
                _ => Steering::Off,
            },
            buggy: self.buggy && name != "fixed",
            calm: self.buggy,
            time: self.time(),
            // Both runs of a round meet the same load and the same faults.
            seed: self.seed.wrapping_mul(1000).wrapping_add(round.into()),
            directory: &directory,
        };
        let measured = run.measure::<S>().await?;
        eprintln!("{:<9} {name:<5} {measured}", S::NAME);
        Ok(measured)
    }
}
