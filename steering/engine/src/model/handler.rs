//! Running a handler as a function of (state, input, choices), once for each outcome of its choices.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use rustc_hash::FxHasher;
use scry_protocol::NodeId;
use serde::{Deserialize, Serialize};

use crate::blame::{self, Phase};
use crate::context::{Chance, Context, Effect, Stamp};
use crate::model::event::{Input, InputOf};
use crate::panics::{Panicked, caught, in_silence};
use crate::service::Service;
use crate::stamp::{Origin, noting_looks};

/// How many outcomes one (state, event) pair may have before the rest is given up and the search says so.
pub const OUTCOMES_MAX: usize = 4096;

/// Everything of a node that its handlers can see or change.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Local<S: Service> {
    /// The service's own state.
    pub service: S,
    /// The timers that are armed, in order.
    pub timers: Vec<S::Timer>,
    /// The last number [`Context::tick`] gave.
    pub ticks: u64,
    /// What a handler said when it panicked. Nothing happens any more at such a node.
    pub panic: Option<String>,
    /// Whether the node is down: properties do not see it, and nothing happens there until it starts.
    pub down: bool,
}

/// How the dice fell while a handler ran: all it takes to run it again the same way.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Tosses {
    /// For each question in turn, how many answers there were and which was given.
    pub picks: Vec<(u32, u32)>,
    /// The numbers that were drawn.
    pub draws: Vec<u64>,
}

/// What a handler did that has to do with time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Timed<T> {
    /// Whether it read the clock.
    pub read: bool,
    /// Whether it compared stamps by other means than [`Context::expired`], which says nothing in a search.
    pub looked: bool,
    /// The questions it asked [`Context::expired`], in order.
    pub asked: Vec<Asked>,
    /// The timers it armed, with their delays, and those it cancelled, in order.
    pub armed: Vec<(T, Option<Duration>)>,
}

/// A question whether a time has passed, and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asked {
    /// Since when.
    pub since: Stamp,
    /// How long.
    pub after: Duration,
    /// What the handler was told.
    pub answer: bool,
    /// Which of the handler's choices it was.
    pub pick: usize,
}

/// One way a handler can end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome<S: Service> {
    /// The node afterwards.
    pub local: Local<S>,
    /// What it asked of the network. Timers are in `local` already.
    pub effects: Vec<Effect<S::Message, S::Timer>>,
    /// The choices that led here.
    pub tosses: Tosses,
    /// Whether the handler never asked which node it runs on, nor for a number drawn for that node.
    pub anonymous: bool,
    /// What it did that has to do with time.
    pub timed: Timed<S::Timer>,
}

/// Boots a node for the first time, in each way it can start.
pub fn boot<S: Service>(node: NodeId, setup: &S::Setup) -> Outcomes<S> {
    boot_at(node, setup, Origin::SOMEWHERE)
}

/// As [`boot`], with a clock whose readings have an origin.
pub(crate) fn boot_at<S: Service>(node: NodeId, setup: &S::Setup, origin: Origin) -> Outcomes<S> {
    enumerate(|tosses| {
        let mut chance = Scripted::new(tosses, 0, u64::from(node.get()), origin);
        let mut effects = Vec::new();
        let cx = &mut Context::new(node, setup, &mut chance, &mut effects);
        let service = S::start(cx, None);
        chance.into_outcome(service, Vec::new(), effects, false)
    })
}

/// Runs the handler for `input` in each way it can end, in the order of its choices.
pub fn run_all<S: Service>(
    node: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    input: &InputOf<S>,
) -> Outcomes<S> {
    enumerate(|tosses| run(node, setup, local, input, tosses))
}

/// As [`run_all`], with a clock whose readings have an origin.
pub(crate) fn run_all_at<S: Service>(
    node: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    input: &InputOf<S>,
    origin: Origin,
) -> Outcomes<S> {
    enumerate(|tosses| run_at(node, setup, local, input, tosses, origin))
}

/// The outcomes of one (state, input) pair.
#[derive(Debug)]
pub struct Outcomes<S: Service> {
    /// In the order of their choices, never empty.
    pub all: Vec<Outcome<S>>,
    /// Whether there were more than [`OUTCOMES_MAX`].
    pub truncated: bool,
}

/// Runs the handler for `input` once, answering as `tosses` says and with zero beyond its end.
pub fn run<S: Service>(
    node: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    input: &InputOf<S>,
    tosses: &Tosses,
) -> Outcome<S> {
    run_at(node, setup, local, input, tosses, Origin::SOMEWHERE)
}

