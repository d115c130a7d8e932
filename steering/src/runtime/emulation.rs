//! Delay, loss and rate that a link is given on purpose, so that a cluster on one machine meets a real network.
//!
//! A link leads from this node to one peer; what its sender does to it is all that happens to it. Datagrams may be lost
//! and overtake each other, messages of a connection are late in order. The same seed and the same sends in the same
//! order lose the same datagrams.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use scry_protocol::NodeId;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use scry_engine::model::handler::mix;

/// What is done to what goes over a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Emulation {
    /// How much later everything arrives, in milliseconds.
    pub delay_ms: u64,
    /// Up to how much later still, drawn for each message, in milliseconds.
    pub jitter_ms: u64,
    /// Which share of the datagrams is lost, from 0 to 1.
    pub loss: f64,
    /// How much the link carries, in kilobits a second; 0 for as much as there is.
    pub rate_kbps: u64,
}

/// What becomes of one message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Passage {
    /// It leaves at once.
    Now,
    /// It leaves at this moment.
    At(Instant),
    /// It never leaves.
    Lost,
}

/// The emulated side of all links of a node.
#[derive(Debug)]
pub(super) struct Emulator {
    seed: u64,
    drawn: u64,
    every: Emulation,
    links: BTreeMap<NodeId, Emulation>,
    /// When the link will have carried all it was given, where it has a rate.
    busy_until: BTreeMap<NodeId, Instant>,
    cut: BTreeSet<NodeId>,
}

impl Emulation {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Emulator {
    pub(super) fn new(seed: u64, every: Emulation) -> Self {
        Self {
            seed,
            drawn: 0,
            every,
            links: BTreeMap::new(),
            busy_until: BTreeMap::new(),
            cut: BTreeSet::new(),
        }
    }

    /// Changes the links to some peers, or all links if none are named.
    pub(super) fn set(&mut self, emulation: Emulation, peers: &[NodeId]) {
        if peers.is_empty() {
            self.every = emulation;
            self.links.clear();
        }
        self.links
            .extend(peers.iter().map(|&peer| (peer, emulation)));
        self.busy_until.clear();
    }

    /// Lets nothing pass between this node and these peers, in addition to those cut off before.
    pub(super) fn cut(&mut self, peers: &[NodeId]) {
        self.cut.extend(peers);
    }

    /// Lets everything pass again, and returns the peers that were cut off.
    pub(super) fn heal(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.cut)
    }

    pub(super) fn is_cut(&self, peer: NodeId) -> bool {
        !self.cut.is_empty() && self.cut.contains(&peer)
    }

    /// Decides about a datagram.
    pub(super) fn datagram(&mut self, to: NodeId, bytes: usize, now: Instant) -> Passage {
        if self.is_cut(to) {
            return Passage::Lost;
        }
        let link = self.link(to);
        if link.is_none() {
            return Passage::Now;
        }
        // 53 bits are all a float holds: the draw is below 1 for every word.
        if link.loss > 0.0 && ((self.draw() >> 11) as f64) < link.loss * (1u64 << 53) as f64 {
            return Passage::Lost;
        }
        self.passage(link, to, bytes, now)
    }

    /// Decides about a message of a connection. A cut is the connection's business: its messages wait.
    pub(super) fn segment(&mut self, to: NodeId, bytes: usize, now: Instant) -> Passage {
        let link = self.link(to);
        if link.is_none() {
            return Passage::Now;
        }
        self.passage(link, to, bytes, now)
    }

    fn link(&self, to: NodeId) -> Emulation {
        self.links.get(&to).copied().unwrap_or(self.every)
    }

    fn passage(&mut self, link: Emulation, to: NodeId, bytes: usize, now: Instant) -> Passage {
        let mut at = now + Duration::from_millis(link.delay_ms);
        if link.jitter_ms > 0 {
            let micros = u128::from(link.jitter_ms) * 1000;
            let drawn = (u128::from(self.draw()) * micros) >> 64;
            at += Duration::from_micros(u64::try_from(drawn).unwrap_or(u64::MAX));
        }
        // A kilobit a second is a bit a millisecond.
        if let Some(micros) = (bytes as u64 * 8_000).checked_div(link.rate_kbps) {
            let busy = self.busy_until.entry(to).or_insert(now);
            *busy = (*busy).max(now) + Duration::from_micros(micros);
            at += busy.duration_since(now);
        }
        if at == now {
            return Passage::Now;
        }
        Passage::At(at)
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed ^ mix(self.drawn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId::new(2);
    const OTHER: NodeId = NodeId::new(3);

    fn lossy(loss: f64) -> Emulation {
        Emulation {
            loss,
            ..Emulation::default()
        }
    }

    fn lost(seed: u64, loss: f64) -> Vec<bool> {
        let mut emulator = Emulator::new(seed, lossy(loss));
        let now = Instant::now();
        (0..2000)
            .map(|_| emulator.datagram(PEER, 100, now) == Passage::Lost)
            .collect()
    }

    #[test]
    fn the_same_seed_loses_the_same_and_about_the_share_asked_for() {
        assert_eq!(lost(7, 0.25), lost(7, 0.25));
        assert_ne!(lost(7, 0.25), lost(8, 0.25));
        let count = lost(7, 0.25).iter().filter(|lost| **lost).count();
        assert!((400..600).contains(&count), "{count} of 2000");
        assert!(lost(7, 1.0).iter().all(|lost| *lost));
        assert!(!lost(7, 0.0).contains(&true));
    }

    #[test]
    fn messages_of_a_connection_are_never_lost() {
        let mut emulator = Emulator::new(1, lossy(1.0));
        emulator.cut(&[PEER]);
        let now = Instant::now();
        assert_ne!(emulator.segment(PEER, 100, now), Passage::Lost);
    }

    #[test]
    fn a_rate_spaces_what_is_sent_at_once() {
        let mut emulator = Emulator::new(
            1,
            Emulation {
                delay_ms: 10,
                rate_kbps: 8,
                ..Emulation::default()
            },
        );
        let now = Instant::now();
        let after = |ms| Passage::At(now + Duration::from_millis(ms));
        // A kilobyte a second and a hundred bytes each.
        assert_eq!(emulator.datagram(PEER, 100, now), after(110));
        assert_eq!(emulator.datagram(PEER, 100, now), after(210));
        assert_eq!(emulator.datagram(OTHER, 100, now), after(110));
    }

    #[test]
    fn links_differ_and_a_cut_heals() {
        let mut emulator = Emulator::new(1, Emulation::default());
        let now = Instant::now();
        emulator.set(lossy(1.0), &[PEER]);
        assert_eq!(emulator.datagram(PEER, 1, now), Passage::Lost);
        assert_eq!(emulator.datagram(OTHER, 1, now), Passage::Now);
        emulator.cut(&[OTHER]);
        assert_eq!(emulator.datagram(OTHER, 1, now), Passage::Lost);
        assert_eq!(emulator.heal().into_iter().collect::<Vec<_>>(), [OTHER]);
        assert_eq!(emulator.datagram(OTHER, 1, now), Passage::Now);
        emulator.set(Emulation::default(), &[]);
        assert_eq!(emulator.datagram(PEER, 1, now), Passage::Now);
    }
}
