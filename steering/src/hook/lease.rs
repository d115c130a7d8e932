//! Filters as leases: each ends by itself, at the latest when its time is over.
//!
//! Nothing here reads a clock or a socket: moments come in as milliseconds, and what has ended goes out as a list.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::link::host::{FilterEnd, FilterEnded, FilterHit};
use scry_protocol::{FilterId, NodeId};

use crate::hook::disarm::{Disarm, Peer, Window};
use crate::hook::shared::lock;

/// Filters that may be installed at once. An agent that wants more has lost its way.
pub const INSTALLED_MAX: usize = 1024;

/// A lease lasts no longer than this, whatever the agent says.
pub const LEASE_MS_MAX: u64 = 10 * 60 * 1000;

/// Hits of one filter that are reported one by one; later ones are reported together, about once a second.
const HITS_REPORTED_AT_ONCE: u64 = 16;

/// Why filters cannot be installed.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum InstallError {
    /// Its action does not fit what it matches: a network can lose a message, never a timer.
    #[error("filter {filter} cannot {action} what it matches")]
    Unfit { filter: FilterId, action: Action },
    /// There would be too many.
    #[error("more than {INSTALLED_MAX} filters at once")]
    TooMany,
}

/// An installed filter, as every thread that asks sees it.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) filter: Filter,
    ends_at_ms: u64,
    hits: AtomicU64,
    acts: AtomicU64,
    disarmed: AtomicBool,
    /// Whether the end of its acting was told already.
    told: AtomicBool,
    window: Mutex<Window>,
    /// Hits that were not reported at once.
    unreported: Mutex<Option<FilterHit>>,
    peer: Option<Arc<Peer>>,
}

/// What a filter did about an event it means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Strike {
    /// It has ended.
    Over,
    /// It only counted.
    Watched { hits: u64 },
    /// It decides.
    Acted { hits: u64 },
}

/// What a filter did, and whether it is in force no longer because of that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Struck {
    pub(super) strike: Strike,
    pub(super) ends: bool,
}

impl Armed {
    /// Arms a filter for its lease.
    pub(super) fn new(now_ms: u64, filter: Filter) -> Self {
        Self {
            ends_at_ms: now_ms.saturating_add(filter.ttl_ms.min(LEASE_MS_MAX)),
            hits: AtomicU64::new(0),
            acts: AtomicU64::new(0),
            disarmed: AtomicBool::new(false),
            told: AtomicBool::new(false),
            window: Mutex::default(),
            unreported: Mutex::default(),
            peer: None,
            filter,
        }
    }

    /// Takes over what a renewed filter has done so far; how often it may act is counted anew.
    fn inherit(&mut self, before: &Self) {
        let disarmed = before.disarmed.load(Ordering::Acquire);
        self.hits = AtomicU64::new(before.hits.load(Ordering::Relaxed));
        self.disarmed = AtomicBool::new(disarmed);
        self.told = AtomicBool::new(disarmed);
        self.window = Mutex::new(lock(&before.window).clone());
        self.unreported = Mutex::new(lock(&before.unreported).take());
    }

    /// Meets an event it means.
    pub(super) fn strike(&self, now_ms: u64, acts: bool, disarm: &Disarm) -> Struck {
        let struck = |strike, ends| Struck { strike, ends };
        if self.is_over(now_ms) || (acts && self.is_spent()) {
            return struck(Strike::Over, true);
        }
        let watched = |ends| {
            let hits = self.hits.fetch_add(1, Ordering::Relaxed) + 1;
            struck(Strike::Watched { hits }, ends)
        };
        if !acts || self.disarmed.load(Ordering::Acquire) {
            return watched(false);
        }
        let mut window = lock(&self.window);
        // Under the lock, so that of two threads only one takes the last act.
        if self.is_spent() {
            return struck(Strike::Over, true);
        }
        if !window.allow(now_ms, disarm, self.peer.as_ref()) {
            self.disarmed.store(true, Ordering::Release);
            return watched(true);
        }
        let acts = self.acts.fetch_add(1, Ordering::Relaxed) + 1;
        let hits = self.hits.fetch_add(1, Ordering::Relaxed) + 1;
        struck(Strike::Acted { hits }, acts >= self.filter.hits_max)
    }

    /// Tells whether its time is over.
    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.ends_at_ms
    }

    /// Tells whether a hit is worth a frame of its own.
    pub(super) fn is_reported_at_once(&self, hits: u64) -> bool {
        hits <= HITS_REPORTED_AT_ONCE
    }

    /// Keeps a hit that is reported later: the first of several, with the count of the last.
    pub(super) fn report_later(&self, hits: u64, hit: impl FnOnce() -> FilterHit) {
        let mut unreported = lock(&self.unreported);
        let hit = unreported.get_or_insert_with(hit);
        hit.hits = hit.hits.max(hits);
    }

    fn is_spent(&self) -> bool {
        self.acts.load(Ordering::Relaxed) >= self.filter.hits_max
    }

    fn take_unreported(&self) -> Option<FilterHit> {
        lock(&self.unreported).take()
    }

    fn ended(&self, end: FilterEnd) -> FilterEnded {
        FilterEnded {
            filter: self.filter.id,
            end,
            hits: self.hits.load(Ordering::Relaxed),
        }
    }
}

/// All installed filters of a host.
#[derive(Debug)]
pub(super) struct Leases {
    /// What the agent allows; nothing while there is none.
    mode: Option<Mode>,
    /// Whether a kill switch is on.
    killed: bool,
    /// By rising id.
    armed: BTreeMap<FilterId, Arc<Armed>>,
    /// What came from each peer, shared with whoever counts it.
    peers: BTreeMap<NodeId, Arc<Peer>>,
}

