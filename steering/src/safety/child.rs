//! A trial in a forked process: whatever the handler does there (panic, abort, never return), this process only reads a
//! pipe until the deadline.
//!
//! The child computes, writes its verdict and leaves by `_exit`: it runs no destructors and touches no descriptor but the
//! pipe, since everything else belongs to its parent (LIMITS.md, the traps of fork). In a host with threads the child may
//! find a lock taken for good; then the deadline ends it, and the event runs unchecked.

#![expect(
    unsafe_code,
    reason = "fork and _exit have no safe form: the child lives on in a copy of this process"
)]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe};
use scry_protocol::link::host::Failure;

use crate::engine::PANIC_PROPERTY;
use crate::safety::trial::{Broken, Verdict};

/// No verdict is longer.
const VERDICT_BYTES_MAX: usize = 64 << 10;

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    /// The deadline passed.
    #[error("no verdict within {} ms", .0.as_millis())]
    Late(Duration),
    /// There is no process to run it in.
    #[error("fork: {0}")]
    Fork(nix::Error),
    /// The process that forks is gone.
    #[error("{0}")]
    Gone(String),
}

impl CheckError {
    pub(super) fn into_parts(self) -> (Failure, String) {
        let detail = self.to_string();
        let failure = match self {
            Self::Late(_) => Failure::CheckLate,
            Self::Fork(_) => Failure::ForkFailed,
            Self::Gone(_) => Failure::SpeculatorGone,
        };
        (failure, detail)
    }
}

/// Runs a trial in a child and waits for its verdict until the deadline.
pub(super) fn run(
    deadline: Duration,
    trial: impl FnOnce() -> Verdict,
) -> Result<Verdict, CheckError> {
    let begun = Instant::now();
    let (reader, writer) = pipe().map_err(CheckError::Fork)?;
    // SAFETY: the child only computes on its copy of this process's memory, writes to the pipe and calls `_exit`. libc's
    // own fork keeps its allocator usable; a lock of another thread that is found taken is ended by the deadline.
    match unsafe { fork() }.map_err(CheckError::Fork)? {
        ForkResult::Child => {
            let verdict = trial();
            if let Ok(bytes) = rmp_serde::to_vec(&verdict) {
                // Nothing is left to be done if the parent does not listen any more.
                let _ = File::from(writer).write_all(&bytes);
            }
            // SAFETY: ends the process at once, which is all that is wanted of it.
            unsafe { nix::libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            drop(writer);
            let heard = hear(reader, begun, deadline);
            if heard.is_none() {
                // It may be gone already.
                let _ = kill(child, Signal::SIGKILL);
            }
            let status = reap(child);
            conclude(heard, status, deadline)
        }
    }
}

/// Reads until the child closes the pipe; nothing if it does not in time.
fn hear(reader: OwnedFd, begun: Instant, deadline: Duration) -> Option<Vec<u8>> {
    let mut pipe = File::from(reader);
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.checked_sub(begun.elapsed())?;
        let timeout = PollTimeout::try_from(left.as_millis().max(1) as u64).ok()?;
        let mut ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, timeout) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(nix::Error::EINTR) => continue,
            Err(_) => return None,
        }
        match pipe.read(&mut buffer) {
            Ok(0) => return Some(bytes),
            Ok(length) if bytes.len() + length <= VERDICT_BYTES_MAX => {
                bytes.extend_from_slice(&buffer[..length]);
            }
            Ok(_) => return None,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

fn reap(child: Pid) -> Option<WaitStatus> {
    loop {
        match waitpid(child, None) {
            Err(nix::Error::EINTR) => {}
            status => return status.ok(),
        }
    }
}

fn conclude(
    heard: Option<Vec<u8>>,
    status: Option<WaitStatus>,
    deadline: Duration,
) -> Result<Verdict, CheckError> {
    let Some(bytes) = heard else {
        return Err(CheckError::Late(deadline));
    };
    if let Ok(verdict) = rmp_serde::from_slice(&bytes) {
        return Ok(verdict);
    }
    // The child died of the handler, and so would this process have.
    let how = match status {
        Some(WaitStatus::Signaled(_, signal, _)) => format!("the handler dies of {signal}"),
        _ => "the handler ends the process".to_owned(),
    };
    Ok(Verdict {
        broken: Some(Broken {
            property: PANIC_PROPERTY.to_owned(),
            explanation: how,
        }),
        asked: 1,
    })
}
