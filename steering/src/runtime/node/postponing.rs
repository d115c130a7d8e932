//! What is kept on a connection until it breaks nothing: a message, or the news that the connection is lost.
//!
//! A message that would break a property is refused by resetting its connection, as a network might. Where the reset breaks
//! something too, the network is late instead: the message stays where it is, with whatever follows it on its connection,
//! and is offered again when the node has changed or after a pause. It is never lost and never overtaken. If nothing happens
//! that makes it harmless, the end of another connection may: a peer that was reset in silence, say, is still in the node's
//! lists, and nobody says a word to it. Where that breaks nothing, a network might let the node know. After
//! [`late_max`](crate::runtime::Options::late_max) nothing keeps it back any more.

use std::time::Duration;

use scry_protocol::NodeId;
use scry_protocol::link::host::{Outcome, Suspicion};
use tokio::time::Instant;

use crate::hook::Kept;
use crate::runtime::connection::Key;
use crate::runtime::guard::Scene;
use crate::runtime::node::holding::past_to_judge_by;
use crate::runtime::node::{End, Node};
use crate::runtime::streams::{Hold, Waiting};
use scry_engine::model::event::InputOf;
use scry_engine::service::Service;

/// What is kept is offered again after this. As long as nothing happens at the node the pause doubles, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// So long after it was first offered another connection may be broken for its sake. If there is none, it is thought of again
/// after twice that time, and so on.
const WAY_OUT_AFTER: Duration = Duration::from_secs(1);
/// On how many connections something may be kept at once. More runs: something is wrong with the property, not with so many
/// connections.
const POSTPONED_MAX: usize = 64;

/// The connections on which something is kept.
#[derive(Debug)]
pub(super) struct Postponed {
    entries: Vec<Entry>,
    /// For how long at most.
    late_max: Duration,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    property: String,
    event: String,
    since: Instant,
    pause: Duration,
    /// When it is offered again.
    again: Instant,
    /// From when on nothing keeps it back.
    until: Instant,
    /// When a way out is sought, counted from its beginning.
    way_out_after: Duration,
    /// How many events the node had handled when it was last offered.
    handled_count: u64,
}

impl Postponed {
    pub(super) fn new(late_max: Duration) -> Self {
        Self {
            entries: Vec::new(),
            late_max,
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns when something is offered again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.entries.iter().map(|entry| entry.again).min()
    }

    /// Tells whether what comes first on a connection was refused before.
    pub(super) fn contains(&self, key: Key) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Tells whether it is time to look for a way out of what is kept on a connection.
    fn wants_way_out(&mut self, key: Key, now: Instant) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key);
        let Some(entry) = entry.filter(|entry| now >= entry.since + entry.way_out_after) else {
            return false;
        };
        entry.way_out_after *= 2;
        true
    }

    /// Tells whether something may be kept on a connection, now or still.
    pub(super) fn has_room(&self, key: Key, now: Instant) -> bool {
        match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => now < entry.until,
            None => self.entries.len() < POSTPONED_MAX,
        }
    }

    /// Lets what is kept on a connection run the next time it is offered, whatever it breaks.
    pub(super) fn give_up(&mut self, key: Key) {
        for entry in self.entries.iter_mut().filter(|entry| entry.key == key) {
            entry.until = entry.since;
            entry.again = entry.since;
        }
    }

    fn keep(
        &mut self,
        key: Key,
        now: Instant,
        handled_count: u64,
        what: impl FnOnce() -> (String, String),
    ) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) else {
            let (property, event) = what();
            self.entries.push(Entry {
                key,
                property,
                event,
                since: now,
                pause: PAUSE.0,
                again: now + PAUSE.0,
                until: now + self.late_max,
                way_out_after: WAY_OUT_AFTER,
                handled_count,
            });
            return;
        };
        entry.pause = match entry.handled_count == handled_count {
            true => (entry.pause * 2).min(PAUSE.1),
            false => PAUSE.0,
        };
        entry.handled_count = handled_count;
        entry.again = (now + entry.pause).min(entry.until.max(now));
    }

    /// Returns the connections whose turn it is. They have another when the node has handled something, or after a pause.
    fn take_due(&mut self, now: Instant, handled_count: u64) -> Vec<Key> {
        let mut due = Vec::new();
        for entry in &mut self.entries {
            let changed = entry.handled_count != handled_count;
            if entry.again <= now || (changed && entry.pause > PAUSE.0) {
                entry.again = now + PAUSE.1;
                due.push(entry.key);
            }
        }
        due
    }

    /// Returns the property for whose sake something is kept on a connection.
    fn property(&self, key: Key) -> String {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map_or_else(String::new, |entry| entry.property.clone())
    }

    fn take(&mut self, key: Key) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(at))
    }
}

