//! Whatever faults did to the ring, it closes again once they stop and messages and timers get their turn.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use chord::scenarios::Options;
use chord::{Chord, Mode};
use scry::model::{EventOf, Tosses};
use scry::{Event, Faults, NodeId, Simulation, Step};

use crate::world::{fresh, is_ring_of, story, violated};

/// Steps during which faults may happen.
const STEPS_WITH_FAULTS: usize = 300;
/// Steps after the last fault within which the ring must have closed.
const STEPS_TO_HEAL: usize = 10_000;
/// How long the ring must then stay closed.
const STEPS_CLOSED: usize = 200;

/// What becomes of nodes that are reset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum After {
    /// They join again.
    Return,
    /// Once the faults are over they stay away, and the ring closes without them.
    Leave,
}

struct Dice(u64);

impl Dice {
    /// The generator splitmix64: a test needs numbers that look random and are the same on every machine.
    fn roll(&mut self, of: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((word ^ (word >> 31)) % of as u64).expect("smaller than `of`")
    }

    fn pick(&mut self, from: &[(NodeId, EventOf<Chord>)]) -> Option<(NodeId, EventOf<Chord>)> {
        if from.is_empty() {
            return None;
        }
        Some(from[self.roll(from.len())].clone())
    }
}

/// Takes a random step, and one of the network rather than of a timer in most cases, as messages are faster.
fn step(simulation: &mut Simulation<Chord>, dice: &mut Dice, joins: bool) -> Option<Step<Chord>> {
    let mut slow = Vec::new();
    let mut fast = Vec::new();
    let mut faults = Vec::new();
    for &id in simulation.nodes().keys() {
        for event in simulation.enabled(id) {
            match event.fault() {
                Some(fault) if simulation.faults().left(fault) > 0 => faults.push((id, event)),
                Some(_) => {}
                None if matches!(event, Event::Call(_)) && !joins => {}
                None if matches!(event, Event::Timer(_) | Event::Call(_)) => slow.push((id, event)),
                None => fast.push((id, event)),
            }
        }
    }
    let from = if !faults.is_empty() && dice.roll(20) == 0 {
        faults
    } else if !fast.is_empty() && (slow.is_empty() || dice.roll(5) > 0) {
        fast
    } else {
        slow
    };
    let (node, event) = dice.pick(&from)?;
    // Enough for every question a handler of this service asks; a pick beyond the choices is cut to the last.
    let picks = vec![(4, u32::try_from(dice.roll(4)).expect("below four"))];
    let draws = Vec::new();
    let step = Step {
        node,
        event,
        tosses: Tosses { picks, draws },
    };
    simulation.step(&step).expect("an enabled step is possible");
    Some(step)
}

fn is_healed(simulation: &Simulation<Chord>, after: After) -> bool {
    let is = |mode| move |node: &NodeId| simulation.nodes()[node].local.service.mode == mode;
    let mut members: BTreeSet<NodeId> = simulation.nodes().keys().copied().collect();
    if after == After::Leave {
        members.retain(|node| !is(Mode::Init)(node));
        // With nobody left in a ring, nodes that wait for a place wait for the founder to come back.
        if !members.iter().any(is(Mode::Joined)) {
            return true;
        }
    }
    is_ring_of(simulation, &members)
}

fn heals(nodes: u32, seed: u64, options: &Options, after: After) {
    let each_three_times = Faults {
        resets: 3,
        silent_resets: 3,
        breaks: 3,
        ..Faults::NONE
    };
    let mut dice = Dice(seed);
    let mut simulation = fresh(nodes, options, each_three_times);
    let mut path = Vec::new();
    let mut closed = 0;
    for count in 0..STEPS_WITH_FAULTS + STEPS_TO_HEAL {
        let calm = count >= STEPS_WITH_FAULTS;
        if calm {
            simulation.set_faults(Faults::NONE);
        }
        let joins = !calm || after == After::Return;
        path.extend(step(&mut simulation, &mut dice, joins));
        let wrong = violated(&simulation);
        assert!(wrong.is_empty(), "{wrong:?}\n{}", story(&path));
        closed = match calm && is_healed(&simulation, after) {
            true => closed + 1,
            false => 0,
        };
        if closed == STEPS_CLOSED {
            return;
        }
    }
    let states = simulation.nodes().values().map(|node| &node.local.service);
    let states: Vec<&Chord> = states.collect();
    panic!("{nodes} nodes, seed {seed}, {after:?}: the ring has not closed: {states:?}");
}

fn check(nodes: RangeInclusive<u32>, reunite: bool, after: After) {
    let options = Options {
        fingers: vec![1, 2, 4],
        finger_lookups: true,
        reunite,
        ..Options::default()
    };
    for count in nodes {
        for seed in 0..100 {
            heals(count, seed, &options, after);
        }
    }
}

#[test]
fn rings_close_again_when_reset_nodes_return() {
    check(2..=5, true, After::Return);
}

#[test]
fn rings_close_again_when_reset_nodes_stay_away() {
    check(2..=5, true, After::Leave);
}

/// Of three nodes one is alone when the ring is split, and a node that is alone always asks its contacts.
#[test]
fn three_nodes_need_no_timer_to_reunite() {
    check(2..=3, false, After::Return);
}
