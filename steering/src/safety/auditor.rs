//! The check in audit: beside the event path, so that no event waits for it.
//!
//! A thread of its own tries copies of events while the real ones run. It takes one at a time and rests after each for many
//! times as long as the trial took; what comes meanwhile is not looked at, and counted. Where that is very much, it rests
//! for longer.
//!
//! On clones the service's own code runs in that thread, and a thread cannot be ended. One that does not come back is given
//! up: it may use what processor time nobody else wants, and nobody waits for it.

#![expect(
    unsafe_code,
    reason = "that a thread runs only when nothing else does has no safe form"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use scry_protocol::NodeId;
use scry_protocol::link::host::{CheckSettings, Failure, Surroundings};

use crate::safety::trial::{Trouble, Verdict};
use crate::safety::trials::{Case, Trials};
use scry_checkpoint::cut::Standing;
use scry_engine::context::Dice;
use scry_engine::model::event::InputOf;
use scry_engine::model::handler::Local;
use scry_engine::service::Service;

/// After each trial the thread rests for so many times as long as the trial took.
const REST_FACTOR: u32 = 50;
/// What a trial takes from a service that keeps all processors busy is not its own time but the order of things: whoever is
/// woken for it takes a thread's place, and nodes that took turns on one processor go on side by side on two, with a wake-up
/// for every message. Where so many events pass in one rest that only samples are looked at, the rest is longer: as many
/// times the trial as hundreds of events have passed.
const PASSED_PER_REST: u64 = 20;
const REST_FACTOR_MAX: u32 = 1_000;
/// It never rests longer, so that a slow trial does not end the audit.
const REST_MAX: Duration = Duration::from_secs(1);
/// A trial that takes longer does not end any more, as far as anybody can tell.
pub(super) const TRIAL_MAX: Duration = Duration::from_secs(10);

/// An event as it was before it ran.
pub(super) struct Copied<S: Service> {
    pub(super) setup: S::Setup,
    pub(super) local: Local<S>,
    pub(super) input: InputOf<S>,
    pub(super) dice: Dice,
    pub(super) standing: Vec<Standing>,
    /// How many events were not looked at so far.
    pub(super) passed_over: u64,
}

/// What the thread found.
pub(super) struct Audited {
    pub(super) event: String,
    pub(super) verdict: Result<Verdict, (Failure, String)>,
    pub(super) elapsed_us: u64,
    pub(super) troubles: Vec<Trouble>,
}

enum Order<S: Service> {
    CheckSettings(Box<CheckSettings>),
    Surroundings(Surroundings),
    Try(Box<Copied<S>>),
}

/// The event path's end of it.
pub(super) struct Auditor<S: Service> {
    orders: Sender<Order<S>>,
    found: Receiver<Audited>,
    state: Arc<State>,
    began: Instant,
}

/// What both ends know of the thread.
struct State {
    /// Whether it waits for an event.
    free: AtomicBool,
    /// When it was last given one, in milliseconds since it began, and one more; nothing if it is done with it.
    busy_since_ms: AtomicU64,
    /// Whether it has found something since it was last asked.
    found: AtomicBool,
    /// Its number for the kernel.
    thread: AtomicI32,
}

impl<S: Service> Auditor<S> {
    /// Starts the thread.
    pub(super) fn start(me: NodeId, executable: Option<PathBuf>) -> std::io::Result<Self> {
        let (orders, received) = channel();
        let (sender, found) = channel();
        let state = Arc::new(State {
            free: AtomicBool::new(true),
            busy_since_ms: AtomicU64::new(0),
            found: AtomicBool::new(false),
            thread: AtomicI32::new(0),
        });
        let shared = Arc::clone(&state);
        spawn(Box::new(move || {
            shared
                .thread
                .store(nix::unistd::gettid().as_raw(), Ordering::Relaxed);
            make_way();
            serve::<S>(Trials::new(me, executable), &received, &sender, &shared);
        }))?;
        Ok(Self {
            orders,
            found,
            state,
            began: Instant::now(),
        })
    }

    /// Tells whether it has been at one event for so long that it will not come back.
    pub(super) fn is_stuck(&self, trial_max: Duration) -> bool {
        let since = self.state.busy_since_ms.load(Ordering::Acquire);
        since > 0 && self.began.elapsed() > Duration::from_millis(since) + trial_max
    }

    /// Gives the thread up: from now on it runs only when no other wants to.
    pub(super) fn give_up(self) {
        let thread = self.state.thread.load(Ordering::Relaxed);
        if thread > 0 {
            let lowest = libc::sched_param { sched_priority: 0 };
            // SAFETY: the parameter is a whole value on this stack, and the call changes nothing but when the thread runs.
            unsafe { libc::sched_setscheduler(thread, libc::SCHED_IDLE, &raw const lowest) };
        }
    }

    pub(super) fn set_rules(&self, rules: CheckSettings) {
        self.order(Order::CheckSettings(Box::new(rules)));
    }

    pub(super) fn set_surroundings(&self, surroundings: Surroundings) {
        self.order(Order::Surroundings(surroundings));
    }

    /// Tells whether it would look at an event now.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.state.free.load(Ordering::Acquire)
    }

    /// Has an event tried.
    pub(super) fn attempt(&self, copied: Copied<S>) {
        self.state.free.store(false, Ordering::Relaxed);
        let now_ms = self.began.elapsed().as_millis() as u64 + 1;
        self.state.busy_since_ms.store(now_ms, Ordering::Release);
        self.order(Order::Try(Box::new(copied)));
    }

    /// Tells whether it may have found something.
    #[inline]
    pub(super) fn has_found(&self) -> bool {
        self.state.found.load(Ordering::Relaxed)
    }

    /// Returns the next thing it found.
    pub(super) fn poll(&self) -> Option<Audited> {
        // What is found from here on raises it again.
        self.state.found.store(false, Ordering::Relaxed);
        self.found.try_recv().ok()
    }

    fn order(&self, order: Order<S>) {
        // A thread that is gone audits nothing, and harms nothing.
        let _ = self.orders.send(order);
    }
}

