//! The checker: a child process, started again when it ends, killed when it has to go and when the agent dies. Whether it
//! hangs the controller decides, by what is seen of it here.

mod priority;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use scry::blame::{BLAME_BYTES, BLAME_VARIABLE, Blame};
use scry_protocol::frame;
use scry_protocol::link::checker::{AgentToChecker, CheckerToAgent};
use scry_protocol::{NodeId, RunId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::processor::{self, Look};
use super::{Receiver, executable, shown};
use crate::controller::CheckerSeen;
use crate::daemon::Fact;

pub(crate) use priority::Priority;

/// How many orders may wait. There is one job at a time, so few ever do.
const ORDERS_MAX: usize = 64;
/// How long after its end it is started again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// An incarnation of this length says that the program is fine after all.
const LONG_LIFE: Duration = Duration::from_secs(60);
/// How often it is looked at while it owes something.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// What a checker may map beside the memory of its search: its code, its stacks, the snapshot, and what the allocator
/// keeps in reserve. The search keeps to its own bound; this one is for a handler that does not.
const ADDRESS_SPACE_BYTES: u64 = 2 << 30;
/// How long it may take to accept a frame.
const WRITE_WAIT: Duration = Duration::from_secs(10);

/// What is started, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Settings {
    /// The program and its arguments, if it is not the service's own executable.
    pub(crate) command: Vec<String>,
    /// When it gets a processor.
    pub(crate) priority: Priority,
    /// With how many threads it searches.
    pub(crate) threads: usize,
    /// How much memory its search may use.
    pub(crate) memory_bytes: u64,
}

#[derive(Debug)]
enum Order {
    Settings(Settings),
    Attached(Option<i32>),
    Send(Box<AgentToChecker>),
    Restart(String),
    Stop,
}

/// Gives orders to the checker, or to whoever starts it.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    orders: mpsc::Sender<Order>,
}

impl Checker {
    /// Starts supervising; the process itself starts with the first service that is attached, or at once if a command
    /// is configured.
    pub(crate) fn supervise(settings: Settings, facts: mpsc::Sender<Fact>) -> Self {
        let (sender, orders) = mpsc::channel(ORDERS_MAX);
        let supervisor = Supervisor {
            settings,
            host: None,
            facts,
            orders,
            pause: PAUSE_MIN,
        };
        tokio::spawn(supervisor.run());
        Self { orders: sender }
    }

    /// Learns which process is the service, whose executable is the checker.
    pub(crate) fn attached(&self, process: Option<i32>) {
        self.order(Order::Attached(process));
    }

    /// Passes a message on. It is lost if there is no checker, whose absence was told before.
    pub(crate) fn send(&self, message: AgentToChecker) {
        self.order(Order::Send(Box::new(message)));
    }

    /// Kills the checker; another is started.
    pub(crate) fn restart(&self, why: String) {
        self.order(Order::Restart(why));
    }

    /// Kills the checker, and starts no other: the agent ends.
    pub(crate) fn stop(&self) {
        self.order(Order::Stop);
    }

    /// Changes what is started next.
    pub(crate) fn set(&self, settings: Settings) {
        self.order(Order::Settings(settings));
    }

    fn order(&self, order: Order) {
        if let Err(error) = self.orders.try_send(order) {
            warn!(%error, "an order to the checker was left out");
        }
    }
}

struct Supervisor {
    settings: Settings,
    host: Option<i32>,
    facts: mpsc::Sender<Fact>,
    orders: mpsc::Receiver<Order>,
    pause: Duration,
}

/// A checker that runs.
struct Running {
    child: Child,
    receiver: Receiver<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    /// Where it notes whose state it is at, also when it cannot say so any more.
    notes: Option<File>,
    /// What it owes.
    owes: Option<Owed>,
}

/// A report, or its first words.
#[derive(Clone, Copy, Debug)]
struct Owed {
    /// The job it is to report on, if it is that.
    run: Option<RunId>,
    /// How much processor time it had had before.
    used: Duration,
    /// When it is looked at next.
    look: Instant,
}

