//! What each peer has already, so that only what is new is sent (A-47…A-49).
//!
//! Both ends of a link remember a few of the checkpoints that went over it. An asker names the last one it holds; the
//! answer is the difference to that one, or a few bytes if there is none. If the answerer does not know the base any
//! more, or the asker holds none, the checkpoint is sent whole.

use std::collections::{BTreeMap, VecDeque};

use scry_protocol::compress::{Packed, UnpackError};
use scry_protocol::delta::{ApplyDeltaError, Delta};
use scry_protocol::digest::ShortDigest;
use scry_protocol::limit::BODY_BYTES_MAX;
use scry_protocol::link::peer::{Base, Changed, Full, PeerMessage, Request, Same};
use scry_protocol::{Body, CheckpointNumber, NodeId};

use crate::checkpoint::Time;
use crate::checkpoint::store::Stored;

/// Checkpoints remembered per peer and direction: more than the gathers that may run at once, so that answers may
/// overtake each other.
pub const BASES_MAX: usize = 6;
/// Peers remembered per direction; the one of longest silence goes first.
pub const PEERS_MAX: usize = 1024;
/// Bytes of checkpoints remembered per peer and direction, the newest whatever its size: two of the largest there are.
pub const PEER_BYTES_MAX: usize = 2 * BODY_BYTES_MAX;
/// Bytes remembered per direction over all peers; the peer of longest silence goes first.
pub const BYTES_MAX: usize = 256 << 20;

/// Remembers what went to and came from each peer.
#[derive(Debug, Default)]
pub struct Exchange {
    given: Memory,
    held: Memory,
}

