//! The nine defects found in a peer, each with the test that would catch it here.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use scry_engine::explore::{SearchError, Settings, Stop};
use scry_engine::{
    Context, Faults, Limits, NodeId, Options, Property, Search, Service, Simulation, Strategy,
    System,
};
use serde::{Deserialize, Serialize};

use crate::reference::{confirm, essence, explore, replay, run};
use crate::toys::Deed::{Add, Arm, Choose, Draw, Send, Set, Tick};
use crate::toys::{On, Toy, Word, boot, boot_with, by, counter, never, node, rules};

/// Every strategy on every number of threads it knows.
fn modes() -> Vec<Options> {
    let mut modes = vec![by(Strategy::DEPTH_FIRST)];
    for strategy in [Strategy::EXHAUSTIVE, Strategy::CONSEQUENCE] {
        modes.extend([1, 2].map(|threads| Options {
            threads,
            ..by(strategy)
        }));
    }
    modes
}

/// A service that hashes nothing of itself.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
struct Careless {
    fired: bool,
}

impl Hash for Careless {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Service for Careless {
    type Message = ();
    type Timer = ();
    type Call = ();
    type Setup = ();
    type Disk = ();

    fn start(cx: &mut Context<'_, Self>, _: Option<()>) -> Self {
        cx.set_timer((), Duration::from_secs(1));
        Self { fired: false }
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, (): ()) {}

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        self.fired = true;
        cx.set_timer((), Duration::from_secs(1));
    }

    fn on_call(&mut self, _: &mut Context<'_, Self>, (): ()) {}

    fn disk(&self) {}
}

#[test]
fn defect_1_states_that_hash_alike_are_told_apart() {
    for count in [1, 2, 5, 10] {
        let system = System::<Careless>::new((0..count).map(|id| (NodeId::new(id), ())));
        let (start, _) = system.start().expect("there is no script");
        let fired = Property::node("never fired", |view: &scry_engine::View<'_, Careless>| {
            !view.state.fired
        });
        for strategy in [Strategy::EXHAUSTIVE, Strategy::DEPTH_FIRST] {
            let report = run(&start, std::slice::from_ref(&fired), by(strategy));
            assert_eq!(report.states, 1 << count);
            assert_eq!(report.violations.len(), count as usize);
        }
    }
}

#[test]
fn defect_2_the_first_path_found_is_a_shortest() {
    // By the timer it takes 400 steps, by calls three.
    let start = boot([counter(400)
        .at(0, On::Call(0), [Set(1000)])
        .at(1000, On::Call(0), [Set(1001)])
        .at(1001, On::Call(0), [Set(400)])]);
    for threads in [1, 2] {
        let options = Options {
            threads,
            ..by(Strategy::EXHAUSTIVE)
        };
        let report = run(&start, &[never(400)], options);
        assert_eq!(report.violations[0].path.len(), 3);
    }
}

/// A system whose states never end.
fn endless() -> Simulation<Toy> {
    boot([(); 3].map(|()| rules().on(On::Call(0), [Tick])))
}

#[test]
fn defect_3_a_search_gives_control_back_in_every_mode() {
    for mode in modes() {
        let mut search = Search::new(&endless(), Vec::new(), mode).expect("a good mode");
        let mut last = 0;
        for _ in 0..10 {
            assert_eq!(search.advance(500), None);
            let now = search.counts().transitions;
            // Consequence prediction looks few steps up, but it too gets on.
            assert!(last < now, "{mode:?}");
            last = now;
        }
        assert_eq!(search.finish().stop, Stop::Caller);
    }
}

