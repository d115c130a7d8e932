//! The situations the papers tell of. Each is reached by events that the service's own handlers carry out.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use scry::{Act, Bug, Faults, NodeId, Program, Request, Scenario, System};

use crate::service::{Call, Chord, Timer};
use crate::setup::{Bugs, Setup};

/// How many nodes `fresh` has unless the command line says otherwise.
const FRESH_NODES: u32 = 3;

/// What the command line can set beside the bugs.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How many successors a node remembers.
    #[arg(long, default_value = "3")]
    pub successors: NonZeroUsize,
    /// Keep a finger at this distance on the ring (may be repeated).
    #[arg(long = "finger", value_name = "DISTANCE", default_value = "2")]
    pub fingers: Vec<u32>,
    /// Look fingers up by a timer of their own, instead of keeping only what is learned by the way.
    #[arg(long)]
    pub finger_lookups: bool,
    /// Let nodes in the ring ask their contacts now and then, so that separate rings find each other.
    #[arg(long)]
    pub reunite: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            successors: NonZeroUsize::MIN.saturating_add(2),
            fingers: vec![2],
            finger_lookups: false,
            reunite: false,
        }
    }
}

impl Program for Chord {
    type Options = Options;

    const ABOUT: &'static str = "The Chord ring: joining, stabilizing, losing nodes";

    fn bugs() -> &'static [Bug] {
        &[
            Bug {
                name: "self-predecessor",
                about: "a node that notified itself takes itself for its predecessor (CrystalBall Figure 10)",
            },
            Bug {
                name: "ordering",
                about: "a new successor list leaves the predecessor as it was (CrystalBall Figure 11)",
            },
            Bug {
                name: "stale-successor",
                about: "a node learned of becomes predecessor but not successor (MaceMC section 6)",
            },
        ]
    }

    /// The first member founds the ring.
    fn setup(_: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Setup> {
        Some(Setup {
            bugs: named_bugs(|name| bugs.contains(name)),
            ..Setup::new(members.first().copied())
        })
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![
            Scenario {
                name: "fresh",
                about: "N nodes that have not joined; the first founds the ring",
                build: fresh,
            },
            Scenario {
                name: "c1",
                about: "a ring n1 n2 n3 n4; n2 was reset, so n1 points to n3, with which it has no connection",
                build: c1,
            },
            Scenario {
                name: "c2",
                about: "n3 was alone; n1 and n2 have just joined it at the same time",
                build: c2,
            },
            Scenario {
                name: "liveness",
                about: "three nodes about to join through n0, without faults",
                build: liveness,
            },
            Scenario {
                name: "unheard",
                about: "n1 and n2 have joined, and n0 has not heard of either",
                build: unheard,
            },
        ]
    }
}

fn setup(request: &Request<'_, Chord>, contacts: &[u32]) -> Setup {
    let Options {
        successors,
        fingers,
        finger_lookups,
        reunite,
    } = request.options;
    let live = Setup::new(contacts.iter().copied().map(NodeId::new));
    Setup {
        successors_max: *successors,
        fingers: fingers.clone(),
        fingers_ms: live.fingers_ms.filter(|_| *finger_lookups),
        reunite_ms: live.reunite_ms.filter(|_| *reunite),
        bugs: named_bugs(|name| request.has_bug(name)),
        ..live
    }
}

fn named_bugs(has: impl Fn(&str) -> bool) -> Bugs {
    Bugs {
        self_predecessor: has("self-predecessor"),
        ordering: has("ordering"),
        stale_successor: has("stale-successor"),
    }
}

/// A fixed cast of nodes, each with its contacts.
fn cast(request: &Request<'_, Chord>, nodes: &[(u32, &[u32])]) -> Result<System<Chord>, String> {
    if let Some(count) = request.nodes
        && count as usize != nodes.len()
    {
        return Err(format!(
            "this scenario has {} nodes, not {count}",
            nodes.len()
        ));
    }
    Ok(System::new(nodes.iter().map(|(node, contacts)| {
        (NodeId::new(*node), setup(request, contacts))
    })))
}

