//! Long random walks: whatever faults strike, no property breaks, and afterwards one whole tree grows again.

use randtree::scenarios::Options;
use randtree::{Announce, RandTree};
use scry::{Event, Faults, NodeId, Simulation};

use crate::support::{broken, faults, id, system, unfinished};

/// How long faults may strike.
const FAULTY_STEPS: usize = 300;
/// How long a tree must stay whole to count.
const WHOLE_STEPS: usize = 100;
/// How long a walk may be.
const STEPS_MAX: usize = 4000;

/// A small generator of its own, so that a walk is a function of its seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % bound as u64) as usize
    }
}

/// Takes one step at random. Messages are likelier than timers, as they are in a service: or queues would only grow.
fn stumble(simulation: &mut Simulation<RandTree>, dice: &mut Dice, told: &mut Vec<String>) {
    let weight = |event: &Event<_, _, _>| match event {
        event if event.fault().is_some() => 1,
        Event::Timer(_) => 6,
        _ => 40,
    };
    let successors = simulation.successors();
    let total: usize = successors.iter().map(|(step, _)| weight(&step.event)).sum();
    if total == 0 {
        return;
    }
    let mut pick = dice.below(total);
    for (step, after) in successors {
        match pick.checked_sub(weight(&step.event)) {
            Some(rest) => pick = rest,
            None => {
                told.push(format!("{} {}", step.node, step.event));
                *simulation = after;
                return;
            }
        }
    }
}

/// Walks through a fresh cluster while faults strike and then, if it `must_grow`, until its tree is whole and stays so.
fn walk(seed: u32, options: &Options, must_grow: bool) {
    let mut dice = Dice(seed.into());
    let nodes = 3 + seed % 4;
    let budget = Faults {
        losses: 10,
        duplicates: 10,
        ..faults(30, 30, 30)
    };
    let mut told = Vec::new();
    let mut system = system("fresh", &[], Some(nodes), options).faults(budget);
    let mut eligibility: Vec<NodeId> = system.setups.keys().copied().collect();
    for at in (1..eligibility.len()).rev() {
        eligibility.swap(at, dice.below(at + 1));
    }
    let designated = (1..=1 + dice.below(2) as u32).map(id);
    for setup in system.setups.values_mut() {
        setup.eligibility.clone_from(&eligibility);
        setup.bootstrap = designated.clone().collect();
    }
    let (mut simulation, _) = system.start().expect("nothing to run");
    let fail = |why: String, simulation: &Simulation<RandTree>, told: &[String]| -> ! {
        for (id, node) in simulation.nodes() {
            eprintln!(
                "{id}: {:?} {:?} {:?} {:?}",
                node.local.service, node.local.timers, node.links, node.inbox
            );
        }
        panic!(
            "seed {seed}, {nodes} nodes, {options:?}: {why}\n{}",
            told.join("\n")
        )
    };
    let mut whole = 0;
    for step in 0..STEPS_MAX {
        if step == FAULTY_STEPS {
            if !must_grow {
                return;
            }
            simulation.set_faults(Faults::NONE);
        }
        stumble(&mut simulation, &mut dice, &mut told);
        let broken = broken(&simulation);
        if !broken.is_empty() {
            fail(format!("{broken:?}"), &simulation, &told);
        }
        // A whole tree may fall apart once more over what was on its way before: so it must last.
        whole = match unfinished(&simulation) {
            None if step >= FAULTY_STEPS => whole + 1,
            _ => 0,
        };
        if whole == WHOLE_STEPS {
            return;
        }
    }
    let why = unfinished(&simulation).unwrap_or_else(|| "not whole for long".to_owned());
    fail(why, &simulation, &told);
}

/// Settings that differ from seed to seed.
fn options(seed: u32, keepalive: bool) -> Options {
    Options {
        keepalive,
        announce: Some(match seed % 2 {
            0 => Announce::AfterReply,
            _ => Announce::AtOnce,
        }),
        degree: Some(1 + seed % 3),
    }
}

#[test]
fn a_tree_grows_again_after_faults() {
    for seed in 0..24 {
        walk(seed, &options(seed, true), true);
    }
}

/// Without keepalive a peer that was reset in silence may go unnoticed for good, but no property breaks.
#[test]
fn without_keepalive_no_property_breaks() {
    for seed in 100..140 {
        walk(seed, &options(seed, false), false);
    }
}
