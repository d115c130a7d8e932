//! The situations a search can start from, and what the command line can ask of them.

use std::collections::BTreeSet;

use scry::{Act, Bug, Faults, NodeId, Program, Request, Scenario, System};

use crate::service::{Bugs, Call, Message, Part, Paxos, Setup};

/// The nodes of the paper's story.
const A: NodeId = NodeId::new(0);
const B: NodeId = NodeId::new(1);
const C: NodeId = NodeId::new(2);

/// Options of the command line that only Paxos has.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Options {
    /// Proposers: in `plain` nodes of their own that lead one round each (3), in `log` replicas that may propose (2).
    #[arg(long)]
    pub proposers: Option<u32>,
    /// Acceptors of the plain deployment.
    #[arg(long, default_value_t = 3)]
    pub acceptors: u32,
    /// The highest round number a replica of the log leads with.
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    /// How many indices the log has.
    #[arg(long, default_value_t = 1)]
    pub indices: u32,
}

impl Program for Paxos {
    type Options = Options;

    const ABOUT: &'static str =
        "Paxos: nodes agree on a value although messages are lost and nodes are reset";

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

    /// Every member is a replica that proposes its own id.
    fn setup(me: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            part: Part::Replica,
            acceptors: members.to_vec(),
            value: me.get(),
            rounds: u32::MAX,
            indices: u32::MAX,
            bugs: named_bugs(|name| bugs.contains(name)),
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![
            Scenario {
                name: "plain",
                about: "single-decree Paxos, --proposers and --acceptors on nodes of their own",
                build: plain,
            },
            Scenario {
                name: "single",
                about: "replicas of which one proposes one value",
                build: single,
            },
            Scenario {
                name: "log",
                about: "replicas of which --proposers propose, up to --rounds for each of --indices",
                build: log,
            },
            Scenario {
                name: "bug1",
                about: "n0 alone knows that its value is chosen, and n1 is about to propose (try --bug last-promise)",
                build: bug1,
            },
            Scenario {
                name: "bug2",
                about: "as bug1, after a reset of n1 (try --bug volatile-promise)",
                build: bug2,
            },
            Scenario {
                name: "reset",
                about: "as bug1, and the search may reset a node (try --bug volatile-promise)",
                build: reset,
            },
        ]
    }
}

fn plain(request: &Request<'_, Paxos>) -> Result<System<Paxos>, String> {
    let Options {
        proposers,
        acceptors,
        ..
    } = *request.options;
    if request.nodes.is_some() {
        return Err("the plain scenario counts its nodes by --proposers and --acceptors".into());
    }
    let proposers = proposers.unwrap_or(3);
    if proposers == 0 || acceptors == 0 {
        return Err("the plain scenario needs at least one proposer and one acceptor".into());
    }
    Ok(plain_system(proposers, acceptors, bugs(request)))
}

fn single(request: &Request<'_, Paxos>) -> Result<System<Paxos>, String> {
    let count = replica_count(request)?;
    Ok(replicas(count, 1, bugs(request), |node| (node == A).into()))
}

fn log(request: &Request<'_, Paxos>) -> Result<System<Paxos>, String> {
    let Options {
        proposers,
        rounds,
        indices,
        ..
    } = *request.options;
    let count = replica_count(request)?;
    let proposers = proposers.unwrap_or(2);
    let rounds = |node: NodeId| if node.get() < proposers { rounds } else { 0 };
    Ok(replicas(count, indices, bugs(request), rounds))
}

fn bug1(request: &Request<'_, Paxos>) -> Result<System<Paxos>, String> {
    three(request)?;
    Ok(learned_by_one(bugs(request)))
}

fn bug2(request: &Request<'_, Paxos>) -> Result<System<Paxos>, String> {
    three(request)?;
    Ok(learned_by_one_then_reset(bugs(request)))
}

fn reset(request: &Request<'_, Paxos>) -> Result<System<Paxos>, String> {
    three(request)?;
    let faults = Faults {
        resets: 1,
        ..Faults::NONE
    };
    Ok(learned_by_one(bugs(request)).faults(faults))
}

