//! Paxos with a bug, many times over (CrystalBall §5.4.2, figures 13 and 14; F-13, F-14).
//!
//! | module | what it holds |
//! |---|---|
//! | [`story`] | one run: two rounds of three real nodes |
//! | [`outcome`] | what many of them say together |
//!
//! The paper waits 0 to 60 s between the rounds, because its checker took 6 s. Ours takes a fraction of a second, and so
//! does our wait, that it may be too short often enough to show what happens then.

mod outcome;
pub(crate) mod story;

use std::path::PathBuf;

use anyhow::Context;
use tokio::task::JoinSet;

use crate::Output;
use crate::cluster::Steering;
use crate::draw::Draw;
use outcome::{Outcome, Prevention};
use story::{Run, Story};

/// A bug of Paxos.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bug {
    /// A leader proposes the value of the promise it got last
    #[value(alias = "bug1")]
    LastPromise,
    /// An acceptor does not write its vote to disk, and is reset between the rounds
    #[value(alias = "bug2")]
    VolatilePromise,
}

/// What the experiment can be asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Experiment {
    /// Which bug, or which story with --fixed.
    #[arg(long, value_enum, default_value = "last-promise")]
    bug: Bug,
    /// Tell the same story without the bug: nothing may be prevented then.
    #[arg(long)]
    fixed: bool,
    /// How often.
    #[arg(long, default_value_t = 20)]
    runs: u32,
    /// How often without any agents, to see how often it goes wrong (as often as with, by default).
    #[arg(long)]
    unsteered_runs: Option<u32>,
    /// How long to wait between the rounds at most, in seconds; each wait is drawn from 0 to this (the paper's: 60).
    #[arg(long, default_value_t = 6.0, value_name = "SECONDS")]
    gap: f64,
    /// How often each agent gathers a snapshot, in milliseconds.
    #[arg(long, default_value_t = 10)]
    period_ms: u64,
    /// How many runs go on at the same time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    jobs: u32,
    /// What chance begins with.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the folders of all runs, not only of those in which a value was chosen twice.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    output: Output,
}

impl Experiment {
    /// Makes the runs and says what they say together.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let unsteered = self.unsteered_runs.unwrap_or(self.runs);
        let without = self.tell_all(Steering::Off, unsteered).await?;
        let with = self.tell_all(Steering::Full, self.runs).await?;
        let outcome = Outcome::new(self.bug, self.fixed, self.gap, with, without);
        self.output
            .write(&outcome, &outcome.text(), &outcome.page())
    }

    /// Tells the story so many times, a few at a time.
    async fn tell_all(&self, steering: Steering, count: u32) -> anyhow::Result<Vec<Run>> {
        let mut draw = Draw::new(self.seed);
        let mut stories = (0..count)
            .map(|number| Story {
                bug: self.bug,
                fixed: self.fixed,
                steering,
                // Without agents nothing happens between the rounds, so there is nothing to wait for.
                gap: if steering == Steering::Off {
                    0.0
                } else {
                    draw.between(0.0, self.gap)
                },
                period_ms: self.period_ms,
                seed: draw.word(),
                directory: self.folder(steering, number),
                keep: self.keep,
            })
            .collect::<Vec<_>>()
            .into_iter();
        let mut going = JoinSet::new();
        let mut runs = Vec::new();
        loop {
            while going.len() < self.jobs as usize {
                let Some(story) = stories.next() else { break };
                going.spawn(story.tell());
            }
            let Some(run) = going.join_next().await else {
                break;
            };
            let run = run.context("a run panicked")??;
            self.show(steering, runs.len() + 1, count, &run);
            runs.push(run);
        }
        Ok(runs)
    }

    fn show(&self, steering: Steering, number: usize, of: u32, run: &Run) {
        if self.output.json {
            return;
        }
        let how = match (steering, run.prevention) {
            (Steering::Off, Prevention::Missed) => "two values chosen",
            (Steering::Off, _) => "no violation",
            (_, Prevention::Steering) => "prevented by steering",
            (_, Prevention::Immediate) => "prevented by the immediate check",
            (_, Prevention::Missed) => "NOT prevented: two values chosen",
            (_, Prevention::Undisturbed) => "nothing to prevent",
            (_, Prevention::Invalid) => "the first round did not come out as the story has it",
        };
        let what = if steering == Steering::Off {
            "unsteered"
        } else {
            "steered"
        };
        println!(
            "{what} {number:>3}/{of}  gap {:>5.2} s  {how}{}",
            run.gap,
            run.detail()
        );
    }

    fn folder(&self, steering: Steering, number: u32) -> PathBuf {
        let name = match steering {
            Steering::Off => format!("u{number}"),
            Steering::Immediate | Steering::Audit | Steering::Full => format!("s{number}"),
        };
        self.output.directory().join(name)
    }
}
