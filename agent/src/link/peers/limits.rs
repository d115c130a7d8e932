//! How much one peer may ask of this agent: frames, bytes, and time of the task that decides. A core without a clock.
//!
//! A peer that is over a limit is not read from until it is within again. Nothing of an honest peer is lost by that, and
//! QUIC makes the peer wait with what it has.

use crate::rate_limit::Bucket;

/// What the limits are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Rates {
    /// Frames a second; 0 for no limit.
    pub(crate) frames_per_second: u64,
    /// Bytes of frames a second; 0 for no limit.
    pub(crate) bytes_per_second: u64,
    /// Thousandths of the time of the task that decides; 0 for no limit.
    pub(crate) work_per_mille: u64,
}

/// One of the limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Limit {
    /// Too many frames.
    Frames,
    /// Too many bytes.
    Bytes,
    /// Too much time.
    Work,
}

impl Limit {
    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Frames => "peer-frames",
            Self::Bytes => "peer-bytes",
            Self::Work => "peer-work",
        }
    }
}

/// What one peer has used.
#[derive(Debug)]
pub(super) struct Limits {
    frames: Bucket,
    bytes: Bucket,
    work: Bucket,
}

impl Limits {
    pub(super) fn new(rates: Rates) -> Self {
        // Two seconds' worth may come at once: answers to a snapshot do.
        let bucket = |per_second: u64| Bucket::new(per_second, per_second.saturating_mul(2));
        Self {
            frames: bucket(rates.frames_per_second),
            bytes: bucket(rates.bytes_per_second),
            // Thousandths of a second are a thousand microseconds each.
            work: bucket(rates.work_per_mille.saturating_mul(1_000)),
        }
    }

    /// A frame came.
    pub(super) fn handle_frame(&mut self, now_ms: u64, bytes: usize) {
        self.frames.charge(now_ms, 1);
        self.bytes.charge(now_ms, bytes as u64);
    }

    /// It took time.
    pub(super) fn handle_work(&mut self, now_ms: u64, elapsed_us: u64) {
        self.work.charge(now_ms, elapsed_us);
    }

    /// Returns how long the peer has to wait, and for what limit; `None` if it may go on.
    pub(super) fn poll_wait(&mut self, now_ms: u64) -> Option<(u64, Limit)> {
        let waits = [
            (self.frames.wait_ms(now_ms), Limit::Frames),
            (self.bytes.wait_ms(now_ms), Limit::Bytes),
            (self.work.wait_ms(now_ms), Limit::Work),
        ];
        let longest = waits.into_iter().max_by_key(|(wait_ms, _)| *wait_ms);
        longest.filter(|(wait_ms, _)| *wait_ms > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates {
        frames_per_second: 500,
        bytes_per_second: 1 << 20,
        work_per_mille: 100,
    };

    /// Plays a peer that sends as fast as it may for ten seconds, and returns how many frames came and how long they took.
    fn play(bytes: usize, elapsed_us: u64) -> (u64, u64) {
        let mut limits = Limits::new(RATES);
        let (mut now_ms, mut frames) = (0, 0);
        while now_ms < 10_000 {
            match limits.poll_wait(now_ms) {
                Some((wait_ms, _)) => now_ms += wait_ms,
                None => {
                    limits.handle_frame(now_ms, bytes);
                    limits.handle_work(now_ms, elapsed_us);
                    frames += 1;
                }
            }
        }
        (frames, frames * elapsed_us / 1_000)
    }

    #[test]
    fn a_flood_of_small_frames_is_held_to_their_number() {
        let (frames, _) = play(12, 10);
        assert!((5_900..=6_100).contains(&frames), "{frames}");
    }

    #[test]
    fn a_flood_of_large_frames_is_held_to_their_bytes() {
        let (frames, _) = play(1 << 20, 10);
        assert!((11..=13).contains(&frames), "{frames}");
    }

    #[test]
    fn frames_that_take_long_get_their_share_of_the_time() {
        let (_, busy_ms) = play(12, 20_000);
        assert!(busy_ms <= 1_300, "{busy_ms} ms of 10 s");
    }

    #[test]
    fn an_honest_peer_never_waits() {
        let mut limits = Limits::new(RATES);
        // A round of a snapshot every hundred milliseconds, a hundred times as often as is usual.
        for now_ms in (0..60_000).step_by(100) {
            for _ in 0..4 {
                assert_eq!(limits.poll_wait(now_ms), None);
                limits.handle_frame(now_ms, 10_000);
                limits.handle_work(now_ms, 500);
            }
        }
    }
}
