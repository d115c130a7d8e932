//! Members whose states take a checker down, or that a checker cannot work with: runs go on without them.
//!
//! A state may come from a node that is broken or lies. If a checker dies or hangs over it, it would do so in every run, and
//! nothing would be predicted any more. The process has noted whose state it was at, so that member is left out of the runs
//! for a while, longer each time, and then tried again. A member that a checker leaves out by itself costs no run, and is
//! only told.

use scry_protocol::Snapshot;
use scry_protocol::link::checker::{LeftOut, Unjudged};
use scry_protocol::snapshot::{Missing, Reason};

use super::*;

/// How long a member is left out at first, and at most.
const PAUSE_MS: (u64, u64) = (30_000, 3_600_000);
/// After so many times its pause without trouble, it begins with the shortest again.
const FORGET: u64 = 4;

/// A member that runs go on without.
#[derive(Clone, Debug)]
pub(super) struct Absence {
    /// Why, for people.
    pub(super) why: String,
    /// Until when no checker gets to see it; nothing if the checker itself leaves it out.
    pub(super) until: Option<Time>,
    pause_ms: u64,
}

impl Controller {
    /// Learns on whose states a checker was at work when it died or hung; `None` is everybody's.
    pub fn handle_blame(&mut self, now: Time, blamed: &[Option<NodeId>], why: &str) {
        let mut members: BTreeSet<NodeId> = blamed.iter().copied().flatten().collect();
        if blamed.contains(&None) {
            // No single one of them is known to be at fault, and alone this node can at least be looked after by itself.
            members.extend(self.known.keys());
        }
        members.remove(&self.me);
        for node in members {
            self.leave_out(now, node, format!("a checker at work on its state: {why}"));
        }
    }

    /// Leaves a member out of the runs for a while.
    fn leave_out(&mut self, now: Time, node: NodeId, why: String) {
        let before = self.left_out.get(&node);
        let pause_ms = match before.and_then(|before| Some((before.until?, before.pause_ms))) {
            Some((until, pause_ms)) if now < until.after_millis(pause_ms * FORGET) => {
                (pause_ms * 2).min(PAUSE_MS.1)
            }
            _ => PAUSE_MS.0,
        };
        let absence = Absence {
            why: why.clone(),
            until: Some(now.after_millis(pause_ms)),
            pause_ms,
        };
        self.left_out.insert(node, absence);
        self.settled = None;
        let seconds = pause_ms / 1000;
        let detail = format!("{node} for {seconds} s: {why}");
        self.fail_open("member-left-out", 1, detail);
    }

    /// Takes in whom a run went on without, and which properties panicked in it.
    pub(super) fn note_left_out(
        &mut self,
        now: Time,
        readable: bool,
        left_out: Vec<LeftOut>,
        panicked: Vec<Unjudged>,
    ) {
        self.left_out.retain(|node, absence| {
            let again = left_out.iter().any(|it| it.node == *node);
            // How long its last pause was is remembered for a while.
            again
                || absence
                    .until
                    .is_some_and(|until| now < until.after_millis(absence.pause_ms * FORGET))
        });
        for LeftOut { node, why } in left_out {
            if node == self.me {
                continue;
            }
            if !readable {
                // It has cost the run.
                self.leave_out(now, node, why);
            } else if self.left_out.get(&node).is_none_or(|it| it.until.is_some()) {
                let absence = Absence {
                    why: why.clone(),
                    until: None,
                    pause_ms: 0,
                };
                self.left_out.insert(node, absence);
                self.fail_open("member-left-out", 1, format!("{node}: {why}"));
            }
        }
        self.panicked
            .retain(|name| panicked.iter().any(|it| it.property == *name));
        for Unjudged { property, why } in panicked {
            if self.panicked.insert(property.clone()) {
                self.fail_open("property-panicked", 1, format!("{property}: {why}"));
            }
        }
    }

    /// Tells whether a member's state must not be worked with now.
    pub(super) fn is_left_out(&self, now: Time, node: NodeId) -> bool {
        let absence = self.left_out.get(&node);
        absence.is_some_and(|absence| absence.until.is_some_and(|until| now < until))
    }

    /// Takes the members out of a snapshot whose states must not be worked with now.
    pub(super) fn without_left_out(&self, now: Time, snapshot: &mut Snapshot) {
        let is_out = |node: NodeId| node != self.me && self.is_left_out(now, node);
        let out: Vec<NodeId> = snapshot.members.iter().map(|member| member.node).collect();
        snapshot.members.retain(|member| !is_out(member.node));
        let missing = out.into_iter().filter(|node| is_out(*node));
        snapshot.missing.extend(missing.map(|node| Missing {
            node,
            reason: Reason::Unreadable,
        }));
    }
}
