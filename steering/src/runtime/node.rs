//! The loop: one task owns a node's state, its timers and its connections, and handles one event after the other.
//!
//! What happens to an event is in `events`, what a handler asked for is done in `effects`. Nothing here waits while an
//! event is handled: sockets are served by tasks of their own, and what cannot be sent at once is queued or lost.

mod effects;
mod events;
mod holding;
mod postponing;
mod steering;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use scry_protocol::{CheckpointNumber, FilterId, NodeId};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::hook::{self, Hook};
use crate::runtime::clock::{NodeClock, TimeOfDay};
use crate::runtime::connection::{self, Arrival};
use crate::runtime::datagrams::{self, Datagrams};
use crate::runtime::disk::Store;
use crate::runtime::emulation::Emulator;
use crate::runtime::guard::Guard;
use crate::runtime::handle::{Command, Counts, Handle, Snapshot};
use crate::runtime::node::holding::Holding;
use crate::runtime::node::postponing::Postponed;
use crate::runtime::node::steering::Held;
use crate::runtime::options::Options;
use crate::runtime::ports::Ports;
use crate::runtime::report::{Kind, Report, Ruling};
use crate::runtime::streams::Streams;
use crate::runtime::task;
use crate::runtime::timers::Timers;
use crate::runtime::wire::DATAGRAM_BYTES_MAX;
use scry_checkpoint::Time;
use scry_engine::context::Dice;
use scry_engine::model::handler::{Local, mix};
use scry_engine::model::live;
use scry_engine::panics::Panicked;
use scry_engine::property::Projection;
use scry_engine::service::Service;

/// How many commands and arrivals may wait for the loop before whoever sends them waits.
const QUEUE_MAX: usize = 1024;
/// How many events of one source are handled before the others have their turn.
const BATCH_MAX: usize = 64;
/// How long connections are given to close in good order.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);
/// How long the agent is given to take the goodbye.
const GOODBYE_LIMIT: Duration = Duration::from_millis(500);
/// How often in a row the socket for datagrams may fail before the node gives up.
const DATAGRAM_ERRORS_MAX: u32 = 1000;

/// How a node ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum End {
    /// In good order.
    Shutdown,
    /// A handler panicked, and said this.
    Panicked(String),
    /// It could not go on, for this reason.
    Failed(String),
    /// The runtime it ran on was stopped.
    Cancelled,
}

impl From<Panicked> for End {
    fn from(Panicked(said): Panicked) -> Self {
        Self::Panicked(said)
    }
}

/// A node whose ports are bound and which has not started.
#[derive(Debug)]
pub struct Bound<S: Service> {
    options: Options<S>,
    listener: TcpListener,
    socket: UdpSocket,
    address: SocketAddr,
    watchers: Vec<Watcher<S>>,
}

/// Starts a node. It runs until it is shut down, a handler panics, or all its handles are gone.
///
/// # Errors
///
/// When its ports cannot be bound.
///
/// # Panics
///
/// When called outside a tokio runtime.
pub fn spawn<S: Service>(options: Options<S>) -> io::Result<Handle<S>> {
    Ok(bind(options)?.spawn())
}

/// Binds a node's ports, so that its address is known before it starts.
///
/// # Errors
///
/// When they are taken.
///
/// # Panics
///
/// When called outside a tokio runtime.
pub fn bind<S: Service>(options: Options<S>) -> io::Result<Bound<S>> {
    let (listener, socket) = datagrams::bind_both(options.listen)?;
    let address = listener.local_addr()?;
    Ok(Bound {
        options,
        listener: TcpListener::from_std(listener)?,
        socket: UdpSocket::from_std(socket)?,
        address,
        watchers: Vec::new(),
    })
}

impl<S: Service> Bound<S> {
    /// Returns where it will listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a report of every event, the start included.
    pub fn watch(&mut self) -> mpsc::Receiver<Report<S>> {
        let (reports, receiver) = mpsc::channel(self.options.reports_max);
        self.watchers.push(Watcher { reports, missed: 0 });
        receiver
    }

    /// Starts it.
    pub fn spawn(self) -> Handle<S> {
        let (commands, orders) = mpsc::channel(QUEUE_MAX);
        let (ended, end) = watch::channel(None);
        let handle = Handle::new(
            self.options.me,
            self.address,
            commands,
            end,
            self.options.reports_max,
        );
        task::spawn(async move {
            let end = self.live(orders).await;
            ended.send_replace(Some(end));
        });
        handle
    }

