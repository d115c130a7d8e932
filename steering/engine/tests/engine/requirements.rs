//! The requirements on states, searches and handlers, each by its id.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use scry_engine::explore::{Search, Stop};
use scry_engine::interned::{PANIC_PROPERTY, World};
use scry_engine::model::Event;
use scry_engine::{
    Chance, Context, Effect, Faults, Limits, NodeId, Options, Property, Service, Simulation, Stamp,
    Strategy, System,
};

use crate::reference::{confirm, essence, explore, replay, run};
use crate::toys::Deed::{Add, Arm, Cancel, Choose, Draw, Expired, Panic, Send, Set, Tick};
use crate::toys::{
    On, Rules, SYSTEMATIC, Toy, Word, boot, boot_with, by, counter, never, node, rules,
};

const WORD: Word = Word::Datagram(1);
const BOTH: [Strategy; 2] = [Strategy::EXHAUSTIVE, Strategy::CONSEQUENCE];

/// The values node 0 has in the states that can be reached.
fn values_of_node_0(start: &Simulation<Toy>) -> BTreeSet<u64> {
    let reference = explore(start, 10_000);
    let report = run(start, &[], by(Strategy::EXHAUSTIVE));
    assert_eq!(report.states, reference.states.len() as u64);
    let values = reference.states.keys();
    values
        .map(|state| state.nodes()[&node(0)].local.service.value)
        .collect()
}

#[test]
fn a_1_a_state_is_its_nodes_and_what_is_on_its_way() {
    let talks = rules().at(0, On::Call(0), [Set(1), Send(node(1), WORD)]);
    let silent = rules().at(0, On::Call(0), [Set(1)]);
    let after_call = |rules: Rules| {
        let start = boot([rules, Rules::default()]);
        start.successors().remove(0).1
    };
    let (with, without) = (after_call(talks), after_call(silent));
    assert_eq!(with.nodes()[&node(0)], without.nodes()[&node(0)]);
    assert_ne!(with, without);
    let hasher = RandomState::new();
    assert_ne!(hasher.hash_one(&with), hasher.hash_one(&without));
    for state in [with, without] {
        let (world, words) = World::of(&state, Vec::new()).expect("there are no faults");
        assert_eq!(world.decode(&words), state);
    }
}

#[test]
fn a_2_an_armed_timer_and_a_possible_call_are_part_of_a_state() {
    let armed = boot([rules().on(On::Start, [Arm(0)]).on(On::Timer(0), [Set(1)])]);
    let unarmed = boot([rules().on(On::Timer(0), [Set(1)])]);
    assert_ne!(armed, unarmed);
    let hasher = RandomState::new();
    assert_ne!(hasher.hash_one(&armed), hasher.hash_one(&unarmed));
    assert!(armed.enabled(node(0)).contains(&Event::Timer(0)));
    assert!(!unarmed.enabled(node(0)).contains(&Event::Timer(0)));

    let callable = boot([rules().at(0, On::Call(2), [Set(1)])]);
    assert!(callable.enabled(node(0)).contains(&Event::Call(2)));
    let called = callable.successors().remove(0).1;
    assert!(!called.enabled(node(0)).contains(&Event::Call(2)));
}

#[test]
fn a_6_two_equal_datagrams_can_both_arrive() {
    let twice = rules().at(
        0,
        On::Call(0),
        [Set(1), Send(node(1), WORD), Send(node(1), WORD)],
    );
    let start = boot([twice, rules().on(On::Word(WORD), [Add(1)])]);
    let report = run(&start, &[never(2)], by(Strategy::EXHAUSTIVE));
    // Before the call, and with two, one and none on their way; values 1 at the caller and 0, 1, 2 at the other.
    assert_eq!(report.states, 4);
    assert_eq!(report.violations[0].path.len(), 3);
}

#[test]
fn a_10_every_state_is_expanded_once() {
    // In a cube every state but the first is reached in several ways.
    let start = boot([(); 10].map(|()| counter(1)));
    let report = run(&start, &[], by(Strategy::EXHAUSTIVE));
    assert_eq!(report.states, 1 << 10);
    assert_eq!(report.transitions, 10 << 9);
}

#[test]
fn a_12_both_of_two_violations_are_reported_in_one_run() {
    let start = boot([counter(3), rules().at(0, On::Call(0), [Set(7)])]);
    for strategy in SYSTEMATIC {
        let report = run(&start, &[never(3), never(7)], by(strategy));
        let found: BTreeSet<_> = report.violations.iter().map(|it| &*it.property).collect();
        assert_eq!(found, BTreeSet::from(["no node has 3", "no node has 7"]));
        assert_eq!(
            report.states,
            if strategy == Strategy::CONSEQUENCE {
                5
            } else {
                8
            }
        );
        assert_eq!(report.stop, Stop::Exhausted);
    }
}

