//! The situations to start from: a fresh cluster, and each live start state of the papers, reached by real events.
//!
//! | scenario | story | leads to | with the bug |
//! |---|---|---|---|
//! | `r1` | CrystalBall §1.2, figure 2 | children and siblings overlap | `update-sibling` |
//! | `r2` | CrystalBall §5.2.1, figure 9 | the root is a child | `new-root` |
//! | `r3` | CrystalBall §5.2.1 | a root has siblings | `promote` |
//! | `r4` | CrystalBall §5.2.1 | peers and no timer | `timer` |
//! | `r5` | MaceMC §6 | a node stays the child of two for good | `ignored-reply` |
//! | `r6` | MaceMC §2 | two trees that never merge | `two-trees` |
//! | `late-reply` | MaceMC §6 | as `r5`, and what can happen has an end | `ignored-reply` |
//! | `torn` | MaceMC §2 | as `r6`, with a third node that may join meanwhile | `two-trees` |

use std::collections::BTreeSet;

use clap::Args;
use scry::{Act, Bug, Faults, NodeId, Program, Request, Scenario, System};

use crate::message::{Call, Message, Timer};
use crate::service::RandTree;
use crate::setup::{Announce, Bugs, Setup};

/// What can be set on the command line beside the common options.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// How many children a node takes (scenario `fresh` only; default 2)
    #[arg(long, value_name = "N")]
    pub degree: Option<u32>,
    /// When a root that gives up its role tells its children (default: as the scenario's story has it)
    #[arg(long, value_name = "WHEN")]
    pub announce: Option<Announce>,
    /// Let the recovery timer also say a word on every connection
    #[arg(long)]
    pub keepalive: bool,
}

impl Program for RandTree {
    type Options = Options;

    const ABOUT: &'static str = "A random overlay tree of bounded degree";

    fn bugs() -> &'static [Bug] {
        &[
            Bug {
                name: "update-sibling",
                about: "a new sibling stays in the list of children",
            },
            Bug {
                name: "new-root",
                about: "a new root stays in the list of children",
            },
            Bug {
                name: "promote",
                about: "a child that takes the place of its lost root keeps its siblings",
            },
            Bug {
                name: "timer",
                about: "a node that founds a tree arms no recovery timer",
            },
            Bug {
                name: "ignored-reply",
                about: "a node that was reset ignores a reply instead of declining it",
            },
            Bug {
                name: "two-trees",
                about: "a child that takes the place of its lost root stops its recovery timer",
            },
        ]
    }

    /// The first member is the designated node.
    fn setup(_: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            bootstrap: members.first().copied().into_iter().collect(),
            bugs: named_bugs(|name| bugs.contains(name)),
            ..Setup::default()
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        let scenario = |name, about, build| Scenario { name, about, build };
        vec![
            scenario("fresh", "N nodes that have not joined yet", fresh),
            scenario("r1", "n1 root above n9 above n13, and n13 may be reset", r1),
            scenario(
                "r2",
                "n61 root of n5, n65, n69, and n9 below n69 may be reset",
                r2,
            ),
            scenario(
                "r3",
                "n2 gives the root to n1 and may be reset before n3, n4 hear of it",
                r3,
            ),
            scenario(
                "r4",
                "n2 has founded a tree and n1, more eligible, has not joined yet",
                r4,
            ),
            scenario(
                "r5",
                "n2 has taken n4 in, and n4 may be reset before it hears of it",
                r5,
            ),
            scenario(
                "r6",
                "n1 is root of n2 and n3, and its connection to n2 may break",
                r6,
            ),
            scenario(
                "late-reply",
                "n3 has taken n4 in, n4 was reset before it heard of it, and n2 has room for it now",
                late_reply,
            ),
            scenario(
                "torn",
                "n1 is root of n3, their connection may break, and n2 has not joined yet",
                torn,
            ),
        ]
    }
}

fn fresh(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let nodes = request.nodes.unwrap_or(3);
    let degree_max = request.options.degree.unwrap_or(2);
    if nodes == 0 {
        return Err("a tree needs at least one node".to_owned());
    }
    if degree_max == 0 {
        return Err(
            "a node that takes no children makes no tree: --degree must be at least 1".to_owned(),
        );
    }
    let setup = Setup {
        degree_max,
        bootstrap: vec![NodeId::new(1)],
        ..base(request, Announce::AfterReply)
    };
    let cast = (1..=nodes).map(|id| (NodeId::new(id), setup.clone()));
    Ok(System::new(cast).faults(Faults {
        resets: 1,
        silent_resets: 1,
        breaks: 1,
        ..Faults::NONE
    }))
}

