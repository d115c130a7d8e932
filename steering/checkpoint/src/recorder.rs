//! The host's part: its checkpoint number, the stamp on every message, and the checkpoint before the handler.
//!
//! It takes no decision about storage, peers or snapshots; whoever holds it streams the checkpoints it makes to the
//! agent. A checkpoint and the noting of what made it necessary are one call, so that they cannot be done in the wrong
//! order.

use std::collections::BTreeMap;

use scry_protocol::channel::{Acknowledged, Envelope, Place};
use scry_protocol::checkpoint::WriteCheckpointError;
use scry_protocol::limit::NEIGHBORS_NAMED_MAX;
use scry_protocol::link::host::{Arrived, Checkpoint};
use scry_protocol::{CheckpointNumber, Content, Incarnation, Moment, NodeId, Past, Transport};

use crate::channel::{Channels, Lane, Options};
use crate::leeway::{self, Leeway};
use crate::past::{KnownPast, PastOptions};
use crate::{Messages, Time};

/// Acknowledgements of a later logical time that are kept. They save bytes only, so that losing one is no harm.
const EARLY_MAX: usize = 4096;

/// For so long nothing is judged after a member was further behind than it can be.
const ASTRAY_MS: u64 = 30_000;
/// Numbers that are so far apart are those of a newcomer and an old member, or one of them is a mistake.
const FAR_APART: u64 = 1 << 40;

/// What a checkpoint captures of the service, encoded by the service.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Capture {
    /// Its state.
    pub state: Vec<u8>,
    /// Its armed timers.
    pub timers: Vec<u8>,
    /// Its neighbors, if it knows them.
    pub neighbors: Option<Vec<NodeId>>,
}

/// Stamps that were not believed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RefusedStamps {
    /// Those of senders that are not members.
    pub strangers: u64,
    /// Those with a number further ahead than an honest one can be.
    pub implausible: u64,
    /// Those that say more of the past than their sender can know.
    pub pasts: u64,
    /// The last one: its sender, and the number it carried.
    pub last: Option<(NodeId, CheckpointNumber)>,
}

impl RefusedStamps {
    /// Returns how many there were.
    pub fn count(&self) -> u64 {
        self.strangers + self.implausible + self.pasts
    }
}

/// Returns as many neighbors as a frame has room for: to name too many must not cost the checkpoint.
pub fn as_named(mut neighbors: Option<Vec<NodeId>>) -> Option<Vec<NodeId>> {
    if let Some(neighbors) = &mut neighbors {
        neighbors.truncate(NEIGHBORS_NAMED_MAX);
    }
    neighbors
}

/// Keeps one incarnation's logical time.
#[derive(Debug)]
pub struct Recorder {
    me: NodeId,
    incarnation: Incarnation,
    leeway: Leeway,
    refused: RefusedStamps,
    /// Another incarnation of this node that somebody knows of, with numbers of this one.
    outlived: Option<Incarnation>,
    /// When a member was last further behind than it can be.
    astray: Option<Time>,
    /// When it last went ahead because of a number that was not believed.
    leapt: Option<Time>,
    everything: Past,
    /// The greatest number that was far below another one.
    left_behind: CheckpointNumber,
    born: CheckpointNumber,
    number: CheckpointNumber,
    channels: Option<Channels>,
    past: KnownPast,
    /// Acknowledgements read from peers' checkpoints of a later logical time, until this node gets there.
    early: BTreeMap<(NodeId, Transport, u32), (CheckpointNumber, Acknowledged)>,
    opened_count: u32,
    taken_count: u64,
    forced_count: u64,
}

impl Recorder {
    /// Begins an incarnation with its first checkpoint.
    ///
    /// `born` must be above every number an earlier incarnation of this node had, or a snapshot gathered across the restart may
    /// have to be thrown away. Channel state is kept if there are options for it.
    ///
    /// # Errors
    ///
    /// When the state is too large to be a checkpoint.
    pub fn begin(
        now: Time,
        incarnation: Incarnation,
        born: CheckpointNumber,
        channels: Option<Options>,
        past: PastOptions,
        capture: impl FnOnce() -> Capture,
    ) -> (Self, Result<Checkpoint, WriteCheckpointError>) {
        let mut recorder = Self {
            me: past.me,
            incarnation,
            leeway: Leeway::new(now),
            refused: RefusedStamps::default(),
            outlived: None,
            astray: None,
            leapt: None,
            everything: Past::up_to(CheckpointNumber::MAX),
            left_behind: CheckpointNumber::ZERO,
            born,
            number: born.previous(),
            channels: channels.map(|options| Channels::new(incarnation, options)),
            past: KnownPast::begin(past, born),
            early: BTreeMap::new(),
            opened_count: 0,
            taken_count: 0,
            forced_count: 0,
        };
        // A start changes what the incarnation before it showed, and comes before the first checkpoint.
        recorder.note_change();
        let first = recorder.take(now, born, capture);
        (recorder, first)
    }

