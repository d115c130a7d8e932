//! One snapshot, round by round (A-42… ).
//!
//! Every member is asked for its checkpoint at one number, the gathering node like any other. When all have answered,
//! refused, died or stayed silent for too long, there are two ways on: if a member's checkpoint was gone, all are asked
//! again with the greatest number heard; otherwise whoever answered is the snapshot. A member that refused for another
//! reason is left out of this snapshot and of no other.
//!
//! Numbers that are implausibly far from this node's are not followed, and their nodes are left out; but if most of the
//! neighbors say the same, it is this node that went astray ([`Output::Follow`], [`Output::Yield`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use scry_protocol::snapshot::{Member, Missing, Reason, Refusal};
use scry_protocol::{Body, CheckpointNumber, Content, Incarnation, NodeId, Snapshot};

use crate::Time;
use crate::flight;

/// How long a gather tries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// The most rounds.
    pub rounds_max: u32,
    /// The longest a round waits for answers.
    pub round_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds_max: 4,
            round_ms: 2_000,
        }
    }
}

/// A member's checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held {
    /// Its number.
    pub number: CheckpointNumber,
    /// How old it was when it arrived here.
    pub age_ms: u64,
    /// Its content.
    pub body: Body,
}

/// What a gather wants done.
#[derive(Debug, Eq, PartialEq)]
pub enum Output {
    /// Ask a member, maybe the gathering node itself, for its checkpoint at a number.
    Ask {
        /// Whom.
        to: NodeId,
        /// For which number.
        number: CheckpointNumber,
    },
    /// Most members are far ahead, at this number or beyond: this node is new, or was away for long.
    Follow(CheckpointNumber),
    /// Half of the members or more take this node's number for a mistake, and are at this number or before.
    Yield(CheckpointNumber),
    /// A member knows of another incarnation of this node with numbers of the present one, or of a later one.
    Outlived(Incarnation),
    /// The snapshot is there, or never will be. Nothing comes after this.
    Done(Result<Snapshot, GatherError>),
}

/// Why there is no snapshot at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GatherError {
    /// The gathering node has no checkpoint of its own.
    #[error("no checkpoint of this node itself: {0}")]
    OwnMissing(Reason),
}

/// Collects one consistent snapshot. Feed it a fact, poll until `None`, feed it the next.
#[derive(Debug)]
pub struct Gather {
    options: Options,
    me: NodeId,
    number: CheckpointNumber,
    round: u32,
    members: BTreeMap<NodeId, Standing>,
    started: Time,
    deadline: Time,
    done: bool,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
enum Standing {
    Asked,
    Has {
        held: Held,
        at: Time,
    },
    OutOfRange(CheckpointNumber),
    /// It says that it is at this number, implausibly far ahead.
    Far(CheckpointNumber),
    /// It is at this number, and takes the one it was asked for for a mistake.
    Disowned(CheckpointNumber),
    Gone(Reason),
}

impl Gather {
    /// Starts with a first round at `number`: the gathering node's next one.
    pub fn new(
        now: Time,
        me: NodeId,
        neighbors: &BTreeSet<NodeId>,
        number: CheckpointNumber,
        options: Options,
    ) -> Self {
        let mut gather = Self {
            options,
            me,
            number,
            round: 0,
            members: neighbors
                .iter()
                .chain([&me])
                .map(|&node| (node, Standing::OutOfRange(number)))
                .collect(),
            started: now,
            deadline: now,
            done: false,
            outputs: VecDeque::new(),
        };
        gather.ask_round(now, number);
        gather
    }

    /// Returns the number of the present round.
    pub fn number(&self) -> CheckpointNumber {
        self.number
    }

    /// Returns which round this is, counted from one.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Tells whether an answer of this node is awaited.
    pub fn awaits(&self, node: NodeId) -> bool {
        matches!(self.members.get(&node), Some(Standing::Asked))
    }

    /// Takes in a checkpoint. One that is older than asked for, or cannot be read, counts as none.
    pub fn handle_answer(&mut self, now: Time, from: NodeId, held: Held) {
        let standing = if held.number >= self.number && is_sound(&held) {
            Standing::Has { held, at: now }
        } else {
            Standing::Gone(Reason::Unreadable)
        };
        self.settle(now, from, standing);
    }

