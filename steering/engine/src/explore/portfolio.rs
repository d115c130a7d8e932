//! Several strategies on one start state, in turns: what one of them leaves out, another may find.
//!
//! Consequence prediction looks far, but lets a node act by itself once per local state: two clients that both call are
//! not seen together until one of them has called. An exhaustive search sees them, and not far. Local model checking sees both
//! where much happens at the same time, and is lost where one thing follows another or connections keep order. So the first has
//! six eighths of the time while it has something left to explore, and the others an eighth each; what one has not used because
//! it is done, the others have.
//!
//! Turns are given in steps, never in time, and whose turn it is does not depend on how a search is cut into slices: so a
//! run stays a function of its input. The next turn is that of who has had least for its share, so that whoever overdoes one waits
//! for the others. A step of local model checking takes longer than one that is looked up in tables, and counts for as many as it takes
//! on average.

use crate::explore::breadth::{Breadth, Pruning};
use crate::explore::limits::Stop;
use crate::explore::local::Local;
use crate::explore::strategy::{Claim, Entry, Found, Plan, Walk};
use crate::explore::{Counts, Strategy};
use crate::interned::world::Space;

/// How many steps a turn has for each share.
const TURN: u64 = 512;

/// In how many shares the time is cut.
const SHARES: u64 = 8;

/// The places of two among the members.
const EXHAUSTIVE: usize = 1;
const LOCAL: usize = 2;

/// So many steps in tables take as long as one of local model checking.
const LOCAL_STEP: u64 = 16;

/// So many steps the first member takes before local model checking begins: most that is near is found by then, and what is not is
/// found a few milliseconds later.
const LOCAL_AFTER: u64 = 1 << 15;

pub(super) static ENTRY: Entry = Entry {
    name: "portfolio",
    about: "consequence, and beside it exhaustive and local: an eighth of the time each, and all once consequence has nothing left",
    settings: &[],
    threads: true,
    seeded: false,
    goals: false,
    offline: None,
    start: |world, start, plan| Box::new(Portfolio::new(world, start, plan)),
};

impl Strategy {
    /// Consequence prediction, and beside it an exhaustive search and local model checking.
    pub const PORTFOLIO: Self = Self::of(&ENTRY);
}

#[derive(Debug)]
struct Portfolio {
    start: Vec<u32>,
    members: Vec<Member>,
    /// What was found, in order of discovery, and by which members.
    claims: Vec<(Claim, Vec<usize>)>,
}

#[derive(Debug)]
struct Member {
    strategy: Strategy,
    walk: Box<dyn Walk>,
    /// How many shares of the steps it has.
    share: u64,
    /// For how many steps in tables each of its own counts.
    unit: u64,
    /// Its turns begin when the first member has taken so many steps, or is done; then this is nothing.
    after: Option<u64>,
    /// What it counts as having had before, by share: what the others had when it began.
    handicap: u64,
    stop: Option<Stop>,
    /// How many of its findings are among those of all.
    known: usize,
}

impl Portfolio {
    fn new(world: &mut Space, start: &[u32], plan: Plan) -> Self {
        // Each counts the tables they share as its own, so that together they stay below the limit.
        let with = |eighths: u64| {
            let mut plan = plan;
            plan.limits.bytes = plan.limits.bytes.map(|bytes| bytes / 8 * eighths);
            plan
        };
        let mut breadth = |strategy, pruning, share| Member {
            strategy,
            walk: Box::new(Breadth::new(world, start, pruning, None, with(3))),
            share,
            unit: 1,
            after: None,
            handicap: 0,
            stop: None,
            known: 0,
        };
        let consequence = breadth(Strategy::CONSEQUENCE, Pruning::local_once(), 6);
        let exhaustive = breadth(Strategy::EXHAUSTIVE, Pruning::Off, 1);
        let local = Member {
            strategy: Strategy::LOCAL,
            walk: Box::new(Local::new(world, start, with(2))),
            share: 1,
            unit: LOCAL_STEP,
            after: Some(LOCAL_AFTER),
            handicap: 0,
            stop: None,
            known: 0,
        };
        let members = vec![consequence, exhaustive, local];
        let mut portfolio = Self {
            start: start.to_vec(),
            members,
            claims: Vec::new(),
        };
        for member in 0..portfolio.members.len() {
            portfolio.collect(world, member);
        }
        portfolio
    }

