//! What the command line can start from.

use std::collections::BTreeSet;

use scry::{Bug, NodeId, Program, Request, Scenario, System};

use crate::service::{Setup, Token};

/// The name of the bug on the command line.
const HASTY: &str = "hasty";

/// The token has no options of its own.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {}

impl Program for Token {
    type Options = Options;

    const ABOUT: &'static str = "A token that goes round: whoever holds it may write";

    fn bugs() -> &'static [Bug] {
        &[Bug {
            name: HASTY,
            about: "a node that gets no thanks in time takes the token back",
        }]
    }

    fn setup(_: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            members: members.to_vec(),
            hasty: bugs.contains(HASTY),
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![Scenario {
            name: "start",
            about: "nodes that were just started, three unless --nodes says otherwise (limit it: --depth 12)",
            build: start,
        }]
    }
}

fn start(request: &Request<'_, Token>) -> Result<System<Token>, String> {
    let count = request.nodes.unwrap_or(3);
    if count < 2 {
        return Err("a token goes round among two nodes or more".into());
    }
    let members: Vec<NodeId> = (1..=count).map(NodeId::new).collect();
    let setup = Setup {
        members: members.clone(),
        hasty: request.has_bug(HASTY),
    };
    Ok(System::new(
        members.into_iter().map(|node| (node, setup.clone())),
    ))
}
