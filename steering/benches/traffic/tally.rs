//! What went over the wire between agents, and what the same checkpoints would have cost by other means.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use scry_protocol::compress::Packed;
use scry_protocol::delta::Delta;
use scry_protocol::link::peer::PeerMessage;
use scry_protocol::{Body, frame};

/// Bytes and frames of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }

    /// Returns the mean size.
    pub(crate) fn mean(self) -> f64 {
        self.bytes as f64 / self.frames.max(1) as f64
    }
}

/// Everything that was counted in the measured time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Frames by kind. Every frame is sent once and received at most once; it is counted where it is sent.
    pub(crate) kinds: BTreeMap<&'static str, Sum>,
    /// Checkpoints as the host encoded them, one for each snapshot.
    pub(crate) whole: Sum,
    /// The same, each compressed by itself.
    pub(crate) alone: Sum,
    /// The same, as the difference to the one before.
    pub(crate) delta: Sum,
    pub(crate) snapshots: u64,
    pub(crate) members: u64,
    pub(crate) missing: u64,
    pub(crate) failed: u64,
    /// The sum of the ages of all members, in milliseconds.
    pub(crate) age_ms: u64,
    pub(crate) checkpoints: u64,
    pub(crate) departures: u64,
    pub(crate) stamp_bytes: u64,
    pub(crate) past_bytes: u64,
    pub(crate) message_bytes: u64,
}

impl Tally {
    /// Counts a frame by what it really says.
    pub(crate) fn frame(&mut self, bytes: &[u8]) -> Result<()> {
        let message = frame::decode_one::<PeerMessage>(bytes).context("an agent's frame")?;
        let kind = match message {
            PeerMessage::Request(_) => "request",
            PeerMessage::Full(_) => "full",
            PeerMessage::Changed(_) => "changed",
            PeerMessage::Same(_) => "same",
            PeerMessage::Refused(_) => "refused",
            PeerMessage::Confirm(_) => "confirm",
            PeerMessage::SharePath(_) => "share path",
            PeerMessage::PathAnswer(_) => "path answer",
        };
        self.kinds.entry(kind).or_default().add(bytes.len());
        Ok(())
    }

    /// Compares ways to send a checkpoint to somebody who has the one before.
    pub(crate) fn checkpoint(&mut self, before: Option<&Body>, body: &Body) {
        self.whole.add(body.len());
        self.alone.add(Packed::pack(body.as_bytes().to_vec()).len());
        if let Some(before) = before {
            let same = before == body;
            let delta = Delta::between(before.as_bytes(), body.as_bytes());
            self.delta.add(if same { 0 } else { delta.len() });
        }
    }

    /// Returns all bytes sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.kinds.values().map(|sum| sum.bytes).sum()
    }

    /// Returns all frames sent.
    pub(crate) fn frames(&self) -> u64 {
        self.kinds.values().map(|sum| sum.frames).sum()
    }
}
