//! A service written as a list of rules, so that each test shows its whole system in a few lines.

use std::time::Duration;

use scry_engine::{
    Context, Faults, NodeId, Property, Service, Simulation, Stamp, Strategy, System, Transport,
    View,
};
use serde::{Deserialize, Serialize};

use Deed::{Add, Answer, Arm, Cancel, Choose, Disconnect, Draw, Expired, Keep, Panic, Send};

/// A node that follows its rules.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Toy {
    pub(crate) value: u64,
    /// Survives resets.
    pub(crate) kept: u64,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Word {
    Datagram(u8),
    Stream(u8),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) enum On {
    Start,
    Restart,
    Word(Word),
    Timer(u8),
    Call(u8),
    Disconnect,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Deed {
    Set(u64),
    Add(u64),
    Keep(u64),
    Send(NodeId, Word),
    Answer(Word),
    Arm(u8),
    Cancel(u8),
    Disconnect(NodeId),
    /// Appends the pick to the value as a decimal digit.
    Choose(u32),
    /// Appends the answer to the value as a decimal digit.
    Expired(u64),
    Draw,
    Tick,
    Panic,
}

/// A node's rules: on what, with which value if that matters, what to do. The first that fits is followed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rules(Vec<(On, Option<u64>, Vec<Deed>)>);

impl Rules {
    pub(crate) fn on<const N: usize>(self, on: On, deeds: [Deed; N]) -> Self {
        self.rule(on, None, deeds)
    }

    pub(crate) fn at<const N: usize>(self, value: u64, on: On, deeds: [Deed; N]) -> Self {
        self.rule(on, Some(value), deeds)
    }

    fn rule<const N: usize>(mut self, on: On, value: Option<u64>, deeds: [Deed; N]) -> Self {
        self.0.push((on, value, deeds.to_vec()));
        self
    }

    fn deeds(&self, on: On, value: u64) -> &[Deed] {
        let fits = |rule: &&(On, Option<u64>, Vec<Deed>)| {
            rule.0 == on && rule.1.is_none_or(|wanted| wanted == value)
        };
        self.0.iter().find(fits).map_or(&[], |rule| &rule.2)
    }
}

impl Toy {
    fn follow(&mut self, cx: &mut Context<'_, Self>, on: On, from: Option<NodeId>) {
        for &deed in cx.setup().deeds(on, self.value) {
            match deed {
                Deed::Set(value) => self.value = value,
                Add(more) => self.value += more,
                Keep(value) => self.kept = value,
                Send(to, word) => cx.send(to, word),
                Answer(word) => cx.send(from.expect("somebody to answer"), word),
                Arm(timer) => cx.set_timer(timer, Duration::from_secs(1)),
                Cancel(timer) => cx.cancel_timer(timer),
                Disconnect(peer) => cx.disconnect(peer),
                Choose(of) => self.value = 10 * self.value + u64::from(cx.choose(of)),
                Expired(seconds) => {
                    let after = Duration::from_secs(seconds);
                    let expired = cx.expired(Stamp::default(), after);
                    self.value = 10 * self.value + u64::from(expired);
                }
                Draw => self.value = cx.random(),
                Deed::Tick => self.value = cx.tick(),
                Panic => panic!("told to"),
            }
        }
    }
}

impl Service for Toy {
    type Message = Word;
    type Timer = u8;
    type Call = u8;
    type Setup = Rules;
    type Disk = u64;

    fn start(cx: &mut Context<'_, Self>, disk: Option<u64>) -> Self {
        let mut toy = Self {
            value: 0,
            kept: disk.unwrap_or(0),
        };
        let on = disk.map_or(On::Start, |_| On::Restart);
        toy.follow(cx, on, None);
        toy
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, word: Word) {
        self.follow(cx, On::Word(word), Some(from));
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: u8) {
        self.follow(cx, On::Timer(timer), None);
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: u8) {
        self.follow(cx, On::Call(call), None);
    }

    fn on_disconnect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.follow(cx, On::Disconnect, Some(peer));
    }

    fn disk(&self) -> u64 {
        self.kept
    }

    fn calls(&self, _: NodeId, rules: &Rules) -> Vec<u8> {
        let mut calls: Vec<u8> = (0..4)
            .filter(|&call| !rules.deeds(On::Call(call), self.value).is_empty())
            .collect();
        calls.dedup();
        calls
    }

    fn transport(word: &Word) -> Transport {
        match word {
            Word::Datagram(_) => Transport::Datagram,
            Word::Stream(_) => Transport::Stream,
        }
    }
}

pub(crate) const fn node(number: u32) -> NodeId {
    NodeId::new(number)
}

pub(crate) fn rules() -> Rules {
    Rules::default()
}

/// Boots nodes 0, 1, 2 … with these rules.
pub(crate) fn boot<const N: usize>(rules: [Rules; N]) -> Simulation<Toy> {
    boot_with(Faults::NONE, rules)
}

pub(crate) fn boot_with<const N: usize>(faults: Faults, rules: [Rules; N]) -> Simulation<Toy> {
    let ids = (0..).map(node);
    Simulation::boot(ids.zip(rules).collect(), faults)
}

/// A system of nodes 0, 1, 2 … with these rules, for those that need a script.
pub(crate) fn system<const N: usize>(rules: [Rules; N]) -> System<Toy> {
    System::new((0..).map(node).zip(rules))
}

/// The property that no node ever has this value.
pub(crate) fn never(value: u64) -> Property<Toy> {
    Property::node(
        format!("no node has {value}"),
        move |view: &View<'_, Toy>| view.state.value != value,
    )
}

/// A node that counts its timer up to a limit.
pub(crate) fn counter(limit: u64) -> Rules {
    let armed = rules().on(On::Start, [Arm(0)]);
    (0..limit).fold(armed, |rules, value| {
        let again = value + 1 < limit;
        match again {
            true => rules.at(value, On::Timer(0), [Add(1), Arm(0)]),
            false => rules.at(value, On::Timer(0), [Add(1)]),
        }
    })
}

/// The strategies that leave nothing to chance.
pub(crate) const SYSTEMATIC: [Strategy; 3] = [
    Strategy::EXHAUSTIVE,
    Strategy::DEPTH_FIRST,
    Strategy::CONSEQUENCE,
];

pub(crate) fn by(strategy: Strategy) -> scry_engine::Options {
    scry_engine::Options {
        strategy,
        clock: scry_engine::timing::Clock::FREE,
        ..scry_engine::Options::default()
    }
}
