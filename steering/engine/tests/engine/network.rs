//! Connections, resets and notices (A-5, A-69…A-72), step by step on plain values and in the engine.

use scry_engine::model::Event;
use scry_engine::{Act, Faults, Limits, Options, Simulation, Strategy, System};

use crate::reference::{confirm, explore, run};
use crate::toys::Deed::{Add, Disconnect, Keep, Send, Set};
use crate::toys::{On, Rules, Toy, Word, by, never, node, rules, system};

const A: scry_engine::NodeId = node(0);
const B: scry_engine::NodeId = node(1);
const HELLO: Word = Word::Stream(1);
const DEAD: u64 = 9;
/// Counted by a search over whole states in plain values too.
const STATES_OF_TWO_RESETS: u64 = 13;

/// A calls B on a connection, as often as it is asked, and learns when the connection is dead.
fn caller() -> Rules {
    rules()
        .on(On::Call(0), [Send(B, HELLO)])
        .on(On::Disconnect, [Set(DEAD)])
}

fn listener() -> Rules {
    rules().on(On::Word(HELLO), [Add(1)])
}

/// A caller that never tires has no end of states.
fn near() -> Options {
    Options {
        limits: Limits {
            depth: Some(5),
            ..Limits::default()
        },
        ..by(Strategy::EXHAUSTIVE)
    }
}

fn call() -> Act<Toy> {
    Act::Call(A, 0)
}

fn arrives() -> Act<Toy> {
    Act::Deliver { from: A, to: B }
}

fn reset(notice: bool) -> Act<Toy> {
    Act::Reset { node: B, notice }
}

fn play(system: System<Toy>, script: impl IntoIterator<Item = Act<Toy>>) -> Simulation<Toy> {
    let (state, _) = system
        .script(script)
        .start()
        .expect("the script can be carried out");
    state
}

fn arrivals(state: &Simulation<Toy>, at: scry_engine::NodeId) -> Vec<Event<Word, u8, u8>> {
    let enabled = state.enabled(at).into_iter();
    enabled
        .filter(|event| !event.is_internal() && event.fault().is_none())
        .collect()
}

fn learns(events: &[Event<Word, u8, u8>]) -> bool {
    matches!(events, [Event::Disconnect { from: B, .. }])
}

#[test]
fn a_5_a_notice_arrives_now_or_later_or_never() {
    let state = play(
        system([caller(), listener()]),
        [call(), arrives(), reset(true)],
    );
    assert!(learns(&arrivals(&state, A)));
    let reference = explore(&state, 2_000);
    let value = |state: &Simulation<Toy>| state.nodes()[&A].local.service.value;
    // Delivered at once, and after another call; and there are states in which it never came although A went on.
    let mut values = reference
        .states
        .keys()
        .map(|state| (value(state), arrivals(state, A)));
    assert!(values.any(|(value, waiting)| value == DEAD && waiting.is_empty()));
    let waits = |state: &&Simulation<Toy>| value(state) == 0 && !state.nodes()[&B].inbox.is_empty();
    assert!(
        reference
            .states
            .keys()
            .filter(waits)
            .any(|state| learns(&arrivals(state, A)))
    );
}

#[test]
fn a_69_what_is_on_disk_survives_a_reset_and_nothing_else() {
    let writes = rules()
        .at(0, On::Call(0), [Set(5), Keep(6)])
        .on(On::Restart, [Add(1)]);
    let state = play(
        system([writes]),
        [
            Act::Call(A, 0),
            Act::Reset {
                node: A,
                notice: true,
            },
        ],
    );
    let local = &state.nodes()[&A].local;
    assert_eq!((local.service.value, local.service.kept), (1, 6));
    assert!(local.timers.is_empty());
}

#[test]
fn a_70_both_kinds_of_reset_are_explored_for_an_open_connection() {
    let faults = Faults {
        resets: 1,
        silent_resets: 1,
        ..Faults::NONE
    };
    let open = play(
        system([caller(), listener()]).faults(faults),
        [call(), arrives()],
    );
    let after: Vec<_> = open
        .successors()
        .into_iter()
        .filter(|(step, _)| step.node == B)
        .collect();
    assert_eq!(after.len(), 2);
    for (step, state) in &after {
        let told = step.event == Event::Reset { notice: true };
        assert_eq!(learns(&arrivals(state, A)), told, "{step:?}");
    }
    // Silent or not, A can come to know; but with the notice it need not send again.
    let report = run(&open, &[never(DEAD)], near());
    confirm(&open, &[never(DEAD)], &report);
    assert_eq!(report.violations[0].path.len(), 2);
}

