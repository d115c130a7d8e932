//! Spaces large enough for several blocks, for threads that share the work, and for ids beyond 16 bits.

use scry_engine::{Limits, Options, Property, Simulation, Strategy, View};

use crate::reference::{confirm, essence, run};
use crate::toys::Deed::{Add, Arm, Choose, Send, Set};
use crate::toys::{On, Rules, Toy, Word, boot, by, counter, never, node, rules};

const WORD: Word = Word::Datagram(1);

fn properties() -> Vec<Property<Toy>> {
    let value = |view: &View<'_, Toy>| Some(view.state.value);
    vec![
        Property::global("not all are at one", value, |all| {
            all.iter().any(|(_, value)| **value != 1)
        }),
        Property::pair("no neighbors are at one", value, |(a, left), (b, right)| {
            a.get() + 1 != b.get() || left + right != 2
        }),
        never(3),
    ]
}

#[track_caller]
fn any_number_of_threads_reports_the_same(start: &Simulation<Toy>, limits: Limits) -> u64 {
    let properties = properties();
    for strategy in [Strategy::EXHAUSTIVE, Strategy::CONSEQUENCE] {
        let with = |threads| {
            let options = Options {
                threads,
                limits,
                ..by(strategy)
            };
            run(start, &properties, options)
        };
        let one = with(1);
        confirm(start, &properties, &one);
        for threads in [2, 3] {
            assert_eq!(
                essence(&one),
                essence(&with(threads)),
                "{strategy} on {threads}"
            );
        }
        if strategy == Strategy::CONSEQUENCE {
            continue;
        }
        assert!(!one.violations.is_empty());
        assert!(
            one.states > 32_768,
            "{} states do not fill a block",
            one.states
        );
    }
    run(
        start,
        &[],
        Options {
            limits,
            ..by(Strategy::EXHAUSTIVE)
        },
    )
    .states
}

#[test]
fn i_15_threads_change_nothing_over_several_blocks_a_level() {
    // The widest level has 48 620 states.
    let start = boot([(); 18].map(|()| counter(1)));
    let states = any_number_of_threads_reports_the_same(&start, Limits::default());
    assert_eq!(states, 1 << 18);
    for depth in [8, 9] {
        let limits = Limits {
            depth: Some(depth),
            ..Limits::default()
        };
        any_number_of_threads_reports_the_same(&start, limits);
    }
    let limits = Limits {
        states: Some(150_001),
        ..Limits::default()
    };
    assert_eq!(
        any_number_of_threads_reports_the_same(&start, limits),
        150_001
    );
}

#[test]
fn i_15_threads_change_nothing_where_messages_fly() {
    let shouter = |me: u32| -> Rules {
        let others = [1, 2, 3].map(|further| Send(node((me + further) % 4), WORD));
        let [a, b, c] = others;
        rules()
            .on(On::Start, [Arm(0)])
            .on(On::Timer(0), [Add(10), a, b, c])
            .on(On::Word(WORD), [Add(1)])
    };
    let [a, b, c, d] = [0, 1, 2, 3].map(shouter);
    let start = boot([a, b, c, d, counter(1), counter(1), counter(1)]);
    any_number_of_threads_reports_the_same(&start, Limits::default());
}

#[test]
fn more_node_states_than_16_bits_hold_are_told_apart() {
    let wide = rules()
        .at(
            0,
            On::Call(0),
            [Set(1), Choose(10), Choose(10), Choose(10), Arm(0)],
        )
        .on(On::Timer(0), [Choose(10), Choose(7), Send(node(1), WORD)]);
    let other = rules()
        .on(On::Start, [Arm(0)])
        .on(On::Timer(0), [Add(1)])
        .on(On::Word(WORD), [Add(10)]);
    let start = boot([wide, other]);
    let property = never(199_996);
    for threads in [1, 2] {
        let options = Options {
            threads,
            ..by(Strategy::EXHAUSTIVE)
        };
        let report = run(&start, std::slice::from_ref(&property), options);
        confirm(&start, std::slice::from_ref(&property), &report);
        assert!(report.node_states > 1 << 16);
        // The other node's timer fired or not; and at the end the message is on its way or was read.
        assert_eq!(report.states, 2 * (1 + 1_000) + 2 * 2 * 70_000);
        assert!(report.complete);
        assert_eq!(report.violations[0].path.len(), 2);
    }
}