    async fn live(self, commands: mpsc::Receiver<Command<S>>) -> End {
        let (sender, arrivals) = mpsc::channel(QUEUE_MAX);
        let ports = Ports::new(self.options.limits);
        let acceptor = connection::accept(self.listener, Arc::clone(&ports), sender.clone());
        let socket = Arc::new(self.socket);
        let sources = Sources {
            commands,
            arrivals,
            socket: Arc::clone(&socket),
            acceptor,
        };
        let me = self.options.me;
        match Node::start(self.options, self.watchers, ports, sender, socket) {
            Ok(node) => node.live(sources).await,
            Err((mut watchers, end)) => {
                tracing::error!(node = %me, ?end, "the node could not start");
                // There is no state to report: the watchers learn it from the end of their reports.
                watchers.clear();
                end
            }
        }
    }
}

/// Where a node's events come from.
struct Sources<S: Service> {
    commands: mpsc::Receiver<Command<S>>,
    arrivals: mpsc::Receiver<Arrival>,
    socket: Arc<UdpSocket>,
    acceptor: JoinHandle<()>,
}

/// Somebody who gets reports.
#[derive(Debug)]
struct Watcher<S: Service> {
    reports: mpsc::Sender<Report<S>>,
    missed: u64,
}

/// A node that runs.
struct Node<S: Service> {
    me: NodeId,
    setup: S::Setup,
    local: Local<S>,
    /// The members it knows, and where they are. Only their stamps count.
    peers: BTreeMap<NodeId, SocketAddr>,
    ports: Arc<Ports>,
    /// How much was refused at the ports up to the last report.
    port_limits_told: u64,
    time_of_day: TimeOfDay,
    timers: Timers<S::Timer>,
    streams: Streams,
    datagrams: Datagrams,
    emulator: Emulator,
    store: Option<Store<S::Disk>>,
    guard: Option<Box<dyn Guard<S>>>,
    watchers: Vec<Watcher<S>>,
    /// Messages of the node to itself. They never leave it, and are handled before anything else.
    own: VecDeque<S::Message>,
    /// Peers whose connection failed while something was sent to them.
    lost: VecDeque<NodeId>,
    /// What filters hold back, apart from connections.
    held: Vec<Held>,
    hook: Option<Hook>,
    hook_options: Option<hook::Options>,
    /// Rings when the agent asks for something.
    wake: Arc<Notify>,
    begun: Instant,
    /// Where stamps come from.
    stamps: NodeClock,
    /// The hook's time, as the clock said when it was last looked at for another reason.
    clock: Time,
    counts: Counts,
    seed: u64,
    events_count: u64,
    /// When the last event got its dice: looking at the clock again would cost more than the rest of what most events take.
    dice_thrown: Instant,
    /// Handlers that ran.
    handled_count: u64,
    /// Events that the guard suspects.
    holding: Holding<S>,
    /// Events that are kept on their connections.
    postponed: Postponed,
    /// What properties read of the node at its last checkpoint, by the number of that.
    watched: Option<(CheckpointNumber, Vec<Option<Projection>>)>,
    /// Buffers for the message that is being sent, and for what goes over the wire.
    content: Vec<u8>,
    framed: Vec<u8>,
}

