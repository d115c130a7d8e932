//! The host's side of steering: the checkpoint number on every message, the question before every handler, and the link
//! to the agent. It knows no runtime: a service with its own event loop calls it, and so does `scry::runtime`.
//!
//! | module | what it holds |
//! |---|---|
//! | `gate` | the question before every handler |
//! | `table` | the filters in force, laid out for that question |
//! | `lease` | installed filters and how they end |
//! | `disarm` | filters that block too much |
//! | `socket` | the thread that speaks with the agent |
//! | `switch` | files that forbid steering |
//! | `outbox`, `inbox`, `shared` | what passes between that thread and the host's |
//! | `number` | checkpoint numbers over restarts |
//! | `traffic` | messages from and to peers: what the recorder learns of them, one by one or in batches |
//! | `contact` | with whom the host spoke |
//! | `kind` | what events are called |
//!
//! # The host never waits
//!
//! Frames to the agent go into a bounded queue; what does not fit is dropped and counted. The socket, the kill file and
//! the ends of leases are the business of one thread. If there is no agent, or it dies, or it sends nonsense, the filters
//! fall and every answer is [`Verdict::Run`].
//!
//! # Kill switches
//!
//! Filters act only while the agent's mode allows it, while no kill file is there (looked for about twice a second), and
//! unless the host was started with `SCRY_STEER=off`. Kill files are the one of the options and those that an agent has
//! named; these count on when the agent is gone.

mod contact;
mod disarm;
mod gate;
mod harm;
mod inbox;
mod lease;
mod number;
mod outbox;
mod shared;
mod socket;
mod switch;
mod table;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use scry_protocol::channel::{Envelope, Place};
use scry_protocol::checkpoint::WriteCheckpointError;
use scry_protocol::filter::{Filter, Mode};
use scry_protocol::link::host::{
    Checkpoint, FailedOpen, Failure, Goodbye, Hello, LookAgain, Neighbors, PredictionAnswer, Renew,
    Renewed, Stats, Suspicion, Veto,
};
use scry_protocol::{CheckpointNumber, FilterId, Incarnation, NodeId, Past, Times, Transport};

use crate::hook::number::Numbers;
use crate::hook::shared::{Shared, lock};
use crate::hook::socket::Thread;
use crate::hook::traffic::{Counts, Traffic};
use scry_checkpoint::Time;
use scry_checkpoint::channel::{self, Lane};
use scry_checkpoint::past::{self, PastOptions};
use scry_checkpoint::recorder::{self, Capture, Recorder, RefusedStamps};

pub use disarm::Disarm;
pub use gate::{Gate, Occurrence, Verdict};
pub use harm::Kept;
pub use inbox::Request;
pub use lease::{INSTALLED_MAX, LEASE_MS_MAX};
pub use outbox::QueueLimits;
pub use scry_engine::kind::kind_of;
pub use shared::Waker;
pub use socket::Backoff;
pub use switch::forbids_steering;

/// The environment variable that forbids steering in a host if it says `off`.
pub const SWITCH_VARIABLE: &str = "SCRY_STEER";

/// Counts and contacts are reported so often.
const REPORT_MS: u64 = 1_000;
/// What messages say of other incarnations of the node counts at most this often.
const RENEW_MS: u64 = 10_000;
/// A question for the neighbors' states takes a number up to so far ahead, by node, so that two nodes that ask at once
/// ask for different ones.
const LEAP_MAX: u64 = 7;

