//! A run on stage: a cluster, what is done to it, and those who watch.

use std::path::PathBuf;
use std::time::Duration;

use scry::NodeId;
use serde_json::json;
use tokio::time::Instant;

use crate::churn::{Act, Deed};
use crate::cluster::{Cluster, Happening, Plan, Steering, epoch_ms};
use crate::event_log::EventLog;
use crate::observer::Observer;
use crate::result::RunResult;
use crate::staged::Staged;
use crate::view::View;

/// A run that goes on.
pub(crate) struct Stage<'v, S: Staged> {
    /// The cluster.
    pub(crate) cluster: Cluster<S>,
    /// What is kept of it.
    pub(crate) observer: Observer,
    view: &'v mut View,
    title: String,
    directory: PathBuf,
    steering: Steering,
    seed: u64,
    started: Instant,
    /// Every event with the state after it, for whoever wants to know how something came about.
    events: EventLog,
}

impl<'v, S: Staged> Stage<'v, S> {
    /// Starts a cluster and begins to watch it.
    ///
    /// # Errors
    ///
    /// If it does not come up.
    pub(crate) async fn open(
        plan: &Plan<S>,
        title: &str,
        view: &'v mut View,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            cluster: Cluster::start(plan).await?,
            observer: Observer::new(),
            view,
            title: title.to_owned(),
            directory: plan.directory.clone(),
            steering: plan.steering,
            seed: plan.seed,
            started: Instant::now(),
            events: EventLog::create(&plan.directory),
        })
    }

    /// Watches until a time after the start.
    pub(crate) async fn watch_to(&mut self, time: Duration) {
        let until = self.started + time;
        while let Some(happening) = self.next(until).await {
            drop(happening);
        }
    }

    /// Watches until something is so, or patience is over; tells which.
    pub(crate) async fn watch_until(
        &mut self,
        patience: Duration,
        mut is_so: impl FnMut(&Cluster<S>, &Happening) -> bool,
    ) -> bool {
        let until = Instant::now() + patience;
        while let Some(happening) = self.next(until).await {
            if is_so(&self.cluster, &happening) {
                return true;
            }
        }
        false
    }

    /// Performs a script: each act at its time after the start.
    ///
    /// # Errors
    ///
    /// If a process of the cluster has ended.
    pub(crate) async fn perform(&mut self, acts: &[Act], join: &S::Call) -> anyhow::Result<()> {
        for act in acts {
            self.watch_to(act.at).await;
            self.cluster.check()?;
            self.act(act.node, act.deed, join).await?;
        }
        Ok(())
    }

    /// Does something to a node.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub(crate) async fn act(
        &mut self,
        node: NodeId,
        deed: Deed,
        join: &S::Call,
    ) -> anyhow::Result<()> {
        let text = match deed {
            Deed::Join => "is asked to join",
            Deed::Reset => "is reset, and its connections break",
            Deed::SilentReset => "is reset, and nobody is told",
        };
        self.observer.fault(node, text.to_owned());
        self.show_last(1);
        match deed {
            Deed::Join => self.cluster.call(node, join).await,
            Deed::Reset | Deed::SilentReset => {
                let order = json!({ "reset": { "notice": deed == Deed::Reset } });
                self.cluster.order(node, order).await.map(drop)
            }
        }
    }

    /// Returns how long the run has gone on.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Ends the run and says what came of it.
    pub(crate) async fn close(mut self) -> RunResult {
        // What nodes have said by now still counts.
        let now = self.elapsed();
        let grace = Duration::from_millis(2 * crate::referee::ORDER_WITHIN_MS);
        self.watch_to(now + grace).await;
        self.cluster.referee.close(epoch_ms());
        self.view.leave();
        let statuses = self.cluster.statuses().await;
        let costs = self.cluster.costs();
        let result = RunResult::new(
            &self.title,
            (self.steering, self.seed, now),
            self.cluster.members().len(),
            &self.cluster.referee.count,
            self.observer,
            &statuses,
            costs,
            self.directory,
        );
        self.cluster.end().await;
        result
    }

    async fn next(&mut self, until: Instant) -> Option<Happening> {
        let happening = self.cluster.next(until).await;
        if let Some(happening) = &happening {
            self.write_down(happening);
            let marks = self
                .observer
                .take(happening, &self.cluster, &self.directory);
            self.show_last(marks);
        }
        self.view.draw(&self.title, &self.cluster, &self.observer);
        happening
    }

    fn write_down(&mut self, happening: &Happening) {
        if let Happening::Event(judged) = happening {
            self.events.note(judged);
        }
    }

    fn show_last(&mut self, count: usize) {
        let marks = &self.observer.marks;
        for mark in &marks[marks.len() - count..] {
            self.view.mark(mark);
        }
    }
}
