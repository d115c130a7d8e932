//! What the host's threads and the socket's thread have in common. Locks are held for a few instructions, never over IO.

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use scry_protocol::filter::{Filter, Mode};
use scry_protocol::link::host::{FilterEnded, Held, HostToAgent};
use scry_protocol::{CheckpointNumber, Incarnation, NodeId};

use crate::hook::disarm::Disarm;
use crate::hook::harm::HarmCounts;
use crate::hook::inbox::Inbox;
use crate::hook::lease::{InstallError, Leases};
use crate::hook::outbox::{Outbox, QueueLimits};
use crate::hook::table::Table;

/// Called when the agent asks for something, so that an idle loop turns.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

pub(super) struct Shared {
    pub(super) node: NodeId,
    pub(super) disarm: Disarm,
    /// What may be done at most, for who must know before every event.
    mode: AtomicU8,
    /// How many filters are in force: what most answers need to know.
    pub(super) filters_count: AtomicUsize,
    pub(super) table: Arc<ArcSwap<Table>>,
    pub(super) counts: Counts,
    /// Whether the inbox holds anything.
    pub(super) asked: AtomicBool,
    /// The host's checkpoint number, for the next hello.
    pub(super) number: AtomicU64,
    /// The host's incarnation and the number it began with, for the next hello.
    incarnation: Mutex<(Incarnation, CheckpointNumber)>,
    pub(super) closing: AtomicBool,
    /// What forbids steering here.
    held: AtomicU8,
    /// The files that an agent named as forbidding it. They count on when the agent is gone.
    switches: Mutex<Vec<PathBuf>>,
    /// Whether a filter has ended and waits to be cleared away.
    tidy: AtomicBool,
    begun: Instant,
    leases: Mutex<Leases>,
    outbox: Mutex<Outbox>,
    inbox: Mutex<Inbox>,
    /// A byte written here wakes the socket's thread.
    alarm: Option<UnixStream>,
    waker: Option<Waker>,
}

