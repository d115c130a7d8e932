//! Chains of consequences: breadth-first search in which a node acts by itself once per local state (CrystalBall Fig. 8).

use crate::explore::Strategy;
use crate::explore::breadth::{Breadth, Pruning};
use crate::explore::strategy::{Entry, Kind, Setting};

const PRUNING: Setting = Setting {
    name: "pruning",
    about: "whether a node acts by itself once per local state; without, it is exactly `exhaustive`",
    kind: Kind::Switch(true),
};

pub(super) static ENTRY: Entry = Entry {
    name: "consequence",
    about: "chains of consequences: internal actions once per local state",
    settings: &[PRUNING],
    threads: true,
    seeded: false,
    goals: false,
    offline: None,
    start: |world, start, plan| {
        let pruning = match plan.settings.is_on(&PRUNING) {
            true => Pruning::local_once(),
            false => Pruning::Off,
        };
        Box::new(Breadth::new(world, start, pruning, None, plan))
    },
};

impl Strategy {
    /// Chains of consequences: internal actions once per local state.
    pub const CONSEQUENCE: Self = Self::of(&ENTRY);
}