impl<S: Service> Node<S> {
    /// Keeps what came first on a connection, and what follows it, for a while.
    pub(super) fn postpone(
        &mut self,
        key: Key,
        what: Waiting,
        told: impl FnOnce() -> (String, String),
    ) {
        if self.streams.end(key).is_none() {
            return;
        }
        self.streams.hold_back(key, what, Hold::Postponed);
        let now = Instant::now();
        self.postponed.keep(key, now, self.handled_count, told);
    }

    /// Breaks another connection if that is what makes an event harmless that has been kept for a while.
    pub(super) fn seek_way_out(&mut self, key: Key, input: &InputOf<S>) -> Result<(), End> {
        let peer = self.streams.end(key).map(|end| end.peer);
        if !self.postponed.wants_way_out(key, Instant::now()) {
            return Ok(());
        }
        let others = self.streams.peers().filter(|other| Some(*other) != peer);
        let others: Vec<NodeId> = others.collect();
        let (dice, mode) = (self.dice(), self.mode());
        let scene = Scene {
            mode,
            now: self.clock,
            at: self.dice_thrown.into_std(),
            setup: &self.setup,
            local: &self.local,
            input,
            dice,
            past: past_to_judge_by(self.hook.as_ref(), self.clock),
            again: true,
        };
        let guard = self.guard.as_mut();
        let Some(way_out) = guard.and_then(|guard| guard.way_out(&scene, &others)) else {
            return Ok(());
        };
        let property = self.postponed.property(key);
        self.count_harm(&property, Kept::Reset);
        self.break_off(
            way_out,
            "what is kept on another connection would break something",
        )
    }

    /// Offers again what was kept, where it is time to.
    pub(super) fn offer_postponed(&mut self, now: Instant) -> Result<(), End> {
        for key in self.postponed.take_due(now, self.handled_count) {
            match self.streams.end(key) {
                Some(end) if end.held == Some(Hold::Postponed) => {
                    end.held = None;
                    self.resume(key)?;
                }
                // The neighbors are being asked about it, or a filter keeps it.
                Some(end) if end.held.is_some() => {}
                // The connection is gone, or of an earlier incarnation.
                _ => drop(self.postponed.take(key)),
            }
        }
        Ok(())
    }

    /// Takes note that what was kept on a connection is kept no longer, and says how long it was.
    pub(super) fn end_postponing(&mut self, key: Key, outcome: Outcome) {
        if let Some(entry) = self.postponed.take(key)
            && let Some(hook) = &mut self.hook
        {
            hook.suspicion(Suspicion {
                property: entry.property,
                event: entry.event,
                outcome,
                held_us: entry.since.elapsed().as_micros() as u64,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::options::LATE_MAX;

    fn words() -> (String, String) {
        ("p".to_owned(), "e".to_owned())
    }

    #[test]
    fn pauses_grow_while_nothing_happens_and_end_when_something_does() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut postponed = Postponed::new(LATE_MAX);
        postponed.keep(7, begun, 3, words);
        assert!(postponed.contains(7) && !postponed.contains(8));
        assert_eq!(postponed.due(), Some(at(50)));
        assert!(postponed.take_due(at(49), 3).is_empty());
        for (now, next) in [(50, 150), (150, 350), (350, 750), (750, 1550), (1550, 2550)] {
            assert_eq!(postponed.take_due(at(now), 3), [7]);
            postponed.keep(7, at(now), 3, words);
            assert_eq!(postponed.due(), Some(at(next)));
        }
        assert!(postponed.take_due(at(1600), 3).is_empty());
        assert_eq!(postponed.take_due(at(1600), 4), [7], "something happened");
        postponed.keep(7, at(1600), 4, words);
        assert_eq!(postponed.due(), Some(at(1650)));
    }

    #[test]
    fn nothing_is_kept_beyond_the_limit_and_not_too_much_at_once() {
        let begun = Instant::now();
        let mut postponed = Postponed::new(LATE_MAX);
        postponed.keep(0, begun, 0, words);
        let late = begun + LATE_MAX - Duration::from_millis(1);
        assert!(postponed.has_room(0, late));
        postponed.keep(0, late, 1, words);
        assert_eq!(postponed.due(), Some(begun + LATE_MAX));
        assert!(!postponed.has_room(0, begun + LATE_MAX));
        for key in 1..POSTPONED_MAX as Key {
            assert!(postponed.has_room(key, begun));
            postponed.keep(key, begun, 0, words);
        }
        assert!(!postponed.has_room(99, begun));
        assert!(postponed.has_room(1, begun));
        postponed.give_up(1);
        assert!(!postponed.has_room(1, begun));
        assert_eq!(postponed.due(), Some(begun));
    }
}