impl Supervisor {
    async fn run(mut self) {
        loop {
            let Some(program) = self.program() else {
                match self.orders.recv().await {
                    Some(Order::Stop) | None => return,
                    Some(order) => self.take_note(order),
                }
                continue;
            };
            let started = Instant::now();
            let mut blamed = Vec::new();
            let why = match start(&program, &self.settings) {
                Ok(mut running) => {
                    info!(process = running.child.id(), program = ?program, "a checker is started");
                    if self.facts.send(Fact::CheckerStarted).await.is_err() {
                        return;
                    }
                    let why = self.watch(&mut running).await;
                    // It is dead for everybody before the next one starts.
                    running.kill();
                    let _ = running.child.wait().await;
                    blamed = running.blamed();
                    why
                }
                Err(error) => Some(format!("it cannot be started: {error}")),
            };
            let Some(why) = why else { return };
            if started.elapsed() >= LONG_LIFE {
                self.pause = PAUSE_MIN;
            }
            let pause = self.pause;
            warn!(
                pause_ms = pause.as_millis() as u64,
                "the checker is gone: {why}"
            );
            let gone = Fact::CheckerGone { why, blamed };
            if self.facts.send(gone).await.is_err() {
                return;
            }
            self.pause = (pause * 2).min(PAUSE_MAX);
            if !self.rest(pause).await {
                return;
            }
        }
    }

    /// Waits before the next start, but still listens; a new service makes it worth trying at once.
    async fn rest(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return true,
                order = self.orders.recv() => match order {
                    Some(Order::Stop) | None => return false,
                    Some(order) => {
                        let is_attached = matches!(order, Order::Attached(_));
                        self.take_note(order);
                        if is_attached {
                            self.pause = PAUSE_MIN;
                            return true;
                        }
                    }
                },
            }
        }
    }

    fn program(&self) -> Option<Vec<OsString>> {
        if !self.settings.command.is_empty() {
            return Some(self.settings.command.iter().map(OsString::from).collect());
        }
        // The file itself, not its name: what stands under that name may have been replaced since the service started.
        self.host
            .map(|process| vec![format!("/proc/{process}/exe").into()])
    }

    fn take_note(&mut self, order: Order) {
        match order {
            Order::Settings(settings) => self.settings = settings,
            Order::Attached(process) => {
                if process.is_none() && self.settings.command.is_empty() {
                    warn!(
                        "there is no checker: the service's process is not visible here; set checker.command"
                    );
                }
                self.host = process;
            }
            Order::Send(_) | Order::Restart(_) | Order::Stop => {
                debug!("an order came while there is no checker")
            }
        }
    }

    /// Carries messages both ways until the checker has to go, and says why; `None` when the agent ends.
    async fn watch(&mut self, running: &mut Running) -> Option<String> {
        loop {
            let look = running.owes.as_ref().map(|owed| owed.look);
            let due = async {
                match look {
                    Some(look) => tokio::time::sleep_until(look).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {
                    if let Some(seen) = running.look()
                        && self.facts.send(Fact::CheckerSeen(seen)).await.is_err()
                    {
                        return None;
                    }
                }
                message = running.receiver.next::<CheckerToAgent>() => match message {
                    Ok(Some(message)) => {
                        if matches!(message, CheckerToAgent::Ready(_)) {
                            self.compare(running.child.id());
                        }
                        running.heard(&message);
                        if self.facts.send(Fact::Checker(message)).await.is_err() {
                            return None;
                        }
                    }
                    Ok(None) => return Some(ended(&mut running.child).await),
                    Err(error) => return Some(shown(&error.to_string())),
                },
                order = self.orders.recv() => match order? {
                    Order::Send(message) => match running.send(&message).await {
                        Ok(()) => {}
                        Err(SendError::DoesNotFit { run, why }) => {
                            // The checker cannot help it, and takes the next job.
                            warn!(%run, "a job was not given to the checker: {why}");
                            if self.facts.send(Fact::JobUnsent { run, why }).await.is_err() {
                                return None;
                            }
                        }
                        Err(SendError::Gone(why)) => return Some(why),
                    },
                    Order::Restart(why) => return Some(why),
                    Order::Stop => return None,
                    order @ Order::Settings(_) => {
                        let before = self.settings.clone();
                        self.take_note(order);
                        if self.settings != before {
                            return Some("its settings changed".to_owned());
                        }
                    }
                    order @ Order::Attached(_) => {
                        let before = self.host;
                        self.take_note(order);
                        if self.host != before && self.settings.command.is_empty() {
                            self.pause = PAUSE_MIN;
                            return Some("another service is attached".to_owned());
                        }
                    }
                },
            }
        }
    }
}

