//! The classes of all states, once the exhaustive part has no end to grow to: then nothing need be suspected.

use crate::explore::breadth::{Breadth, Pruning};
use crate::explore::limits::{Limits, Stop};
use crate::explore::liveness::{Book, Wanted};
use crate::explore::report::GoalReport;
use crate::explore::strategy::{Claim, Found, Plan, Settings, Walk, steps};
use crate::explore::walk::{Task, Walks};
use crate::interned::world::Space;
use crate::property::Kind;

/// How far the classes are known.
#[derive(Debug)]
pub(super) enum Exact {
    /// Nothing was done yet.
    NotYet,
    /// The states are gone through once more.
    Going(Box<Again>),
    Known(Box<Again>),
    /// It would take more bytes than there may be.
    TooMuch,
}

/// All states once more, with their words, from where the exhaustive part begins.
#[derive(Debug)]
pub(super) struct Again {
    begin: Vec<u32>,
    search: Breadth,
}

impl Walks {
    /// Goes on to classify all states for about this many steps, if there is nothing left to explore, and tells whether it is done.
    pub(super) fn classify(&mut self, world: &mut Space, steps: u64) -> bool {
        let ended = matches!(self.task, Task::Over(Stop::Exhausted));
        if !ended || !self.exactly || self.book.targets().is_empty() {
            return true;
        }
        let mut again = match std::mem::replace(&mut self.exact, Exact::TooMuch) {
            Exact::NotYet => self.begin_again(world),
            Exact::Going(again) => again,
            known @ (Exact::Known(_) | Exact::TooMuch) => {
                self.exact = known;
                return true;
            }
        };
        let done = match again.search.advance(world, steps) {
            None => false,
            Some(Stop::Exhausted) => again.search.conclude(world, steps),
            // What walks found is what is known.
            Some(_) => return true,
        };
        self.exact = match done {
            true => Exact::Known(again),
            false => Exact::Going(again),
        };
        done
    }

    fn begin_again(&self, world: &mut Space) -> Box<Again> {
        let begin = self.after(world, &self.prefix);
        let taken = self.bytes() as u64;
        let plan = Plan {
            limits: Limits {
                bytes: self.limits.bytes.map(|limit| limit.saturating_sub(taken)),
                ..Limits::default()
            },
            threads: 1,
            seed: 0,
            settings: Settings::default(),
        };
        let wanted = Wanted {
            book: Book::new(world.goals()),
            faults: self.faults,
            cycles: false,
            bytes_max: None,
        };
        let search = Breadth::new(world, &begin, Pruning::Off, Some(wanted), plan);
        Box::new(Again { begin, search })
    }
}

impl Exact {
    fn known(&self) -> Option<&Again> {
        match self {
            Self::Known(again) => Some(again),
            Self::NotYet | Self::Going(_) | Self::TooMuch => None,
        }
    }

    /// Returns for how many goals there are dead states, if that is known.
    pub(super) fn dead_count(&self) -> Option<usize> {
        self.known().map(|again| again.search.dead_count())
    }

    /// Lists the first dead states, at the end of paths that begin with the prefix.
    pub(super) fn dead(&self, world: &Space, prefix: &[u32]) -> Option<Vec<Found>> {
        let again = self.known()?;
        let prefix = steps(world, prefix);
        let all = again.search.found(world, &again.begin).into_iter();
        let dead = all.filter_map(|found| match found.claim {
            Claim::Dead {
                goals,
                critical,
                faults,
                live,
            } => Some(Found {
                claim: Claim::Dead {
                    goals,
                    critical,
                    faults,
                    live: live.map(|live| [prefix.clone(), live].concat()),
                },
                path: [prefix.clone(), found.path].concat(),
                end: found.end,
            }),
            _ => None,
        });
        Some(dead.collect())
    }

    /// Says what came of each `eventually` property, if the classes are known.
    pub(super) fn goals(&self, world: &Space) -> Option<Vec<GoalReport>> {
        let mut all = self.known()?.search.goals(world);
        all.retain(|goal| goal.kind == Kind::Eventually);
        Some(all)
    }

    pub(super) fn goal_bytes(&self) -> u64 {
        self.known().map_or(0, |again| again.search.goal_bytes())
    }
}