/// Has this thread, and the processes it starts, wait for the end of a slice instead of taking another thread's place: a trial
/// takes the order of things from a service that keeps all processors busy, and with it more than its own time.
fn make_way() {
    let batch = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is a whole value on this stack, and the call changes nothing but when this thread runs.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const batch) };
}

fn spawn(work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    let thread = thread::Builder::new().name("scry-audit".to_owned());
    thread.spawn(work).map(drop)
}

fn serve<S: Service>(
    mut trials: Trials<S>,
    orders: &Receiver<Order<S>>,
    found: &Sender<Audited>,
    state: &State,
) {
    let mut passed_over = 0;
    while let Ok(order) = orders.recv() {
        match order {
            // That they do not fit is told by the event path, which reads them too.
            Order::CheckSettings(rules) => drop(trials.set_rules(*rules)),
            Order::Surroundings(surroundings) => trials.set_surroundings(surroundings),
            Order::Try(copied) => {
                let begun = Instant::now();
                let audited = attempt(&mut trials, &copied, begun);
                state.busy_since_ms.store(0, Ordering::Release);
                if let Some(audited) = audited {
                    if found.send(audited).is_err() {
                        return;
                    }
                    state.found.store(true, Ordering::Relaxed);
                }
                let passed = copied.passed_over.saturating_sub(passed_over);
                passed_over = copied.passed_over;
                thread::sleep(rest_after(begun.elapsed(), passed));
                state.free.store(true, Ordering::Release);
            }
        }
    }
}

/// Returns how long to rest after a trial, if so many events passed in the rest before it.
fn rest_after(trial: Duration, passed: u64) -> Duration {
    let factor = u32::try_from(passed / PASSED_PER_REST).unwrap_or(u32::MAX);
    (trial * factor.clamp(REST_FACTOR, REST_FACTOR_MAX)).min(REST_MAX)
}

fn attempt<S: Service>(
    trials: &mut Trials<S>,
    copied: &Copied<S>,
    begun: Instant,
) -> Option<Audited> {
    let case = Case {
        setup: &copied.setup,
        local: &copied.local,
        input: &copied.input,
        dice: copied.dice,
        standing: copied.standing.clone(),
    };
    let how = trials.rules.isolate;
    let tried = trials.attempt(how, &case, begun);
    let troubles = trials.take_troubles();
    let verdict = tried.map(|(verdict, _)| verdict);
    let nothing = |verdict: &Verdict| verdict.accusations.is_empty();
    if troubles.is_empty() && verdict.as_ref().is_ok_and(nothing) {
        return None;
    }
    Some(Audited {
        event: format!("{:?}", copied.input),
        verdict,
        elapsed_us: begun.elapsed().as_micros() as u64,
        troubles,
    })
}

#[cfg(test)]
mod tests {
    use scry_protocol::link::host::Isolate;
    use serde::{Deserialize, Serialize};

    use super::*;
    use scry_engine::context::{Context, Stamp};
    use scry_engine::model::event::Input;

    /// A service whose only handler never ends if it is told so.
    #[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
    struct Patient;

    impl Service for Patient {
        type Message = ();
        type Timer = ();
        type Call = bool;
        type Setup = ();
        type Disk = ();

        fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
            Self
        }

        fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, (): ()) {}
        fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}

        fn on_call(&mut self, _: &mut Context<'_, Self>, endless: bool) {
            if endless {
                loop {
                    thread::park();
                }
            }
        }

        fn disk(&self) {}
    }

    fn attempt(auditor: &Auditor<Patient>, endless: bool) {
        auditor.attempt(Copied {
            setup: (),
            local: Local {
                service: Patient,
                timers: Vec::new(),
                ticks: 0,
                panic: None,
                down: false,
            },
            input: Input::Call(endless),
            dice: Dice::new(1, Stamp::from_millis(1), 0),
            standing: Vec::new(),
            passed_over: 0,
        });
    }

    #[test]
    fn where_more_events_pass_than_can_be_looked_at_trials_are_further_apart() {
        let trial = Duration::from_micros(200);
        assert_eq!(rest_after(trial, 0), trial * 50);
        assert_eq!(rest_after(trial, 1_000), trial * 50);
        assert_eq!(rest_after(trial, 10_000), trial * 500);
        assert_eq!(rest_after(trial, 1_000_000), trial * 1_000);
        assert_eq!(rest_after(Duration::from_millis(90), 0), REST_MAX);
    }

    #[test]
    fn a_trial_of_the_audit_that_never_ends_is_given_up() {
        let auditor = Auditor::<Patient>::start(NodeId::new(1), None).expect("a thread");
        auditor.set_rules(CheckSettings {
            properties: String::new(),
            modes: Vec::new(),
            isolate: Isolate::Clone,
            deadline_ms: 60_000,
            surroundings_age_ms_max: 60_000,
            hold_ms_max: 0,
            time_share_per_mille: 1000,
        });
        attempt(&auditor, false);
        while !auditor.is_free() {
            thread::yield_now();
        }
        assert!(!auditor.is_stuck(Duration::ZERO), "it is done");
        attempt(&auditor, true);
        while !auditor.is_stuck(Duration::from_millis(20)) {
            thread::yield_now();
        }
        assert!(!auditor.is_free());
        auditor.give_up();
    }
}
