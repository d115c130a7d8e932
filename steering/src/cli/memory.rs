//! How much memory there is: the machine's, or what a container is given of it.

use std::fs;

/// Where the limits of a container are, in the two versions of its interface.
const LIMITS: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];

/// Returns how many bytes this process could use at most, if that can be found out.
pub(crate) fn bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.as_deref().and_then(total);
    let limits = LIMITS.iter().filter_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        text.trim().parse().ok()
    });
    limits.chain(machine).min()
}

/// Reads the machine's memory from what the kernel says of it.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_in_kibibytes() {
        assert_eq!(
            total("MemTotal:       16 kB\nMemFree: 1 kB\n"),
            Some(16_384)
        );
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert_eq!(total("MemTotal: many kB\n"), None);
    }

    #[test]
    fn a_machine_has_some() {
        assert!(bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