#[test]
fn a_71_a_peer_without_connection_learns_nothing_of_a_reset() {
    let third = rules().on(On::Disconnect, [Set(DEAD)]);
    let three = system([caller(), listener(), third]);
    let state = play(three, [call(), arrives(), reset(true)]);
    assert!(learns(&arrivals(&state, A)));
    assert_eq!(arrivals(&state, node(2)), []);
}

#[test]
fn a_72_a_stale_connection_is_discovered_at_the_next_send() {
    let silent = [call(), arrives(), reset(false)];
    let state = play(system([caller(), listener()]), silent);
    assert_eq!(arrivals(&state, A), [], "nobody told A");
    let report = run(&state, &[never(DEAD)], near());
    confirm(&state, &[never(DEAD)], &report);
    let path = &report.violations[0].path;
    let [first, second, third] = path.as_slice() else {
        panic!("a send, its refusal, the notice: {path:?}");
    };
    assert_eq!((first.node, &first.event), (A, &Event::Call(0)));
    assert_eq!(second.node, B);
    assert!(matches!(second.event, Event::Refuse { from: A, .. }));
    assert_eq!(third.node, A);
    assert!(learns(std::slice::from_ref(&third.event)));
    // The message on the stale connection is never handled.
    assert_eq!(
        report.violations[0].state.nodes()[&B].local.service.value,
        0
    );
}

#[test]
fn messages_on_a_connection_keep_their_order_and_datagrams_do_not() {
    let talks = |first, second| {
        let sender = rules().on(On::Start, [Send(B, first), Send(B, second)]);
        let hears = rules()
            .at(0, On::Word(first), [Set(1)])
            .at(0, On::Word(second), [Set(2)])
            .at(2, On::Word(first), [Set(DEAD)]);
        let state = play(system([sender, hears]), []);
        run(&state, &[never(DEAD)], by(Strategy::EXHAUSTIVE))
    };
    assert!(
        talks(Word::Stream(1), Word::Stream(2))
            .violations
            .is_empty()
    );
    assert_eq!(
        talks(Word::Datagram(1), Word::Datagram(2)).violations.len(),
        1
    );
}

/// A closes the connection to B after two words, while B says something on it.
fn closed_while_the_peer_speaks() -> Simulation<Toy> {
    let closes = rules().at(0, On::Call(0), [Set(1), Send(B, HELLO)]).at(
        1,
        On::Call(1),
        [Set(2), Send(B, HELLO), Disconnect(B)],
    );
    let answers = rules()
        .at(1, On::Call(2), [Set(2), Send(A, HELLO)])
        .on(On::Word(HELLO), [Add(1)])
        .on(On::Disconnect, [Add(10)]);
    let script = [Act::Call(A, 0), arrives(), Act::Call(A, 1), Act::Call(B, 2)];
    play(system([closes, answers]), script)
}

#[test]
fn what_was_sent_before_a_close_is_heard_although_the_peer_still_speaks() {
    let start = closed_while_the_peer_speaks();
    let reference = explore(&start, 1_000);
    let ends = reference
        .states
        .keys()
        .filter(|state| state.successors().is_empty());
    let mut values: Vec<u64> = ends
        .map(|state| state.nodes()[&B].local.service.value)
        .collect();
    values.dedup();
    // Its own word made it 2; A's last word and then the end of the connection follow, in this order.
    assert_eq!(values, [13]);
    let report = run(&start, &[never(12)], by(Strategy::EXHAUSTIVE));
    assert_eq!(report.states, reference.states.len() as u64);
    assert!(
        report.violations.is_empty(),
        "the end never comes before the word"
    );
}

