//! The check in audit: beside the event path, so that no event waits for it.
//!
//! A thread of its own tries copies of events while the real ones run. It takes one at a time and rests after each for many
//! times as long as the trial took; what comes meanwhile is not looked at, and counted.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use scry_protocol::NodeId;
use scry_protocol::link::host::{Failure, Rules, Surroundings};

use crate::checkpoint::cut::Standing;
use crate::context::Dice;
use crate::model::event::InputOf;
use crate::model::handler::Local;
use crate::safety::trial::Verdict;
use crate::safety::trials::{Case, Trials};
use crate::service::Service;

/// After each trial the thread rests for so many times as long as the trial took.
const REST_FACTOR: u32 = 50;
/// It never rests longer, so that a slow trial does not end the audit.
const REST_MAX: Duration = Duration::from_secs(1);

/// An event as it was before it ran.
pub(super) struct Copied<S: Service> {
    pub(super) setup: S::Setup,
    pub(super) local: Local<S>,
    pub(super) input: InputOf<S>,
    pub(super) dice: Dice,
    pub(super) standing: Vec<Standing>,
}

/// What the thread found.
pub(super) struct Audited {
    pub(super) event: String,
    pub(super) verdict: Result<Verdict, (Failure, String)>,
    pub(super) elapsed_us: u64,
    pub(super) unreadable: Vec<String>,
}

enum Order<S: Service> {
    Rules(Box<Rules>),
    Surroundings(Surroundings),
    Try(Box<Copied<S>>),
}

/// The event path's end of it.
pub(super) struct Auditor<S: Service> {
    orders: Sender<Order<S>>,
    found: Receiver<Audited>,
    /// Whether it waits for an event.
    free: Arc<AtomicBool>,
}

impl<S: Service> Auditor<S> {
    /// Starts the thread.
    pub(super) fn start(me: NodeId, executable: Option<PathBuf>) -> std::io::Result<Self> {
        let (orders, received) = channel();
        let (sender, found) = channel();
        let free = Arc::new(AtomicBool::new(true));
        let flag = free.clone();
        thread::Builder::new()
            .name("scry-audit".to_owned())
            .spawn(move || serve::<S>(Trials::new(me, executable), &received, &sender, &flag))?;
        Ok(Self {
            orders,
            found,
            free,
        })
    }

    pub(super) fn set_rules(&self, rules: Rules) {
        self.order(Order::Rules(Box::new(rules)));
    }

    pub(super) fn set_surroundings(&self, surroundings: Surroundings) {
        self.order(Order::Surroundings(surroundings));
    }

    /// Tells whether it would look at an event now.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.free.load(Ordering::Acquire)
    }

    /// Has an event tried.
    pub(super) fn attempt(&self, copied: Copied<S>) {
        self.free.store(false, Ordering::Relaxed);
        self.order(Order::Try(Box::new(copied)));
    }

    /// Returns the next thing it found.
    pub(super) fn poll(&self) -> Option<Audited> {
        self.found.try_recv().ok()
    }

    fn order(&self, order: Order<S>) {
        // A thread that is gone audits nothing, and harms nothing.
        let _ = self.orders.send(order);
    }
}

fn serve<S: Service>(
    mut trials: Trials<S>,
    orders: &Receiver<Order<S>>,
    found: &Sender<Audited>,
    free: &AtomicBool,
) {
    while let Ok(order) = orders.recv() {
        match order {
            // That they do not fit is told by the event path, which reads them too.
            Order::Rules(rules) => drop(trials.set_rules(*rules)),
            Order::Surroundings(surroundings) => trials.set_surroundings(surroundings),
            Order::Try(copied) => {
                let begun = Instant::now();
                if let Some(audited) = attempt(&mut trials, &copied, begun)
                    && found.send(audited).is_err()
                {
                    return;
                }
                thread::sleep((begun.elapsed() * REST_FACTOR).min(REST_MAX));
                free.store(true, Ordering::Release);
            }
        }
    }
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
    let mut unreadable = Vec::new();
    let how = trials.rules.isolate;
    let tried = trials.attempt(how, &case, &mut unreadable);
    let verdict = tried.map(|(verdict, _)| verdict);
    let nothing = |verdict: &Verdict| verdict.accusations.is_empty() && verdict.unjudged.is_empty();
    if unreadable.is_empty() && verdict.as_ref().is_ok_and(nothing) {
        return None;
    }
    Some(Audited {
        event: format!("{:?}", copied.input),
        verdict,
        elapsed_us: begun.elapsed().as_micros() as u64,
        unreadable,
    })
}