/// Node 13 joins 9, then 1 joins and takes over the root: 9 steps here, where the paper counts 13.
fn r1(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let setup = told(request, Announce::AfterReply)?;
    let cast = [(1, &[9][..]), (9, &[9]), (13, &[1, 9])];
    let script = vec![
        join(9),
        // Of its two designated nodes 13 asks the second now; after its reset it may ask the first.
        Act::Picking(vec![1], Box::new(join(13))),
        Act::Settle,
        join(1),
        Act::Settle,
    ];
    Ok(system(&setup, &cast).script(script).faults(Faults {
        silent_resets: 1,
        ..Faults::NONE
    }))
}

/// A better root, 1, sat above a full tree when 9 came, so 9 went below 69; then 1 left, its children 61, 65 and 69
/// each took its place, and their probes brought them together under 61. Node 1 is still there and may come back.
fn r2(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let setup = Setup {
        degree_max: 3,
        eligibility: [1, 9, 61, 65, 69, 5].map(NodeId::new).to_vec(),
        ..told(request, Announce::AfterReply)?
    };
    let cast = [
        (1, &[1][..]),
        (5, &[61]),
        (9, &[61, 65]),
        (61, &[65]),
        (65, &[1]),
        (69, &[65]),
    ];
    let mut script = vec![join(1)];
    for node in [65, 61, 69] {
        script.extend([join(node), Act::Settle]);
    }
    // The root is full and picks one of 61, 65, 69. Node 9 asks the second of its designated nodes now; after its
    // reset it may ask the first, with which it has no old connection.
    for (node, asks, designated, pick) in [(5, 61, 0, 0), (9, 65, 1, 2)] {
        script.extend([
            Act::Picking(vec![designated], Box::new(join(node))),
            deliver(node, asks),
            Act::Picking(vec![pick], Box::new(deliver(asks, 1))),
            Act::Settle,
        ]);
    }
    script.extend([
        Act::Reset {
            node: NodeId::new(1),
            notice: true,
        },
        Act::Settle,
        recovery(61),
        Act::Settle,
        recovery(65),
        Act::Settle,
        recovery(69),
        Act::Settle,
    ]);
    Ok(system(&setup, &cast).script(script).faults(Faults {
        silent_resets: 1,
        ..Faults::NONE
    }))
}

/// Nodes A, B, C, R of the paper are 2, 3, 4, 1.
fn r3(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let setup = told(request, Announce::AtOnce)?;
    let cast = [(1, &[2][..]), (2, &[2]), (3, &[2]), (4, &[2])];
    let script = vec![
        join(2),
        join(3),
        Act::Settle,
        join(4),
        Act::Settle,
        join(1),
        deliver(1, 2),
    ];
    Ok(system(&setup, &cast).script(script).faults(Faults {
        resets: 1,
        ..Faults::NONE
    }))
}

/// Nodes A and B of the paper are 2 and 1.
fn r4(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let setup = told(request, Announce::AfterReply)?;
    Ok(system(&setup, &[(1, &[2]), (2, &[2])]).script([join(2)]))
}

/// Nodes A, B, C, D of the paper are 2, 3, 4, 5. The root is a fifth, 1, which is full: a root that has taken C in
/// would do so again, and not send it to D.
fn r5(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let setup = Setup {
        degree_max: 2,
        ..told(request, Announce::AfterReply)?
    };
    let cast = [(1, &[1][..]), (2, &[1]), (3, &[1]), (4, &[3]), (5, &[1])];
    let script = vec![
        join(1),
        join(2),
        Act::Settle,
        join(5),
        Act::Settle,
        join(3),
        // Of its children 2 and 5 the root picks 2, now and again.
        Act::Picking(vec![0], Box::new(deliver(3, 1))),
        Act::Settle,
        join(4),
        deliver(4, 3),
        Act::Picking(vec![0], Box::new(deliver(3, 1))),
        deliver(1, 2),
    ];
    Ok(system(&setup, &cast).script(script).faults(Faults {
        silent_resets: 1,
        ..Faults::NONE
    }))
}

