//! The same walks without tables: what can happen is listed anew, and one handler runs, at every step.

use scry::model::event::{Event, EventOf, Step};
use scry::model::handler::Tosses;
use scry::model::simulation::Effectiveness;
use scry::property::{Judgement, Kind};
use scry::{NodeId, Property, Service, Simulation};

/// The weights of the strategy.
const CALL: u64 = 8;
const MESSAGE: u64 = 4;
const TIMER: u64 = 2;

/// Walks again and again from a state until all goals have held or nothing is left to do, and returns how many steps it took in
/// all. Of a handler's own choices it takes the first, which costs what any other costs.
pub(crate) fn walk<S: Service>(
    start: &Simulation<S>,
    properties: &[Property<S>],
    length: u64,
    steps: u64,
) -> u64 {
    let mut dice = 1_u64;
    let mut taken = 0;
    while taken < steps {
        let before = taken;
        let mut state = start.clone();
        let mut owed: Vec<&Property<S>> = properties
            .iter()
            .filter(|property| property.kind() == Kind::Eventually)
            .collect();
        for _ in 0..length {
            let Some(next) = step(&state, &mut dice) else {
                break;
            };
            state = next;
            taken += 1;
            let views = state.views();
            let safe = properties
                .iter()
                .filter(|property| property.kind() == Kind::Always)
                .all(|property| property.judge(&views) != Judgement::Violated);
            owed.retain(|property| property.judge(&views) != Judgement::Holds);
            if owed.is_empty() || !safe || taken >= steps {
                break;
            }
        }
        if taken == before {
            break;
        }
    }
    taken
}

/// Takes one of the steps that are possible and change something, each as likely as its weight says.
fn step<S: Service>(state: &Simulation<S>, dice: &mut u64) -> Option<Simulation<S>> {
    let mut possible: Vec<(NodeId, EventOf<S>, u64)> = Vec::new();
    for &node in state.nodes().keys() {
        for event in state.enabled(node) {
            let weight = match &event {
                fault if fault.fault().is_some() => continue,
                Event::Call(_) => CALL,
                Event::Timer(_) | Event::Start => TIMER,
                _ => MESSAGE,
            };
            possible.push((node, event, weight));
        }
    }
    while !possible.is_empty() {
        let total: u64 = possible.iter().map(|(_, _, weight)| weight).sum();
        let mut place = throw(dice) % total;
        let at = possible.iter().position(|(_, _, weight)| {
            let is_it = place < *weight;
            place = place.wrapping_sub(*weight);
            is_it
        });
        let (node, event, _) = possible.swap_remove(at?);
        let mut next = state.clone();
        let step = Step {
            node,
            event,
            tosses: Tosses::default(),
        };
        if next.step(&step) == Ok(Effectiveness::Changed) {
            return Some(next);
        }
    }
    None
}

fn throw(dice: &mut u64) -> u64 {
    // xorshift64: good enough to choose by, and nothing beside a handler.
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice
}