#[test]
fn a_13_a_67_a_path_of_ten_steps_leads_to_the_bad_state() {
    let start = boot([counter(6), counter(5)]);
    let properties = [Property::global(
        "not both at the end",
        |view: &scry_engine::View<'_, Toy>| Some(view.state.value),
        |all| all.iter().map(|(_, value)| **value).sum::<u64>() < 10,
    )];
    for strategy in [Strategy::EXHAUSTIVE, Strategy::DEPTH_FIRST] {
        let report = run(&start, &properties, by(strategy));
        confirm(&start, &properties, &report);
        let [violation] = report.violations.as_slice() else {
            panic!("one violation, not {:?}", report.violations);
        };
        assert_eq!(violation.path.len(), 10);
        assert_eq!(replay(&start, &violation.path), violation.state);
    }
}

#[test]
fn a_59_internal_actions_are_tried_once_per_node_and_local_state() {
    let start = boot([(); 6].map(|()| counter(4)));
    let all = run(&start, &[], by(Strategy::EXHAUSTIVE));
    assert_eq!(
        (all.states, all.transitions),
        (5_u64.pow(6), 6 * 4 * 5_u64.pow(5))
    );
    let once = run(&start, &[], by(Strategy::CONSEQUENCE));
    assert_eq!(once.transitions, 6 * 4);
}

#[test]
fn a_60_two_equal_nodes_both_act() {
    let start = boot([counter(1), counter(1)]);
    let report = run(&start, &[never(1)], by(Strategy::CONSEQUENCE));
    let nodes: BTreeSet<_> = report.violations.iter().flat_map(|it| &it.nodes).collect();
    assert_eq!(nodes, BTreeSet::from([&node(0), &node(1)]));
}

#[test]
fn a_62_consequence_explores_every_step_of_the_start_state() {
    let noisy = || counter(2).at(0, On::Call(0), [Set(9), Send(node(1), WORD)]);
    let faults = Faults {
        resets: 1,
        losses: 1,
        ..Faults::NONE
    };
    let start = boot_with(faults, [noisy(), noisy(), noisy()]);
    let near = |strategy| Options {
        limits: Limits {
            depth: Some(1),
            ..Limits::default()
        },
        ..by(strategy)
    };
    let [all, some] = BOTH.map(|strategy| run(&start, &[], near(strategy)));
    assert_eq!(
        (all.states, all.transitions),
        (some.states, some.transitions)
    );
    assert_eq!(all.transitions, start.successors().len() as u64);
}

#[test]
fn a_63_a_chain_of_twelve_consequences_is_followed_through_noise() {
    let (there, back) = (Word::Datagram(1), Word::Stream(2));
    let first = rules()
        .on(On::Start, [Arm(0)])
        .on(On::Timer(0), [Add(1), Send(node(1), there)])
        .on(On::Word(back), [Add(100), Arm(0)]);
    let second = rules()
        .on(On::Word(there), [Add(1), Arm(0)])
        .on(On::Timer(0), [Send(node(0), back)]);
    let noise = || counter(3);
    let start = boot([first, second, noise(), noise(), noise()]);
    let options = Options {
        limits: Limits {
            depth: Some(12),
            ..Limits::default()
        },
        ..by(Strategy::CONSEQUENCE)
    };
    let report = run(&start, &[never(303)], options);
    confirm(&start, &[never(303)], &report);
    let path = &report.violations[0].path;
    assert_eq!(path.len(), 12);
    assert!(path.iter().all(|step| step.node < node(2)));
    let exhaustive = run(
        &start,
        &[],
        Options {
            strategy: Strategy::EXHAUSTIVE,
            ..options
        },
    );
    assert!(report.states < exhaustive.states);
}

/// Checks that value 9 is found with a fault allowance, in a path that ends as told, and not without.
#[track_caller]
fn exposes(
    faults: Faults,
    nodes: [Rules; 2],
    steps: usize,
    last: fn(&Event<Word, u8, u8>) -> bool,
) {
    let start = boot_with(faults, nodes.clone());
    for strategy in SYSTEMATIC {
        let report = run(&start, &[never(9)], by(strategy));
        confirm(&start, &[never(9)], &report);
        let path = &report.violations.first().expect("the bug is found").path;
        assert_eq!(path.len(), steps);
        assert!(last(&path[steps - 1].event), "{path:?}");
        if faults != Faults::NONE {
            let report = run(&boot(nodes.clone()), &[never(9)], by(strategy));
            assert!(report.complete || strategy == Strategy::CONSEQUENCE);
            assert!(report.violations.is_empty(), "the fault alone exposes it");
        }
    }
}