/// As [`run`], with a clock whose readings have an origin.
pub(crate) fn run_at<S: Service>(
    node: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    input: &InputOf<S>,
    tosses: &Tosses,
    origin: Origin,
) -> Outcome<S> {
    let run = || match input {
        Input::Restart => restart(node, setup, local, tosses, origin),
        Input::Stop => stopped(local),
        _ => handle(node, setup, local, input, tosses, origin),
    };
    let (mut outcome, looked) = blame::on(Phase::Handling, Some(node), || noting_looks(run));
    outcome.timed.looked = looked;
    outcome
}

fn handle<S: Service>(
    node: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    input: &InputOf<S>,
    tosses: &Tosses,
    origin: Origin,
) -> Outcome<S> {
    let mut chance = Scripted::new(tosses, local.ticks, seed(node, local, input), origin);
    let mut timers = local.timers.clone();
    if let Input::Timer(timer) = input {
        timers.retain(|armed| armed != timer);
    }
    let mut service = local.service.clone();
    let mut effects = Vec::new();
    let mut anonymous = false;
    let ended = quietly(|| {
        let cx = &mut Context::new(node, setup, &mut chance, &mut effects);
        match input.clone() {
            Input::Message { from, message } => service.on_message(cx, from, message),
            Input::Timer(timer) => service.on_timer(cx, timer),
            Input::Call(call) => service.on_call(cx, call),
            Input::Disconnect(peer) => service.on_disconnect(cx, peer),
            Input::Restart | Input::Stop => {
                unreachable!("a restart has no handler but `start`, and a stop has none")
            }
        }
        anonymous = cx.is_anonymous();
    });
    match ended {
        Ok(()) => chance.into_outcome(service, timers, effects, anonymous),
        Err(said) => panicked(local, Some(said), chance),
    }
}

/// Starts a node again with what its last incarnation left on disk.
fn restart<S: Service>(
    node: NodeId,
    setup: &S::Setup,
    local: &Local<S>,
    tosses: &Tosses,
    origin: Origin,
) -> Outcome<S> {
    let mut chance = Scripted::new(tosses, local.ticks, u64::from(node.get()), origin);
    let mut effects = Vec::new();
    let mut service = None;
    let ended = quietly(|| {
        let cx = &mut Context::new(node, setup, &mut chance, &mut effects);
        service = Some(S::start(cx, Some(local.service.disk())));
    });
    match service {
        Some(service) => chance.into_outcome(service, Vec::new(), effects, false),
        None => panicked(local, ended.err(), chance),
    }
}

/// The node as it was, without what only a process has. What it left on disk is still to be read.
fn stopped<S: Service>(local: &Local<S>) -> Outcome<S> {
    let local = Local {
        down: true,
        timers: Vec::new(),
        ..local.clone()
    };
    Outcome {
        local,
        effects: Vec::new(),
        tosses: Tosses::default(),
        anonymous: true,
        timed: Timed {
            read: false,
            looked: false,
            asked: Vec::new(),
            armed: Vec::new(),
        },
    }
}

/// The node as it was, marked: what a handler did before it panicked is not seen by anybody.
fn panicked<S: Service>(
    local: &Local<S>,
    said: Option<String>,
    chance: Scripted<'_>,
) -> Outcome<S> {
    let local = Local {
        panic: said,
        down: false,
        timers: Vec::new(),
        ..local.clone()
    };
    Outcome {
        local,
        effects: Vec::new(),
        tosses: chance.recorded,
        anonymous: false,
        timed: Timed {
            read: chance.read,
            looked: false,
            asked: chance.asked,
            armed: Vec::new(),
        },
    }
}

fn enumerate<S: Service>(mut run: impl FnMut(&Tosses) -> Outcome<S>) -> Outcomes<S> {
    let mut all = Vec::new();
    let mut tosses = Tosses::default();
    loop {
        let outcome = run(&tosses);
        let next = successor(&outcome.tosses.picks);
        all.push(outcome);
        match next {
            Some(picks) if all.len() < OUTCOMES_MAX => {
                tosses = Tosses {
                    picks,
                    draws: Vec::new(),
                }
            }
            rest => {
                return Outcomes {
                    all,
                    truncated: rest.is_some(),
                };
            }
        }
    }
}

/// Counts on like an odometer whose digit ranges become known as the wheels turn (B-10).
fn successor(picks: &[(u32, u32)]) -> Option<Vec<(u32, u32)>> {
    let last = picks.iter().rposition(|&(of, picked)| picked + 1 < of)?;
    let mut next = picks[..=last].to_vec();
    next[last].1 += 1;
    Some(next)
}

/// Seeds the draws from what the handler sees, so that equal states draw equally.
fn seed<S: Service>(node: NodeId, local: &Local<S>, input: &InputOf<S>) -> u64 {
    let mut hasher = FxHasher::default();
    (node, local, input).hash(&mut hasher);
    hasher.finish()
}