/// Who a host is, and how its hook behaves.
#[derive(Clone)]
pub struct Options {
    /// The node.
    pub node: NodeId,
    /// The service's name.
    pub service: String,
    /// The service's version: agents share paths only between equal ones.
    pub version: String,
    /// Which incarnation of the node this is, if there is no file of numbers that says so: of the time of day and chance, unless
    /// somebody counts incarnations better.
    pub incarnation: Incarnation,
    /// Tells the incarnation that follows the one in the file of numbers from others that followed it.
    pub chance: u64,
    /// The time of day in milliseconds since the epoch. A host without a file of numbers begins with it.
    pub clock_ms: u64,
    /// The least number to begin with.
    pub born: CheckpointNumber,
    /// Where checkpoint numbers and the incarnation are kept over restarts; see the module `number` for what is done without.
    pub numbers: Option<PathBuf>,
    /// The agent's socket; none for a host without an agent.
    pub socket: Option<PathBuf>,
    /// A file whose existence forbids steering.
    pub kill_file: Option<PathBuf>,
    /// What may wait for the agent.
    pub queue: QueueLimits,
    /// How soon a lost agent is looked for.
    pub backoff: Backoff,
    /// What is remembered of messages in flight; nothing if absent.
    pub channels: Option<channel::Options>,
    /// How many nodes are kept apart in what lies in the node's past; with none, only numbers count.
    pub past_entries_max: usize,
    /// What lay in the past of the incarnation before this one, if somebody kept it.
    pub former_past: Option<Past>,
    /// How much a filter may block.
    pub disarm: Disarm,
    /// Whether the host can try an event before it handles it, as [`Verdict::Check`] asks it to.
    pub checks: bool,
    /// Called from the hook's thread when the agent asks for something, so that an idle loop turns. It must not block.
    pub waker: Option<Waker>,
}

