//! The speculator: a small process of the same executable that forks in the host's place.
//!
//! A host may be large and have many threads; forking it is slow and can hang. This process has one thread and little
//! memory. It is fed whole states over a socket pair: a stream, since a state may be larger than one packet can be. Both
//! ends are the same executable, so what they say to each other needs no version.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use scry_protocol::link::host::Surroundings;
use scry_protocol::{CheckpointNumber, Content, Incarnation, NodeId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::capture;
use crate::context::Dice;
use crate::model::event::InputOf;
use crate::model::handler::Local;
use crate::properties;
use crate::property::Property;
use crate::safety::child::{self, CheckError};
use crate::safety::trial::{self, Trial, Verdict};
use crate::service::Service;

/// The environment variable that tells a process which part to play, and what it says for this part.
const ROLE: (&str, &str) = ("SCRY_ROLE", "speculator");

/// No message is longer: a state, an event, and what surrounds them.
const MESSAGE_BYTES_MAX: usize = 80 << 20;
/// How often in a row it may be late before it is taken for hung.
const LATE_MAX: u32 = 3;
/// How long to wait before it is started again, at first and at the most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What the host says.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// The text of the property file.
    Rules(String),
    Surroundings(Surroundings),
    Check(Check),
}

#[derive(Debug, Serialize, Deserialize)]
struct Check {
    id: u64,
    me: NodeId,
    #[serde(with = "scry_protocol::limit::Bytes::<MESSAGE_BYTES_MAX>")]
    state: Vec<u8>,
    #[serde(with = "scry_protocol::limit::Bytes::<MESSAGE_BYTES_MAX>")]
    timers: Vec<u8>,
    #[serde(with = "scry_protocol::limit::Bytes::<MESSAGE_BYTES_MAX>")]
    input: Vec<u8>,
    dice: Dice,
    deadline_ms: u64,
}

/// What the speculator says.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    id: u64,
    said: Said,
}

#[derive(Debug, Serialize, Deserialize)]
enum Said {
    Verdict(Verdict),
    Late,
    /// No child could be forked, by error number.
    ForkFailed(i32),
    Unreadable(String),
}

/// What is asked.
pub(super) struct Question<'a, S: Service> {
    pub(super) me: NodeId,
    pub(super) setup: &'a S::Setup,
    pub(super) local: &'a Local<S>,
    pub(super) input: &'a InputOf<S>,
    pub(super) dice: Dice,
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
}

#[derive(Debug)]
struct Process {
    child: Child,
    stream: UnixStream,
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
        }
    }

    /// Returns the id of the process, if there is one.
    pub(super) fn process_id(&self) -> Option<u32> {
        Some(self.process.as_ref()?.child.id())
    }

    pub(super) fn set_surroundings(&mut self, surroundings: &Surroundings) {
        let order = Order::Surroundings(surroundings.clone());
        if let Some(process) = &mut self.process
            && write(&mut process.stream, &order).is_err()
        {
            self.lose();
        }
    }

    /// Asks for a verdict, and starts the process if there is none.
    pub(super) fn ask<S: Service>(
        &mut self,
        deadline: Duration,
        question: &Question<'_, S>,
        rules: &str,
        surroundings: Option<&Surroundings>,
    ) -> Result<Verdict, CheckError> {
        let begun = Instant::now();
        self.next += 1;
        let order = question
            .order(self.next, deadline)
            .map_err(|error| CheckError::Gone(format!("the event cannot be sent: {error}")))?;
        self.ensure(rules, surroundings)?;
        let answer = self.exchange(&order, begun, deadline);
        match answer {
            Ok(Said::Verdict(verdict)) => {
                self.late_count = 0;
                self.back_off = BACK_OFF.0;
                Ok(verdict)
            }
            Ok(Said::ForkFailed(number)) => Err(CheckError::Fork(nix::Error::from_raw(number))),
            Ok(Said::Unreadable(error)) => Err(CheckError::Gone(error)),
            Ok(Said::Late) => Err(CheckError::Late(deadline)),
            Err(error) if is_timeout(&error) => {
                self.late_count += 1;
                if self.late_count >= LATE_MAX {
                    self.lose();
                }
                Err(CheckError::Late(deadline))
            }
            Err(error) => {
                self.lose();
                Err(CheckError::Gone(format!("the speculator is gone: {error}")))
            }
        }
    }

    fn exchange(
        &mut self,
        order: &Order,
        begun: Instant,
        deadline: Duration,
    ) -> std::io::Result<Said> {
        let Some(Process { stream, .. }) = &mut self.process else {
            return Err(ErrorKind::NotConnected.into());
        };
        stream.set_write_timeout(Some(left(begun, deadline)?))?;
        write(stream, order)?;
        loop {
            stream.set_read_timeout(Some(left(begun, deadline)?))?;
            let answer: Answer = read(stream)?;
            // An answer to a question that was given up for late is not one to this.
            if answer.id == self.next {
                return Ok(answer.said);
            }
        }
    }

    fn ensure(
        &mut self,
        rules: &str,
        surroundings: Option<&Surroundings>,
    ) -> Result<(), CheckError> {
        if self.process.is_some() {
            return Ok(());
        }
        if self.resting.is_some_and(|until| Instant::now() < until) {
            return Err(CheckError::Gone("the speculator is being restarted".into()));
        }
        let started = self.start(rules, surroundings);
        started.map_err(|error| {
            self.lose();
            CheckError::Gone(format!("the speculator does not start: {error}"))
        })
    }

    fn start(&mut self, rules: &str, surroundings: Option<&Surroundings>) -> std::io::Result<()> {
        let executable = match &self.executable {
            Some(executable) => executable.clone(),
            None => std::env::current_exe()?,
        };
        let (mut stream, theirs) = UnixStream::pair()?;
        let child = Command::new(executable)
            .env(ROLE.0, ROLE.1)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()?;
        write(&mut stream, &Order::Rules(rules.to_owned()))?;
        if let Some(surroundings) = surroundings {
            write(&mut stream, &Order::Surroundings(surroundings.clone()))?;
        }
        self.late_count = 0;
        self.process = Some(Process { child, stream });
        Ok(())
    }

    /// Ends the process, and lets some time pass before the next.
    fn lose(&mut self) {
        self.process = None;
        self.resting = Some(Instant::now() + self.back_off);
        self.back_off = (self.back_off * 2).min(BACK_OFF.1);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already; either way it must not stay a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<S: Service> Question<'_, S> {
    fn order(&self, id: u64, deadline: Duration) -> Result<Order, rmp_serde::encode::Error> {
        let (state, timers) = capture::write(self.setup, self.local, &[])?;
        Ok(Order::Check(Check {
            id,
            me: self.me,
            state,
            timers,
            input: rmp_serde::to_vec(self.input)?,
            dice: self.dice,
            deadline_ms: deadline.as_millis() as u64,
        }))
    }
}

