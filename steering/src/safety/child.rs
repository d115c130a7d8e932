//! A trial in a forked process: whatever the handler does there (panic, abort, never return), this process only reads a
//! pipe until the deadline.
//!
//! The child computes, writes its verdict and leaves by `_exit`: it runs no destructors and touches no descriptor but the
//! pipe, since everything else belongs to its parent: what it flushed, closed or removed there would happen twice. In a
//! host with threads the child may find a lock taken for good; then the deadline ends it, and the event runs unchecked.
//! Nobody waits for a child that has given its verdict: it is reaped before the next one is forked.

#![expect(
    unsafe_code,
    reason = "fork, _exit and setitimer have no safe form: the child lives on in a copy of this process"
)]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe2};
use scry_protocol::link::host::Failure;
use scry_protocol::messagepack;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blame::{Blame, Phase};
use crate::safety::trial::{How, Spot, Trouble, Verdict, panicking};
use scry_engine::panics::in_silence;

/// No verdict is longer.
pub(super) const VERDICT_BYTES_MAX: usize = 64 << 10;

/// How much longer than its deadline a child lives if nobody ends it.
const ORPHAN_MAX: Duration = Duration::from_secs(1);

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    /// The deadline passed.
    #[error("no verdict within {} ms", .0.as_millis())]
    Late(Duration),
    /// Nothing was heard of the process that forks: it is the machine that is busy, and not the trial that takes long.
    #[error("nobody answered within {} ms", .0.as_millis())]
    Unheard(Duration),
    /// There is no process to run it in.
    #[error("fork: {0}")]
    Fork(nix::Error),
    /// The process that forks is gone.
    #[error("{0}")]
    Gone(String),
    /// The process it ran in ended.
    #[error("{0}")]
    Died(String),
}

impl CheckError {
    pub(super) fn into_parts(self) -> (Failure, String) {
        let detail = self.to_string();
        let failure = match self {
            Self::Late(_) | Self::Unheard(_) => Failure::CheckLate,
            Self::Fork(_) => Failure::ForkFailed,
            Self::Gone(_) | Self::Died(_) => Failure::SpeculatorGone,
        };
        (failure, detail)
    }
}

/// Forks trials off this process.
#[derive(Debug, Default)]
pub(super) struct Forker {
    /// Children that have said all they had to say.
    leaving: Vec<Pid>,
}

/// What came through the pipe.
enum Heard<T> {
    Answer(T),
    /// It ended without an answer, or what it said is none.
    Nothing,
    Late,
}

impl Forker {
    /// As [`run`](Self::run), of a trial: compiled here, once, and not for every service.
    pub(super) fn run_trial(
        &mut self,
        deadline: Duration,
        trial: &mut dyn FnMut() -> Verdict,
    ) -> Result<Verdict, CheckError> {
        self.run(deadline, trial)
    }

    /// Runs something in a child and waits for what it says until the deadline.
    pub(super) fn run<T: Serialize + DeserializeOwned>(
        &mut self,
        deadline: Duration,
        work: impl FnOnce() -> T,
    ) -> Result<T, CheckError> {
        let begun = Instant::now();
        self.leaving.retain(|&child| !has_left(child));
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(CheckError::Fork)?;
        let mut writer = File::from(writer);
        let child = spawn(|| {
            // Whoever made it may be gone by the time it would be ended for being late.
            end_by_alarm();
            live_at_most(deadline.saturating_add(ORPHAN_MAX));
            if let Ok(bytes) = framed(&work()) {
                // Nothing is left to be done if the parent does not listen any more.
                let _ = writer.write_all(&bytes);
            }
        })
        .map_err(CheckError::Fork)?;
        drop(writer);
        let heard = hear(reader, begun, deadline);
        if let Heard::Answer(answer) = heard {
            self.leaving.push(child);
            return Ok(answer);
        }
        // It may be gone already, and then this does not change how it ended.
        let _ = kill(child, Signal::SIGKILL);
        let status = reap(child);
        match heard {
            Heard::Late => Err(CheckError::Late(deadline)),
            _ => Err(CheckError::Died(end_of(status))),
        }
    }
}

impl Drop for Forker {
    fn drop(&mut self) {
        for child in self.leaving.drain(..) {
            reap(child);
        }
    }
}