    /// Takes in a refusal with the refusing node's number.
    pub fn handle_refusal(
        &mut self,
        now: Time,
        from: NodeId,
        refusal: Refusal,
        number: CheckpointNumber,
    ) {
        let standing = match refusal {
            Refusal::OutOfRange => Standing::OutOfRange(number),
            Refusal::OverBandwidth => Standing::Gone(Reason::OverBandwidth),
            Refusal::ShuttingDown => Standing::Gone(Reason::ShuttingDown),
            Refusal::NoHost => Standing::Gone(Reason::NoHost),
            Refusal::Busy => Standing::Gone(Reason::Busy),
            Refusal::Implausible => Standing::Disowned(number),
        };
        self.settle(now, from, standing);
    }

    /// Takes in that a member is implausibly far ahead, at a number: it is not followed, unless most are there.
    pub fn handle_far(&mut self, now: Time, from: NodeId, number: CheckpointNumber) {
        self.settle(now, from, Standing::Far(number));
    }

    /// Learns that a member will not answer.
    pub fn handle_lost(&mut self, now: Time, node: NodeId, reason: Reason) {
        self.settle(now, node, Standing::Gone(reason));
    }

    /// Learns that time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.done || now < self.deadline {
            return;
        }
        for standing in self.members.values_mut() {
            if matches!(standing, Standing::Asked) {
                *standing = Standing::Gone(Reason::Silent);
            }
        }
        self.end_round(now);
    }

    /// Returns what is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.done).then_some(self.deadline)
    }

    fn settle(&mut self, now: Time, node: NodeId, to: Standing) {
        match self.members.get_mut(&node) {
            Some(standing @ Standing::Asked) => *standing = to,
            // Not a member, or it has answered: a late or doubled answer changes nothing.
            _ => return,
        }
        // The paper waits for all; so that the dead do not hold up the living, they count as having answered.
        if !self
            .members
            .values()
            .any(|standing| matches!(standing, Standing::Asked))
        {
            self.end_round(now);
        }
    }

    fn end_round(&mut self, now: Time) {
        let greatest = self
            .members
            .values()
            .filter_map(|standing| match standing {
                Standing::OutOfRange(number) => Some(*number),
                _ => None,
            })
            .max();
        match greatest {
            // A number that all have been asked for already would be refused again.
            Some(greatest) if self.round < self.options.rounds_max => {
                self.ask_round(now, greatest.max(self.number.next()));
            }
            _ => self.complete(now),
        }
    }

    fn ask_round(&mut self, now: Time, number: CheckpointNumber) {
        self.number = number;
        self.round += 1;
        self.deadline = now.after_millis(self.options.round_ms);
        for (&to, standing) in &mut self.members {
            let again = match standing {
                Standing::OutOfRange(_) => true,
                // A checkpoint that answered for an earlier number answers for all up to its own.
                Standing::Has { held, .. } => held.number < number,
                Standing::Asked | Standing::Far(_) | Standing::Disowned(_) | Standing::Gone(_) => {
                    false
                }
            };
            if again {
                *standing = Standing::Asked;
                self.outputs.push_back(Output::Ask { to, number });
            }
        }
        if !self
            .members
            .values()
            .any(|standing| matches!(standing, Standing::Asked))
        {
            self.complete(now);
        }
    }

    /// Looks whether this node or the others went astray. Where it stands one against one, the greater number gives way: it
    /// is the one that came about in some strange manner.
    fn count_votes(&mut self) {
        let (mut far, mut disowned) = (Vec::new(), Vec::new());
        for standing in self.members.values() {
            match standing {
                Standing::Far(number) => far.push(*number),
                Standing::Disowned(number) => disowned.push(*number),
                _ => {}
            }
        }
        let all = self.members.len();
        if 2 * far.len() > all
            && let Some(&least) = far.iter().min()
        {
            self.outputs.push_back(Output::Follow(least));
        }
        if 2 * disowned.len() >= all
            && let Some(&greatest) = disowned.iter().max()
        {
            self.outputs.push_back(Output::Yield(greatest));
        }
    }

    /// Looks whether a member knows of an incarnation of this node that cannot be told from its present one.
    fn look_for_other_lives(&mut self, present: &[(Member, Content)]) {
        let own = present.iter().find(|(member, _)| member.node == self.me);
        let Some((_, own)) = own else {
            return;
        };
        let other = present.iter().find_map(|(_, content)| {
            let channels = content.channels.iter().flat_map(|state| &state.receiving);
            let mut known = channels
                .filter(|receiving| receiving.peer == self.me)
                .map(|receiving| receiving.incarnation);
            let last = content.past.of(self.me);
            let last =
                last.filter(|last| last.incarnation != own.incarnation && last.number >= own.born);
            let later = known.find(|known| known.is_after(own.incarnation));
            later.or(last.map(|last| last.incarnation))
        });
        if let Some(other) = other {
            self.outputs.push_back(Output::Outlived(other));
        }
    }

    fn complete(&mut self, now: Time) {
        self.done = true;
        self.count_votes();
        let mut present: Vec<(Member, Content)> = Vec::new();
        let mut missing = Vec::new();
        for (&node, standing) in &self.members {
            let reason = match standing {
                Standing::Has { held, at } => match held.body.read() {
                    Ok(content) => {
                        let member = Member {
                            node,
                            number: held.number,
                            age_ms: held.age_ms.saturating_add(now.millis_since(*at)),
                            body: held.body.clone(),
                        };
                        present.push((member, content));
                        continue;
                    }
                    Err(_) => Reason::Unreadable,
                },
                Standing::OutOfRange(_) => Reason::OutOfRange,
                Standing::Far(_) | Standing::Disowned(_) => Reason::Implausible,
                Standing::Gone(reason) => *reason,
                Standing::Asked => unreachable!("a round ends when nobody is awaited"),
            };
            missing.push(Missing { node, reason });
        }
        self.look_for_other_lives(&present);
        self.remove_contradictions(&mut present, &mut missing);
        missing.sort_unstable_by_key(|missing| missing.node);
        let own = missing.iter().find(|missing| missing.node == self.me);
        let outcome = match own {
            Some(own) => Err(GatherError::OwnMissing(own.reason)),
            None => Ok(Snapshot {
                by: self.me,
                number: self.number,
                rounds: self.round,
                elapsed_ms: now.millis_since(self.started),
                members: present.into_iter().map(|(member, _)| member).collect(),
                missing,
            }),
        };
        self.outputs.push_back(Output::Done(outcome));
    }

    /// Leaves out members until no two contradict each other: the one that does not show what it sent, as the one that
    /// lost its memory, unless that is this node.
    fn remove_contradictions(
        &self,
        present: &mut Vec<(Member, Content)>,
        missing: &mut Vec<Missing>,
    ) {
        loop {
            let contents: Vec<(NodeId, &Content)> = present
                .iter()
                .map(|(member, content)| (member.node, content))
                .collect();
            let Some(found) = flight::contradiction(&contents) else {
                return;
            };
            let out = if found.sender == self.me {
                found.receiver
            } else {
                found.sender
            };
            present.retain(|(member, _)| member.node != out);
            missing.push(Missing {
                node: out,
                reason: Reason::Inconsistent,
            });
        }
    }
}

