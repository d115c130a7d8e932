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
        // What follows would be taken for the former incarnation's; it is short and rare.
        let must_go = matches!(frame, HostToAgent::Renewed(_));
        if !must_go
            && (self.frames.len() >= self.limits.frames_max
                || self.bytes + cost > self.limits.bytes_max.max(cost))
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

#[cfg(test)]
mod tests {
    use scry_protocol::link::host::{FilterEnd, Goodbye, Stats};
    use scry_protocol::{Body, FilterId};

    use super::*;

    fn checkpoint(number: u32) -> HostToAgent {
        HostToAgent::Checkpoint(Checkpoint {
            number: number.into(),
            after: (number - 1).into(),
            body: Body::from_bytes(vec![0; 1000]).expect("small"),
            neighbors: None,
        })
    }

    fn hello() -> HostToAgent {
        Goodbye { number: 0.into() }.into()
    }

    fn numbers(outbox: &mut Outbox) -> Vec<u64> {
        std::iter::from_fn(|| outbox.pop())
            .filter_map(|frame| match frame {
                HostToAgent::Checkpoint(checkpoint) => Some(checkpoint.number.get()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn what_does_not_fit_is_counted_and_the_newest_checkpoint_follows() {
        for limits in [
            QueueLimits {
                frames_max: 4,
                ..QueueLimits::default()
            },
            QueueLimits {
                bytes_max: 4 * (1000 + SMALL_FRAME_BYTES),
                ..QueueLimits::default()
            },
        ] {
            let mut outbox = Outbox::new(limits);
            outbox.attach(hello());
            for number in 1..=9 {
                outbox.push(checkpoint(number));
            }
            assert_eq!(outbox.dropped_count(), 6);
            assert_eq!(numbers(&mut outbox), [1, 2, 3, 9]);
            assert_eq!(outbox.bytes, 0);
            outbox.push(checkpoint(10));
            assert_eq!(numbers(&mut outbox), [10]);
        }
    }

    #[test]
    fn without_an_agent_only_what_the_next_must_learn_is_kept() {
        let mut outbox = Outbox::new(QueueLimits::default());
        let ended = FilterEnded {
            filter: FilterId::new(1),
            end: FilterEnd::AgentGone,
            hits: 0,
        };
        outbox.attach(hello());
        outbox.push(Stats::default().into());
        outbox.push(ended.into());
        outbox.detach();
        outbox.push(checkpoint(1));
        outbox.push(checkpoint(2));
        outbox.push(Stats::default().into());
        assert_eq!(outbox.pop(), None);
        outbox.attach(hello());
        let frames: Vec<HostToAgent> = std::iter::from_fn(|| outbox.pop()).collect();
        assert_eq!(frames, [hello(), checkpoint(2), ended.into()]);
        assert_eq!(outbox.dropped_count(), 0);
    }
}
