//! What one peer used of this agent, shared by the tasks that read from it and the task that decides.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::limits::{Limit, Limits, Rates};
use super::lock;

/// How many frames of one peer may wait for the task that decides: so few that they hold up nobody else's facts.
const WAITING_MAX: usize = 16;

/// One peer's account.
#[derive(Debug)]
pub(super) struct Meter {
    started: Instant,
    limits: Mutex<Limits>,
    waiting: Arc<Semaphore>,
    slowed: AtomicU64,
    slowed_ms: AtomicU64,
    /// What it was slowed for since somebody asked.
    news: Mutex<Option<Limit>>,
}

/// A frame's place among those that wait; free again when it was handled.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Meter {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            started: Instant::now(),
            limits: Mutex::new(Limits::new(rates)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            slowed: AtomicU64::new(0),
            slowed_ms: AtomicU64::new(0),
            news: Mutex::new(None),
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Waits until the peer is within its limits and few of its frames wait, and counts one more.
    pub(super) async fn admit(&self, bytes: usize) -> Place {
        loop {
            let wait = lock(&self.limits).poll_wait(self.now_ms());
            let Some((wait_ms, limit)) = wait else {
                break;
            };
            self.slowed.fetch_add(1, Ordering::Relaxed);
            self.slowed_ms.fetch_add(wait_ms, Ordering::Relaxed);
            *lock(&self.news) = Some(limit);
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
        lock(&self.limits).handle_frame(self.now_ms(), bytes);
        // It is never closed.
        let permit = Arc::clone(&self.waiting).acquire_owned().await.ok();
        Place { _permit: permit }
    }

    /// Counts time that was spent on the peer's frames.
    pub(super) fn handle_work(&self, elapsed: Duration) {
        let elapsed_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        lock(&self.limits).handle_work(self.now_ms(), elapsed_us);
    }

    /// Returns how often the peer was not read from because of a limit, and for how long in all.
    pub(super) fn slowed(&self) -> (u64, u64) {
        (
            self.slowed.load(Ordering::Relaxed),
            self.slowed_ms.load(Ordering::Relaxed),
        )
    }

    /// Returns the limit it was slowed for since this was last asked.
    pub(super) fn take_news(&self) -> Option<Limit> {
        lock(&self.news).take()
    }
}