fn fresh(request: &Request<'_, Chord>) -> Result<System<Chord>, String> {
    let count = request.nodes.unwrap_or(FRESH_NODES);
    if count == 0 {
        return Err("a ring needs at least one node".to_owned());
    }
    let everyone: Vec<u32> = (1..=count).collect();
    let setup = setup(request, &everyone);
    let nodes = everyone
        .iter()
        .map(|node| (NodeId::new(*node), setup.clone()));
    Ok(System::new(nodes).faults(Faults {
        resets: 1,
        ..Faults::NONE
    }))
}

/// CrystalBall Figure 10 with A, B, C as n1, n2, n3. There must be a fourth node: with three, C knows nobody but A, and
/// losing A leaves it rightly alone.
///
/// C joins through B and sits before D, so A hears of C only from B's list and never talks to it.
fn c1(request: &Request<'_, Chord>) -> Result<System<Chord>, String> {
    let [a, b, c, d] = [1, 2, 3, 4].map(NodeId::new);
    let join = |node| [Act::Call(node, Call::Join), Act::Settle];
    let stabilize = |node| [Act::Timer(node, Timer::Stabilize), Act::Settle];
    let mut script = Vec::new();
    script.extend(join(a));
    script.extend(join(d));
    script.extend(join(b));
    script.extend(stabilize(a));
    script.extend(join(c));
    // Backwards around the ring, so that one round takes every list to everybody; twice, so that it is settled.
    for node in [d, c, b, a, d, c, b, a] {
        script.extend(stabilize(node));
    }
    script.extend([
        Act::Reset {
            node: b,
            notice: true,
        },
        Act::Settle,
    ]);
    let system = cast(request, &[(1, &[1]), (2, &[1]), (3, &[2, 1]), (4, &[1])])?;
    Ok(system.script(script).faults(Faults {
        resets: 1,
        breaks: 1,
        ..Faults::NONE
    }))
}

/// CrystalBall Figure 11 with A_i, A_{i-1}, A_{i-2} as n3, n2, n1.
fn c2(request: &Request<'_, Chord>) -> Result<System<Chord>, String> {
    let [last, middle, first] = [3, 2, 1].map(NodeId::new);
    let deliver = |from, to| Act::Deliver { from, to };
    let script = vec![
        Act::Call(last, Call::Join),
        Act::Call(middle, Call::Join),
        Act::Call(first, Call::Join),
        // Both questions are answered before either answer arrives, so both answers are the same.
        deliver(middle, last),
        deliver(first, last),
        deliver(last, middle),
        deliver(last, first),
        // The notices that they have taken their places.
        deliver(first, last),
        deliver(middle, last),
    ];
    Ok(cast(request, &[(1, &[3]), (2, &[3]), (3, &[3])])?.script(script))
}

/// MaceMC §6 starts where nobody has joined; its nodes are called client0 to client2.
fn liveness(request: &Request<'_, Chord>) -> Result<System<Chord>, String> {
    cast(request, &[(0, &[0]), (1, &[0]), (2, &[0])])
}

/// MaceMC §6 at client0's fifth step. It does not know yet that it is not alone, and asks client2 for a place now and then; but
/// both others' notices are on their way, and with the bug the first of them ends that.
fn unheard(request: &Request<'_, Chord>) -> Result<System<Chord>, String> {
    let [first, second, third] = [0, 1, 2].map(NodeId::new);
    let join = |node| Act::Call(node, Call::Join);
    let deliver = |from, to| Act::Deliver { from, to };
    let mut system = cast(request, &[(0, &[0, 2]), (1, &[0]), (2, &[1])])?;
    for setup in system.setups.values_mut() {
        setup.patient = true;
    }
    Ok(system.script([
        join(first),
        join(second),
        deliver(second, first),
        deliver(first, second),
        join(third),
        deliver(third, second),
        deliver(second, third),
    ]))
}
