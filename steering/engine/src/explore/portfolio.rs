//! Several strategies on one start state, in turns: what one of them leaves out, another may find.
//!
//! Consequence prediction looks far, but lets a node act by itself once per local state: two clients that both call are
//! not seen together until one of them has called. An exhaustive search sees them, and not far. So the first
//! has seven eighths of the steps while it has something left to explore, and the second the rest; once the first has
//! nothing left, which for a small service is soon, the second has them all.
//!
//! Turns are given in steps, never in time, and whose turn it is does not depend on how a search is cut into slices: so a
//! run stays a function of its input.

use crate::explore::breadth::{Breadth, Pruning};
use crate::explore::limits::Stop;
use crate::explore::strategy::{Claim, Entry, Found, Plan, Walk};
use crate::explore::{Counts, Strategy};
use crate::interned::world::Space;

/// How many steps a turn has for each share.
const TURN: u64 = 512;

pub(super) static ENTRY: Entry = Entry {
    name: "portfolio",
    about: "consequence, and beside it exhaustive: an eighth of the steps, and all once consequence has nothing left",
    settings: &[],
    threads: true,
    seeded: false,
    goals: false,
    offline: None,
    start: |world, start, plan| Box::new(Portfolio::new(world, start, plan)),
};

impl Strategy {
    /// Consequence prediction, and beside it an exhaustive search.
    pub const PORTFOLIO: Self = Self::of(&ENTRY);
}

#[derive(Debug)]
struct Portfolio {
    start: Vec<u32>,
    members: Vec<Member>,
    /// Who has the next turn.
    turn: usize,
    /// What was found, in order of discovery.
    claims: Vec<Claim>,
}

#[derive(Debug)]
struct Member {
    walk: Box<dyn Walk>,
    /// How many shares of the steps it has.
    share: u64,
    /// Whether it has seen everything when it has nothing left to explore.
    sees_all: bool,
    stop: Option<Stop>,
    /// How many of its findings are among those of all.
    known: usize,
}

impl Portfolio {
    fn new(world: &mut Space, start: &[u32], plan: Plan) -> Self {
        let mut plan = plan;
        // Each counts the tables they share as its own, so that together they stay below the limit.
        plan.limits.bytes = plan.limits.bytes.map(|bytes| bytes / 2);
        let parts = [(Pruning::local_once(), 7), (Pruning::Off, 1)];
        let members = parts.map(|(pruning, share)| Member {
            sees_all: !pruning.is_on(),
            walk: Box::new(Breadth::new(world, start, pruning, None, plan)),
            share,
            stop: None,
            known: 0,
        });
        let mut portfolio = Self {
            start: start.to_vec(),
            members: members.into(),
            turn: 0,
            claims: Vec::new(),
        };
        for member in 0..portfolio.members.len() {
            portfolio.collect(world, member);
        }
        portfolio
    }

    /// Gives the next member its turn.
    fn step(&mut self, world: &mut Space) {
        let at = self.turn;
        self.turn = (at + 1) % self.members.len();
        let member = &mut self.members[at];
        if member.stop.is_none() {
            member.stop = member.walk.advance(world, TURN * member.share);
            self.collect(world, at);
        }
    }

    /// Takes over what a member has found and nobody before it.
    fn collect(&mut self, world: &Space, member: usize) {
        let member = &mut self.members[member];
        if member.walk.found_count() > member.known {
            let all = member.walk.found(world, &self.start);
            for found in all.into_iter().skip(member.known) {
                if !self.claims.contains(&found.claim) {
                    self.claims.push(found.claim);
                }
            }
            member.known = member.walk.found_count();
        }
    }

    /// Tells why the search ended: when one member has seen everything or found what was asked for, or when none goes on.
    fn stop(&self) -> Option<Stop> {
        let ended = |stop| self.members.iter().any(|member| member.stop == Some(stop));
        if ended(Stop::Violation) {
            return Some(Stop::Violation);
        }
        let has_seen_all =
            |member: &Member| member.sees_all && member.stop == Some(Stop::Exhausted);
        if self.members.iter().any(has_seen_all) {
            return Some(Stop::Exhausted);
        }
        let stops: Option<Vec<Stop>> = self.members.iter().map(|member| member.stop).collect();
        stops?.into_iter().find(|&stop| stop != Stop::Exhausted)
    }

    fn transitions(&self) -> u64 {
        let members = self.members.iter();
        members.map(|member| member.walk.counts().transitions).sum()
    }
}

impl Walk for Portfolio {
    fn advance(&mut self, world: &mut Space, steps: u64) -> Option<Stop> {
        let target = self.transitions().saturating_add(steps);
        while self.stop().is_none() && self.transitions() < target {
            self.step(world);
        }
        self.stop()
    }

    /// Adds up what all have looked at: what several have seen counts for each. Who has seen everything counts alone.
    fn counts(&self) -> Counts {
        let members = self.members.iter();
        let whole = members
            .clone()
            .find(|member| member.sees_all && member.stop == Some(Stop::Exhausted));
        if let Some(whole) = whole {
            return whole.walk.counts();
        }
        members.fold(Counts::default(), |sum, member| {
            let counts = member.walk.counts();
            Counts {
                states: sum.states + counts.states,
                transitions: sum.transitions + counts.transitions,
                depth: sum.depth.max(counts.depth),
                frontier: sum.frontier + counts.frontier,
            }
        })
    }

    fn for_each_waiting(&self, see: &mut dyn FnMut(&[u32])) {
        for member in &self.members {
            member.walk.for_each_waiting(see);
        }
    }

    fn found_count(&self) -> usize {
        self.claims.len()
    }

    /// Of several paths to one finding the shortest, and of equally long ones that of the first member.
    fn found(&self, world: &Space, start: &[u32]) -> Vec<Found> {
        let members = self.members.iter();
        let all: Vec<Found> = members
            .flat_map(|member| member.walk.found(world, start))
            .collect();
        let shortest = |claim: &Claim| {
            let same = all.iter().filter(|found| found.claim == *claim);
            same.min_by_key(|found| found.path.len()).cloned()
        };
        self.claims.iter().filter_map(shortest).collect()
    }

    fn pass_over_found(&mut self, world: &Space) {
        for member in &mut self.members {
            member.walk.pass_over_found(world);
            if member.stop == Some(Stop::Violation) {
                member.stop = None;
            }
        }
    }

    fn has_covered(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.stop == Some(Stop::Exhausted))
    }
}
