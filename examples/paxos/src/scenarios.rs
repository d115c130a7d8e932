//! The situations a search can start from, and what the command line can ask of them.

use scry::{Bug, NodeId, Program, Property, Request, Scenario, System};

use crate::properties;
use crate::service::{Bugs, Part, Paxos, Setup};

/// Options of the command line that only Paxos has.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Options {
    /// Proposers of the plain deployment; each leads one round.
    #[arg(long, default_value_t = 3)]
    pub proposers: u32,
    /// Acceptors of the plain deployment.
    #[arg(long, default_value_t = 3)]
    pub acceptors: u32,
}

impl Program for Paxos {
    type Options = Options;

    const ABOUT: &'static str =
        "Paxos: nodes agree on a value although messages are late and nodes are reset";

    fn bugs() -> &'static [Bug] {
        &[
            Bug {
                name: "last-promise",
                about: "a leader proposes the value of the promise it got last",
            },
            Bug {
                name: "volatile-promise",
                about: "an acceptor does not write its vote to disk",
            },
        ]
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![Scenario {
            name: "plain",
            about: "single-decree Paxos, proposers and acceptors on nodes of their own",
            build: |request| plain(request),
        }]
    }

    fn properties() -> Vec<Property<Self>> {
        properties::all()
    }
}

fn bugs(request: &Request<'_, Paxos>) -> Bugs {
    Bugs {
        last_promise: request.has_bug("last-promise"),
        volatile_promise: request.has_bug("volatile-promise"),
    }
}

fn plain(request: &Request<'_, Paxos>) -> Result<System<Paxos>, String> {
    let Options {
        proposers,
        acceptors,
    } = *request.options;
    if request.nodes.is_some() {
        return Err("the plain scenario counts its nodes by --proposers and --acceptors".into());
    }
    if proposers == 0 || acceptors == 0 {
        return Err("the plain scenario needs at least one proposer and one acceptor".into());
    }
    Ok(plain_system(proposers, acceptors, bugs(request)))
}

/// Makes the plain deployment: acceptors have the ids from 0 on, proposers those that follow.
pub fn plain_system(proposers: u32, acceptors: u32, bugs: Bugs) -> System<Paxos> {
    let voters: Vec<NodeId> = (0..acceptors).map(NodeId::new).collect();
    let setup = |part, value| Setup {
        part,
        acceptors: voters.clone(),
        value,
        bugs,
    };
    System::new((0..acceptors + proposers).map(|number| {
        let part = if number < acceptors {
            Part::Acceptor
        } else {
            Part::Proposer
        };
        (NodeId::new(number), setup(part, number))
    }))
}