/// Counts that several threads write.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) filtered: AtomicU64,
    /// What was done to the service, by property. Locked only where something was.
    pub(super) harm: Mutex<HarmCounts>,
    /// Events counted by gates that are gone.
    events: AtomicU64,
    /// One counter for each gate, written by it alone.
    gates: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Counts {
    /// Adds a counter of events.
    pub(super) fn add_counter(&self) -> Arc<AtomicU64> {
        let counter = Arc::new(AtomicU64::new(0));
        lock(&self.gates).push(counter.clone());
        counter
    }

    /// Removes a counter of events; what it counted stays.
    pub(super) fn remove_counter(&self, counter: &Arc<AtomicU64>) {
        let mut gates = lock(&self.gates);
        gates.retain(|gate| !Arc::ptr_eq(gate, counter));
        self.events
            .fetch_add(counter.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns how many events there were.
    pub(super) fn events(&self) -> u64 {
        let gates = lock(&self.gates);
        let present: u64 = gates.iter().map(|gate| gate.load(Ordering::Relaxed)).sum();
        present + self.events.load(Ordering::Relaxed)
    }
}

impl Shared {
    pub(super) fn new(
        node: NodeId,
        disarm: Disarm,
        queue: QueueLimits,
        killed: bool,
        alarm: Option<UnixStream>,
        waker: Option<Waker>,
    ) -> Self {
        Self {
            node,
            disarm,
            mode: AtomicU8::new(Mode::Off.into()),
            filters_count: AtomicUsize::new(0),
            table: Arc::new(ArcSwap::from_pointee(Table::default())),
            counts: Counts::default(),
            asked: AtomicBool::new(false),
            number: AtomicU64::new(0),
            incarnation: Mutex::default(),
            closing: AtomicBool::new(false),
            held: AtomicU8::new(Held::default().into()),
            switches: Mutex::default(),
            tidy: AtomicBool::new(false),
            begun: Instant::now(),
            leases: Mutex::new(Leases::new(killed)),
            outbox: Mutex::new(Outbox::new(queue)),
            inbox: Mutex::new(Inbox::default()),
            alarm,
            waker,
        }
    }

    /// Returns the moment by the clock that leases end by.
    pub(super) fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Returns the host's incarnation, and the number it began with.
    pub(super) fn incarnation(&self) -> (Incarnation, CheckpointNumber) {
        *lock(&self.incarnation)
    }

    pub(super) fn set_incarnation(&self, incarnation: Incarnation, born: CheckpointNumber) {
        *lock(&self.incarnation) = (incarnation, born);
    }

    /// Leaves a frame for the socket's thread, or drops and counts it.
    pub(super) fn send(&self, frame: impl Into<HostToAgent>) {
        if lock(&self.outbox).push(frame.into()) {
            self.wake_thread();
        }
    }

    pub(super) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        lock(&self.outbox)
    }

    /// Leaves something for the host's loop.
    pub(super) fn ask(&self, put: impl FnOnce(&mut Inbox)) {
        {
            let mut inbox = lock(&self.inbox);
            put(&mut inbox);
            self.asked.store(true, Ordering::Release);
        }
        if let Some(waker) = &self.waker {
            waker();
        }
    }

    /// Takes what was left for the host's loop.
    pub(super) fn take_asked(&self) -> Inbox {
        let mut inbox = lock(&self.inbox);
        self.asked.store(false, Ordering::Relaxed);
        std::mem::take(&mut *inbox)
    }

    /// Changes the leases; the table follows before anybody else can change them, and who must hear of ends does.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut Leases, &mut Vec<FilterEnded>) -> T,
    ) -> T {
        let mut ended = Vec::new();
        let result = {
            let mut leases = lock(&self.leases);
            let result = change(&mut leases, &mut ended);
            let mode = leases.mode();
            self.mode.store(mode.into(), Ordering::Relaxed);
            let table = match mode {
                Mode::Off => Table::default(),
                mode => Table::build(self.node, mode, &leases.armed()),
            };
            let count = table.len();
            self.table.store(Arc::new(table));
            self.filters_count.store(count, Ordering::Release);
            result
        };
        self.tell(ended);
        result
    }

    /// Installs filters from now on.
    pub(super) fn install(&self, filters: Vec<Filter>) -> Result<(), InstallError> {
        let now_ms = self.now_ms();
        let installed = self.change(|leases, ended| leases.install(now_ms, filters, ended));
        // The thread sleeps until the next lease ends, and that may be one of these.
        self.wake_thread();
        installed
    }

    /// Clears away filters that have ended by themselves, and returns when the next will.
    pub(super) fn tick(&self, now_ms: u64) -> Option<u64> {
        let due = lock(&self.leases).next_end_ms();
        if self.tidy.swap(false, Ordering::Acquire) || due.is_some_and(|due| now_ms >= due) {
            self.change(|leases, ended| leases.tick(now_ms, ended));
            return lock(&self.leases).next_end_ms();
        }
        due
    }

    /// Sends the hits that were left for a common report.
    pub(super) fn report_hits(&self) {
        let hits = lock(&self.leases).take_unreported();
        for hit in hits {
            self.send(hit);
        }
    }

    /// Returns what may be done at most.
    pub(super) fn mode(&self) -> Mode {
        Mode::try_from(self.mode.load(Ordering::Relaxed)).unwrap_or(Mode::Off)
    }

    /// Returns what forbids steering here.
    pub(super) fn held(&self) -> Held {
        Held::try_from(self.held.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Learns what forbids steering here: the filters fall, or may be installed again.
    pub(super) fn set_held(&self, held: Held) {
        let before = self.held.swap(held.into(), Ordering::Relaxed);
        let killed = held != Held::No;
        if before != u8::from(held) {
            tracing::info!(killed, "kill switch turned: {held}");
        }
        if self.with_leases(|leases| leases.is_killed()) != killed {
            self.change(|leases, ended| leases.set_killed(killed, ended));
        }
    }

    /// Returns the files that an agent named.
    pub(super) fn switches(&self) -> Vec<PathBuf> {
        lock(&self.switches).clone()
    }

    /// Learns which files an agent names. A path that is not absolute would mean another file here than there.
    pub(super) fn set_switches(&self, files: Vec<String>) {
        let files = files.into_iter().map(PathBuf::from);
        *lock(&self.switches) = files.filter(|file| file.is_absolute()).collect();
    }

    /// Runs with the leases, without changing what is in force.
    pub(super) fn with_leases<T>(&self, look: impl FnOnce(&mut Leases) -> T) -> T {
        look(&mut lock(&self.leases))
    }

    /// Has ended filters cleared away by the socket's thread.
    pub(super) fn tidy_soon(&self) {
        self.tidy.store(true, Ordering::Release);
        self.wake_thread();
    }

    /// Wakes the socket's thread. If its alarm is full it is about to wake anyway.
    pub(super) fn wake_thread(&self) {
        if let Some(mut alarm) = self.alarm.as_ref() {
            let _ = alarm.write(&[1]);
        }
    }

    fn tell(&self, ended: Vec<FilterEnded>) {
        for ended in ended {
            tracing::info!(filter = %ended.filter, hits = ended.hits, "filter ended: {}", ended.end);
            self.send(ended);
            self.ask(|inbox| inbox.push_ended(ended));
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// Locks even after a panic elsewhere: every change here is complete or did not happen.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
