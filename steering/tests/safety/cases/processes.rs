//! Processes that end, stop, or never come to an end.

use super::*;

fn speculator(check: &SafetyCheck<Counter>) -> Pid {
    Pid::from_raw(check.speculator_id().expect("a speculator runs") as i32)
}

/// Sends a signal to the speculator and all its children, who would answer for it a few times more.
pub(super) fn stop(check: &SafetyCheck<Counter>, signal: Signal) {
    killpg(speculator(check), signal).expect("our own child");
}

pub(super) fn replaces_killed() {
    let mut check = check(rules(Isolate::Speculator));
    passes(&mut check, 0, Message::Set(1));
    let first = check.speculator_id();
    stop(&check, Signal::SIGKILL);
    passes(&mut check, 0, Message::Set(11));
    assert_eq!(failures(&mut check), [Failure::SpeculatorGone]);
    until("protected again", || {
        matches!(examine(&mut check, 0, Message::Set(11)), Examined::Veto(_))
    });
    assert_ne!(check.speculator_id(), first);
}

pub(super) fn replaces_stopped() {
    let mut hasty = rules(Isolate::Speculator);
    hasty.deadline_ms = 500;
    let mut check = check(hasty);
    // However busy the machine, some verdict comes in time.
    let is_protected = |check: &mut SafetyCheck<Counter>| {
        matches!(examine(check, 0, Message::Set(11)), Examined::Veto(_))
    };
    until("protected", || is_protected(&mut check));
    stop(&check, Signal::SIGSTOP);
    let stopped = check.speculator_id();
    failures(&mut check);
    // Another event each time: what was decided already is remembered.
    let mut count = 11;
    until("given up", || {
        count += 1;
        passes(&mut check, 0, Message::Set(count));
        check.speculator_id() != stopped
    });
    assert!(failures(&mut check).contains(&Failure::CheckLate));
    until("protected again", || {
        count += 1;
        matches!(
            examine(&mut check, 0, Message::Set(count)),
            Examined::Veto(_)
        )
    });
}

/// The children of a process, as the kernel lists them.
fn children(parent: Pid) -> Vec<Pid> {
    let listed = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let listed = listed.unwrap_or_default();
    let ids = listed.split_whitespace();
    ids.map(|id| Pid::from_raw(id.parse().expect("a process id")))
        .collect()
}

pub(super) fn replaces_children() {
    let mut check = check(rules(Isolate::Speculator));
    let mut count = 10;
    let mut is_protected = |check: &mut SafetyCheck<Counter>| {
        // Another event each time: what was decided already is remembered.
        count += 1;
        matches!(examine(check, 0, Message::Set(count)), Examined::Veto(_))
    };
    assert!(is_protected(&mut check));
    let first = speculator(&check);
    let waiting = |parent: Pid| {
        until("forked ahead", || children(parent).len() > 1);
        children(parent)
    };
    for child in waiting(first) {
        // One that has just answered is gone already.
        let _ = kill(child, Signal::SIGKILL);
    }
    until("protected again", || is_protected(&mut check));

    let second = speculator(&check);
    let orphans = waiting(second);
    kill(second, Signal::SIGKILL).expect("our own child");
    until("without orphans", || {
        let is_gone = |&child: &Pid| kill(child, None) == Err(nix::Error::ESRCH);
        orphans.iter().all(is_gone)
    });
    until("protected again", || is_protected(&mut check));
    assert_ne!(speculator(&check), second);
}

pub(super) fn tells_what_never_ends() {
    let mut rules = rules(Isolate::Speculator);
    // Shorter than it takes to find out.
    rules.deadline_ms = 20;
    let mut check = check(rules);
    let mut told = Vec::new();
    let mut last: Option<Instant> = None;
    until("it is told", || {
        // New states come before the last ones can have been tried.
        if last.is_none_or(|last| last.elapsed() > Duration::from_millis(100)) {
            last = Some(Instant::now());
            check.set_surroundings(neighbor(ENDLESS));
        }
        examine(&mut check, 0, Message::Set(3));
        told.extend(failures(&mut check));
        told.contains(&Failure::PropertyLate)
    });
}

pub(super) fn leaves_alone_what_never_ends() {
    // Longer than what is bad is left alone at first.
    let longer = Duration::from_secs(4);
    for form in FORMS {
        let mut rules = rules(form);
        rules.deadline_ms = 20;
        let mut check = check(rules);
        let mut told = Vec::new();
        check.set_surroundings(neighbor(ENDLESS));
        until("it is told", || {
            examine(&mut check, 0, Message::Set(3));
            told.extend(failures(&mut check));
            told.contains(&Failure::PropertyLate)
        });
        // Without new states nobody tries it again, least of all in this process, which would not come back.
        let begun = Instant::now();
        while begun.elapsed() < longer {
            examine(&mut check, 0, Message::Set(3));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