    /// Returns the present number.
    pub fn number(&self) -> CheckpointNumber {
        self.number
    }

    /// Returns the number this incarnation began with.
    pub fn born(&self) -> CheckpointNumber {
        self.born
    }

    /// Returns which incarnation this is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns what lies in the node's past.
    pub fn past(&self) -> &Past {
        self.past.past()
    }

    /// Returns the past to judge by: everything, while this node may be the one with the absurd number, since members are
    /// further behind it than they can be.
    pub fn past_to_judge_by(&self, now: Time) -> &Past {
        match self
            .astray
            .is_some_and(|at| now.millis_since(at) < ASTRAY_MS)
        {
            true => &self.everything,
            false => self.past.past(),
        }
    }

    /// Returns a number that is greater after each change of the past: while it is the same, a connection that was told
    /// of the past has nothing new to hear.
    #[inline]
    pub fn past_version(&self) -> u64 {
        self.past.version()
    }

    /// Tells whether it is noted already that what properties read of the node changed since its last checkpoint.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.past.has_changed(self.moment())
    }

    /// Notes that what properties read of the node has changed, or may have. Whoever does not look says so after every
    /// handler.
    pub fn note_change(&mut self) {
        self.past.change(self.moment());
    }

    fn moment(&self) -> Moment {
        Moment {
            incarnation: self.incarnation,
            number: self.number,
        }
    }

    /// Returns how many checkpoints were taken, and how many of them because a message demanded it.
    pub fn counts(&self) -> (u64, u64) {
        (self.taken_count, self.forced_count)
    }

    /// Returns how many stamps were not believed.
    pub fn refused(&self) -> RefusedStamps {
        self.refused
    }

    /// Returns another incarnation of this node that others know of with numbers of this one: then this one should be
    /// [renewed](Self::renew), and they can tell the two apart.
    pub fn outlived(&self) -> Option<Incarnation> {
        self.outlived
    }

    /// Goes on under an incarnation after the present one and `after`, with the next number or the given one, which may be
    /// lower: most of the others take the present one for a mistake. Returns the first checkpoint.
    ///
    /// # Errors
    ///
    /// When the state is too large; the incarnation begins all the same.
    pub fn renew(
        &mut self,
        now: Time,
        after: Incarnation,
        number: Option<CheckpointNumber>,
        capture: impl FnOnce() -> Capture,
    ) -> Result<Checkpoint, WriteCheckpointError> {
        let latest = match after.is_after(self.incarnation) {
            true => after,
            false => self.incarnation,
        };
        self.incarnation = latest.next();
        self.born = match number {
            // What it has heard of the others meanwhile; further from them than that is what led it astray.
            Some(number) if self.left_behind.get().saturating_sub(number.get()) < FAR_APART => {
                number.max(self.left_behind.next())
            }
            Some(number) => number.next(),
            None => self.number.next(),
        };
        self.left_behind = CheckpointNumber::ZERO;
        if self.born <= self.number {
            self.past.fall(self.born);
            self.astray = None;
            self.leeway = Leeway::new(now);
        }
        if let Some(channels) = &mut self.channels {
            channels.renew(self.incarnation);
        }
        self.early.clear();
        self.outlived = None;
        self.number = self.born.previous();
        self.note_change();
        self.take(now, self.born, capture)
    }

    /// Learns of a message whose sender is not a member: it has no say about numbers, and what it had heard is not known.
    pub fn handle_stranger(&mut self, from: NodeId, number: CheckpointNumber) {
        if number > CheckpointNumber::ZERO {
            self.refused.strangers += 1;
            self.refused.last = Some((from, number));
        }
        self.past.receive_unstamped(self.number);
    }

    /// Learns of a message **before** its handler runs, or before it is dropped by a filter. If it comes from a later
    /// logical time, the checkpoint that must precede it is taken and returned; else there is none.
    ///
    /// A number that cannot be true is not followed: the message counts as one without a stamp.
    ///
    /// # Errors
    ///
    /// When the state is too large. The message is noted all the same, and the handler may run: there is no checkpoint
    /// for this logical time, and the next one says so.
    pub fn handle_message(
        &mut self,
        now: Time,
        from: NodeId,
        transport: Transport,
        envelope: &Envelope,
        capture: impl FnOnce() -> Capture,
    ) -> Result<Option<Checkpoint>, WriteCheckpointError> {
        let mut forced = envelope.number > self.number;
        if forced && !self.leeway.take(now, self.number, envelope.number) {
            self.refused.implausible += 1;
            self.refused.last = Some((from, envelope.number));
            let taken = self.leap(now, capture);
            self.note_channels(from, transport, envelope);
            return taken;
        }
        self.note_distance(now, envelope.number);
        let mut number = envelope.number.max(self.number);
        let forgot = self.has_forgotten(from, transport, envelope);
        if forgot {
            // What it says now must count as later than all it ever said.
            number = number.next();
            forced = true;
        }
        let taken = if forced {
            self.forced_count += 1;
            self.take(now, number, capture).map(Some)
        } else {
            Ok(None)
        };
        if let Some(place) = envelope.place.filter(|_| forgot) {
            let incarnation = place.incarnation;
            self.past.outlive(
                from,
                Moment {
                    incarnation,
                    number,
                },
            );
        }
        self.receive_past(from, envelope);
        self.note_channels(from, transport, envelope);
        taken
    }

    /// Notes what a message says of channels. It has been handled whatever is thought of its number: a gap in what was received
    /// would show it as on its way for ever.
    fn note_channels(&mut self, from: NodeId, transport: Transport, envelope: &Envelope) {
        if let Some(channels) = &mut self.channels {
            if let Some(place) = envelope.place {
                channels.receive(from, transport, place);
            }
            if let Some(acknowledged) = &envelope.acknowledged {
                channels.acknowledge(from, transport, acknowledged);
            }
        }
    }

    /// Makes room before a message of a member whose number is not believed. What that member had heard of others is not
    /// known, and they may be ahead of this node: it goes above them, and everything up to there lies in its past. So
    /// neither a state nor a snapshot that shows the message stands beside one that its sender may have seen change.
    fn leap(
        &mut self,
        now: Time,
        capture: impl FnOnce() -> Capture,
    ) -> Result<Option<Checkpoint>, WriteCheckpointError> {
        let lately = |at: Time| now.millis_since(at) < leeway::LEAP_MS;
        let above = self.number.ahead(leeway::LEAP);
        let above = above.filter(|above| above.get() <= leeway::FOLLOWED_MAX);
        let (Some(above), false) = (above, self.leapt.is_some_and(lately)) else {
            self.past.receive_unstamped(self.number);
            return Ok(None);
        };
        self.leapt = Some(now);
        self.forced_count += 1;
        let taken = self.take(now, above, capture).map(Some);
        self.past.receive_unstamped(above);
        taken
    }

    /// Tells whether a message comes from an incarnation of its sender that is new and has a number which another incarnation had already:
    /// it keeps no disk, and its clock was set back. Or it is far behind this node: a newcomer, or one that went back while
    /// this node is the one with the absurd number. Or it comes late, which costs little.
    fn has_forgotten(&self, from: NodeId, transport: Transport, envelope: &Envelope) -> bool {
        let Some(place) = envelope.place else {
            return false;
        };
        let fell = match self.past.past().of(from) {
            Some(last) if last.incarnation == place.incarnation => false,
            Some(last) if last.number >= envelope.number => true,
            _ => self.number.get().saturating_sub(envelope.number.get()) > FAR_APART,
        };
        let channels = self.channels.as_ref();
        fell && channels.is_some_and(|channels| !channels.knows(from, transport, place.incarnation))
    }

    /// Notes how far the others are while this node's number is far ahead of theirs, in case it has to go back.
    fn note_distance(&mut self, now: Time, said: CheckpointNumber) {
        if said > CheckpointNumber::ZERO && leeway::is_far(said, self.number) {
            self.astray = Some(now);
        }
        let (low, high) = (said.min(self.number), said.max(self.number));
        if high.get() - low.get() > FAR_APART {
            self.left_behind = self.left_behind.max(low);
        }
    }

    /// Takes in what a stamp says of the past, and of the incarnations of this node.
    fn receive_past(&mut self, from: NodeId, envelope: &Envelope) {
        if let Some(past) = &envelope.past {
            if !past.is_within(envelope.number) {
                self.refused.pasts += 1;
                self.refused.last = Some((from, envelope.number));
            } else if let Some(last) = past.of(self.me)
                && last.incarnation != self.incarnation
                && last.number >= self.born
            {
                self.outlived = Some(last.incarnation);
            }
        }
        self.past.receive(self.number, envelope);
    }

    /// Learns of several messages that came in order on one connection, each stamped with the number of the one before and
    /// nothing else: no checkpoint can be due. `last` is the place of the last, if channel state is kept at the sender.
    ///
    /// Whoever leaves messages for such a run must tell of it before anything else of this recorder is called that a
    /// checkpoint could come of, and before the connection ends.
    pub fn handle_run(
        &mut self,
        from: NodeId,
        transport: Transport,
        last: Option<Place>,
        count: u32,
    ) {
        if let Some(channels) = &mut self.channels
            && let Some(last) = last
        {
            channels.receive_run(from, transport, last, count);
        }
    }

    /// Is asked to reach a number: takes a checkpoint unless it is there already.
    ///
    /// # Errors
    ///
    /// When the state is too large; the number is reached all the same.
    pub fn handle_take(
        &mut self,
        now: Time,
        number: CheckpointNumber,
        capture: impl FnOnce() -> Capture,
    ) -> Result<Option<Checkpoint>, WriteCheckpointError> {
        if number <= self.number {
            return Ok(None);
        }
        self.take(now, number, capture).map(Some)
    }

    /// Lets logical time pass by one.
    ///
    /// # Errors
    ///
    /// When the state is too large; the number rises all the same.
    pub fn handle_period(
        &mut self,
        now: Time,
        capture: impl FnOnce() -> Capture,
    ) -> Result<Option<Checkpoint>, WriteCheckpointError> {
        self.handle_take(now, self.number.next(), capture)
    }

    /// Opens a connection to a peer, from either end, and returns the serial its messages are sent under.
    pub fn open(&mut self, peer: NodeId) -> u32 {
        match &mut self.channels {
            Some(channels) => channels.open(peer),
            // What was told on a connection is kept by its serial, whether messages are counted or not.
            None => {
                self.opened_count = self.opened_count.wrapping_add(1);
                self.opened_count
            }
        }
    }

    /// Learns that a connection is gone, by the serial of what was sent on it and the incarnation and serial of what came.
    pub fn handle_ended(
        &mut self,
        now: Time,
        peer: NodeId,
        sending: Option<u32>,
        receiving: Option<(Incarnation, u32)>,
    ) {
        if let Some(serial) = sending {
            self.past.end(peer, serial);
        }
        if let Some(channels) = &mut self.channels {
            channels.end(now, peer, sending, receiving);
        }
    }

    /// Learns from a peer's checkpoint what has arrived there.
    ///
    /// The peer's checkpoint shows it at a number: only checkpoints of this node from that number on may rely on it.
    pub fn handle_arrived(&mut self, arrived: &Arrived) {
        for &(transport, acknowledged) in &arrived.channels {
            if arrived.number <= self.number {
                if let Some(channels) = &mut self.channels {
                    channels.acknowledge(arrived.peer, transport, &acknowledged);
                }
            } else if self.early.len() < EARLY_MAX {
                let channel = (arrived.peer, transport, acknowledged.serial);
                self.early.insert(channel, (arrived.number, acknowledged));
            }
        }
    }

    /// Returns what goes out with a message to a peer.
    pub fn stamp(&mut self, now: Time, to: NodeId, lane: Lane, message: &[u8]) -> Envelope {
        let number = self.number;
        let past = self.past.tell(to, lane);
        let Some(channels) = &mut self.channels else {
            return Envelope {
                number,
                place: None,
                acknowledged: None,
                past,
            };
        };
        let (place, acknowledged) = channels.send(now, number, to, lane, message);
        Envelope {
            number,
            place: Some(place),
            acknowledged,
            past,
        }
    }

    /// Learns of several messages that went out in order by one lane after one that was stamped with the present number,
    /// each as the one before let expect. As with [`handle_run`](Self::handle_run), nothing that a checkpoint could come
    /// of may lie between.
    pub fn handle_sent(&mut self, now: Time, to: NodeId, lane: Lane, messages: &Messages) {
        if let Some(channels) = &mut self.channels {
            channels.send_run(now, self.number, to, lane, messages);
        }
    }

    fn take(
        &mut self,
        now: Time,
        number: CheckpointNumber,
        capture: impl FnOnce() -> Capture,
    ) -> Result<Checkpoint, WriteCheckpointError> {
        let after = self.number;
        self.number = number;
        self.taken_count += 1;
        let capture = capture();
        let content = Content {
            incarnation: self.incarnation,
            born: self.born,
            past: self.past.past().clone(),
            state: capture.state,
            timers: capture.timers,
            channels: self.channels.as_mut().map(|channels| channels.state(now)),
        };
        self.apply_early();
        Ok(Checkpoint {
            number,
            after,
            body: content.write()?,
            neighbors: as_named(capture.neighbors),
        })
    }

    fn apply_early(&mut self) {
        let (number, channels) = (self.number, &mut self.channels);
        self.early
            .retain(|&(peer, transport, _), (due, acknowledged)| {
                let later = *due > number;
                if !later && let Some(channels) = channels.as_mut() {
                    channels.acknowledge(peer, transport, acknowledged);
                }
                later
            });
    }
}

#[cfg(test)]
mod tests;