impl<S: Service> Node<S> {
    /// Boots the service and performs what it asks for.
    fn start(
        options: Options<S>,
        watchers: Vec<Watcher<S>>,
        ports: Arc<Ports>,
        arrivals: mpsc::Sender<Arrival>,
        socket: Arc<UdpSocket>,
    ) -> Result<Self, (Vec<Watcher<S>>, End)> {
        let seed = options.seed.unwrap_or_else(random_seed);
        let opened = match options.disk.map(Store::open).transpose() {
            Ok(opened) => opened,
            Err(error) => return Err((watchers, End::Failed(format!("disk: {error}")))),
        };
        let (store, left) = opened.map_or((None, None), |(store, left)| (Some(store), left));
        let (ticks, before_ms, disk) = left.map_or((0, 0, None), |left| {
            (left.ticks_bound, left.clock_ms, Some(left.disk))
        });
        let begun = Instant::now();
        let mut stamps = NodeClock::set(begun, options.time_of_day.now_ms(), before_ms);
        let dice = Dice::new(mix(seed), stamps.stamp(begun), ticks);
        let (local, effects) = match live::boot(options.me, &options.setup, disk, dice) {
            Ok(booted) => booted,
            Err(panicked) => return Err((watchers, panicked.into())),
        };
        let mut node = Self {
            me: options.me,
            setup: options.setup,
            local,
            peers: options.peers,
            ports,
            port_limits_told: 0,
            time_of_day: options.time_of_day,
            timers: Timers::new(),
            streams: Streams::new(
                options.me,
                random_seed() as u32,
                arrivals,
                options.connect_timeout,
                options.queue_bytes_max,
                options.limits,
            ),
            datagrams: Datagrams::new(socket),
            emulator: Emulator::new(seed, options.emulation),
            store,
            guard: options.guard,
            watchers,
            own: VecDeque::new(),
            lost: VecDeque::new(),
            held: Vec::new(),
            hook: None,
            hook_options: options.hook,
            wake: Arc::new(Notify::new()),
            begun,
            stamps,
            clock: Time::default(),
            counts: Counts::default(),
            seed,
            events_count: 1,
            dice_thrown: begun,
            handled_count: 0,
            holding: Holding::default(),
            postponed: Postponed::new(options.late_max),
            watched: None,
            content: Vec::new(),
            framed: Vec::new(),
        };
        node.begin_incarnation();
        node.count_event();
        match node.perform(effects) {
            Ok(()) => {
                node.report(Kind::Start, || "start".to_owned());
                Ok(node)
            }
            Err(end) => Err((node.watchers, end)),
        }
    }

    /// Lives until the end, and closes what is open.
    async fn live(mut self, mut sources: Sources<S>) -> End {
        let end = match self.turn(&mut sources).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        sources.acceptor.abort();
        match &end {
            End::Shutdown => {
                let arrivals = &mut sources.arrivals;
                self.streams.shut_down(SHUTDOWN_LIMIT, arrivals).await;
                if let Some(hook) = self.hook.take() {
                    // If the goodbye cannot be written, the agent learns it from the end of its socket.
                    let close = move || hook.close(GOODBYE_LIMIT);
                    let _ = tokio::task::spawn_blocking(close).await;
                }
                self.report(Kind::Shutdown, || "shut down".to_owned());
            }
            End::Panicked(said) => {
                tracing::error!(node = %self.me, said, "a handler panicked");
                self.report(Kind::Panic, || said.clone());
            }
            End::Failed(reason) => {
                tracing::error!(node = %self.me, reason, "the node cannot go on");
                self.report(Kind::Failed, || reason.clone());
            }
            End::Cancelled => {}
        }
        // The sockets are closed when the tasks are gone, and the ports free when the acceptor is.
        self.streams.abort().await;
        let _ = sources.acceptor.await;
        end
    }

