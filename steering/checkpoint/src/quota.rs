//! How many bytes may be spent on checkpoints: an absolute rate, a share of all that the node sends, or both.
//!
//! Only what goes out is limited (CrystalBall §3.1 protects the outbound link); what comes in is limited by asking less
//! often.

use std::collections::VecDeque;

use crate::Time;

/// The limits. None means none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    /// A rate.
    pub absolute: Option<Absolute>,
    /// A share of all bytes sent.
    pub share: Option<Share>,
}

/// So many bits a second, with a reserve that quiet times fill.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Absolute {
    /// The rate.
    pub bits_per_second: u64,
    /// How much may be sent at once after a quiet time.
    pub burst_bytes: u64,
}

/// So much of everything the node sends, checkpoints included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Thousandths.
    pub per_mille: u32,
    /// Over the last so many milliseconds.
    pub window_ms: u64,
}

/// Keeps account of what was sent.
#[derive(Debug)]
pub struct Quota {
    limits: Limits,
    bucket: Bucket,
    window: Window,
}

/// A token bucket. A token is a bit in a thousandth of a second at one bit a second, so that nothing is rounded.
#[derive(Debug)]
struct Bucket {
    tokens: u64,
    filled: Time,
}

/// Bytes of the recent past, in slices of the window.
#[derive(Debug)]
struct Window {
    slices: VecDeque<(u64, u64, u64)>,
    service_bytes: u64,
    checkpoint_bytes: u64,
}

const SLICES: u64 = 16;
const TOKENS_PER_BYTE: u64 = 8 * 1000;

impl Quota {
    /// Begins with a full reserve.
    pub fn new(limits: Limits) -> Self {
        let tokens = limits
            .absolute
            .map_or(0, |absolute| absolute.burst_bytes * TOKENS_PER_BYTE);
        Self {
            limits,
            bucket: Bucket {
                tokens,
                filled: Time::default(),
            },
            window: Window {
                slices: VecDeque::new(),
                service_bytes: 0,
                checkpoint_bytes: 0,
            },
        }
    }

    /// Learns what the service sent.
    pub fn handle_service_bytes(&mut self, now: Time, bytes: u64) {
        if let Some(share) = self.limits.share {
            self.window.advance(now, share);
            self.window.add(now, share, bytes, 0);
        }
    }

    /// Tells whether so many bytes could be spent now.
    pub fn affords(&mut self, now: Time, bytes: u64) -> bool {
        let Limits { absolute, share } = self.limits;
        absolute.is_none_or(|absolute| {
            self.bucket.fill(now, absolute);
            self.bucket.tokens >= bytes.saturating_mul(TOKENS_PER_BYTE)
        }) && share.is_none_or(|share| {
            self.window.advance(now, share);
            let spent = self.window.checkpoint_bytes + bytes;
            let all = self.window.service_bytes + spent;
            spent.saturating_mul(1000) <= all.saturating_mul(share.per_mille.into())
        })
    }

    /// Spends bytes if they are within the limits, and tells whether they were.
    pub fn spend(&mut self, now: Time, bytes: u64) -> bool {
        if !self.affords(now, bytes) {
            return false;
        }
        if self.limits.absolute.is_some() {
            self.bucket.tokens -= bytes * TOKENS_PER_BYTE;
        }
        if let Some(share) = self.limits.share {
            self.window.add(now, share, 0, bytes);
        }
        true
    }
}

impl Bucket {
    fn fill(&mut self, now: Time, absolute: Absolute) {
        let gained = now
            .millis_since(self.filled)
            .saturating_mul(absolute.bits_per_second);
        self.tokens = self
            .tokens
            .saturating_add(gained)
            .min(absolute.burst_bytes * TOKENS_PER_BYTE);
        self.filled = self.filled.max(now);
    }
}

impl Window {
    fn slice(now: Time, share: Share) -> u64 {
        now.as_millis() / (share.window_ms / SLICES).max(1)
    }

    fn advance(&mut self, now: Time, share: Share) {
        let present = Self::slice(now, share);
        while let Some(&(slice, service, checkpoint)) = self.slices.front()
            && slice + SLICES <= present
        {
            self.service_bytes -= service;
            self.checkpoint_bytes -= checkpoint;
            self.slices.pop_front();
        }
    }

    fn add(&mut self, now: Time, share: Share, service: u64, checkpoint: u64) {
        let present = Self::slice(now, share);
        match self.slices.back_mut() {
            Some(last) if last.0 >= present => {
                last.1 += service;
                last.2 += checkpoint;
            }
            _ => self.slices.push_back((present, service, checkpoint)),
        }
        self.service_bytes += service;
        self.checkpoint_bytes += checkpoint;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_51_the_share_is_never_above_the_setting_over_the_window() {
        let share = Share {
            per_mille: 50,
            window_ms: 1600,
        };
        let mut quota = Quota::new(Limits {
            absolute: None,
            share: Some(share),
        });
        let mut sent = Vec::new();
        let mut seed = 7u64;
        let (mut granted, mut refused) = (0, 0);
        for millis in 0..20_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let now = Time::from_millis(millis);
            // The service is busy only every other four seconds.
            if millis / 4000 % 2 == 0 {
                quota.handle_service_bytes(now, seed >> 58);
                sent.push((millis, seed >> 58, 0));
            }
            let bytes = (seed >> 32) % 40;
            if !quota.spend(now, bytes) {
                refused += 1;
                continue;
            }
            granted += 1;
            sent.push((millis, 0, bytes));
            let first = (millis / 100).saturating_sub(15) * 100;
            let recent = sent.iter().rev().take_while(|(at, ..)| *at >= first);
            let (service, checkpoints) =
                recent.fold((0, 0), |sum, (_, s, c)| (sum.0 + s, sum.1 + c));
            assert!(
                checkpoints * 1000 <= (service + checkpoints) * 50,
                "at {millis}: {checkpoints} of {service}"
            );
        }
        assert!(granted > 500 && refused > 500, "{granted}, {refused}");
    }

    #[test]
    fn a_52_the_rate_holds_over_any_stretch_of_time() {
        let absolute = Absolute {
            bits_per_second: 10_000,
            burst_bytes: 500,
        };
        let mut quota = Quota::new(Limits {
            absolute: Some(absolute),
            share: None,
        });
        let mut sent: Vec<(u64, u64)> = Vec::new();
        for millis in (0..30_000).step_by(7) {
            let bytes = 20 + millis % 90;
            if quota.spend(Time::from_millis(millis), bytes) {
                sent.push((millis, bytes));
            }
        }
        for (first, &(start, _)) in sent.iter().enumerate() {
            let mut sum = 0;
            for &(at, bytes) in &sent[first..] {
                sum += bytes;
                assert!(sum * 8000 <= (at - start) * 10_000 + 500 * 8000);
            }
        }
        let total: u64 = sent.iter().map(|(_, bytes)| bytes).sum();
        assert!(
            total * 8 > 30 * 10_000 * 9 / 10,
            "the rate is used: {total}"
        );
    }

    #[test]
    fn without_limits_everything_is_granted() {
        let mut quota = Quota::new(Limits::default());
        assert!(quota.spend(Time::default(), u64::MAX / 2));
    }
}