#[test]
fn a_68_each_kind_of_event_alone_exposes_a_bug() {
    let none = Faults::NONE;
    let sends = |word| rules().on(On::Start, [Send(node(1), word)]);
    let bad = [Set(9)];
    let receives = rules().on(On::Word(WORD), bad);
    exposes(none, [sends(WORD), receives], 1, |event| {
        matches!(event, Event::Deliver { .. })
    });
    let word = Word::Stream(1);
    let receives = rules().on(On::Word(word), bad);
    exposes(none, [sends(word), receives], 1, |event| {
        matches!(event, Event::Receive { .. })
    });
    let fires = rules().on(On::Start, [Arm(0)]).on(On::Timer(0), bad);
    exposes(none, [rules(), fires], 1, |event| {
        matches!(event, Event::Timer(0))
    });
    let called = rules().at(0, On::Call(0), bad);
    exposes(none, [rules(), called], 1, |event| {
        matches!(event, Event::Call(0))
    });
    // A datagram that does not arrive in time is a lost one.
    let waits = rules()
        .on(On::Start, [Arm(0)])
        .on(On::Word(WORD), [Cancel(0)])
        .on(On::Timer(0), bad);
    exposes(none, [sends(WORD), waits], 1, |event| {
        matches!(event, Event::Timer(0))
    });

    let restarts = rules().on(On::Restart, bad);
    let once = Faults { resets: 1, ..none };
    exposes(once, [rules(), restarts.clone()], 1, |event| {
        *event == Event::Reset { notice: true }
    });
    let once = Faults {
        silent_resets: 1,
        ..none
    };
    exposes(once, [rules(), restarts], 1, |event| {
        *event == Event::Reset { notice: false }
    });
    let notices = sends(word).on(On::Disconnect, bad);
    let once = Faults { breaks: 1, ..none };
    exposes(once, [notices, rules()], 1, |event| {
        matches!(event, Event::Break { .. })
    });
    let counts = rules()
        .at(0, On::Word(WORD), [Set(1)])
        .at(1, On::Word(WORD), bad);
    let once = Faults {
        duplicates: 1,
        ..none
    };
    exposes(once, [sends(WORD), counts], 3, |event| {
        matches!(event, Event::Deliver { .. })
    });
}

#[test]
fn a_73_each_budget_is_its_own_and_is_spent() {
    let restarts = rules()
        .on(On::Restart, [Set(9)])
        .at(9, On::Call(0), [Set(0)]);
    let resets = |count| {
        let faults = Faults {
            resets: count,
            ..Faults::NONE
        };
        run(
            &boot_with(faults, [restarts.clone()]),
            &[],
            by(Strategy::EXHAUSTIVE),
        )
        .states
    };
    // Two values, and how many resets are left; with none spent only the first value.
    assert_eq!([0, 1, 2, 3].map(resets), [1, 3, 5, 7]);
    let faults = Faults {
        silent_resets: 1,
        breaks: 3,
        losses: 3,
        duplicates: 3,
        ..Faults::NONE
    };
    let report = run(
        &boot_with(faults, [restarts.clone()]),
        &[],
        by(Strategy::EXHAUSTIVE),
    );
    assert_eq!(report.states, 3);
}

#[test]
fn a_74_draws_depend_on_what_a_handler_sees_and_on_nothing_else() {
    let draws = || boot([rules().at(0, On::Call(0), [Draw]), counter(2)]);
    let drawn = values_of_node_0(&draws());
    assert_eq!(drawn.len(), 2, "one draw, whatever the other node does");
    assert_eq!(drawn, values_of_node_0(&draws()));
    let value = *drawn.last().expect("there are two");
    let report = run(&draws(), &[never(value)], by(Strategy::EXHAUSTIVE));
    assert_eq!(report.violations[0].path[0].tosses.draws, [value]);
}

#[test]
fn a_75_reports_speak_of_live_ids() {
    let (low, high) = (node(7), node(4_000_000_000));
    let start: Simulation<Toy> = System::new([
        (high, rules().on(On::Word(WORD), [Set(9)])),
        (low, rules().on(On::Start, [Send(high, WORD)])),
    ])
    .start()
    .expect("there is no script")
    .0;
    let report = run(&start, &[never(9)], by(Strategy::CONSEQUENCE));
    let violation = &report.violations[0];
    assert_eq!(violation.nodes, [high]);
    let step = &violation.path[0];
    assert_eq!(step.node, high);
    assert_eq!(
        step.event,
        Event::Deliver {
            from: low,
            message: WORD
        }
    );
}

