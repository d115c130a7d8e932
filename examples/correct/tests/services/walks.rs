//! Long random walks with faults: deeper than a search gets, with several requests after each other. No property is ever
//! broken on them, and once the faults are over everything that was asked is answered.
//!
//! The lock is missing: in a walk clocks answer as they like, and what is correct only in time is not correct then.

use correct::{Chain, Commit, Failover, Gossip, Options, failover};
use scry::model::{EventOf, Tosses};
use scry::{Event, Faults, Judgement, NodeId, Program, Property, Simulation, Step, System};

use crate::search::system;

/// Steps during which faults happen and requests come.
const STEPS_WITH_FAULTS: usize = 400;
/// Steps after that within which everything must be answered.
const STEPS_TO_ANSWER: usize = 5_000;
/// How many requests come at most.
const REQUESTS: u32 = 5;

struct Dice(u64);

impl Dice {
    /// The generator splitmix64: a test needs numbers that look random and are the same on every machine.
    fn roll(&mut self, of: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((word ^ (word >> 31)) % of as u64).expect("smaller than `of`")
    }
}

/// Takes a random step; messages are faster than timers in most cases, and faults are rare.
fn step<S: Program>(simulation: &mut Simulation<S>, dice: &mut Dice, calls: bool) {
    let (mut slow, mut fast, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for &id in simulation.nodes().keys() {
        for event in simulation.enabled(id) {
            let is_call = matches!(event, Event::Call(_));
            match event.fault() {
                Some(fault) if simulation.faults().left(fault) > 0 => faults.push((id, event)),
                Some(_) => {}
                None if is_call && !calls => {}
                None if is_call || matches!(event, Event::Timer(_)) => slow.push((id, event)),
                None => fast.push((id, event)),
            }
        }
    }
    let from: Vec<(NodeId, EventOf<S>)> = if !faults.is_empty() && dice.roll(12) == 0 {
        faults
    } else if !fast.is_empty() && (slow.is_empty() || dice.roll(8) > 0) {
        fast
    } else {
        slow
    };
    if from.is_empty() {
        return;
    }
    let (node, event) = from[dice.roll(from.len())].clone();
    // Enough for every question a handler of these services asks; a pick beyond the choices is cut to the last.
    let picks = vec![(4, u32::try_from(dice.roll(4)).expect("below four"))];
    let draws = Vec::new();
    let step = Step {
        node,
        event,
        tosses: Tosses { picks, draws },
    };
    simulation.step(&step).expect("an enabled step is possible");
}

#[track_caller]
fn assert_sound<S: Program>(simulation: &Simulation<S>, properties: &[Property<S>], seed: u64) {
    for property in properties {
        let judged = property.judge(&simulation.views());
        let states: Vec<&S> = simulation.views().iter().map(|view| view.state).collect();
        assert_ne!(
            judged,
            Judgement::Violated,
            "seed {seed}: {}: {states:#?}",
            property.name()
        );
    }
}

/// Walks with many seeds. `open` tells how many requests have not been answered.
#[track_caller]
fn walk<S: Program<Options = Options>>(
    system: &System<S>,
    faults: Faults,
    open: impl Fn(&Simulation<S>) -> usize,
) {
    let properties = S::properties();
    let mut asked = false;
    for seed in 0..40 {
        let (mut simulation, _) = system.start().expect("the script runs");
        simulation.set_faults(faults);
        let mut dice = Dice(seed);
        for _ in 0..STEPS_WITH_FAULTS {
            step(&mut simulation, &mut dice, true);
            assert_sound(&simulation, &properties, seed);
            asked |= open(&simulation) > 0;
        }
        simulation.set_faults(Faults::NONE);
        let answers = (0..STEPS_TO_ANSWER).any(|_| {
            step(&mut simulation, &mut dice, false);
            assert_sound(&simulation, &properties, seed);
            open(&simulation) == 0
        });
        assert!(
            answers,
            "seed {seed}: {} are not answered",
            open(&simulation)
        );
    }
    assert!(asked, "something was asked");
}

fn set<S: Program>(mut system: System<S>, change: impl Fn(&mut S::Setup)) -> System<S> {
    system.setups.values_mut().for_each(change);
    system
}

const STREAM_FAULTS: Faults = Faults {
    resets: 3,
    silent_resets: 3,
    breaks: 4,
    losses: 0,
    duplicates: 0,
    late_starts: 0,
};

const DATAGRAM_FAULTS: Faults = Faults {
    resets: 3,
    silent_resets: 2,
    breaks: 0,
    losses: 8,
    duplicates: 4,
    late_starts: 0,
};

#[test]
fn a_chain_stays_in_order_and_answers() {
    let system = set(system::<Chain>("start", &[]), |setup| {
        setup.writes = REQUESTS
    });
    let open = |simulation: &Simulation<Chain>| {
        let nodes = simulation.nodes().values();
        nodes.map(|node| node.local.service.pending.len()).sum()
    };
    walk(&system, STREAM_FAULTS, open);
}

#[test]
fn transactions_are_atomic_and_decided() {
    let system = set(system::<Commit>("start", &[]), |setup| {
        setup.transactions = REQUESTS
    });
    let open = |simulation: &Simulation<Commit>| {
        let nodes = simulation.nodes().values();
        let open = nodes.map(|node| &node.local.service);
        open.map(|it| it.waiting.len() + usize::from(it.begun > it.decided))
            .sum()
    };
    walk(&system, DATAGRAM_FAULTS, open);
}

#[test]
fn what_is_acknowledged_survives_every_change_of_views() {
    let system = set(system::<Failover>("paired", &[]), |setup| {
        setup.requests = REQUESTS
    });
    let faults = Faults {
        losses: 6,
        duplicates: 3,
        ..STREAM_FAULTS
    };
    let open = |simulation: &Simulation<Failover>| {
        let nodes = simulation.nodes().values();
        nodes
            .map(|node| match &node.local.service.part {
                failover::Part::Client(client) => client.waiting.len(),
                _ => 0,
            })
            .sum()
    };
    walk(&system, faults, open);
}

#[test]
fn a_counter_never_counts_too_much_and_is_heard() {
    let system = set(system::<Gossip>("start", &[]), |setup| {
        setup.adds = REQUESTS
    });
    let open = |simulation: &Simulation<Gossip>| {
        let nodes = simulation.nodes();
        nodes
            .iter()
            .map(|(id, node)| {
                let state = &node.local.service;
                (state.counts[id] - state.answered) as usize
            })
            .sum()
    };
    walk(&system, DATAGRAM_FAULTS, open);
}
