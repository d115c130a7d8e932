//! The question before every handler, and its answer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Cache};
use scry_protocol::filter::Action;
use scry_protocol::limit::TEXT_BYTES_MAX;
use scry_protocol::link::host::FilterHit;
use scry_protocol::{FilterId, NodeId};

use crate::hook::lease::Strike;
use crate::hook::shared::{Shared, lock};
use crate::hook::table::{LazyDigest, Slot, Table};

/// An event that is about to be handled.
#[derive(Clone, Copy)]
pub enum Occurrence<'a> {
    /// A message arrived.
    Message {
        /// Its type, as [`kind_of`](scry_engine::kind::kind_of) calls it.
        kind: &'a str,
        /// Its sender.
        from: NodeId,
        /// Gives the message as it comes over the wire, its MessagePack encoding; called only if a filter asks for a
        /// certain one.
        content: &'a dyn Fn() -> Vec<u8>,
    },
    /// A timer fired.
    Timer {
        /// Its name.
        kind: &'a str,
        /// Encodes its value; called only if a filter asks for a certain one.
        content: &'a dyn Fn() -> Vec<u8>,
    },
    /// The application calls.
    Call {
        /// Its name.
        kind: &'a str,
        /// Encodes its value; called only if a filter asks for a certain one.
        content: &'a dyn Fn() -> Vec<u8>,
    },
    /// The connections with a peer are lost.
    Disconnect {
        /// The peer.
        peer: NodeId,
    },
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "an event that a filter means must not reach its handler"]
pub enum Verdict {
    /// Its handler runs.
    Run,
    /// The message is gone.
    Drop(FilterId),
    /// The message is gone, and the connection it came on is reset.
    Reset(FilterId),
    /// The timer is armed again with its last duration. The news of a lost connection is kept, and offered again once
    /// [`Request::Ended`](crate::hook::Request::Ended) names the filter.
    Postpone(FilterId),
    /// The caller is told that the call is refused for now.
    Refuse(FilterId),
    /// The message is kept, and offered again once [`Request::Ended`](crate::hook::Request::Ended) names the filter.
    Hold(FilterId),
    /// Its handler runs unless the event breaks a property together with the states that neighbors have now. A host that does
    /// not try events before it handles them runs it.
    Check(FilterId),
}

impl Verdict {
    fn of(action: Action, filter: FilterId) -> Self {
        match action {
            Action::Drop => Self::Drop(filter),
            Action::Reset => Self::Reset(filter),
            Action::Postpone => Self::Postpone(filter),
            Action::Refuse => Self::Refuse(filter),
            Action::Hold => Self::Hold(filter),
            Action::Check => Self::Check(filter),
        }
    }

    /// Returns the filter that decided, if one did.
    pub fn filter(self) -> Option<FilterId> {
        match self {
            Self::Run => None,
            Self::Drop(filter)
            | Self::Reset(filter)
            | Self::Postpone(filter)
            | Self::Refuse(filter)
            | Self::Hold(filter)
            | Self::Check(filter) => Some(filter),
        }
    }
}

impl fmt::Display for Occurrence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { kind, from, .. } => write!(f, "{kind} from {from}"),
            Self::Timer { kind, .. } => write!(f, "timer {kind}"),
            Self::Call { kind, .. } => write!(f, "call {kind}"),
            Self::Disconnect { peer } => write!(f, "lost connection with {peer}"),
        }
    }
}

impl fmt::Debug for Occurrence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Answers for one thread which events may be handled.
///
/// A host that handles events on several threads gives each a clone. With no filters in force the answer costs one
/// atomic load, and a count that this clone alone writes.
#[derive(Debug)]
pub struct Gate {
    shared: Arc<Shared>,
    table: Cache<Arc<ArcSwap<Table>>, Arc<Table>>,
    events: Arc<AtomicU64>,
}

impl Gate {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            table: Cache::new(shared.table.clone()),
            events: shared.counts.add_counter(),
            shared,
        }
    }

    /// Decides about an event before its handler runs.
    ///
    /// Of several filters that mean the event, the oldest that acts decides; those that have it checked come last.
    #[inline]
    pub fn admit(&mut self, occurrence: &Occurrence<'_>) -> Verdict {
        self.count_event();
        self.admit_again(occurrence)
    }

    /// Decides once more about an event that was counted when it was decided about first.
    #[inline]
    pub fn admit_again(&mut self, occurrence: &Occurrence<'_>) -> Verdict {
        if self.is_open() {
            return Verdict::Run;
        }
        self.look_up(occurrence)
    }

    /// Tells whether no filter is in force.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.shared.filters_count.load(Ordering::Acquire) == 0
    }

    /// Counts an event that no filter can match: a start, a connection that this node itself gave up.
    #[inline]
    pub fn count_event(&mut self) {
        // Nobody else writes this counter, so a load and a store do not lose anything.
        let events = self.events.load(Ordering::Relaxed);
        self.events.store(events + 1, Ordering::Relaxed);
    }

    /// Looks for filters that mean an event.
    pub(super) fn look_up(&mut self, occurrence: &Occurrence<'_>) -> Verdict {
        let table = self.table.load();
        let mut digest = LazyDigest::default();
        for slot in table.matching(occurrence, &mut digest) {
            if let Some(verdict) = strike(&self.shared, slot, occurrence) {
                return verdict;
            }
        }
        // To check takes nothing from the service by itself, so there is nothing to count and to limit.
        match table.checking(occurrence) {
            Some(armed) if !armed.is_over(self.shared.now_ms()) => Verdict::Check(armed.filter.id),
            _ => Verdict::Run,
        }
    }

    /// Returns the property for whose sake a filter is in force.
    pub(super) fn property_of(&mut self, filter: FilterId) -> Option<String> {
        let filters = self.table.load().filters();
        let mut filters = filters.filter(|installed| installed.id == filter);
        Some(filters.next()?.property.clone())
    }
}

impl Clone for Gate {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.counts.remove_counter(&self.events);
    }
}

/// Lets a filter act on an event it means, or watch.
#[cold]
fn strike(shared: &Shared, slot: &Slot, occurrence: &Occurrence<'_>) -> Option<Verdict> {
    let armed = &slot.armed;
    let filter = &armed.filter;
    let struck = armed.strike(shared.now_ms(), slot.acts, &shared.disarm);
    let (acted, hits) = match struck.strike {
        Strike::Over => return None,
        Strike::Watched { hits } => (false, hits),
        Strike::Acted { hits } => (true, hits),
    };
    if acted {
        shared.counts.filtered.fetch_add(1, Ordering::Relaxed);
        lock(&shared.counts.harm).note_action(&filter.property, filter.action);
    }
    tracing::debug!(filter = %filter.id, hits, acted, event = %occurrence, "filter hit");
    let hit = || FilterHit {
        filter: filter.id,
        hits,
        acted,
        event: shortened(occurrence.to_string()),
    };
    if armed.is_reported_at_once(hits) {
        shared.send(hit());
    } else {
        armed.report_later(hits, hit);
    }
    if struck.ends {
        shared.tidy_soon();
    }
    acted.then(|| Verdict::of(filter.action, filter.id))
}

/// Cuts a text to what a frame may carry.
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    }
    text
}