/// Node A of the paper is 2. When its connection to the root breaks it founds the second tree, and nobody in the first
/// keeps a memory of it: only 2 can bring them together.
fn r6(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let setup = told(request, Announce::AfterReply)?;
    let cast = [(1, &[1][..]), (2, &[1]), (3, &[1])];
    let script = vec![join(1), join(3), Act::Settle, join(2), Act::Settle];
    Ok(system(&setup, &cast).script(script).faults(Faults {
        breaks: 1,
        ..Faults::NONE
    }))
}

/// Nodes A, B, C, D of the paper are 3, 1, 4, 2. Node 5 was below 2 when 4 came, so that 2 passed 4 on to 3, and has gone down since.
///
/// Every way that a request of 4 can take ends at 2, which has room; and 2 is not the root, which would tell its children of 4. So
/// once the reply is ignored, nobody ever says to 3 that 4 is not its child. For that, 5 must not take its old place before 4
/// has one: it knows nobody but 4, which it joined through when 4 was in the tree for the first time.
fn late_reply(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let setup = Setup {
        degree_max: 2,
        ask_again: false,
        ..told(request, Announce::AfterReply)?
    };
    let cast = [(1, &[1][..]), (2, &[1]), (3, &[1]), (4, &[1]), (5, &[4])];
    let mut system = system(&setup, &cast);
    if let Some(root) = system.setups.get_mut(&NodeId::new(1)) {
        root.degree_max = 1;
    }
    let [below, late, gone] = [2, 4, 5].map(NodeId::new);
    let mut script = Vec::new();
    for node in [1, 2, 4, 5] {
        script.extend([join(node), Act::Settle]);
    }
    script.extend([
        Act::Reset {
            node: late,
            notice: true,
        },
        Act::Settle,
        join(3),
        Act::Settle,
        join(4),
        deliver(4, 1),
        // Of its children 3 and 5, 2 picks 3.
        Act::Picking(vec![0], Box::new(deliver(1, 2))),
        deliver(2, 3),
        Act::Stop(gone),
        Act::SettleAmong(vec![below, gone]),
        Act::Reset {
            node: late,
            notice: false,
        },
    ]);
    Ok(system.script(script))
}

/// Node A of the paper is 3: as in `r6`, only it knows of the other tree.
fn torn(request: &Request<'_, RandTree>) -> Result<System<RandTree>, String> {
    let setup = Setup {
        ask_again: false,
        ..told(request, Announce::AfterReply)?
    };
    let cast = [(1, &[1][..]), (2, &[1]), (3, &[1])];
    let script = vec![join(1), join(3), Act::Settle];
    Ok(system(&setup, &cast).script(script).faults(Faults {
        breaks: 1,
        ..Faults::NONE
    }))
}

/// The settings of a scenario that tells a story: its cast and its degree are not for the command line to change.
fn told(request: &Request<'_, RandTree>, announce: Announce) -> Result<Setup, String> {
    if request.nodes.is_some() || request.options.degree.is_some() {
        return Err(
            "this scenario has its own nodes: --nodes and --degree are for `fresh`".to_owned(),
        );
    }
    Ok(base(request, announce))
}

fn base(request: &Request<'_, RandTree>, announce: Announce) -> Setup {
    Setup {
        announce: request.options.announce.unwrap_or(announce),
        keepalive: request.options.keepalive,
        bugs: named_bugs(|name| request.has_bug(name)),
        ..Setup::default()
    }
}

fn named_bugs(has: impl Fn(&str) -> bool) -> Bugs {
    Bugs {
        update_sibling: has("update-sibling"),
        new_root: has("new-root"),
        promote: has("promote"),
        timer: has("timer"),
        ignored_reply: has("ignored-reply"),
        two_trees: has("two-trees"),
    }
}

/// Makes a system of nodes with their designated nodes.
fn system(setup: &Setup, cast: &[(u32, &[u32])]) -> System<RandTree> {
    System::new(cast.iter().map(|&(id, bootstrap)| {
        let bootstrap = bootstrap.iter().copied().map(NodeId::new).collect();
        (
            NodeId::new(id),
            Setup {
                bootstrap,
                ..setup.clone()
            },
        )
    }))
}

fn join(node: u32) -> Act<RandTree> {
    Act::Call(NodeId::new(node), Call::Join)
}

fn recovery(node: u32) -> Act<RandTree> {
    Act::Timer(NodeId::new(node), Timer::Recovery)
}

/// Delivers the request that one node passed to another.
fn deliver(from: u32, to: u32) -> Act<RandTree> {
    Act::DeliverWhere {
        from: NodeId::new(from),
        to: NodeId::new(to),
        fits: |message| matches!(message, Message::Join { .. }),
    }
}
