//! The plain deployment a second time, as bits in arrays: written from the protocol, sharing no code with the service.

use rustc_hash::FxHashSet;

const PROPOSERS_MAX: usize = 3;
const ACCEPTORS_MAX: usize = 3;

/// Ballots and values are the proposer's number from 1 on; 0 is none. A set of acceptors is a bit mask.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
struct State {
    acceptors: [Acceptor; ACCEPTORS_MAX],
    proposers: [Proposer; PROPOSERS_MAX],
}

#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
struct Acceptor {
    promised: u8,
    ballot: u8,
    value: u8,
}

#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
struct Proposer {
    promised_by: u8,
    highest: (u8, u8),
    proposed: u8,
    accepted_by: u8,
    done: bool,
    /// Messages on their way to and from this proposer.
    prepares: u8,
    promises: [Option<(u8, u8)>; ACCEPTORS_MAX],
    accepts: u8,
    accepteds: u8,
}

/// Returns the number of states and of transitions.
pub(crate) fn count(proposers: usize, acceptors: usize) -> (usize, usize) {
    let everyone = (1 << acceptors) - 1;
    let mut start = State::default();
    for proposer in &mut start.proposers[..proposers] {
        proposer.prepares = everyone;
    }
    let mut seen = FxHashSet::from_iter([start]);
    let mut open = vec![start];
    let mut transitions = 0;
    while let Some(state) = open.pop() {
        for proposer in 0..proposers {
            for acceptor in 0..acceptors {
                for next in steps(&state, proposer, acceptor, acceptors) {
                    transitions += 1;
                    if seen.insert(next) {
                        open.push(next);
                    }
                }
            }
        }
    }
    (seen.len(), transitions)
}

/// Lists what can happen between one proposer and one acceptor: one step for each message that has an effect.
fn steps(state: &State, proposer: usize, acceptor: usize, acceptors: usize) -> Vec<State> {
    let ballot = proposer as u8 + 1;
    let bit = 1 << acceptor;
    let quorum = acceptors as u32 / 2 + 1;
    let mut all = Vec::new();
    let mut next = *state;
    let (p, a) = (&mut next.proposers[proposer], &mut next.acceptors[acceptor]);
    if p.prepares & bit != 0 && ballot > a.promised {
        p.prepares &= !bit;
        a.promised = ballot;
        p.promises[acceptor] = Some((a.ballot, a.value));
        all.push(next);
    }
    let mut next = *state;
    let p = &mut next.proposers[proposer];
    if let (Some(promise), 0) = (p.promises[acceptor].take(), p.proposed) {
        p.promised_by |= bit;
        p.highest = p.highest.max(promise);
        if p.promised_by.count_ones() >= quorum {
            p.proposed = if p.highest.0 > 0 { p.highest.1 } else { ballot };
            p.accepts = (1 << acceptors) - 1;
        }
        all.push(next);
    }
    let mut next = *state;
    let (p, a) = (&mut next.proposers[proposer], &mut next.acceptors[acceptor]);
    if p.accepts & bit != 0 && ballot >= a.promised {
        p.accepts &= !bit;
        *a = Acceptor {
            promised: ballot,
            ballot,
            value: p.proposed,
        };
        p.accepteds |= bit;
        all.push(next);
    }
    let mut next = *state;
    let p = &mut next.proposers[proposer];
    if p.accepteds & bit != 0 && !p.done {
        p.accepteds &= !bit;
        p.accepted_by |= bit;
        p.done = p.accepted_by.count_ones() >= quorum;
        all.push(next);
    }
    all
}
