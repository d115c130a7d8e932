//! The speculator: a small process of the same executable that forks in the host's place.
//!
//! A host may be large and have many threads; forking it is slow and can hang. This process has one thread and little
//! memory, and forks before it is asked ([`family`]). It is fed whole states over a socket pair: a stream, since a state
//! may be larger than one packet can be. Here is the host's end of it.

mod family;
mod words;

use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::Pid;
use scry_protocol::{NodeId, messagepack};

use crate::capture;
use crate::safety::child::CheckError;
use crate::safety::speculator::words::{Answer, Check, Order, Said, take, write_within};
use crate::safety::trial::{Spot, Trouble, Verdict, What};
use crate::safety::vetting::CHILDREN_MAX;
use scry_checkpoint::cut::Standing;
use scry_engine::context::Dice;
use scry_engine::model::event::InputOf;
use scry_engine::model::handler::Local;
use scry_engine::service::Service;

pub use family::serve;
pub(super) use words::Told;

/// The environment variable that tells a process which part to play, and what it says for this part.
const ROLE: (&str, &str) = ("SCRY_ROLE", "speculator");

/// How often in a row it may be late before it is taken for hung.
const LATE_MAX: u32 = 3;
/// How long it may take to tell it something that nobody waits for the answer to.
const TELL_MAX: Duration = Duration::from_millis(500);
/// How long a child may take to try new states of the neighbors. Questions wait meanwhile, or are late.
const VETTING_MAX: Duration = Duration::from_millis(250);
/// How long it may be silent after it was told of new states: it tries them first. On a busy machine that takes longer than
/// its children may compute.
const VETTING_WAIT: Duration = VETTING_MAX.saturating_mul(2 * CHILDREN_MAX);
/// How long to wait before it is started again, at first and at the most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What is asked.
pub(super) struct Question<'a, S: Service> {
    pub(super) me: NodeId,
    pub(super) setup: &'a S::Setup,
    pub(super) local: &'a Local<S>,
    pub(super) input: &'a InputOf<S>,
    pub(super) dice: Dice,
    pub(super) standing: &'a [Standing],
    /// What is not to be touched.
    pub(super) bad: Vec<Spot>,
    pub(super) what: What,
}

/// What questions are judged by.
pub(super) struct Ground<'a> {
    /// The text of the property file.
    pub(super) rules: &'a str,
    /// The neighbors' states.
    pub(super) surroundings: Option<Told>,
}

/// The host's end.
#[derive(Debug)]
pub(super) struct Speculator {
    executable: Option<PathBuf>,
    process: Option<Process>,
    /// Not to be started again before this.
    resting: Option<Instant>,
    back_off: Duration,
    next: u64,
    late_count: u32,
    vetted: Vetted,
}

/// What it says of the neighbors' states.
#[derive(Debug, Default)]
struct Vetted {
    /// Which it was told last, and which it has tried last.
    told: u64,
    count: u64,
    /// Since when it may be at work on those it was told.
    since: Option<Instant>,
    /// What is wrong with them and was not taken yet.
    troubles: Vec<Trouble>,
}

/// A speculator that runs, in a process group of its own together with its children.
#[derive(Debug)]
struct Process {
    child: Child,
    stream: UnixStream,
    /// What came from it and is not a whole answer yet.
    heard: Vec<u8>,
    /// Whether it has answered anything.
    proved: bool,
}

/// Why there is no answer.
enum Silence {
    Late,
    Gone(std::io::Error),
}

impl Speculator {
    pub(super) fn new(executable: Option<PathBuf>) -> Self {
        Self {
            executable,
            process: None,
            resting: None,
            back_off: BACK_OFF.0,
            next: 0,
            late_count: 0,
            vetted: Vetted::default(),
        }
    }

    /// Returns the id of the process, if there is one.
    pub(super) fn process_id(&self) -> Option<u32> {
        Some(self.process.as_ref()?.child.id())
    }

    /// Says which of the neighbors' states it has tried last, and takes what is wrong with them.
    pub(super) fn take_troubles(&mut self) -> (u64, Vec<Trouble>) {
        (self.vetted.count, std::mem::take(&mut self.vetted.troubles))
    }

    /// Hears what it has said by itself, without waiting for more.
    pub(super) fn listen(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let mut heard = process.hear_now();
        while heard.is_ok() {
            match take::<Answer>(&mut process.heard) {
                Ok(Some(answer)) => self.vetted.note(answer.vetted, answer.troubles),
                Ok(None) => return,
                Err(error) => heard = Err(error),
            }
        }
        self.lose();
    }

    pub(super) fn set_surroundings(&mut self, told: Told) {
        let Some(process) = &mut self.process else {
            return;
        };
        self.vetted.tell(told.count);
        if process.tell(&Order::Surroundings(told)).is_err() {
            self.lose();
        }
    }

