//! A graph cut down to what a question needs: the steps towards its goal, and those that send what these take.
//!
//! Leaving a step out is allowed only if every goal that can be reached at all can be reached without it:
//!
//! - A node that must stand in a goal state takes only steps from which one can be reached; any other node only steps from
//!   which something can be sent that is needed. Leftovers on the network harm nobody.
//! - A *detour* is a step without sends from which nothing can be done that could not be done without it, with the same
//!   needs and at least the same sends. The shortest way takes none.
//! - A datagram counts as on its way only while its receiver can still use it.

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::explore::local::graph::{Edge, Graph, Node};
use crate::model::fault::Fault;
use crate::model::network::Parcel;

/// What a question asks: nodes that stand in states of these classes at once.
#[derive(Debug)]
pub(super) struct Goal {
    /// By node: the classes of its local states from 1 on, 0 for none; nothing for a node that may stand anywhere.
    pub(super) classes: Vec<Option<Vec<u32>>>,
    /// The classes that take part in what is asked, by node and class.
    pub(super) wanted: Vec<Vec<bool>>,
}

/// What is left of a graph for a question.
#[derive(Debug)]
pub(super) struct Trimmed {
    pub(super) sides: Vec<Side>,
    /// The datagrams that matter, with their receivers and senders, by receiver.
    pub(super) datagrams: Vec<Datagram>,
    /// The datagrams of the start state, by number.
    pub(super) initial: Vec<u32>,
    /// What was read of the graph: if this is the same, so is the answer.
    pub(super) read: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    pub(super) to: u16,
    pub(super) from: u16,
}

/// What is left of a node.
#[derive(Debug)]
pub(super) struct Side {
    /// The classes of its states, if it is asked about.
    pub(super) classes: Option<Vec<u32>>,
    /// By state.
    pub(super) outs: Vec<Vec<Kept>>,
    /// By state, how far it is.
    pub(super) depth: Vec<u32>,
    /// By state, which of the node's datagrams can still be used.
    useful: Vec<u64>,
    words: usize,
    /// Its datagrams are those from here on.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Whether connections matter at it, so that the order of steps does.
    pub(super) ordered: bool,
}

/// A step that is left.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// Which one of the graph.
    pub(super) edge: u32,
    pub(super) to: u32,
    /// The datagram it takes.
    pub(super) takes: Option<u32>,
    /// Whether it takes something of a connection.
    pub(super) of_connection: bool,
    /// The datagrams it leaves that matter.
    pub(super) sends: Vec<u32>,
    pub(super) fault: Option<Fault>,
    pub(super) wipes: bool,
}

impl Side {
    /// Tells whether one of the node's datagrams can still be used.
    #[inline]
    pub(super) fn is_useful(&self, state: u32, number: usize) -> bool {
        let at = state as usize * self.words + number / 64;
        self.useful[at] >> (number % 64) & 1 == 1
    }
}

/// Steps of a node by number, and which are left.
type Left = Vec<bool>;

