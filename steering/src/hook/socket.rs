//! The thread that owns the socket to the agent: it connects, writes what waits, reads what comes, and lets leases end.
//!
//! It is the only part of the hook that performs IO on a link, and nobody waits for it. Whatever the other side sends that
//! is no frame of this link ends the connection, with one line in the log; the host goes on unsteered, and the thread
//! connects again after a while.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use scry_protocol::CheckpointNumber;
use scry_protocol::frame::{self, DecodeError, Decoder};
use scry_protocol::link::host::{AgentToHost, Held, Hello};

use crate::hook::lease::InstallError;
use crate::hook::shared::Shared;
use crate::hook::switch::forbids_steering;

/// Bytes that are encoded ahead of what the socket takes. More waits in the queue, where it is counted.
const WRITE_AHEAD_BYTES: usize = 64 << 10;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// The kill file is looked for, and common reports are made, so often.
const LOOK_MS: u64 = 500;
/// A connection that lasted so long was a good one: the next attempt comes soon.
const STEADY: Duration = Duration::from_secs(5);
/// What is left when the host ends in good order may take so long to be written.
const FAREWELL: Duration = Duration::from_secs(1);

/// How soon a lost agent is looked for again: doubling from the least to the most.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// After the first failure, in milliseconds.
    pub least_ms: u64,
    /// After many, in milliseconds.
    pub most_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            least_ms: 50,
            most_ms: 5_000,
        }
    }
}

/// What the thread needs.
pub(super) struct Thread {
    pub(super) shared: Arc<Shared>,
    pub(super) path: PathBuf,
    pub(super) kill_file: Option<PathBuf>,
    /// Whether a switch that cannot be turned back is on.
    pub(super) killed: bool,
    pub(super) backoff: Backoff,
    /// Who the host is; its present number is put in when it is sent.
    pub(super) hello: Hello,
    /// Readable when there is something to do.
    pub(super) alarm: UnixStream,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    #[error("the agent closed it")]
    Closed,
    #[error("the agent sent what is no frame: {0}")]
    Frame(#[from] DecodeError),
    #[error("the agent sent filters that cannot be: {0}")]
    Filters(#[from] InstallError),
}

impl Thread {
    /// Runs until the hook is closed.
    pub(super) fn run(mut self) {
        let mut wait_ms = self.backoff.least_ms;
        while !self.is_closing() {
            let mut lasted = Duration::ZERO;
            match UnixStream::connect(&self.path) {
                Ok(stream) => {
                    let begun = Instant::now();
                    tracing::info!(socket = %self.path.display(), "agent attached");
                    let ended = self.serve(&stream);
                    self.shared.outbox().detach();
                    self.shared.change(|leases, ended| leases.detach(ended));
                    lasted = begun.elapsed();
                    if let Err(error) = ended {
                        tracing::warn!(socket = %self.path.display(), "agent detached, going on unsteered: {error}");
                    }
                }
                Err(error) => {
                    tracing::debug!(socket = %self.path.display(), wait_ms, "no agent: {error}");
                }
            }
            if lasted >= STEADY {
                wait_ms = self.backoff.least_ms;
            }
            self.pause(Duration::from_millis(wait_ms));
            wait_ms = (wait_ms * 2).min(self.backoff.most_ms);
        }
    }

    fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire)
    }

    /// Waits before the next attempt, unless the hook is closed.
    fn pause(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_closing() {
                return;
            }
            let mut fds = [PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN)];
            // An interrupted wait is shorter, and the loop waits on.
            let _ = poll(&mut fds, timeout(left.as_millis() as u64));
            self.silence_alarm();
        }
    }

    fn silence_alarm(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.alarm.read(&mut bytes), Ok(read) if read == bytes.len()) {}
    }

    /// Speaks with one agent until one of the two ends it.
    fn serve(&mut self, stream: &UnixStream) -> Result<(), LinkError> {
        stream.set_nonblocking(true)?;
        self.look_for_kill_file();
        let number = self.shared.number.load(Ordering::Acquire);
        self.hello.number = CheckpointNumber::new(number).unwrap_or(CheckpointNumber::MAX);
        (self.hello.incarnation, self.hello.born) = self.shared.incarnation();
        self.shared.outbox().attach(self.hello.clone().into());
        let mut link = Link {
            shared: self.shared.clone(),
            stream,
            decoder: Decoder::default(),
            out: Vec::new(),
            written: 0,
            switches_named: false,
        };
        let mut look_at_ms = self.shared.now_ms() + LOOK_MS;
        let mut farewell: Option<Instant> = None;
        loop {
            let now_ms = self.shared.now_ms();
            if now_ms >= look_at_ms {
                look_at_ms = now_ms + LOOK_MS;
                self.look_for_kill_file();
                self.shared.report_hits();
            }
            let lease_ends_ms = self.shared.tick(now_ms);
            link.write()?;
            if self.is_closing() {
                let until = *farewell.get_or_insert_with(|| Instant::now() + FAREWELL);
                if link.is_all_written() || Instant::now() >= until {
                    return Ok(());
                }
            }
            let wake_ms = lease_ends_ms.map_or(look_at_ms, |ends| ends.min(look_at_ms));
            let mut interest = PollFlags::POLLIN;
            if !link.is_all_written() {
                interest |= PollFlags::POLLOUT;
            }
            let mut fds = [
                PollFd::new(stream.as_fd(), interest),
                PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, timeout(wake_ms.saturating_sub(now_ms))) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(LinkError::Socket(error.into())),
            }
            let readable = fds[0].any().unwrap_or(true);
            let alarmed = fds[1].any().unwrap_or(true);
            if alarmed {
                self.silence_alarm();
            }
            if readable {
                link.read()?;
            }
            if std::mem::take(&mut link.switches_named) {
                self.look_for_kill_file();
            }
        }
    }

    fn look_for_kill_file(&self) {
        let named = self.shared.switches();
        let mut files = self.kill_file.iter().chain(&named);
        self.shared.set_held(match self.killed {
            true => Held::Environment,
            false if files.any(|file| forbids_steering(file)) => Held::File,
            false => Held::No,
        });
    }
}

