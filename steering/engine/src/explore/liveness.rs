//! What must come again and again, or at least once: states are alive, dead or not decided.
//!
//! A state is *live* for a property if it holds there, *recoverable* if a live state can be reached from it, and *dead* if
//! none can (B-3). The step from a state that is not dead into one that is, is the critical transition (B-5). Where limits
//! cut the space, a state from which the cut can be reached is neither, unless it is alive without what is cut off. Faults are
//! no way to recover unless that is asked for: nobody can rely on them.
//!
//! | module | what it holds |
//! |---|---|
//! | `book` | which goals hold in a state, judged once per what they see of it |
//! | `classify` | the classes of all states of an exhaustive search, exactly |
//! | `marks` | a few bits for every slot of the visited set |
//! | `cycles` | fair ways round in which a goal never holds although it could |
//! | `stroll` | random executions with weights by kind of event |
//! | `critical` | where an execution lost what it owes, by walks |
//! | `ahead` | the states that can follow one: whether a goal is among them |

mod ahead;
mod book;
mod classify;
mod critical;
mod cycles;
mod marks;
mod stroll;

pub(super) use ahead::{Ahead, ahead};
pub(super) use book::{Book, GOALS_MAX};
pub(super) use classify::Classification;
pub use critical::Case;
pub(super) use critical::{Critical, Next};
pub(super) use stroll::{
    Odds, Stroll, WEIGHT_CALL, WEIGHT_FAULT, WEIGHT_MESSAGE, WEIGHT_TIMER, take,
};

use crate::explore::strategy::{Kind, Setting, Settings};
use crate::interned::world::Space;

pub(super) const FAULT_RECOVERY: Setting = Setting {
    name: "fault-recovery",
    about: "whether a fault counts as a way to recover, for `eventually` properties",
    kind: Kind::Switch(false),
};

pub(super) const CYCLES: Setting = Setting {
    name: "cycles",
    about: "whether to look for fair cycles in which an `eventually` property never holds although it could",
    kind: Kind::Switch(true),
};

/// What a search is asked about goals.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) book: Book,
    /// Whether a fault counts as a way to recover.
    pub(super) faults: bool,
    /// Whether to look for fair cycles.
    pub(super) cycles: bool,
    /// How many bytes that may take beside all else.
    pub(super) bytes_max: Option<u64>,
}

impl Wanted {
    /// Reads the settings; `None` if there are no goals.
    pub(super) fn of(world: &Space, settings: &Settings) -> Option<Self> {
        (!world.goals().is_empty()).then(|| Self {
            book: Book::new(world.goals()),
            faults: settings.is_on(&FAULT_RECOVERY),
            cycles: settings.is_on(&CYCLES),
            bytes_max: None,
        })
    }
}
