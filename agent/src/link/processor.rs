//! How much processor time a process has had, and whether it waits for more: a checker that starves is not one that hangs.

use std::fs;
use std::io;
use std::time::Duration;

/// What the kernel's clock ticks are in `/proc`, on every architecture it runs on.
const TICK: Duration = Duration::from_millis(10);

/// What was seen of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Look {
    /// How much processor time all its threads have had.
    pub(super) used: Duration,
    /// Whether one of them could go on if it had a processor, or has one.
    pub(super) is_runnable: bool,
}

/// Looks at a process.
///
/// # Errors
///
/// When it is gone, or not to be seen.
pub(super) fn look(process: u32) -> io::Result<Look> {
    let of = |text: &str| parse(text).ok_or(io::ErrorKind::InvalidData);
    let (_, used) = of(&fs::read_to_string(format!("/proc/{process}/stat"))?)?;
    let mut is_runnable = false;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end while it is looked at.
        if let Ok(text) = fs::read_to_string(thread?.path().join("stat")) {
            is_runnable |= of(&text)?.0 == 'R';
        }
    }
    Ok(Look { used, is_runnable })
}

/// Reads the state and the processor time from a `stat` file. The name before them may contain anything.
fn parse(text: &str) -> Option<(char, Duration)> {
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // Of the eleventh and twelfth field after the state: time in user mode and in the kernel.
    let mut times = fields.skip(10).map(str::parse::<u32>);
    let ticks = times.next()?.ok()?.saturating_add(times.next()?.ok()?);
    Some((state, TICK * ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_file_is_read_whatever_the_process_is_called() {
        let text = "7 (a) R (b) S 1 7 7 0 -1 4194304 100 0 0 0 25 17 0 0 20 0 1 0 9 0 0";
        assert_eq!(parse(text), Some(('S', Duration::from_millis(420))));
        for text in [
            "",
            "7 (a)",
            "7 (a) S 1 2",
            "7 (a) S 1 7 7 0 -1 4 1 0 0 0 x 1",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_process_that_works_is_runnable_and_one_that_sleeps_is_not() {
        let this = std::process::id();
        assert!(look(this).unwrap().is_runnable, "a thread is just looking");
        let begun = std::time::Instant::now();
        let before = look(this).unwrap().used;
        while look(this).unwrap().used < before + 3 * TICK {
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        let mut asleep = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        while look(asleep.id()).unwrap().is_runnable {
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        asleep.kill().unwrap();
        asleep.wait().unwrap();
        assert!(look(asleep.id()).is_err());
    }
}