impl Options {
    /// Makes options for a node that starts now, without an agent.
    pub fn new(node: NodeId, service: impl Into<String>, version: impl Into<String>) -> Self {
        let since_epoch = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let clock_ms = since_epoch.as_millis() as u64;
        let chance = chance();
        Self {
            node,
            service: service.into(),
            version: version.into(),
            incarnation: Incarnation::of_clock(clock_ms, chance),
            chance,
            clock_ms,
            born: CheckpointNumber::ZERO,
            numbers: None,
            socket: None,
            kill_file: None,
            queue: QueueLimits::default(),
            backoff: Backoff::default(),
            channels: Some(channel::Options::default()),
            past_entries_max: past::ENTRIES_MAX,
            former_past: None,
            disarm: Disarm::default(),
            checks: false,
            waker: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("node", &self.node)
            .field("service", &self.service)
            .field("incarnation", &self.incarnation)
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

/// One incarnation of a host, as its agent and its peers' hosts see it.
#[derive(Debug)]
pub struct Hook {
    shared: Arc<Shared>,
    gate: Gate,
    traffic: Traffic,
    numbers: Numbers,
    vetoed_events: u64,
    held_events: u64,
    unchecked_events: u64,
    check_times: Times,
    answered_calls: u64,
    failures: BTreeMap<u8, u64>,
    /// When another incarnation was last begun because of what messages say.
    renewed: Option<Time>,
    /// Stamps that were refused up to the last report.
    refused_told: u64,
    /// Why the stored number was not believed, until somebody is told.
    unfit: Option<String>,
    report_at: Time,
    thread: Option<JoinHandle<()>>,
}

impl Hook {
    /// Begins an incarnation with its first checkpoint, and looks for the agent from now on. Never fails, never waits.
    ///
    /// `capture` shows the service after its start and before anything it sends then is sent.
    pub fn connect(options: Options, now: Time, capture: impl FnOnce() -> Capture) -> Self {
        let mut capture = Some(capture);
        let mut capture = || (capture.take().expect("a hook is begun once"))();
        Self::begin(options, now, &mut capture)
    }

    fn begin(options: Options, now: Time, capture: &mut dyn FnMut() -> Capture) -> Self {
        let killed = is_switched_off(std::env::var_os(SWITCH_VARIABLE).as_deref());
        let mut numbers = Numbers::begin(
            options.numbers.clone(),
            options.clock_ms,
            options.incarnation,
            options.chance,
            options.born,
        );
        let unfit = numbers.take_unfit();
        // A host that is out of descriptors or threads runs unsteered.
        let alarm = match options.socket.as_ref().map(|_| alarm()).transpose() {
            Ok(alarm) => alarm,
            Err(error) => {
                tracing::warn!("no steering: {error}");
                None
            }
        };
        let (ring, listen) = alarm.unzip();
        let shared = Arc::new(Shared::new(
            options.node,
            options.disarm,
            options.queue,
            killed,
            ring,
            options.waker.clone(),
        ));
        let (born, incarnation) = (numbers.born(), numbers.incarnation());
        shared.set_incarnation(incarnation, born);
        let past = PastOptions {
            me: options.node,
            entries_max: options.past_entries_max,
            former: options.former_past,
        };
        let (recorder, first) =
            Recorder::begin(now, incarnation, born, options.channels, past, capture);
        let mut hook = Self {
            gate: Gate::new(shared.clone()),
            traffic: Traffic::new(shared.clone(), recorder),
            shared,
            numbers,
            vetoed_events: 0,
            held_events: 0,
            unchecked_events: 0,
            check_times: Times::default(),
            answered_calls: 0,
            failures: BTreeMap::new(),
            renewed: None,
            refused_told: 0,
            unfit: None,
            report_at: now.after_millis(REPORT_MS),
            thread: None,
        };
        hook.publish(first.map(Some));
        hook.unfit = unfit;
        if let (Some(path), Some(alarm)) = (options.socket, listen) {
            let thread = Thread {
                shared: hook.shared.clone(),
                path,
                kill_file: options.kill_file,
                killed,
                backoff: options.backoff,
                hello: Hello {
                    node: options.node,
                    incarnation,
                    born,
                    number: born,
                    service: options.service,
                    version: options.version,
                    checks: options.checks,
                },
                alarm,
            };
            match thread::Builder::new()
                .name("scry-hook".to_owned())
                .spawn(move || thread.run())
            {
                Ok(thread) => hook.thread = Some(thread),
                Err(error) => tracing::warn!("no steering: {error}"),
            }
        }
        hook
    }

    /// Begins an incarnation without an agent: messages are stamped all the same, since its peers may have one.
    pub fn detached(options: Options, now: Time, capture: impl FnOnce() -> Capture) -> Self {
        let options = Options {
            socket: None,
            ..options
        };
        Self::connect(options, now, capture)
    }

    /// Returns the present checkpoint number.
    pub fn number(&self) -> CheckpointNumber {
        self.traffic.recorder().number()
    }

    /// Returns which incarnation this is.
    pub fn incarnation(&self) -> Incarnation {
        self.traffic.recorder().incarnation()
    }

    /// Returns what lies in the node's past, all that has arrived included.
    pub fn past(&self) -> &Past {
        self.traffic.recorder().past()
    }

    /// Returns the past to judge by: see [`Recorder::past_to_judge_by`].
    pub fn past_to_judge_by(&self, now: Time) -> &Past {
        self.traffic.recorder().past_to_judge_by(now)
    }

    /// Returns a number that is greater after each change of the past.
    #[inline]
    pub fn past_version(&self) -> u64 {
        self.traffic.recorder().past_version()
    }

    /// Tells whether it is noted already that what properties read of the node changed since its last checkpoint.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.traffic.recorder().has_changed()
    }

    /// Notes that what properties read of the node has changed. A loop that does not compare says so after every handler
    /// that may have changed anything, before what the handler sends is [stamped](Self::stamp).
    #[inline]
    pub fn note_change(&mut self) {
        if !self.has_changed() {
            self.traffic.settle().note_change();
        }
    }

    /// Makes a gate for another thread that handles events.
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Learns of a message before anything else is decided about it, also if it is then kept from its handler: the
    /// checkpoint that must precede it is taken.
    pub fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        transport: Transport,
        envelope: &Envelope,
        capture: impl FnOnce() -> Capture,
    ) {
        let taken = self
            .traffic
            .receive(now, from, transport, envelope, capture);
        if !matches!(taken, Ok(None)) {
            self.publish(taken);
        }
    }

    /// Learns of a message whose sender is not a member of the service, instead of [`receive`](Self::receive): it has no say
    /// about numbers, and nothing is remembered of it. Messages to such a node carry no stamp.
    pub fn receive_from_stranger(&mut self, from: NodeId, envelope: &Envelope) {
        self.traffic.receive_from_stranger(from, envelope);
    }

    /// Learns of a message that came on a connection with a stamp of which everything follows from the one before
    /// ([`Succession::read_next`]), and is at this place. It is much cheaper than to [`receive`](Self::receive) it: no
    /// checkpoint can be due, so the recorder learns of many at once, before anything else comes of what it knows.
    ///
    /// [`Succession::read_next`]: scry_protocol::channel::Succession::read_next
    #[inline]
    pub fn receive_next(&mut self, now: Time, from: NodeId, place: Option<Place>) {
        self.traffic.receive_next(now, from, place);
    }

    /// Tells whether no filter is in force: every answer is [`Verdict::Run`].
    #[inline]
    pub fn is_unfiltered(&self) -> bool {
        self.gate.is_open()
    }

    /// Returns what goes out with a message.
    #[inline]
    pub fn stamp(&mut self, now: Time, to: NodeId, lane: Lane, message: &[u8]) -> Envelope {
        self.traffic.stamp(now, to, lane, message)
    }

    /// Takes in a message that may go out with the stamp that follows from the last on its connection
    /// ([`Succession::write_next`]), and returns it as `encode` wrote it; `None` if it must be [stamped](Self::stamp). What
    /// goes out so is learned of as with [`receive_next`](Self::receive_next).
    ///
    /// # Errors
    ///
    /// When `encode` fails.
    ///
    /// [`Succession::write_next`]: scry_protocol::channel::Succession::write_next
    #[inline]
    pub fn send_next<E>(
        &mut self,
        now: Time,
        to: NodeId,
        lane: Lane,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Option<&[u8]>, E> {
        self.traffic.send_next(now, to, lane, encode)
    }

    /// Opens a connection to a peer, from either end, and returns the serial its messages are sent under.
    pub fn open(&mut self, now: Time, peer: NodeId) -> u32 {
        self.traffic.open(now, peer)
    }

    /// Learns that a connection is gone, by the serial of what was sent on it and the incarnation and serial of what came.
    pub fn ended(
        &mut self,
        now: Time,
        peer: NodeId,
        sending: Option<u32>,
        receiving: Option<(Incarnation, u32)>,
    ) {
        self.traffic.handle_ended(now, peer, sending, receiving);
    }

    /// Decides about an event before its handler runs. See [`Gate::admit`].
    #[inline]
    pub fn admit(&mut self, occurrence: &Occurrence<'_>) -> Verdict {
        self.count_event();
        self.admit_again(occurrence)
    }

    /// Decides about an event that was let through before, and kept for another reason: it is not counted again.
    #[inline]
    pub fn admit_again(&mut self, occurrence: &Occurrence<'_>) -> Verdict {
        if self.is_unfiltered() {
            return Verdict::Run;
        }
        // A filter that blocks too much is found by how many messages there were.
        self.traffic.settle_received();
        self.gate.look_up(occurrence)
    }

    /// Returns the property for whose sake a filter is in force.
    pub fn property_of(&mut self, filter: FilterId) -> Option<String> {
        self.gate.property_of(filter)
    }

    /// Counts an event that no filter can mean: a start, a lost connection.
    pub fn count_event(&mut self) {
        self.gate.count_event();
    }

    /// Does what the agent asked for, between two events, and returns what the loop itself has to do.
    ///
    /// Cheap if there is nothing to do: one atomic load and a comparison.
    #[inline]
    pub fn turn(&mut self, now: Time, capture: impl FnMut() -> Capture) -> Vec<Request> {
        if !self.is_turn_due(now) {
            return Vec::new();
        }
        self.turn_slowly(now, capture)
    }

    /// Tells whether there is anything to do for [`turn`](Self::turn).
    #[inline]
    pub fn is_turn_due(&self, now: Time) -> bool {
        now >= self.report_at || self.shared.asked.load(Ordering::Acquire)
    }

    /// Tells whether the next [`turn`](Self::turn) reports what was counted: what is told often is told then.
    pub fn is_report_due(&self, now: Time) -> bool {
        now >= self.report_at
    }

    /// Returns when [`turn`](Self::turn) is due even if nothing happens.
    pub fn poll_timeout(&self) -> Time {
        self.report_at
    }

    fn turn_slowly(&mut self, now: Time, mut capture: impl FnMut() -> Capture) -> Vec<Request> {
        let mut asked = self.shared.take_asked();
        for arrived in asked.arrived.drain(..) {
            self.traffic.settle().handle_arrived(&arrived);
        }
        if let Some(renew) = asked.renew {
            let why = "most neighbors cannot follow its number, or know of a later incarnation";
            self.renew(now, renew, why, &mut capture);
        }
        if let Some(number) = asked.take {
            let recorder = self.traffic.settle();
            let taken = recorder.handle_take(now, number, &mut capture);
            self.publish(taken);
        }
        if asked.ask_neighbors {
            let neighbors = recorder::as_named(capture().neighbors);
            self.shared.send(Neighbors { neighbors });
        }
        if now >= self.report_at {
            self.report_at = now.after_millis(REPORT_MS);
            let lately = |at: Time| now.millis_since(at) < RENEW_MS;
            if let Some(after) = self.traffic.recorder().outlived()
                && !self.renewed.is_some_and(lately)
            {
                self.renewed = Some(now);
                let renew = Renew {
                    after,
                    number: None,
                };
                let why = "a peer knows of a later incarnation: was the clock set back?";
                self.renew(now, renew, why, &mut capture);
            }
            self.tell_refused();
            self.shared.send(self.stats());
            if let Some(contacts) = self.traffic.take_contacts(now) {
                self.shared.send(contacts);
            }
        }
        asked.into_requests()
    }

    /// Goes on under another incarnation. The service notices nothing of it.
    fn renew(&mut self, now: Time, renew: Renew, why: &str, capture: &mut impl FnMut() -> Capture) {
        let Renew { after, number } = renew;
        let recorder = self.traffic.settle();
        let (before, was) = (recorder.incarnation(), recorder.number());
        let first = recorder.renew(now, after, number, capture);
        let (incarnation, born) = (recorder.incarnation(), recorder.born());
        self.numbers.renew(incarnation, born);
        self.shared.set_incarnation(incarnation, born);
        self.shared.send(Renewed { incarnation, born });
        self.publish(first.map(Some));
        let detail = format!("{before} at {was} goes on as {incarnation} at {born}: {why}");
        tracing::warn!("{detail}");
        self.failed_open(Failure::Renewed, detail);
    }

    /// Tells of stamps that were refused since the last report, all in one.
    fn tell_refused(&mut self) {
        if let Some(why) = self.unfit.take() {
            self.failed_open(Failure::NumbersUnfit, why);
        }
        let refused = self.traffic.recorder().refused();
        let new = refused.count() - self.refused_told;
        if let Some((from, number)) = refused.last
            && new > 0
        {
            self.refused_told = refused.count();
            let RefusedStamps {
                strangers,
                implausible,
                pasts,
                ..
            } = refused;
            let detail = format!(
                "{new} since the last report, the last from {from} with {number}; in all {strangers} of senders that                  are not members, {implausible} too far ahead, {pasts} with a past that cannot be"
            );
            let count = self
                .failures
                .entry(Failure::StampRefused.into())
                .or_default();
            *count += new - 1;
            self.failed_open(Failure::StampRefused, detail);
        }
    }

    /// Installs the filters of a [`Predicted`](Request::Predicted) that the service left to them.
    ///
    /// Without an agent, or with a kill switch on, they end at once; so do filters no agent would send.
    pub fn install(&mut self, filters: Vec<Filter>) {
        if let Err(error) = self.shared.install(filters) {
            tracing::warn!("filters were not installed: {error}");
        }
    }

    /// Tells the agent what the service does about a violation it was told of.
    pub fn answer_prediction(&mut self, answer: PredictionAnswer) {
        self.shared.send(answer);
    }

    /// Returns how much filters may do now. The immediate safety check keeps to it too.
    pub fn mode(&self) -> Mode {
        self.shared.mode()
    }

    /// Reports that the immediate safety check refused an event, or would have.
    pub fn veto(&mut self, veto: Veto) {
        if veto.acted {
            self.vetoed_events += 1;
        }
        self.shared.send(Veto {
            event: gate::shortened(veto.event),
            explanation: gate::shortened(veto.explanation),
            ..veto
        });
    }

    /// Asks for the neighbors' present states, because an event is held. They come as a
    /// [`Surroundings`](Request::Surroundings) that answers the question, or not at all.
    ///
    /// The checkpoint that is taken for it has a number above everything in the node's past and not likely to be reached by
    /// others at the same time, so that whoever shows it shows a state after the question. Neighbors that were silent the last
    /// time are not asked, but for the one that the event is `about`.
    pub fn look_again(
        &mut self,
        now: Time,
        question: u64,
        wait_ms: u64,
        about: Option<NodeId>,
        capture: impl FnOnce() -> Capture,
    ) {
        let leap = u64::from(self.shared.node.get()) % LEAP_MAX + 1;
        let number = self.number();
        let number = number.ahead(leap).unwrap_or(number);
        let recorder = self.traffic.settle();
        let taken = recorder.handle_take(now, number, capture);
        self.publish(taken);
        self.held_events += 1;
        self.shared.send(LookAgain {
            question,
            number,
            wait_ms,
            about,
        });
    }

    /// Reports what came of an event that was held.
    pub fn suspicion(&mut self, suspicion: Suspicion) {
        self.shared.send(Suspicion {
            event: gate::shortened(suspicion.event),
            ..suspicion
        });
    }

    /// Takes over how many events were not checked so far.
    pub fn set_unchecked(&mut self, count: u64) {
        self.unchecked_events = count;
    }

    /// Takes over how long events waited for the check so far.
    pub fn set_check_times(&mut self, times: &Times) {
        self.check_times.clone_from(times);
    }

    /// Counts what a veto did to the service; what filters do is counted where they act.
    pub fn count_harm(&mut self, property: &str, kept: Kept) {
        lock(&self.shared.counts.harm).note(property, kept);
    }

    /// Counts a call whose handler ran.
    pub fn count_answered(&mut self) {
        self.answered_calls += 1;
    }

    /// Reports that something failed and the service went on unprotected.
    pub fn failed_open(&mut self, failure: Failure, detail: impl Into<String>) {
        let count = self.failures.entry(failure.into()).or_default();
        *count += 1;
        self.shared.send(FailedOpen {
            failure,
            count: *count,
            detail: gate::shortened(detail.into()),
        });
    }

    /// Returns what was counted so far.
    pub fn stats(&self) -> Stats {
        let Counts {
            sent_bytes,
            sent_messages,
            received_messages,
        } = self.traffic.counts();
        let (checkpoints, forced_checkpoints) = self.traffic.recorder().counts();
        Stats {
            sent_bytes,
            sent_messages,
            received_messages,
            checkpoints,
            forced_checkpoints,
            dropped_frames: self.shared.outbox().dropped_count(),
            events: self.shared.counts.events(),
            filtered_events: self.shared.counts.filtered.load(Ordering::Relaxed),
            vetoed_events: self.vetoed_events,
            held_events: self.held_events,
            unchecked_events: self.unchecked_events,
            check_times: self.check_times.clone(),
            answered_calls: self.answered_calls,
            held: self.shared.held(),
            harm: lock(&self.shared.counts.harm).list(),
        }
    }

    /// Ends in good order: says goodbye, and waits at most so long for it to be written.
    ///
    /// A hook that is merely dropped says goodbye too, and waits for nothing.
    pub fn close(mut self, wait: Duration) {
        self.say_goodbye();
        let until = Instant::now() + wait;
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn say_goodbye(&self) {
        if !self.shared.closing.load(Ordering::Acquire) {
            let number = self.traffic.recorder().number();
            self.shared.send(Goodbye { number });
            self.shared.closing.store(true, Ordering::Release);
            self.shared.wake_thread();
        }
    }

    /// Sends a checkpoint that was taken. The number it gave the host is kept over restarts before anybody sees it.
    fn publish(&mut self, taken: Result<Option<Checkpoint>, WriteCheckpointError>) {
        let number = self.traffic.recorder().number();
        self.numbers.reserve(number);
        self.shared.number.store(number.get(), Ordering::Release);
        match taken {
            Ok(None) => {}
            Ok(Some(checkpoint)) => self.shared.send(checkpoint),
            Err(error) => self.failed_open(Failure::CheckpointTooLarge, error.to_string()),
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.say_goodbye();
    }
}

/// Returns something that is different in every process.
fn chance() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Tells whether a value of [`SWITCH_VARIABLE`] forbids steering.
pub fn is_switched_off(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| value.eq_ignore_ascii_case("off"))
}

/// Makes the two ends of what wakes the thread: neither ever blocks.
fn alarm() -> std::io::Result<(UnixStream, UnixStream)> {
    let (ring, listen) = UnixStream::pair()?;
    ring.set_nonblocking(true)?;
    listen.set_nonblocking(true)?;
    Ok((ring, listen))
}
