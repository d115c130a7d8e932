//! Every state, nearest first (CrystalBall Fig. 5).

use crate::explore::Strategy;
use crate::explore::breadth::{Breadth, Pruning};
use crate::explore::strategy::Entry;

pub(super) static ENTRY: Entry = Entry {
    name: "exhaustive",
    about: "every state, nearest first",
    settings: &[],
    threads: true,
    seeded: false,
    offline: None,
    start: |world, start, plan| Box::new(Breadth::new(world, start, Pruning::Off, plan)),
};

impl Strategy {
    /// Every state, nearest first.
    pub const EXHAUSTIVE: Self = Self::of(&ENTRY);
}