fn bugs(request: &Request<'_, Paxos>) -> Bugs {
    named_bugs(|name| request.has_bug(name))
}

fn named_bugs(has: impl Fn(&str) -> bool) -> Bugs {
    Bugs {
        last_promise: has("last-promise"),
        volatile_promise: has("volatile-promise"),
    }
}

fn replica_count(request: &Request<'_, Paxos>) -> Result<u32, String> {
    match request.nodes {
        Some(0) => Err("there must be a replica".into()),
        nodes => Ok(nodes.unwrap_or(3)),
    }
}

fn three(request: &Request<'_, Paxos>) -> Result<(), String> {
    match request.nodes {
        None | Some(3) => Ok(()),
        Some(_) => Err("this scenario is a story of three nodes".into()),
    }
}

/// Makes the plain deployment: acceptors have the ids from 0 on, proposers those that follow.
pub fn plain_system(proposers: u32, acceptors: u32, bugs: Bugs) -> System<Paxos> {
    let voters: Vec<NodeId> = (0..acceptors).map(NodeId::new).collect();
    System::new((0..acceptors + proposers).map(|number| {
        let part = if number < acceptors {
            Part::Acceptor
        } else {
            Part::Proposer
        };
        let setup = Setup {
            part,
            acceptors: voters.clone(),
            // Acceptors propose nothing; with equal settings what one of them does is known of all.
            value: if part == Part::Proposer { number } else { 0 },
            rounds: 1,
            indices: 1,
            bugs,
        };
        (NodeId::new(number), setup)
    }))
}

/// Makes replicas that propose their own id, each with as many rounds as `rounds` grants it.
pub fn replicas(
    count: u32,
    indices: u32,
    bugs: Bugs,
    rounds: impl Fn(NodeId) -> u32,
) -> System<Paxos> {
    let all: Vec<NodeId> = (0..count).map(NodeId::new).collect();
    System::new(all.iter().map(|&node| {
        let setup = Setup {
            part: Part::Replica,
            acceptors: all.clone(),
            value: node.get(),
            rounds: rounds(node),
            indices,
            bugs,
        };
        (node, setup)
    }))
}

/// The first round of CrystalBall's Figure 13: C is cut off, A and B accept A's value, and since A's Learn to B is
/// lost, only A knows that it is chosen. The second round is B's to lead, and for the search to find.
pub fn learned_by_one(bugs: Bugs) -> System<Paxos> {
    let index = 0;
    let value = A.get();
    let deliver = |from, to| Act::Deliver { from, to };
    let lose = |from, to, fits| Act::LoseWhere { from, to, fits };
    let prepare: fn(&Message) -> bool = |message| matches!(message, Message::Prepare { .. });
    let accept: fn(&Message) -> bool = |message| matches!(message, Message::Accept { .. });
    let learn: fn(&Message) -> bool = |message| matches!(message, Message::Learn { .. });
    // The paper's second round has one leader; with C leading none, the path found is the paper's own.
    let rounds = |node| match node {
        C => 0,
        _ => 2,
    };
    replicas(3, 1, bugs, rounds).script([
        Act::Call(A, Call::Propose { index, value }),
        lose(A, C, prepare),
        deliver(A, A), // Prepare, and so on in the order of the protocol
        deliver(A, B),
        deliver(A, A),
        deliver(B, A),
        lose(A, C, accept),
        deliver(A, A),
        deliver(A, B),
        lose(A, B, learn),
        lose(A, C, learn),
        lose(B, C, learn),
        deliver(A, A),
        deliver(B, A),
        deliver(B, B),
    ])
}

/// As [`learned_by_one`], with the reset of B that CrystalBall adds between the rounds for its second bug.
pub fn learned_by_one_then_reset(bugs: Bugs) -> System<Paxos> {
    let mut system = learned_by_one(bugs);
    system.script.push(Act::Reset {
        node: B,
        notice: true,
    });
    system
}