    /// Asks for a verdict, and starts the process if there is none.
    pub(super) fn ask<'a, S: Service>(
        &mut self,
        deadline: Duration,
        question: &Question<'_, S>,
        ground: impl FnOnce() -> Ground<'a>,
    ) -> Result<Verdict, CheckError> {
        let begun = Instant::now();
        self.next += 1;
        let check = question
            .check(self.next)
            .map_err(|error| CheckError::Gone(format!("the event cannot be sent: {error}")))?;
        self.ensure(ground)?;
        match self.exchange(check, begun, deadline) {
            Ok(said) => {
                self.late_count = 0;
                self.back_off = BACK_OFF.0;
                match said {
                    Said::Verdict(verdict) => Ok(verdict),
                    Said::Late => Err(CheckError::Late(deadline)),
                    Said::ForkFailed(number) => Err(CheckError::Fork(nix::Error::from_raw(number))),
                    Said::Unreadable(error) => Err(CheckError::Gone(error)),
                    Said::Vetted => Err(CheckError::Gone("no answer to a question".to_owned())),
                }
            }
            Err(Silence::Late) => {
                if !self.vetted.is_under_way() {
                    self.late_count += 1;
                }
                if self.late_count >= LATE_MAX {
                    self.lose();
                }
                Err(CheckError::Unheard(deadline))
            }
            Err(Silence::Gone(error)) => {
                self.lose();
                Err(CheckError::Gone(format!("the speculator is gone: {error}")))
            }
        }
    }

    fn exchange(
        &mut self,
        mut check: Check,
        begun: Instant,
        deadline: Duration,
    ) -> Result<Said, Silence> {
        let Some(process) = &mut self.process else {
            return Err(Silence::Gone(ErrorKind::NotConnected.into()));
        };
        let left = || {
            let left = deadline.checked_sub(begun.elapsed());
            left.filter(|left| !left.is_zero()).ok_or(Silence::Late)
        };
        // A little less than the host waits: that a trial takes too long is then heard in time, and says that the
        // speculator itself is well.
        check.limit_us = (left()?.as_micros() as u64 / 8 * 7).max(1);
        process.ask(&check, left()?).map_err(Silence::Gone)?;
        loop {
            // An answer to a question that was given up for late is not one to this.
            let answer: Option<Answer> = take(&mut process.heard).map_err(Silence::Gone)?;
            let Some(answer) = answer else {
                process.hear(left()?)?;
                continue;
            };
            self.vetted.note(answer.vetted, answer.troubles);
            if answer.id == self.next {
                return Ok(answer.said);
            }
        }
    }

    fn ensure<'a>(&mut self, ground: impl FnOnce() -> Ground<'a>) -> Result<(), CheckError> {
        if self.process.is_some() {
            return Ok(());
        }
        if self.resting.is_some_and(|until| Instant::now() < until) {
            return Err(CheckError::Gone("the speculator is being restarted".into()));
        }
        let started = self.start(ground());
        started.map_err(|error| {
            self.lose();
            CheckError::Gone(format!("the speculator does not start: {error}"))
        })
    }

    fn start(&mut self, ground: Ground<'_>) -> std::io::Result<()> {
        let executable = match &self.executable {
            Some(executable) => executable.clone(),
            None => std::env::current_exe()?,
        };
        let (stream, theirs) = UnixStream::pair()?;
        let child = Command::new(executable)
            .env(ROLE.0, ROLE.1)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut process = Process {
            child,
            stream,
            heard: Vec::new(),
            proved: false,
        };
        process.tell(&Order::CheckSettings(ground.rules.to_owned()))?;
        self.vetted.since = None;
        if let Some(told) = ground.surroundings {
            self.vetted.tell(told.count);
            process.tell(&Order::Surroundings(told))?;
        }
        self.late_count = 0;
        self.process = Some(process);
        Ok(())
    }

    /// Ends the process. One that has worked is started again for the next question; one that never did, after a pause.
    fn lose(&mut self) {
        if self.process.take().is_some_and(|process| process.proved) {
            self.resting = None;
            return;
        }
        self.resting = Some(Instant::now() + self.back_off);
        self.back_off = (self.back_off * 2).min(BACK_OFF.1);
    }
}

impl Vetted {
    fn tell(&mut self, count: u64) {
        self.told = count;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Takes note of what an answer says of them; every answer says it, so once for each time that they were tried.
    fn note(&mut self, count: u64, troubles: Vec<Trouble>) {
        if count > self.count {
            self.count = count;
            self.troubles.extend(troubles);
        }
        // Whoever has answered is not hung, and may have more of them to try.
        self.since = (count < self.told).then(Instant::now);
    }

    /// Tells whether it may be at work on them, which questions have to wait for.
    fn is_under_way(&self) -> bool {
        self.since
            .is_some_and(|since| since.elapsed() < VETTING_WAIT)
    }
}

impl Process {
    fn tell(&mut self, order: &Order) -> std::io::Result<()> {
        write_within(&mut self.stream, order, TELL_MAX)
    }

    fn ask(&mut self, check: &Check, within: Duration) -> std::io::Result<()> {
        write_within(&mut self.stream, check, within)
    }

    /// Takes in what is there already.
    fn hear_now(&mut self) -> std::io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match recv(self.stream.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.heard.extend_from_slice(&buffer[..length]);
                    self.proved = true;
                }
                Err(nix::Error::EAGAIN) => return Ok(()),
                Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for more of an answer.
    fn hear(&mut self, within: Duration) -> Result<(), Silence> {
        let mut buffer = [0; 4096];
        let read = self
            .stream
            .set_read_timeout(Some(within))
            .and_then(|()| self.stream.read(&mut buffer));
        match read {
            Ok(0) => Err(Silence::Gone(ErrorKind::UnexpectedEof.into())),
            Ok(length) => {
                self.heard.extend_from_slice(&buffer[..length]);
                self.proved = true;
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::TimedOut | ErrorKind::WouldBlock => Err(Silence::Late),
                ErrorKind::Interrupted => Ok(()),
                _ => Err(Silence::Gone(error)),
            },
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already; either way it must not stay a zombie.
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<S: Service> Question<'_, S> {
    fn check(&self, id: u64) -> Result<Check, rmp_serde::encode::Error> {
        let (state, timers) = capture::write(self.setup, self.local, &[])?;
        Ok(Check {
            id,
            me: self.me,
            state,
            timers,
            input: messagepack::to_vec(self.input)?,
            dice: self.dice,
            standing: self.standing.to_vec(),
            bad: self.bad.clone(),
            what: self.what,
            limit_us: 0,
        })
    }
}