impl Leases {
    /// Begins without an agent.
    pub(super) fn new(killed: bool) -> Self {
        Self {
            mode: None,
            killed,
            armed: BTreeMap::new(),
            peers: BTreeMap::new(),
        }
    }

    /// Returns what filters may do at most.
    pub(super) fn mode(&self) -> Mode {
        match self.mode {
            Some(mode) if !self.killed => mode,
            _ => Mode::Off,
        }
    }

    /// Tells whether a kill switch is on.
    pub(super) fn is_killed(&self) -> bool {
        self.killed
    }

    /// Returns the installed filters.
    pub(super) fn armed(&self) -> Vec<Arc<Armed>> {
        self.armed.values().cloned().collect()
    }

    /// Returns where a peer's messages are counted.
    pub(super) fn peer(&mut self, peer: NodeId) -> Arc<Peer> {
        self.peers.entry(peer).or_default().clone()
    }

    /// Installs filters, or renews those that are there: a renewed one has its whole lease and all its acts before it
    /// again, but what was disarmed stays so.
    pub(super) fn install(
        &mut self,
        now_ms: u64,
        filters: Vec<Filter>,
        ended: &mut Vec<FilterEnded>,
    ) -> Result<(), InstallError> {
        for filter in filters {
            if !filter.matcher.admits(filter.action) {
                return Err(InstallError::Unfit {
                    filter: filter.id,
                    action: filter.action,
                });
            }
            if self.mode() == Mode::Off {
                ended.push(FilterEnded {
                    filter: filter.id,
                    end: match self.mode {
                        Some(_) => FilterEnd::Killed,
                        None => FilterEnd::AgentGone,
                    },
                    hits: 0,
                });
                continue;
            }
            let before = self.armed.remove(&filter.id);
            if self.armed.len() == INSTALLED_MAX {
                return Err(InstallError::TooMany);
            }
            tracing::info!(
                filter = %filter.id, property = filter.property, action = %filter.action, mode = %filter.mode,
                ttl_ms = filter.ttl_ms, "filter installed"
            );
            let armed = self.arm(now_ms, filter, before.as_deref());
            self.armed.insert(armed.filter.id, Arc::new(armed));
        }
        Ok(())
    }

    fn arm(&mut self, now_ms: u64, filter: Filter, before: Option<&Armed>) -> Armed {
        let peer = match filter.matcher {
            Matcher::Message { source, .. } => Some(self.peer(source)),
            // A share of its messages says nothing about the peer's connections.
            Matcher::Timer { .. } | Matcher::Call { .. } | Matcher::Disconnect { .. } => None,
        };
        let mut armed = Armed::new(now_ms, filter);
        armed.peer = peer;
        if let Some(before) = before {
            armed.inherit(before);
        }
        armed
    }

    /// Withdraws filters, all if none are named.
    pub(super) fn withdraw(&mut self, filters: Option<&[FilterId]>, ended: &mut Vec<FilterEnded>) {
        match filters {
            None => self.fall(FilterEnd::Withdrawn, ended),
            Some(filters) => self.end(
                |armed| {
                    filters
                        .contains(&armed.filter.id)
                        .then_some(FilterEnd::Withdrawn)
                },
                ended,
            ),
        }
    }

    /// Takes in what the agent allows.
    pub(super) fn set_mode(&mut self, mode: Mode, ended: &mut Vec<FilterEnded>) {
        self.mode = Some(mode);
        if mode == Mode::Off {
            self.fall(FilterEnd::Killed, ended);
        }
    }

    /// Turns the kill switch.
    pub(super) fn set_killed(&mut self, killed: bool, ended: &mut Vec<FilterEnded>) {
        self.killed = killed;
        if killed {
            self.fall(FilterEnd::Killed, ended);
        }
    }

    /// Learns that the agent is gone.
    pub(super) fn detach(&mut self, ended: &mut Vec<FilterEnded>) {
        self.mode = None;
        self.fall(FilterEnd::AgentGone, ended);
    }

    /// Ends what is over by itself.
    pub(super) fn tick(&mut self, now_ms: u64, ended: &mut Vec<FilterEnded>) {
        for armed in self.armed.values() {
            if armed.disarmed.load(Ordering::Acquire) && !armed.told.swap(true, Ordering::Relaxed) {
                ended.push(armed.ended(FilterEnd::Disarmed));
            }
        }
        self.end(
            |armed| {
                if armed.is_over(now_ms) {
                    Some(FilterEnd::Lapsed)
                } else {
                    armed.is_spent().then_some(FilterEnd::HitsUsed)
                }
            },
            ended,
        );
    }

    /// Returns when the next lease is over.
    pub(super) fn next_end_ms(&self) -> Option<u64> {
        self.armed.values().map(|armed| armed.ends_at_ms).min()
    }

    /// Returns the hits that were left for a common report.
    pub(super) fn take_unreported(&self) -> Vec<FilterHit> {
        self.armed
            .values()
            .filter_map(|armed| armed.take_unreported())
            .collect()
    }

    fn fall(&mut self, end: FilterEnd, ended: &mut Vec<FilterEnded>) {
        self.end(|_| Some(end), ended);
    }

    fn end(&mut self, is_over: impl Fn(&Armed) -> Option<FilterEnd>, ended: &mut Vec<FilterEnded>) {
        self.armed.retain(|_, armed| {
            let Some(end) = is_over(armed) else {
                return true;
            };
            // Whoever heard that it was disarmed has nothing more to learn.
            if !armed.told.swap(true, Ordering::Relaxed) {
                ended.push(armed.ended(end));
            }
            false
        });
    }
}
