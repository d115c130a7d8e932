//! A lease: a server that gives a lock away for a time, and clients that stop using it in time, or do not.

use std::time::Duration;

use scry::timing::Clock;
use scry::{
    Context, Faults, NodeId, Options, Property, Report, Search, Service, Simulation, Stamp, View,
};
use serde::{Deserialize, Serialize};

const SERVER: NodeId = NodeId::new(0);
/// For how long the server gives the lock away.
const LEASE: Duration = Duration::from_millis(500);

/// How a client ends its lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) enum Ends {
    /// By a timer that is set when it asks.
    TimerFromAsking,
    /// By a timer that is set when the answer comes: too late by the time that took.
    TimerFromAnswer,
    /// It looks at the clock whenever it uses the lock, counting from when it asked.
    Clock,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    ends: Ends,
    /// How much sooner than the server a client takes the lease for over.
    margin_ms: u64,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) enum Lease {
    /// Who has it, and since when.
    Server(Option<(NodeId, Stamp)>),
    /// When it asked, whether it uses the lock, and how often it may still ask.
    Client {
        asked: Option<Stamp>,
        uses: bool,
        left: u8,
    },
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Message {
    Ask,
    Yours,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Call {
    Ask,
    Touch,
}

impl Setup {
    fn own(&self) -> Duration {
        LEASE - Duration::from_millis(self.margin_ms)
    }
}

impl Service for Lease {
    type Message = Message;
    type Timer = ();
    type Call = Call;
    type Setup = Setup;
    type Disk = ();

    fn start(cx: &mut Context<'_, Self>, _: Option<()>) -> Self {
        match cx.me() == SERVER {
            true => Self::Server(None),
            false => Self::Client {
                asked: None,
                uses: false,
                left: 1,
            },
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let setup = cx.setup();
        match (self, message) {
            (Self::Server(held), Message::Ask) => {
                let free = held.is_none_or(|(_, since)| cx.expired(since, LEASE));
                if free {
                    *held = Some((from, cx.now()));
                    cx.send(from, Message::Yours);
                }
            }
            (Self::Client { asked, uses, .. }, Message::Yours) => match (*asked, setup.ends) {
                (Some(_), Ends::TimerFromAnswer) => {
                    *uses = true;
                    cx.set_timer((), setup.own());
                }
                (Some(_), Ends::TimerFromAsking) => *uses = true,
                (Some(since), Ends::Clock) => *uses = !cx.expired(since, setup.own()),
                (None, _) => {}
            },
            _ => {}
        }
    }

    fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {
        if let Self::Client { asked, uses, .. } = self {
            *asked = None;
            *uses = false;
        }
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: Call) {
        let setup = cx.setup();
        let Self::Client { asked, uses, left } = self else {
            return;
        };
        match call {
            Call::Ask => {
                *left -= 1;
                *asked = Some(cx.now());
                if setup.ends == Ends::TimerFromAsking {
                    cx.set_timer((), setup.own());
                }
                cx.send(SERVER, Message::Ask);
            }
            // Whether it is still its own is looked up just before; what it does then is the next event.
            Call::Touch => {
                if asked.is_some_and(|since| cx.expired(since, setup.own())) {
                    *asked = None;
                    *uses = false;
                }
            }
        }
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, setup: &Setup) -> Vec<Call> {
        match self {
            Self::Client {
                asked: None,
                left: 1..,
                ..
            } => vec![Call::Ask],
            Self::Client { uses: true, .. } if setup.ends == Ends::Clock => vec![Call::Touch],
            _ => Vec::new(),
        }
    }
}

pub(crate) fn one_at_a_time() -> Property<Lease> {
    let uses = |view: &View<'_, Lease>| {
        matches!(view.state, Lease::Client { uses: true, .. }).then_some(())
    };
    Property::pair("one client at a time", uses, |_, _| false)
}

fn searched(setup: Setup, clock: Clock) -> Report<Lease> {
    let setups = (0..3).map(|number| (NodeId::new(number), setup));
    let start = Simulation::boot(setups.collect(), Faults::NONE);
    let options = Options {
        clock,
        ..Options::default()
    };
    Search::new(&start, vec![one_at_a_time()], options)
        .expect("these options go together")
        .run()
}

fn late(late_ms: u64) -> Clock {
    Clock {
        late_ms,
        tries: 50_000,
        ..Clock::default()
    }
}

pub(crate) const ASKING: Setup = Setup {
    ends: Ends::TimerFromAsking,
    margin_ms: 20,
};

#[test]
fn a_correct_lease_is_never_broken_whatever_the_times() {
    let report = searched(ASKING, late(19));
    assert!(report.complete);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert_eq!((report.impossible(), report.undecided()), (1, 0));
    // With every answer allowed it looks broken.
    let free = searched(ASKING, Clock::FREE);
    assert_eq!(free.violations.len(), 1);
    assert_eq!(
        (free.states, free.transitions),
        (report.states, report.transitions)
    );
}

#[test]
fn a_lease_that_ends_by_a_timer_is_as_good_as_its_timer() {
    let report = searched(ASKING, late(19));
    let [unfit] = &report.unfit[..] else {
        panic!("{:?}", report.unfit);
    };
    assert_eq!(
        unfit.need.as_deref(),
        Some("possible only if timers are 20 ms late")
    );
    let late = searched(ASKING, late(20));
    let [violation] = &late.violations[..] else {
        panic!("{:?}", late.unfit);
    };
    let needs = &violation.layout.needs;
    assert!(violation.layout.takes_time());
    assert_eq!(needs.len(), 0, "no message need take any time: {needs:?}");
}

#[test]
fn a_lease_counted_from_the_answer_is_broken_by_a_slow_message() {
    let setup = Setup {
        ends: Ends::TimerFromAnswer,
        margin_ms: 200,
    };
    let report = searched(setup, late(0));
    let [violation] = &report.violations[..] else {
        panic!("{:?}", report.unfit);
    };
    assert_eq!(violation.layout.unchecked, None);
    let times: Vec<u64> = violation
        .layout
        .times_ms
        .iter()
        .flatten()
        .copied()
        .collect();
    assert_eq!(times.iter().max(), Some(&500), "{:?}", violation.path);
    assert_eq!(
        violation.layout.needs,
        ["n0's Yours to n1 takes at least 200 ms"]
    );
    let said: Vec<&str> = (0..violation.path.len())
        .filter_map(|step| violation.layout.decision(step, 0))
        .collect();
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("500 ms have passed since step "),
        "{said:?}"
    );
}

#[test]
fn clocks_that_drift_break_a_lease_whose_margin_is_smaller() {
    let drift = |drift_ppm| Clock {
        drift_ppm,
        ..late(0)
    };
    let setup = Setup {
        margin_ms: 5,
        ..ASKING
    };
    // The client's 495 ms last at most as long as the server's 500 ms up to a drift of 5 in 995.
    assert!(searched(setup, drift(5_000)).violations.is_empty());
    let report = searched(setup, drift(4_000));
    assert!(report.violations.is_empty());
    assert_eq!((report.impossible(), report.undecided()), (1, 0));
    assert_eq!(searched(setup, drift(5_100)).violations.len(), 1);
}
