//! What each peer has already, so that only what is new is sent (A-47…A-49).
//!
//! Both ends of a link remember a few of the checkpoints that went over it. An asker names the last one it holds; the
//! answer is the difference to that one, or a few bytes if there is none. If the answerer does not know the base any
//! more, or the asker holds none, the checkpoint is sent whole.

use std::collections::{BTreeMap, VecDeque};

use scry_protocol::compress::{Packed, UnpackError};
use scry_protocol::delta::{ApplyDeltaError, Delta};
use scry_protocol::digest::ShortDigest;
use scry_protocol::limit::{BODY_BYTES_MAX, MEMBERS_MAX};
use scry_protocol::link::peer::{Base, Changed, Full, PeerMessage, Request, Same};
use scry_protocol::{Body, CheckpointNumber, NodeId};

use crate::Time;
use crate::store::Stored;

/// Checkpoints remembered per peer and direction: more than the gathers that may run at once, so that answers may
/// overtake each other.
pub const BASES_MAX: usize = 6;
/// Peers remembered per direction; the one of longest silence goes first.
pub const PEERS_MAX: usize = MEMBERS_MAX;
/// Bytes remembered per direction if nobody says otherwise.
pub const BYTES_DEFAULT: usize = 64 << 20;

/// Remembers what went to and came from each peer.
#[derive(Debug)]
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

/// Checkpoints by peer, within a number of bytes. What is forgotten is sent whole the next time.
#[derive(Debug)]
struct Memory {
    peers: BTreeMap<NodeId, Remembered>,
    uses: u64,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Remembered {
    bases: VecDeque<(Base, Body)>,
    used: u64,
}

impl Default for Exchange {
    fn default() -> Self {
        Self::new(BYTES_DEFAULT)
    }
}

impl Exchange {
    /// Remembers nothing yet, and never more than so many bytes in each direction.
    pub fn new(bytes_max: usize) -> Self {
        let memory = || Memory {
            peers: BTreeMap::new(),
            uses: 0,
            bytes_max,
        };
        Self {
            given: memory(),
            held: memory(),
        }
    }

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
            remembered.bases.drain(..at);
        }
    }

    /// Returns the last checkpoint of a peer that is held here. Who names it in a request keeps it until the answer: it may be
    /// forgotten here meanwhile.
    pub fn known(&self, peer: NodeId) -> Option<(Base, Body)> {
        let remembered = self.held.peers.get(&peer)?;
        remembered.bases.back().cloned()
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
    /// When it named nothing, or the difference does not fit.
    pub fn read_changed(
        &mut self,
        from: NodeId,
        number: CheckpointNumber,
        named: Option<&Body>,
        delta: Delta,
    ) -> Result<Body, ReadAnswerError> {
        let base = named.ok_or(ReadAnswerError::UnknownBase)?;
        let body = Body::from_bytes(delta.apply(base.as_bytes())?)?;
        self.held.remember(from, number, &body);
        Ok(body)
    }

    /// Reads that what the request named has not changed.
    ///
    /// # Errors
    ///
    /// When it named nothing.
    pub fn read_same(
        &mut self,
        from: NodeId,
        number: CheckpointNumber,
        named: Option<&Body>,
    ) -> Result<Body, ReadAnswerError> {
        let body = named.ok_or(ReadAnswerError::UnknownBase)?;
        self.held.remember(from, number, body);
        Ok(body.clone())
    }

    /// Forgets what is held of a peer, so that it is asked for everything.
    pub fn forget_held(&mut self, peer: NodeId) {
        self.held.peers.remove(&peer);
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
            let silent = self
                .peers
                .iter()
                .min_by_key(|(_, remembered)| remembered.used)
                .map(|(&peer, _)| peer)
                .expect("there are too many");
            self.peers.remove(&silent);
        }
        let remembered = self.peers.entry(peer).or_default();
        remembered.used = self.uses;
        let digest = remembered.digest(body);
        let base = Base { number, digest };
        remembered.bases.retain(|(known, _)| *known != base);
        remembered.bases.push_back((base, body.clone()));
        if remembered.bases.len() > BASES_MAX {
            remembered.bases.pop_front();
        }
        while self.bytes() > self.bytes_max {
            self.forget_one();
        }
    }

    /// Returns how many bytes are remembered. A checkpoint that several share is there once.
    fn bytes(&self) -> usize {
        let bodies = self.peers.values().flat_map(|it| &it.bases);
        let mut pieces: Vec<&[u8]> = bodies.map(|(_, body)| body.as_bytes()).collect();
        pieces.sort_unstable_by_key(|piece| piece.as_ptr());
        pieces.dedup_by_key(|piece| piece.as_ptr());
        pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Forgets what is missed least: an older checkpoint where there is a newer one, or else all of a peer; of the peer of
    /// longest silence.
    fn forget_one(&mut self) {
        let peers = self.peers.iter();
        let longest_silent = |several: bool| {
            let peers = peers
                .clone()
                .filter(|(_, it)| !several || it.bases.len() > 1);
            peers.min_by_key(|(_, it)| it.used).map(|(&peer, _)| peer)
        };
        if let Some(peer) = longest_silent(true) {
            self.peers.get_mut(&peer).map(|it| it.bases.pop_front());
        } else if let Some(peer) = longest_silent(false) {
            self.peers.remove(&peer);
        }
    }
}

impl Remembered {
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
            known: asker.known(ME).map(|(base, _)| base),
        };
        let named = asker.known(ME).map(|(_, body)| body);
        if let Some(known) = request.known {
            answerer.handle_confirmed(name, known);
        }
        let answer = answerer.answer(Time::default(), name, &request, stored);
        answerer.handle_given(name, stored.number, &stored.body);
        let length = frame::encode(&answer).expect("small").len();
        let (number, named) = (stored.number, named.as_ref());
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
            known: restarted.known(ME).map(|(base, _)| base),
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
    fn an_answer_that_builds_on_nothing_is_refused() {
        let mut a = Exchange::default();
        assert!(matches!(
            a.read_same(ME, 2.into(), None),
            Err(ReadAnswerError::UnknownBase)
        ));
    }

    #[test]
    fn what_is_remembered_is_bounded_by_bytes_and_what_is_forgotten_is_sent_whole() {
        let length = stored(1, 1).body.len();
        // Room for three states.
        let (mut me, mut a) = (Exchange::new(3 * length), Exchange::default());
        for number in 1..10 {
            ask(&mut a, A, &mut me, &stored(number, number as u8));
            ask(
                &mut Exchange::default(),
                B,
                &mut me,
                &stored(number, 100 + number as u8),
            );
            assert!(me.given.bytes() <= 3 * length);
        }
        // Each peer has its newest state left; the older ones went.
        assert!(ask(&mut a, A, &mut me, &stored(10, 99)) < 50);
        // One state that goes to many is there once.
        let shared = stored(11, 11);
        for peer in 20..40 {
            me.handle_given(NodeId::new(peer), shared.number, &shared.body);
        }
        assert_eq!(me.given.peers.len(), 22);
        // Without room for any, everything is sent whole, and that is all.
        let (mut none, mut a) = (Exchange::new(length / 2), Exchange::new(length / 2));
        for number in 1..4 {
            assert!(ask(&mut a, A, &mut none, &stored(number, 7)) > 300);
        }
        assert_eq!((none.given.bytes(), a.held.bytes()), (0, 0));
    }
}
