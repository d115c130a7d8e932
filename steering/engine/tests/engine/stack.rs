//! Two services stacked on one node: each gets its own messages and timers.

use std::collections::BTreeSet;

use scry_engine::{Context, NodeId, Property, Service, Simulation, Strategy, System, Transport};
use serde::{Deserialize, Serialize};

use crate::reference::{confirm, explore, run};
use crate::toys::Deed::{Add, Arm, Choose, Send, Set};
use crate::toys::{On, Rules, Toy, Word, by, node, rules};

/// A toy above another.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
struct Stack {
    upper: Toy,
    lower: Toy,
}

/// Which of the two something belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
enum Of<T> {
    Upper(T),
    Lower(T),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Setup {
    upper: Rules,
    lower: Rules,
}

impl Stack {
    fn up<R>(cx: &mut Context<'_, Self>, run: impl FnOnce(&mut Context<'_, Toy>) -> R) -> R {
        cx.within(&cx.setup().upper, Of::Upper, Of::Upper, run)
    }

    fn down<R>(cx: &mut Context<'_, Self>, run: impl FnOnce(&mut Context<'_, Toy>) -> R) -> R {
        cx.within(&cx.setup().lower, Of::Lower, Of::Lower, run)
    }
}

impl Service for Stack {
    type Message = Of<Word>;
    type Timer = Of<u8>;
    type Call = Of<u8>;
    type Setup = Setup;
    type Disk = (u64, u64);

    fn start(cx: &mut Context<'_, Self>, disk: Option<(u64, u64)>) -> Self {
        Self {
            upper: Self::up(cx, |cx| Toy::start(cx, disk.map(|disk| disk.0))),
            lower: Self::down(cx, |cx| Toy::start(cx, disk.map(|disk| disk.1))),
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Of<Word>) {
        match message {
            Of::Upper(word) => Self::up(cx, |cx| self.upper.on_message(cx, from, word)),
            Of::Lower(word) => Self::down(cx, |cx| self.lower.on_message(cx, from, word)),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Of<u8>) {
        match timer {
            Of::Upper(timer) => Self::up(cx, |cx| self.upper.on_timer(cx, timer)),
            Of::Lower(timer) => Self::down(cx, |cx| self.lower.on_timer(cx, timer)),
        }
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: Of<u8>) {
        match call {
            Of::Upper(call) => Self::up(cx, |cx| self.upper.on_call(cx, call)),
            Of::Lower(call) => Self::down(cx, |cx| self.lower.on_call(cx, call)),
        }
    }

    fn disk(&self) -> (u64, u64) {
        (self.upper.disk(), self.lower.disk())
    }

    fn transport(message: &Of<Word>) -> Transport {
        let (Of::Upper(word) | Of::Lower(word)) = message;
        Toy::transport(word)
    }
}

#[test]
fn a_8_a_81_stacked_services_get_their_own_messages_and_timers() {
    let word = Word::Datagram(1);
    // Both layers know the same timer and the same word, and make different things of them.
    let upper = rules()
        .on(On::Start, [Arm(0)])
        .on(On::Timer(0), [Add(1), Choose(2), Send(node(1), word)])
        .on(On::Word(word), [Add(100)]);
    let lower = rules()
        .on(On::Timer(0), [Set(7)])
        .on(On::Word(word), [Add(5), Arm(0)]);
    let setup = Setup { upper, lower };
    let system = System::<Stack>::new([0, 1].map(|id| (node(id), setup.clone())));
    let (start, _) = system.start().expect("there is no script");
    let values = |state: &Simulation<Stack>| {
        let stacks = state.nodes().values().map(|node| &node.local.service);
        stacks
            .map(|stack| (stack.upper.value, stack.lower.value))
            .collect::<Vec<_>>()
    };
    let reference = explore(&start, 10_000);
    let uppers: BTreeSet<u64> = reference
        .states
        .keys()
        .map(|state| values(state)[0].0)
        .collect();
    assert_eq!(
        uppers,
        BTreeSet::from([0, 10, 11]),
        "nested choices are explored"
    );
    let touched = reference
        .states
        .keys()
        .any(|state| values(state).iter().any(|it| it.1 != 0));
    assert!(
        !touched,
        "what is for the upper layer never reaches the lower"
    );

    let property = Property::node("nobody hears", |view: &scry_engine::View<'_, Stack>| {
        view.state.upper.value < 100
    });
    let report = run(
        &start,
        std::slice::from_ref(&property),
        by(Strategy::EXHAUSTIVE),
    );
    confirm(&start, std::slice::from_ref(&property), &report);
    assert_eq!(report.states, reference.states.len() as u64);
    assert_eq!(report.violations[0].path.len(), 2);
}