/// Answers from a record, then with the first choice, and writes down what it answered.
struct Scripted<'a> {
    script: &'a Tosses,
    recorded: Tosses,
    asked: Vec<Asked>,
    read: bool,
    origin: Origin,
    ticks: u64,
    seed: u64,
}

impl<'a> Scripted<'a> {
    fn new(script: &'a Tosses, ticks: u64, seed: u64, origin: Origin) -> Self {
        Self {
            script,
            recorded: Tosses::default(),
            asked: Vec::new(),
            read: false,
            origin,
            ticks,
            seed,
        }
    }

    fn into_outcome<S: Service>(
        self,
        service: S,
        mut timers: Vec<S::Timer>,
        effects: Vec<Effect<S::Message, S::Timer>>,
        anonymous: bool,
    ) -> Outcome<S> {
        let mut network = Vec::new();
        let mut armed = Vec::new();
        for effect in effects {
            match effect {
                Effect::Arm { timer, after } => {
                    armed.push((timer.clone(), Some(after)));
                    timers.push(timer);
                }
                Effect::Cancel { timer } => {
                    timers.retain(|armed| *armed != timer);
                    armed.push((timer, None));
                }
                Effect::Send { .. } | Effect::Disconnect { .. } => network.push(effect),
            }
        }
        timers.sort_unstable();
        timers.dedup();
        let local = Local {
            service,
            timers,
            ticks: self.ticks,
            panic: None,
            down: false,
        };
        Outcome {
            local,
            effects: network,
            anonymous: anonymous && self.recorded.draws.is_empty(),
            tosses: self.recorded,
            timed: Timed {
                read: self.read,
                looked: false,
                asked: self.asked,
                armed,
            },
        }
    }
}

impl Chance for Scripted<'_> {
    fn choose(&mut self, of: u32) -> u32 {
        let scripted = self
            .script
            .picks
            .get(self.recorded.picks.len())
            .map_or(0, |&(_, picked)| picked);
        // A script recorded in another state may name a choice this one does not offer.
        let picked = scripted.min(of - 1);
        self.recorded.picks.push((of, picked));
        picked
    }

    fn random(&mut self) -> u64 {
        let index = self.recorded.draws.len();
        let draw = self
            .script
            .draws
            .get(index)
            .copied()
            .unwrap_or_else(|| mix(self.seed ^ mix(index as u64)));
        self.recorded.draws.push(draw);
        draw
    }

    fn now(&mut self) -> Stamp {
        self.read = true;
        Stamp::read_at(self.origin)
    }

    fn expired(&mut self, since: Stamp, after: Duration) -> bool {
        // Asked twice within one handler, the same comparison has one answer (B-27). Stamps that were read in a search
        // look alike, and may be different moments: whether two answers fit is seen when the path is laid out in time.
        if let Some(known) = self
            .asked
            .iter()
            .find(|known| known.after == after && known.since.is_surely(since))
        {
            return known.answer;
        }
        let pick = self.recorded.picks.len();
        let answer = self.choose(2) == 1;
        self.asked.push(Asked {
            since,
            after,
            answer,
            pick,
        });
        answer
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }
}

/// How far the state of splitmix64 moves with each number drawn.
pub(crate) const MIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a word over all bits (the finaliser of splitmix64).
pub fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(MIX_STEP);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Runs a handler, catching its panic without the usual report: in a search it is a finding, not an accident.
fn quietly(run: impl FnOnce()) -> Result<(), String> {
    in_silence(|| caught(run)).map_err(|Panicked(said)| said)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts in one of three ways, of which the second panics.
    #[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
    struct Fragile(u32);

    impl Service for Fragile {
        type Message = ();
        type Timer = ();
        type Call = ();
        type Setup = ();
        type Disk = ();

        fn start(cx: &mut Context<'_, Self>, disk: Option<()>) -> Self {
            let way = if disk.is_some() { cx.choose(3) } else { 0 };
            assert_ne!(way, 1, "this way leads nowhere");
            Self(way)
        }

        fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, (): ()) {}
        fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}
        fn on_call(&mut self, _: &mut Context<'_, Self>, (): ()) {}
        fn disk(&self) {}
    }

    #[test]
    fn a_restart_that_panics_keeps_the_choices_that_led_there() {
        let node = NodeId::new(0);
        let booted = boot::<Fragile>(node, &()).all.swap_remove(0).local;
        let outcomes = run_all(node, &(), &booted, &Input::Restart);
        assert!(!outcomes.truncated);
        let seen = outcomes.all.iter().map(|outcome| {
            let again = run(node, &(), &booted, &Input::Restart, &outcome.tosses);
            assert_eq!(again, *outcome);
            (outcome.local.service.0, outcome.local.panic.is_some())
        });
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [(0, false), (0, true), (2, false)]
        );
    }
}
