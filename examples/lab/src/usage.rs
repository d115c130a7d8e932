//! What processes cost: processor time and memory as the kernel counts them under /proc.

use std::collections::BTreeMap;
use std::fs;

use nix::unistd::{Pid, SysconfVar, sysconf};
use serde::Serialize;

/// What a process and, if asked for, its children have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// Processor time in milliseconds.
    pub(crate) cpu_ms: u64,
    /// The most memory that was resident, in kilobytes.
    pub(crate) peak_kb: u64,
}

impl Usage {
    /// Adds what another process has used: its time, and its memory where it is greater.
    pub(crate) fn include(&mut self, other: Self) {
        self.cpu_ms += other.cpu_ms;
        self.peak_kb = self.peak_kb.max(other.peak_kb);
    }
}

/// One look at all processes of the machine.
#[derive(Debug)]
pub(crate) struct Look {
    children: BTreeMap<i32, Vec<i32>>,
}

impl Look {
    /// Looks.
    pub(crate) fn now() -> Self {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
            if let Some(stat) = Stat::of(pid) {
                children.entry(stat.parent).or_default().push(pid);
            }
        }
        Self { children }
    }

    /// Returns what a process itself has used.
    pub(crate) fn of(&self, pid: Pid) -> Usage {
        usage(pid.as_raw(), false)
    }

    /// Returns what the living children of a process have used, and those it has outlived.
    pub(crate) fn of_children(&self, pid: Pid) -> Usage {
        let mut total = Usage::default();
        for &child in self.children.get(&pid.as_raw()).into_iter().flatten() {
            total.include(usage(child, true));
        }
        if let Some(stat) = Stat::of(pid.as_raw()) {
            total.cpu_ms += ticks_to_ms(stat.reaped);
        }
        total
    }
}

struct Stat {
    parent: i32,
    own: u64,
    reaped: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads a line of proc_pid_stat(5). The name in parentheses may hold anything, so counting starts behind it.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            own: number(11)? + number(12)?,
            reaped: number(13)? + number(14)?,
        })
    }
}

fn usage(pid: i32, with_reaped: bool) -> Usage {
    let Some(stat) = Stat::of(pid) else {
        return Usage::default();
    };
    let reaped = if with_reaped { stat.reaped } else { 0 };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| {
        let kilobytes = line.strip_prefix("VmHWM:")?;
        kilobytes.split_whitespace().next()?.parse().ok()
    });
    Usage {
        cpu_ms: ticks_to_ms(stat.own + reaped),
        peak_kb: peak.unwrap_or_default(),
    }
}

fn ticks_to_ms(ticks: u64) -> u64 {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    ticks * 1000 / u64::try_from(per_second).unwrap_or(100).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let line = "12 (a) b (c) S 7 12 12 0 -1 4 1 2 3 4 50 6 70 8 20 0 1 0 9 0 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.own, stat.reaped), (7, 56, 78));
        assert!(Stat::parse("12 (lab").is_none());
    }

    #[test]
    fn this_process_uses_memory_and_has_a_parent() {
        let look = Look::now();
        assert!(look.of(Pid::this()).peak_kb > 0);
        let siblings = &look.children[&Pid::parent().as_raw()];
        assert!(siblings.contains(&Pid::this().as_raw()));
    }
}