/// Why an answer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadAnswerError {
    /// It builds on a checkpoint, and none was named.
    #[error("the answer builds on a checkpoint that is not here")]
    UnknownBase,
    /// Its number is beyond the end of the range.
    #[error("the answer has no number")]
    NoNumber,
    /// It cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// Its difference does not fit.
    #[error(transparent)]
    Delta(#[from] ApplyDeltaError),
    /// It is too large.
    #[error(transparent)]
    Write(#[from] scry_protocol::checkpoint::WriteCheckpointError),
}

#[derive(Debug, Default)]
struct Memory {
    peers: BTreeMap<NodeId, Remembered>,
    /// Bytes over all peers.
    bytes: usize,
    uses: u64,
}

#[derive(Debug, Default)]
struct Remembered {
    bases: VecDeque<(Base, Body)>,
    /// Bytes of all of them; equal ones that share their content are counted once each all the same.
    bytes: usize,
    used: u64,
}

impl Exchange {
    /// Makes the shortest answer to a request. Nothing is remembered yet: see [`handle_given`](Self::handle_given).
    pub fn answer(&self, now: Time, to: NodeId, request: &Request, stored: &Stored) -> PeerMessage {
        let id = request.id;
        // What answers a request is never older than what was asked for.
        let ahead = stored.number.get() - request.number.get();
        let age_ms = now.millis_since(stored.at);
        let base = request
            .known
            .and_then(|known| self.given.find(to, |base| *base == known));
        if let Some((_, body)) = base {
            if *body == stored.body {
                return Same { id, ahead, age_ms }.into();
            }
            let delta = Delta::between(body.as_bytes(), stored.body.as_bytes());
            if delta.len() < stored.body.len() {
                return Changed {
                    id,
                    ahead,
                    age_ms,
                    delta,
                }
                .into();
            }
        }
        Full {
            id,
            ahead,
            age_ms,
            body: Packed::pack(stored.body.as_bytes().to_vec()),
        }
        .into()
    }

    /// Remembers that a checkpoint went to a peer.
    pub fn handle_given(&mut self, to: NodeId, number: CheckpointNumber, body: &Body) {
        self.given.remember(to, number, body);
    }

    /// Learns which checkpoint a peer holds: older ones need not be kept for it.
    pub fn handle_confirmed(&mut self, peer: NodeId, base: Base) {
        if let Some(remembered) = self.given.peers.get_mut(&peer)
            && let Some(at) = remembered
                .bases
                .iter()
                .position(|(known, _)| *known == base)
        {
            for _ in 0..at {
                self.given.bytes -= remembered.forget_oldest();
            }
        }
    }

    /// Returns the last checkpoint of a peer that is held here.
    pub fn known(&self, peer: NodeId) -> Option<Base> {
        let remembered = self.held.peers.get(&peer)?;
        remembered.bases.back().map(|(base, _)| *base)
    }

    /// Reads a whole checkpoint, the one with this number.
    ///
    /// # Errors
    ///
    /// When it is damaged.
    pub fn read_full(
        &mut self,
        from: NodeId,
        number: CheckpointNumber,
        packed: Packed,
    ) -> Result<Body, ReadAnswerError> {
        let body = Body::from_bytes(packed.unpack(BODY_BYTES_MAX)?)?;
        self.held.remember(from, number, &body);
        Ok(body)
    }

    /// Reads a difference to what the request named.
    ///
    /// # Errors
    ///
    /// When that is not here any more, or the difference does not fit.
    pub fn read_changed(
        &mut self,
        from: NodeId,
        number: CheckpointNumber,
        named: Option<Base>,
        delta: Delta,
    ) -> Result<Body, ReadAnswerError> {
        let base = self.base(from, named)?;
        let body = Body::from_bytes(delta.apply(base.as_bytes())?)?;
        self.held.remember(from, number, &body);
        Ok(body)
    }

    /// Reads that what the request named has not changed.
    ///
    /// # Errors
    ///
    /// When that is not here any more.
    pub fn read_same(
        &mut self,
        from: NodeId,
        number: CheckpointNumber,
        named: Option<Base>,
    ) -> Result<Body, ReadAnswerError> {
        let body = self.base(from, named)?.clone();
        self.held.remember(from, number, &body);
        Ok(body)
    }

    /// Forgets what is held of a peer, so that it is asked for everything.
    pub fn forget_held(&mut self, peer: NodeId) {
        self.held.forget(peer);
    }

    /// Returns how many bytes of checkpoints are remembered.
    pub fn bytes(&self) -> usize {
        self.given.bytes + self.held.bytes
    }

    fn base(&self, from: NodeId, named: Option<Base>) -> Result<&Body, ReadAnswerError> {
        named
            .and_then(|named| self.held.find(from, |base| *base == named))
            .map(|(_, body)| body)
            .ok_or(ReadAnswerError::UnknownBase)
    }
}

impl Memory {
    fn find(&self, peer: NodeId, matches: impl Fn(&Base) -> bool) -> Option<&(Base, Body)> {
        let bases = &self.peers.get(&peer)?.bases;
        bases.iter().rev().find(|(base, _)| matches(base))
    }

    fn remember(&mut self, peer: NodeId, number: CheckpointNumber, body: &Body) {
        self.uses += 1;
        if self.peers.len() >= PEERS_MAX && !self.peers.contains_key(&peer) {
            self.forget_most_silent(peer);
        }
        let remembered = self.peers.entry(peer).or_default();
        remembered.used = self.uses;
        let digest = remembered.digest(body);
        let base = Base { number, digest };
        if let Some(at) = remembered
            .bases
            .iter()
            .position(|(known, _)| *known == base)
            && let Some((_, former)) = remembered.bases.remove(at)
        {
            remembered.bytes -= former.len();
            self.bytes -= former.len();
        }
        remembered.bases.push_back((base, body.clone()));
        remembered.bytes += body.len();
        self.bytes += body.len();
        while remembered.bases.len() > BASES_MAX
            || (remembered.bytes > PEER_BYTES_MAX && remembered.bases.len() > 1)
        {
            self.bytes -= remembered.forget_oldest();
        }
        while self.bytes > BYTES_MAX && self.peers.len() > 1 {
            self.forget_most_silent(peer);
        }
    }

    fn forget_most_silent(&mut self, but: NodeId) {
        let others = self.peers.iter().filter(|(peer, _)| **peer != but);
        let silent = others.min_by_key(|(_, remembered)| remembered.used);
        if let Some((&silent, _)) = silent {
            self.forget(silent);
        }
    }

    fn forget(&mut self, peer: NodeId) {
        if let Some(remembered) = self.peers.remove(&peer) {
            self.bytes -= remembered.bytes;
        }
    }
}

impl Remembered {
    /// Forgets the oldest, and returns how many bytes it had.
    fn forget_oldest(&mut self) -> usize {
        let bytes = self.bases.pop_front().map_or(0, |(_, body)| body.len());
        self.bytes -= bytes;
        bytes
    }

    fn digest(&self, body: &Body) -> ShortDigest {
        self.bases
            .iter()
            .find(|(_, known)| known.shares_with(body))
            .map_or_else(|| body.digest().short(), |(base, _)| base.digest)
    }
}

#[cfg(test)]
mod tests {
    use scry_protocol::frame;
    use scry_protocol::link::peer::RequestId;

    use super::*;

    const A: NodeId = NodeId::new(1);
    const B: NodeId = NodeId::new(2);
    const ME: NodeId = NodeId::new(9);

    fn stored(number: u32, fill: u8) -> Stored {
        let mut bytes: Vec<u8> = (0..1000u32).map(|at| (at * at / 7) as u8).collect();
        bytes[500..508].fill(fill);
        Stored {
            number: number.into(),
            after: number.saturating_sub(1).into(),
            at: Time::default(),
            body: Body::from_bytes(bytes).expect("small"),
        }
    }

    /// Lets `asker` get a checkpoint from `answerer`, and returns how many bytes the answer took.
    fn ask(asker: &mut Exchange, name: NodeId, answerer: &mut Exchange, stored: &Stored) -> usize {
        let request = Request {
            id: RequestId::new(1),
            number: stored.number,
            known: asker.known(ME),
        };
        if let Some(known) = request.known {
            answerer.handle_confirmed(name, known);
        }
        let answer = answerer.answer(Time::default(), name, &request, stored);
        answerer.handle_given(name, stored.number, &stored.body);
        let length = frame::encode(&answer).expect("small").len();
        let (number, named) = (stored.number, request.known);
        let body = match answer {
            PeerMessage::Full(full) => asker.read_full(ME, number, full.body),
            PeerMessage::Changed(changed) => asker.read_changed(ME, number, named, changed.delta),
            PeerMessage::Same(_) => asker.read_same(ME, number, named),
            other => unreachable!("{other:?} is no answer"),
        };
        assert_eq!(body.expect("readable"), stored.body);
        length
    }

    #[test]
    fn a_47_a_small_change_costs_little() {
        let (mut a, mut me) = (Exchange::default(), Exchange::default());
        let full = ask(&mut a, A, &mut me, &stored(1, 1));
        let change = ask(&mut a, A, &mut me, &stored(2, 2));
        assert!(full > 300 && change < 50, "{full}, {change}");
    }

    #[test]
    fn a_48_a_receiver_that_lost_the_base_gets_everything() {
        let (mut a, mut me) = (Exchange::default(), Exchange::default());
        ask(&mut a, A, &mut me, &stored(1, 1));
        ask(&mut a, A, &mut me, &stored(2, 2));
        let mut restarted = Exchange::default();
        assert!(ask(&mut restarted, A, &mut me, &stored(3, 3)) > 300);
        // The answerer may lose it as well.
        let mut me = Exchange::default();
        assert!(ask(&mut restarted, A, &mut me, &stored(4, 4)) > 300);
        // An answer that was lost on its way leaves the older base in use.
        let request = Request {
            id: RequestId::new(1),
            number: 5.into(),
            known: restarted.known(ME),
        };
        me.answer(Time::default(), A, &request, &stored(5, 5));
        me.handle_given(A, 5.into(), &stored(5, 5).body);
        assert!(ask(&mut restarted, A, &mut me, &stored(6, 6)) < 50);
    }

    #[test]
    fn a_49_an_unchanged_checkpoint_costs_a_few_bytes_for_each_peer_apart() {
        let (mut a, mut b, mut me) = (
            Exchange::default(),
            Exchange::default(),
            Exchange::default(),
        );
        ask(&mut a, A, &mut me, &stored(1, 7));
        let quiet: Vec<usize> = (2..6)
            .map(|number| ask(&mut a, A, &mut me, &stored(number, 7)))
            .collect();
        assert_eq!(quiet, [quiet[0]; 4]);
        assert!(quiet[0] <= 10, "{}", quiet[0]);
        // What A has says nothing about B.
        assert!(ask(&mut b, B, &mut me, &stored(6, 7)) > 300);
        assert_eq!(ask(&mut b, B, &mut me, &stored(7, 7)), quiet[0]);
    }

    #[test]
    fn a_wrong_base_is_refused() {
        let mut a = Exchange::default();
        let named = Some(Base {
            number: 1.into(),
            digest: stored(1, 1).body.digest().short(),
        });
        for named in [named, None] {
            assert!(matches!(
                a.read_same(ME, 2.into(), named),
                Err(ReadAnswerError::UnknownBase)
            ));
        }
    }

    /// However large and many the states, no more is remembered than is said; the newest of a peer always is.
    #[test]
    fn what_is_remembered_is_bounded_by_bytes() {
        let mut exchange = Exchange::default();
        for number in 1..=3u32 {
            for peer in 0..40 {
                let body = Body::from_bytes(vec![number as u8; BODY_BYTES_MAX])
                    .expect("just small enough");
                let peer = NodeId::new(peer);
                exchange.handle_given(peer, number.into(), &body);
                let remembered = &exchange.given.peers[&peer];
                assert!(remembered.bytes <= PEER_BYTES_MAX && !remembered.bases.is_empty());
                assert!(exchange.bytes() <= BYTES_MAX);
            }
        }
        let bytes = exchange.given.peers.values().flat_map(|it| &it.bases);
        let bytes: usize = bytes.map(|(_, body)| body.len()).sum();
        assert_eq!(bytes, exchange.bytes());
    }
}