#[test]
fn a_76_a_77_what_is_sent_to_nodes_that_are_not_there_vanishes() {
    let absent = node(99);
    let shouts = rules()
        .at(
            0,
            On::Call(0),
            [Set(1), Send(absent, WORD), Send(absent, Word::Stream(1))],
        )
        .at(0, On::Call(1), [Set(1)])
        .at(1, On::Call(2), [Set(0), Send(absent, WORD)]);
    let start = boot([shouts, rules()]);
    let report = run(&start, &[], by(Strategy::EXHAUSTIVE));
    assert_eq!((report.states, report.transitions), (2, 3));
    let [(_, shouted), (_, silent)] = <[_; 2]>::try_from(start.successors()).expect("two calls");
    assert_eq!(shouted, silent);
}

#[test]
fn b_10_every_combination_of_choices_is_an_outcome() {
    let start = boot([rules().at(0, On::Call(0), [Set(1), Choose(2), Choose(3)])]);
    let values = values_of_node_0(&start);
    assert_eq!(values, BTreeSet::from([0, 100, 101, 102, 110, 111, 112]));
}

#[test]
fn b_24_both_answers_of_a_clock_are_explored() {
    let start = boot([rules().at(0, On::Call(0), [Set(1), Expired(5)])]);
    assert_eq!(values_of_node_0(&start), BTreeSet::from([0, 10, 11]));
}

#[test]
fn b_25_ticks_rise_over_resets_and_never_branch() {
    let faults = Faults {
        resets: 1,
        ..Faults::NONE
    };
    let ticks = rules().at(0, On::Call(0), [Tick]);
    let start = boot_with(faults, [ticks]);
    // Called, reset and called again, or called only; after the reset the number is another.
    assert_eq!(values_of_node_0(&start), BTreeSet::from([0, 1, 2]));
    assert!(
        start
            .successors()
            .iter()
            .all(|(step, _)| step.tosses.picks.is_empty())
    );
}

#[test]
fn b_27_a_comparison_asked_twice_has_one_answer() {
    let asks = [Set(1), Expired(5), Expired(5), Expired(6)];
    let start = boot([rules().at(0, On::Call(0), asks)]);
    assert_eq!(
        values_of_node_0(&start),
        BTreeSet::from([0, 1000, 1001, 1110, 1111])
    );
}

#[test]
fn a_panic_is_a_violation_and_the_search_goes_on() {
    let fragile = rules()
        .at(0, On::Call(0), [Set(1)])
        .at(1, On::Call(0), [Set(5), Panic]);
    let start = boot([fragile, counter(2)]);
    let report = run(&start, &[never(5)], by(Strategy::EXHAUSTIVE));
    confirm(&start, &[never(5)], &report);
    let [violation] = report.violations.as_slice() else {
        panic!("what a handler did before it panicked is not seen");
    };
    assert_eq!(violation.property, PANIC_PROPERTY);
    assert_eq!(violation.nodes, [node(0)]);
    assert_eq!(violation.explanation.as_deref(), Some("n0: told to"));
    assert_eq!(violation.path.len(), 2);
    assert_eq!(report.states, 3 * 3);
    assert!(report.complete);
}

#[test]
fn a_panic_is_explained_by_the_node_it_is_about() {
    let fragile = || rules().at(0, On::Call(0), [Panic]);
    // Depth-first, the second node panics first in a state in which the first has panicked too.
    let limits = Limits {
        states: Some(3),
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..by(Strategy::DEPTH_FIRST)
    };
    let report = run(&boot([fragile(), fragile()]), &[], options);
    let said = report.violations.iter().map(|it| it.explanation.as_deref());
    assert_eq!(
        said.collect::<Vec<_>>(),
        [Some("n0: told to"), Some("n1: told to")]
    );
}

#[test]
fn too_many_outcomes_are_cut_off_and_the_report_says_so() {
    let wide = [Set(1), Choose(10), Choose(10), Choose(10), Choose(10)];
    let report = run(
        &boot([rules().at(0, On::Call(0), wide)]),
        &[],
        by(Strategy::EXHAUSTIVE),
    );
    assert_eq!(
        report.states,
        1 + scry_engine::model::handler::OUTCOMES_MAX as u64
    );
    assert_eq!(report.stop, Stop::Exhausted);
    assert!(!report.complete);
}

