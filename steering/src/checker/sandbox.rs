//! What a checker may not do: open files or sockets, start programs, outlive its agent, take all memory.
//!
//! Its input comes from other nodes and is run through the service's handlers; so it gets only what computing needs. What
//! the system does not offer is told and done without: a checker without a sandbox still is a process of its own.

use std::collections::BTreeMap;

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The environment variable that bounds the process's memory, in bytes of address space.
pub const MEMORY_VARIABLE: &str = "SCRY_CHECKER_MEMORY_BYTES";
/// The environment variable that bounds the process's time on the processor, in seconds over its incarnation.
pub const PROCESSOR_VARIABLE: &str = "SCRY_CHECKER_CPU_SECONDS";

/// Closes the sandbox around this process, and returns what could not be closed, in words.
///
/// To be called before there are threads: they inherit what binds the thread that starts them.
pub fn close() -> Vec<String> {
    let parts: [(&str, Result<(), String>); 5] = [
        ("parent", die_with_parent()),
        ("memory", limit(Resource::RLIMIT_AS, MEMORY_VARIABLE)),
        ("processor", limit(Resource::RLIMIT_CPU, PROCESSOR_VARIABLE)),
        ("files", lock_files()),
        ("system calls", filter_calls()),
    ];
    let refused = parts.into_iter().filter_map(|(part, closed)| {
        let reason = closed.err()?;
        Some(format!("{part}: {reason}"))
    });
    refused.collect()
}

/// The kernel ends the checker when the thread that started it ends. Should that have happened already, the end of its
/// standard input says so.
fn die_with_parent() -> Result<(), String> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| error.to_string())
}

fn limit(resource: Resource, variable: &str) -> Result<(), String> {
    let Some(value) = std::env::var_os(variable) else {
        return Ok(());
    };
    let most = value
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{variable} is not a number"))?;
    setrlimit(resource, most, most).map_err(|error| error.to_string())
}

/// Landlock: no access to any file, port or abstract socket that is not open already.
fn lock_files() -> Result<(), String> {
    let abi = ABI::V6;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(abi)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(|error| error.to_string())?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock".to_owned()),
    }
}

/// seccomp: a list of what computing, threads and the link need. Everything else fails with `EPERM`, which a library
/// survives where a kill would be a riddle.
fn filter_calls() -> Result<(), String> {
    let allowed = calls()?;
    // What `clone3` is asked cannot be seen by a filter; without it, the C library falls back to `clone`, which can.
    let hidden = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let refuse = |code: i32| SeccompAction::Errno(code as u32);
    // In this order: the list does not allow to install another filter.
    apply(hidden, SeccompAction::Allow, refuse(libc::ENOSYS))?;
    apply(allowed, refuse(libc::EPERM), SeccompAction::Allow)
}

fn apply(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    then: SeccompAction,
) -> Result<(), String> {
    let target = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filter = SeccompFilter::new(rules, otherwise, then, target);
    let program: BpfProgram = filter
        .and_then(TryInto::try_into)
        .map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

fn calls() -> Result<BTreeMap<i64, Vec<SeccompRule>>, String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
    let threads = libc::CLONE_THREAD as u64;
    let me = u64::from(std::process::id());
    // Threads but no processes; limits and signals of this process but of no other.
    let bounded = [
        (libc::SYS_clone, SeccompCmpOp::MaskedEq(threads), threads),
        (libc::SYS_prlimit64, SeccompCmpOp::Eq, 0),
        (libc::SYS_tgkill, SeccompCmpOp::Eq, me),
    ];
    for (call, operator, value) in bounded {
        let length = match call {
            libc::SYS_clone => SeccompCmpArgLen::Qword,
            _ => SeccompCmpArgLen::Dword,
        };
        let rule = SeccompCondition::new(0, length, operator, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(|error| error.to_string())?;
        rules.insert(call, vec![rule]);
    }
    Ok(rules)
}

const ALLOWED: &[i64] = &[
    // The link and standard error, which are open.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_close,
    libc::SYS_ppoll,
    // A descriptor is doubled for the reading thread.
    libc::SYS_fcntl,
    libc::SYS_dup,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_membarrier,
    // Threads. The other filter answers `clone3`.
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_prctl,
    libc::SYS_gettid,
    libc::SYS_getpid,
    // Clocks and chance.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // Signals: stack overflows are caught to be told.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // The end.
    libc::SYS_exit,
    libc::SYS_exit_group,
];
