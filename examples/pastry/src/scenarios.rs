//! What the command line can start from.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use clap::Args;
use scry::{Act, Bug, Faults, NodeId, Program, Request, Scenario, System};

use crate::service::{Call, Pastry};
use crate::setup::{Bugs, Setup};

/// The name of the bug on the command line.
pub const REJOIN: &str = "rejoin";

/// What can be set on the command line beside the common options.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many nodes a node remembers on each side
    #[arg(long, value_name = "COUNT", default_value = "2")]
    pub side: NonZeroUsize,
    /// Ask again for a place even if the last question may still be answered. What can happen then has no end
    #[arg(long)]
    pub impatient: bool,
}

impl Program for Pastry {
    type Options = Options;

    const ABOUT: &'static str = "Pastry's leaf sets: joining, and joining again";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: REJOIN,
            about: "a restarted node's requests to join are routed to that node (MaceMC section 1)",
        }]
    }

    /// The first member founds the ring.
    fn setup(_: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            bugs: Bugs {
                rejoin: bugs.contains(REJOIN),
            },
            ..Setup::new(members.iter().copied())
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![
            Scenario {
                name: "steady",
                about: "two nodes in a ring, or --nodes, and one may be restarted without anybody's notice",
                build: steady,
            },
            Scenario {
                name: "restarted",
                about: "as steady, and the last node was restarted",
                build: restarted,
            },
            Scenario {
                name: "fresh",
                about: "two nodes, or --nodes, that have not joined",
                build: fresh,
            },
        ]
    }
}

fn fresh(request: &Request<'_, Pastry>) -> Result<System<Pastry>, String> {
    let nodes = members(request)?;
    let setup = Setup {
        side_max: request.options.side,
        patient: !request.options.impatient,
        bugs: Bugs {
            rejoin: request.has_bug(REJOIN),
        },
        // Everybody asks the founder. That it asks the others, too, as live, would give a search no end.
        ..Setup::new([NodeId::new(1)])
    };
    Ok(System::new(
        nodes.into_iter().map(|node| (node, setup.clone())),
    ))
}

/// MaceMC needs a prefix for this bug: an execution after which all nodes have joined and everything is steady (§4.2).
fn steady(request: &Request<'_, Pastry>) -> Result<System<Pastry>, String> {
    Ok(fresh(request)?.script(ring(request)?).faults(Faults {
        silent_resets: 1,
        ..Faults::NONE
    }))
}

fn restarted(request: &Request<'_, Pastry>) -> Result<System<Pastry>, String> {
    let mut script = ring(request)?;
    let last = members(request)?.pop();
    script.extend(last.map(|node| Act::Reset {
        node,
        notice: false,
    }));
    Ok(fresh(request)?.script(script))
}

/// Everybody joins, one after the other.
fn ring(request: &Request<'_, Pastry>) -> Result<Vec<Act<Pastry>>, String> {
    let join = |node| [Act::Call(node, Call::Join), Act::Settle];
    Ok(members(request)?.into_iter().flat_map(join).collect())
}

fn members(request: &Request<'_, Pastry>) -> Result<Vec<NodeId>, String> {
    match request.nodes.unwrap_or(2) {
        count @ 2.. => Ok((1..=count).map(NodeId::new).collect()),
        _ => Err("a ring has two nodes or more".to_owned()),
    }
}