/// Cuts a graph down for a goal; `None` if the goal cannot be reached whatever is on its way. `loops` tells whether steps
/// count that leave a node where it is.
pub(super) fn trim(graph: &Graph, goal: Goal, loops: bool) -> Result<Trimmed, Vec<usize>> {
    let mut left: Vec<Left> = Vec::new();
    let mut read = vec![goal.wanted.iter().flatten().filter(|&&it| it).count()];
    for (node, classes) in graph.nodes.iter().zip(&goal.classes) {
        let position = left.len();
        left.push(match classes {
            Some(classes) => {
                let is_goal = |state: usize| goal.wanted[position][classes[state] as usize];
                let goals: Vec<bool> = (0..node.states.len()).map(is_goal).collect();
                read.push(goals.iter().filter(|&&it| it).count());
                towards(node, goals, |_| false)
            }
            None => vec![false; node.edges.len()],
        });
    }
    // Who is not asked about matters for what it sends.
    let mut needed = vec![false; graph.sent.len()];
    loop {
        let before = needed.iter().filter(|&&it| it).count();
        for (node, left) in graph.nodes.iter().zip(&left) {
            let taken = node.edges.iter().zip(left).filter(|(_, left)| **left);
            for number in taken.filter_map(|(edge, _)| edge.takes) {
                needed[number as usize] = true;
            }
        }
        for (position, node) in graph.nodes.iter().enumerate() {
            if goal.classes[position].is_none() {
                // On a connection, what is needed comes only after what is not.
                let helps = |edge: &Edge| {
                    graph.streams || edge.sends.iter().any(|&number| needed[number as usize])
                };
                left[position] = towards(node, vec![false; node.states.len()], helps);
            }
        }
        if needed.iter().filter(|&&it| it).count() == before {
            break;
        }
    }
    read.extend(
        left.iter()
            .map(|left| left.iter().filter(|&&it| it).count()),
    );
    for (node, left) in graph.nodes.iter().zip(&mut left) {
        for (edge, left) in node.edges.iter().zip(left) {
            *left &= loops || edge.from != edge.to;
        }
    }
    possible(graph, &mut left);
    let reaches = |position: usize| {
        let (node, classes) = (&graph.nodes[position], &goal.classes[position]);
        let is_goal = |state: u32| {
            let class = classes.as_ref().map(|classes| classes[state as usize]);
            class.is_none_or(|class| goal.wanted[position][class as usize])
        };
        let ends = node.edges.iter().zip(&left[position]);
        is_goal(0)
            || ends
                .filter(|(_, left)| **left)
                .any(|(edge, _)| is_goal(edge.to))
    };
    if !(0..graph.nodes.len()).all(reaches) {
        return Err(read);
    }
    if !graph.streams {
        for (position, node) in graph.nodes.iter().enumerate() {
            drop_detours(node, &goal, position, &mut left[position]);
        }
    }
    Ok(assemble(graph, goal, &left, read))
}

/// Finds the steps from which one that helps or a goal state can be reached, those that help among them.
fn towards(node: &Node, goals: Vec<bool>, helps: impl Fn(&Edge) -> bool) -> Left {
    let mut within = goals;
    let mut entries: Vec<Vec<u32>> = vec![Vec::new(); node.states.len()];
    for edge in &node.edges {
        entries[edge.to as usize].push(edge.from);
        within[edge.from as usize] |= helps(edge);
    }
    let marked = within.iter().enumerate().filter(|(_, within)| **within);
    let mut waiting: Vec<u32> = marked.map(|(state, _)| state as u32).collect();
    while let Some(state) = waiting.pop() {
        for &from in &entries[state as usize] {
            if !within[from as usize] {
                within[from as usize] = true;
                waiting.push(from);
            }
        }
    }
    let left = |edge: &Edge| within[edge.to as usize] || helps(edge);
    node.edges.iter().map(left).collect()
}

/// Leaves only steps that could be taken if nothing that was sent were ever used up.
fn possible(graph: &Graph, left: &mut [Left]) {
    let mut there = vec![false; graph.sent.len()];
    for &number in &graph.initial {
        there[number as usize] = true;
    }
    // What waits on connections in the start state counts as there; it is numbered and never sent again.
    if graph.streams {
        there.iter_mut().for_each(|it| *it = true);
    }
    let mut taken: Vec<Left> = left.iter().map(|left| vec![false; left.len()]).collect();
    let mut reached: Vec<Vec<bool>> = Vec::new();
    for node in &graph.nodes {
        let mut reached_here = vec![false; node.states.len()];
        reached_here[0] = true;
        reached.push(reached_here);
    }
    loop {
        let mut grew = false;
        for (position, node) in graph.nodes.iter().enumerate() {
            let mut waiting: Vec<u32> = (0..node.states.len() as u32)
                .filter(|&state| reached[position][state as usize])
                .collect();
            while let Some(state) = waiting.pop() {
                for &number in &node.outs[state as usize] {
                    let edge = &node.edges[number as usize];
                    let number = number as usize;
                    let is_there = edge.takes.is_none_or(|it| there[it as usize]);
                    if taken[position][number] || !left[position][number] || !is_there {
                        continue;
                    }
                    taken[position][number] = true;
                    grew = true;
                    for &sent in &edge.sends {
                        there[sent as usize] = true;
                    }
                    if !reached[position][edge.to as usize] {
                        reached[position][edge.to as usize] = true;
                        waiting.push(edge.to);
                    }
                }
            }
        }
        if !grew {
            break;
        }
    }
    left.clone_from_slice(&taken);
}

