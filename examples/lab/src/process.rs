//! Processes the lab starts: this executable again in another part, ended when the lab ends, however it ends.
//!
//! A child is told its parent's number and asks the kernel to be ended with it, so that not even a lab that is killed
//! leaves anything behind. Checkers and speculators are children of children; they end with the link to those.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Tells a child which process it belongs to.
const PARENT: &str = "SCRY_LAB_PARENT";
/// Tells every process of a cluster which service it runs: the checker has no other way to know.
pub(crate) const SERVICE: &str = "SCRY_LAB_SERVICE";
/// How long a process may take to end in good order.
const PATIENCE: Duration = Duration::from_secs(3);

/// One running child.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    pid: Pid,
}

/// What is left of a child for whoever talks to it.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// What it reads.
    pub(crate) stdin: ChildStdin,
    /// What it writes.
    pub(crate) stdout: ChildStdout,
}

/// Binds this process to the lab that started it, if one did.
///
/// # Errors
///
/// If that lab is gone already.
pub(crate) fn bind_to_parent() -> io::Result<()> {
    let Ok(parent) = std::env::var(PARENT) else {
        return Ok(());
    };
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if parent != getppid().to_string() {
        return Err(io::Error::other(
            "the lab that started this process is gone",
        ));
    }
    Ok(())
}

impl Process {
    /// Starts this executable again. Its complaints go to the file `log`, and so does what it prints unless pipes are
    /// asked for.
    ///
    /// # Errors
    ///
    /// If the log cannot be made or the process cannot be started.
    pub(crate) fn start(
        name: &str,
        service: &str,
        arguments: &[String],
        log: &Path,
        piped: bool,
    ) -> io::Result<(Self, Option<Pipes>)> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(executable());
        command
            .args(arguments)
            .env(SERVICE, service)
            .env(PARENT, std::process::id().to_string())
            .stderr(log.try_clone()?)
            // Ctrl-C goes to the lab alone, which then ends its children in order.
            .process_group(0)
            .kill_on_drop(true);
        if piped {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        } else {
            command.stdin(Stdio::null()).stdout(log);
        }
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        let pid = Pid::from_raw(pid.ok_or_else(|| io::Error::other("it ended at once"))?);
        let pipes = child.stdin.take().zip(child.stdout.take());
        let pipes = pipes.map(|(stdin, stdout)| Pipes { stdin, stdout });
        let name = name.to_owned();
        Ok((Self { name, child, pid }, pipes))
    }

    /// Returns its number.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns what it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns how it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    ///
    /// If the kernel knows nothing of it.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Stops it where it is, or lets it go on.
    pub(crate) fn pause(&self, pause: bool) {
        let signal = if pause {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        };
        // A process that is gone needs no pause.
        let _ = kill(self.pid, signal);
    }

    /// Asks it to end, waits a while, and ends it if it has not.
    pub(crate) async fn end(&mut self) {
        self.pause(false);
        let _ = kill(self.pid, Signal::SIGTERM);
        if tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .is_err()
        {
            // It may have ended this very moment, which is as good.
            let _ = self.child.kill().await;
        }
    }
}

/// Returns the running executable, even if its file was replaced meanwhile.
fn executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}
