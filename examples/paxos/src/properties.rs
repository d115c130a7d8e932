//! What must hold in every state of both deployments; `properties.toml` says the same in CEL.

use scry::{Property, View};

use crate::roles::Acceptor;
use crate::service::{Paxos, Role};

/// Lists the properties.
pub fn all() -> Vec<Property<Paxos>> {
    vec![at_most_one_value_is_chosen(), no_vote_above_its_promise()]
}

/// The safety property of Paxos: no two nodes take different values for chosen, index by index.
fn at_most_one_value_is_chosen() -> Property<Paxos> {
    Property::pair(
        "at most one value is chosen",
        |node: &View<'_, Paxos>| {
            let chosen = &node.state.chosen;
            (!chosen.is_empty()).then(|| chosen.clone())
        },
        |(_, left), (_, right)| {
            left.iter()
                .all(|(index, value)| right.get(index).is_none_or(|other| other == value))
        },
    )
    .saying(|nodes| {
        let mut said = Vec::new();
        for node in nodes {
            for (index, value) in &node.state.chosen {
                said.push(format!("{} chose {value} for index {index}", node.id));
            }
        }
        said.join(", ")
    })
}

/// What makes a promise a promise: an acceptor never accepts in a round above the one it has promised.
fn no_vote_above_its_promise() -> Property<Paxos> {
    Property::node("no vote is above its promise", |node| {
        acceptors(node.state).all(|acceptor| {
            let vote = acceptor.vote;
            vote.accepted.map(|accepted| accepted.round) <= vote.promised
        })
    })
}

fn acceptors(paxos: &Paxos) -> impl Iterator<Item = &Acceptor> {
    match &paxos.role {
        Role::Acceptor(acceptor) => Some(acceptor),
        Role::Proposer(_) | Role::Retired => None,
    }
    .into_iter()
}