fn left(begun: Instant, deadline: Duration) -> std::io::Result<Duration> {
    deadline
        .checked_sub(begun.elapsed())
        .filter(|left| !left.is_zero())
        .ok_or_else(|| ErrorKind::TimedOut.into())
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// A message is its length and its bytes, written at once so that the other side wakes once.
fn write<T: Serialize>(stream: &mut UnixStream, message: &T) -> std::io::Result<()> {
    let mut bytes = vec![0; 4];
    rmp_serde::encode::write(&mut bytes, message).map_err(std::io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).map_err(std::io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&bytes)
}

fn read<T: DeserializeOwned>(stream: &mut UnixStream) -> std::io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(std::io::Error::other("too long a message"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    rmp_serde::from_slice(&bytes).map_err(std::io::Error::other)
}

/// Plays the speculator's part on standard input, until the host is gone.
pub fn serve<S: Service>() {
    // Without it the process ends all the same when the host closes its end.
    let _ = set_pdeathsig(Signal::SIGKILL);
    let Ok(input) = std::io::stdin().as_fd().try_clone_to_owned() else {
        return;
    };
    let mut stream = UnixStream::from(input);
    let mut properties: Result<Vec<Property<S>>, String> = Ok(S::properties());
    let mut neighbors: Vec<(NodeId, Local<S>)> = Vec::new();
    while let Ok(order) = read(&mut stream) {
        match order {
            Order::Rules(text) => properties = properties::from_text(&text),
            Order::Surroundings(surroundings) => neighbors = trial::neighbors(&surroundings).0,
            Order::Check(check) => {
                let id = check.id;
                let said = match &properties {
                    Ok(properties) => attempt(properties, &neighbors, check),
                    Err(error) => Said::Unreadable(error.clone()),
                };
                if write(&mut stream, &Answer { id, said }).is_err() {
                    return;
                }
            }
        }
    }
}

fn attempt<S: Service>(
    properties: &[Property<S>],
    neighbors: &[(NodeId, Local<S>)],
    check: Check,
) -> Said {
    let content = Content {
        incarnation: Incarnation::new(0),
        born: CheckpointNumber::from(0),
        state: check.state,
        timers: check.timers,
        channels: None,
    };
    let (setup, captured) = match capture::read::<S>(&content) {
        Ok(read) => read,
        Err(error) => return Said::Unreadable(error.to_string()),
    };
    let input: InputOf<S> = match rmp_serde::from_slice(&check.input) {
        Ok(input) => input,
        Err(error) => return Said::Unreadable(error.to_string()),
    };
    let trial = Trial {
        me: check.me,
        setup: &setup,
        properties,
        neighbors,
    };
    let deadline = Duration::from_millis(check.deadline_ms);
    let verdict = child::run(deadline, || {
        trial.run(&captured.local, &input, check.dice).0
    });
    match verdict {
        Ok(verdict) => Said::Verdict(verdict),
        Err(CheckError::Late(_)) => Said::Late,
        Err(CheckError::Fork(error)) => Said::ForkFailed(error as i32),
        Err(CheckError::Gone(error)) => Said::Unreadable(error),
    }
}
