//! When a checker gets a processor: while it works, and when it has to end.

use nix::libc;

/// When the checker gets a processor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Priority {
    /// While nothing else wants it. A service that wakes up is never kept waiting: with a mere nice value, whoever runs may
    /// finish its slice first, several milliseconds for each message of a busy cluster.
    Idle,
    /// As a process of this nice value.
    Nice(i32),
}

impl Priority {
    /// Takes effect in the process that calls it. It allocates nothing and takes no lock: it runs between fork and exec.
    #[expect(
        unsafe_code,
        reason = "scheduling policies are set by system calls that nobody wraps"
    )]
    pub(super) fn apply(self) {
        // An agent of low priority itself may not be allowed to; that harms nobody.
        match self {
            // SAFETY: the parameters outlive the call, which is about this process.
            Self::Idle => unsafe {
                let parameters = libc::sched_param { sched_priority: 0 };
                libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters);
            },
            // SAFETY: it takes numbers.
            Self::Nice(nice) => unsafe {
                libc::setpriority(libc::PRIO_PROCESS, 0, nice);
            },
        }
    }
}

/// Gives every thread of a process that is about to be killed the usual priority, where that is allowed.
///
/// To end is work that the killed process does itself: it gives back its memory. One that runs only while nothing else wants
/// to may need half a minute for that on a busy machine, and whoever waits until nothing is left of the agent, as a
/// service manager does, gives up before.
///
/// Without privileges it needs a limit for nice values that allows the process's own (`LimitNICE=` of a unit).
#[expect(
    unsafe_code,
    reason = "scheduling policies are set by system calls that nobody wraps"
)]
pub(super) fn raise(process: u32) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return;
    };
    for thread in threads.flatten() {
        let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
        let Some(id) = id else { continue };
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameters outlive the call.
        unsafe {
            libc::sched_setscheduler(id, libc::SCHED_OTHER, &raw const parameters);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    fn policy(process: u32) -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
        // Fields are counted behind the name, which may hold anything.
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let policy = fields.split_whitespace().nth(38).expect("a policy");
        policy.parse().expect("a number")
    }

    #[expect(
        unsafe_code,
        reason = "only between fork and exec can a child lower its own priority"
    )]
    #[test]
    fn what_runs_when_nothing_else_wants_to_is_raised_before_it_is_killed() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped());
        // SAFETY: system calls alone.
        unsafe {
            command.pre_exec(|| {
                Priority::Idle.apply();
                Ok(())
            });
        }
        let mut child = command.spawn().expect("cat can be started");
        assert_eq!(policy(child.id()), libc::SCHED_IDLE);
        raise(child.id());
        let raised = policy(child.id());
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        let (soft, _) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NICE)
            .expect("a limit");
        match nix::unistd::geteuid().is_root() || soft >= 20 {
            true => assert_eq!(raised, libc::SCHED_OTHER),
            false => eprintln!("not allowed to raise anything here"),
        }
    }
}