#[test]
fn defect_4_every_path_replays_also_with_choices_draws_and_faults() {
    let faults = Faults {
        resets: 1,
        breaks: 1,
        duplicates: 1,
        ..Faults::NONE
    };
    let word = Word::Datagram(1);
    let dice = rules()
        .on(
            On::Start,
            [Arm(0), Send(node(1), word), Send(node(1), Word::Stream(2))],
        )
        .at(
            0,
            On::Timer(0),
            [Add(1), Choose(3), Choose(2), Send(node(1), word)],
        )
        .on(On::Disconnect, [Draw]);
    let hears = rules().on(On::Word(word), [Add(1), Choose(2)]);
    let start = boot_with(faults, [dice, hears]);
    let properties = [121, 1, 11, 110, 221].map(never);
    let limits = Limits {
        depth: Some(7),
        ..Limits::default()
    };
    for mode in modes() {
        let report = run(&start, &properties, Options { limits, ..mode });
        assert!(report.violations.len() > 2, "{:?}", report.violations.len());
        confirm(&start, &properties, &report);
        for violation in &report.violations {
            assert_eq!(replay(&start, &violation.path), violation.state);
        }
    }
}

#[test]
fn defect_5_every_mode_ends() {
    for mode in modes() {
        let limits = Limits {
            states: Some(5_000),
            ..Limits::default()
        };
        let report = run(&endless(), &[], Options { limits, ..mode });
        assert_eq!((report.states, report.stop), (5_000, Stop::States));
        let ended = run(&boot([counter(30), counter(30)]), &[], mode);
        assert_eq!(ended.stop, Stop::Exhausted);
    }
}

#[test]
fn defect_6_an_option_a_strategy_cannot_honour_is_an_error() {
    let options = Options {
        threads: 2,
        ..by(Strategy::DEPTH_FIRST)
    };
    let refused = Search::new(&endless(), Vec::new(), options).err();
    let (strategy, threads) = (Strategy::DEPTH_FIRST, 2);
    assert_eq!(refused, Some(SearchError::Threads { strategy, threads }));
}

#[test]
fn defect_7_exploration_does_not_depend_on_properties() {
    let start = boot([counter(5), counter(5), counter(5)]);
    for mode in modes() {
        let size = |properties: &[Property<Toy>]| {
            let report = run(&start, properties, mode);
            (report.states, report.transitions, report.depth)
        };
        let without = size(&[]);
        assert!(without.0 > 10);
        assert_eq!(without, size(&[never(99)]));
        assert_eq!(without, size(&[never(1), never(5)]));
    }
}

#[test]
fn defect_8_a_depth_bound_means_the_same_in_every_mode() {
    // Short cuts, so that states are met first on longer ways than need be.
    let hops = || {
        counter(6)
            .at(0, On::Call(0), [Set(4)])
            .at(1, On::Call(0), [Set(5)])
    };
    let start = boot([hops(), hops(), hops()]);
    for depth in 0..=12 {
        let limits = Limits {
            depth: Some(depth),
            ..Limits::default()
        };
        let bounded = |mode: Options| run(&start, &[never(6)], Options { limits, ..mode });
        let reference = crate::reference::explore_to(&start, usize::MAX, depth);
        let exhaustive = bounded(by(Strategy::EXHAUSTIVE));
        assert_eq!(exhaustive.states, reference.states.len() as u64);
        let two = bounded(Options {
            threads: 2,
            ..by(Strategy::EXHAUSTIVE)
        });
        assert_eq!(essence(&exhaustive), essence(&two));
        let depth_first = bounded(by(Strategy::DEPTH_FIRST));
        assert_eq!(depth_first.states, exhaustive.states);
        assert_eq!(depth_first.transitions, exhaustive.transitions);
        assert_eq!(depth_first.depth, exhaustive.depth);
    }
}

#[test]
fn defect_9_what_is_heuristic_is_said() {
    let start = boot([counter(3), counter(3)]);
    assert_eq!(explore(&start, 1_000).states.len(), 16);
    let exact = run(&start, &[], by(Strategy::EXHAUSTIVE));
    assert!(exact.complete && exact.stop == Stop::Exhausted);
    let pruned = run(&start, &[], by(Strategy::CONSEQUENCE));
    assert!(!pruned.complete && pruned.stop == Stop::Exhausted);
    let unpruned = Options {
        settings: Settings::of(&[("pruning", 0)]),
        ..by(Strategy::CONSEQUENCE)
    };
    assert!(run(&start, &[], unpruned).complete);
    assert!(exact.collision_bound() > 0.0);
}
