//! A node's own checkpoints by number, under a quota (A-38…A-41).

use std::collections::VecDeque;

use scry_protocol::{Body, CheckpointNumber};

use crate::Time;

/// What an entry is charged beside its content.
pub const ENTRY_BYTES: usize = 64;

/// A checkpoint at the agent.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its number.
    pub number: CheckpointNumber,
    /// The number of the checkpoint before it: it shows the node at the numbers above that.
    pub after: CheckpointNumber,
    /// When the agent got it.
    pub at: Time,
    /// Its content.
    pub body: Body,
}

/// What there is for a requested number.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// The checkpoint that shows the node at that number: the earliest that is not older.
    Found(&'a Stored),
    /// There was one, or may have been; it is not here.
    Gone,
    /// The node has not reached that number.
    NotYet,
}

/// The checkpoints, oldest first.
#[derive(Debug)]
pub struct Store {
    quota_bytes: usize,
    used_bytes: usize,
    entries: VecDeque<Stored>,
    newest: CheckpointNumber,
}

impl Store {
    /// Makes an empty store.
    pub fn new(quota_bytes: usize) -> Self {
        Self {
            quota_bytes,
            used_bytes: 0,
            entries: VecDeque::new(),
            newest: CheckpointNumber::ZERO,
        }
    }

    /// Returns the number the node has reached, as far as is known here.
    pub fn newest(&self) -> CheckpointNumber {
        self.newest
    }

    /// Returns how many checkpoints there are and how many bytes they are charged.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.used_bytes)
    }

    /// Learns that the node has reached a number without its checkpoint being here.
    pub fn reach(&mut self, number: CheckpointNumber) {
        self.newest = self.newest.max(number);
    }

    /// Forgets all checkpoints, not the number reached.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.used_bytes = 0;
    }

    /// Stores a checkpoint, at the cost of the oldest, and returns how many had to go; the new one itself if it alone
    /// is above the quota. One that is not newer than the last is ignored.
    pub fn insert(&mut self, mut stored: Stored) -> usize {
        if let Some(last) = self.entries.back() {
            if stored.number <= last.number {
                return 0;
            }
            // A quiet node's checkpoints share one content.
            if stored.body == last.body {
                stored.body = last.body.clone();
            }
        }
        self.reach(stored.number);
        let shared = self
            .entries
            .back()
            .is_some_and(|last| last.body.shares_with(&stored.body));
        self.used_bytes += ENTRY_BYTES + if shared { 0 } else { stored.body.len() };
        self.entries.push_back(stored);
        let mut pruned = 0;
        while self.used_bytes > self.quota_bytes {
            let oldest = self
                .entries
                .pop_front()
                .expect("an empty store uses no bytes");
            let shared = self
                .entries
                .front()
                .is_some_and(|next| next.body.shares_with(&oldest.body));
            self.used_bytes -= ENTRY_BYTES + if shared { 0 } else { oldest.body.len() };
            pruned += 1;
        }
        pruned
    }

    /// Finds what shows the node at a number.
    pub fn lookup(&self, number: CheckpointNumber) -> Lookup<'_> {
        if number > self.newest {
            return Lookup::NotYet;
        }
        let at = self.entries.partition_point(|entry| entry.number < number);
        match self.entries.get(at) {
            // Whatever was between `after` and this one is gone with everything it showed.
            Some(entry) if entry.after < number => Lookup::Found(entry),
            _ => Lookup::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(store: &mut Store, after: u32, number: u32, bytes: usize) -> usize {
        store.insert(Stored {
            number: number.into(),
            after: after.into(),
            at: Time::default(),
            body: Body::from_bytes(vec![number as u8; bytes]).expect("small"),
        })
    }

    /// Stamps 3, 5, 9 of ten bytes each.
    fn three(quota_bytes: usize) -> Store {
        let mut store = Store::new(quota_bytes);
        for (after, number) in [(2, 3), (3, 5), (5, 9)] {
            insert(&mut store, after, number, 10);
        }
        store
    }

    #[track_caller]
    fn check(store: &Store, number: u32, expect: &str) {
        let found = match store.lookup(number.into()) {
            Lookup::Found(stored) => stored.number.to_string(),
            Lookup::Gone => "gone".to_owned(),
            Lookup::NotYet => "not yet".to_owned(),
        };
        assert_eq!(found, expect, "request {number}");
    }

    #[test]
    fn a_20_the_earliest_checkpoint_not_older_than_the_request_is_returned() {
        let store = three(usize::MAX);
        check(&store, 3, "#3");
        check(&store, 4, "#5");
        check(&store, 5, "#5");
        check(&store, 6, "#9");
        check(&store, 9, "#9");
        check(&store, 10, "not yet");
    }

    #[test]
    fn a_38_the_quota_is_never_exceeded_and_the_newest_survive() {
        let mut store = Store::new(1000);
        for number in 1..200 {
            insert(&mut store, number - 1, number, (number as usize * 37) % 300);
            assert!(store.size().1 <= 1000);
        }
        check(&store, 199, "#199");
        check(&store, 1, "gone");
        insert(&mut store, 199, 200, 5000);
        assert_eq!(store.size(), (0, 0));
        check(&store, 200, "gone");
    }

    #[test]
    fn a_40_a_pruned_range_is_negative_although_a_later_stamp_survives() {
        let store = three(ENTRY_BYTES + 10);
        assert_eq!(store.size().0, 1);
        check(&store, 4, "gone");
        check(&store, 5, "gone");
        check(&store, 6, "#9");
    }

    #[test]
    fn checkpoints_that_never_arrived_are_gone_too() {
        let mut store = three(usize::MAX);
        insert(&mut store, 12, 15, 10);
        check(&store, 11, "gone");
        check(&store, 13, "#15");
        store.reach(20.into());
        check(&store, 18, "gone");
        check(&store, 21, "not yet");
    }

    #[test]
    fn equal_contents_are_charged_once() {
        let mut store = Store::new(2 * ENTRY_BYTES + 450);
        let body = Body::from_bytes(vec![7; 400]).expect("small");
        for number in 1u32..=3 {
            store.insert(Stored {
                number: number.into(),
                after: number.saturating_sub(1).into(),
                at: Time::default(),
                body: Body::from_bytes(body.as_bytes().to_vec()).expect("small"),
            });
        }
        assert_eq!(store.size(), (2, 2 * ENTRY_BYTES + 400));
    }
}