/// Drops the steps that no shortest way takes.
///
/// `x → y` is one if all that follows `y` can follow `x`: the greatest relation between states joined by a step without
/// sends in which each step from `y` leads back or on inside the relation without having sent anything, or can be taken
/// from `x` as well, with at least the same sends, no more needs, and an end that is the same or related.
fn drop_detours(node: &Node, goal: &Goal, position: usize, left: &mut Left) {
    let classes = goal.classes[position].as_ref();
    let class = |state: u32| {
        let class = classes.map_or(0, |classes| classes[state as usize]);
        if goal.wanted[position].get(class as usize) == Some(&true) {
            class
        } else {
            0
        }
    };
    let outs = |state: u32| {
        let outs = node.outs[state as usize].iter();
        outs.filter(|&&number| left[number as usize])
            .map(|&number| &node.edges[number as usize])
    };
    let quiet = |edge: &Edge| edge.sends.is_empty() && !edge.wipes;
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (edge, _) in node
        .edges
        .iter()
        .zip(left.iter())
        .filter(|(_, left)| **left)
    {
        let as_good = class(edge.to) == 0 || class(edge.to) == class(edge.from);
        if quiet(edge) && edge.from != edge.to && as_good {
            pairs.push((edge.from, edge.to));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    let mut related: HashSet<(u32, u32), FxBuildHasher> = pairs.iter().copied().collect();
    // What becomes of a pair depends on pairs behind it, and states are numbered from the start on: from behind, and with
    // what was dropped already, few rounds are needed. The greatest relation is the same in any order.
    pairs.reverse();
    loop {
        let before = pairs.len();
        pairs.retain(|&(x, y)| {
            let holds = outs(y).all(|after| {
                let z = after.to;
                let for_nothing = quiet(after)
                    && (z == x || related.contains(&(x, z)) || related.contains(&(y, z)));
                for_nothing
                    || outs(x).any(|instead| {
                        (instead.takes.is_none() || instead.takes == after.takes)
                            && (instead.fault.is_none() || instead.fault == after.fault)
                            && (!instead.wipes || after.wipes)
                            && covers(&instead.sends, &after.sends)
                            && (instead.to == z || related.contains(&(instead.to, z)))
                    })
            });
            if !holds {
                related.remove(&(x, y));
            }
            holds
        });
        if pairs.len() == before {
            break;
        }
    }
    for (edge, left) in node.edges.iter().zip(left.iter_mut()) {
        *left &= !(quiet(edge) && related.contains(&(edge.from, edge.to)));
    }
}

/// Tells whether some sends are among others, with their repetitions.
fn covers(more: &[u32], less: &[u32]) -> bool {
    let count = |all: &[u32], number: u32| all.iter().filter(|&&it| it == number).count();
    less.iter()
        .all(|&number| count(more, number) >= count(less, number))
}

/// Numbers the datagrams that matter, and puts together what is left.
fn assemble(graph: &Graph, goal: Goal, left: &[Left], read: Vec<usize>) -> Trimmed {
    let reached: Vec<(Vec<u32>, Left)> = graph
        .nodes
        .iter()
        .zip(left)
        .map(|(node, left)| depths(node, left))
        .collect();
    let is_datagram =
        |number: u32| matches!(graph.sent[number as usize].parcel, Parcel::Datagram(_));
    let mut numbers: Vec<Option<u32>> = vec![None; graph.sent.len()];
    let (mut datagrams, mut sides) = (Vec::new(), Vec::new());
    for (position, node) in graph.nodes.iter().enumerate() {
        let first = datagrams.len();
        let left = &reached[position].1;
        for (edge, _) in node.edges.iter().zip(left).filter(|(_, left)| **left) {
            let Some(number) = edge.takes.filter(|&it| is_datagram(it)) else {
                continue;
            };
            if numbers[number as usize].is_none() {
                numbers[number as usize] = Some(datagrams.len() as u32);
                let posted = &graph.sent[number as usize];
                datagrams.push(Datagram {
                    to: posted.to,
                    from: posted.from,
                });
            }
        }
        sides.push((first, datagrams.len() - first));
    }
    let sides = sides.into_iter().zip(goal.classes).enumerate();
    let sides = sides.map(|(position, ((first, count), classes))| {
        let (depth, left) = &reached[position];
        let node = &graph.nodes[position];
        let keep = |&number: &u32| {
            let edge = &node.edges[number as usize];
            let takes = edge.takes.and_then(|it| numbers[it as usize]);
            let sends = edge.sends.iter();
            left[number as usize].then(|| Kept {
                edge: number,
                to: edge.to,
                takes,
                of_connection: edge.takes.is_some() && takes.is_none(),
                sends: sends.filter_map(|&it| numbers[it as usize]).collect(),
                fault: edge.fault,
                wipes: edge.wipes,
            })
        };
        let outs = node.outs.iter();
        let outs: Vec<Vec<Kept>> = outs
            .map(|outs| outs.iter().filter_map(keep).collect())
            .collect();
        let words = count.div_ceil(64).max(1);
        let useful = useful(&outs, depth, first, words);
        // What takes part in nothing that is asked is as good as no class.
        let wanted = &goal.wanted[position];
        let asked = |class: u32| if wanted[class as usize] { class } else { 0 };
        let classes = classes.map(|classes| classes.into_iter().map(asked).collect());
        Side {
            classes,
            depth: depth.clone(),
            useful,
            words,
            outs,
            first,
            count,
            ordered: graph.streams,
        }
    });
    let sides = sides.collect();
    let initial = graph.initial.iter();
    Trimmed {
        sides,
        initial: initial.filter_map(|&it| numbers[it as usize]).collect(),
        datagrams,
        read,
    }
}

/// Finds how far each state is, and which of the steps can be reached at all.
fn depths(node: &Node, left: &Left) -> (Vec<u32>, Left) {
    let mut depth = vec![u32::MAX; node.states.len()];
    let mut reached = vec![false; left.len()];
    depth[0] = 0;
    let mut waiting = std::collections::VecDeque::from([0_u32]);
    while let Some(state) = waiting.pop_front() {
        for &number in &node.outs[state as usize] {
            if !left[number as usize] {
                continue;
            }
            reached[number as usize] = true;
            let to = node.edges[number as usize].to;
            if depth[to as usize] == u32::MAX {
                depth[to as usize] = depth[state as usize] + 1;
                waiting.push_back(to);
            }
        }
    }
    (depth, reached)
}

/// Finds for each state the datagrams that a step from it or after it takes.
fn useful(outs: &[Vec<Kept>], depth: &[u32], first: usize, words: usize) -> Vec<u64> {
    let mut useful = vec![0_u64; outs.len() * words];
    let mut order: Vec<usize> = (0..outs.len()).filter(|&it| depth[it] < u32::MAX).collect();
    order.sort_by_key(|&state| std::cmp::Reverse(depth[state]));
    loop {
        let mut grew = false;
        for &state in &order {
            for kept in &outs[state] {
                if let Some(number) = kept.takes {
                    let number = number as usize - first;
                    let (at, bit) = (state * words + number / 64, 1 << (number % 64));
                    grew |= useful[at] & bit == 0;
                    useful[at] |= bit;
                }
                for word in 0..words {
                    let more = useful[kept.to as usize * words + word];
                    let at = state * words + word;
                    grew |= useful[at] | more != useful[at];
                    useful[at] |= more;
                }
            }
        }
        if !grew {
            return useful;
        }
    }
}
