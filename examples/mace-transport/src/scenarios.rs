//! What the command line can start from.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use scry::{Act, Bug, Faults, NodeId, Program, Request, Scenario, System};

use crate::service::{Call, MaceTransport, Message, Sequence, Timer};
use crate::setup::{Bugs, Setup};

/// The name of the bug on the command line.
pub const STALE_SYN: &str = "stale-syn";

/// What can be set on the command line beside the common options.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many messages a sender has. With three, --retries must be greater too: what comes too early is not kept
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub messages: u32,
    /// How often the first packet of a connection is sent again before the connection is closed
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub open_retries: u32,
    /// How often any other packet is sent again. Where it has no end, neither has what can happen
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub retries: u32,
    /// How often another connection is opened for what a closed one has left
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub reopens: u32,
}

impl Program for MaceTransport {
    type Options = Options;

    const ABOUT: &'static str = "A reliable transport over datagrams, without a handshake";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: STALE_SYN,
            about: "a late first packet of an older connection replaces a younger one (MaceMC section 5)",
        }]
    }

    fn setup(_: NodeId, _: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            bugs: Bugs {
                stale_syn: bugs.contains(STALE_SYN),
            },
            ..Setup::default()
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![
            Scenario {
                name: "two-messages",
                about: "n1 has two messages for n2, and datagrams overtake each other (MaceMC figure 4)",
                build: two_messages,
            },
            Scenario {
                name: "overtaken",
                about: "as two-messages, after n2 got the first packet of the second connection before that of the first",
                build: overtaken,
            },
            Scenario {
                name: "both-ways",
                about: "n1 and n2 have two messages for each other",
                build: both_ways,
            },
            Scenario {
                name: "reset",
                about: "as two-messages, and one of the two may be reset",
                build: reset,
            },
        ]
    }
}

/// The paper's sender is n1, its receiver n2.
fn two_messages(request: &Request<'_, MaceTransport>) -> Result<System<MaceTransport>, String> {
    system(request, &[(1, Some(2)), (2, None)])
}

/// The first four steps of the paper's figure 4. The acknowledgement of 6001 is still on its way.
fn overtaken(request: &Request<'_, MaceTransport>) -> Result<System<MaceTransport>, String> {
    let system = two_messages(request)?;
    let [sender, receiver] = [1, 2].map(NodeId::new);
    let deliver = |fits| Act::DeliverWhere {
        from: sender,
        to: receiver,
        fits,
    };
    let mut script: Vec<Act<MaceTransport>> = vec![Act::Call(
        sender,
        Call::Send {
            to: receiver,
            texts: texts(request.options.messages),
        },
    )];
    let give_up = Timer::Retransmit {
        to: receiver,
        sequence: 2001,
    };
    for _ in 0..=request.options.open_retries {
        script.push(Act::Timer(sender, give_up.clone()));
    }
    script.extend([
        deliver(|message| is_packet(message, 6001)),
        deliver(|message| is_packet(message, 2001)),
    ]);
    Ok(system.script(script))
}

fn is_packet(message: &Message, sequence: Sequence) -> bool {
    matches!(message, Message::Data(packet) if packet.sequence == sequence)
}

fn both_ways(request: &Request<'_, MaceTransport>) -> Result<System<MaceTransport>, String> {
    system(request, &[(1, Some(2)), (2, Some(1))])
}

fn reset(request: &Request<'_, MaceTransport>) -> Result<System<MaceTransport>, String> {
    Ok(two_messages(request)?.faults(Faults {
        resets: 1,
        ..Faults::NONE
    }))
}

/// A fixed cast: who sends to whom.
fn system(
    request: &Request<'_, MaceTransport>,
    cast: &[(u32, Option<u32>)],
) -> Result<System<MaceTransport>, String> {
    if let Some(count) = request.nodes
        && count as usize != cast.len()
    {
        return Err(format!(
            "this scenario has {} nodes, not {count}",
            cast.len()
        ));
    }
    let &Options {
        messages,
        open_retries,
        retries,
        reopens,
    } = request.options;
    Ok(System::new(cast.iter().map(|&(node, to)| {
        let workload: BTreeMap<NodeId, Vec<String>> = to
            .into_iter()
            .map(|to| (NodeId::new(to), texts(messages)))
            .collect();
        let setup = Setup {
            open_retries,
            retries: Some(retries),
            reopens,
            workload,
            bugs: Bugs {
                stale_syn: request.has_bug(STALE_SYN),
            },
            ..Setup::default()
        };
        (NodeId::new(node), setup)
    })))
}

fn texts(count: u32) -> Vec<String> {
    (1..=count).map(|number| format!("m{number}")).collect()
}
