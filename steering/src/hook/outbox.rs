//! What waits to be sent to the agent: bounded, and never waited for.

use std::collections::VecDeque;

use scry_protocol::limit::FILTERS_MAX;
use scry_protocol::link::host::{Checkpoint, FilterEnded, HostToAgent};

/// What a frame without a checkpoint is charged.
const SMALL_FRAME_BYTES: usize = 256;

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Frames.
    pub frames_max: usize,
    /// Bytes of checkpoints and frames together, about.
    pub bytes_max: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            frames_max: 1024,
            bytes_max: 32 << 20,
        }
    }
}

/// Frames on their way to the agent.
#[derive(Debug)]
pub(super) struct Outbox {
    limits: QueueLimits,
    frames: VecDeque<HostToAgent>,
    bytes: usize,
    attached: bool,
    /// The newest checkpoint: what an agent that attaches gets first.
    newest: Option<Checkpoint>,
    /// Whether the newest checkpoint found no room, and follows once the queue is empty.
    newest_due: bool,
    /// Filters that ended while nobody was there to hear of it.
    untold: VecDeque<FilterEnded>,
    dropped_count: u64,
}

impl Outbox {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            frames: VecDeque::new(),
            bytes: 0,
            attached: false,
            newest: None,
            newest_due: false,
            untold: VecDeque::new(),
            dropped_count: 0,
        }
    }

    /// Puts a frame in the queue, or drops and counts it. Tells whether the queue was empty before.
    ///
    /// Without an agent there is nobody to miss it: then only what the next one must learn is kept.
    pub(super) fn push(&mut self, frame: HostToAgent) -> bool {
        if let HostToAgent::Checkpoint(checkpoint) = &frame {
            self.newest = Some(checkpoint.clone());
            self.newest_due = false;
        }
        if !self.attached {
            if let HostToAgent::FilterEnded(ended) = frame {
                if self.untold.len() == FILTERS_MAX {
                    self.untold.pop_front();
                }
                self.untold.push_back(ended);
            }
            return false;
        }
        let cost = cost(&frame);
        if self.frames.len() >= self.limits.frames_max
            || self.bytes + cost > self.limits.bytes_max.max(cost)
        {
            self.dropped_count += 1;
            self.newest_due |= matches!(frame, HostToAgent::Checkpoint(_));
            return false;
        }
        self.bytes += cost;
        self.frames.push_back(frame);
        self.frames.len() == 1
    }

    /// Returns the next frame to be written.
    pub(super) fn pop(&mut self) -> Option<HostToAgent> {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= cost(&frame);
            return Some(frame);
        }
        if !std::mem::take(&mut self.newest_due) {
            return None;
        }
        self.newest.clone().map(HostToAgent::Checkpoint)
    }

    /// Begins with a new agent: first who this is, then the newest checkpoint, then what it missed.
    pub(super) fn attach(&mut self, hello: HostToAgent) {
        self.detach();
        self.attached = true;
        self.push(hello);
        if let Some(newest) = self.newest.clone() {
            self.push(newest.into());
        }
        for ended in std::mem::take(&mut self.untold) {
            self.push(ended.into());
        }
    }

    /// Forgets what was meant for an agent that is gone.
    pub(super) fn detach(&mut self) {
        self.attached = false;
        self.newest_due = false;
        self.bytes = 0;
        for frame in std::mem::take(&mut self.frames) {
            if let HostToAgent::FilterEnded(_) = frame {
                self.push(frame);
            }
        }
    }

    /// Returns how many frames were dropped so far.
    pub(super) fn dropped_count(&self) -> u64 {
        self.dropped_count
    }

    /// Counts a frame that could not be encoded.
    pub(super) fn count_dropped(&mut self) {
        self.dropped_count += 1;
    }
}

fn cost(frame: &HostToAgent) -> usize {
    match frame {
        HostToAgent::Checkpoint(checkpoint) => SMALL_FRAME_BYTES + checkpoint.body.len(),
        _ => SMALL_FRAME_BYTES,
    }
}