/// Forks a child that runs `life` and ends. In the child this never returns, and never unwinds into what the parent was
/// doing.
pub(super) fn spawn(work: impl FnOnce()) -> nix::Result<Pid> {
    // SAFETY: the child only computes on its copy of this process's memory, writes to descriptors made for it and calls
    // `_exit`. libc's own fork keeps its allocator usable; a lock of another thread that is found taken is ended by the
    // deadline.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            // A property may panic; that this child says nothing is how its parent learns of it.
            let _ = in_silence(|| std::panic::catch_unwind(AssertUnwindSafe(work)));
            // SAFETY: ends the process at once, which is all that is wanted of it.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Lets the kernel end this process after a time, or not at all any more if that is nothing.
///
/// A handler that never returns cannot be asked to stop, and nobody need wake up to watch it.
pub(super) fn live_at_most(time: Duration) {
    let timer = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_usec: libc::suseconds_t::from(time.subsec_micros()),
        },
    };
    // SAFETY: the pointer is to a whole value on this stack, and nothing is asked back. It fails for no value of this form.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// Makes sure that the end of [`live_at_most`] ends a process, whatever its ancestors did about that signal.
pub(super) fn end_by_alarm() {
    // SAFETY: the default action is no function of ours. It fails for no signal that exists.
    let _ = unsafe { signal(Signal::SIGALRM, SigHandler::SigDfl) };
}

/// Says how a process ended.
pub(super) fn end_of(status: Option<WaitStatus>) -> String {
    match status {
        Some(WaitStatus::Signaled(_, signal, _)) => format!("dies of {signal}"),
        _ => "ends the process".to_owned(),
    }
}

/// What it says of an event that a child did not come back from. A handler would have ended this process too, or held it
/// up; a property that looks at a state is no part of the service, and what it cannot judge is unknown.
pub(super) fn unanswered(error: CheckError, blame: Option<Blame>) -> Result<Verdict, CheckError> {
    let how = match error {
        CheckError::Late(_) => How::Late,
        CheckError::Died(_) => How::Dies,
        CheckError::Unheard(_) | CheckError::Fork(_) | CheckError::Gone(_) => return Err(error),
    };
    let said = error.to_string();
    match blame.map(|blame| (blame.phase, blame.node)) {
        Some((Phase::Judging(property), node)) => Ok(Verdict {
            accusations: Vec::new(),
            unjudged: vec![Trouble {
                spot: Spot {
                    node,
                    property: Some(property),
                },
                how,
                said,
            }],
            asked: 1,
        }),
        Some((Phase::Reading, _)) => Err(CheckError::Gone(format!(
            "the node's own state cannot be read: the reader {said}"
        ))),
        Some((Phase::Handling, _)) | None => match how {
            How::Dies => Ok(Verdict {
                accusations: vec![panicking(format!("the handler {said}"))],
                unjudged: Vec::new(),
                asked: 1,
            }),
            How::Late | How::Panics | How::CutOff => Err(error),
        },
    }
}

/// Waits for the end of a child.
pub(super) fn reap(child: Pid) -> Option<WaitStatus> {
    loop {
        match waitpid(child, None) {
            Err(nix::Error::EINTR) => {}
            status => return status.ok(),
        }
    }
}

fn has_left(child: Pid) -> bool {
    !matches!(
        waitpid(child, Some(WaitPidFlag::WNOHANG)),
        Ok(WaitStatus::StillAlive)
    )
}

/// An answer behind its length, so that it is whole before the child is gone.
fn framed(answer: &impl Serialize) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let mut bytes = vec![0; 4];
    messagepack::write(&mut bytes, answer)?;
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

fn hear<T: DeserializeOwned>(reader: OwnedFd, begun: Instant, deadline: Duration) -> Heard<T> {
    let mut pipe = File::from(reader);
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some((length, rest)) = bytes.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > VERDICT_BYTES_MAX {
                return Heard::Nothing;
            }
            if rest.len() >= length {
                let answer = messagepack::from_slice(&rest[..length]);
                return answer.map_or(Heard::Nothing, Heard::Answer);
            }
        }
        let Some(left) = deadline.checked_sub(begun.elapsed()) else {
            return Heard::Late;
        };
        let timeout =
            PollTimeout::try_from(left.as_millis().max(1) as u64).unwrap_or(PollTimeout::MAX);
        let mut ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, timeout) {
            Ok(1..) => {}
            Err(nix::Error::EINTR) => continue,
            Ok(_) | Err(_) => return Heard::Late,
        }
        match pipe.read(&mut buffer) {
            Ok(0) => return Heard::Nothing,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Heard::Late,
        }
    }
}