/// One connection to an agent.
struct Link<'a> {
    shared: Arc<Shared>,
    stream: &'a UnixStream,
    decoder: Decoder,
    /// Encoded frames, of which the first bytes are [`written`](Self::written) already.
    out: Vec<u8>,
    written: usize,
    /// Whether the agent just named files that forbid steering, so that they are looked for before filters come.
    switches_named: bool,
}

impl Link<'_> {
    fn is_all_written(&self) -> bool {
        self.written == self.out.len()
    }

    /// Writes as much as the socket takes.
    fn write(&mut self) -> Result<(), LinkError> {
        loop {
            self.encode();
            if self.is_all_written() {
                return Ok(());
            }
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Encodes waiting frames, not many more than the socket takes.
    fn encode(&mut self) {
        if self.is_all_written() {
            self.out.clear();
            self.written = 0;
        }
        while self.out.len() - self.written < WRITE_AHEAD_BYTES {
            let Some(message) = self.shared.outbox().pop() else {
                return;
            };
            match frame::encode(&message) {
                Ok(bytes) => self.out.extend_from_slice(&bytes),
                Err(error) => {
                    self.shared.outbox().count_dropped();
                    tracing::warn!("a frame to the agent was dropped: {error}");
                }
            }
        }
    }

    /// Reads once what there is, and acts on every whole frame.
    fn read(&mut self) -> Result<(), LinkError> {
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => {
                std::mem::take(&mut self.decoder).finish()?;
                return Err(LinkError::Closed);
            }
            Ok(count) => self.decoder.feed(&bytes[..count]),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(message) = self.decoder.poll()? {
            self.act(message)?;
        }
        Ok(())
    }

    fn act(&mut self, message: AgentToHost) -> Result<(), LinkError> {
        let shared = &self.shared;
        match message {
            AgentToHost::Welcome(welcome) => {
                tracing::info!(agent = welcome.version, mode = %welcome.mode, "welcomed");
                shared.change(|leases, ended| leases.set_mode(welcome.mode, ended));
            }
            AgentToHost::Mode(set) => {
                tracing::info!(mode = %set.mode, "mode set");
                shared.change(|leases, ended| leases.set_mode(set.mode, ended));
            }
            AgentToHost::InstallFilters(install) => shared.install(install.filters)?,
            AgentToHost::WithdrawFilters(withdraw) => {
                shared.change(|leases, ended| leases.withdraw(withdraw.filters.as_deref(), ended))
            }
            AgentToHost::TakeCheckpoint(take) => shared.ask(|inbox| inbox.push_take(take.number)),
            AgentToHost::Renew(renew) => shared.ask(|inbox| inbox.renew = Some(renew)),
            AgentToHost::AskNeighbors(_) => shared.ask(|inbox| inbox.ask_neighbors = true),
            AgentToHost::Arrived(arrived) => shared.ask(|inbox| inbox.push_arrived(arrived)),
            AgentToHost::Surroundings(surroundings) => {
                shared.ask(|inbox| inbox.push_surroundings(surroundings));
            }
            AgentToHost::CheckSettings(rules) => shared.ask(|inbox| inbox.push_rules(rules)),
            AgentToHost::Predicted(predicted) => {
                shared.ask(|inbox| inbox.push_predicted(predicted));
            }
            AgentToHost::Switches(switches) => {
                shared.set_switches(switches.files);
                self.switches_named = true;
            }
        }
        Ok(())
    }
}

/// Makes a timeout of at least the given milliseconds, or of the longest there is.
fn timeout(ms: u64) -> PollTimeout {
    // A lease ends at a whole millisecond: waking within the one before it would only poll again.
    PollTimeout::try_from(ms.saturating_add(1)).unwrap_or(PollTimeout::MAX)
}
