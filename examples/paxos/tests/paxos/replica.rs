//! The replicated deployment: one proposal in full, and the two bugs of CrystalBall §5.4.2 both ways.

use std::collections::BTreeMap;

use paxos::replica::Instance;
use paxos::scenarios::{learned_by_one, learned_by_one_then_reset, replicas};
use paxos::service::Role;
use paxos::{Bugs, Call, Message, Paxos, Value};
use scry::{Act, Event, Faults, NodeId, Simulation, Step, System};

use crate::search::{Seen, search, violated};

const A: NodeId = NodeId::new(0);
const B: NodeId = NodeId::new(1);
const C: NodeId = NodeId::new(2);

const FIXED: Bugs = Bugs {
    last_promise: false,
    volatile_promise: false,
};
const LAST_PROMISE: Bugs = Bugs {
    last_promise: true,
    ..FIXED
};
const VOLATILE_PROMISE: Bugs = Bugs {
    volatile_promise: true,
    ..FIXED
};
const ONE_RESET: Faults = Faults {
    resets: 1,
    ..Faults::NONE
};

fn single() -> System<Paxos> {
    replicas(3, 1, FIXED, |node| (node == A).into())
}

fn propose(node: NodeId) -> Act<Paxos> {
    let value = node.get();
    Act::Call(node, Call::Propose { index: 0, value })
}

fn chosen(state: &Simulation<Paxos>, node: NodeId) -> Option<Value> {
    state.nodes()[&node].local.service.chosen.get(&0).copied()
}

fn instance(state: &Simulation<Paxos>, node: NodeId) -> Instance {
    match &state.nodes()[&node].local.service.role {
        Role::Replica(replica) => replica.instances.get(&0).cloned().unwrap_or_default(),
        other => panic!("{other:?} is no replica"),
    }
}

/// Returns what happened at which node, in words short enough to compare.
pub(crate) fn story(path: &[Step<Paxos>]) -> Vec<String> {
    path.iter()
        .map(|step| {
            let what = match &step.event {
                Event::Call(Call::Propose { value, .. }) => format!("propose {value}"),
                Event::Deliver { from, message } => match message {
                    Message::Prepare { value, .. } => format!("prepare {value} from {from}"),
                    Message::Promise {
                        accepted: None,
                        value,
                        ..
                    } => format!("echo {value} from {from}"),
                    Message::Promise { value, .. } => format!("accepted {value} from {from}"),
                    Message::Accept { value, .. } => format!("accept {value} from {from}"),
                    Message::Learn { value, .. } => format!("learn {value} from {from}"),
                    Message::Accepted { .. } => "accepted".to_owned(),
                },
                other => other.to_string(),
            };
            format!("{}: {what}", step.node)
        })
        .collect()
}

