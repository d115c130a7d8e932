//! What the command line can start from.

use std::collections::BTreeSet;

use clap::Args;
use paxos::{Index, Part};
use scry::{Act, Bug, Faults, NodeId, Program, Request, Scenario, System};

use crate::service::{Call, Message, OnePaxos};
use crate::setup::{Bugs, Setup};

/// The name of the bug on the command line.
pub const INCREMENT: &str = "increment";

/// The nodes of the paper's story.
const N1: NodeId = NodeId::new(1);
const N2: NodeId = NodeId::new(2);
const N3: NodeId = NodeId::new(3);

/// What can be set on the command line beside the common options.
#[derive(Args, Clone, Copy, Debug)]
pub struct Options {
    /// How many values can be chosen
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub indices: Index,
    /// How many changes of leader or acceptor the Paxos below has room for, beside those of the scenario
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub changes: Index,
    /// The highest round number that somebody asks the Paxos below for a change with
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub rounds: u32,
}

impl Program for OnePaxos {
    type Options = Options;

    const ABOUT: &'static str =
        "1Paxos: one acceptor chooses, and a Paxos below says who accepts and who leads";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: INCREMENT,
            about: "to begin with, the acceptor is the leader itself (LMC section 5.6)",
        }]
    }

    /// Every member proposes its own id.
    fn setup(me: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        let bugs = Bugs {
            increment: bugs.contains(INCREMENT),
        };
        Some(member(me, members, bugs))
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![
            Scenario {
                name: "fresh",
                about: "three nodes that just started; try --changes 1",
                build: fresh,
            },
            Scenario {
                name: "taken-over",
                about: "n3 has taken the lead and got a value chosen, and n1 heard nothing of either (try --bug increment)",
                build: taken_over,
            },
            Scenario {
                name: "handed-over",
                about: "n1 had a value chosen, which only n3 knows, and has replaced n2 as acceptor by n3; try --changes 1",
                build: handed_over,
            },
            Scenario {
                name: "reset",
                about: "as taken-over, and one of the three may be reset",
                build: reset,
            },
        ]
    }
}

/// Returns the settings of a live member.
pub fn member(me: NodeId, members: &[NodeId], bugs: Bugs) -> Setup {
    Setup {
        utility: paxos::Setup {
            part: Part::Replica,
            acceptors: members.to_vec(),
            value: me.get(),
            rounds: u32::MAX,
            indices: Index::MAX,
            bugs: paxos::Bugs::default(),
        },
        value: me.get(),
        indices: Index::MAX,
        bugs,
    }
}

fn fresh(request: &Request<'_, OnePaxos>) -> Result<System<OnePaxos>, String> {
    system(request, 0)
}

/// The live state of the paper's story: N3 inserts that it leads, reads from the log below that N2 accepts, and N2 accepts its value.
/// Nothing of that reaches N1.
fn taken_over(request: &Request<'_, OnePaxos>) -> Result<System<OnePaxos>, String> {
    let propose = Call::Propose {
        index: 0,
        value: N3.get(),
    };
    let mut script = vec![Act::Call(N3, Call::SuspectLeader)];
    script.extend(entry_of(N3, N2, N1));
    script.extend([
        deliver(N3, N2, |it| matches!(it, Message::Prepare { .. })),
        deliver(N2, N3, |it| matches!(it, Message::Promise { .. })),
        Act::Call(N3, propose),
        deliver(N3, N2, |it| matches!(it, Message::Accept { .. })),
        lose(N2, N1, |it| matches!(it, Message::Learn { .. })),
        deliver(N2, N2, |it| matches!(it, Message::Learn { .. })),
        deliver(N2, N3, |it| matches!(it, Message::Learn { .. })),
    ]);
    Ok(system(request, 1)?.script(script))
}

/// N1 replaces N2, which has accepted N1's value, by N3. That the value is chosen only N3 has heard, and of the change it hears nothing.
fn handed_over(request: &Request<'_, OnePaxos>) -> Result<System<OnePaxos>, String> {
    if request.has_bug(INCREMENT) {
        return Err("with the bug, n2 is not the acceptor this scenario begins with".into());
    }
    let propose = Call::Propose {
        index: 0,
        value: N1.get(),
    };
    let mut script = vec![
        Act::Call(N1, propose),
        deliver(N1, N2, |it| matches!(it, Message::Accept { .. })),
        lose(N2, N1, |it| matches!(it, Message::Learn { .. })),
        lose(N2, N2, |it| matches!(it, Message::Learn { .. })),
        deliver(N2, N3, |it| matches!(it, Message::Learn { .. })),
        Act::Call(N1, Call::SuspectAcceptor),
        deliver(N1, N3, |it| matches!(it, Message::Handover { .. })),
        deliver(N3, N1, |it| matches!(it, Message::Ready { .. })),
    ];
    script.extend(entry_of(N1, N2, N3));
    Ok(system(request, 1)?.script(script))
}

fn reset(request: &Request<'_, OnePaxos>) -> Result<System<OnePaxos>, String> {
    Ok(taken_over(request)?.faults(Faults {
        resets: 1,
        ..Faults::NONE
    }))
}

/// The Paxos below chooses what `leader` has just asked it for, with `other` as the second acceptor. Nothing reaches `absent`.
fn entry_of(leader: NodeId, other: NodeId, absent: NodeId) -> Vec<Act<OnePaxos>> {
    let both = [leader, other];
    let asks = |is_request| {
        let heard = both.map(|to| deliver(leader, to, is_request));
        [lose(leader, absent, is_request)].into_iter().chain(heard)
    };
    let mut acts: Vec<_> = asks(is_prepare).collect();
    acts.extend(both.map(|from| deliver(from, leader, is_promise)));
    acts.extend(asks(is_accept));
    for from in both {
        acts.push(lose(from, absent, is_learn));
        acts.extend(both.map(|to| deliver(from, to, is_learn)));
    }
    acts
}

fn is_prepare(message: &Message) -> bool {
    matches!(message, Message::Utility(paxos::Message::Prepare { .. }))
}

fn is_promise(message: &Message) -> bool {
    matches!(message, Message::Utility(paxos::Message::Promise { .. }))
}

fn is_accept(message: &Message) -> bool {
    matches!(message, Message::Utility(paxos::Message::Accept { .. }))
}

fn is_learn(message: &Message) -> bool {
    matches!(message, Message::Utility(paxos::Message::Learn { .. }))
}

fn deliver(from: NodeId, to: NodeId, fits: fn(&Message) -> bool) -> Act<OnePaxos> {
    Act::DeliverWhere { from, to, fits }
}

fn lose(from: NodeId, to: NodeId, fits: fn(&Message) -> bool) -> Act<OnePaxos> {
    Act::LoseWhere { from, to, fits }
}

/// Three members, and room in the log below for the changes of the script and for those the search may make.
fn system(request: &Request<'_, OnePaxos>, scripted: Index) -> Result<System<OnePaxos>, String> {
    if !matches!(request.nodes, None | Some(3)) {
        return Err("this scenario is a story of three nodes".into());
    }
    let &Options {
        indices,
        changes,
        rounds,
    } = request.options;
    let members = [N1, N2, N3];
    let bugs = Bugs {
        increment: request.has_bug(INCREMENT),
    };
    Ok(System::new(members.map(|me| {
        let mut setup = member(me, &members, bugs);
        setup.indices = indices;
        setup.utility.indices = scripted + changes;
        setup.utility.rounds = rounds;
        (me, setup)
    })))
}