#[test]
fn a_notice_that_nothing_can_make_matter_any_more_is_no_state() {
    // B forgets the connection with A's second word on its way to it: that word will be refused, and what A's own reset
    // has to tell of the connection matters to nobody.
    let after = |notice| {
        let resets = [reset(false), Act::Reset { node: A, notice }];
        let script = [call(), arrives(), call()].into_iter().chain(resets);
        play(system([caller(), listener()]), script)
    };
    let told = after(true);
    let waiting = told.nodes()[&B].inbox.segments().count();
    assert_eq!(waiting, 1, "the second word waits");
    assert_eq!(told, after(false));
}

#[test]
fn two_resets_of_a_pair_with_a_word_under_way_have_so_many_states() {
    let faults = Faults {
        resets: 2,
        ..Faults::NONE
    };
    let pair = [
        rules().on(On::Start, [Send(B, HELLO), Send(B, HELLO)]),
        rules().on(On::Word(HELLO), [Set(1)]),
    ];
    let start = play(system(pair).faults(faults), []);
    let report = run(&start, &[], by(Strategy::EXHAUSTIVE));
    let reference = explore(&start, 1_000);
    assert_eq!(report.states, reference.states.len() as u64);
    assert_eq!(report.states, STATES_OF_TWO_RESETS);
}

fn late(count: u8) -> Faults {
    Faults {
        late_starts: count,
        ..Faults::NONE
    }
}

#[test]
fn a_node_that_is_down_refuses_connections_and_hears_datagrams_late_or_never() {
    let hello = Word::Datagram(2);
    let speaker = rules()
        .at(0, On::Call(0), [Set(1), Send(B, HELLO), Send(B, hello)])
        .on(On::Disconnect, [Set(DEAD)]);
    let hearer = rules()
        .on(On::Word(HELLO), [Add(1)])
        .on(On::Word(hello), [Add(10)]);
    let down = play(system([speaker, hearer]), [Act::Stop(B), Act::Call(A, 0)]);
    assert_eq!(down.views().len(), 1, "properties do not see it");
    let events = down.enabled(B);
    assert!(
        matches!(
            events.as_slice(),
            [Event::Refuse { from: A, .. }, Event::Start]
        ),
        "{events:?}"
    );
    let reference = explore(&down, 1_000);
    let report = run(&down, &[], by(Strategy::EXHAUSTIVE));
    assert_eq!(report.states, reference.states.len() as u64);
    let values = |id| {
        let states = reference.states.keys();
        let mut values: Vec<u64> = states
            .map(|state| state.nodes()[&id].local.service.value)
            .collect();
        values.sort_unstable();
        values.dedup();
        values
    };
    // A may learn that nobody is there; B, once it is up, hears both, one or none.
    assert_eq!(values(A), [1, DEAD]);
    assert_eq!(values(B), [0, 1, 10, 11]);
}

#[test]
fn a_late_start_is_a_fault_with_a_budget_of_its_own() {
    let asks = rules()
        .at(0, On::Call(0), [Set(1), Send(B, HELLO)])
        .on(On::Disconnect, [Set(DEAD)]);
    let system = || system([asks.clone(), listener()]);
    for (count, broken) in [(0, 0), (1, 1)] {
        let start = play(system().faults(late(count)), []);
        let report = run(&start, &[never(DEAD)], by(Strategy::EXHAUSTIVE));
        confirm(&start, &[never(DEAD)], &report);
        assert_eq!(report.violations.len(), broken);
        if let Some(violation) = report.violations.first() {
            // It goes down, is called, refuses, and the caller learns.
            assert_eq!(violation.path.len(), 4);
        }
    }
}

#[test]
fn what_properties_see_of_a_node_that_is_down_is_nothing() {
    let one = || rules().at(0, On::Call(0), [Set(1)]);
    let lonely = scry_engine::Property::global(
        "two nodes are seen",
        |view: &scry_engine::View<'_, Toy>| Some(view.state.value),
        |all| all.len() == 2,
    );
    let properties = [never(1), lonely];
    let start = play(system([one(), one()]).faults(late(1)), []);
    let report = run(&start, &properties, by(Strategy::EXHAUSTIVE));
    confirm(&start, &properties, &report);
    let reference = explore(&start, 1_000);
    assert_eq!(report.states, reference.states.len() as u64);
    let lengths: std::collections::BTreeMap<_, _> = reference.findings(&properties);
    assert_eq!(crate::reference::lengths(&report), lengths);
    assert!(lengths.keys().any(|(name, _)| name == "two nodes are seen"));
}
