//! Services made of a table, that do little else than ask the time.

use std::time::Duration;

use proptest::prelude::*;
use scry::{Context, NodeId, Property, Service, Stamp, View};
use serde::{Deserialize, Serialize};

pub(crate) const SLOTS: usize = 2;
pub(crate) const LEVELS: u8 = 4;

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Timer {
    A,
    B,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) struct Word {
    pub(crate) tag: bool,
    pub(crate) stamp: Option<Stamp>,
}

/// What a handler does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Deed {
    Level(u8),
    Read(usize),
    Arm(Timer, u8),
    Cancel(Timer),
    /// Sends a word to the other node, with the stamp of a slot or without.
    Send(bool, Option<usize>),
    /// Keeps the stamp of the word that came.
    Keep(usize),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) enum On {
    Call,
    Timer(Timer),
    Word(bool),
}

/// At a level, on an event: a question, and what is done on either answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub(crate) level: u8,
    pub(crate) on: On,
    pub(crate) asks: Vec<(usize, u8)>,
    pub(crate) yes: Vec<Deed>,
    pub(crate) no: Vec<Deed>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) start: Vec<Deed>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) calls: u8,
    pub(crate) sends: u8,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) struct Timed {
    pub(crate) level: u8,
    pub(crate) slots: [Option<Stamp>; SLOTS],
    pub(crate) calls: u8,
    pub(crate) sends: u8,
}

impl Timed {
    fn perform(&mut self, cx: &mut Context<'_, Self>, deeds: &[Deed], came: Option<Stamp>) {
        for deed in deeds {
            match *deed {
                Deed::Level(level) => self.level = level,
                Deed::Read(slot) => self.slots[slot] = Some(cx.now()),
                Deed::Arm(timer, ms) => cx.set_timer(timer, Duration::from_millis(ms.into())),
                Deed::Cancel(timer) => cx.cancel_timer(timer),
                Deed::Send(tag, slot) => {
                    if self.sends > 0 {
                        self.sends -= 1;
                        let other = NodeId::new(1 - cx.me().get());
                        let stamp = slot.and_then(|slot| self.slots[slot]);
                        cx.send(other, Word { tag, stamp });
                    }
                }
                Deed::Keep(slot) => {
                    if came.is_some() {
                        self.slots[slot] = came;
                    }
                }
            }
        }
    }

    fn handle(&mut self, cx: &mut Context<'_, Self>, on: On, came: Option<Stamp>) {
        let setup = cx.setup();
        let fits = |rule: &&Rule| rule.level == self.level && rule.on == on;
        let Some(rule) = setup.rules.iter().find(fits) else {
            return;
        };
        let asks = rule.asks.iter();
        let answers: Vec<bool> = asks
            .filter_map(|&(slot, ms)| {
                let since = self.slots[slot]?;
                Some(cx.expired(since, Duration::from_millis(ms.into())))
            })
            .collect();
        let yes = answers.iter().all(|&answer| answer);
        let deeds = if yes { &rule.yes } else { &rule.no };
        self.perform(cx, deeds, came);
    }
}

impl Service for Timed {
    type Message = Word;
    type Timer = Timer;
    type Call = ();
    type Setup = Settings;
    type Disk = ();

    fn start(cx: &mut Context<'_, Self>, _: Option<()>) -> Self {
        let setup = cx.setup();
        let mut state = Self {
            level: 0,
            slots: [None; SLOTS],
            calls: setup.calls,
            sends: setup.sends,
        };
        state.perform(cx, &setup.start, None);
        state
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, word: Word) {
        self.handle(cx, On::Word(word.tag), word.stamp);
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        self.handle(cx, On::Timer(timer), None);
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        self.calls -= 1;
        self.handle(cx, On::Call, None);
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, _: &Settings) -> Vec<()> {
        vec![(); usize::from(self.calls > 0)]
    }
}

/// The properties that no node ever reaches a level.
pub(crate) fn properties() -> Vec<Property<Timed>> {
    let never = |level: u8| {
        let holds = move |view: &View<'_, Timed>| view.state.level != level;
        Property::node(format!("no node is at level {level}"), holds)
    };
    (1..LEVELS).map(never).collect()
}

fn deeds(most: usize) -> impl Strategy<Value = Vec<Deed>> {
    let timer = prop_oneof![Just(Timer::A), Just(Timer::B)];
    let slot = 0..SLOTS;
    let deed = prop_oneof![
        3 => (1..LEVELS).prop_map(Deed::Level),
        2 => slot.clone().prop_map(Deed::Read),
        3 => (timer.clone(), 0_u8..5).prop_map(|(timer, ms)| Deed::Arm(timer, ms)),
        1 => timer.prop_map(Deed::Cancel),
        2 => (any::<bool>(), proptest::option::of(slot.clone())).prop_map(|(tag, slot)| Deed::Send(tag, slot)),
        1 => slot.prop_map(Deed::Keep),
    ];
    proptest::collection::vec(deed, 0..=most)
}

/// Generates the settings of a node.
pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    let on = prop_oneof![
        Just(On::Call),
        Just(On::Timer(Timer::A)),
        Just(On::Timer(Timer::B)),
        any::<bool>().prop_map(On::Word),
    ];
    let asks = proptest::collection::vec((0..SLOTS, 0_u8..5), 0..=2);
    let rule =
        (0..LEVELS, on, asks, deeds(3), deeds(2)).prop_map(|(level, on, asks, yes, no)| Rule {
            level,
            on,
            asks,
            yes,
            no,
        });
    (
        (deeds(2), 1_u8..5, any::<bool>()),
        proptest::collection::vec(rule, 4..12),
        0_u8..3,
        0_u8..3,
    )
        .prop_map(|((mut start, ms, timed), rules, calls, sends)| {
            // A service that does not ask the time is no test.
            if timed {
                start.extend([Deed::Read(0), Deed::Arm(Timer::A, ms)]);
            }
            Settings {
                start,
                rules,
                calls,
                sends,
            }
        })
}
