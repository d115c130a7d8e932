//! Slow and obvious: every state with the milliseconds in it, one millisecond after the other, handlers run as they run
//! live. What a search lays out in time must be just what is reached here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use scry::model::handler::Local;
use scry::model::live;
use scry::model::{Input, InputOf};
use scry::timing::Clock;
use scry::{Dice, Effect, Faults, NodeId, Options, Report, Search, Simulation, Stamp, Violation};

use crate::table::{Settings, Timed, Timer, Word, properties, settings};

/// What is longer ago than this is all the same: no table counts so far.
const AGE_MAX: u64 = 8;
/// The present moment of a state, so that none is before the beginning.
const NOW: u64 = 1_000_000;

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Node {
    state: Timed,
    /// When each timer is due.
    due: BTreeMap<Timer, u64>,
}

/// A system at one millisecond, which is [`NOW`] in every state.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Instant {
    /// Those that have started.
    nodes: BTreeMap<NodeId, Node>,
    /// Datagrams: to whom, from whom, what.
    flying: Vec<(NodeId, NodeId, Word)>,
}

struct Reference<'a> {
    settings: &'a [Settings; 2],
    late: u64,
}

impl Reference<'_> {
    /// Returns the levels that each node can reach.
    fn levels(&self, states_max: usize) -> Option<BTreeSet<(u8, NodeId)>> {
        let first = Instant {
            nodes: BTreeMap::new(),
            flying: Vec::new(),
        };
        let mut seen = BTreeSet::from([first.clone()]);
        let mut waiting = VecDeque::from([first]);
        let mut levels = BTreeSet::new();
        while let Some(instant) = waiting.pop_front() {
            if instant.nodes.len() == self.settings.len() {
                levels.extend(
                    instant
                        .nodes
                        .iter()
                        .map(|(&id, node)| (node.state.level, id)),
                );
            }
            for next in self.successors(&instant) {
                if seen.insert(next.clone()) {
                    waiting.push_back(next);
                }
            }
            if seen.len() > states_max {
                return None;
            }
        }
        levels.retain(|(level, _)| *level > 0);
        Some(levels)
    }

    fn successors(&self, instant: &Instant) -> Vec<Instant> {
        let mut next: Vec<Instant> = self.later(instant).into_iter().collect();
        if instant.nodes.len() < self.settings.len() {
            // Nodes start in any order; the search begins when all have.
            for (number, settings) in (0..).zip(self.settings) {
                let id = NodeId::new(number);
                if !instant.nodes.contains_key(&id) {
                    next.push(self.start(instant, id, settings));
                }
            }
            return next;
        }
        for (&id, node) in &instant.nodes {
            if node.state.calls > 0 {
                next.push(self.handle(instant, id, Input::Call(()), None));
            }
            for (&timer, _) in node.due.iter().filter(|(_, due)| **due <= NOW) {
                next.push(self.handle(instant, id, Input::Timer(timer), None));
            }
        }
        for (at, &(to, from, message)) in instant.flying.iter().enumerate() {
            let input = Input::Message { from, message };
            next.push(self.handle(instant, to, input, Some(at)));
        }
        next
    }

    /// One millisecond passes, unless a timer would be too late then.
    fn later(&self, instant: &Instant) -> Option<Instant> {
        let mut next = instant.clone();
        let age = |stamp: Stamp| Stamp::from_millis((stamp.as_millis() - 1).max(NOW - AGE_MAX));
        for node in next.nodes.values_mut() {
            for due in node.due.values_mut() {
                *due -= 1;
                if *due + self.late < NOW {
                    return None;
                }
            }
            node.state.slots = node.state.slots.map(|slot| slot.map(age));
        }
        for (_, _, word) in &mut next.flying {
            word.stamp = word.stamp.map(age);
        }
        next.flying.sort();
        Some(next)
    }

    fn start(&self, instant: &Instant, id: NodeId, settings: &Settings) -> Instant {
        let dice = Dice::new(0, Stamp::from_millis(NOW), 0);
        let (local, effects) =
            live::boot::<Timed>(id, settings, None, dice).expect("no table panics");
        let mut next = instant.clone();
        let node = Node {
            state: local.service,
            due: BTreeMap::new(),
        };
        next.nodes.insert(id, node);
        next.perform(id, effects);
        next
    }

    fn handle(
        &self,
        instant: &Instant,
        id: NodeId,
        input: InputOf<Timed>,
        taken: Option<usize>,
    ) -> Instant {
        let mut next = instant.clone();
        if let Some(at) = taken {
            next.flying.remove(at);
        }
        let node = next.nodes.get_mut(&id).expect("it has started");
        if let Input::Timer(timer) = &input {
            node.due.remove(timer);
        }
        let mut local = Local {
            service: node.state.clone(),
            timers: Vec::new(),
            ticks: 0,
            panic: None,
            down: false,
        };
        let mut dice = Dice::new(0, Stamp::from_millis(NOW), 0);
        let settings = &self.settings[id.get() as usize];
        let effects =
            live::run(id, settings, &mut local, input, &mut dice).expect("no table panics");
        node.state = local.service;
        next.perform(id, effects);
        next
    }
}

