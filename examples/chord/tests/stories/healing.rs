//! Whatever faults did to the ring, it closes again once they stop and messages and timers get their turn.

use chord::scenarios::Options;
use chord::{Chord, Mode};
use scry::model::Tosses;
use scry::{Event, Faults, Simulation, Step};

use crate::world::{fresh, is_one_ring, node, story, violated};

/// Steps during which faults may happen.
const STEPS_WITH_FAULTS: usize = 400;
/// Steps after the last fault within which the ring must have closed.
const STEPS_TO_HEAL: usize = 20_000;
/// How long the ring must then stay closed.
const STEPS_CLOSED: usize = 500;

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

/// Takes a random step, and one of the network rather than of a timer in most cases, as messages are faster.
fn step(simulation: &mut Simulation<Chord>, dice: &mut Dice) -> Option<Step<Chord>> {
    let mut slow = Vec::new();
    let mut fast = Vec::new();
    let mut faults = Vec::new();
    for &id in simulation.nodes().keys() {
        for event in simulation.enabled(id) {
            match event.fault() {
                Some(fault) if simulation.faults().left(fault) > 0 => faults.push((id, event)),
                Some(_) => {}
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
    if from.is_empty() {
        return None;
    }
    let (node, event) = from[dice.roll(from.len())].clone();
    // Enough for every question a handler of this service asks; a pick beyond the choices is cut to the last.
    let picks = vec![(4, u32::try_from(dice.roll(4)).expect("below four"))];
    let tosses = Tosses {
        picks,
        draws: Vec::new(),
    };
    let step = Step {
        node,
        event,
        tosses,
    };
    simulation.step(&step).expect("an enabled step is possible");
    Some(step)
}

fn heals(nodes: u32, seed: u64, faults: Faults) {
    let mut dice = Dice(seed);
    let options = Options {
        fingers: vec![1, 2, 4],
        finger_lookups: true,
        reunite: true,
        ..Options::default()
    };
    let mut simulation = fresh(nodes, &options, faults);
    let mut path = Vec::new();
    for _ in 0..STEPS_WITH_FAULTS {
        path.extend(step(&mut simulation, &mut dice));
        assert_eq!(
            violated(&simulation),
            [""; 0],
            "seed {seed}:\n{}",
            story(&path)
        );
    }
    simulation.set_faults(Faults::NONE);
    let mut closed = 0;
    for _ in 0..STEPS_TO_HEAL {
        path.extend(step(&mut simulation, &mut dice));
        assert_eq!(
            violated(&simulation),
            [""; 0],
            "seed {seed}:\n{}",
            story(&path)
        );
        closed = if is_one_ring(&simulation) {
            closed + 1
        } else {
            0
        };
        if closed == STEPS_CLOSED {
            return;
        }
    }
    let states: Vec<&Chord> = (1..=nodes).map(|id| node(&simulation, id)).collect();
    assert!(states.iter().all(|state| state.mode == Mode::Joined));
    panic!("seed {seed}: the ring has not closed: {states:#?}");
}

fn each_fault(count: u8) -> Faults {
    Faults {
        resets: count,
        silent_resets: count,
        breaks: count,
        ..Faults::NONE
    }
}

#[test]
fn rings_close_again_after_faults() {
    for nodes in 2..=5 {
        for seed in 0..100 {
            heals(nodes, seed, each_fault(4));
        }
    }
}
