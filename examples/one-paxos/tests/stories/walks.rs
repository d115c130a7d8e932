//! Long random walks with resets, losses and duplicates, with many changes of leader and acceptor after each other. No property is
//! ever broken on them, and whatever is saved of a node on the way is the whole of it.

use one_paxos::scenarios::{Options, member};
use one_paxos::{Bugs, OnePaxos, Phase};
use scry::model::{EventOf, Tosses};
use scry::{Event, Faults, Judgement, NodeId, Service, Simulation, Step};

use crate::search::build;

const SEEDS: u64 = 60;
const STEPS: usize = 600;

const OPTIONS: Options = Options {
    indices: 4,
    changes: 40,
    rounds: 20,
};

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

/// Takes a random step: messages are faster than calls and timers in most cases, and faults are rare.
fn step(simulation: &mut Simulation<OnePaxos>, dice: &mut Dice) -> bool {
    let (mut slow, mut fast, mut faults) = (Vec::new(), Vec::new(), Vec::new());
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
    let from: Vec<(NodeId, EventOf<OnePaxos>)> = if !faults.is_empty() && dice.roll(10) == 0 {
        faults
    } else if !fast.is_empty() && (slow.is_empty() || dice.roll(10) > 0) {
        fast
    } else {
        slow
    };
    if from.is_empty() {
        return false;
    }
    let (node, event) = from[dice.roll(from.len())].clone();
    let step = Step {
        node,
        event,
        tosses: Tosses::default(),
    };
    simulation.step(&step).expect("an enabled step is possible");
    true
}

#[derive(Default)]
struct Seen {
    term: u32,
    replaced: usize,
    chosen: usize,
}

fn walk(seed: u64, faults: Faults, seen: &mut Seen, mut look: impl FnMut(&Simulation<OnePaxos>)) {
    let system = build("fresh", &[], OPTIONS).expect("these are good options");
    let (mut simulation, _) = system.start().expect("there is no script");
    simulation.set_faults(faults);
    let mut dice = Dice(seed);
    let properties = OnePaxos::properties();
    for _ in 0..STEPS {
        if !step(&mut simulation, &mut dice) {
            break;
        }
        for property in &properties {
            let judged = property.judge(&simulation.views());
            let name = property.name();
            assert_ne!(judged, Judgement::Violated, "seed {seed}: {name}");
        }
        for view in simulation.views() {
            let OnePaxos {
                roles,
                chosen,
                lead,
                ..
            } = view.state;
            seen.term = seen.term.max(roles.term);
            seen.chosen = seen.chosen.max(chosen.len());
            let phase = lead.as_ref().map(|lead| lead.phase);
            seen.replaced += usize::from(matches!(phase, Some(Phase::Replacing { .. })));
        }
        look(&simulation);
    }
}

#[test]
fn nothing_breaks_on_long_walks_with_faults_and_changes() {
    let faults = Faults {
        resets: 3,
        silent_resets: 2,
        losses: 40,
        duplicates: 10,
        ..Faults::NONE
    };
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        walk(seed, faults, &mut seen, |_| {});
    }
    let Seen {
        term,
        replaced,
        chosen,
    } = seen;
    assert!(
        term > 1 && replaced > 0 && chosen > 1,
        "{term} {replaced} {chosen}"
    );
}

/// E-31: both layers are saved together, and go on together from what was saved.
#[test]
fn e_31_a_stack_is_saved_and_restored_as_one() {
    let mut layers = (false, false);
    walk(7, Faults::NONE, &mut Seen::default(), |simulation| {
        for view in simulation.views() {
            let saved = serde_json::to_string(view.state).expect("plain data");
            let restored: OnePaxos = serde_json::from_str(&saved).expect("what was saved");
            assert_eq!(&restored, view.state);
            let setup = member(view.id, &[1, 2, 3].map(NodeId::new), Bugs::default());
            let calls = |node: &OnePaxos| node.calls(view.id, &setup);
            assert_eq!(calls(&restored), calls(view.state));
            layers.0 |= !restored.acceptor.accepted.is_empty();
            layers.1 |= !restored.utility.chosen.is_empty();
        }
    });
    assert_eq!(layers, (true, true), "both layers had something to save");
}