    /// Gives the next member its turn.
    fn step(&mut self, world: &mut Space) {
        let first = &self.members[0];
        let progress = first.stop.map_or(first.walk.work(), |_| u64::MAX);
        let active = |member: &&Member| member.stop.is_none() && member.after.is_none();
        let least = self.members.iter().filter(active).map(Member::had).min();
        for member in &mut self.members {
            if member.after.is_some_and(|after| progress >= after) {
                member.after = None;
                member.handicap = least.unwrap_or(0);
            }
        }
        let members = self.members.iter().enumerate();
        let active = members.filter(|(_, member)| active(member));
        let Some((at, _)) = active.min_by_key(|(_, member)| member.had()) else {
            return;
        };
        let member = &mut self.members[at];
        let turn = (TURN * member.share).div_ceil(member.unit);
        member.stop = member.walk.advance(world, turn);
        self.collect(world, at);
    }

    /// Takes over what a member has found.
    fn collect(&mut self, world: &Space, at: usize) {
        let member = &mut self.members[at];
        if member.walk.found_count() > member.known {
            let all = member.walk.found(world, &self.start);
            for found in all.into_iter().skip(member.known) {
                match self
                    .claims
                    .iter_mut()
                    .find(|(claim, _)| *claim == found.claim)
                {
                    Some((_, finders)) => finders.push(at),
                    None => self.claims.push((found.claim, vec![at])),
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
        // What local model checking has seen is not in the tables from which others conclude what never changes: so at least the
        // first has to be done, too.
        let seen_all = |at: usize| {
            self.members[at].has_seen_all() && (at != LOCAL || self.members[0].stop.is_some())
        };
        if (0..self.members.len()).any(seen_all) {
            return Some(Stop::Exhausted);
        }
        // Within the limit of depth, an exhaustive search has seen what any other could.
        if self.members[EXHAUSTIVE].stop == Some(Stop::Depth) {
            return Some(Stop::Depth);
        }
        let stops: Option<Vec<Stop>> = self.members.iter().map(|member| member.stop).collect();
        stops?.into_iter().find(|&stop| stop != Stop::Exhausted)
    }

    fn steps(&self) -> u64 {
        let members = self.members.iter();
        members.map(|member| member.walk.work() * member.unit).sum()
    }
}

impl Member {
    /// Returns what it had for its share.
    fn had(&self) -> u64 {
        self.handicap + self.walk.work() * self.unit * SHARES / self.share
    }

    /// Tells whether it has seen everything there is.
    fn has_seen_all(&self) -> bool {
        self.stop == Some(Stop::Exhausted) && self.walk.extent().is_none()
    }
}

impl Walk for Portfolio {
    fn advance(&mut self, world: &mut Space, steps: u64) -> Option<Stop> {
        let target = self.steps().saturating_add(steps);
        while self.stop().is_none() && self.steps() < target {
            self.step(world);
        }
        self.stop()
    }

    /// Adds up what all have looked at: what several have seen counts for each. Who has seen everything counts alone.
    fn counts(&self) -> Counts {
        let members = self.members.iter();
        if let Some(whole) = members.clone().find(|member| member.has_seen_all()) {
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
        let claims = self.claims.iter();
        claims.filter_map(|(claim, _)| shortest(claim)).collect()
    }

    fn finders(&self, found: usize) -> Vec<&'static str> {
        let (_, finders) = &self.claims[found];
        let names = finders.iter().map(|&at| self.members[at].strategy.name());
        names.collect()
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
        self.members[0].stop == Some(Stop::Exhausted) || members.any(Member::has_seen_all)
    }

    fn tallies(&self) -> Vec<(&'static str, u64)> {
        let members = self.members.iter();
        let of = |member: &Member| (member.strategy.name(), member.walk.counts().transitions);
        members.map(of).collect()
    }
}
