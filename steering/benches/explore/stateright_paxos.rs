//! The plain deployment of `examples/paxos` as stateright actors.
//!
//! Written the way its documentation advises: small states of plain bytes, and a handler that has nothing to do leaves
//! its state borrowed, which stateright takes for "nothing happened".

use std::borrow::Cow;

use anyhow::{Result, ensure};
use stateright::actor::{Actor, ActorModel, Id, Network, Out};
use stateright::{Checker, Expectation, Model};

use crate::contender::{Clock, Measurement, peak_rss_bytes};
use crate::options::Size;

/// Explores the whole system, breadth-first on one thread.
pub(crate) fn explore(size: Size) -> Result<Measurement> {
    let model = model(size);
    let clock = Clock::start()?;
    let checker = model.checker().threads(1).spawn_bfs().join();
    let (seconds, cpu_seconds) = clock.stop()?;
    ensure!(
        checker.discoveries().is_empty(),
        "stateright takes a correct Paxos for wrong"
    );
    Ok(Measurement {
        states: checker.unique_state_count() as u64,
        // It counts the initial state as if a transition led there.
        transitions: checker.state_count() as u64 - 1,
        seconds,
        cpu_seconds,
        peak_rss_bytes: peak_rss_bytes()?,
        handler_runs: None,
    })
}

/// Ballots and values are the proposer's number from 1 on; 0 is none.
type Number = u8;

/// Acceptors have the ids from 0 on, so that a set of them is a bit mask; proposers have those that follow.
type Acceptors = u8;

/// What an acceptor has accepted: nothing, if the ballot is 0. Later votes are greater.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Vote {
    ballot: Number,
    value: Number,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Message {
    Prepare { ballot: Number },
    Promise { last: Vote },
    Accept { vote: Vote },
    Accepted,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Acceptor { promised: Number, last: Vote },
    Proposer(Round),
}

/// A proposer's only round.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Round {
    promised_by: Acceptors,
    highest: Vote,
    proposed: Number,
    accepted_by: Acceptors,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Acceptor,
    Proposer { ballot: Number },
}

#[derive(Clone, Copy, Debug)]
struct Node {
    role: Role,
    size: Size,
}

fn model(size: Size) -> ActorModel<Node, Size> {
    let acceptors = (0..size.acceptors).map(|_| Role::Acceptor);
    let proposers = (1..=size.proposers).map(|ballot| Role::Proposer { ballot });
    ActorModel::new(size, ())
        .actors(acceptors.chain(proposers).map(|role| Node { role, size }))
        .init_network(Network::new_unordered_nonduplicating([]))
        .property(
            Expectation::Always,
            "at most one value is chosen",
            |model, state| {
                let mut chosen = 0;
                for actor in &state.actor_states {
                    if let State::Proposer(round) = **actor
                        && round.has_chosen(model.cfg)
                    {
                        if chosen != 0 && chosen != round.proposed {
                            return false;
                        }
                        chosen = round.proposed;
                    }
                }
                true
            },
        )
}

impl Round {
    fn has_chosen(self, size: Size) -> bool {
        self.accepted_by.count_ones() >= u32::from(size.majority())
    }
}

impl Node {
    fn tell_acceptors(&self, out: &mut Out<Self>, message: Message) {
        for acceptor in 0..usize::from(self.size.acceptors) {
            out.send(acceptor.into(), message);
        }
    }
}

impl Actor for Node {
    type Msg = Message;
    type State = State;
    type Timer = ();
    type Random = ();
    type Storage = ();

    fn on_start(&self, _: Id, _: &Option<()>, out: &mut Out<Self>) -> State {
        match self.role {
            Role::Acceptor => State::Acceptor {
                promised: 0,
                last: Vote::default(),
            },
            Role::Proposer { ballot } => {
                self.tell_acceptors(out, Message::Prepare { ballot });
                State::Proposer(Round::default())
            }
        }
    }

    fn on_msg(
        &self,
        _: Id,
        state: &mut Cow<'_, State>,
        from: Id,
        message: Message,
        out: &mut Out<Self>,
    ) {
        match (self.role, **state, message) {
            (Role::Acceptor, State::Acceptor { promised, last }, Message::Prepare { ballot })
                if ballot > promised =>
            {
                let promised = ballot;
                *state.to_mut() = State::Acceptor { promised, last };
                out.send(from, Message::Promise { last });
            }
            (Role::Acceptor, State::Acceptor { promised, .. }, Message::Accept { vote })
                if vote.ballot >= promised =>
            {
                *state.to_mut() = State::Acceptor {
                    promised: vote.ballot,
                    last: vote,
                };
                out.send(from, Message::Accepted);
            }
            (Role::Proposer { ballot }, State::Proposer(mut round), Message::Promise { last })
                if round.proposed == 0 =>
            {
                round.promised_by |= 1 << usize::from(from);
                round.highest = round.highest.max(last);
                if round.promised_by.count_ones() >= u32::from(self.size.majority()) {
                    let value = match round.highest {
                        Vote { ballot: 0, .. } => ballot,
                        Vote { value, .. } => value,
                    };
                    round.proposed = value;
                    let vote = Vote { ballot, value };
                    self.tell_acceptors(out, Message::Accept { vote });
                }
                *state.to_mut() = State::Proposer(round);
            }
            (Role::Proposer { .. }, State::Proposer(mut round), Message::Accepted)
                if !round.has_chosen(self.size) =>
            {
                round.accepted_by |= 1 << usize::from(from);
                *state.to_mut() = State::Proposer(round);
            }
            _ => {}
        }
    }
}
