//! Local model checking: it finds what an exhaustive search finds, no more and, where it has an answer, no less.

mod paxos;
mod wild;

use std::collections::BTreeSet;

use proptest::prelude::*;
use scry_engine::explore::{Settings, Stop};
use scry_engine::timing::Clock;
use scry_engine::{Limits, NodeId, Options, Property, Report, Service, Simulation, Strategy, View};

use crate::reference::{confirm, essence, explore, lengths, run};
use crate::table::{ANYTHING, Rule, Table, Tastes, rules, starts};
use crate::toys::{Deed, On, Toy, Word, boot, node, rules as toy_rules};

/// How many states a generated system may have before it is cut off at a depth.
const STATES_MAX: usize = 1_200;

/// How many local states may be explored. With connections there is often no end to them: each one that is opened is another.
const LOCAL_MAX: u64 = 2_000;

fn properties(rules: &[Vec<Rule>]) -> Vec<Property<Table>> {
    let numbered = rules.iter().flatten().enumerate();
    numbered.map(|(name, rule)| rule.property(name)).collect()
}

/// Many candidates for one system, so that many are rejected.
fn many_rules() -> impl proptest::strategy::Strategy<Value = Vec<Vec<Rule>>> {
    prop::collection::vec(rules(), 4)
}

fn local(depth: Option<u32>, settings: &[(&'static str, u64)]) -> Options {
    Options {
        strategy: Strategy::LOCAL,
        limits: Limits {
            depth,
            states: Some(LOCAL_MAX),
            ..Limits::default()
        },
        clock: Clock::FREE,
        settings: Settings::of(settings),
        ..Options::default()
    }
}

/// Returns what a strategy counted.
pub(crate) fn tally<S: Service>(report: &Report<S>, name: &str) -> u64 {
    let found = report.tallies.iter().find(|(known, _)| *known == name);
    found.expect("it is counted").1
}

fn found<S: Service>(report: &Report<S>) -> BTreeSet<(String, Vec<NodeId>)> {
    lengths(report).into_keys().collect()
}

/// Holds what `local` finds within a bound against the whole states within it.
fn agrees(
    start: &Simulation<Table>,
    rules: &[Vec<Rule>],
    settings: &[(&'static str, u64)],
) -> Result<(), TestCaseError> {
    let properties = properties(rules);
    let reference = explore(start, STATES_MAX);
    let report = run(start, &properties, local(reference.bound, settings));
    confirm(start, &properties, &report);
    let real: BTreeSet<_> = reference.findings(&properties).into_keys().collect();
    let found = found(&report);
    prop_assert!(found.is_subset(&real), "{:?} beside {:?}", found, real);
    let unknown = tally(&report, "questions without an answer");
    if unknown == 0 && report.stop != Stop::States {
        prop_assert_eq!(found, real);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn e_9_local_finds_what_there_is_with_datagrams(
        start in starts(Tastes { streams: false, faults: false, ..ANYTHING }),
        rules in many_rules(),
    ) {
        agrees(&start, &rules, &[])?;
    }

    #[test]
    fn e_9_local_finds_what_there_is_with_faults(
        start in starts(Tastes { streams: false, ..ANYTHING }),
        rules in many_rules(),
    ) {
        agrees(&start, &rules, &[])?;
    }

    #[test]
    fn e_37_local_finds_what_there_is_with_connections(
        start in starts(ANYTHING),
        rules in many_rules(),
    ) {
        agrees(&start, &rules, &[])?;
    }

    #[test]
    fn e_16_the_general_version_finds_the_same(
        start in starts(Tastes { nodes_max: 2, streams: false, ticks: false, ..ANYTHING }),
        rules in rules(),
    ) {
        agrees(&start, &[rules], &[("general", 1), ("visits", 300)])?;
    }

    /// Without a bound, local graphs are finite where no handler counts, and the system's states need not be.
    #[test]
    fn e_9_local_decides_what_can_ever_happen(
        start in starts(Tastes { nodes_max: 3, streams: false, ticks: false, ..ANYTHING }),
        rules in many_rules(),
    ) {
        let properties = properties(&rules);
        let reference = explore(&start, 4 * STATES_MAX);
        let report = run(&start, &properties, local(None, &[("visits", 2_000)]));
        confirm(&start, &properties, &report);
        let real: BTreeSet<_> = reference.findings(&properties).into_keys().collect();
        let found = found(&report);
        let unknown = tally(&report, "questions without an answer");
        if unknown == 0 {
            prop_assert!(found.is_superset(&real), "{:?} beside {:?}", found, real);
        }
        if reference.bound.is_none() {
            prop_assert!(found.is_subset(&real), "{:?} beside {:?}", found, real);
        }
        prop_assert_eq!(report.stop, Stop::Exhausted);
        prop_assert_eq!(report.complete, unknown == 0);
    }

    #[test]
    fn e_28_with_the_shortcuts_of_the_paper_everything_still_replays(
        start in starts(ANYTHING),
        rules in many_rules(),
    ) {
        let properties = properties(&rules);
        let reference = explore(&start, STATES_MAX);
        let report = run(&start, &properties, local(reference.bound, &[("shortcuts", 1)]));
        confirm(&start, &properties, &report);
        let real: BTreeSet<_> = reference.findings(&properties).into_keys().collect();
        prop_assert!(found(&report).is_subset(&real));
        prop_assert!(!report.complete);
    }

    #[test]
    fn how_often_it_is_looked_at_makes_no_difference(
        start in starts(ANYTHING),
        rules in many_rules(),
        slice in 1_u64..500,
    ) {
        let properties = properties(&rules);
        let options = local(Some(6), &[]);
        let report = run(&start, &properties, options);
        let mut sliced = scry_engine::Search::new(&start, properties, options).expect("these options go together");
        while sliced.advance(slice).is_none() {}
        prop_assert_eq!(essence(&report), essence(&sliced.finish()));
    }
}

/// Five nodes in a tree: the first tells its children, one of these tells its own, and the last of all keeps it.
fn primer() -> Simulation<Toy> {
    let word = Word::Datagram(0);
    boot([
        toy_rules().at(
            0,
            On::Call(0),
            [
                Deed::Set(1),
                Deed::Send(node(1), word),
                Deed::Send(node(2), word),
            ],
        ),
        toy_rules().on(
            On::Word(word),
            [Deed::Send(node(3), word), Deed::Send(node(4), word)],
        ),
        toy_rules(),
        toy_rules(),
        toy_rules().on(On::Word(word), [Deed::Set(2)]),
    ])
}

/// The property that nodes never have exactly these values.
fn never_all<const N: usize>(name: &str, values: [u64; N]) -> Property<Toy> {
    Property::global(
        name,
        |view: &View<'_, Toy>| Some(view.state.value),
        move |all| all.iter().map(|(_, value)| **value).ne(values),
    )
}

#[test]
fn e_53_the_primer_has_four_combinations_and_one_is_not_real() {
    let properties = [
        never_all("----r", [0, 0, 0, 0, 2]),
        never_all("s---r", [1, 0, 0, 0, 2]),
    ];
    for settings in [&[][..], &[("general", 1)]] {
        let report = run(&primer(), &properties, local(None, settings));
        confirm(&primer(), &properties, &report);
        let real = [("s---r".to_owned(), Vec::new())];
        assert_eq!(found(&report), BTreeSet::from(real));
        assert_eq!(report.violations[0].path.len(), 3);
        assert_eq!(tally(&report, "combinations judged") % 4, 0);
        assert!(report.complete);
    }
    let general = run(&primer(), &properties, local(None, &[("general", 1)]));
    assert_eq!(tally(&general, "combinations judged"), 4);
    // The node between them only passes on what it gets: the paper does not see that.
    let shortcuts = run(&primer(), &properties, local(None, &[("shortcuts", 1)]));
    assert!(shortcuts.violations.is_empty() && !shortcuts.complete);
}

#[test]
fn e_12_a_further_way_to_a_known_state_makes_real_what_was_not() {
    let word = Word::Datagram;
    // Node 1 can tell node 0 to go to 1, but then it cannot go there itself. By and by node 2 can tell node 0 too.
    let start = boot([
        toy_rules()
            .on(On::Word(word(1)), [Deed::Set(1)])
            .on(On::Word(word(2)), [Deed::Set(1)]),
        toy_rules().at(0, On::Call(0), [Deed::Set(1)]).at(
            0,
            On::Call(1),
            [Deed::Set(2), Deed::Send(node(0), word(1))],
        ),
        toy_rules()
            .at(0, On::Call(0), [Deed::Set(3), Deed::Send(node(3), word(3))])
            .at(
                3,
                On::Word(word(4)),
                [Deed::Set(4), Deed::Send(node(0), word(2))],
            ),
        toy_rules().at(
            0,
            On::Word(word(3)),
            [Deed::Set(5), Deed::Send(node(2), word(4))],
        ),
    ]);
    let apart = Property::pair(
        "0 and 1 do not both go to 1",
        |view: &View<'_, Toy>| (view.state.value == 1).then_some(()),
        |_, _| false,
    );
    let properties = [apart];
    let report = run(&start, &properties, local(None, &[]));
    confirm(&start, &properties, &report);
    assert_eq!(report.violations.len(), 1);
    let shortcuts = run(&start, &properties, local(None, &[("shortcuts", 1)]));
    assert!(shortcuts.violations.is_empty() && !shortcuts.complete);
}

#[test]
fn e_45_one_proposal_of_paxos_takes_a_thousand_steps_and_no_question() {
    let start = paxos::boot(1, false);
    let run = |settings| {
        let report = run(&start, &[paxos::agreement()], local(None, settings));
        assert!(report.violations.is_empty());
        assert_eq!(report.stop, Stop::Exhausted);
        assert_eq!(tally(&report, "questions"), 0);
        assert_eq!(tally(&report, "combinations that would be wrong"), 0);
        let counted = ["steps of nodes", "combinations judged"].map(|it| tally(&report, it));
        (report.states, counted)
    };
    // Everybody can choose one value only: there is one combination for each two nodes, and nothing is wrong with it.
    assert_eq!(run(&[]), (83, [451, 3]));
    assert_eq!(run(&[("general", 1)]), (83, [451, 14_161]));
    // The paper does not try a message again on what it led to, and tries a node's own before it is sent.
    assert_eq!(run(&[("shortcuts", 1)]), (195, [901, 3]));
}

#[test]
fn e_49_two_proposals_of_paxos_choose_two_values_if_the_last_answer_counts() {
    let start = paxos::boot(2, true);
    let properties = [paxos::agreement()];
    let limits = Limits {
        first_violation: true,
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..local(None, &[])
    };
    let report = run(&start, &properties, options);
    confirm(&start, &properties, &report);
    assert_eq!((report.stop, report.violations.len()), (Stop::Violation, 1));
}

#[test]
fn e_22_equal_datagrams_are_counted_and_each_has_one_receiver() {
    let word = Word::Datagram(0);
    let twice = |sends: &[Deed]| {
        let first = rules_of(sends);
        let counts = || {
            toy_rules()
                .at(0, On::Word(word), [Deed::Set(1)])
                .at(1, On::Word(word), [Deed::Set(2)])
        };
        boot([first, counts(), counts()])
    };
    let never_two =
        |name| Property::<Toy>::node(name, |view| view.id == node(0) || view.state.value != 2);
    let found = |start: &Simulation<Toy>| {
        let properties = [never_two("nobody gets two")];
        let report = run(start, &properties, local(None, &[]));
        confirm(start, &properties, &report);
        assert!(report.complete);
        found(&report)
            .into_iter()
            .flat_map(|(_, nodes)| nodes)
            .collect::<Vec<_>>()
    };
    let (one, other) = (Deed::Send(node(1), word), Deed::Send(node(2), word));
    assert_eq!(found(&twice(&[one, one])), [node(1)]);
    // What is sent to one is not there for the other.
    assert_eq!(found(&twice(&[one, other])), []);
    assert_eq!(found(&twice(&[one, other, other])), [node(2)]);
}

/// Rules of a node that sends something once.
fn rules_of(sends: &[Deed]) -> crate::toys::Rules {
    match *sends {
        [a, b] => toy_rules().at(0, On::Call(0), [Deed::Set(9), a, b]),
        [a, b, c] => toy_rules().at(0, On::Call(0), [Deed::Set(9), a, b, c]),
        _ => toy_rules(),
    }
}

#[test]
fn a_node_takes_what_it_sent_to_itself_only_after_it_has_sent_it() {
    let word = Word::Datagram(0);
    let start = boot([toy_rules()
        .at(0, On::Word(word), [Deed::Set(5)])
        .at(0, On::Call(0), [Deed::Set(1), Deed::Send(node(0), word)])
        .at(1, On::Call(1), [Deed::Set(2)])
        .at(2, On::Word(word), [Deed::Set(3)])]);
    let properties = [crate::toys::never(5), crate::toys::never(3)];
    let report = run(&start, &properties, local(None, &[]));
    let real = (properties[1].name().to_owned(), vec![node(0)]);
    assert_eq!(found(&report), BTreeSet::from([real]));
    // The state in which it would be wrong is not even looked at.
    assert_eq!((report.states, tally(&report, "questions")), (4, 1));
}

#[test]
fn e_4_what_is_on_its_way_at_the_start_may_come() {
    let word = Word::Datagram(0);
    let start = boot([
        toy_rules().on(On::Start, [Deed::Send(node(1), word)]),
        toy_rules().on(On::Word(word), [Deed::Set(1)]),
    ]);
    let properties = [crate::toys::never(1)];
    let report = run(&start, &properties, local(None, &[]));
    confirm(&start, &properties, &report);
    assert_eq!(
        (report.violations.len(), report.violations[0].path.len()),
        (1, 1)
    );
}

#[test]
fn e_36_states_in_which_a_handler_panicked_are_asked_about_dropped_or_kept() {
    let word = Word::Datagram(0);
    // Node 1 panics when it gets the second word, which is real, and node 2 on one that nobody sends.
    let start = boot([
        toy_rules().at(0, On::Call(0), [Deed::Set(1), Deed::Send(node(1), word)]),
        toy_rules().on(On::Word(word), [Deed::Set(7), Deed::Panic]),
        toy_rules().on(On::Word(Word::Datagram(1)), [Deed::Panic]),
    ]);
    let names = |panics: u64| {
        let report = run(&start, &[], local(None, &[("panics", panics)]));
        let nodes = report.violations.iter().flat_map(|it| it.nodes.clone());
        (nodes.collect::<Vec<_>>(), report.states, report.complete)
    };
    assert_eq!(names(0), (vec![node(1)], 5, true));
    assert_eq!(names(1), (Vec::new(), 4, false));
    assert_eq!(names(2), (Vec::new(), 5, false));
}

#[test]
fn e_42_consequence_prediction_saves_nothing_where_only_messages_are_left() {
    let mut start = paxos::boot(2, false);
    for at in 0..3 {
        for _ in 0..if at < 2 { 2 } else { 1 } {
            let calls = start.successors().into_iter();
            let mut own = calls.filter(|(step, _)| {
                step.node == node(at)
                    && matches!(step.event, scry_engine::model::event::Event::Call(_))
            });
            start = own.next().expect("it has something to do").1;
        }
    }
    let states = |strategy| {
        let limits = Limits {
            depth: Some(9),
            ..Limits::default()
        };
        let options = Options {
            strategy,
            limits,
            clock: Clock::FREE,
            ..Options::default()
        };
        run(&start, &[paxos::agreement()], options).states
    };
    assert_eq!(states(Strategy::CONSEQUENCE), states(Strategy::EXHAUSTIVE));
}

#[test]
fn e_40_the_portfolio_says_who_found_what() {
    // Each has a timer of its own, which fires once: consequence prediction does not see both fired.
    let start = boot([crate::toys::counter(1), crate::toys::counter(1)]);
    let properties = [
        crate::toys::never(1),
        Property::<Toy>::pair(
            "not both",
            |view| (view.state.value == 1).then_some(()),
            |_, _| false,
        ),
    ];
    let options = Options {
        strategy: Strategy::PORTFOLIO,
        clock: Clock::FREE,
        ..Options::default()
    };
    let report = run(&start, &properties, options);
    confirm(&start, &properties, &report);
    let finders = |name: &str| {
        let found = report.violations.iter().find(|it| it.property == name);
        found.expect("it is found").found_by.clone()
    };
    assert_eq!(finders(properties[0].name())[0], "consequence");
    assert!(!finders("not both").contains(&"consequence"));
    assert!(report.complete);
}
