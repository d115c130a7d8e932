//! Paxos with a bug, many times over (CrystalBall §5.4.2, figures 13 and 14; F-13, F-14).
//!
//! | module | what it holds |
//! |---|---|
//! | [`story`] | one run: two rounds of three real nodes |
//! | [`outcome`] | what many of them say together |
//!
//! The paper waits 0 to 60 s between the rounds, because its checker took 6 s. Ours takes a fraction of a second, so that we
//! wait a third of that, and still shorter than a prediction takes often enough to show what happens then.

mod outcome;
pub(crate) mod story;

use std::path::PathBuf;

use anyhow::Context;
use tokio::task::JoinSet;

use crate::Output;
use crate::cluster::{Order, Steering};
use crate::draw::Draw;
use crate::indices::{Drive, Pace};
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
    #[arg(long, default_value_t = 20, default_value_if("indices", "true", "1"))]
    runs: u32,
    /// How often without any agents, to see how often it goes wrong (as often as with, by default).
    #[arg(long)]
    unsteered_runs: Option<u32>,
    /// How long to wait between the rounds at most, in seconds; the waits are drawn from 0 to this (the paper's: 60), one
    /// from each equal part of it, in any order.
    #[arg(long, default_value_t = 20.0, value_name = "SECONDS")]
    gap: f64,
    /// How often each agent gathers a snapshot, in milliseconds.
    #[arg(long, default_value_t = 20, default_value_if("indices", "true", "250"))]
    period_ms: u64,
    /// Which filter is taken if several would do.
    #[arg(long, value_enum, default_value = "least-harm")]
    order: Order,
    /// Instead of the story: nodes propose for one index after the other while datagrams are lost (LMC §5.5). The bug is
    /// last-promise, and --runs is 1 by default, --period-ms 250.
    #[arg(long)]
    indices: bool,
    #[command(flatten)]
    pace: Pace,
    /// How many runs go on at the same time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=32))]
    jobs: u32,
    /// The seed of everything that is left to chance.
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
        if self.indices {
            return self.drive().await;
        }
        let unsteered = self.unsteered_runs.unwrap_or(self.runs);
        let without = self.tell_all(Steering::Off, unsteered).await?;
        let with = self.tell_all(Steering::Full, self.runs).await?;
        let outcome = Outcome::new(self.bug, self.fixed, self.gap, with, without);
        self.output
            .write(&outcome, &outcome.text(), &outcome.page())
    }

    /// Lets nodes propose for one index after the other.
    async fn drive(self) -> anyhow::Result<()> {
        if self.bug != Bug::LastPromise {
            anyhow::bail!("--indices is LMC's experiment with --bug last-promise: nobody is reset");
        }
        let drive = Drive {
            fixed: self.fixed,
            runs: self.runs,
            pace: self.pace,
            period_ms: self.period_ms,
            seed: self.seed,
            output: self.output,
        };
        drive.run::<paxos::Paxos>().await
    }

    /// Tells the story so many times, a few at a time.
    async fn tell_all(&self, steering: Steering, count: u32) -> anyhow::Result<Vec<Run>> {
        let mut draw = Draw::new(self.seed);
        let mut gaps = gaps(&mut draw, count, self.gap).into_iter();
        let mut stories = (0..count)
            .map(|number| Story {
                bug: self.bug,
                fixed: self.fixed,
                steering,
                // Without agents nothing happens between the rounds, so there is nothing to wait for.
                gap: gaps
                    .next()
                    .filter(|_| steering != Steering::Off)
                    .unwrap_or_default(),
                period_ms: self.period_ms,
                order: self.order,
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

/// Draws waits that are spread evenly: one from each of `count` equal parts of the span, in an order that is drawn too. A
/// hundred independent draws would leave holes and heaps, and one seed would say little about the next.
fn gaps(draw: &mut Draw, count: u32, span: f64) -> Vec<f64> {
    let part = span / f64::from(count.max(1));
    let mut gaps: Vec<(u64, f64)> = (0..count)
        .map(|at| {
            let from = f64::from(at) * part;
            (draw.word(), draw.between(from, from + part))
        })
        .collect();
    gaps.sort_unstable_by_key(|(order, _)| *order);
    gaps.into_iter().map(|(_, gap)| gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gaps_fill_their_span_evenly() {
        let mut gaps = gaps(&mut Draw::new(3), 50, 20.0);
        assert!(!gaps.is_sorted());
        gaps.sort_unstable_by(f64::total_cmp);
        for (at, gap) in gaps.iter().enumerate() {
            let part = 0.4 * at as f64;
            assert!((part..part + 0.4).contains(gap), "{gap} in part {at}");
        }
    }
}