    /// Handles events, one after the other.
    async fn turn(&mut self, sources: &mut Sources<S>) -> Result<std::convert::Infallible, End> {
        let socket = Arc::clone(&sources.socket);
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let wake = Arc::clone(&self.wake);
        let mut errors_count = 0;
        loop {
            self.handle_due()?;
            let due = self.due();
            tokio::select! {
                command = sources.commands.recv() => {
                    // Without handles nobody can ask for anything any more.
                    self.command(command.unwrap_or(Command::Shutdown))?;
                }
                arrival = sources.arrivals.recv() => {
                    let mut count = self.arrive(arrival.expect("the node holds a sender"))?;
                    while count < BATCH_MAX && let Ok(arrival) = sources.arrivals.try_recv() {
                        self.handle_own()?;
                        count += self.arrive(arrival)?;
                    }
                }
                received = socket.recv_from(&mut buffer) => match received {
                    Ok((length, _)) => {
                        errors_count = 0;
                        self.receive_datagram(&buffer[..length])?;
                        for _ in 1..BATCH_MAX {
                            let Ok((length, _)) = socket.try_recv_from(&mut buffer) else { break };
                            self.handle_own()?;
                            self.receive_datagram(&buffer[..length])?;
                        }
                    }
                    Err(error) => {
                        errors_count += 1;
                        if errors_count > DATAGRAM_ERRORS_MAX {
                            return Err(End::Failed(format!("datagrams: {error}")));
                        }
                    }
                },
                () = wake.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Returns when something is due without anything arriving.
    fn due(&self) -> Option<Instant> {
        if !self.own.is_empty() || !self.lost.is_empty() {
            return Some(Instant::now());
        }
        let hook = self
            .hook
            .as_ref()
            .map(|hook| self.begun + Duration::from_millis(hook.poll_timeout().as_millis()));
        let held = self.holding.due();
        let postponed = self.postponed.due();
        [
            self.timers.due(),
            self.datagrams.due(),
            hook,
            held,
            postponed,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Handles what is due: the node's words to itself, failed connections, timers, late datagrams.
    fn handle_due(&mut self) -> Result<(), End> {
        self.handle_own()?;
        let now = self.look_at_clock();
        self.turn_hook()?;
        self.release_overdue(now)?;
        self.offer_postponed(now)?;
        self.counts.datagrams_lost += self.datagrams.send_due(now);
        for _ in 0..BATCH_MAX {
            let Some((timer, after)) = self.timers.fire(now) else {
                break;
            };
            self.fire(timer, after)?;
            self.handle_own()?;
        }
        self.streams.tidy();
        Ok(())
    }

    /// Does what a handle asks. Whoever asked may not wait for the answer any more.
    fn command(&mut self, command: Command<S>) -> Result<(), End> {
        match command {
            Command::Call(call, done) => {
                self.call(call, done)?;
            }
            Command::State(done) => {
                self.count_refused();
                let _ = done.send(Snapshot {
                    state: self.local.service.clone(),
                    timers: self.local.timers.clone(),
                    connected: self.streams.peers().collect(),
                    number: self.hook.as_ref().map(Hook::number),
                    counts: self.counts,
                });
            }
            Command::Reset { notice, done } => {
                self.reset(notice)?;
                let _ = done.send(());
            }
            Command::Watch(reports, done) => {
                self.watchers.push(Watcher { reports, missed: 0 });
                let _ = done.send(());
            }
            Command::Cut(peers, done) => {
                self.emulator.cut(&peers);
                for peer in peers {
                    self.streams.set_passable(peer, false);
                }
                let _ = done.send(());
            }
            Command::Heal(done) => {
                for peer in self.emulator.heal() {
                    for key in self.streams.set_passable(peer, true) {
                        self.resume(key)?;
                    }
                }
                let _ = done.send(());
            }
            Command::Emulate(emulation, peers, done) => {
                self.emulator.set(emulation, &peers);
                let _ = done.send(());
            }
            Command::Peers(peers, done) => {
                self.peers.extend(peers);
                self.streams.add_members(&self.peers);
                let _ = done.send(());
            }
            Command::Shutdown => return Err(End::Shutdown),
        }
        Ok(())
    }

    /// Tells the watchers of an event that was handled.
    fn report(&mut self, kind: Kind, event: impl FnOnce() -> String) {
        self.report_ruling(kind, event, Ruling::Run, None, None);
    }

    /// Tells the watchers of an event and what was done about it.
    fn report_ruling(
        &mut self,
        kind: Kind,
        event: impl FnOnce() -> String,
        verdict: Ruling,
        filter: Option<FilterId>,
        property: Option<String>,
    ) {
        if self.watchers.is_empty() {
            return;
        }
        let report = Report {
            node: self.me,
            at_ms: self.time_of_day.now_ms(),
            kind,
            event: event(),
            verdict,
            filter,
            property,
            state: self.local.service.clone(),
            timers: self.local.timers.clone(),
            missed: 0,
        };
        self.watchers.retain_mut(|watcher| {
            let report = Report {
                missed: watcher.missed,
                ..report.clone()
            };
            match watcher.reports.try_send(report) {
                Ok(()) => watcher.missed = 0,
                Err(mpsc::error::TrySendError::Full(_)) => watcher.missed += 1,
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
            true
        });
    }

    fn dice(&mut self) -> Dice {
        self.events_count += 1;
        let seed = mix(self.seed ^ mix(self.events_count));
        self.dice_thrown = Instant::now();
        let now = self.stamps.stamp(self.dice_thrown);
        Dice::new(seed, now, self.local.ticks)
    }
}

/// Draws a seed from the randomness that the standard library's tables are keyed with.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