/// Tells whether a checkpoint can be read and knows of nothing that came after it.
fn is_sound(held: &Held) -> bool {
    let content = held.body.read();
    content.is_ok_and(|content| content.born <= held.number && content.past.is_within(held.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u32 = 9;
    const NOW: Time = Time::from_millis(0);

    fn gather(neighbors: &[u32], number: u32, rounds_max: u32) -> Gather {
        let neighbors = neighbors.iter().map(|&id| NodeId::new(id)).collect();
        let options = Options {
            rounds_max,
            round_ms: 1000,
        };
        Gather::new(NOW, NodeId::new(ME), &neighbors, number.into(), options)
    }

    fn held(number: u32) -> Held {
        let content = Content {
            incarnation: Incarnation::new(1),
            born: 1.into(),
            past: scry_protocol::Past::default(),
            state: vec![number as u8],
            timers: Vec::new(),
            channels: None,
        };
        Held {
            number: number.into(),
            age_ms: 0,
            body: content.write().expect("small"),
        }
    }

    fn answers(gather: &mut Gather, from: u32, number: u32) {
        gather.handle_answer(NOW, NodeId::new(from), held(number));
    }

    fn refuses(gather: &mut Gather, from: u32, reason: Refusal, number: u32) {
        gather.handle_refusal(NOW, NodeId::new(from), reason, number.into());
    }

    /// Returns whom the gather asks now, each with the number.
    fn asked(gather: &mut Gather) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| gather.poll_output())
            .map(|output| match output {
                Output::Ask { to, number } => (to.get(), number.get()),
                other => panic!("nobody is asked: {other:?}"),
            })
            .collect()
    }

    fn snapshot(gather: &mut Gather) -> Snapshot {
        match gather.poll_output() {
            Some(Output::Done(Ok(snapshot))) => snapshot,
            other => panic!("not a snapshot: {other:?}"),
        }
    }

    fn members(snapshot: &Snapshot) -> Vec<(u32, u64)> {
        snapshot
            .members
            .iter()
            .map(|member| (member.node.get(), member.number.get()))
            .collect()
    }

    fn missing(snapshot: &Snapshot) -> Vec<(u32, Reason)> {
        snapshot
            .missing
            .iter()
            .map(|missing| (missing.node.get(), missing.reason))
            .collect()
    }

    #[test]
    fn a_21_everybody_is_asked_for_one_number_the_gathering_node_too() {
        let mut gather = gather(&[1, 2], 5, 3);
        assert_eq!(asked(&mut gather), [(1, 5), (2, 5), (9, 5)]);
        answers(&mut gather, 1, 5);
        answers(&mut gather, 2, 8);
        assert_eq!(asked(&mut gather), []);
        answers(&mut gather, ME, 5);
        let snapshot = snapshot(&mut gather);
        assert_eq!(members(&snapshot), [(1, 5), (2, 8), (9, 5)]);
        assert!(snapshot.is_complete());
        assert_eq!(gather.poll_timeout(), None);
    }

    #[test]
    fn a_42_the_second_round_has_the_greatest_number_after_all_have_answered() {
        let mut gather = gather(&[1, 2, 3], 5, 3);
        asked(&mut gather);
        refuses(&mut gather, 1, Refusal::OutOfRange, 17);
        refuses(&mut gather, 2, Refusal::OutOfRange, 21);
        answers(&mut gather, ME, 5);
        assert_eq!(asked(&mut gather), [], "not before all have answered");
        answers(&mut gather, 3, 5);
        assert_eq!(asked(&mut gather), [(1, 21), (2, 21), (3, 21), (9, 21)]);
        assert_eq!((gather.round(), gather.number().get()), (2, 21));
    }

    #[test]
    fn a_43_a_dead_member_does_not_hold_up_the_second_round() {
        let mut gather = gather(&[1, 2, 3], 5, 3);
        asked(&mut gather);
        refuses(&mut gather, 1, Refusal::OutOfRange, 17);
        gather.handle_lost(NOW, NodeId::new(2), Reason::Dead);
        answers(&mut gather, ME, 5);
        answers(&mut gather, 3, 5);
        assert_eq!(asked(&mut gather), [(1, 17), (3, 17), (9, 17)]);
        for node in [1, 3, ME] {
            answers(&mut gather, node, 17);
        }
        let snapshot = snapshot(&mut gather);
        assert_eq!(missing(&snapshot), [(2, Reason::Dead)]);
        assert_eq!(snapshot.rounds, 2);
    }

    #[test]
    fn a_44_the_gathering_node_takes_part_in_the_second_round() {
        let mut gather = gather(&[1], 5, 3);
        asked(&mut gather);
        refuses(&mut gather, 1, Refusal::OutOfRange, 17);
        answers(&mut gather, ME, 5);
        assert_eq!(asked(&mut gather), [(1, 17), (9, 17)]);
        answers(&mut gather, 1, 17);
        answers(&mut gather, ME, 17);
        assert_eq!(members(&snapshot(&mut gather)), [(1, 17), (9, 17)]);
    }

    #[test]
    fn a_checkpoint_that_reaches_far_enough_is_not_asked_for_again() {
        let mut gather = gather(&[1, 2], 5, 3);
        asked(&mut gather);
        refuses(&mut gather, 1, Refusal::OutOfRange, 17);
        answers(&mut gather, 2, 20);
        answers(&mut gather, ME, 5);
        assert_eq!(asked(&mut gather), [(1, 17), (9, 17)]);
    }

    #[test]
    fn a_45_rounds_are_bounded_and_who_never_had_it_is_named() {
        let mut gather = gather(&[1, 2], 5, 3);
        let mut rounds = 0;
        let snapshot = loop {
            match gather.poll_output() {
                Some(Output::Done(outcome)) => break outcome.expect("the rest answered"),
                Some(Output::Ask { to, number }) if to.get() == 1 => {
                    rounds += 1;
                    let number = number.get() as u32 + 10;
                    refuses(&mut gather, 1, Refusal::OutOfRange, number);
                }
                Some(Output::Ask { to, number }) => {
                    answers(&mut gather, to.get(), number.get() as u32);
                }
                other => panic!("not done: {other:?}"),
            }
        };
        assert_eq!((rounds, snapshot.rounds), (3, 3));
        assert_eq!(members(&snapshot), [(2, 25), (9, 25)]);
        assert_eq!(missing(&snapshot), [(1, Reason::OutOfRange)]);
    }

    #[test]
    fn a_53_a_member_over_its_limit_is_left_out_of_this_snapshot_only() {
        let mut first = gather(&[1, 2], 5, 3);
        asked(&mut first);
        refuses(&mut first, 1, Refusal::OverBandwidth, 30);
        answers(&mut first, 2, 5);
        answers(&mut first, ME, 5);
        assert_eq!(missing(&snapshot(&mut first)), [(1, Reason::OverBandwidth)]);
        let mut next = gather(&[1, 2], 6, 3);
        assert_eq!(asked(&mut next), [(1, 6), (2, 6), (9, 6)]);
    }

    #[test]
    fn a_54_over_bandwidth_starts_no_second_round_and_out_of_range_does() {
        let mut gather = gather(&[1, 2], 5, 3);
        asked(&mut gather);
        refuses(&mut gather, 1, Refusal::OverBandwidth, 30);
        refuses(&mut gather, 2, Refusal::OutOfRange, 8);
        answers(&mut gather, ME, 5);
        // The second round is on account of node 2, with its number; node 1 is not bothered again.
        assert_eq!(asked(&mut gather), [(2, 8), (9, 8)]);
    }

    #[test]
    fn a_silent_member_ends_a_round_by_the_clock() {
        let mut gather = gather(&[1], 5, 3);
        asked(&mut gather);
        answers(&mut gather, ME, 5);
        assert_eq!(gather.poll_timeout(), Some(Time::from_millis(1000)));
        gather.handle_timeout(Time::from_millis(999));
        assert_eq!(gather.poll_output(), None);
        gather.handle_timeout(Time::from_millis(1000));
        let snapshot = snapshot(&mut gather);
        assert_eq!(missing(&snapshot), [(1, Reason::Silent)]);
        assert_eq!((snapshot.elapsed_ms, snapshot.age_ms()), (1000, 1000));
    }

    #[test]
    fn without_its_own_checkpoint_there_is_no_snapshot() {
        let mut gather = gather(&[1], 5, 3);
        asked(&mut gather);
        answers(&mut gather, 1, 5);
        gather.handle_lost(NOW, NodeId::new(ME), Reason::NoHost);
        assert_eq!(
            gather.poll_output(),
            Some(Output::Done(Err(GatherError::OwnMissing(Reason::NoHost))))
        );
    }

    #[test]
    fn strangers_late_answers_and_old_checkpoints_change_nothing() {
        let mut gather = gather(&[1], 5, 3);
        asked(&mut gather);
        answers(&mut gather, 7, 5);
        answers(&mut gather, 1, 4);
        answers(&mut gather, 1, 5);
        answers(&mut gather, ME, 5);
        assert_eq!(missing(&snapshot(&mut gather)), [(1, Reason::Unreadable)]);
    }
}