#[test]
fn one_proposal_is_nineteen_events() {
    let system = single().script([propose(A), Act::Settle]);
    let (end, steps) = system.start().expect("the script can be carried out");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in &steps {
        let kind = match &step.event {
            Event::Call(_) => "propose",
            Event::Deliver { message, .. } => match message {
                Message::Prepare { .. } => "prepare",
                Message::Promise { .. } => "promise",
                Message::Accept { .. } => "accept",
                Message::Learn { .. } => "learn",
                Message::Accepted { .. } => "accepted",
            },
            _ => "other",
        };
        *counts.entry(kind).or_default() += 1;
    }
    let expected = [
        ("accept", 3),
        ("learn", 9),
        ("prepare", 3),
        ("promise", 3),
        ("propose", 1),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    for node in [A, B, C] {
        assert_eq!(chosen(&end, node), Some(0));
    }
    assert!(end.successors().is_empty(), "nothing is left to happen");
}

#[test]
fn one_proposal_in_every_order_is_at_most_nineteen_events_and_safe() {
    let seen = search(&single(), usize::MAX);
    assert_eq!(seen.violation, None);
    assert_eq!(seen.depth, 19);
    assert_eq!((seen.states, seen.transitions), (5_124, 24_592));
}

#[test]
fn the_first_round_leaves_a_chosen_value_that_only_a_knows() {
    let (start, _) = learned_by_one(FIXED)
        .start()
        .expect("the script can be carried out");
    assert_eq!(
        [A, B, C].map(|node| chosen(&start, node)),
        [Some(0), None, None]
    );
    let vote = |node| instance(&start, node).acceptor.vote.accepted;
    let vote = |node| vote(node).map(|accepted| accepted.value);
    assert_eq!([A, B, C].map(vote), [Some(0), Some(0), None]);
    for node in start.nodes().values() {
        assert!(
            node.inbox.is_empty(),
            "nothing is on its way between the rounds"
        );
        assert!(node.local.timers.is_empty(), "nobody is waiting");
    }
    assert_eq!(violated(&start), None);
}

#[test]
fn with_the_last_promise_b_chooses_another_value() {
    let seen = search(&learned_by_one(LAST_PROMISE), usize::MAX);
    check_violation(
        seen,
        &[
            "n1: propose 1",
            "n0: prepare 1 from n1",
            "n1: accepted 0 from n0",
            "n2: prepare 1 from n1",
            "n1: echo 1 from n2",
            "n0: accept 1 from n1",
            "n1: learn 1 from n0",
            "n1: accept 1 from n1",
            "n1: learn 1 from n1",
        ],
    );
}

#[test]
fn without_that_bug_b_chooses_the_same_value_in_every_order() {
    check_safe(&learned_by_one(FIXED));
}

#[test]
fn with_a_volatile_promise_b_chooses_another_value_after_its_reset() {
    let seen = search(&learned_by_one_then_reset(VOLATILE_PROMISE), usize::MAX);
    check_violation(
        seen,
        &[
            "n1: propose 1",
            "n1: prepare 1 from n1",
            "n1: echo 1 from n1",
            "n2: prepare 1 from n1",
            "n1: echo 1 from n2",
            "n0: accept 1 from n1",
            "n1: learn 1 from n0",
            "n1: accept 1 from n1",
            "n1: learn 1 from n1",
        ],
    );
}

#[test]
fn with_a_volatile_promise_the_search_finds_the_reset_by_itself() {
    let system = learned_by_one(VOLATILE_PROMISE).faults(ONE_RESET);
    let seen = search(&system, usize::MAX);
    let (_, path) = seen.violation.as_ref().expect("two values are chosen");
    // A's vote is lost as easily as B's, and A is the first that is tried.
    assert_eq!(story(path)[..2], ["n0: reset", "n1: propose 1"]);
    assert_eq!(path.len(), 10);
}

#[test]
fn a_volatile_promise_does_no_harm_while_no_node_is_reset() {
    check_safe(&learned_by_one(VOLATILE_PROMISE));
}

#[test]
fn with_the_promise_on_disk_no_reset_does_harm() {
    check_safe(&learned_by_one_then_reset(FIXED));
    check_safe(&learned_by_one(FIXED).faults(ONE_RESET));
}

#[test]
fn a_reset_keeps_the_vote_and_the_choice_and_nothing_else() {
    let (before, _) = learned_by_one(FIXED).start().expect("a good script");
    let reset = |node| Act::Reset { node, notice: true };
    let mut system = learned_by_one(FIXED);
    system.script.extend([reset(A), reset(B)]);
    let (after, _) = system.start().expect("a good script");
    for node in [A, B] {
        let (old, new) = (instance(&before, node), instance(&after, node));
        assert_eq!(chosen(&after, node), chosen(&before, node));
        assert_eq!(new.acceptor, old.acceptor);
        assert_eq!(new.led, old.led);
        assert!(!old.tallies.is_empty() && new.tallies.is_empty());
        assert_eq!(new.attempt, None);
    }
    assert!(instance(&before, A).attempt.is_some());
}

/// CrystalBall's Figure 13 to the letter: in the second round it is A that is cut off.
#[test]
fn the_papers_second_round_ends_with_two_values_or_one() {
    let is_prepare: fn(&Message) -> bool = |message| matches!(message, Message::Prepare { .. });
    let is_accept: fn(&Message) -> bool = |message| matches!(message, Message::Accept { .. });
    let lose = |fits| Act::LoseWhere {
        from: B,
        to: A,
        fits,
    };
    let second_round = [
        propose(B),
        lose(is_prepare),
        Act::Deliver { from: B, to: B },
        Act::Deliver { from: B, to: B },
        Act::Deliver { from: B, to: C },
        Act::Deliver { from: C, to: B },
        lose(is_accept),
        Act::SettleAmong(vec![B, C]),
    ];
    let run = |mut system: System<Paxos>| {
        system.script.extend(second_round.clone());
        let (end, _) = system.start().expect("the script can be carried out");
        let broken = violated(&end).is_some();
        ([A, B, C].map(|node| chosen(&end, node)), broken)
    };
    let agreed = ([Some(0); 3], false);
    let split = ([Some(0), Some(1), Some(1)], true);
    assert_eq!(run(learned_by_one(FIXED)), agreed);
    assert_eq!(run(learned_by_one(LAST_PROMISE)), split);
    assert_eq!(run(learned_by_one_then_reset(FIXED)), agreed);
    assert_eq!(run(learned_by_one_then_reset(VOLATILE_PROMISE)), split);
}

fn check_violation(seen: Seen, expected: &[&str]) {
    let (name, path) = seen.violation.expect("two values are chosen");
    assert_eq!(name, "at most one value is chosen");
    assert_eq!(story(&path), expected);
    let ends = [A, B].map(|node| chosen(&seen.last, node));
    assert_eq!(ends, [Some(0), Some(1)]);
}

/// Explores all there is, so that "safe" is a proof for these bounds.
fn check_safe(system: &System<Paxos>) {
    let seen = search(system, usize::MAX);
    assert_eq!(seen.violation, None);
}
