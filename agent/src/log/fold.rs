//! Which records may be folded: those that somebody else, a peer or the traffic of the service, can cause at will.
//!
//! The first of a kind about a subject are written; of the others, their number is, once an interval is over. So whoever causes
//! many cannot push the rest of the log out of the files that are kept.

use scry_protocol::record::{Entry, What};

use crate::rate_limit::{Folding, LeftOut};

/// Over which time records are folded.
const INTERVAL_MS: u64 = 10_000;
/// How many kinds and subjects are told apart.
const SUBJECTS_MAX: usize = 4096;
/// How many of a kind about a peer or a limit are written in an interval.
const TOLD_MAX: u64 = 20;
/// And of those that tell what was done to the service's own events.
const EVENTS_TOLD_MAX: u64 = 500;

type Key = (&'static str, String);

/// Folds records.
#[derive(Debug)]
pub(crate) struct Fold {
    folding: Folding<Key>,
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            folding: Folding::new(INTERVAL_MS, SUBJECTS_MAX),
        }
    }
}

impl Fold {
    /// Tells whether a record is to be written.
    pub(crate) fn handle_record(&mut self, now_ms: u64, entry: &Entry) -> bool {
        match subject(&entry.what) {
            Some((about, told_max)) => {
                let key = (entry.what.kind(), about);
                self.folding.note(now_ms, key, told_max)
            }
            None => true,
        }
    }

    /// Returns records about those that were not written, in intervals that are over.
    pub(crate) fn poll_over(&mut self, now_ms: u64) -> Vec<Entry> {
        records(self.folding.over(now_ms))
    }

    /// Returns records about all that were not written so far.
    pub(crate) fn rest(&mut self, now_ms: u64) -> Vec<Entry> {
        records(self.folding.rest(now_ms))
    }
}

fn records(left_out: Vec<LeftOut<Key>>) -> Vec<Entry> {
    let record = |left_out: LeftOut<Key>| {
        let (of, about) = match left_out.key {
            Some((kind, about)) => (kind.to_owned(), Some(about)),
            None => ("several".to_owned(), None),
        };
        Entry::new(What::Repeated {
            of,
            about,
            count: left_out.count,
            elapsed_ms: left_out.elapsed_ms,
        })
    };
    left_out.into_iter().map(record).collect()
}

/// What a record is about and how many such are written; `None` for one that is always written. Nothing that a peer may
/// choose freely is part of it.
fn subject(what: &What) -> Option<(String, u64)> {
    let peers = |about: String| Some((about, TOLD_MAX));
    let events = |about: String| Some((about, EVENTS_TOLD_MAX));
    match what {
        What::PathReceived { from, .. } => peers(from.to_string()),
        What::PathAnswer { by, answered, .. } => {
            let who = by.or(*answered);
            peers(who.map_or(String::new(), |who| who.to_string()))
        }
        What::PeerUp { peer, .. } | What::PeerDown { peer, .. } => peers(peer.to_string()),
        What::Quota { limit, peer, .. } => peers(match peer {
            Some(peer) => format!("{limit} of {peer}"),
            None => limit.clone(),
        }),
        What::FailedOpen { failure, .. } => peers(failure.clone()),
        What::FilterHit { property, .. }
        | What::Veto { property, .. }
        | What::Suspicion { property, .. } => events(property.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scry_protocol::NodeId;
    use scry_protocol::record::Shown;

    fn received(from: u32, property: &str) -> Entry {
        Entry::new(What::PathReceived {
            property: property.to_owned(),
            from: Shown(NodeId::new(from)),
            accepted: false,
            why: None,
        })
    }

    #[test]
    fn a_flood_of_one_peer_is_a_few_records_and_a_count_and_hides_nobody_else() {
        let mut fold = Fold::default();
        let mut written = 0;
        for number in 0..100_000_u64 {
            // What it says may differ each time.
            let entry = received(2, &format!("property {number}"));
            written += u64::from(fold.handle_record(number / 100, &entry));
        }
        assert_eq!(written, TOLD_MAX);
        assert!(fold.handle_record(1_000, &received(3, "other")));
        let stopped = Entry::new(What::Stopped { why: String::new() });
        assert!((0..1_000).all(|_| fold.handle_record(1_000, &stopped)));
        let told = fold.poll_over(INTERVAL_MS);
        let expect = What::Repeated {
            of: "path-received".to_owned(),
            about: Some("n2".to_owned()),
            count: 100_000 - TOLD_MAX,
            elapsed_ms: INTERVAL_MS,
        };
        assert_eq!(told, [Entry::new(expect)]);
    }
}
