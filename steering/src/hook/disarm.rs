//! The disarmer: a filter that blocks too much is more likely wrong than right, and only watches from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much a filter may block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Disarm {
    /// More acts of one filter within a minute disarm it.
    pub acts_per_minute_max: u64,
    /// A greater share of a peer's messages blocked within a minute, by whichever filters, disarms the filter that blocks
    /// the next.
    pub peer_percent_max: u64,
    /// The share counts from so many messages on: a peer that only repeats the one message that is blocked is no sign of
    /// a bad filter yet.
    pub peer_messages_min: u64,
}

impl Default for Disarm {
    fn default() -> Self {
        Self {
            acts_per_minute_max: 120,
            peer_percent_max: 50,
            peer_messages_min: 100,
        }
    }
}

const WINDOW_MS: u64 = 60_000;

/// What came from one peer, and what of it was kept from its handler.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) received: AtomicU64,
    pub(super) blocked: AtomicU64,
}

/// One filter's acts of the present minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    since_ms: Option<u64>,
    acts: u64,
    received_before: u64,
    blocked_before: u64,
}

impl Window {
    /// Counts an act that is about to happen, or returns false if it would be too much.
    pub(super) fn allow(&mut self, now_ms: u64, limits: &Disarm, peer: Option<&Arc<Peer>>) -> bool {
        let counts = peer.map_or((0, 0), |peer| {
            (
                peer.received.load(Ordering::Relaxed),
                peer.blocked.load(Ordering::Relaxed),
            )
        });
        if self
            .since_ms
            .is_none_or(|since| now_ms.saturating_sub(since) >= WINDOW_MS)
        {
            // The message in question has been counted as received already.
            *self = Self {
                since_ms: Some(now_ms),
                acts: 0,
                received_before: counts.0.saturating_sub(1),
                blocked_before: counts.1,
            };
        }
        let received = counts.0 - self.received_before.min(counts.0);
        let blocked = counts.1 - self.blocked_before.min(counts.1) + 1;
        let too_much_of_peer = received >= limits.peer_messages_min
            && blocked.saturating_mul(100) > received.saturating_mul(limits.peer_percent_max);
        if self.acts >= limits.acts_per_minute_max || too_much_of_peer {
            return false;
        }
        self.acts += 1;
        if let Some(peer) = peer {
            peer.blocked.fetch_add(1, Ordering::Relaxed);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Disarm = Disarm {
        acts_per_minute_max: 30,
        peer_percent_max: 50,
        peer_messages_min: 10,
    };

    #[test]
    fn so_many_acts_a_minute_and_no_more() {
        let mut window = Window::default();
        assert_eq!(
            (0..40).filter(|_| window.allow(5, &LIMITS, None)).count(),
            30
        );
        assert!(!window.allow(60_004, &LIMITS, None));
        assert!(window.allow(60_005, &LIMITS, None));
    }

    #[test]
    fn half_of_a_peers_messages_and_no_more() {
        let peer = Arc::new(Peer::default());
        let mut window = Window::default();
        let mut allowed = Vec::new();
        for _ in 0..12 {
            peer.received.fetch_add(1, Ordering::Relaxed);
            allowed.push(window.allow(0, &LIMITS, Some(&peer)));
        }
        // Nine of nine are too few to judge by; the tenth is too much, and so is every one after it.
        assert_eq!(allowed, [vec![true; 9], vec![false; 3]].concat());

        let mut window = Window::default();
        for message in 0..40 {
            peer.received.fetch_add(1, Ordering::Relaxed);
            if message % 2 == 0 {
                assert!(window.allow(0, &LIMITS, Some(&peer)) || message < 12);
            }
        }
    }
}