impl Supervisor {
    /// Finds out beside everything else whether the checker runs the service's own program. One that was not named in the
    /// configuration does: it is started as that.
    fn compare(&self, checker: Option<u32>) {
        let checker = checker.and_then(|process| i32::try_from(process).ok());
        let (Some(host), Some(checker), false) =
            (self.host, checker, self.settings.command.is_empty())
        else {
            return;
        };
        let facts = self.facts.clone();
        tokio::task::spawn_blocking(move || {
            // What cannot be read cannot be told apart either; the checker may be gone by now.
            if let Ok(false) = executable::is_same(&executable::of(host), &executable::of(checker))
            {
                warn!("checker.command is another program than the service's");
                let _ = facts.blocking_send(Fact::CheckerDiffers);
            }
        });
    }
}

impl Drop for Running {
    /// However the agent comes to its end, nobody waits for a checker that is only allowed to end when nothing else runs.
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    /// Kills it, if it still runs. It need not agree, and its end is not waited for here.
    fn kill(&mut self) {
        if let Some(process) = self.child.id() {
            priority::raise(process);
            // It may have ended just now.
            let _ = self.child.start_kill();
        }
    }

    /// Says on whose states the process was at work when it ended, if it was at work.
    fn blamed(&self) -> Vec<Option<NodeId>> {
        let mut bytes = [0; BLAME_BYTES];
        let read = self
            .notes
            .as_ref()
            .is_some_and(|notes| notes.read_exact_at(&mut bytes, 0).is_ok());
        // Before it has a job, and after it has reported, nobody's state has anything to do with its end.
        if !read || self.owes.is_none_or(|owed| owed.run.is_none()) {
            return Vec::new();
        }
        let blamed = Blame::all_from(&bytes).into_iter();
        blamed.map(|blame| blame.node).collect()
    }

    /// Takes note of what the checker no longer owes.
    fn heard(&mut self, message: &CheckerToAgent) {
        let owes = self.owes.map(|owed| owed.run);
        match (message, owes) {
            (CheckerToAgent::Ready(_), Some(None)) => self.owes = None,
            (CheckerToAgent::Report(report), Some(run)) if run == Some(report.run) => {
                self.owes = None;
            }
            _ => {}
        }
    }

    /// Takes note that it owes something from now on.
    fn owe(&mut self, run: Option<RunId>) {
        self.owes = Some(Owed {
            run,
            used: self.seen().map_or(Duration::ZERO, |seen| seen.used),
            look: Instant::now() + LOOK_EVERY,
        });
    }

    fn seen(&self) -> Option<Look> {
        processor::look(self.child.id()?).ok()
    }

    /// Looks at it while it owes something: whether it is late, and may be, others decide.
    fn look(&mut self) -> Option<CheckerSeen> {
        let seen = self.seen();
        let owed = self.owes.as_mut()?;
        owed.look = Instant::now() + LOOK_EVERY;
        let Look { used, is_runnable } = seen?;
        Some(CheckerSeen {
            run: owed.run,
            used_ms: used.saturating_sub(owed.used).as_millis() as u64,
            is_runnable,
        })
    }