#[test]
fn two_searches_agree_on_the_fingerprints_of_states_though_not_on_their_ids() {
    let noisy = || counter(3).at(1, On::Call(0), [Add(10), Send(node(1), WORD)]);
    let start = boot([noisy(), noisy(), noisy().on(On::Word(WORD), [Choose(2)])]);
    // Each state waits once while a search goes on step by step: together they are all states it visits.
    let seen = |strategy| {
        let mut search = Search::new(&start, vec![never(1_000)], by(strategy)).expect("it starts");
        let mut all: BTreeSet<u64> = BTreeSet::new();
        let mut states = HashSet::new();
        loop {
            all.extend(search.frontier_fingerprints());
            states.extend(search.frontier());
            if search.advance(1).is_some() {
                return (all, states.len());
            }
        }
    };
    let (exhaustive, states) = seen(Strategy::EXHAUSTIVE);
    // As many fingerprints as states.
    assert_eq!(exhaustive.len(), states);
    // Depth first the ids are given in another order.
    assert!(seen(Strategy::DEPTH_FIRST).0 == exhaustive);
}

#[test]
fn the_same_search_twice_reports_the_same() {
    let noisy = || counter(3).at(1, On::Call(0), [Add(10), Send(node(1), WORD)]);
    let start = boot([noisy(), noisy(), noisy().on(On::Word(WORD), [Choose(2)])]);
    let properties = [never(3), never(11)];
    for strategy in Strategy::all() {
        let reports = [(); 2].map(|()| essence(&run(&start, &properties, by(strategy))));
        assert_eq!(reports[0], reports[1]);
    }
    let distinct: HashSet<_> = start
        .successors()
        .into_iter()
        .map(|(_, state)| state)
        .collect();
    assert_eq!(distinct.len(), 3);
}

#[test]
fn a_portfolio_sees_two_that_act_by_themselves_and_consequence_does_not() {
    // Each has a timer of its own, which fires once: consequence prediction lets one fire only while the other has not.
    let start = boot([counter(1), counter(1)]);
    let not_both = [Property::<Toy>::pair(
        "not both",
        |view| (view.state.value == 1).then_some(()),
        |_, _| false,
    )];
    let alone = run(&start, &not_both, by(Strategy::CONSEQUENCE));
    assert_eq!(alone.violations.len(), 0);
    let report = run(&start, &not_both, by(Strategy::PORTFOLIO));
    assert_eq!(report.violations.len(), 1);
    assert_eq!(report.violations[0].path.len(), 2);
    assert!(report.complete);
}

#[test]
fn a_portfolio_has_covered_when_consequence_has_nothing_left() {
    let start = boot([counter(40), counter(40), counter(40)]);
    let mut search = Search::new(&start, Vec::new(), by(Strategy::PORTFOLIO)).expect("it starts");
    assert!(!search.has_covered());
    let mut covered_early = false;
    while search.advance(1).is_none() {
        covered_early |= search.has_covered();
    }
    assert!(covered_early, "it goes on after consequence has ended");
    // Local model checking sees that nothing can be wrong without putting the nodes together.
    let report = search.finish();
    assert!(report.complete);
    assert_eq!(report.states, 3 * 41);
}

/// Answers every question with what a test wrote down.
struct ByHand;

impl Chance for ByHand {
    fn choose(&mut self, of: u32) -> u32 {
        of - 1
    }

    fn random(&mut self) -> u64 {
        42
    }

    fn now(&mut self) -> Stamp {
        Stamp::from_millis(5)
    }

    fn expired(&mut self, _: Stamp, after: Duration) -> bool {
        after < Duration::from_secs(6)
    }

    fn tick(&mut self) -> u64 {
        17
    }
}

#[test]
fn a_handler_runs_without_any_runtime() {
    let setup = rules()
        .on(
            On::Word(WORD),
            [Add(1), Send(node(9), Word::Stream(3)), Arm(1)],
        )
        .on(On::Timer(1), [Choose(4), Expired(5), Expired(6), Cancel(1)]);
    let mut effects = Vec::new();
    let mut chance = ByHand;
    let mut cx = Context::new(node(3), &setup, &mut chance, &mut effects);
    let mut toy = Toy::start(&mut cx, None);
    toy.on_message(&mut cx, NodeId::new(8), WORD);
    toy.on_timer(&mut cx, 1);
    assert_eq!(toy.value, 1310);
    let expected = [
        Effect::Send {
            to: node(9),
            message: Word::Stream(3),
        },
        Effect::Arm {
            timer: 1,
            after: Duration::from_secs(1),
        },
        Effect::Cancel { timer: 1 },
    ];
    assert_eq!(effects, expected);
}