impl Instant {
    fn perform(&mut self, id: NodeId, effects: Vec<Effect<Word, Timer>>) {
        let node = self.nodes.get_mut(&id).expect("it has started");
        for effect in effects {
            match effect {
                Effect::Arm { timer, after } => {
                    node.due.insert(timer, NOW + after.as_millis() as u64);
                }
                Effect::Cancel { timer } => drop(node.due.remove(&timer)),
                Effect::Send { to, message } => self.flying.push((to, id, message)),
                Effect::Disconnect { .. } => {}
            }
        }
        self.flying.sort();
    }
}

/// Searches, and returns its report.
fn searched(settings: &[Settings; 2], late_ms: u64) -> Report<Timed> {
    let setups = (0..).map(NodeId::new).zip(settings.iter().cloned());
    let start = Simulation::boot(setups.collect(), Faults::NONE);
    let options = Options {
        clock: Clock {
            late_ms,
            tries: 100_000,
            ..Clock::default()
        },
        ..Options::default()
    };
    let report = Search::new(&start, properties(), options)
        .expect("these options go together")
        .run();
    assert!(report.complete);
    assert_eq!(report.unconfirmed, 0);
    report
}

/// Returns the levels that a report says can be reached.
fn levels_of(report: &Report<Timed>) -> BTreeSet<(u8, NodeId)> {
    let level = |violation: &Violation<Timed>| {
        assert_eq!(violation.layout.unchecked, None);
        let [node] = violation.nodes[..] else {
            panic!("the properties are about one node");
        };
        (violation.state.nodes()[&node].local.service.level, node)
    };
    report.violations.iter().map(level).collect()
}

#[test]
fn what_is_reported_is_what_can_happen_millisecond_by_millisecond() {
    let mut runner = TestRunner::deterministic();
    let cases = (settings(), settings(), 0_u64..3);
    let (mut compared, mut impossible, mut meanwhile) = (0, 0, 0);
    for case in 0..1500 {
        let (one, other, late) = cases
            .new_tree(&mut runner)
            .expect("settings are easily drawn")
            .current();
        let settings = [one, other];
        let reference = Reference {
            settings: &settings,
            late,
        };
        let Some(expected) = reference.levels(20_000) else {
            continue;
        };
        compared += 1;
        let report = searched(&settings, late);
        let said = format!("case {case}, late {late}: {settings:?}");
        assert_eq!(levels_of(&report), expected, "{said}");
        assert_eq!(report.undecided(), 0, "{said}");
        impossible += report.impossible();
        let others = |violation: &&Violation<Timed>| !violation.layout.meanwhile.is_empty();
        meanwhile += report.violations.iter().filter(others).count();
    }
    // Enough of each for the comparison to mean something.
    assert!(compared > 1000, "{compared}");
    assert!(impossible > 30, "{impossible}");
    assert!(meanwhile > 3, "{meanwhile}");
}