    async fn send(&mut self, message: &AgentToChecker) -> Result<(), SendError> {
        let frame = frame::encode(message).map_err(|error| match message {
            AgentToChecker::Job(job) => SendError::DoesNotFit {
                run: job.run,
                why: format!("it does not fit a frame: {error}"),
            },
            AgentToChecker::Cancel(_) => SendError::Gone(error.to_string()),
        })?;
        if let AgentToChecker::Job(job) = message {
            self.owe(Some(job.run));
        }
        match tokio::time::timeout(WRITE_WAIT, self.writer.write_all(&frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(SendError::Gone(error.to_string())),
            Err(_) => Err(SendError::Gone("it does not read".to_owned())),
        }
    }
}

/// Why a checker was not told something.
enum SendError {
    /// No checker could be given this job.
    DoesNotFit {
        /// Whose job.
        run: RunId,
        /// Why.
        why: String,
    },
    /// This checker must go.
    Gone(String),
}

fn start(program: &[OsString], settings: &Settings) -> std::io::Result<Running> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let (reader, writer) = UnixStream::from_std(ours)?.into_split();
    let mut command = Command::new(&program[0]);
    command
        .args(&program[1..])
        .env_clear()
        .env("SCRY_ROLE", "checker")
        .env("SCRY_CHECKER_THREADS", settings.threads.to_string())
        .env(
            "SCRY_CHECKER_MEMORY_BYTES",
            settings
                .memory_bytes
                .saturating_add(ADDRESS_SPACE_BYTES)
                .to_string(),
        )
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let notes = notes();
    if let Some(notes) = &notes {
        command.env(BLAME_VARIABLE, notes.as_raw_fd().to_string());
    }
    for name in ["PATH", "LD_LIBRARY_PATH", "RUST_BACKTRACE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    prepare(
        &mut command,
        settings.priority,
        notes.as_ref().map(AsRawFd::as_raw_fd),
    );
    let mut child = command.spawn()?;
    if let Some(stdout) = child.stdout.take() {
        tokio::spawn(say(stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(say(stderr));
    }
    let mut running = Running {
        child,
        receiver: Receiver::new(reader),
        writer,
        notes,
        owes: None,
    };
    running.owe(None);
    Ok(running)
}

/// Makes the memory that a checker notes in. Without it, members whose states take it down are not known.
fn notes() -> Option<File> {
    let made = memfd_create("scry-blame", MFdFlags::MFD_CLOEXEC);
    let notes = made.map(File::from).map_err(std::io::Error::from);
    let notes = notes.and_then(|file| file.set_len(BLAME_BYTES as u64).map(|()| file));
    notes
        .inspect_err(|error| warn!("it will not be known whose state a checker dies of: {error}"))
        .ok()
}

/// Lets the child die with the agent, lowers its priority, and leaves it the file it notes in.
#[expect(
    unsafe_code,
    reason = "only between fork and exec can a child ask to die with its parent"
)]
fn prepare(command: &mut Command, priority: Priority, notes: Option<RawFd>) {
    // SAFETY: these are system calls that take no lock and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            if let Some(notes) = notes {
                nix::libc::fcntl(notes, nix::libc::F_SETFD, 0);
            }
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            priority.apply();
            Ok(())
        });
    }
}

async fn ended(child: &mut Child) -> String {
    const WAIT: Duration = Duration::from_millis(500);
    match tokio::time::timeout(WAIT, child.wait()).await {
        Ok(Ok(status)) => format!("it ended: {status}"),
        Ok(Err(error)) => format!("it ended: {error}"),
        Err(_) => "it closed its link".to_owned(),
    }
}

/// Puts what a checker prints into the log, in bounded pieces.
async fn say(mut pipe: impl AsyncRead + Unpin) {
    let mut buffer = vec![0; 4096];
    while let Ok(read) = pipe.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        for line in String::from_utf8_lossy(&buffer[..read]).lines() {
            info!(target: "checker", "{}", shown(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use scry_protocol::limit::PROPERTY_FILE_BYTES_MAX;
    use scry_protocol::link::checker::{Budget, Clock, Faults, Job, Order as Preference};
    use scry_protocol::{CheckpointNumber, NodeId, Snapshot};

    use super::*;

    fn job(properties: String) -> Job {
        Job {
            run: RunId::new(7),
            snapshot: Snapshot {
                by: NodeId::new(1),
                number: CheckpointNumber::from(1),
                members: Vec::new(),
                missing: Vec::new(),
                rounds: 1,
                elapsed_ms: 0,
            },
            properties,
            faults: Faults::default(),
            clock: Clock::default(),
            budget: Budget {
                time_ms: 60_000,
                states_max: 1,
                depth_max: 1,
                memory_bytes_max: 1,
                violations_max: 1,
            },
            order: Preference::LeastHarm,
            checks: false,
            past_paths: Vec::new(),
            whole: true,
            modes: Vec::new(),
            strategy: "consequence".to_owned(),
            liveness: scry_protocol::filter::Mode::Off,
        }
    }

    #[tokio::test]
    async fn a_job_that_does_not_fit_costs_its_run_and_not_the_checker() {
        let settings = Settings {
            // Any program that reads nothing and stays.
            command: vec!["sleep".to_owned(), "600".to_owned()],
            priority: Priority::Nice(0),
            threads: 1,
            memory_bytes: 1 << 30,
        };
        let (facts, mut heard) = mpsc::channel(8);
        let checker = Checker::supervise(settings, facts);
        for _ in 0..2 {
            let large = job("x".repeat(PROPERTY_FILE_BYTES_MAX + 1));
            checker.send(Box::new(large).into());
            // Had it been killed, a fact would say so.
            loop {
                match heard.recv().await {
                    Some(Fact::CheckerStarted | Fact::CheckerSeen(_)) => {}
                    Some(Fact::JobUnsent { run, .. }) => break assert_eq!(run, RunId::new(7)),
                    other => panic!("not {other:?}"),
                }
            }
        }
    }
}
